/* test_shard_options.c: the options that cut a model over ranks: defaults, values, refusals. */
#include "harness/shard_options.h"
#include "harness/taps_write.h"
#include "tests/support.h"

static const struct option_row options[] = {SHARD_OPTION_ROWS, {NULL, NULL, NULL, false}};
static const struct verb verb = {.name = "cut", .usage = "", .options = options};

static enum err_code read_options(int argc, const char *const *argv, enum precision precision,
                                  struct shard_plan *p, struct err *err)
{
    struct args a;
    if (args_parse(&a, &verb, argc, (char **)(uintptr_t)argv, err) != ERR_OK) return err->code;
    return shard_options_read(&a, precision, p, err);
}

static void options__default_to_one_rank(void **state)
{
    (void)state;
    struct shard_plan p;
    struct err err = ERR_INIT;
    (void)!read_options(0, NULL, PRECISION_F32, &p, &err);
    assert_ok(&err);
    assert_true(p.tp == 1 && p.ep == 1 && p.map == EXPERT_MAP_CONTIGUOUS && p.redundant == 0);
    assert_int_equal(p.reduce, DT_F32);
    (void)!read_options(0, NULL, PRECISION_F64, &p, &err);
    assert_ok(&err);
    assert_int_equal(p.reduce, DT_F64);
}

static void options__are_read(void **state)
{
    (void)state;
    static const char *const argv[] = {"--tp",         "4",           "--ep",        "8",
                                       "--expert-map", "round-robin", "--redundant", "3",
                                       "--reduce",     "bf16"};
    struct shard_plan p;
    struct err err = ERR_INIT;
    (void)!read_options(10, argv, PRECISION_F64, &p, &err);
    assert_ok(&err);
    assert_true(p.tp == 4 && p.ep == 8 && p.map == EXPERT_MAP_ROUND_ROBIN && p.redundant == 3);
    assert_int_equal(p.reduce, DT_BF16);
}

static void options__that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *argv[4];
        int argc;
        const char *where, *found, *wanted;
    } rows[] = {
        {{"--tp", "0"}, 2, "--tp", "\"0\"", "1 to 64"},
        {{"--ep", "65"}, 2, "--ep", "\"65\"", "1 to 64"},
        {{"--tp", "two"}, 2, "--tp", "\"two\"", "a whole number"},
        {{"--expert-map", "random"}, 2, "--expert-map", "random", "contiguous or round-robin"},
        {{"--reduce", "fp8"}, 2, "--reduce", "fp8", "f64 or f32 or bf16"},
        {{"--redundant", "-1"}, 2, "--redundant", "-1", "a whole number, 0"},
        {{"--tp", "16", "--ep", "8"}, 4, "--tp, --ep", "16 x 8 ranks", "at most 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shard_plan p;
        struct err err = ERR_INIT;
        (void)!read_options(rows[i].argc, rows[i].argv, PRECISION_F32, &p, &err);
        assert_err(&err, ERR_USAGE, "option", rows[i].where, rows[i].found, rows[i].wanted);
    }
}

/* ---- in a dump ---- */

/* A dump of one tap with this metadata, opened. */
static void open_dump(void **state, const struct st_meta *meta, int64_t metas, struct dump *d)
{
    static const float value = 1;
    const struct assay_tap tap = {"embed", DT_F32, 1, 1, &value};
    struct err err = ERR_INIT;
    const char *path = folder_path(state, "one.safetensors");
    (void)!taps_write(path, &tap, 1, meta, metas, &err);
    (void)!dump_open(d, path, &err);
    assert_ok(&err);
}

static void plan__comes_back_from_a_dump(void **state)
{
    static const struct shard_plan plans[] = {
        {.tp = 4, .ep = 2, .map = EXPERT_MAP_ROUND_ROBIN, .redundant = 3, .reduce = DT_BF16},
        {.tp = 1, .ep = 2, .reduce = DT_F64},
        {.tp = 1, .ep = 1, .reduce = DT_F32},
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct shard_meta_room room;
        struct st_meta meta[SHARD_METAS];
        struct shard_plan p;
        struct dump d = {0};
        struct err err = ERR_INIT;
        bool known;
        shard_plan_meta(&plans[i], &room, meta);
        open_dump(state, meta, SHARD_METAS, &d);
        (void)!shard_plan_of_dump(&d, &p, &known, &err);
        assert_ok(&err);
        assert_int_equal(known, i < 2);
        assert_true(p.tp == plans[i].tp && p.ep == plans[i].ep && p.map == plans[i].map);
        assert_true(p.redundant == plans[i].redundant && p.reduce == plans[i].reduce);
        dump_close(&d);
    }
}

static void plan__that_a_dump_does_not_say_is_one_rank(void **state)
{
    struct shard_plan p;
    struct dump d = {0};
    struct err err = ERR_INIT;
    bool known = true;
    open_dump(state, NULL, 0, &d);
    (void)!shard_plan_of_dump(&d, &p, &known, &err);
    assert_ok(&err);
    assert_true(!known && p.tp == 1 && p.ep == 1 && p.reduce == DT_F32);
    dump_close(&d);
}

static void plan__that_no_run_has_is_refused(void **state)
{
    static const struct {
        struct st_meta meta[2];
        int64_t metas;
        const char *where, *found, *wanted;
    } rows[] = {
        {{{"assay.tp", "two"}}, 1, "assay.tp", "two", "1 to 64"},
        {{{"assay.ep", "0"}}, 1, "assay.ep", "0", "1 to 64"},
        {{{"assay.redundant", "-1"}}, 1, "assay.redundant", "-1", "0 to"},
        {{{"assay.expert_map", "random"}}, 1, "assay.expert_map", "random", "contiguous"},
        {{{"assay.reduce", "fp8"}}, 1, "assay.reduce", "fp8", "f64"},
        {{{"assay.tp", "16"}, {"assay.ep", "8"}}, 2, "assay.tp, assay.ep", "16 x 8", "at most 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shard_plan p;
        struct dump d = {0};
        struct err err = ERR_INIT;
        bool known;
        open_dump(state, rows[i].meta, rows[i].metas, &d);
        (void)!shard_plan_of_dump(&d, &p, &known, &err);
        assert_err(&err, ERR_INPUT, "dump metadata", rows[i].where, rows[i].found, rows[i].wanted);
        dump_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options__default_to_one_rank),
        cmocka_unit_test(options__are_read),
        cmocka_unit_test(options__that_cannot_be_are_refused),
        cmocka_unit_test_setup_teardown(plan__comes_back_from_a_dump, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(plan__that_a_dump_does_not_say_is_one_rank, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(plan__that_no_run_has_is_refused, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
