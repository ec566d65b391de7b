/* staging.c: see staging.h. */
#include "harness/staging.h"

#include "core/check.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what a signal leaves behind: nothing ---- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct staging *volatile current;
static struct sigaction before[SIGNALS];
static bool handled[SIGNALS];

/* Only async-signal-safe calls. */
static void remove_files(const struct staging *s)
{
    for (int64_t i = 0; i < s->count; i++) unlink(s->path[i]);
    rmdir(s->temporary);
}

/* Removes the files and hands the signal on to whoever had it before. */
static void on_signal(int number)
{
    struct staging *s = current;
    int saved = errno;
    file_out_abandon_all();
    if (s) remove_files(s);
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i] == number) sigaction(number, &before[i], NULL);
    }
    raise(number);
    errno = saved;
}

static void arm(struct staging *s)
{
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(!current);
    current = s;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) {
        /* What the parent ignores stays ignored, as in verb.c. */
        handled[i] = sigaction(signals[i], NULL, &before[i]) == 0 &&
                     before[i].sa_handler != SIG_IGN && sigaction(signals[i], &action, NULL) == 0;
    }
}

static void disarm(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        if (handled[i]) sigaction(signals[i], &before[i], NULL);
        handled[i] = false;
    }
    current = NULL;
}

static void hold_signals(sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++) sigaddset(&set, signals[i]);
    pthread_sigmask(SIG_BLOCK, &set, old);
}

/* ---- opening ---- */

static enum err_code refuse_checkpoint(const char *folder, struct err *err)
{
    DIR *d = opendir(folder);
    if (!d) return err_sys(err, errno, "open folder|%s", folder);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        bool shard =
            text_starts(e->d_name, "model") && (text_ends(e->d_name, ".safetensors") ||
                                                text_ends(e->d_name, ".safetensors.index.json"));
        if (shard)
            err_set(err, ERR_INPUT,
                    "write checkpoint|%s|%.64s there already|a folder without a checkpoint", folder,
                    e->d_name);
        if (shard) break;
    }
    closedir(d);
    return err->code;
}

static enum err_code name_files(struct staging *s, int64_t count, const char (*name)[STAGING_NAME],
                                struct err *err)
{
    s->path = calloc((size_t)count, sizeof *s->path);
    s->name = calloc((size_t)count, sizeof *s->name);
    if (!s->path || !s->name)
        return err_set(err, ERR_MEMORY, "write checkpoint|%s|no memory", s->folder);
    for (int64_t i = 0; i < count; i++) {
        char final[FILE_PATH];
        memcpy(s->name[i], name[i], STAGING_NAME);
        if (file_join(s->temporary, name[i], s->path[i], err) != ERR_OK ||
            file_join(s->folder, name[i], final, err) != ERR_OK)
            return err->code;
    }
    s->count = count;
    return ERR_OK;
}

enum err_code staging_open(struct staging *s, const char *folder, int64_t count,
                           const char (*name)[STAGING_NAME], struct err *err)
{
    char own[STAGING_NAME];
    sigset_t old;
    *s = (struct staging){.made = !file_exists(folder)};
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    snprintf(own, sizeof own, ".assay.tmp-%ld", (long)getpid());
    if (file_make_folder(folder, err) != ERR_OK || refuse_checkpoint(folder, err) != ERR_OK ||
        file_join(folder, own, s->temporary, err) != ERR_OK ||
        name_files(s, count, name, err) != ERR_OK) {
        staging_abandon(s);
        return err->code;
    }
    hold_signals(&old);
    if (mkdir(s->temporary, 0777) == 0)
        arm(s);
    else
        err_sys(err, errno, "write checkpoint|%s", s->folder);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err->code != ERR_OK) staging_abandon(s);
    return err->code;
}

/* ---- the end ---- */

static void free_names(struct staging *s)
{
    free(s->path);
    free(s->name);
    *s = (struct staging){0};
}

void staging_abandon(struct staging *s)
{
    sigset_t old;
    hold_signals(&old);
    if (current == s) {
        remove_files(s);
        disarm();
    }
    if (s->made) rmdir(s->folder);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    free_names(s);
}

static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!fsync(fd); /* some file systems cannot; the files themselves are synced */
    close(fd);
}

static enum err_code rename_all(struct staging *s, struct err *err)
{
    char final[FILE_PATH];
    int64_t done = 0;
    for (; done < s->count; done++) {
        if (file_join(s->folder, s->name[done], final, err) != ERR_OK) break;
        if (rename(s->path[done], final) != 0) {
            err_sys(err, errno, "rename to|%s", final);
            break;
        }
    }
    /* None of them was there before; only the last may have been, and that one is not undone. */
    for (int64_t i = 0; i < done && err->code != ERR_OK; i++) {
        struct err none = ERR_INIT;
        if (file_join(s->folder, s->name[i], final, &none) == ERR_OK) unlink(final);
    }
    return err->code;
}

enum err_code staging_commit(struct staging *s, struct err *err)
{
    sigset_t old;
    CHECK(current == s);
    hold_signals(&old);
    if (rename_all(s, err) == ERR_OK) {
        s->made = false;
        sync_folder(s->folder);
    }
    staging_abandon(s); /* the empty folder goes; after an error all of it */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err->code;
}
