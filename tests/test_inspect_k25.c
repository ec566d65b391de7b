/* test_inspect_k25.c: an inspection at the size of Kimi K2.5: 64 shards, 208,215 tensors, 594 GB,
 * made with holes. At most 200 MB of memory; the time is printed, and only a run that is off by far
 * is red (the bound is 10 s on a machine without other work). */
#include "core/layout.h"
#include "harness/session.h"
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SHARDS = 64 };

/* Layer i is shard i + 1, as published; the rest is in the last three. */
static int file_of(const struct layout_tensor *t)
{
    if (t->layer >= 0) return t->layer;
    return t->dims == 1 ? 63 : t->out ? 62 : 61;
}

static enum dtype dtype_of(const struct layout_tensor *t)
{
    if (t->kind == LAYOUT_CODES || t->kind == LAYOUT_PAIR) return DT_I32;
    return strstr(t->name, "e_score_correction_bias") ? DT_F32 : DT_BF16;
}

static const char *shard_name(int shard)
{
    return textf("model-%05d-of-000064.safetensors", shard + 1);
}

static int64_t write_shard(void **state, const struct layout *l, int shard)
{
    struct err err = ERR_INIT;
    struct st_entry *entries = calloc((size_t)l->count, sizeof *entries);
    char *header = NULL;
    int64_t n = 0, header_bytes = 0;
    assert_non_null(entries);
    for (int64_t i = 0; i < l->count; i++) {
        const struct layout_tensor *t = &l->tensors[i];
        if (file_of(t) == shard)
            entries[n++] = (struct st_entry){.name = t->name,
                                             .dtype = dtype_of(t),
                                             .dims = t->dims,
                                             .shape = {t->shape[0], t->shape[1]}};
    }
    (void)!st_plan(entries, n, NULL, 0, &header, &header_bytes, &err);
    assert_ok(&err);
    int64_t data = n ? entries[n - 1].offset + entries[n - 1].bytes : 0;
    const char *path = folder_path(state, shard_name(shard));
    write_whole(path, header, (size_t)header_bytes);
    assert_int_equal(truncate(path, header_bytes + data), 0);
    free(header);
    free(entries);
    return data;
}

static void write_index(void **state, const struct layout *l, int64_t bytes)
{
    FILE *f = fopen(folder_path(state, "model.safetensors.index.json"), "w");
    assert_non_null(f);
    fprintf(f, "{\"metadata\": {\"total_size\": %lld}, \"weight_map\": {", (long long)bytes);
    for (int64_t i = 0; i < l->count; i++)
        fprintf(f, "%s\n\"%s\": \"%s\"", i ? "," : "", l->tensors[i].name,
                shard_name(file_of(&l->tensors[i])));
    fprintf(f, "}}\n");
    assert_int_equal(fclose(f), 0);
}

static void inspect__of_k25__is_fast_and_small(void **state)
{
    struct err err = ERR_INIT;
    struct config c;
    struct layout l;
    const struct layout_choice choice = {.weight_shapes = true};
    int64_t bytes = 0;
    char *full = read_whole(FIXTURE("full-k25-2l/config.json"), NULL),
         *layers = replaced(full, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 61"),
         *deep = replaced(layers, "\"vocab_size\": 2048", "\"vocab_size\": 163840");
    write_text(folder_path(state, "config.json"), deep);
    (void)!config_parse(deep, (int64_t)strlen(deep), "test", &c, &err);
    assert_ok(&err);
    (void)!layout_make(&l, &c, &choice, &err);
    assert_ok(&err);
    for (int k = 0; k < SHARDS; k++) bytes += write_shard(state, &l, k);
    write_index(state, &l, bytes);
    double began = clock_seconds();
    json_t *r = cli_passes("inspect", *state);
    double seconds = clock_seconds() - began;
    assert_int_equal(field_int(r, "tensors"), 208215);
    assert_int_equal(field_int(r, "shards"), SHARDS);
    assert_int_equal(field_int(r, "bytes"), bytes);
    assert_true(bytes == 594205904896);
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    print_message("%.1f s, at most %.0f MB resident\n", seconds, (double)usage.ru_maxrss / 1000);
    assert_true(seconds <= 60);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(usage.ru_maxrss <= 200000); /* mapped pages of headers included */
#endif
    json_decref(r);
    layout_free(&l);
    free(deep);
    free(layers);
    free(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inspect__of_k25__is_fast_and_small, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
