/* guard_watch.c: see guard_watch.h. */
#include "harness/guard_watch.h"

#include "harness/guard_fold.h"
#include "harness/guard_stall.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 200 };

struct watching {
    struct guard_watch *w;
    struct guard_lines lines[2];
    struct guard_stall stall;
    pid_t command;
    int status;
    bool ended, told;
    double killed; /* when a hanging command was asked to end; 0: not */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what happens ---- */

/* Signals by which programs are ended on purpose, or by a pipe that nobody reads. */
static bool on_purpose(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGPIPE;
}

static void orphan(const struct watching *a, const struct guard_event *e)
{
    char message[160];
    int number = WIFSIGNALED(e->status) ? WTERMSIG(e->status) : 0;
    if (e->status == 0 || (number && on_purpose(number))) return;
    if (number)
        snprintf(message, sizeof message, "process %d (%s) ended by signal %d (%s)", (int)e->pid,
                 e->name, number, strsignal(number));
    else
        snprintf(message, sizeof message, "exit %d of process %d (%s), which nobody looked at",
                 WEXITSTATUS(e->status), (int)e->pid, e->name);
    json_t *one = guard_fold_finding(number ? "worker_died" : "child_status", e->name, 0, message);
    json_object_set_new(one, "child", json_integer(e->pid));
    guard_log_append(a->w->log, one, 1);
    json_decref(one);
}

static void read_events(struct watching *a)
{
    struct guard_event e;
    ssize_t n = read(a->w->events, &e, sizeof e);
    if (n < 0 && errno == EINTR) return;
    if (n != (ssize_t)sizeof e) {
        a->ended = true;
        return;
    }
    if (e.kind == GUARD_COMMAND) a->command = e.pid;
    if (e.kind == GUARD_ORPHAN) orphan(a, &e);
    if (e.kind != GUARD_ENDED) return;
    a->status = e.status;
    a->ended = a->told = true;
}

static void read_stream(struct watching *a, int i)
{
    static char part[1 << 16];
    ssize_t n = read(a->w->stream[i], part, sizeof part);
    double now = now_s();
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close(a->w->stream[i]);
        a->w->stream[i] = -1;
        return;
    }
    guard_lines_feed(&a->lines[i], part, (size_t)n, now);
    guard_stall_alive(&a->stall, now);
}

/* ---- hangs ---- */

/* All lines of all stacks, for those who only look at the trace. */
static json_t *all_stacks(const json_t *processes)
{
    json_t *trace = json_array();
    for (size_t i = 0; i < json_array_size(processes); i++) {
        char head[640];
        const json_t *p = json_array_get(processes, i);
        snprintf(head, sizeof head, "process %lld: %s",
                 (long long)json_integer_value(json_object_get(p, "pid")),
                 json_string_value(json_object_get(p, "command")));
        json_array_append_new(trace, json_string(head));
        json_array_extend(trace, json_object_get(p, "stack"));
    }
    return trace;
}

static void report_hang(struct watching *a, const struct guard_tree *t)
{
    char message[128];
    struct err err = ERR_INIT;
    struct guard_log l;
    if (guard_log_read(&l, a->w->log, a->w->log_from, &err) != ERR_OK) return;
    snprintf(message, sizeof message, "no output and no CPU for %g s, in %d processes",
             a->stall.seconds, t->count);
    json_t *one = guard_fold_finding("hang", "command", 0, message);
    json_t *processes = guard_stall_show(t, l.stacks, a->w->stacks, a->w->number);
    json_object_set_new(one, "trace", all_stacks(processes));
    json_object_set_new(one, "processes", processes);
    guard_log_append(a->w->log, one, 1);
    json_decref(one);
    guard_log_free(&l);
}

