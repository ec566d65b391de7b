/* test_progress.c: what a long run shows: nothing for two seconds, then a plain line every ten
 * seconds, or a bar on a terminal. The clock and the terminal are this program's own. */
#include "harness/verb.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_now;
static bool on_terminal;

int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    t->tv_sec = (time_t)clock_now;
    t->tv_nsec = (long)((clock_now - (double)t->tv_sec) * 1e9);
    return 0;
}

int isatty(int fd)
{
    return on_terminal && fd == STDERR_FILENO;
}

/* Shows position k of 100 at k seconds. */
static void count_to_100(void *ctx)
{
    on_terminal = ctx != NULL;
    for (int k = 0; k <= 100; k += 5) {
        clock_now = 1000 + k;
        progress_show(NULL, "layer", k, 100);
    }
    progress_end();
}

static void report_samples(void *ctx)
{
    on_terminal = ctx != NULL;
    for (int k = 0; k <= 30; k++) {
        clock_now = 1000 + k;
        const struct progress p = {.stage = "sample",
                                   .done = k / 10,
                                   .total = 6,
                                   .share = k / 60.0,
                                   .elapsed = k,
                                   .rate = "512 tokens a second"};
        progress_report(&p);
    }
    progress_end();
}

/* What body(ctx) writes to stderr. The caller's. */
static char *said(void (*body)(void *ctx), void *ctx)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    body(ctx);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, f), size);
    fclose(f);
    return text;
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void show__says_a_line_every_ten_seconds__in_a_log(void **state)
{
    (void)state;
    char *text = said(count_to_100, NULL);
    assert_int_equal(lines_of(text), 10);
    assert_non_null(strstr(text, "assay: layer 10 of 100, 1 a second, 90 s left\n"));
    assert_non_null(strstr(text, "assay: layer 100 of 100, 1 a second, 0 s left\n"));
    assert_null(strchr(text, '\r'));
    free(text);
}

static void show__draws_a_bar__on_a_terminal(void **state)
{
    (void)state;
    char *text = said(count_to_100, &on_terminal);
    assert_int_equal(lines_of(text), 0);
    assert_non_null(strstr(text, "\rlayer [############............] 50/100, 1 a second, 50 s "
                                 "left "));
    assert_string_equal(text + strlen(text) - 4, "\r\x1b[K");
    free(text);
}

static void report__takes_rate_and_share__from_its_caller(void **state)
{
    (void)state;
    char *text = said(report_samples, NULL);
    assert_int_equal(lines_of(text), 3);
    assert_non_null(strstr(text, "assay: sample 1 of 6, 512 tokens a second, 50 s left\n"));
    assert_non_null(strstr(text, "assay: sample 3 of 6, 512 tokens a second, 30 s left\n"));
    free(text);
    text = said(report_samples, &on_terminal);
    assert_non_null(strstr(text, "\rsample [############............] 3/6, 512 tokens"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(show__says_a_line_every_ten_seconds__in_a_log),
        cmocka_unit_test(show__draws_a_bar__on_a_terminal),
        cmocka_unit_test(report__takes_rate_and_share__from_its_caller),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
