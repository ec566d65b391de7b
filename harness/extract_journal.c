/* extract_journal.c: see extract_journal.h. */
#include "harness/extract_journal.h"

#include "core/check.h"
#include "core/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- entries ---- */

json_t *extract_entry_json(const struct extract_entry *e)
{
    if (!e->file[0]) return json_pack("{s:I, s:s}", "sample", (json_int_t)e->sample, "why", e->why);
    return json_pack("{s:I, s:s, s:I, s:I, s:s}", "sample", (json_int_t)e->sample, "file", e->file,
                     "tokens", (json_int_t)e->tokens, "bytes", (json_int_t)e->bytes, "sha256",
                     e->sha256);
}

enum err_code extract_entry_read(const json_t *v, const char *where, struct extract_entry *out,
                                 struct err *err)
{
    const char *file, *sum, *why;
    *out = (struct extract_entry){0};
    if (json_int(v, "sample", 0, INT64_MAX, where, &out->sample, err) != ERR_OK ||
        json_text_or(v, "why", "", where, &why, err) != ERR_OK ||
        json_text_or(v, "file", "", where, &file, err) != ERR_OK ||
        json_text_or(v, "sha256", "", where, &sum, err) != ERR_OK ||
        json_int_or(v, "tokens", 0, INT64_MAX, 0, where, &out->tokens, err) != ERR_OK ||
        json_int_or(v, "bytes", 0, INT64_MAX, 0, where, &out->bytes, err) != ERR_OK)
        return err->code;
    if (!file[0] == !why[0] || strlen(file) >= sizeof out->file ||
        (file[0] && strlen(sum) != sizeof out->sha256 - 1))
        return err_set(err, ERR_INPUT, "read entry|%s|no file with its sha256|one, or a why",
                       where);
    snprintf(out->file, sizeof out->file, "%s", file);
    snprintf(out->sha256, sizeof out->sha256, "%s", sum);
    snprintf(out->why, sizeof out->why, "%s", why);
    return ERR_OK;
}

bool extract_journal_line(const struct file_map *m, int64_t *at, const char **line, int64_t *size)
{
    if (*at >= m->size) return false;
    *line = (const char *)m->data + *at;
    const char *stop = memchr(*line, '\n', (size_t)(m->size - *at));
    if (!stop) return false;
    *size = stop - *line;
    *at += *size + 1;
    return true;
}

/* ---- opening ---- */

