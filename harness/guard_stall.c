/* guard_stall.c: see guard_stall.h. */
#include "harness/guard_stall.h"

#include "core/file.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void guard_stall_alive(struct guard_stall *s, double now)
{
    s->since = now;
    s->said = false;
}

void guard_stall_look(struct guard_stall *s, double now, double every)
{
    double late = now - s->looked - every;
    if (s->looked > 0 && late > every) s->since = fmin(now, s->since + late);
    s->looked = now;
}

static bool would_run(const struct guard_tree *t)
{
    bool any = false;
    for (int i = 0; i < t->count; i++) any |= t->at[i].state == 'R';
    return any;
}

bool guard_stall_check(struct guard_stall *s, const struct guard_tree *t, double now)
{
    enum { SHARE = 100 };
    unsigned long ticks = guard_tree_ticks(t);
    double used = (double)(ticks - s->ticks) / (double)sysconf(_SC_CLK_TCK);
    if (!(s->seconds > 0)) return false;
    if (would_run(t) || ticks < s->ticks || used > s->seconds / SHARE) { /* fewer: one has ended */
        s->ticks = ticks;
        guard_stall_alive(s, now);
        return false;
    }
    if (s->said || now - s->since < s->seconds) return false;
    s->said = true;
    return true;
}

static long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

/* The descriptor of a record still leads to the file of stacks: a program may have closed it, and
 * opened something else under its number. */
static bool leads_there(pid_t pid, const json_t *stacks, const char *path)
{
    for (size_t i = 0; i < json_array_size(stacks); i++) {
        char link[64];
        int fd = (int)json_integer_value(json_object_get(json_array_get(stacks, i), "fd"));
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
        if (file_same(link, path)) return true;
    }
    return false;
}

/* The lines that were written to the file behind `from`. */
static json_t *lines_from(const char *path, long from)
{
    enum { MOST = 200 };
    char line[512];
    json_t *list = json_array();
    FILE *f = fopen(path, "re");
    if (f) (void)!fseek(f, from, SEEK_SET);
    while (f && json_array_size(list) < MOST && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        json_t *text = json_string(line);
        if (text) json_array_append_new(list, text);
    }
    if (f) fclose(f);
    return list;
}

/* Asks one process, and waits until its answer has stopped growing. One that is to run and gets no
 * CPU answers late. */
static json_t *ask(pid_t pid, const char *path, int number)
{
    enum { TRIES = 200, STILL = 4 };
    const struct timespec pause = {.tv_nsec = 25000000};
    long from = size_of(path), before = from;
    if (kill(pid, number) != 0) return json_array();
    for (int i = 0, still = 0; i < TRIES && still < STILL; i++) {
        nanosleep(&pause, NULL);
        long now = size_of(path);
        still = now > from && now == before ? still + 1 : 0;
        before = now;
    }
    return lines_from(path, from);
}

json_t *guard_stall_show(const struct guard_tree *t, const json_t *stacks, const char *path,
                         int number)
{
    json_t *list = json_array();
    for (int i = 0; i < t->count; i++) {
        json_t *one = guard_tree_show(&t->at[i]);
        pid_t pid = t->at[i].pid;
        bool shows = guard_tree_catches(pid, number) && leads_there(pid, stacks, path);
        json_object_set_new(one, "stack", shows ? ask(pid, path, number) : json_array());
        json_array_append_new(list, one);
    }
    return list;
}
