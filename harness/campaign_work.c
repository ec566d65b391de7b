/* campaign_work.c: jobs spread over processes; see campaign_parts.h. A process takes the next job
 * that nobody has, and answers with a line "NUMBER JSON". One that dies, or hangs and is killed,
 * has its job recorded as such, and another takes its place. */
#include "core/check.h"
#include "core/text.h"
#include "harness/campaign_parts.h"
#include "harness/child.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS_MAX = 256, LOOK_MS = 500 };
#define LEAVE_S 10.0 /* from the last job's answer to the end of the process */

/* What the processes share. */
struct shared {
    atomic_long next;
    atomic_long at[WORKERS_MAX];       /* the job of each; -1: none */
    _Atomic double since[WORKERS_MAX]; /* when it began with that */
};

struct worker {
    pid_t pid;
    int fd;    /* -1: it is gone */
    bool hung; /* it was killed for that */
    char *text;
    size_t used, room;
};

struct pool {
    int workers;
    int64_t count;
    json_t *(*job)(void *ctx, int64_t i);
    void *ctx;
    const char *folder;
    double job_s;
    struct shared *shared;
    struct worker worker[WORKERS_MAX];
    json_t **records;
    int64_t done;
    struct err *err;
};

static bool write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, text, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        text += k;
        n -= (size_t)k;
    }
    return true;
}

static bool answer(int fd, int64_t i, const json_t *record)
{
    char number[32];
    char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    snprintf(number, sizeof number, "%lld ", (long long)i);
    bool sent = text && write_all(fd, number, strlen(number)) &&
                write_all(fd, text, strlen(text)) && write_all(fd, "\n", 1);
    free(text);
    return sent;
}

static double job_limit(void)
{
    const char *text = getenv("ASSAY_CAMPAIGN_JOB_S");
    double s;
    return text && text_double(text, &s) && s > 0 ? s : CAMPAIGN_JOB_S;
}

/* In the child: no way back. Its stderr is a file, so that progress is shown by one alone. It dies
 * with its parent, which is who sees to it that it ends. */
static void become_worker(struct pool *p, int k, int fd)
{
    char path[FILE_PATH];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%.900s/worker-%d.txt", p->folder, k);
    int text = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (text >= 0) dup2(text, STDERR_FILENO);
    for (;;) {
        long i = atomic_fetch_add(&p->shared->next, 1);
        if (i >= p->count) break;
        atomic_store(&p->shared->since[k], clock_seconds());
        atomic_store(&p->shared->at[k], i);
        json_t *record = p->job(p->ctx, i);
        bool sent = answer(fd, i, record);
        json_decref(record);
        if (!sent) _exit(3);
        atomic_store(&p->shared->at[k], -1);
    }
    fflush(NULL);
    _exit(0);
}

static enum err_code start(struct pool *p, int k)
{
    int ends[2];
    struct worker *w = &p->worker[k];
    w->fd = -1;
    w->hung = false;
    if (pipe2(ends, O_CLOEXEC) != 0) return err_sys(p->err, errno, "start worker|%d", k);
    atomic_store(&p->shared->at[k], -1);
    fflush(NULL);
    w->pid = fork();
    if (w->pid == 0) {
        for (int i = 0; i < p->workers; i++) {
            if (p->worker[i].fd >= 0) close(p->worker[i].fd);
        }
        close(ends[0]);
        become_worker(p, k, ends[1]);
    }
    close(ends[1]);
    if (w->pid < 0) {
        close(ends[0]);
        return err_sys(p->err, errno, "start worker|%d", k);
    }
    w->fd = ends[0];
    w->used = 0;
    return ERR_OK;
}

static void take_line(struct pool *p, const char *line, size_t n)
{
    char *rest;
    long long i = strtoll(line, &rest, 10);
    if (i < 0 || i >= p->count || *rest != ' ' || p->records[i]) return;
    p->records[i] = json_loadb(rest + 1, n - (size_t)(rest + 1 - line), 0, NULL);
    p->done++;
    progress_show(NULL, "fault campaign", p->done, p->count);
}

static void take_lines(struct pool *p, struct worker *w)
{
    char *line = w->text, *end;
    while ((end = memchr(line, '\n', w->used - (size_t)(line - w->text)))) {
        take_line(p, line, (size_t)(end - line));
        line = end + 1;
    }
    w->used -= (size_t)(line - w->text);
    memmove(w->text, line, w->used);
}

/* The last line that a worker left on its stderr. */
static void last_words(const struct pool *p, int k, char *out, size_t size)
{
    char path[FILE_PATH], line[512];
    snprintf(path, sizeof path, "%.900s/worker-%d.txt", p->folder, k);
    FILE *f = fopen(path, "r");
    out[0] = '\0';
    while (f && fgets(line, sizeof line, f))
        snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
    if (f) fclose(f);
}