enum err_code extract_journal_write(const char *path, const json_t *request, const char *lines,
                                    int64_t bytes, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    char *text = json_dumps(request, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text) return err_set(err, ERR_MEMORY, "write journal|%s|no memory", path);
    if (file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, text, (int64_t)strlen(text), err) == ERR_OK &&
        file_out_write(&f, "\n", 1, err) == ERR_OK &&
        file_out_write(&f, lines, bytes, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(text);
    return err->code;
}

/* Opens and locks the file; the lock goes with the process, however that ends. */
static enum err_code take(struct extract_journal *j, struct err *err)
{
    j->fd = open(j->path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (j->fd < 0) return err_sys(err, errno, "open journal|%s", j->path);
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return err_set(err, ERR_IO, "resume|%s|another extract at work in it|one at a time",
                       j->folder);
    return ERR_OK;
}

/* The file of an entry is there, in its size. */
static bool is_whole(const struct extract_journal *j, const struct extract_entry *e)
{
    char path[FILE_PATH];
    struct stat st;
    struct err none = ERR_INIT;
    if (!e->file[0]) return true;
    return file_join(j->folder, e->file, path, &none) == ERR_OK && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_size == e->bytes;
}

static bool read_line(const struct extract_journal *j, const char *line, int64_t size,
                      struct extract_entry *e)
{
    struct err none = ERR_INIT;
    json_t *v = NULL;
    if (json_parse(line, size, j->path, &v, &none) == ERR_OK)
        (void)!extract_entry_read(v, j->path, e, &none);
    json_decref(v);
    return none.code == ERR_OK;
}

/* Counts the entries that stand and cuts off what comes after them. */
static enum err_code walk(struct extract_journal *j, int64_t at, struct err *err)
{
    const char *line;
    int64_t size, end = at;
    struct extract_entry e;
    j->at = at;
    while (extract_journal_line(&j->map, &at, &line, &size) && read_line(j, line, size, &e) &&
           e.sample == j->count && is_whole(j, &e)) {
        j->count++;
        end = at;
    }
    j->first = j->count;
    if (end < j->map.size && ftruncate(j->fd, end) != 0)
        return err_sys(err, errno, "cut journal|%s", j->path);
    return ERR_OK;
}

static enum err_code go_on(struct extract_journal *j, const json_t *request, struct err *err)
{
    const char *line = "";
    int64_t at = 0, size = 0;
    json_t *before = NULL;
    if (take(j, err) != ERR_OK || file_map(j->path, &j->map, err) != ERR_OK) return err->code;
    (void)!extract_journal_line(&j->map, &at, &line, &size);
    if (json_parse(line, size, j->path, &before, err) == ERR_OK)
        (void)!extract_request_check(request, before, j->folder, err);
    json_decref(before);
    if (err->code != ERR_OK) return err->code;
    extract_temporaries_remove(j->folder);
    unlink(j->manifest); /* of a run that was killed between manifest and journal */
    return walk(j, at, err);
}

static enum err_code begin(struct extract_journal *j, const json_t *request, struct err *err)
{
    char name[EXTRACT_NAME];
    if (extract_folder_other(j->folder, NULL, true, name))
        return err_set(err, ERR_INPUT,
                       "resume|%s|%s, and no extract.journal or manifest.json|a folder that an "
                       "extract wrote, or an empty one",
                       j->folder, name);
    extract_temporaries_remove(j->folder);
    if (extract_journal_write(j->path, request, "", 0, err) != ERR_OK) return err->code;
    return take(j, err);
}

enum err_code extract_folder_check(const char *folder, bool resume, struct err *err)
{
    char name[EXTRACT_NAME];
    if (resume || !file_is_folder(folder) || !extract_folder_other(folder, NULL, false, name))
        return ERR_OK;
    return err_set(err, ERR_INPUT, "extract|%s|%s in it|an empty folder, or --resume", folder,
                   name);
}

enum err_code extract_journal_open(struct extract_journal *j, const char *folder,
                                   const json_t *request, bool resume, struct err *err)
{
    *j = (struct extract_journal){.fd = -1, .made = !file_exists(folder)};
    int n = snprintf(j->folder, sizeof j->folder, "%s", folder);
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "path|--out|%d bytes|fewer than %d", n, FILE_PATH);
    if (extract_folder_check(folder, resume, err) != ERR_OK ||
        file_join(folder, "extract.journal", j->path, err) != ERR_OK ||
        file_join(folder, "manifest.json", j->manifest, err) != ERR_OK ||
        file_make_folder(folder, err) != ERR_OK)
        return err->code;
    if (!file_exists(j->path) && file_exists(j->manifest) &&
        extract_manifest_reopen(j, request, err) != ERR_OK)
        return err->code;
    j->ours = (file_exists(j->path) ? go_on(j, request, err) : begin(j, request, err)) == ERR_OK;
    return err->code;
}

/* ---- at work ---- */

enum err_code extract_journal_next(struct extract_journal *j, struct extract_entry *out,
                                   struct err *err)
{
    const char *line;
    int64_t size;
    if (!extract_journal_line(&j->map, &j->at, &line, &size) || !read_line(j, line, size, out))
        return err_set(err, ERR_INPUT, "read journal|%s|a line that has changed|%lld samples",
                       j->path, (long long)j->first);
    return ERR_OK;
}

enum err_code extract_journal_add(struct extract_journal *j, const struct extract_entry *e,
                                  struct err *err)
{
    CHECK(j->fd >= 0 && e->sample == j->count);
    json_t *v = extract_entry_json(e);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(v);
    if (!text) return err_set(err, ERR_MEMORY, "write journal|%s|no memory", j->path);
    int64_t size = (int64_t)strlen(text);
    text[size++] = '\n'; /* in place of the NUL: a line is one write, whole or cut off later */
    for (int64_t done = 0; done < size && err->code == ERR_OK;) {
        ssize_t n = write(j->fd, text + done, (size_t)(size - done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) err_sys(err, n < 0 ? errno : ENOSPC, "write journal|%s", j->path);
        done += n;
    }
    free(text);
    if (err->code == ERR_OK) j->count++;
    return err->code;
}

enum err_code extract_journal_finish(struct extract_journal *j, const json_t *head, struct err *err)
{
    if (extract_manifest_write(j, head, err) != ERR_OK) return err->code;
    if (unlink(j->path) != 0) return err_sys(err, errno, "remove journal|%s", j->path);
    return ERR_OK;
}

void extract_journal_close(struct extract_journal *j)
{
    char name[EXTRACT_NAME];
    file_unmap(&j->map);
    if (j->fd >= 0) close(j->fd);
    if (j->ours && j->count == 0 &&
        !extract_folder_other(j->folder, "extract.journal", false, name))
        unlink(j->path);
    if (j->made) rmdir(j->folder); /* succeeds where nothing was written */
    *j = (struct extract_journal)EXTRACT_JOURNAL_INIT;
}
