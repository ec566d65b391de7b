/* test_html.c: the page of a recorded result: what must stand on it, nothing from a network, no
 * text that becomes markup, bounded size. Whether a browser shows it: ci/html.sh. */
#include "reports/markup.h"
#include "tests/reporting.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define assert_holds(text, ...)                                                                    \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__, NULL};                                          \
        for (int at_ = 0; wanted[at_]; at_++) {                                                    \
            if (!strstr(text, wanted[at_])) fail_msg("not there: %s", wanted[at_]);                \
        }                                                                                          \
    } while (0)

static void html__shows_verdict_bug_and_lines__of_a_diff(void **state)
{
    (void)state;
    char *text = rendered("diff", "html");
    assert_int_equal(strncmp(text, "<!DOCTYPE html>", 15), 0);
    assert_holds(text, "<b class=word>FAIL</b> assay diff", "5 compared, 1 failed, 1 unchecked",
                 "<dd>op moe, layer 1; tap layers.1.mlp</dd>",
                 "<b>int4.nibble_swap</b> at layer=1: explains 1 of the squared error",
                 "assay op moe &#39;T=24,", "<code>int4.nibble_swap@layer=1</code>",
                 "op moe, layer 1, row 0, column 1", "subject 2.188, reference -3.477",
                 "<dd>Linux</dd>", "Where this comes from");
    /* The verdict stands before everything else. */
    assert_true(strstr(text, "class=word") < strstr(text, "<dt>guilty"));
    free(text);
}

static void html__plots_growth__with_what_is_not_finite(void **state)
{
    (void)state;
    char *text = rendered("diff", "html");
    assert_int_equal(times(text, "<circle class=p0 cx"), 5 + 1); /* of six layers; the legend's */
    assert_int_equal(times(text, "<circle class=p1 cx"), 5 + 1);
    assert_int_equal(times(text, "<circle class=p2 cx"), 6 + 1);
    assert_int_equal(times(text, "<path class=px"), 1);
    assert_holds(text, "<title>layer 3, subject: not finite</title>",
                 "<title>layer 0, bound: 0.007812</title>", ">1e-3</text>", ">1e-2</text>");
    /* The broken line starts again behind the gap. */
    const char *line = strstr(text, "<path class=l0 d=\"M70.0");
    assert_non_null(line);
    assert_int_equal(strcspn(line + 22, "M") < strcspn(line + 22, "\""), 1);
    free(text);
}

/* Three layers over two decades: both edges and the middle of a field of 774 by 260. */
static void plot__puts_points_where_their_values_are(void **state)
{
    (void)state;
    json_t *r = quoted("{'verb': 'diff', 'verdict': 'fail', 'compared': 1, 'taps': [], 'growth': ["
                       "{'layer': 7, 'subject': 0.001, 'profile': 0.01, 'bound': 0.1}, "
                       "{'layer': 8, 'subject': 0.01, 'profile': null, 'bound': 0.1}, "
                       "{'layer': 9, 'subject': 0.1, 'profile': 0.001, 'bound': 0.01}]}");
    char *text = rendered_of(r, "html");
    assert_holds(text, "<path class=l0 d=\"M70.0 276.0L457.0 146.0L844.0 16.0\"/>",
                 "<path class=l1 d=\"M70.0 146.0M844.0 276.0\"/>",
                 "<path class=l2 d=\"M70.0 16.0L457.0 16.0L844.0 146.0\"/>",
                 "<circle class=p0 cx=457.0 cy=146.0 r=3><title>layer 8, subject: 0.01</title>",
                 "y1=276.0 y2=276.0 /><text class=d x=62 y=280.0 text-anchor=end>1e-3</text>",
                 "y1=16.0 y2=16.0 /><text class=d x=62 y=20.0 text-anchor=end>1e-1</text>",
                 "<text class=d x=844.0 y=294 text-anchor=middle>9</text>");
    free(text);
    json_decref(r);
}

/* Lists that the page cuts say by how much; one that just fits is not cut. */
static void lists__are_cut_with_a_count(void **state)
{
    (void)state;
    for (int n = 200; n <= 202; n += 2) {
        json_t *all = json_array(), *missing = json_array();
        for (int i = 0; i < n; i++) {
            json_array_append_new(all, json_pack("{s:s, s:f}", "fault", "f.f", "explains", 0.5));
            json_array_append_new(missing, json_string("a.tap"));
        }
        json_t *r = json_pack("{s:s, s:s, s:i, s:[], s:o, s:o}", "verb", "diff", "verdict", "fail",
                              "compared", 1, "taps", "hypotheses", all, "missing", missing);
        char *text = rendered_of(r, "html");
        assert_int_equal(times(text, "<td>f.f</td>"), 200);
        assert_int_equal(times(text, "<bdi>a.tap</bdi>"), 200);
        assert_int_equal(times(text, "... and 2 more: the JSON has all."), n > 200);
        assert_int_equal(times(text, "</bdi>, ...</p>"), n > 200);
        assert_int_equal(times(text, "more: the JSON"), n > 200);
        free(text);
        json_decref(r);
    }
}

