/* guard_tree.c: see guard_tree.h. */
#include "harness/guard_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of /proc/PID as text; its length, 0 where it cannot be read. */
static size_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* `stat`: "stat", or that of one of its threads. */
static bool read_stat(pid_t pid, const char *stat, struct guard_process *p)
{
    char text[1024];
    int parent;
    unsigned long user, system;
    if (!read_proc(pid, stat, text, sizeof text)) return false;
    const char *after = strrchr(text, ')'); /* a command's name may hold anything */
    *p = (struct guard_process){.pid = pid};
    if (!after || sscanf(after + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &p->state,
                         &parent, &user, &system) != 4)
        return false;
    p->parent = parent;
    p->ticks = user + system;
    return true;
}

/* Keeps of all processes those below root: passes over the list until one adds nothing. */
static void keep_below(struct guard_tree *t, struct guard_process *all, int n, pid_t root,
                       pid_t without)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n && t->count < GUARD_PROCESSES; i++) {
            bool below = all[i].parent == root;
            for (int k = 0; k < t->count && !below; k++) below = t->at[k].pid == all[i].parent;
            if (!below || all[i].pid == without || all[i].pid == 0) continue;
            t->at[t->count++] = all[i];
            all[i].pid = 0; /* taken */
            more = true;
        }
    }
}

void guard_tree_read(struct guard_tree *t, pid_t root, pid_t without)
{
    enum { ALL = 1 << 15 };
    struct guard_process *all = calloc(ALL, sizeof *all);
    DIR *d = opendir("/proc");
    int n = 0;
    t->count = 0;
    for (struct dirent *e; all && d && (e = readdir(d)) && n < ALL;) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (!isdigit((unsigned char)e->d_name[0]) || *end || pid == root) continue;
        n += read_stat((pid_t)pid, "stat", &all[n]);
    }
    if (d) closedir(d);
    if (all) keep_below(t, all, n, root, without);
    free(all);
}

unsigned long guard_tree_ticks(const struct guard_tree *t)
{
    unsigned long sum = 0;
    for (int i = 0; i < t->count; i++) sum += t->at[i].ticks;
    return sum;
}

static bool has_running_thread(pid_t pid)
{
    char path[64];
    bool runs = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && !runs && (e = readdir(d));) {
        struct guard_process thread;
        int number;
        if (sscanf(e->d_name, "%d", &number) != 1) continue;
        snprintf(path, sizeof path, "task/%d/stat", number);
        runs = read_stat(pid, path, &thread) && thread.state == 'R';
    }
    if (d) closedir(d);
    return runs;
}

bool guard_tree_runs(const struct guard_tree *t)
{
    for (int i = 0; i < t->count; i++) {
        if (has_running_thread(t->at[i].pid)) return true;
    }
    return false;
}

json_t *guard_tree_show(const struct guard_process *p)
{
    char command[512], waits[128], state[2] = {p->state, '\0'};
    size_t n = read_proc(p->pid, "cmdline", command, sizeof command);
    for (size_t i = 0; i + 1 < n; i++) {
        if ((unsigned char)command[i] < ' ') command[i] = ' ';
    }
    if (!n) read_proc(p->pid, "comm", command, sizeof command);
    read_proc(p->pid, "wchan", waits, sizeof waits);
    json_t *text = json_string(command);
    return json_pack("{s:i, s:i, s:s, s:o, s:s}", "pid", (int)p->pid, "parent", (int)p->parent,
                     "state", state, "command", text ? text : json_string("?"), "waits_in",
                     strcmp(waits, "0") ? waits : "");
}

bool guard_tree_catches(pid_t pid, int number)
{
    char text[4096];
    const char *at = read_proc(pid, "status", text, sizeof text) ? strstr(text, "SigCgt:") : NULL;
    uint64_t caught = at ? strtoull(at + 7, NULL, 16) : 0;
    return caught >> (number - 1) & 1;
}
