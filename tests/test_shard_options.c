/* test_shard_options.c: the options that cut a model over ranks: defaults, values, refusals. */
#include "harness/shard_options.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options__default_to_one_rank),
        cmocka_unit_test(options__are_read),
        cmocka_unit_test(options__that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