static void html__maps_the_error__with_lines_that_can_be_switched(void **state)
{
    (void)state;
    char *text = rendered("diff", "html");
    assert_int_equal(times(text, "<rect class=\"cell "), 6 * 16 - 1); /* one is equal */
    assert_int_equal(times(text, "<rect class=\"cell ci\""), 1);
    assert_int_equal(times(text, "<rect class=\"cell c9\""), 1);
    assert_int_equal(times(text, "<line class=\"grid g0\""), 3); /* 64 columns in heads of 16 */
    assert_int_equal(times(text, "<line class=\"grid g1\""), 1); /* in groups of 32 */
    assert_holds(text, "class=t0 id=m0t0 checked><label for=m0t0>heads (16 columns)</label>",
                 "class=t1 id=m0t1><label for=m0t1>groups of 32 (32 columns)</label>",
                 "<title>row 0, column 0 to 3: 2</title>");
    free(text);
}

static void html__lists_flips_hypotheses_and_taps(void **state)
{
    (void)state;
    char *text = rendered("diff", "html");
    assert_holds(text, "<td>0, 3</td><td>0, 2</td>", "certified</td>", "<td>moe.scaling_twice</td>",
                 "<meter min=0 max=1 value=0.4661>",
                 "<td>layers.1.mlp_norm</td><td>norm</td><td class=\"s pass\">pass</td>",
                 "Not in the subject (1)");
    free(text);
}

static void html__shows_cases__of_other_verbs(void **state)
{
    (void)state;
    char *text = rendered("op", "html");
    assert_holds(text, "3 failed, 1 passed", "not implemented on gpu", "<td class=\"s error\">");
    assert_int_equal(times(text, "<svg"), 0);
    free(text);
    text = rendered("plan", "html");
    assert_holds(text, "<details open><summary><b class=fail>not as expected</b> step mine",
                 "<details><summary><b class=pass>as expected</b> step planted",
                 "1 of 4 steps not as expected");
    free(text);
    text = rendered("error", "html");
    assert_holds(text, "<b class=word>ERROR</b>", "found No such file or directory");
    free(text);
    text = rendered("nothing", "html");
    assert_holds(text, "nothing was compared: that is never a pass");
    free(text);
}

static void html__asks_nothing_of_a_network(void **state)
{
    (void)state;
    static const char *const banned[] = {"http:", "https:", "src=", "href=", "url(", "@import"};
    for (int i = 0; kept_results[i]; i++) {
        char *text = rendered(kept_results[i], "html");
        for (size_t k = 0; k < sizeof banned / sizeof banned[0]; k++) {
            if (strstr(text, banned[k])) fail_msg("%s holds %s", kept_results[i], banned[k]);
        }
        assert_holds(text, "Content-Security-Policy content=\"default-src 'none';");
        free(text);
    }
}

static void html__writes_hostile_texts_out(void **state)
{
    (void)state;
    char *text = rendered("hostile", "html");
    assert_int_equal(times(text, "<script"), 1); /* its own */
    assert_int_equal(times(text, "</script"), 1);
    assert_int_equal(times(text, "alert(1)</"), 0);
    assert_true(times(text, "a\\u202e&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\x01") >
                20);
    assert_null(strstr(text, "<i>")); /* where a number was to stand */
    assert_null(strstr(text, "<u>"));
    assert_null(strstr(text, "<b>\""));
    assert_int_equal(times(text, "<b>") + 1, times(text, "</b>")); /* the verdict has a class */
    assert_holds(text, "assay diff &#39;it&#39;\\&#39;&#39;s&#39;");
    for (const char *p = text; *p; p++)
        assert_true((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t');
    free(text);
}

static void markup__keeps_plain_text_and_escapes_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
        size_t most;
    } rows[] = {
        {"plain", "plain", 99},
        {"a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;", 99},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 99},
        {"\x01\x7F\t\n", "\\x01\\x7f\t\n", 99},
        {"\xC2\x85\xE2\x80\xAE\xEF\xBB\xBF\xEF\xBF\xBE", "\\u0085\\u202e\\ufeff\\ufffe", 99},
        {"\xFF\xC3", "\\xff\\xc3", 99},
        {"\xE2\x82\xAC\xE2\x82\xAC", "\xE2\x82\xAC...", 2},
        {"abc", "abc", 3},
        {"abcd", "abc...", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[128] = "";
        FILE *f = fmemopen(out, sizeof out, "w");
        assert_non_null(f);
        markup_short(f, rows[i].text, rows[i].most);
        fclose(f);
        assert_string_equal(out, rows[i].wanted);
    }
}

