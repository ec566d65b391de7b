/* bless.c: see bless.h. */
#include "harness/bless.h"

#include "core/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FROM_MODEL = 2, PROVENANCE = 8 };

static const char *meta_of(const struct dump *d, const char *key)
{
    const char *text = st_meta(&d->file, key);
    return text ? text : "";
}

/* What the dump says, else what the model is; both at once must agree. */
static enum err_code settle(const struct bless *b, const char *key, const char *said,
                            const char *model, bool contradicts, char *out, size_t size,
                            struct err *err)
{
    const char *path = b->subject.file.path;
    if (contradicts)
        return err_set(err, ERR_INPUT, "bless|%s: %s|%.80s|%.80s, as the model has", path, key,
                       said, model);
    snprintf(out, size, "%s", said[0] ? said : model);
    if (out[0]) return ERR_OK;
    return err_set(err, ERR_INPUT, "bless|%s|no %s|one in its metadata, or a model in the plan",
                   path, key);
}

static enum err_code find_provenance(struct bless *b, const char *model, struct err *err)
{
    const struct dump *s = &b->subject;
    char checkpoint[CHECKPOINT_TEXT] = "";
    struct weights w = {0};
    if (!s->engine[0])
        return err_set(err, ERR_INPUT, "bless|%s|no engine in its metadata|assay.engine",
                       s->file.path);
    if (model && weights_open(&w, model, err) == ERR_OK)
        (void)!checkpoint_name(&w, checkpoint, err);
    const char *config = w.config.sha256;
    if (err->code == ERR_OK &&
        settle(b, "assay.config_sha256", s->config_sha256, config,
               config[0] && s->config_sha256[0] && strcmp(config, s->config_sha256) != 0,
               b->config_sha256, sizeof b->config_sha256, err) == ERR_OK)
        (void)!settle(b, "assay.checkpoint", s->checkpoint, checkpoint,
                      checkpoint_contradicts(s->checkpoint, checkpoint), b->checkpoint,
                      sizeof b->checkpoint, err);
    weights_close(&w);
    return err->code;
}

static void note_tap(struct bless *b, const char *name, const char *change, double rel_rms)
{
    json_t *rel = isnan(rel_rms)   ? json_null()
                  : isinf(rel_rms) ? json_string("inf")
                                   : json_real(rel_rms);
    json_array_append_new(
        json_object_get(b->report, "taps"),
        json_pack("{s:s, s:s, s:o}", "name", name, "change", change, "rel_rms", rel));
    b->changes++;
}

static void compare_tap(struct bless *b, const struct dump_tap *s, const struct dump_tap *g)
{
    struct measure m;
    const struct view sv = {s->tensor->dtype, s->tensor->data, s->rows, s->cols};
    const struct view gv = {g->tensor->dtype, g->tensor->data, g->rows, g->cols};
    if (sv.dtype != gv.dtype || sv.rows != gv.rows || sv.cols != gv.cols) {
        note_tap(b, s->name, "another type or shape", NAN);
        return;
    }
    b->compared++;
    measure_views(sv, gv, NULL, &m, NULL, NULL, NULL);
    if (m.special_mismatch > 0)
        note_tap(b, s->name, "NaN or infinity elsewhere", m.rel_rms);
    else if (m.differing > 0)
        note_tap(b, s->name, "changed", m.rel_rms);
}

static void compare_meta(struct bless *b)
{
    static const char *const keys[] = {"assay.engine",    "assay.engine_version", "assay.profile",
                                       "assay.precision", "assay.tokens",         "assay.lengths",
                                       "assay.rows"};
    const char *const now[FROM_MODEL] = {b->config_sha256, b->checkpoint};
    const char *const old[FROM_MODEL] = {b->golden.config_sha256, b->golden.checkpoint};
    static const char *const from_model[] = {"assay.config_sha256", "assay.checkpoint"};
    const size_t plain = sizeof keys / sizeof keys[0];
    for (size_t i = 0; i < plain + FROM_MODEL; i++) {
        const char *key = i < plain ? keys[i] : from_model[i - plain];
        const char *was = i < plain ? meta_of(&b->golden, key) : old[i - plain];
        const char *is = i < plain ? meta_of(&b->subject, key) : now[i - plain];
        if (i == 0) is = b->subject.engine;
        if (strcmp(was, is) == 0) continue;
        json_array_append_new(json_object_get(b->report, "meta"),
                              json_pack("{s:s, s:s, s:s}", "key", key, "old", was, "new", is));
        b->changes++;
    }
}

