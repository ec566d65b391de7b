/* extract_manifest.c: manifest.json from a journal, and a journal from a manifest; see
 * extract_journal.h. */
#include "core/check.h"
#include "core/json.h"
#include "harness/extract_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

/* The file, and what goes to it in one piece: a line alone is a short write. */
struct writer {
    struct file_out file;
    char piece[1 << 16];
    int64_t used;
};

static enum err_code flush(struct writer *w, struct err *err)
{
    int64_t n = w->used;
    w->used = 0;
    return n ? file_out_write(&w->file, w->piece, n, err) : ERR_OK;
}

static enum err_code put(struct writer *w, const char *text, int64_t size, struct err *err)
{
    while (size > 0) {
        int64_t room = (int64_t)sizeof w->piece - w->used, n = size < room ? size : room;
        memcpy(w->piece + w->used, text, (size_t)n);
        w->used += n;
        text += n;
        size -= n;
        if (w->used == (int64_t)sizeof w->piece && flush(w, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code put_text(struct writer *w, const char *text, struct err *err)
{
    return put(w, text, (int64_t)strlen(text), err);
}

static bool is_skipped(const char *line, int64_t size)
{
    json_t *v = json_loadb(line, (size_t)size, 0, NULL);
    bool skipped = json_object_get(v, "why") != NULL;
    json_decref(v);
    return skipped;
}

/* One array: the journal's lines of either kind. */
static enum err_code put_entries(struct writer *w, const struct file_map *m, const char *key,
                                 bool skipped, struct err *err)
{
    const char *line;
    int64_t at = 0, size, n = 0;
    (void)!extract_journal_line(m, &at, &line, &size); /* the request */
    if (put_text(w, ",\n \"", err) != ERR_OK || put_text(w, key, err) != ERR_OK ||
        put_text(w, "\": [", err) != ERR_OK)
        return err->code;
    while (extract_journal_line(m, &at, &line, &size)) {
        if (is_skipped(line, size) != skipped) continue;
        if (put_text(w, n++ ? ",\n  " : "\n  ", err) != ERR_OK || put(w, line, size, err) != ERR_OK)
            return err->code;
    }
    return put_text(w, n ? "\n ]" : "]", err);
}

/* `head` is an object's text without the brace that closes it. */
static enum err_code put_manifest(struct writer *w, const char *head, const struct file_map *m,
                                  struct err *err)
{
    if (put_text(w, head, err) != ERR_OK || put_entries(w, m, "samples", false, err) != ERR_OK ||
        put_entries(w, m, "skipped", true, err) != ERR_OK || put_text(w, "\n}\n", err) != ERR_OK ||
        flush(w, err) != ERR_OK)
        return err->code;
    return file_out_commit(&w->file, err);
}

enum err_code extract_manifest_write(const struct extract_journal *j, const json_t *head,
                                     struct err *err)
{
    struct file_map m = {0};
    struct writer *w = calloc(1, sizeof *w);
    char *text = json_dumps(head, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    char *end = text ? strrchr(text, '\n') : NULL;
    if (!w || !text) err_set(err, ERR_MEMORY, "write manifest|%s|no memory", j->manifest);
    CHECK(!text || (end && strcmp(end, "\n}") == 0));
    if (end) *end = '\0';
    if (err->code == ERR_OK && file_map(j->path, &m, err) == ERR_OK &&
        file_out_open(&w->file, j->manifest, err) == ERR_OK)
        (void)!put_manifest(w, text, &m, err);
    if (w && w->file.path[0]) file_out_abandon(&w->file);
    file_unmap(&m);
    free(text);
    free(w);
    return err->code;
}

/* ---- reading back ---- */

/* The entries of both arrays in the order of their samples, as the journal's lines. */
static void put_lines(FILE *f, const json_t *manifest)
{
    const json_t *list[2] = {json_object_get(manifest, "samples"),
                             json_object_get(manifest, "skipped")};
    size_t at[2] = {0, 0};
    for (int64_t n = 0;; n++) {
        const json_t *v = NULL;
        for (int k = 0; k < 2 && !v; k++) {
            const json_t *first = json_array_get(list[k], at[k]);
            if (json_integer_value(json_object_get(first, "sample")) != n || !first) continue;
            v = first;
            at[k]++;
        }
        if (!v) return;
        char *text = json_dumps(v, JSON_COMPACT | JSON_PRESERVE_ORDER);
        if (text) fprintf(f, "%s\n", text);
        free(text);
    }
}

enum err_code extract_manifest_reopen(struct extract_journal *j, const json_t *request,
                                      struct err *err)
{
    json_t *manifest = NULL;
    char *lines = NULL;
    size_t size = 0;
    if (json_read(j->manifest, &manifest, err) != ERR_OK ||
        extract_request_check(request, manifest, j->folder, err) != ERR_OK) {
        json_decref(manifest);
        return err->code;
    }
    FILE *f = open_memstream(&lines, &size);
    if (f) {
        put_lines(f, manifest);
        fclose(f);
    }
    if (!f || !lines)
        err_set(err, ERR_MEMORY, "read manifest|%s|no memory", j->manifest);
    else
        (void)!extract_journal_write(j->path, request, lines, (int64_t)size, err);
    free(lines);
    json_decref(manifest);
    return err->code;
}
