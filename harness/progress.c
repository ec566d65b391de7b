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

/* True where a line is due at time t. */
static bool is_due(const char *stage, double t, double elapsed, bool terminal)
{
    if (!state.stage || strcmp(state.stage, stage) != 0) {
        state.stage = stage;
        state.began = t;
        state.shown = t;
    }
    if (elapsed < 2 || t - state.shown < (terminal ? 0.2 : 10)) return false;
    state.shown = t;
    return true;
}

static void print_line(const struct progress *p, bool terminal)
{
    enum { WIDTH = 24 };
    double left = p->share > 0 ? p->elapsed * (1 - p->share) / p->share : 0;
    if (!terminal) {
        fprintf(stderr, "assay: %s %lld of %lld, %s, %.0f s left\n", p->stage, (long long)p->done,
                (long long)p->total, p->rate, left);
        return;
    }
    char bar[WIDTH + 1];
    int full = (int)(WIDTH * p->share);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %lld/%lld, %s, %.0f s left \x1b[K", p->stage, bar,
            (long long)p->done, (long long)p->total, p->rate, left);
    state.bar = true;
}

void progress_report(const struct progress *p)
{
    bool terminal = isatty(STDERR_FILENO) != 0;
    if (p->total > 0 && is_due(p->stage, now(), p->elapsed, terminal)) print_line(p, terminal);
}

void progress_show(void *ctx, const char *stage, int64_t done, int64_t total)
{
    (void)ctx;
    char rate[32];
    double t = now();
    bool terminal = isatty(STDERR_FILENO) != 0, same = state.stage && !strcmp(state.stage, stage);
    double elapsed = same ? t - state.began : 0;
    if (!is_due(stage, t, elapsed, terminal) || total <= 0) return;
    snprintf(rate, sizeof rate, "%.3g a second", (double)done / elapsed);
    const struct progress p = {stage, done, total, (double)done / (double)total, elapsed, rate};
    print_line(&p, terminal);
}

void progress_end(void)
{
    if (state.bar) fprintf(stderr, "\r\x1b[K");
    state.bar = false;
    state.stage = NULL;
}