/* A result like that of a model of 61 layers whose every tap differs, with texts of `length`. */
static json_t *large(int layers, int taps, size_t length)
{
    char *text = malloc(length + 1), name[64];
    assert_non_null(text);
    memset(text, '&', length);
    text[length] = '\0';
    json_t *list = json_array(), *growth = json_array(), *levels = json_array(),
           *flips = json_array();
    for (int i = 0; i < layers * taps; i++) {
        snprintf(name, sizeof name, "layers.%d.tap%d", i / taps, i % taps);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:s, s:s}", "name", name,
                                        "op", "moe", "verdict", "fail", "rel_rms", 0.5, "bound",
                                        0.1, "max_abs", 3.0, "bound_from", text, "why", text));
    }
    for (int i = 0; i < layers; i++)
        json_array_append_new(growth, json_pack("{s:i, s:f, s:f, s:f}", "layer", i, "subject", 0.5,
                                                "profile", 0.1, "bound", 0.2));
    for (int i = 0; i < 64; i++) {
        json_t *row = json_array();
        for (int k = 0; k < 64; k++) json_array_append_new(row, json_integer(-i - k));
        json_array_append_new(levels, row);
    }
    for (int i = 0; i < 20000; i++)
        json_array_append_new(flips, json_pack("{s:i, s:i, s:[i,i], s:[i,i], s:f, s:f}", "layer", 1,
                                               "row", i, "subject", 1, 2, "truth", 1, 3, "gap", 0.1,
                                               "allowed", 0.2));
    json_t *map = json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:[{s:s, s:i}]}", "tap", "x", "rows",
                            4096, "cols", 7168, "row_step", 64, "col_step", 128, "levels", levels,
                            "divisions", "what", "groups of 32", "size", 32);
    free(text);
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "verb", "diff", "verdict", "fail",
                     "compared", layers * taps, "taps", list, "growth", growth, "flips", flips,
                     "error_map", map);
}

static void html__stays_small__of_a_large_result(void **state)
{
    (void)state;
    json_t *r = large(61, 14, 160);
    char *text = rendered_of(r, "html");
    assert_true(strlen(text) < 5000000);
    assert_int_equal(times(text, "<td>layers."), 61 * 14);
    assert_int_equal(times(text, "<td>1, 2</td><td>1, 3</td>"), 1000);
    assert_int_equal(times(text, "<rect class=\"cell "), 64 * 64);
    assert_int_equal(times(text, "<line class=\"grid"), 0); /* finer than a block of 128 */
    assert_holds(text, "... and 19000 more: the JSON has all.",
                 "finer than a block: groups of 32 (32 columns)</span>");
    free(text);
    json_decref(r);
}

static void html__shows_no_map__that_is_none(void **state)
{
    (void)state;
    static const char *const maps[] = {
        "{}",
        "{\"levels\": []}",
        "{\"levels\": [[]], \"cols\": 1, \"row_step\": 1, \"col_step\": 1}",
        "{\"levels\": [[1]], \"cols\": 1, \"row_step\": 0, \"col_step\": 1}",
        "{\"levels\": [[1]], \"cols\": -1, \"row_step\": 1, \"col_step\": 1}",
        "7",
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        json_t *r = kept_result("diff"), *map = json_loads(maps[i], JSON_DECODE_ANY, NULL);
        json_object_set_new(r, "error_map", map);
        char *text = rendered_of(r, "html");
        assert_null(strstr(text, "Where the error lies"));
        free(text);
        json_decref(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html__shows_verdict_bug_and_lines__of_a_diff),
        cmocka_unit_test(html__plots_growth__with_what_is_not_finite),
        cmocka_unit_test(plot__puts_points_where_their_values_are),
        cmocka_unit_test(lists__are_cut_with_a_count),
        cmocka_unit_test(html__maps_the_error__with_lines_that_can_be_switched),
        cmocka_unit_test(html__lists_flips_hypotheses_and_taps),
        cmocka_unit_test(html__shows_cases__of_other_verbs),
        cmocka_unit_test(html__asks_nothing_of_a_network),
        cmocka_unit_test(html__writes_hostile_texts_out),
        cmocka_unit_test(html__stays_small__of_a_large_result),
        cmocka_unit_test(html__shows_no_map__that_is_none),
        cmocka_unit_test(markup__keeps_plain_text_and_escapes_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
