/* test_amplified.c: rounding that an op makes larger is no fault, and a fault in the same row is.
 */
#include "core/dtype.h"
#include "tests/cli.h"

#include <string.h>

/* Runs the program; its progress on stderr is its own affair. The object is the caller's. */
static json_t *judged(int status, const char *path)
{
    struct cli r;
    cli(&r, "diff", path, "--model", fixture_synth("mid-k25"), "--profile", "gpu", "--json");
    assert_int_equal(r.status, status);
    json_t *out = json_incref(r.json);
    assert_non_null(out);
    cli_free(&r);
    return out;
}

/* mid-k25 in profile gpu, summed in another order than the profile's own run: experts whose output
 * hangs on few inner values err several times as much in one order as in the other. */
static const char *dump(void **state)
{
    const char *path = textf("%s/subject.safetensors", (char *)*state);
    struct cli r;
    cli(&r, "forward", fixture_synth("mid-k25"), "--tokens", "@" FIXTURE("mid-k25/golden.json"),
        "--on", "ref", "--profile", "gpu", "--linear", "blas", "--out", path);
    assert_int_equal(r.status, 0);
    cli_free(&r);
    return path;
}

static void rows__pass_and_are_shown__where_the_op_is_right_from_its_own_inputs(void **state)
{
    const char *path = dump(state);
    json_t *r = judged(0, path);
    const json_t *tap, *taps = field(r, "taps");
    size_t i;
    int64_t rows = 0;
    json_array_foreach(taps, i, tap)
    {
        assert_string_equal(field_text(tap, "verdict"), "pass");
        if (json_object_get(tap, "amplified_rows")) rows += field_int(tap, "amplified_rows");
    }
    assert_true(rows > 0);
    json_decref(r);
}

static void row__stays_red__where_the_op_is_wrong_from_its_own_inputs(void **state)
{
    const char *path = dump(state), *spoiled = textf("%s/spoiled.safetensors", (char *)*state);
    struct st_edit e;
    st_edit_read(&e, path);
    /* One row of one tap, each value 12 % off: too little for the tap as a whole. */
    float *routed = (float *)st_edit_data(&e, "layers.3.routed");
    for (int64_t c = 0; c < 1024; c++) routed[5 * 1024 + c] *= c % 2 ? 1.06F : 0.94F;
    st_edit_write(&e, spoiled);
    st_edit_free(&e);
    json_t *r = judged(1, spoiled);
    assert_string_equal(field_text(field(r, "first"), "tap"), "layers.3.routed");
    assert_string_equal(field_text(named(field(r, "taps"), "layers.3.routed"), "verdict"), "fail");
    json_decref(r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows__pass_and_are_shown__where_the_op_is_right_from_its_own_inputs),
        TEST(row__stays_red__where_the_op_is_wrong_from_its_own_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
