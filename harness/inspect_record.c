/* inspect_record.c: the checkpoint contract, written; see inspect.h for its form. */
#include "harness/inspect.h"

#include "harness/session.h"
#include "harness/verb.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ins_total {
    EVP_MD_CTX *ctx;
    bool failed;
};

struct ins_total *ins_total_new(void)
{
    struct ins_total *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->ctx = EVP_MD_CTX_new();
    d->failed = !d->ctx || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1;
    return d;
}

bool ins_total_add(struct ins_total *d, const char *name, const char *dtype, const char *shape,
                   const char *hash)
{
    const char *const parts[] = {name, "\t", dtype, "\t", shape, "\t", hash, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !d->failed; i++)
        d->failed = EVP_DigestUpdate(d->ctx, parts[i], strlen(parts[i])) != 1;
    return !d->failed;
}

bool ins_total_end(struct ins_total *d, char hex[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    bool good = !d->failed && EVP_DigestFinal_ex(d->ctx, digest, &n) == 1 && n == 32;
    for (unsigned i = 0; i < 32 && good; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(d->ctx);
    free(d);
    return good;
}

static int by_raw(const void *a, const void *b, void *tensors)
{
    const struct ins_tensor *s = (const struct ins_tensor *)tensors + *(const int64_t *)a,
                            *t = (const struct ins_tensor *)tensors + *(const int64_t *)b;
    int order = strcmp(s->raw, t->raw);
    return order ? order : (s->file > t->file) - (s->file < t->file);
}

int64_t *ins_order_raw(const struct inspection *s)
{
    int64_t *order = calloc((size_t)s->tensor_count + 1, sizeof *order);
    if (!order) return NULL;
    for (int64_t i = 0; i < s->tensor_count; i++) order[i] = i;
    if (s->tensor_count) qsort_r(order, (size_t)s->tensor_count, sizeof *order, by_raw, s->tensors);
    return order;
}

/* ---- writing ---- */

/* Lines go out in blocks. */
struct lines {
    struct file_out *file;
    struct err *err;
    size_t used;
    char text[1 << 16];
};

static void flush_lines(struct lines *l)
{
    if (l->err->code == ERR_OK) (void)!file_out_write(l->file, l->text, (int64_t)l->used, l->err);
    l->used = 0;
}

static void put(struct lines *l, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        if (l->used == sizeof l->text) flush_lines(l);
        size_t part = sizeof l->text - l->used < n ? sizeof l->text - l->used : n;
        memcpy(l->text + l->used, text, part);
        l->used += part;
        text += part;
        n -= part;
    }
}

/* A compact JSON value, which is released. */
static void put_json(struct lines *l, json_t *v, const char *end)
{
    char *text = v ? json_dumps(v, JSON_PRESERVE_ORDER) : NULL;
    json_decref(v);
    if (!text) {
        err_set(l->err, ERR_MEMORY, "record|%s|no memory", l->file->path);
        return;
    }
    put(l, text);
    put(l, end);
    free(text);
}

static void put_head(struct lines *l, const struct ins_contract *c)
{
    json_t *head = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "assay",
                             ASSAY_VERSION, "contract", "checkpoint", "version", 1, "date", c->date,
                             "config_sha256", c->config_sha256, "hash", INS_HASH_NAME, "tensors",
                             (json_int_t)c->tensors, "bytes", (json_int_t)c->bytes, "problems",
                             (json_int_t)c->problems, "total", c->total);
    char *text = head ? json_dumps(head, JSON_PRESERVE_ORDER) : NULL;
    json_decref(head);
    if (!text) {
        err_set(l->err, ERR_MEMORY, "record|%s|no memory", l->file->path);
        return;
    }
    text[strlen(text) - 1] = '\0'; /* the object goes on */
    put(l, text);
    put(l, ",\n\"files\": [\n");
    free(text);
}

static json_t *shape_json(const struct ins_tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->dims; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return shape;
}

static void put_body(struct lines *l, const struct inspection *s, const int64_t *order,
                     char (*hash)[INS_HASH])
{
    for (int64_t i = 0; i < s->file_count; i++) {
        const struct ins_file *f = &s->files[i];
        put_json(l,
                 json_pack("{s:o, s:I, s:s}", "name", ins_json(f->name), "bytes",
                           (json_int_t)f->size, "header_sha256", f->header_sha256),
                 i + 1 < s->file_count ? ",\n" : "\n");
    }
    put(l, "],\n\"weights\": [\n");
    for (int64_t i = 0; i < s->tensor_count && l->err->code == ERR_OK; i++) {
        const struct ins_tensor *t = &s->tensors[order[i]];
        put_json(l,
                 json_pack("{s:s, s:s, s:o, s:o, s:s}", "name", t->raw, "dtype",
                           dtype_name(t->dtype), "shape", shape_json(t), "file",
                           ins_json(s->files[t->file].name), "hash", hash[order[i]]),
                 i + 1 < s->tensor_count ? ",\n" : "\n");
    }
    put(l, "]}\n");
}

