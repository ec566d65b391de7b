/* inspect_layout.c: the tensors that the files hold against those that the config wants: missing,
 * in two places, of another shape or dtype. What is missing whole (a file, a layer, an expert) is
 * one problem. */
#include "harness/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum dtype stored(void *ctx, const char *name)
{
    const struct ins_tensor *t = ins_find(ctx, name);
    return t ? t->dtype : DT_COUNT;
}

/* weight_shape is needed where any linear has one: some writers leave it out. */
static bool has_weight_shapes(const struct inspection *s)
{
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const char *end = strrchr(s->tensors[i].name, '.');
        if (end && strcmp(end, ".weight_shape") == 0) return true;
    }
    return false;
}

static void problem(struct inspection *s, const char *what, const struct ins_tensor *t,
                    const char *found, const char *wanted)
{
    ins_problem(s, (struct ins_problem){.what = what,
                                        .where = s->files[t->file].name,
                                        .tensor = t->raw,
                                        .found = found,
                                        .wanted = wanted});
}

/* ---- one tensor ---- */

/* " (groups of 128)" for a scale whose columns divide the linear's. */
static const char *groups_text(struct inspection *s, const struct layout_tensor *e, int dims,
                               const int64_t *shape)
{
    if (e->kind != LAYOUT_SCALE || dims != 2 || shape[1] <= 0 || e->in % shape[1]) return "";
    return ins_text(s, " (groups of %lld)", (long long)(e->in / shape[1]));
}

static void check_shape(struct inspection *s, const struct ins_tensor *t,
                        const struct layout_tensor *e)
{
    if (t->dims < 0) return; /* said when the header was read */
    if (t->dims == e->dims && memcmp(t->shape, e->shape, (size_t)e->dims * sizeof *e->shape) == 0)
        return;
    const char *what = e->kind == LAYOUT_SCALE || e->kind == LAYOUT_BLOCK ? "scale shape"
                       : e->kind == LAYOUT_CODES                          ? "packed shape"
                                                                          : "tensor shape";
    const char *found = ins_shape(s, t->dims, t->shape), *wanted = ins_shape(s, e->dims, e->shape);
    problem(s, what, t, ins_text(s, "%s%s", found, groups_text(s, e, t->dims, t->shape)),
            ins_text(s, "%s%s, as config.json says", wanted, groups_text(s, e, e->dims, e->shape)));
}

static void check_dtype(struct inspection *s, const struct ins_tensor *t,
                        const struct layout_tensor *e)
{
    char text[64];
    if (t->dtype == DT_COUNT || layout_dtype_fits(&s->config, e->kind, t->dtype)) return;
    problem(s, "wrong dtype", t, dtype_name(t->dtype),
            layout_dtype_text(&s->config, e->kind, text, sizeof text));
}

/* Every tensor of that name belongs to entry i; a second one is a problem. */
static void match(struct inspection *s, struct ins_tensor *t, int64_t i)
{
    const struct layout_tensor *e = &s->layout.tensors[i];
    for (; t < s->tensors + s->tensor_count && strcmp(t->name, e->name) == 0; t++) {
        t->expected = i;
        check_shape(s, t, e);
        check_dtype(s, t, e);
    }
}

static void check_twice(struct inspection *s)
{
    for (int64_t i = 1; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i], *first = t - 1;
        if (strcmp(t->name, first->name) != 0) continue;
        problem(s, "tensor in two shards", t, ins_text(s, "also in %s", s->files[first->file].name),
                "one shard");
    }
}

/* A type that fits, but not that of its kind: where most norms are BF16, one in F32 is odd. */
static void check_odd_dtypes(struct inspection *s)
{
    int64_t(*count)[DT_COUNT] = calloc((size_t)layout_roles(), sizeof *count);
    if (!count) {
        s->broken = true;
        return;
    }
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        if (t->expected >= 0 && t->dtype != DT_COUNT)
            count[s->layout.tensors[t->expected].role][t->dtype]++;
    }
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        if (t->expected < 0 || t->dtype == DT_COUNT) continue;
        const struct layout_tensor *e = &s->layout.tensors[t->expected];
        int most = 0;
        for (int k = 0; k < DT_COUNT; k++) {
            if (count[e->role][k] > count[e->role][most]) most = k;
        }
        if (count[e->role][most] > count[e->role][t->dtype] &&
            layout_dtype_fits(&s->config, e->kind, t->dtype))
            problem(s, "odd dtype", t, dtype_name(t->dtype),
                    ins_text(s, "%s, as the other %lld of its kind", dtype_name((enum dtype)most),
                             (long long)count[e->role][most]));
    }
    free(count);
}

/* ---- what is missing ---- */

static int by_absent(const void *a, const void *b)
{
    return strcmp((*(const struct layout_tensor *const *)a)->name,
                  (*(const struct layout_tensor *const *)b)->name);
}

bool ins_absent(const struct inspection *s, const char *name)
{
    const struct layout_tensor key = {.name = name}, *at = &key;
    return s->absent_count > 0 &&
           bsearch(&at, s->absent, (size_t)s->absent_count, sizeof *s->absent, by_absent);
}

/* The file that the index gives for a tensor, or -1. */
static int32_t promised_in(const struct inspection *s, const char *name)
{
    const struct ins_entry *e = ins_indexed(s, name);
    return e ? e->file : -1;
}

