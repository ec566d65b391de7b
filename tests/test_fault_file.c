/* test_fault_file.c: a checkpoint with one thing wrong: what was edited is what is said, nothing
 * else is, and `inspect` names it. */
#include "harness/fault_file.h"
#include "tests/cli.h"

#include <string.h>
#include <unistd.h>

/* A checkpoint of three shards in folder/clean. */
static const char *checkpoint(void **state)
{
    const char *path = textf("%s/clean", (const char *)*state);
    if (!file_is_folder(path)) {
        json_t *made = cli_passes("synth", FIXTURE("tiny-k25") "/config.json", "--seed", "5",
                                  "--shrink", "layers=2,experts=4", "--shards", "3", "--out", path);
        json_decref(made);
    }
    return path;
}

static bool inject(void **state, const char *id, uint64_t seed, struct fault_file *f)
{
    struct err err = ERR_INIT;
    bool inert;
    assert_int_equal(fault_file_inject(fault_find(id), seed, checkpoint(state),
                                       textf("%s/%s-%d", (const char *)*state, id, (int)seed), f,
                                       &inert, &err),
                     ERR_OK);
    return !inert;
}

static const char *folder_of(void **state, const char *id, int seed)
{
    return textf("%s/%s-%d", (const char *)*state, id, seed);
}

/* stdout of `inspect`, with the contract where there is one. */
static int inspect(const char *folder, const char *contract, char **text)
{
    struct cli r;
    if (contract)
        cli(&r, "inspect", folder, "--against", contract, "--json");
    else
        cli(&r, "inspect", folder, "--json");
    *text = strdup(r.out[0] ? r.out : r.err);
    int status = r.status;
    cli_free(&r);
    return status;
}

/* Every file fault: red by inspect or by what was recorded, its place named. */
static void every_fault__is_seen_and_named(void **state)
{
    const char *contract = textf("%s/contract.json", (const char *)*state);
    json_t *recorded = cli_passes("inspect", checkpoint(state), "--record", contract);
    json_decref(recorded);
    int faults = 0;
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *row = fault_at(i);
        struct fault_file f;
        if (row->stage != FAULT_FILE) continue;
        bool content = strcmp(row->detector, "inspect --against") == 0;
        assert_true(content || strcmp(row->detector, "inspect") == 0);
        char *text;
        if (!inject(state, row->id, 3, &f)) fail_msg("%s cannot occur", row->id);
        int status = inspect(folder_of(state, row->id, 3), NULL, &text);
        assert_int_equal(status == 0, content);
        free(text);
        status = inspect(folder_of(state, row->id, 3), contract, &text);
        assert_true(status == 1 || status == 2);
        if (!strstr(text, f.file) && !(f.tensor[0] && strstr(text, f.tensor)))
            fail_msg("%s: neither %s nor %s in %s", row->id, f.file, f.tensor, text);
        free(text);
        faults++;
    }
    assert_int_equal(faults, 10);
}

static void bit_flip__changes_one_bit(void **state)
{
    struct fault_file f;
    size_t n, m;
    int bits = 0;
    assert_true(inject(state, "file.bit_flip", 4, &f));
    char *a = read_whole(textf("%s/%s", checkpoint(state), f.file), &n);
    char *b = read_whole(textf("%s/%s", folder_of(state, "file.bit_flip", 4), f.file), &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) bits += __builtin_popcount((unsigned char)(a[i] ^ b[i]));
    assert_int_equal(bits, 1);
    assert_true(f.content && f.tensor[0]);
    free(a);
    free(b);
}

static void other_files__are_untouched__and_the_source_too(void **state)
{
    struct fault_file f;
    uint64_t before = folder_print(checkpoint(state));
    assert_true(inject(state, "file.truncated", 1, &f));
    assert_true(folder_print(checkpoint(state)) == before);
    int same = 0, shards = 0;
    for (int i = 1; i <= 3; i++) {
        const char *name = textf("model-%05d-of-%06d.safetensors", i, 3);
        size_t n, m;
        char *a = read_whole(textf("%s/%s", checkpoint(state), name), &n);
        char *b = read_whole(textf("%s/%s", folder_of(state, "file.truncated", 1), name), &m);
        bool equal = n == m && memcmp(a, b, n) == 0;
        assert_int_equal(equal, strcmp(name, f.file) != 0);
        same += equal;
        shards++;
        free(a);
        free(b);
    }
    assert_int_equal(shards, 3);
    assert_int_equal(same, 2);
}

static void seeds__pick_other_places(void **state)
{
    struct fault_file a, b, again;
    int other = 0;
    assert_true(inject(state, "file.missing_tensor", 1, &a));
    for (int seed = 2; seed < 6; seed++) {
        assert_true(inject(state, "file.missing_tensor", (uint64_t)seed, &b));
        other += strcmp(a.tensor, b.tensor) != 0;
    }
    assert_true(other >= 3);
    struct err err = ERR_INIT;
    bool inert;
    assert_int_equal(fault_file_inject(fault_find("file.missing_tensor"), 1, checkpoint(state),
                                       textf("%s/again", (const char *)*state), &again, &inert,
                                       &err),
                     ERR_OK);
    assert_string_equal(a.tensor, again.tensor);
}

/* One shard has no other to be swapped with: nothing is left. */
static void swapped_shards__cannot_occur__in_one_shard(void **state)
{
    struct fault_file f;
    struct err err = ERR_INIT;
    bool inert = false;
    const char *to = textf("%s/one-swapped", (const char *)*state);
    assert_int_equal(fault_file_inject(fault_find("file.swapped_shards"), 1,
                                       small_model(state, "one"), to, &f, &inert, &err),
                     ERR_OK);
    assert_true(inert);
    assert_false(file_is_folder(to));
}

static void inject__refuses__what_it_cannot_do(void **state)
{
    struct fault_file f;
    struct err err = ERR_INIT;
    bool inert;
    const char *to = textf("%s/x", (const char *)*state);
    (void)!fault_file_inject(fault_find("mla.no_mscale"), 1, checkpoint(state), to, &f, &inert,
                             &err);
    assert_err(&err, ERR_USAGE, "inject file fault", "mla.no_mscale", "no edit of a file", NULL);
    err_clear(&err);
    (void)!fault_file_inject(fault_find("file.prefix"), 1, checkpoint(state), checkpoint(state), &f,
                             &inert, &err);
    assert_err(&err, ERR_USAGE, "inject file fault", "clean", "something of that name", NULL);
    err_clear(&err);
    (void)!fault_file_inject(fault_find("file.prefix"), 1, *state, to, &f, &inert, &err);
    assert_err(&err, ERR_INPUT, "inject file fault", NULL, "no model*.safetensors", NULL);
    assert_false(file_is_folder(to));
    err_clear(&err);
    write_text(folder_path(state, "model.safetensors"), "short");
    (void)!fault_file_inject(fault_find("file.prefix"), 1, *state, to, &f, &inert, &err);
    assert_err(&err, ERR_INPUT, "inject file fault", "model.safetensors", "5 bytes", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_fault__is_seen_and_named, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(bit_flip__changes_one_bit, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(other_files__are_untouched__and_the_source_too,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(seeds__pick_other_places, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(swapped_shards__cannot_occur__in_one_shard, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(inject__refuses__what_it_cannot_do, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
