/* sample_set.c: a folder of samples; see sample.h. What lies beside them is read in
 * sample_beside.c. */
#include "harness/sample_set.h"

#include "core/pt.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* File names: head, number, tail. */
static const struct {
    const char *head, *tail;
} forms[SAMPLE_FORMATS] = {
    [SAMPLE_V03] = {"data_", ".pt"},
    [SAMPLE_VLLM] = {"hs_", ".safetensors"},
    [SAMPLE_SPECFORGE] = {"data_", ".ckpt"},
};

/* A whole number between head and tail. */
static bool number_between(const char *name, const char *head, const char *tail, int64_t *n)
{
    char digits[24];
    size_t h = strlen(head), t = strlen(tail), all = strlen(name);
    if (all <= h + t || all - h - t >= sizeof digits || !text_starts(name, head) ||
        !text_ends(name, tail))
        return false;
    memcpy(digits, name + h, all - h - t);
    digits[all - h - t] = '\0';
    return text_int(digits, n) && *n >= 0;
}

static bool parse_name(const char *name, enum sample_format *f, int64_t *n)
{
    for (int i = 0; i < SAMPLE_FORMATS; i++) {
        *f = (enum sample_format)i;
        if (number_between(name, forms[i].head, forms[i].tail, n)) return true;
    }
    return false;
}

/* "rows_0-2000" */
static bool is_block(const char *name)
{
    int64_t first, end;
    const char *dash = strchr(name, '-');
    char head[32];
    if (!dash || dash - name >= (ptrdiff_t)sizeof head) return false;
    snprintf(head, sizeof head, "%.*s", (int)(dash - name), name);
    return number_between(head, "rows_", "", &first) && text_int(dash + 1, &end);
}

static enum err_code add_entry(struct sample_set *s, int64_t *room, const char *path,
                               enum sample_format f, int64_t n, struct err *err)
{
    if (s->count && s->format != f)
        return err_set(err, ERR_INPUT, "read samples|%s|%s|%s like the others", path,
                       sample_format_name((int)f), sample_format_name((int)s->format));
    if (s->count == *room) {
        int64_t more = 2 * *room + 16;
        void *grown = realloc(s->entries, (size_t)more * sizeof *s->entries);
        if (!grown) return err_set(err, ERR_MEMORY, "read samples|%s|no memory", s->folder);
        s->entries = grown;
        *room = more;
    }
    s->format = f;
    char *kept = strdup(path);
    if (!kept) return err_set(err, ERR_MEMORY, "read samples|%s|no memory", path);
    s->entries[s->count++] = (struct sample_entry){.n = n, .path = kept};
    return ERR_OK;
}

/* Samples of one folder; of those below it only the blocks of specforge, where `blocks`. */
static enum err_code scan(struct sample_set *s, int64_t *room, const char *folder, bool blocks,
                          struct err *err)
{
    DIR *d = opendir(folder);
    if (!d) return err_sys(err, errno, "read samples|%s", folder);
    for (struct dirent *e = readdir(d); e && err->code == ERR_OK; e = readdir(d)) {
        char path[FILE_PATH];
        enum sample_format f;
        int64_t n;
        bool packed = number_between(e->d_name, "data_", ".ckpt.gz", &n);
        bool block = blocks && is_block(e->d_name);
        if (!packed && !block && !parse_name(e->d_name, &f, &n)) continue;
        if (file_join(folder, e->d_name, path, err) != ERR_OK) break;
        if (packed)
            err_set(err, ERR_INPUT, "read samples|%s|a gzip file|gunzip it first", path);
        else if (block)
            (void)!scan(s, room, path, false, err);
        else
            (void)!add_entry(s, room, path, f, n, err);
    }
    closedir(d);
    return err->code;
}

static int by_number(const void *a, const void *b)
{
    const struct sample_entry *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return strcmp(x->path, y->path);
}