void ins_report_lost(struct inspection *s)
{
    for (int64_t f = 0; f < s->file_count; f++) {
        int64_t n = 0;
        if (!s->files[f].lost) continue;
        for (int64_t i = 0; i < s->entry_count; i++) n += s->entries[i].file == f;
        ins_problem(s, (struct ins_problem){
                           .what = "unreadable file",
                           .where = s->files[f].name,
                           .found = s->files[f].lost,
                           .wanted = n ? ins_text(s, "a shard with %lld tensors", (long long)n)
                                       : "a safetensors file"});
    }
}

/* A run [first, end) of the layout, of one layer or one expert: how much of it is absent. Tensors
 * of a file that is lost as a whole do not count: that was said. */
struct stretch {
    int64_t first, end, absent;
};

static bool is_absent(const struct inspection *s, int64_t i)
{
    const char *name = s->layout.tensors[i].name;
    int32_t file = promised_in(s, name);
    return ins_absent(s, name) && !(file >= 0 && s->files[file].lost);
}

static struct stretch stretch_of(const struct inspection *s, int64_t first, bool expert)
{
    const struct layout_tensor *l = s->layout.tensors;
    struct stretch r = {first, first, 0};
    for (; r.end < s->layout.count && l[r.end].layer == l[first].layer &&
           (!expert || l[r.end].expert == l[first].expert);
         r.end++)
        r.absent += is_absent(s, r.end);
    return r;
}

static const char *place_of(struct inspection *s, const char *name)
{
    int32_t file = promised_in(s, name);
    return file >= 0 ? s->files[file].name : s->path;
}

static void report_stretch(struct inspection *s, const struct stretch *r, bool expert)
{
    const struct layout_tensor *e = &s->layout.tensors[r->first];
    long long n = (long long)(r->end - r->first);
    const char *end = strstr(e->name, expert ? ".experts." : ".layers.");
    end = strchr(end + strlen(expert ? ".experts." : ".layers."), '.');
    const char *tensor = ins_text(s, "%.*s.*", (int)(end - e->name), e->name);
    const char *found =
        expert ? ins_text(s, "layer %d: expert %d is missing: %lld tensors", e->layer, e->expert, n)
               : ins_text(s, "layer %d is missing: %lld tensors", e->layer, n);
    ins_problem(s, (struct ins_problem){.what = expert ? "missing expert" : "missing layer",
                                        .where = place_of(s, e->name),
                                        .tensor = tensor,
                                        .found = found,
                                        .wanted = "all of them, as config.json says",
                                        .group = expert ? "missing expert" : "missing layer"});
}

static void report_tensor(struct inspection *s, int64_t i)
{
    const char *name = s->layout.tensors[i].name;
    if (!is_absent(s, i)) return;
    ins_problem(s, (struct ins_problem){.what = "missing tensor",
                                        .where = place_of(s, name),
                                        .tensor = name,
                                        .found = "nothing of that name",
                                        .wanted = "a tensor, as config.json says"});
}

static bool is_whole(const struct stretch *r)
{
    return r->absent == r->end - r->first;
}

static void report_absent(struct inspection *s)
{
    struct stretch layer = {0};
    for (int64_t i = 0; i < s->layout.count && s->absent_count > 0;) {
        const struct layout_tensor *e = &s->layout.tensors[i];
        struct stretch part = stretch_of(s, i, true);
        bool starts = e->layer >= 0 && e[-1].layer != e->layer; /* the embedding comes first */
        if (starts) layer = stretch_of(s, i, false);
        if (starts && is_whole(&layer)) {
            report_stretch(s, &layer, false);
            part.end = layer.end;
        } else if (e->expert >= 0 && is_whole(&part)) {
            report_stretch(s, &part, true);
        } else {
            for (int64_t k = part.first; k < part.end; k++) report_tensor(s, k);
        }
        i = part.end;
    }
}

/* ---- all ---- */

/* Groups that do not divide the columns leave the last scale's columns open. */
static void check_group(struct inspection *s)
{
    const struct quant *q = &s->config.quant;
    const int64_t columns[2] = {s->config.hidden, s->config.moe_intermediate};
    for (int i = 0; i < 2 && q->kind == QUANT_PACKED && q->group && !q->act_order; i++) {
        if (columns[i] % q->group == 0) continue;
        ins_problem(
            s, (struct ins_problem){.what = "group size",
                                    .where = "config.json",
                                    .found = ins_text(s, "%lld columns in groups of %lld",
                                                      (long long)columns[i], (long long)q->group),
                                    .wanted = "groups that divide the columns"});
    }
}

enum err_code ins_check_layout(struct inspection *s, struct err *err)
{
    const struct layout_choice choice = {stored, s, has_weight_shapes(s)};
    if (layout_make(&s->layout, &s->config, &choice, err) != ERR_OK) return err->code;
    s->absent = calloc((size_t)s->layout.count + 1, sizeof *s->absent);
    if (!s->absent) return err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    check_group(s);
    check_twice(s);
    for (int64_t i = 0; i < s->layout.count; i++) {
        struct ins_tensor *t = ins_find(s, s->layout.tensors[i].name);
        if (t) {
            match(s, t, i);
        } else {
            s->absent[s->absent_count++] = &s->layout.tensors[i];
            json_array_append_new(s->missing, ins_json(s->layout.tensors[i].name));
        }
    }
    if (s->absent_count) qsort(s->absent, (size_t)s->absent_count, sizeof *s->absent, by_absent);
    check_odd_dtypes(s);
    ins_report_lost(s);
    report_absent(s);
    ins_check_extras(s);
    return ERR_OK;
}
