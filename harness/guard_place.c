/* guard_place.c: see guard_place.h. */
#include "harness/guard_place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPTS "../share/assay/python/assay_guard"

int guard_place_signal(void)
{
    enum { ABOVE_FIRST = 9 };
    return SIGRTMIN + ABOVE_FIRST;
}

/* The scripts' folder beside the program's. Without it no Python is watched, and a run would come
 * out green because nobody looked. */
static enum err_code find_scripts(struct guard_place *p, struct err *err)
{
    char scripts[FILE_PATH];
    if (file_beside_program(SCRIPTS, scripts, err) != ERR_OK ||
        file_join(scripts, "inject", p->inject, err) != ERR_OK ||
        file_join(scripts, "harmless.json", p->harmless, err) != ERR_OK)
        return err->code;
    if (strchr(p->inject, ':'))
        return err_set(err, ERR_IO, "guard|%s|a ':'|a path that can stand in PYTHONPATH",
                       p->inject);
    if (!file_is_folder(p->inject))
        return err_set(err, ERR_IO, "guard|%s|no such folder|what goes into Pythons, as installed",
                       p->inject);
    return ERR_OK;
}

/* An empty file, or the one that is there; its size, or -1. */
static long touch(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    long size = fd >= 0 && fstat(fd, &st) == 0 ? (long)st.st_size : -1;
    if (fd >= 0) close(fd);
    return size;
}

static void absolute(const char *path, char out[FILE_PATH])
{
    char here[FILE_PATH];
    struct err err = ERR_INIT;
    if (path[0] == '/' || !getcwd(here, sizeof here))
        snprintf(out, FILE_PATH, "%s", path);
    else if (file_join(here, path, out, &err) != ERR_OK)
        out[0] = '\0';
}

enum err_code guard_place_make(struct guard_place *p, const char *log, const json_t *contract,
                               struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    *p = (struct guard_place){.own_log = !log};
    if (find_scripts(p, err) != ERR_OK) return err->code;
    int n = snprintf(p->folder, sizeof p->folder, "%s/assay-guard.XXXXXX",
                     tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (n >= (int)sizeof p->folder - 32 || !mkdtemp(p->folder)) p->folder[0] = '\0';
    if (p->folder[0]) {
        snprintf(p->stacks, sizeof p->stacks, "%.*s/stacks", FILE_PATH - 16, p->folder);
        snprintf(p->log, sizeof p->log, "%.*s/log.jsonl", FILE_PATH - 16, p->folder);
        if (touch(p->stacks) < 0) p->stacks[0] = '\0';
        snprintf(p->contract, sizeof p->contract, "%.*s/contract.json", FILE_PATH - 16, p->folder);
        if (!contract || json_dump_file(contract, p->contract, JSON_COMPACT) != 0)
            p->contract[0] = '\0';
    }
    if (log) absolute(log, p->log);
    p->log_from = p->log[0] ? touch(p->log) : -1;
    if (p->log_from < 0) p->log[0] = '\0';
    return ERR_OK;
}

void guard_place_environment(const struct guard_place *p, const char *also, bool deep)
{
    const char *before = getenv("PYTHONPATH");
    char number[16];
    if (!p->log[0]) return;
    size_t size = strlen(p->inject) + (before ? strlen(before) : 0) + 2;
    char *path = malloc(size);
    if (!path) return;
    snprintf(path, size, "%s%s%s", p->inject, before && before[0] ? ":" : "", before ? before : "");
    snprintf(number, sizeof number, "%d", guard_place_signal());
    setenv("PYTHONPATH", path, 1);
    setenv("ASSAY_GUARD_LOG", p->log, 1);
    setenv("ASSAY_GUARD_STACKS", p->stacks, 1);
    setenv("ASSAY_GUARD_SIGNAL", number, 1);
    setenv("ASSAY_GUARD_CONTRACT", p->contract, 1);
    setenv("ASSAY_GUARD_ALSO", also ? also : "", 1);
    setenv("ASSAY_GUARD_DEEP", deep ? "1" : "", 1);
    free(path);
}

void guard_place_remove(const struct guard_place *p, bool log)
{
    if (!p->folder[0]) return;
    unlink(p->stacks);
    if (p->contract[0]) unlink(p->contract);
    if (p->own_log && log) unlink(p->log);
    if (!p->own_log || log) rmdir(p->folder);
}
