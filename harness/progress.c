/* progress.c: how far a long run has come; see verb.h. */
#include "harness/verb.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *stage;
    double began, shown;
    bool bar; /* a bar stands on the terminal's line */
} state;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_show(void *ctx, const char *stage, int64_t done, int64_t total)
{
    enum { WIDTH = 24 };
    (void)ctx;
    double t = now();
    bool terminal = isatty(STDERR_FILENO) != 0;
    if (state.stage != stage && (!state.stage || strcmp(state.stage, stage) != 0)) {
        state.stage = stage;
        state.began = t;
        state.shown = t;
    }
    double elapsed = t - state.began, since = t - state.shown;
    if (elapsed < 2 || since < (terminal ? 0.2 : 10) || total <= 0) return;
    state.shown = t;
    double rate = (double)done / elapsed, left = rate > 0 ? (double)(total - done) / rate : 0;
    if (!terminal) {
        fprintf(stderr, "assay: %s %lld of %lld, %.3g a second, %.0f s left\n", stage,
                (long long)done, (long long)total, rate, left);
        return;
    }
    char bar[WIDTH + 1];
    int full = (int)(WIDTH * done / total);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %lld/%lld, %.3g a second, %.0f s left \x1b[K", stage, bar,
            (long long)done, (long long)total, rate, left);
    state.bar = true;
}

void progress_end(void)
{
    if (state.bar) fprintf(stderr, "\r\x1b[K");
    state.bar = false;
    state.stage = NULL;
}
