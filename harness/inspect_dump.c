/* inspect_dump.c: a file of taps: whose it is, which rows, what is missing, what is no number. */
#include "harness/inspect.h"

#include "core/dump.h"
#include "core/json.h"
#include "core/text.h"
#include "core/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void problem(struct inspection *s, const char *what, const char *tensor, const char *found,
                    const char *wanted)
{
    ins_problem(s, (struct ins_problem){.what = what,
                                        .where = s->files[0].name,
                                        .tensor = tensor,
                                        .found = found,
                                        .wanted = wanted});
}

/* ---- values ---- */

struct specials {
    int64_t nan, inf, first; /* first: element of the first NaN */
};

static struct specials count_specials(const struct dump_tap *t)
{
    enum { PART = 4096 };
    double x[PART];
    struct specials n = {0, 0, -1};
    const struct st_tensor *s = t->tensor;
    for (int64_t at = 0; dtype_is_float(s->dtype) && at < s->count; at += PART) {
        int64_t m = s->count - at < PART ? s->count - at : PART;
        dtype_to_f64(s->dtype, (const char *)s->data + at * dtype_size(s->dtype), m, x);
        for (int64_t i = 0; i < m; i++) {
            if (isnan(x[i]) && n.nan++ == 0) n.first = at + i;
            n.inf += isinf(x[i]) != 0;
        }
    }
    return n;
}

static void add_tap(struct inspection *s, json_t *list, const struct dump_tap *t)
{
    struct specials n = count_specials(t);
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:b, s:I, s:I}", "name", t->name, "dtype",
                          dtype_name(t->tensor->dtype), "rows", (json_int_t)t->rows, "cols",
                          (json_int_t)t->cols, "known", t->known, "nan", (json_int_t)n.nan, "inf",
                          (json_int_t)n.inf);
    if (!o || json_array_append_new(list, o) != 0) s->broken = true;
    if (n.nan == 0) return;
    problem(s, "NaN", t->name,
            ins_text(s, "%lld NaN, the first at row %lld, column %lld", (long long)n.nan,
                     (long long)(n.first / t->cols), (long long)(n.first % t->cols)),
            "numbers");
}

/* ---- rows ---- */

/* How many taps have as many rows as this one. */
static int64_t with_rows(const struct dump *d, int64_t rows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < d->count; i++) n += d->taps[i].rows == rows;
    return n;
}

static void check_rows(struct inspection *s, const struct dump *d)
{
    int64_t most = 0;
    if (d->rows >= 0) return;
    for (int64_t i = 1; i < d->count; i++) {
        if (with_rows(d, d->taps[i].rows) > with_rows(d, d->taps[most].rows)) most = i;
    }
    for (int64_t i = 0; i < d->count; i++) {
        const struct dump_tap *t = &d->taps[i];
        if (t->rows == d->taps[most].rows || (t->known && tap_is_draft(t->kind))) continue;
        problem(s, "rows that differ", t->name, ins_text(s, "%lld rows", (long long)t->rows),
                ins_text(s, "%lld, as %lld other taps", (long long)d->taps[most].rows,
                         (long long)with_rows(d, d->taps[most].rows)));
    }
}

/* ---- against what should be there ---- */

static void missing(struct inspection *s, const char *name, const char *wanted)
{
    if (json_array_append_new(s->missing, ins_json(name))) s->broken = true;
    problem(s, "missing tap", name, "nothing of that name", wanted);
}

static void check_promised(struct inspection *s, const struct dump *d)
{
    for (int64_t i = 0; i < d->promised_count; i++) {
        if (!dump_find(d, d->promised[i]))
            missing(s, d->promised[i], "a tap, as assay.order promises");
    }
}

/* What the writer counted: compat/python/assay_taps.py. A count of 0 is a promise not kept. */
static void check_counts(struct inspection *s, const struct dump *d)
{
    const char *text = st_meta(&d->file, "assay.counts"), *name;
    struct err ignored = ERR_INIT;
    json_t *counts = NULL, *n;
    if (!text) return;
    if (json_parse(text, (int64_t)strlen(text), s->path, &counts, &ignored) != ERR_OK)
        problem(s, "assay.counts", "", ignored.found, "an object of numbers");
    json_object_foreach(counts, name, n)
    {
        if (json_integer_value(n) != 1)
            problem(s, "count of a tap", name,
                    ins_text(s, "%lld in one forward pass", (long long)json_integer_value(n)),
                    "one: a hook that did not fire, or a module that ran twice");
    }
    json_decref(counts);
}

static const struct tap *find_tap(const struct tap *taps, int64_t count, const char *name)
{
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(taps[i].name, name) == 0) return &taps[i];
    }
    return NULL;
}

