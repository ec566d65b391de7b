/* test_bench_row.c: a row of bench says what it was a share of, and what passed between ranks. */
#include "harness/bench_row.h"

#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_ceilings ceilings = {.read = 4e12, .copy = 3e12, .matmul = 8e14};

static struct bench_row row(double bytes, double flops, double bus)
{
    struct bench_row r = {
        .seconds = 1e-3, .spread = 0.02, .rounds = 21, .bytes = bytes, .flops = flops, .bus = bus};
    memcpy(r.text, "a case; graph, 1 set", sizeof "a case; graph, 1 set");
    return r;
}

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static void row__names_the_ceiling_that_binds(void **state)
{
    static const struct kernel_log none;
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        const struct bench_row r = row(2e9, wide ? 6e11 : 1e11, 0);
        json_t *j = bench_row_json("layer", "gpu", &r, &ceilings, &none);
        const char *binds = json_string_value(json_object_get(j, "ceiling"));
        assert_string_equal(binds, wide ? "matmul" : "read");
        assert_true(fabs(number(j, "share") - (wide ? 0.75 : 0.5)) < 1e-12);
        assert_true(fabs(number(j, "gbps") - 2000) < 1e-9);
        assert_null(json_object_get(j, "busbw_gbps"));
        assert_null(json_object_get(j, "profile"));
        char *text = json_dumps(j, JSON_COMPACT);
        assert_true(strstr(text, "\"kernels\"") > strstr(text, "\"share\""));
        free(text);
        json_decref(j);
    }
}

static void row__of_ranks_alone__is_a_share_of_nothing(void **state)
{
    static const struct kernel_log none;
    const struct bench_row r = row(64e6, 0, 96e6);
    (void)state;
    json_t *j = bench_row_json("all_reduce", "gpu", &r, NULL, &none);
    assert_null(json_object_get(j, "share"));
    assert_true(fabs(number(j, "busbw_gbps") - 96) < 1e-9);
    assert_true(number(j, "bytes") == 64e6);
    json_decref(j);
}

static char *printed(const json_t *row)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    bench_row_print(row, f);
    fclose(f);
    return text;
}

/* Each part only where the row has it. */
static void row__shows_what_it_has(void **state)
{
    static const struct kernel_log none;
    const struct bench_row r = row(64e6, 0, 96e6);
    (void)state;
    json_t *j = bench_row_json("all_reduce", "gpu", &r, NULL, &none);
    char *text = printed(j);
    assert_int_equal(strncmp(text, "all_reduce   a case; graph, 1 set ", 34), 0);
    assert_non_null(strstr(text, "    1000.00 us  +- 1.0 %      64.0 GB/s  bus     96.0 GB/s\n"));
    free(text);
    json_object_set_new(j, "against", json_object());
    text = printed(j);
    assert_non_null(strstr(text, " GB/s  new\n")); /* of a run that has no such row */
    free(text);
    json_decref(j);
}

static void row__is_one_line__with_what_it_is_held_against(void **state)
{
    static const struct kernel_log none;
    const struct bench_row r = row(2e9, 1e11, 0);
    (void)state;
    json_t *j = bench_row_json("layer", "gpu", &r, &ceilings, &none);
    json_object_set_new(
        j, "against",
        json_pack("{s:s, s:f, s:f}", "verdict", "faster", "ratio", 1.5, "noise", 0.03));
    char *text = printed(j);
    assert_non_null(strstr(text, "a case; graph, 1 set"));
    assert_non_null(strstr(text, "50.0 % of read  x1.500 faster (noise 3.0 %)\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row__names_the_ceiling_that_binds),
        cmocka_unit_test(row__of_ranks_alone__is_a_share_of_nothing),
        cmocka_unit_test(row__shows_what_it_has),
        cmocka_unit_test(row__is_one_line__with_what_it_is_held_against),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