static void look_for_hang(struct watching *a)
{
    enum { PATIENCE_S = 5 };
    static struct guard_tree t;
    double now = now_s();
    if (getppid() != a->w->root)
        return; /* the guard has been killed: these are others' processes */
    guard_tree_read(&t, a->w->root, getpid());
    guard_stall_look(&a->stall, now, 1e-3 * LOOK_MS);
    if (a->killed > 0 && now - a->killed > PATIENCE_S) {
        for (int i = 0; i < t.count; i++) kill(t.at[i].pid, SIGKILL);
        return;
    }
    if (!guard_stall_check(&a->stall, &t, now)) return;
    if (guard_tree_runs(&t)) { /* it waits for a CPU, not for something that never comes */
        guard_stall_alive(&a->stall, now);
        return;
    }
    report_hang(a, &t);
    if (!a->w->kill) return;
    for (int i = 0; i < t.count; i++) kill(t.at[i].pid, SIGTERM);
    a->killed = now;
}

/* ---- the end ---- */

static void read_file(struct guard_lines *lines, const char *path, long from)
{
    char part[4096];
    size_t n;
    FILE *f = fopen(path, "re");
    if (!f) return;
    (void)!fseek(f, 0, SEEK_END);
    if (ftell(f) < from) from = 0; /* begun anew */
    (void)!fseek(f, from, SEEK_SET);
    while ((n = fread(part, 1, sizeof part, f)) > 0) guard_lines_feed(lines, part, n, now_s());
    guard_lines_end(lines, now_s());
    fclose(f);
}

static void fold_all(struct watching *a, struct guard_log *l)
{
    static const char *const names[] = {"stdout", "stderr"};
    bool well = WIFEXITED(a->status) && WEXITSTATUS(a->status) == 0;
    json_t *patterns = json_load_file(a->w->harmless, 0, NULL);
    for (int i = 0; i < 2; i++) guard_lines_end(&a->lines[i], now_s());
    for (int i = 0; i < 2; i++)
        guard_fold_lines(l, &a->lines[i], names[i], &a->lines[1 - i].traces, well);
    for (int i = 0; i < a->w->files; i++) {
        static struct guard_lines lines;
        int none = 0;
        memset(&lines, 0, sizeof lines);
        read_file(&lines, a->w->file[i], a->w->file_from[i]);
        guard_fold_lines(l, &lines, a->w->file[i], &none, well);
    }
    guard_fold_children(l);
    if (patterns) guard_fold_harmless(l, patterns);
    json_decref(patterns);
}

static void send(const struct watching *a, const struct guard_log *l)
{
    json_t *result = json_pack("{s:O, s:O, s:O, s:i, s:i}", "findings", l->findings, "own", l->own,
                               "shallow", l->shallow, "pythons", l->pythons, "lines_not_kept",
                               a->lines[0].more + a->lines[1].more);
    FILE *f = fdopen(a->w->result, "w");
    if (result && f) json_dumpf(result, f, JSON_COMPACT);
    if (f) fclose(f);
    json_decref(result);
}

static void watch(struct watching *a)
{
    while (!a->ended) {
        struct pollfd p[3] = {{.fd = a->w->stream[0], .events = POLLIN},
                              {.fd = a->w->stream[1], .events = POLLIN},
                              {.fd = a->w->events, .events = POLLIN}};
        int got = poll(p, 3, a->stall.seconds > 0 ? LOOK_MS : -1);
        for (int i = 0; i < 2 && got > 0; i++) {
            if (p[i].fd >= 0 && p[i].revents) read_stream(a, i);
        }
        if (got > 0 && p[2].revents) read_events(a);
        if (a->stall.seconds > 0 && now_s() - a->stall.looked >= 1e-3 * LOOK_MS) look_for_hang(a);
    }
    for (int i = 0; i < 2; i++) {
        while (a->told && a->w->stream[i] >= 0) read_stream(a, i);
    }
}

bool guard_watch_run(struct guard_watch *w)
{
    static struct watching a;
    struct err err = ERR_INIT;
    struct guard_log l;
    a.w = w;
    a.stall.seconds = w->stall_s;
    a.stall.since = now_s();
    watch(&a);
    if (!a.told) return false;
    if (guard_log_read(&l, w->log, w->log_from, &err) == ERR_OK) {
        fold_all(&a, &l);
        send(&a, &l);
        guard_log_free(&l);
    }
    return true;
}
