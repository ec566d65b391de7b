/* inspect_against.c: a checkpoint against the contract that was recorded: what changed, appeared,
 * vanished, moved. The contract is read line by line; see inspect.h for its form. */
#include "harness/inspect.h"

#include "core/check.h"
#include "core/json.h"
#include "core/text.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the contract. */
struct wanted {
    const char *name, *dtype, *shape, *file, *hash;
};

struct wanted_file {
    const char *name, *header;
};

struct contract {
    struct inspection *s;
    const char *path;
    struct ins_contract head;
    struct wanted *tensors;
    int64_t count, room;
    struct wanted_file *files;
    int64_t file_count, file_room;
    int line;
};

/* ---- reading ---- */

static enum err_code bad(const struct contract *c, const char *found, struct err *err)
{
    return err_set(err, ERR_INPUT, "read contract|%s: line %d|%s|what --record writes", c->path,
                   c->line, found);
}

static enum err_code read_head(struct contract *c, const char *line, size_t size, struct err *err)
{
    json_t *v = NULL;
    const char *kind, *hash, *date, *config, *total;
    char *text = calloc(1, size + 2);
    if (!text) return err_set(err, ERR_MEMORY, "read contract|%s|no memory", c->path);
    memcpy(text, line, size);
    if (size && text[size - 1] == ',') text[size - 1] = '}';
    enum err_code rc = json_parse(text, (int64_t)size, c->path, &v, err);
    free(text);
    if (rc != ERR_OK) return rc;
    int64_t version;
    if (json_text_or(v, "contract", "", c->path, &kind, err) == ERR_OK &&
        json_int(v, "version", 1, 1, c->path, &version, err) == ERR_OK &&
        json_text_or(v, "hash", "", c->path, &hash, err) == ERR_OK &&
        json_text_or(v, "date", "", c->path, &date, err) == ERR_OK &&
        json_text_or(v, "config_sha256", "", c->path, &config, err) == ERR_OK &&
        json_text_or(v, "total", "", c->path, &total, err) == ERR_OK &&
        json_int(v, "tensors", 0, INT64_MAX, c->path, &c->head.tensors, err) == ERR_OK) {
        snprintf(c->head.date, sizeof c->head.date, "%s", date);
        snprintf(c->head.config_sha256, sizeof c->head.config_sha256, "%s", config);
        snprintf(c->head.total, sizeof c->head.total, "%s", total);
        if (strcmp(kind, "checkpoint") != 0)
            err_set(err, ERR_INPUT, "read contract|%s|contract \"%s\"|\"checkpoint\"", c->path,
                    kind);
        else if (strcmp(hash, INS_HASH_NAME) != 0)
            err_set(err, ERR_INPUT, "read contract|%s|hash \"%s\"|\"%s\"", c->path, hash,
                    INS_HASH_NAME);
    }
    json_decref(v);
    return err->code;
}

static void *grown(void *list, int64_t count, int64_t *room, size_t size)
{
    if (count < *room) return list;
    int64_t more = *room ? *room * 2 : 256;
    void *new = realloc(list, (size_t)more * size);
    if (new) *room = more;
    return new;
}

static const char *kept(struct contract *c, const json_t *v, const char *key)
{
    const char *text = json_string_value(json_object_get(v, key));
    return text ? ins_keep(c->s, text) : NULL;
}

static enum err_code add_tensor(struct contract *c, const json_t *v, struct err *err)
{
    int64_t dims[ST_DIMS] = {0};
    const json_t *shape = json_object_get(v, "shape");
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > ST_DIMS) return bad(c, "no shape", err);
    for (size_t i = 0; i < n; i++) dims[i] = json_integer_value(json_array_get(shape, i));
    struct wanted w = {kept(c, v, "name"), kept(c, v, "dtype"),
                       ins_keep(c->s, ins_shape(c->s, (int)n, dims)), kept(c, v, "file"),
                       kept(c, v, "hash")};
    if (!w.name || !w.dtype || !w.file || !w.hash)
        return bad(c, "no name, dtype, file or hash", err);
    if (c->count && strcmp(c->tensors[c->count - 1].name, w.name) > 0)
        return bad(c, "names that do not ascend", err);
    struct wanted *more = grown(c->tensors, c->count, &c->room, sizeof *more);
    if (!more) return err_set(err, ERR_MEMORY, "read contract|%s|no memory", c->path);
    c->tensors = more;
    c->tensors[c->count++] = w;
    return ERR_OK;
}

