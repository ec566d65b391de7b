/* inspect_samples.c: a folder of training samples: its steps and its result; see
 * inspect_samples.h. */
#include "harness/inspect_samples.h"

#include "core/json.h"

#include <stdlib.h>
#include <string.h>

void samples_problem(struct samples *w, const char *what, const char *where, const char *cause,
                     const char *remedy)
{
    ins_problem(w->s,
                (struct ins_problem){
                    .what = what, .where = where, .found = cause, .group = what, .remedy = remedy});
}

void samples_note(struct samples *w, const char *text)
{
    if (json_array_append_new(w->notes, ins_json(text)) != 0) w->s->broken = true;
}

/* ---- opening ---- */

/* A sample that cannot be read is a finding, like all that the reader says of it. */
static void open_one(struct samples *w, struct looked *k)
{
    struct err e = ERR_INIT;
    const char *slash = strrchr(k->entry->path, '/');
    k->name = slash ? slash + 1 : k->entry->path;
    k->open = sample_open(&k->file, k->entry->path, w->hidden, &e) == ERR_OK;
    if (k->open) return;
    ins_problem(w->s, (struct ins_problem){
                          .what = "broken sample",
                          .where = k->name,
                          .found = ins_text(w->s, "%s: %s", e.where, e.found),
                          .wanted = e.wanted,
                          .remedy = ins_text(w->s, "wanted %s: extract it again", e.wanted)});
    w->s->broken |= e.code == ERR_MEMORY;
}

/* Evenly over the folder, first and last among them. */
static enum err_code open_all(struct samples *w, struct err *err)
{
    int64_t most = w->options.count;
    w->count = w->set.count < most ? w->set.count : most;
    w->looked = calloc((size_t)w->count, sizeof *w->looked);
    if (!w->looked) return err_set(err, ERR_MEMORY, "samples|%s|no memory", w->path);
    for (int64_t i = 0; i < w->count; i++) {
        struct looked *k = &w->looked[i];
        int64_t at = w->count > 1 ? i * (w->set.count - 1) / (w->count - 1) : 0;
        k->entry = &w->set.entries[at];
        open_one(w, k);
        if (k->open && w->states == 0) w->states = k->file.sample.states;
    }
    return ERR_OK;
}

enum err_code samples_open(struct samples *w, struct inspection *s, const char *path,
                           const struct samples_options *o, const struct loaded *l, struct err *err)
{
    *w = (struct samples){.s = s,
                          .path = path,
                          .options = *o,
                          .loaded = l,
                          .hidden = l ? l->model.config->hidden : 0,
                          .vocab = l ? l->model.config->vocab : 0,
                          .notes = json_array(),
                          .found = json_array()};
    if (!w->notes || !w->found) return err_set(err, ERR_MEMORY, "inspect|%s|no memory", path);
    return sample_set_open(&w->set, path, err);
}

void samples_close(struct samples *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        for (int s = 0; s < SAMPLE_STATES; s++) {
            free(w->looked[i].match[s].source);
            free(w->looked[i].match[s].row_error);
        }
        if (w->looked[i].open) sample_close(&w->looked[i].file);
    }
    free(w->looked);
    truth_free(&w->truth);
    sample_set_close(&w->set);
    json_decref(w->notes);
    json_decref(w->found);
}

/* ---- result ---- */

static enum err_code result_fields(struct samples *w, json_t *result, struct err *err)
{
    const struct inspection *s = w->s;
    int64_t rows = 0, tensors = 0, bytes = 0, matched = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (!k->open) continue;
        const struct sample *f = &k->file.sample;
        rows += f->rows;
        matched += k->rows;
        tensors += f->states + 1 + (f->mask != NULL);
        bytes += f->rows * (f->states * f->hidden * dtype_size(f->dtype) +
                            (f->mask ? 2 : 1) * (int64_t)sizeof(int64_t));
    }
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:O, s:O, s:O, "
                  "s:O}",
                  "kind", "samples", "path", ins_json(s->path), "format",
                  sample_format_name((int)w->set.format), "samples", (json_int_t)w->set.count,
                  "looked_at", (json_int_t)w->count, "rows", (json_int_t)rows, "recomputed_rows",
                  (json_int_t)matched, "tensors", (json_int_t)tensors, "bytes", (json_int_t)bytes,
                  "shards", (json_int_t)w->count, "problems", s->problems, "missing", s->missing,
                  "extra", s->extra, "notes", w->notes, "states", w->found);
    bool held = o && !s->broken && json_object_update(result, o) == 0;
    json_decref(o);
    return held ? ERR_OK : err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
}

static void note_part(struct samples *w)
{
    int64_t rows = 0, matched = 0;
    if (w->count < w->set.count)
        samples_note(w, ins_text(w->s, "%lld of %lld samples were read: --count reads more",
                                 (long long)w->count, (long long)w->set.count));
    for (int64_t i = 0; i < w->count; i++) {
        rows += w->looked[i].open ? w->looked[i].file.sample.rows : 0;
        matched += w->looked[i].rows;
    }
    if (!w->loaded)
        samples_note(w, "no --model: layers, norms and the order of rows were not checked");
    else if (matched < rows)
        samples_note(w, ins_text(w->s, "%lld of %lld rows were recomputed: --rows does more",
                                 (long long)matched, (long long)rows));
}

enum err_code samples_look(struct samples *w, struct err *err)
{
    if (open_all(w, err) != ERR_OK || samples_check_values(w, err) != ERR_OK) return err->code;
    if (w->loaded && samples_match(w, err) != ERR_OK) return err->code;
    samples_report_wiring(w);
    samples_report_rows(w);
    if (samples_check_repeats(w, err) != ERR_OK || samples_check_masks(w, err) != ERR_OK)
        return err->code;
    samples_check_manifest(w);
    note_part(w);
    return ERR_OK;
}

enum err_code inspect_samples(struct inspection *s, const struct samples_options *o,
                              const char *model, json_t *result, struct err *err)
{
    struct loaded loaded = {0};
    struct samples w = {0};
    if ((!model || loaded_open(&loaded, model, err) == ERR_OK) &&
        samples_open(&w, s, s->path, o, model ? &loaded : NULL, err) == ERR_OK &&
        samples_look(&w, err) == ERR_OK)
        (void)!result_fields(&w, result, err);
    samples_close(&w);
    loaded_close(&loaded);
    return err->code;
}
