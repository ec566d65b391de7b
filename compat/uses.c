/* uses.c: see uses.h: modules and the reader's small parts. */
#include "compat/uses.h"

#include "compat/uses_parts.h"
#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool reader_ok(const struct reader *r)
{
    return r->err->code == ERR_OK;
}

void *reader_bad(struct reader *r, const char *what, const char *found, const char *wanted)
{
    err_set(r->err, ERR_INPUT, "facts: %s|%s: %s:%d|%s|%s", what, r->where,
            r->module ? r->module : "?", r->line, found, wanted);
    return NULL;
}

void *reader_take(struct reader *r, int count, size_t size)
{
    if (!reader_ok(r) || count == 0) return NULL;
    return pool_take(r->pool, (size_t)count, size, r->err);
}

const char *reader_text_or_null(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v) || !reader_ok(r)) return NULL;
    if (!json_is_string(v)) return reader_bad(r, key, json_kind(v), "a text");
    return pool_text(r->pool, json_string_value(v), json_string_length(v), r->err);
}

const char *reader_text(struct reader *r, const json_t *o, const char *key)
{
    const char *text = reader_text_or_null(r, o, key);
    if (!text && reader_ok(r)) reader_bad(r, key, "nothing", "a text");
    return text;
}

int reader_int(struct reader *r, const json_t *o, const char *key)
{
    int64_t value = 0;
    if (reader_ok(r)) {
        enum err_code rc = json_int(o, key, 0, INT32_MAX, r->where, &value, r->err);
        if (rc != ERR_OK) err_note(r->err, "module %s", r->module ? r->module : "?");
    }
    return (int)value;
}

const json_t *reader_list(struct reader *r, const json_t *o, const char *key, int *n)
{
    const json_t *v = json_object_get(o, key);
    *n = 0;
    if (!v || json_is_null(v) || !reader_ok(r)) return NULL;
    if (!json_is_array(v)) return reader_bad(r, key, json_kind(v), "a list");
    if (json_array_size(v) > INT32_MAX) return reader_bad(r, key, "a huge list", "fewer entries");
    *n = (int)json_array_size(v);
    return v;
}

const char **reader_texts(struct reader *r, const json_t *o, const char *key, int *n)
{
    const json_t *list = reader_list(r, o, key, n);
    const char **out = reader_take(r, *n, sizeof *out);
    for (int i = 0; i < *n && reader_ok(r); i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (json_is_string(v))
            out[i] = pool_text(r->pool, json_string_value(v), json_string_length(v), r->err);
        else
            reader_bad(r, key, json_kind(v), "a text");
    }
    return out;
}

bool reader_enter(struct reader *r, const json_t *node, const char *what)
{
    r->depth++;
    if (!reader_ok(r)) return false;
    if (r->depth > USES_DEPTH) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "at most %d levels", USES_DEPTH);
        reader_bad(r, what, "deeper nesting", wanted);
        return false;
    }
    if (!json_is_object(node)) {
        reader_bad(r, what, json_kind(node), "an object");
        return false;
    }
    const json_t *line = json_object_get(node, "line");
    if (json_is_integer(line)) r->line = (int)json_integer_value(line);
    return true;
}

static void read_comments(struct reader *r, const json_t *comments, struct uses_module *m)
{
    const char *line;
    json_t *text;
    json_object_foreach((json_t *)comments, line, text)
    {
        int64_t at;
        struct uses_accept *a = reader_take(r, 1, sizeof *a);
        if (!a) return;
        if (!text_int(line, &at) || at < 1 || at > INT32_MAX || !json_is_string(text)) {
            reader_bad(r, "comments", line, "a line and its text");
            return;
        }
        const char *copy =
            pool_text(r->pool, json_string_value(text), json_string_length(text), r->err);
        *a = (struct uses_accept){.line = (int)at, .text = copy, .next = m->comment};
        m->comment = a;
    }
}

static void read_module(struct reader *r, const char *name, const json_t *o, struct uses_module *m)
{
    r->module = name;
    r->line = 0;
    if (!json_is_object(o)) {
        reader_bad(r, "module", json_kind(o), "an object");
        return;
    }
    m->name = pool_text(r->pool, name, strlen(name), r->err);
    m->file = reader_text(r, o, "file");
    const char *base = m->file ? strrchr(m->file, '/') : NULL;
    base = base ? base + 1 : m->file;
    m->package = base && strncmp(base, "__init__.", 9) == 0;
    r->accept = NULL;
    m->body = reader_block(r, o, "body");
    m->accept = r->accept;
    read_comments(r, json_object_get(o, "comments"), m);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct uses_module *)a)->name, ((const struct uses_module *)b)->name);
}

static void read_modules(struct reader *r, const json_t *modules, struct uses *out)
{
    const char *name;
    json_t *o;
    int n = 0;
    if (!json_is_object(modules)) {
        reader_bad(r, "modules", json_kind(modules), "an object");
        return;
    }
    out->module = reader_take(r, (int)json_object_size(modules), sizeof *out->module);
    json_object_foreach((json_t *)modules, name, o)
    {
        if (!reader_ok(r)) return;
        read_module(r, name, o, &out->module[n++]);
    }
    out->modules = n;
    if (reader_ok(r) && n > 1) qsort(out->module, (size_t)n, sizeof *out->module, by_name);
}

static void read_problems(struct reader *r, const json_t *json, struct uses *out)
{
    const json_t *list = reader_list(r, json, "problems", &out->problems);
    out->problem = reader_take(r, out->problems, sizeof *out->problem);
    for (int i = 0; i < out->problems && reader_ok(r); i++) {
        const json_t *p = json_array_get(list, (size_t)i), *line = json_object_get(p, "line");
        out->problem[i].file = reader_text(r, p, "file");
        out->problem[i].what = reader_text(r, p, "what");
        out->problem[i].line = json_is_integer(line) ? (int)json_integer_value(line) : 0;
    }
}

enum err_code uses_read(const json_t *json, const char *where, struct pool *pool, struct uses *out,
                        struct err *err)
{
    struct reader r = {.pool = pool, .where = where, .err = err};
    *out = (struct uses){0};
    int64_t facts;
    if (json_int(json, "facts", 1, 1, where, &facts, err) != ERR_OK) return err->code;
    const char *kind = reader_text(&r, json, "kind");
    if (kind && strcmp(kind, "uses") != 0) reader_bad(&r, "kind", kind, "uses");
    const json_t *c = json_object_get(json, "consumer");
    out->name = reader_text_or_null(&r, c, "name");
    out->version = reader_text_or_null(&r, c, "version");
    out->source = reader_text_or_null(&r, c, "source");
    out->sha256 = reader_text_or_null(&r, c, "sha256");
    read_problems(&r, json, out);
    if (reader_ok(&r)) read_modules(&r, json_object_get(json, "modules"), out);
    out->defs = r.defs;
    return err->code;
}

const struct uses_module *uses_find(const struct uses *u, const char *name)
{
    struct uses_module key = {.name = name};
    if (u->modules == 0) return NULL;
    return bsearch(&key, u->module, (size_t)u->modules, sizeof key, by_name);
}