/* Its pipe has closed: all was done, or it died at a job. */
static enum err_code bury(struct pool *p, int k)
{
    int status = 0;
    char how[96], words[256];
    struct worker *w = &p->worker[k];
    close(w->fd);
    w->fd = -1;
    enum child_end end = child_wait(w->pid, false, clock_seconds() + LEAVE_S, &status);
    long at = atomic_load(&p->shared->at[k]);
    if (end == CHILD_ENDED && WIFEXITED(status) && WEXITSTATUS(status) == 0) return ERR_OK;
    if (w->hung || end == CHILD_STUCK)
        snprintf(how, sizeof how, "hung: no answer in %g s (ASSAY_CAMPAIGN_JOB_S), pid %d killed",
                 p->job_s, (int)w->pid);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "ended by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with exit %d", WEXITSTATUS(status));
    last_words(p, k, words, sizeof words);
    if (at >= 0 && !p->records[at]) {
        p->records[at] =
            json_pack("{s:s, s:s+++}", "outcome", "error", "why", "the process ", how, ": ", words);
        p->done++;
    }
    return atomic_load(&p->shared->next) < p->count ? start(p, k) : ERR_OK;
}

static enum err_code read_some(struct pool *p, int k)
{
    struct worker *w = &p->worker[k];
    if (w->room - w->used < 4096) {
        char *more = realloc(w->text, w->room + 65536);
        if (!more) return err_set(p->err, ERR_MEMORY, "read worker|%d|no memory", k);
        w->text = more;
        w->room += 65536;
    }
    ssize_t n = read(w->fd, w->text + w->used, w->room - w->used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return ERR_OK;
    if (n <= 0) return bury(p, k);
    w->used += (size_t)n;
    take_lines(p, w);
    return ERR_OK;
}

/* Kills who is too long at a job. What it holds of its pipe closes with it, or is closed here: what
 * it started may hold that too. */
static enum err_code end_hung(struct pool *p)
{
    double now = clock_seconds();
    for (int k = 0; k < p->workers; k++) {
        struct worker *w = &p->worker[k];
        if (w->fd < 0 || atomic_load(&p->shared->at[k]) < 0 ||
            now - atomic_load(&p->shared->since[k]) < p->job_s)
            continue;
        w->hung = true;
        kill(w->pid, SIGKILL);
        if (bury(p, k) != ERR_OK) return p->err->code;
    }
    return ERR_OK;
}

static enum err_code watch(struct pool *p)
{
    struct pollfd fds[WORKERS_MAX];
    for (;;) {
        int open_now = 0;
        for (int k = 0; k < p->workers; k++) {
            fds[k] = (struct pollfd){.fd = p->worker[k].fd, .events = POLLIN};
            open_now += fds[k].fd >= 0;
        }
        if (open_now == 0) return ERR_OK;
        int ready = poll(fds, (nfds_t)p->workers, LOOK_MS);
        if (ready < 0 && errno != EINTR) return err_sys(p->err, errno, "wait for workers|");
        for (int k = 0; ready > 0 && k < p->workers; k++) {
            if (fds[k].fd >= 0 && fds[k].revents && read_some(p, k) != ERR_OK) return p->err->code;
        }
        if (end_hung(p) != ERR_OK) return p->err->code;
    }
}

/* After an error: none is left running. */
static void end_all(struct pool *p)
{
    for (int k = 0; k < p->workers; k++) {
        struct worker *w = &p->worker[k];
        if (w->fd >= 0) {
            close(w->fd);
            (void)child_wait(w->pid, false, 0, NULL);
        }
        free(w->text);
    }
}

static enum err_code spread(struct pool *p)
{
    p->shared =
        mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->shared == MAP_FAILED) return err_sys(p->err, errno, "share with workers|");
    for (int k = 0; k < p->workers; k++) p->worker[k].fd = -1;
    for (int k = 0; k < p->workers && p->err->code == ERR_OK; k++) (void)!start(p, k);
    if (p->err->code == ERR_OK) (void)!watch(p);
    end_all(p);
    munmap(p->shared, sizeof *p->shared);
    return p->err->code;
}

enum err_code campaign_work(int workers, int64_t count, json_t *(*job)(void *ctx, int64_t i),
                            void *ctx, const char *folder, json_t **records, struct err *err)
{
    CHECK(workers >= 1 && workers <= WORKERS_MAX);
    struct pool *p = calloc(1, sizeof *p);
    if (!p) return err_set(err, ERR_MEMORY, "start workers||no memory");
    *p = (struct pool){.workers = workers,
                       .count = count,
                       .job = job,
                       .ctx = ctx,
                       .folder = folder,
                       .job_s = job_limit(),
                       .records = records,
                       .err = err};
    (void)!spread(p);
    free(p);
    progress_end();
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++) {
        if (!records[i])
            err_set(err, ERR_MEMORY, "fault campaign|job %lld|no record", (long long)i);
    }
    return err->code;
}
