/* campaign_folder.c: see campaign_folder.h. */
#include "harness/campaign_folder.h"

#include "core/json.h"
#include "core/safetensors.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 8 };

enum err_code campaign_folder_make(char path[FILE_PATH], struct err *err)
{
    const char *above = getenv("TMPDIR");
    int n = snprintf(path, FILE_PATH, "%s/assay-faults-XXXXXX", above && above[0] ? above : "/tmp");
    if (n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "temporary folder|TMPDIR|%d bytes|a shorter path", n);
    return mkdtemp(path) ? ERR_OK : err_sys(err, errno, "temporary folder|%s", path);
}

/* Calls `each` for every file below a folder; stops where it returns false. */
static bool walk(const char *path, int depth, bool (*each)(void *ctx, const char *file), void *ctx)
{
    char below[FILE_PATH];
    struct err ignored = ERR_INIT;
    bool go = true;
    DIR *d = depth < DEPTH ? opendir(path) : NULL;
    for (struct dirent *e = d ? readdir(d) : NULL; e && go; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            file_join(path, e->d_name, below, &ignored) != ERR_OK)
            continue;
        go = file_is_folder(below) ? walk(below, depth + 1, each, ctx) : each(ctx, below);
    }
    if (d) closedir(d);
    return go;
}

static void remove_all(const char *path, int depth)
{
    char below[FILE_PATH];
    struct err ignored = ERR_INIT;
    DIR *d = depth < DEPTH ? opendir(path) : NULL;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            file_join(path, e->d_name, below, &ignored) != ERR_OK)
            continue;
        if (unlink(below) != 0) remove_all(below, depth + 1);
    }
    if (d) closedir(d);
    rmdir(path);
}

void campaign_folder_remove(const char *path)
{
    remove_all(path, 0);
}

struct looking {
    int files;
    struct err *err;
};

static bool look(void *ctx, const char *file)
{
    struct looking *l = ctx;
    struct err e = ERR_INIT;
    struct st_file f;
    json_t *root;
    l->files++;
    if (strstr(file, ".tmp")) {
        err_set(l->err, ERR_FAULT, "written files|%s|a temporary name that stayed|none", file);
    } else if (text_ends(file, ".safetensors")) {
        if (st_open(&f, file, &e) != ERR_OK)
            err_set(l->err, ERR_FAULT, "written files|%s|half a file: %.100s|a whole one, or none",
                    file, e.found);
        st_close(&f);
    } else if (text_ends(file, ".json")) {
        if (json_read(file, &root, &e) == ERR_OK)
            json_decref(root);
        else
            err_set(l->err, ERR_FAULT, "written files|%s|half a file: %.100s|a whole one, or none",
                    file, e.found);
    }
    return l->err->code == ERR_OK;
}

enum err_code campaign_folder_whole(const char *path, int *files, struct err *err)
{
    struct looking l = {0, err};
    (void)walk(path, 0, look, &l);
    *files = l.files;
    return err->code;
}