static enum err_code add_file(struct contract *c, const json_t *v, struct err *err)
{
    struct wanted_file w = {kept(c, v, "name"), kept(c, v, "header_sha256")};
    if (!w.name || !w.header) return bad(c, "no name or header_sha256", err);
    struct wanted_file *more = grown(c->files, c->file_count, &c->file_room, sizeof *more);
    if (!more) return err_set(err, ERR_MEMORY, "read contract|%s|no memory", c->path);
    c->files = more;
    c->files[c->file_count++] = w;
    return ERR_OK;
}

static enum err_code read_line(struct contract *c, const char *line, size_t size, bool weights,
                               struct err *err)
{
    json_t *v = NULL;
    char where[FILE_PATH + 32];
    if (size && line[size - 1] == ',') size--;
    snprintf(where, sizeof where, "%s: line %d", c->path, c->line);
    if (json_parse(line, (int64_t)size, where, &v, err) != ERR_OK) return err->code;
    enum err_code rc = weights ? add_tensor(c, v, err) : add_file(c, v, err);
    json_decref(v);
    return rc;
}

/* A contract that was cut or edited would make a changed checkpoint look whole. */
static enum err_code check_contract(struct contract *c, bool ended, struct err *err)
{
    char total[65] = "";
    struct ins_total *d = ins_total_new();
    if (!d) return err_set(err, ERR_MEMORY, "read contract|%s|no memory", c->path);
    for (int64_t i = 0; i < c->count; i++) {
        const struct wanted *w = &c->tensors[i];
        (void)!ins_total_add(d, w->name, w->dtype, w->shape, w->hash);
    }
    if (!ins_total_end(d, total))
        return err_set(err, ERR_MEMORY, "read contract|%s|no memory", c->path);
    if (!ended || c->count != c->head.tensors)
        return err_set(err, ERR_INPUT, "read contract|%s|%lld tensors%s|%lld, as its head says",
                       c->path, (long long)c->count, ended ? "" : ", and no end",
                       (long long)c->head.tensors);
    if (strcmp(total, c->head.total) != 0)
        return err_set(err, ERR_INPUT, "read contract|%s|total %s|%s: it was edited", c->path,
                       c->head.total, total);
    return ERR_OK;
}

static bool is_line(const char *line, size_t size, const char *text)
{
    return size == strlen(text) && memcmp(line, text, size) == 0;
}

static enum err_code read_contract(struct contract *c, struct err *err)
{
    struct file_map m;
    enum { HEAD, BETWEEN, FILES, WEIGHTS, END } at = HEAD;
    if (file_map(c->path, &m, err) != ERR_OK) return err->code;
    const char *p = (const char *)m.data, *end = p ? p + m.size : p;
    while (p < end && err->code == ERR_OK) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        c->line++;
        if (at == HEAD) {
            (void)!read_head(c, p, n, err);
            at = BETWEEN;
        } else if (is_line(p, n, "\"files\": [")) {
            at = FILES;
        } else if (is_line(p, n, "\"weights\": [")) {
            at = WEIGHTS;
        } else if (is_line(p, n, "],") && at == FILES) {
            at = BETWEEN;
        } else if (is_line(p, n, "]}") && at == WEIGHTS) {
            at = END;
        } else if (at == FILES || at == WEIGHTS) {
            (void)!read_line(c, p, n, at == WEIGHTS, err);
        } else {
            bad(c, "a line of another form", err);
        }
        p += n + 1;
    }
    file_unmap(&m);
    return err->code == ERR_OK ? check_contract(c, at == END, err) : err->code;
}

/* ---- comparing ---- */

struct change {
    json_t *changed, *appeared, *vanished, *moved;
    bool *touched; /* [file_count]: a tensor of it was named */
};

static void say(struct inspection *s, json_t *list, const char *what, const char *where,
                const char *tensor, const char *found, const char *wanted, const char *group)
{
    if (json_array_append_new(list, ins_json(tensor))) s->broken = true;
    ins_problem(s, (struct ins_problem){what, where, tensor, found, wanted, group, NULL});
}