static enum err_code compare(struct bless *b, struct err *err)
{
    b->report =
        json_pack("{s:s, s:b, s:[], s:[]}", "golden", b->path, "fresh", b->fresh, "taps", "meta");
    if (!b->report) return err_set(err, ERR_MEMORY, "bless|%s|no memory", b->path);
    for (int64_t i = 0; i < b->subject.count; i++) {
        const struct dump_tap *s = &b->subject.taps[i];
        const struct dump_tap *g = b->fresh ? NULL : dump_find(&b->golden, s->name);
        if (g)
            compare_tap(b, s, g);
        else
            note_tap(b, s->name, "added", NAN);
    }
    for (int64_t i = 0; i < b->golden.count; i++) {
        if (!dump_find(&b->subject, b->golden.taps[i].name))
            note_tap(b, b->golden.taps[i].name, "removed", NAN);
    }
    if (!b->fresh) compare_meta(b);
    json_object_set_new(b->report, "compared", json_integer(b->compared));
    json_object_set_new(b->report, "changes", json_integer(b->changes));
    return ERR_OK;
}

enum err_code bless_open(struct bless *b, const char *subject, const char *golden,
                         const char *model, struct err *err)
{
    *b = (struct bless){.fresh = !file_exists(golden)};
    if (strlen(golden) >= sizeof b->path)
        return err_set(err, ERR_INPUT, "bless|%s|%zu bytes|a shorter path", golden, strlen(golden));
    snprintf(b->path, sizeof b->path, "%s", golden);
    if (dump_open(&b->subject, subject, err) != ERR_OK) return err->code;
    if (b->subject.count == 0)
        return err_set(err, ERR_INPUT, "bless|%s|no taps|at least one", subject);
    if (!b->fresh) {
        if (dump_open(&b->golden, golden, err) != ERR_OK) return err->code;
        if (!st_meta(&b->golden.file, "assay.golden"))
            return err_set(
                err, ERR_INPUT,
                "bless|%s|a file that --bless did not record|another path, or none there", golden);
    }
    if (find_provenance(b, model, err) != ERR_OK) return err->code;
    return compare(b, err);
}

/* The subject's own metadata first, then the provenance: of a key twice, the later one is written.
 * Returns how many. */
static int64_t make_meta(const struct bless *b, const struct st_meta *provenance,
                         struct st_meta *out)
{
    int64_t n = b->subject.file.metas;
    for (int64_t i = 0; i < n; i++) out[i] = b->subject.file.meta[i];
    for (int k = 0; k < PROVENANCE; k++) out[n++] = provenance[k];
    return n;
}

static enum err_code write_file(const struct bless *b, struct st_entry *entries,
                                const struct st_meta *meta, int64_t metas, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    char *header = NULL;
    int64_t size = 0;
    const struct st_file *s = &b->subject.file;
    if (st_plan(entries, s->count, meta, metas, &header, &size, err) == ERR_OK &&
        file_out_open(&f, b->path, err) == ERR_OK)
        (void)!file_out_write(&f, header, size, err);
    for (int64_t i = 0; err->code == ERR_OK && i < s->count; i++)
        (void)!file_out_write(&f, s->tensors[i].data, s->tensors[i].bytes, err);
    if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(header);
    return err->code;
}

enum err_code bless_write(struct bless *b, const char *command, struct err *err)
{
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    const struct st_file *s = &b->subject.file;
    struct st_entry *entries = calloc((size_t)s->count + 1, sizeof *entries);
    struct st_meta *meta = calloc((size_t)s->metas + PROVENANCE, sizeof *meta);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const struct st_meta provenance[PROVENANCE] = {
        {"assay.golden", "1"},
        {"assay.engine", b->subject.engine},
        {"assay.engine_version", meta_of(&b->subject, "assay.engine_version")},
        {"assay.profile", b->subject.profile},
        {"assay.config_sha256", b->config_sha256},
        {"assay.checkpoint", b->checkpoint},
        {"assay.date", date},
        {"assay.command", command},
    };
    if (!entries || !meta) {
        err_set(err, ERR_MEMORY, "bless|%s|no memory", b->path);
    } else {
        for (int64_t i = 0; i < s->count; i++) {
            const struct st_tensor *t = &s->tensors[i];
            entries[i] = (struct st_entry){.name = t->name, .dtype = t->dtype, .dims = t->dims};
            memcpy(entries[i].shape, t->shape, sizeof t->shape);
        }
        (void)!write_file(b, entries, meta, make_meta(b, provenance, meta), err);
    }
    free(entries);
    free(meta);
    return err->code;
}

void bless_close(struct bless *b)
{
    dump_close(&b->subject);
    dump_close(&b->golden);
    json_decref(b->report);
    *b = (struct bless){0};
}
