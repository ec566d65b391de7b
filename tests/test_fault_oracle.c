/* test_fault_oracle.c: five dumps of transformers in bfloat16 with one planted bug each. The
 * reference in the profile of that engine, with the fault of that name, is as near to them at the
 * first tap that the bug reaches as the clean reference is to the clean dump; without the fault it
 * is not. */
#include "tests/support.h"
#include "tests/tap_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A twentieth of what two roundings to bf16 leave apart: a handful of cells that crossed a border.
 */
#define NEAR 2e-4

static void open_dump(const char *name, struct dump *d)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/bugs/%s.safetensors", ASSAY_SOURCE_DIR, name);
    (void)!dump_open(d, path, &err);
    assert_ok(&err);
}

/* The tap's cells; the columns of expert weights in ascending id, as ours are. The caller's. */
static double *cells_of(const struct dump *d, const char *name)
{
    const struct dump_tap *t = dump_find(d, name);
    assert_non_null(t);
    int64_t n = t->rows * t->cols;
    double *v = malloc((size_t)n * sizeof *v), *sorted = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    assert_non_null(sorted);
    dtype_to_f64(t->tensor->dtype, t->tensor->data, n, v);
    memcpy(sorted, v, (size_t)n * sizeof *v);
    if (t->kind == TAP_EXPERT_WEIGHTS) {
        char ids_name[TAP_NAME];
        tap_format(TAP_EXPERTS, t->layer, ids_name);
        const struct st_tensor *ids = dump_find(d, ids_name)->tensor;
        for (int64_t i = 0; i < n; i++) {
            int64_t row = i / t->cols * t->cols, at = row;
            int64_t mine = dtype_int_at(ids->dtype, ids->data, i);
            for (int64_t j = row; j < row + t->cols; j++)
                at += dtype_int_at(ids->dtype, ids->data, j) < mine;
            sorted[at] = v[i];
        }
    }
    free(v);
    return sorted;
}

/* How far the reference with this fault (NULL: none) is from the dump at one tap. */
static double distance(const char *dump, const char *tap, const char *fault)
{
    struct err err = ERR_INIT;
    struct dump d;
    struct loaded l;
    struct forced forced;
    struct tap_record r;
    struct faults faults = {0};
    struct session_options o = session_defaults();
    open_dump(dump, &d);
    (void)!loaded_open(&l, ASSAY_SOURCE_DIR "/fixtures/tiny-k25", &err);
    assert_ok(&err);
    (void)!profile_find("hf4", &o.profile, &err);
    const struct tokens t = {
        .id = d.tokens, .count = d.token_count, .length = &d.token_count, .sequences = 1};
    (void)!forced_read(&forced, l.model.config, &d, NULL, d.token_count, &err);
    if (fault) (void)!faults_add(&faults, fault, &err);
    assert_ok(&err);
    (void)!record_run(&r, &l, &t, &o, fault ? &faults : NULL, &forced, &err);
    assert_ok(&err);
    double *cells = cells_of(&d, tap), far = record_relative(record_find(&r, tap), cells);
    free(cells);
    record_free(&r);
    faults_clear(&faults);
    forced_free(&forced);
    loaded_close(&l);
    dump_close(&d);
    return far;
}

static void planted_bug__is_this_fault__but_for_a_few_cells(void **state)
{
    static const struct {
        const char *dump, *tap, *fault;
    } bugs[] = {
        {"nibble", "layers.1.mlp", "int4.nibble_swap"},
        {"tp_lost", "layers.2.attn", "tp.partial_sum_lost@layer=2,rank=3"},
        {"nomscale", "layers.0.attn_core", "mla.no_mscale"},
        {"noyarn", "layers.0.attn_core", "rope.no_yarn"},
        {"biasweights", "layers.1.expert_weights", "router.bias_in_weights"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        double clean = distance("clean", bugs[i].tap, NULL);
        double with = distance(bugs[i].dump, bugs[i].tap, bugs[i].fault);
        double without = distance(bugs[i].dump, bugs[i].tap, NULL);
        print_message("%s: clean %.3g, with the fault %.3g, without %.3g\n", bugs[i].dump, clean,
                      with, without);
        assert_true(clean <= NEAR && with <= NEAR && without >= 10 * NEAR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_bug__is_this_fault__but_for_a_few_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
