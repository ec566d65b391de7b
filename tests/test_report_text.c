/* test_report_text.c: a recorded result as text: verdict first, place, bound, names; nothing but
 * ASCII and no colour where none is asked for. */
#include "reports/text.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

static char *render(const char *json, bool colour, int rows)
{
    char *text = NULL;
    size_t size = 0;
    json_t *r = json_loads(json, 0, NULL);
    assert_non_null(r);
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    report_diff_text(r, f, colour, rows);
    fclose(f);
    json_decref(r);
    return text;
}

static const char *const failing =
    "{\"verdict\": \"fail\", \"compared\": 2, \"failed\": 1, \"unchecked\": [\"logits\"], "
    "\"profile\": \"hf4\","
    " \"profile_how\": \"as asked\", \"first\": {\"tap\": \"layers.1.mlp\", \"op\": \"moe\", "
    "\"layer\": 1, \"row\": 3, \"col\": 7},"
    " \"taps\": [{\"name\": \"embed\", \"op\": \"embed\", \"verdict\": \"pass\", \"rel_rms\": 0.0, "
    "\"bound\": 1e-3,"
    " \"bound_from\": \"user\", \"max_abs\": 0.0, \"worst\": null, \"why\": \"\"},"
    " {\"name\": \"layers.1.mlp\", \"op\": \"moe\", \"verdict\": \"fail\", \"rel_rms\": \"inf\", "
    "\"bound\": 1e-3,"
    " \"bound_from\": \"user: --bound\", \"max_abs\": 2.5, \"worst\": {\"row\": 3, \"col\": 7, "
    "\"subject\": \"nan\","
    " \"truth\": 0.5}, \"why\": \"1 cells are NaN\"}],"
    " \"flips\": [{\"layer\": 1, \"row\": 4, \"gap\": 0.5, \"allowed\": 0.01, \"certified\": "
    "false},"
    " {\"layer\": 1, \"row\": 5, \"gap\": 0.001, \"allowed\": 0.01, \"certified\": true}],"
    " \"missing\": [\"logits\"], \"extra\": [], \"promised\": [\"logits\"], \"note\": \"mind "
    "this\"}";

static void report__says_verdict_place_and_bound__of_a_failure(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "FAIL: 2 taps compared, 1 differ, 1 unchecked; profile hf4, as asked\n",
        "first divergence: layers.1.mlp (op moe, layer 1, row 3, column 7)\n",
        "bound: user: --bound\n",
        "worst element: row 3, column 7: subject nan, truth 0.5\n",
        "router: 2 rows chose other experts, 1 certified as near ties\n",
        "layer 1, row 4: gap 0.5, score errors allow 0.01\n",
        "promised or required, and absent (1): logits\n",
        "note: mind this\n",
    };
    char *text = render(failing, false, 12);
    assert_int_equal(strncmp(text, "FAIL", 4), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!strstr(text, wanted[i])) fail_msg("not in the report: %s\n%s", wanted[i], text);
    }
    for (const char *p = text; *p; p++)
        assert_true((unsigned char)*p < 0x7f && (*p >= ' ' || *p == '\n'));
    assert_null(strstr(text, "\nembed"));
    free(text);
    text = render(failing, false, 0);
    assert_non_null(strstr(text, "\nembed"));
    free(text);
}

static void report__uses_colour__only_when_asked(void **state)
{
    (void)state;
    char *text = render(failing, true, 12);
    assert_int_equal(strncmp(text, "\x1b[31mFAIL\x1b[0m", 12), 0);
    free(text);
}

static void report__says_that_nothing_was_compared(void **state)
{
    (void)state;
    char *text = render("{\"verdict\": \"fail\", \"compared\": 0, \"failed\": 0, \"first\": null}",
                        false, 12);
    assert_non_null(strstr(text, "never a pass"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__says_verdict_place_and_bound__of_a_failure),
        cmocka_unit_test(report__uses_colour__only_when_asked),
        cmocka_unit_test(report__says_that_nothing_was_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
