/* quote_file.c: see quote_file.h. What is printed is a script for the first hop's shell:
 *   1. writes the file here: as text where a terminal can take it, else from base64
 *   2. checks it
 *   3. carries it through the hops on the standard input; checks it there
 *   4. runs it there */
#include "harness/quote_file.h"

#include "core/digest.h"

#include <stdlib.h>
#include <string.h>

struct file {
    const char *text; /* of the script */
    size_t size;
    char sum[DIGEST_TEXT], name[64];
    bool printable;
};

static bool is_printable(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if ((*c < 0x20 && *c != '\n') || *c >= 0x7f) return false;
    }
    return true;
}

static enum err_code make_script(const char *const *argv, int n, struct pool *pool,
                                 struct file *out, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return err_set(err, ERR_MEMORY, "quote||no memory");
    fputs("#!/bin/sh\nexec ", f);
    shell_write(f, SHELL_SH, false, argv, n);
    fputc('\n', f);
    if (fclose(f) == 0) out->text = pool_text(pool, text, size, err);
    free(text);
    if (!out->text)
        return err->code != ERR_OK ? err->code : err_set(err, ERR_MEMORY, "quote||no memory");
    out->size = size;
    out->printable = is_printable(out->text);
    if (digest_sha256(out->text, (int64_t)size, "script", out->sum, err) != ERR_OK)
        return err->code;
    snprintf(out->name, sizeof out->name, "assay-%.12s.sh", out->sum);
    return ERR_OK;
}

static void write_base64(FILE *f, const unsigned char *data, size_t size)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned v = (unsigned)data[i] << 16 | (left > 1 ? (unsigned)data[i + 1] << 8 : 0) |
                     (left > 2 ? data[i + 2] : 0);
        fputc(digit[v >> 18], f);
        fputc(digit[v >> 12 & 63], f);
        fputc(left > 1 ? digit[v >> 6 & 63] : '=', f);
        fputc(left > 2 ? digit[v & 63] : '=', f);
        if (i % 57 == 54) fputc('\n', f);
    }
    if (size % 57) fputc('\n', f);
}

/* A line of the text that would end a here-document early makes the mark longer. */
static void make_mark(const char *text, char mark[64])
{
    int n = snprintf(mark, 64, "END_OF_FILE");
    while (strstr(text, mark) && n < 60) n += snprintf(mark + n, 64 - (size_t)n, "_");
}

static char *write_step(const struct file *file)
{
    char *text = NULL, mark[64];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    make_mark(file->text, mark);
    fprintf(f, "%s %s <<'%s'\n", file->printable ? "cat >" : "base64 -d >", file->name, mark);
    if (file->printable)
        fputs(file->text, f);
    else
        write_base64(f, (const unsigned char *)file->text, file->size);
    fputs(mark, f);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

static enum err_code add_step(json_t *steps, const char *text, bool print, struct err *err)
{
    if (!text || json_array_append_new(steps, json_string(text)) != 0)
        return err_set(err, ERR_MEMORY, "quote||no memory");
    if (print) puts(text);
    return ERR_OK;
}

static enum err_code steps_of(const struct hops *h, const struct file *file, struct pool *pool,
                              bool print, json_t *steps, struct err *err)
{
    const char *test =
        pool_format(pool, err, "echo '%s  %s' | sha256sum -c -", file->sum, file->name);
    const char *take = test ? pool_format(pool, err, "cat > %s && %s", file->name, test) : NULL;
    const char *const carry[] = {"sh", "-c", take}, *const start[] = {"sh", file->name};
    const char *line = NULL;
    char *written = take ? write_step(file) : NULL;
    enum err_code rc = take ? add_step(steps, written, print, err) : err->code;
    free(written);
    if (rc != ERR_OK || add_step(steps, test, print, err) != ERR_OK) return err->code;
    if (h->count > 1) {
        if (hops_line(h, carry, 3, true, pool, &line, err) != ERR_OK) return err->code;
        const char *piped = pool_format(pool, err, "%s < %s", line, file->name);
        if (!piped || add_step(steps, piped, print, err) != ERR_OK) return err->code;
    }
    if (hops_line(h, start, 2, false, pool, &line, err) != ERR_OK) return err->code;
    return add_step(steps, line, print, err);
}

enum err_code quote_file(const struct hops *h, const char *const *argv, int n, struct pool *pool,
                         bool print, json_t *result, struct err *err)
{
    struct file file = {0};
    json_t *steps = json_array();
    if (!steps) return err_set(err, ERR_MEMORY, "quote||no memory");
    if (make_script(argv, n, pool, &file, err) == ERR_OK &&
        steps_of(h, &file, pool, print, steps, err) == ERR_OK) {
        json_object_set_new(result, "file", json_string(file.name));
        json_object_set_new(result, "sha256", json_string(file.sum));
        json_object_set(result, "steps", steps);
    }
    json_decref(steps);
    return err->code;
}