static void compare(struct inspection *s, struct change *x, const struct wanted *w,
                    const struct ins_tensor *t, const char *hash)
{
    char text[256];
    const char *file = s->files[t->file].name;
    bool shaped =
        t->dims >= 0 && strcmp(st_shape_text(t->dims, t->shape, text, sizeof text), w->shape) == 0;
    if (!shaped || strcmp(dtype_name(t->dtype), w->dtype) != 0) {
        x->touched[t->file] = true;
        say(s, x->changed, "changed since recorded", file, t->raw,
            ins_text(s, "%s %s", dtype_name(t->dtype), t->dims >= 0 ? text : "of unknown shape"),
            ins_text(s, "%s %s", w->dtype, w->shape), NULL);
    } else if (strcmp(hash, w->hash) != 0) {
        x->touched[t->file] = true;
        say(s, x->changed, "changed since recorded", file, t->raw,
            hash[0] ? ins_text(s, "hash %s", hash) : "bytes that cannot be had",
            ins_text(s, "hash %s", w->hash), "changed since recorded");
    }
    if (strcmp(file, w->file) == 0) return;
    x->touched[t->file] = true;
    say(s, x->moved, "moved since recorded", file, t->raw, ins_text(s, "in %.300s", file),
        ins_text(s, "in %.300s", w->file), ins_text(s, "moved %.300s %.300s", file, w->file));
}

/* Both lists ascend. */
static void compare_all(const struct contract *c, struct change *x, const int64_t *order,
                        char (*hash)[INS_HASH])
{
    struct inspection *s = c->s;
    int64_t i = 0, k = 0;
    while (i < c->count || k < s->tensor_count) {
        const struct ins_tensor *t = k < s->tensor_count ? &s->tensors[order[k]] : NULL;
        const struct wanted *w = i < c->count ? &c->tensors[i] : NULL;
        int side = !t ? -1 : !w ? 1 : strcmp(w->name, t->raw);
        CHECK(t || w);
        if (w && side < 0) {
            say(s, x->vanished, "vanished since recorded", w->file, w->name, "nothing of that name",
                ins_text(s, "%s %s", w->dtype, w->shape), NULL);
        } else if (t && side > 0) {
            x->touched[t->file] = true;
            say(s, x->appeared, "appeared since recorded", s->files[t->file].name, t->raw,
                "a tensor", "none of that name", NULL);
        } else if (t && w) {
            compare(s, x, w, t, hash[order[k]]);
        }
        i += side <= 0;
        k += side >= 0;
    }
}

static void compare_files(const struct contract *c, const struct change *x)
{
    struct inspection *s = c->s;
    if (strcmp(s->config.sha256, c->head.config_sha256) != 0)
        ins_problem(s, (struct ins_problem){"changed since recorded", "config.json", "",
                                            ins_text(s, "SHA-256 %s", s->config.sha256),
                                            ins_text(s, "SHA-256 %s", c->head.config_sha256), NULL,
                                            NULL});
    for (int64_t i = 0; i < c->file_count; i++) {
        for (int64_t k = 0; k < s->file_count; k++) {
            const struct ins_file *f = &s->files[k];
            if (strcmp(f->name, c->files[i].name) != 0 || f->lost || x->touched[k] ||
                strcmp(f->header_sha256, c->files[i].header) == 0)
                continue;
            ins_problem(s, (struct ins_problem){"header changed since recorded", f->name, "",
                                                ins_text(s, "SHA-256 %s", f->header_sha256),
                                                ins_text(s, "SHA-256 %s", c->files[i].header), NULL,
                                                NULL});
        }
    }
}

static enum err_code compare_with(const struct contract *c, int threads, json_t *result,
                                  struct err *err)
{
    struct inspection *s = c->s;
    double began = clock_seconds();
    char(*hash)[INS_HASH] = calloc((size_t)s->tensor_count + 1, sizeof *hash);
    int64_t *order = ins_order_raw(s);
    struct change x = {json_array(), json_array(), json_array(), json_array(),
                       calloc((size_t)s->file_count + 1, sizeof *x.touched)};
    struct ins_hash_job job = {s, threads, hash, NULL, NULL};
    if (!hash || !order || !x.touched) err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    if (err->code == ERR_OK && ins_hash_all(&job, err) == ERR_OK) {
        compare_all(c, &x, order, hash);
        compare_files(c, &x);
    }
    progress_end();
    json_t *v =
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:f}", "contract", ins_json(c->path), "date",
                  c->head.date, "changed", x.changed, "appeared", x.appeared, "vanished",
                  x.vanished, "moved", x.moved, "seconds", clock_seconds() - began);
    if (err->code == ERR_OK && (s->broken || json_object_set(result, "against", v) != 0))
        err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    json_decref(v);
    free(hash);
    free(order);
    free(x.touched);
    return err->code;
}

enum err_code ins_against(struct inspection *s, const char *path, int threads, json_t *result,
                          struct err *err)
{
    struct contract c = {.s = s, .path = path};
    if (read_contract(&c, err) == ERR_OK) (void)!compare_with(&c, threads, result, err);
    free(c.tensors);
    free(c.files);
    return err->code;
}
