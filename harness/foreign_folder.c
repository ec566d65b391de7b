/* foreign_folder.c: which layout a folder has; see foreign_parts.h.
 *
 *   *.pt named step=S___rank=R___...    SGLang's dumper (foreign_dumper.c)
 *   TPt_PPp_RankR_pidP/PassNNNNN.pt     SGLang's --debug-tensor-dump-output-folder
 *                                       (foreign_passes.c)
 *   stepS/rankR/dump.json               msprobe, also of vLLM (foreign_msprobe.c); stepS or rankR
 *                                       itself, too
 *   *.safetensors with assay.rank       ranks and forward passes of compat/python/assay_taps.py
 *                                       (foreign_ranks.c)
 *   *.safetensors, *.pt, *.npy, ...     tensors that lie in several files; no name twice
 *   one folder and nothing else         that folder */
#include "harness/foreign_parts.h"

#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4 /* folders that hold nothing but a folder */ };

/* ---- names ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum err_code listing_read(const char *folder, struct listing *out, struct err *err)
{
    int64_t room = 0;
    *out = (struct listing){0};
    DIR *d = opendir(folder);
    if (!d) return err_sys(err, errno, "read dump|%s|", folder);
    for (struct dirent *e; err->code == ERR_OK && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (out->count == room) {
            room = room ? 2 * room : 64;
            char **more = realloc(out->names, (size_t)room * sizeof(char *));
            if (more) out->names = more;
            if (!more) err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
        }
        char *name = err->code == ERR_OK ? strdup(e->d_name) : NULL;
        if (name)
            out->names[out->count++] = name;
        else
            err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
    }
    closedir(d);
    if (out->count) qsort(out->names, (size_t)out->count, sizeof(char *), by_text);
    return err->code;
}

void listing_free(struct listing *l)
{
    for (int64_t i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
    *l = (struct listing){0};
}

bool source_numbered(const char *name, const char *head, int64_t *n)
{
    return text_starts(name, head) && text_int(name + strlen(head), n) && *n >= 0;
}

/* ---- forward passes ---- */

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

enum err_code source_step(const struct source *s, int64_t *steps, int64_t count, int64_t *out,
                          struct err *err)
{
    char list[96];
    int used = 0;
    int64_t different = 0;
    const int64_t wanted = s->options->has_step ? s->options->step : -1;
    list[0] = '\0';
    if (count) qsort(steps, (size_t)count, sizeof *steps, by_number);
    for (int64_t i = 0; i < count; i++) {
        if (i && steps[i] == steps[i - 1]) continue;
        different++;
        if (used < 72)
            used += snprintf(list + used, sizeof list - (size_t)used, "%s%lld", i ? ", " : "",
                             (long long)steps[i]);
        else if (used < 80)
            used += snprintf(list + used, sizeof list - (size_t)used, ", ...........");
        if (steps[i] == wanted) {
            *out = wanted;
            return ERR_OK;
        }
    }
    if (different == 1 && wanted < 0) {
        *out = steps[0];
        return ERR_OK;
    }
    if (wanted >= 0)
        return err_set(err, ERR_INPUT, "read dump|%s|forward passes %s|%lld, as --step says",
                       s->path, list, (long long)wanted);
    return err_set(err, ERR_INPUT, "read dump|%s|forward passes %s|--step N: one of them", s->path,
                   list);
}

/* ---- layouts ---- */

static enum err_code read_files(struct source *s, const char *folder, const struct listing *l,
                                struct err *err)
{
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        char path[FILE_PATH];
        if (source_is_file(l->names[i]) && file_join(folder, l->names[i], path, err) == ERR_OK)
            (void)!source_file(s, path, err);
    }
    return err->code;
}

static bool any_file(const struct listing *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        if (source_is_file(l->names[i])) return true;
    }
    return false;
}

/* What can be done without --step is not done with it: the folder knows no passes. */
static enum err_code refuse_step(const struct source *s, struct err *err)
{
    if (!s->options->has_step) return ERR_OK;
    return err_set(err, ERR_INPUT, "read dump|%s|no forward passes|a folder of them for --step",
                   s->path);
}

static enum err_code read_folder(struct source *s, const char *folder, int depth, struct err *err)
{
    struct listing l;
    char below[FILE_PATH] = "";
    if (listing_read(folder, &l, err) != ERR_OK) {
        listing_free(&l);
        return err->code;
    }
    if (l.count == 1 && file_join(folder, l.names[0], below, err) != ERR_OK) below[0] = '\0';
    if (dumper_is(&l)) {
        (void)!dumper_read(s, folder, &l, err);
    } else if (passes_is(&l)) {
        (void)!passes_read(s, folder, &l, err);
    } else if (msprobe_is(folder, &l)) {
        (void)!msprobe_read(s, folder, &l, err);
    } else if (rank_files_is(folder, &l)) {
        (void)!rank_files_read(s, folder, &l, err);
    } else if (any_file(&l)) {
        if (refuse_step(s, err) == ERR_OK) (void)!read_files(s, folder, &l, err);
    } else if (below[0] && file_is_folder(below) && depth < DEPTH) {
        (void)!read_folder(s, below, depth + 1, err);
    } else {
        err_set(err, ERR_INPUT,
                "read dump|%s|%lld names, none of a layout that is known|tensor files, or a dump "
                "of SGLang, msprobe or assay_taps.py",
                folder, (long long)l.count);
    }
    listing_free(&l);
    return err->code;
}

/* Safetensors alone may be a checkpoint: they are for who has no better idea. */
static bool is_layout(const char *folder, int depth)
{
    struct err ignored = ERR_INIT;
    struct listing l;
    char below[FILE_PATH];
    bool is = false;
    if (listing_read(folder, &l, &ignored) == ERR_OK) {
        is = dumper_is(&l) || passes_is(&l) || msprobe_is(folder, &l) || rank_files_is(folder, &l);
        for (int64_t i = 0; i < l.count && !is; i++)
            is = source_is_file(l.names[i]) && !text_ends(l.names[i], ".safetensors");
        if (!is && l.count == 1 && depth < DEPTH &&
            file_join(folder, l.names[0], below, &ignored) == ERR_OK && file_is_folder(below))
            is = is_layout(below, depth + 1);
    }
    listing_free(&l);
    return is;
}

bool source_is_folder(const char *path)
{
    return is_layout(path, 0);
}

enum err_code source_folder(struct source *s, struct err *err)
{
    s->streamed = true;
    return read_folder(s, s->path, 0, err);
}