static enum err_code scan_folder(struct sample_set *s, struct err *err)
{
    int64_t room = 0;
    if (scan(s, &room, s->folder, true, err) != ERR_OK) return err->code;
    if (!s->count)
        return err_set(err, ERR_INPUT,
                       "read samples|%s|no sample|data_N.pt, hs_N.safetensors or "
                       "rows_A-B/data_N.ckpt",
                       s->folder);
    qsort(s->entries, (size_t)s->count, sizeof *s->entries, by_number);
    for (int64_t i = 1; i < s->count; i++) {
        if (s->entries[i].n == s->entries[i - 1].n)
            return err_set(err, ERR_INPUT, "read samples|%s|number %lld twice, also in %s|once",
                           s->entries[i].path, (long long)s->entries[i].n, s->entries[i - 1].path);
    }
    return ERR_OK;
}

/* One file: its name need not be a sample's, its content must. */
static enum err_code single(struct sample_set *s, const char *path, struct err *err)
{
    struct sample_file f;
    enum sample_format named;
    int64_t n = 0, room = 0;
    char copy[FILE_PATH];
    if (sample_open(&f, path, 0, err) != ERR_OK) return err->code;
    enum sample_format format = f.format;
    sample_close(&f);
    snprintf(copy, sizeof copy, "%s", path);
    if (!parse_name(basename(copy), &named, &n)) n = 0;
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(s->folder, sizeof s->folder, "%s", dirname(copy));
    return add_entry(s, &room, path, format, n, err);
}

enum err_code sample_set_open(struct sample_set *s, const char *path, struct err *err)
{
    *s = (struct sample_set){.format = SAMPLE_FORMATS};
    if (strlen(path) >= FILE_PATH) {
        err_set(err, ERR_INPUT, "read samples|%.64s...|%zu bytes|a path of fewer than %d", path,
                strlen(path), FILE_PATH);
    } else if (file_is_folder(path)) {
        snprintf(s->folder, sizeof s->folder, "%s", path);
        (void)!scan_folder(s, err);
    } else {
        (void)!single(s, path, err);
    }
    if (err->code == ERR_OK) (void)!sample_read_beside(s, err);
    if (err->code != ERR_OK) sample_set_close(s);
    return err->code;
}

void sample_set_close(struct sample_set *s)
{
    for (int64_t i = 0; i < s->count; i++) free(s->entries[i].path);
    free(s->entries);
    free(s->layer_ids);
    free(s->d2t);
    free(s->t2d);
    *s = (struct sample_set){.format = SAMPLE_FORMATS};
}

/* A folder that holds a sample by its name, blocks of specforge included. */
static bool folder_holds(const char *path, bool blocks)
{
    bool found = false;
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e && !found; e = readdir(d)) {
        struct err ignored = ERR_INIT;
        char below[FILE_PATH];
        enum sample_format f;
        int64_t n;
        found = parse_name(e->d_name, &f, &n);
        if (!found && blocks && is_block(e->d_name) &&
            file_join(path, e->d_name, below, &ignored) == ERR_OK)
            found = folder_holds(below, false);
    }
    if (d) closedir(d);
    return found;
}

/* A torch file of any name: tokens and states of them are a sample, anything else is not. */
static bool holds_sample(const char *path)
{
    static const char *const states[] = {"hidden_states", "hidden_state"};
    struct err ignored = ERR_INIT;
    struct pt_file f;
    bool is = false;
    if (pt_open(&f, path, &ignored) != ERR_OK) return false;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        is |= pt_get(&f.root, "input_ids") && pt_get(&f.root, states[i]);
    pt_close(&f);
    return is;
}

bool sample_is(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum sample_format f;
    int64_t n;
    if (file_is_folder(path)) return folder_holds(path, true);
    if (!file_exists(path)) return false;
    if (parse_name(name, &f, &n)) return true;
    if (text_ends(name, ".safetensors")) {
        struct err ignored = ERR_INIT;
        struct st_file st;
        bool both = st_open(&st, path, &ignored) == ERR_OK && st_find(&st, "hidden_states") &&
                    st_find(&st, "token_ids");
        st_close(&st);
        return both;
    }
    return (text_ends(name, ".pt") || text_ends(name, ".ckpt")) && holds_sample(path);
}