static enum err_code write_contract(const struct inspection *s, const char *path,
                                    struct ins_contract *c, char (*hash)[INS_HASH], struct err *err)
{
    char shape[256];
    struct file_out f = FILE_OUT_INIT;
    struct lines *l = calloc(1, sizeof *l);
    struct ins_total *d = ins_total_new();
    int64_t *order = ins_order_raw(s);
    bool good = l && d && order;
    for (int64_t i = 0; i < s->tensor_count && good; i++) {
        const struct ins_tensor *t = &s->tensors[order[i]];
        st_shape_text(t->dims, t->shape, shape, sizeof shape);
        good = ins_total_add(d, t->raw, dtype_name(t->dtype), shape, hash[order[i]]);
    }
    if (d && !ins_total_end(d, c->total)) good = false;
    if (!good) err_set(err, ERR_MEMORY, "record|%s|no memory", path);
    if (good && file_out_open(&f, path, err) == ERR_OK) {
        *l = (struct lines){.file = &f, .err = err};
        put_head(l, c);
        put_body(l, s, order, hash);
        flush_lines(l);
        if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    }
    file_out_abandon(&f);
    free(order);
    free(l);
    return err->code;
}

/* ---- all ---- */

/* SOURCE_DATE_EPOCH: builds that must not depend on the day. */
static void set_date(struct ins_contract *c)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    time_t now = fixed ? (time_t)strtoll(fixed, NULL, 10) : time(NULL);
    struct tm tm;
    if (!gmtime_r(&now, &tm) || !strftime(c->date, sizeof c->date, "%Y-%m-%dT%H:%M:%SZ", &tm))
        snprintf(c->date, sizeof c->date, "unknown");
}

/* Why a contract cannot be written, or NULL. */
static const char *obstacle(struct inspection *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->file_count; i++) {
        if (s->files[i].lost)
            return ins_text(s, "%.300s cannot be read: %.300s", s->files[i].name, s->files[i].lost);
    }
    for (int64_t i = 0; i < s->tensor_count; i++) n += !s->tensors[i].placed;
    return n ? ins_text(s, "the bytes of %lld tensors cannot be had", (long long)n) : NULL;
}

struct record {
    struct inspection *s;
    struct ins_partial partial;
    char (*hash)[INS_HASH];
};

static enum err_code on_hashed(void *ctx, int64_t i, struct err *err)
{
    struct record *r = ctx;
    return ins_partial_add(&r->partial, i, r->hash[i], err);
}

enum err_code ins_record(struct inspection *s, const char *path, int threads, json_t *result,
                         struct err *err)
{
    struct ins_contract c = {.tensors = s->tensor_count,
                             .problems = (int64_t)json_array_size(s->problems)};
    struct record r = {.s = s, .partial = {.fd = -1}};
    const char *why = obstacle(s);
    double began = clock_seconds();
    if (why) {
        json_object_set_new(result, "recorded", json_pack("{s:b, s:s}", "done", 0, "why", why));
        return ERR_OK;
    }
    r.hash = calloc((size_t)s->tensor_count + 1, sizeof *r.hash);
    if (!r.hash) return err_set(err, ERR_MEMORY, "record|%s|no memory", path);
    struct ins_hash_job job = {s, threads, r.hash, on_hashed, &r};
    for (int64_t i = 0; i < s->tensor_count; i++) c.bytes += s->tensors[i].bytes;
    snprintf(c.config_sha256, sizeof c.config_sha256, "%s", s->config.sha256);
    set_date(&c);
    if (ins_partial_open(&r.partial, s, path, r.hash, &c, err) == ERR_OK &&
        ins_hash_all(&job, err) == ERR_OK)
        (void)!write_contract(s, path, &c, r.hash, err);
    progress_end();
    ins_partial_close(&r.partial, err->code == ERR_OK);
    free(r.hash);
    if (err->code != ERR_OK) return err->code;
    json_object_set_new(result, "recorded",
                        json_pack("{s:b, s:o, s:s, s:s, s:I, s:f}", "done", 1, "file",
                                  ins_json(path), "date", c.date, "total", c.total, "resumed",
                                  (json_int_t)r.partial.resumed, "seconds",
                                  clock_seconds() - began));
    return ERR_OK;
}
