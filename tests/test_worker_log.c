/* test_worker_log.c: a rank's stderr line by line: passed on with its rank, its end kept, harmless
 * lines folded, bounded whatever comes. */
#include "harness/worker_log.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct worker_log l;

/* What was passed on of `text`, fed in pieces of n bytes. The caller's. */
static char *passed_on(const char *text, size_t n)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    worker_log_open(&l, 3, f);
    for (size_t at = 0, all = strlen(text); at < all; at += n)
        worker_log_feed(&l, text + at, all - at < n ? all - at : n);
    worker_log_end(&l);
    rewind(f);
    char *out = calloc(1, 1 << 16);
    assert_non_null(out);
    out[fread(out, 1, (1 << 16) - 1, f)] = '\0';
    fclose(f);
    return out;
}

static void lines__are_passed_on_with_their_rank_however_they_come(void **state)
{
    (void)state;
    for (size_t n = 1; n < 20; n++) {
        char *out = passed_on("one\ntwo words\n\nthree", n);
        assert_string_equal(out, "assay: rank 3: one\nassay: rank 3: two words\nassay: rank 3: \n"
                                 "assay: rank 3: three\n");
        assert_string_equal(l.tail, "one\ntwo words\n\nthree\n");
        assert_int_equal(l.lines, 4);
        free(out);
    }
}

static void bytes__that_are_no_text_become_question_marks(void **state)
{
    (void)state;
    char *out = passed_on("a\x01\xff\x1b[31mgrün\n", 100);
    assert_string_equal(out, "assay: rank 3: a???[31mgrün\n");
    free(out);
}

static void line__that_is_too_long_is_cut(void **state)
{
    (void)state;
    char text[3 * LOG_LINE];
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 6, "\nend\n", 6);
    char *out = passed_on(text, 1000);
    assert_non_null(strstr(out, "xxx...\nassay: rank 3: end\n"));
    assert_int_equal(l.lines, 2);
    free(out);
}

static void tail__keeps_the_last_whole_lines(void **state)
{
    (void)state;
    worker_log_open(&l, 0, NULL);
    for (int i = 0; i < 5000; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "line %d\n", i);
        worker_log_feed(&l, text, (size_t)n);
    }
    assert_int_equal(strlen(l.tail), l.tail_bytes);
    assert_in_range(l.tail_bytes, LOG_TAIL / 2, LOG_TAIL - 1);
    assert_int_equal(strncmp(l.tail, "line ", 5), 0);
    assert_non_null(strstr(l.tail, "line 4999\n"));
    json_t *lines = worker_log_json(l.tail);
    assert_string_equal(json_string_value(json_array_get(lines, json_array_size(lines) - 1)),
                        "line 4999");
    json_decref(lines);
}

static void harmless_lines__are_folded_with_their_reason(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof text, "%s 1\nreal\n%s 2\n", worker_log_harmless[0].part,
             worker_log_harmless[0].part);
    char *out = passed_on(text, 7);
    assert_string_equal(l.tail, "real\n");
    assert_non_null(strstr(out, "assay: rank 3: real\nassay: rank 3: 2 lines \""));
    assert_non_null(strstr(out, worker_log_harmless[0].why));
    free(out);
    for (int i = 0; i < LOG_HARMLESS && worker_log_harmless[i].part; i++)
        assert_true(strlen(worker_log_harmless[i].part) > 8 && worker_log_harmless[i].why[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines__are_passed_on_with_their_rank_however_they_come),
        cmocka_unit_test(bytes__that_are_no_text_become_question_marks),
        cmocka_unit_test(line__that_is_too_long_is_cut),
        cmocka_unit_test(tail__keeps_the_last_whole_lines),
        cmocka_unit_test(harmless_lines__are_folded_with_their_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