static bool is_promised(const struct dump *d, const char *name)
{
    for (int64_t i = 0; i < d->promised_count; i++) {
        if (strcmp(d->promised[i], name) == 0) return true;
    }
    return false;
}

static enum err_code check_model(struct inspection *s, const struct dump *d, const struct config *c,
                                 struct err *err)
{
    struct tap *taps = NULL;
    int64_t count = 0;
    const char *sha = st_meta(&d->file, "assay.config_sha256");
    if (tap_list(c, 0, c->layers, &taps, &count, err) != ERR_OK) return err->code;
    if (sha && strcmp(sha, c->sha256) != 0)
        problem(s, "config of another model", "", ins_text(s, "SHA-256 %.80s", sha),
                ins_text(s, "SHA-256 %s", c->sha256));
    for (int64_t i = 0; i < count; i++) {
        if (!dump_find(d, taps[i].name) && !is_promised(d, taps[i].name))
            missing(s, taps[i].name, "a tap of the model");
    }
    for (int64_t i = 0; i < d->count; i++) {
        const struct dump_tap *t = &d->taps[i];
        const struct tap *wanted = find_tap(taps, count, t->name);
        if (!wanted && t->known && !tap_is_draft(t->kind)) {
            if (json_array_append_new(s->extra, ins_json(t->name))) s->broken = true;
            problem(s, "extra tap", t->name, "a tap", "none of that name in the model");
        } else if (wanted && wanted->cols != t->cols) {
            problem(s, "tap shape", t->name, ins_text(s, "%lld columns", (long long)t->cols),
                    ins_text(s, "%lld, as the model says", (long long)wanted->cols));
        }
    }
    free(taps);
    return ERR_OK;
}

static enum err_code read_model(const char *model, struct config *c, struct err *err)
{
    char path[FILE_PATH];
    if (text_starts(model, "synth:")) {
        struct weights w;
        if (weights_open(&w, model, err) == ERR_OK) *c = w.config;
        weights_close(&w);
        return err->code;
    }
    if (file_join(model, "config.json", path, err) != ERR_OK) return err->code;
    return config_read(path, c, err);
}

/* ---- all ---- */

static json_t *ints(const int64_t *list, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n && list; i++) json_array_append_new(a, json_integer(list[i]));
    return a;
}

static enum err_code describe(struct inspection *s, const struct dump *d, json_t *result,
                              struct err *err)
{
    json_t *taps = json_array(), *order = json_array();
    const char *model = st_meta(&d->file, "assay.model");
    for (int64_t i = 0; i < d->count; i++) {
        add_tap(s, taps, &d->taps[i]);
        json_array_append_new(order, ins_json(d->taps[i].name));
    }
    json_t *fields = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:s, s:o}", "engine", d->engine, "profile",
        d->profile, "model", model ? model : "", "rows", (json_int_t)d->rows, "token_count",
        (json_int_t)d->token_count, "sequences", (json_int_t)(d->lengths ? d->sequences : 1),
        "tokens", ints(d->tokens, d->token_count), "order", order, "order_from",
        d->promised_count ? "assay.order" : "the order of taps", "taps", taps);
    if (!fields || json_object_update(result, fields) != 0)
        err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    json_decref(fields);
    return err->code;
}

enum err_code ins_dump_open(struct inspection *s, const struct dump *d, const char *model,
                            json_t *result, struct err *err)
{
    struct config c;
    if (model && read_model(model, &c, err) != ERR_OK) return err->code;
    if (describe(s, d, result, err) != ERR_OK) return err->code;
    bool taps = d->promised_count > 0;
    for (int64_t i = 0; i < d->count; i++) taps |= d->taps[i].known;
    if (!taps) return ERR_OK; /* any tensors: nothing is known of what they should be */
    check_rows(s, d);
    check_promised(s, d);
    check_counts(s, d);
    return model ? check_model(s, d, &c, err) : ERR_OK;
}

enum err_code ins_dump(struct inspection *s, const char *model, json_t *result, struct err *err)
{
    struct dump d;
    struct err trouble = ERR_INIT;
    if (json_array_size(s->problems) > 0) return ERR_OK; /* its header is wrong: that was said */
    if (dump_open(&d, s->path, &trouble) != ERR_OK)
        ins_problem(s, (struct ins_problem){.what = trouble.what,
                                            .where = trouble.where,
                                            .found = trouble.found,
                                            .wanted = trouble.wanted});
    else
        (void)!ins_dump_open(s, &d, model, result, err);
    dump_close(&d);
    return err->code;
}
