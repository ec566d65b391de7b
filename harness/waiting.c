/* waiting.c: see waiting.h. */
#include "harness/waiting.h"

#include "core/file.h"
#include "core/text.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The text of a small file below the tasks folder; empty where it has gone. */
static void read_small(const char *tasks, const char *thread, const char *name, char text[512])
{
    char path[FILE_PATH + 300];
    text[0] = '\0';
    snprintf(path, sizeof path, "%s/%s/%s", tasks, thread, name);
    FILE *f = fopen(path, "r");
    if (!f) return;
    text[fread(text, 1, 511, f)] = '\0';
    fclose(f);
}

/* Adds one thread: "PID (NAME) STATE ppid pgrp session tty tpgid flags minflt cminflt majflt ...".
 * State D outside of a system call ("-1 ...") is a page fault that waits for its page. */
static void add_thread(const char *tasks, const char *thread, struct waiting *w)
{
    char text[512], call[512];
    char state;
    unsigned long long faults;
    read_small(tasks, thread, "stat", text);
    const char *after = strrchr(text, ')'); /* a name may hold anything */
    if (!after ||
        sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %llu", &state, &faults) != 2)
        return;
    w->faults += faults;
    if (state != 'D' || w->count == WAITING_MAX) return;
    read_small(tasks, thread, "syscall", call);
    int64_t number;
    if ((!call[0] || text_starts(call, "-1 ")) && text_int(thread, &number))
        w->thread[w->count++] = (long)number;
}

void waiting_read(const char *tasks, struct waiting *w)
{
    *w = (struct waiting){0};
    DIR *d = opendir(tasks);
    if (!d) return;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (isdigit((unsigned char)e->d_name[0])) add_thread(tasks, e->d_name, w);
    }
    closedir(d);
}
