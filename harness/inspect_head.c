/* inspect_head.c: a draft head: its steps and its result; see inspect_head.h. */
#include "harness/inspect_head.h"

#include <stdlib.h>
#include <string.h>

/* What one inspection holds. */
struct look {
    struct inspection *s;
    struct head head;
    struct loaded loaded;
    const struct model *target; /* NULL: no --model */
    int64_t *d2t, *t2d, *id;    /* numbers as stored; target ids by the map that holds, or NULL */
    json_t *notes, *settings, *states;
    struct samples_options options;
};

static void note(struct look *k, const char *text)
{
    if (json_array_append_new(k->notes, ins_json(text)) != 0) k->s->broken = true;
}

/* ---- a head that does not open ---- */

static void report_misfits(struct look *k)
{
    static const char *const what[] = {[HEAD_MISSING] = "missing tensor",
                                       [HEAD_EXTRA] = "extra tensor",
                                       [HEAD_SHAPE] = "shape",
                                       [HEAD_DTYPE] = "type"};
    for (int64_t i = 0; i < k->head.misfit_count; i++) {
        const struct head_misfit *m = &k->head.misfits[i];
        json_t *list = m->kind == HEAD_MISSING ? k->s->missing
                       : m->kind == HEAD_EXTRA ? k->s->extra
                                               : NULL;
        bool fc = m->kind == HEAD_MISSING && strstr(m->name, "fc.weight");
        if (list && json_array_append_new(list, ins_json(m->name)) != 0) k->s->broken = true;
        ins_problem(k->s, (struct ins_problem){
                              .what = what[m->kind],
                              .where = k->s->path,
                              .tensor = m->name,
                              .found = m->found[0] ? m->found : "nothing",
                              .wanted = fc ? "it: without fc the aux states never enter (fc "
                                             "skipped; EAGLE, not EAGLE3)"
                                        : m->wanted[0] ? m->wanted
                                                       : "no such tensor in this layout"});
    }
}

/* What makes it unusable is the finding, unless there is nothing to inspect at all. */
static enum err_code report_refusal(struct look *k, const struct err *e, struct err *err)
{
    if (e->code != ERR_INPUT || (k->head.weights.index_count == 0 && !k->head.weights.synthetic)) {
        *err = *e;
        return err->code;
    }
    report_misfits(k);
    if (k->head.misfit_count == 0)
        ins_problem(
            k->s, (struct ins_problem){
                      .what = e->what, .where = e->where, .found = e->found, .wanted = e->wanted});
    return ERR_OK;
}

/* ---- the vocabulary map ---- */

static int64_t *numbers_of(const struct st_tensor *t)
{
    int64_t *x = t ? malloc((size_t)(t->count + 1) * sizeof *x) : NULL;
    for (int64_t i = 0; x && i < t->count; i++) x[i] = dtype_int_at(t->dtype, t->data, i);
    return x;
}

/* A map of another size than the config says is not looked into further. */
static bool map_fits(struct look *k, const struct st_tensor *t, int64_t n)
{
    if (!t || (t->dims == 1 && t->count == n && (dtype_is_int(t->dtype) || t->dtype == DT_BOOL)))
        return true;
    ins_problem(k->s, (struct ins_problem){
                          .what = "vocabulary map",
                          .where = k->s->path,
                          .tensor = t->name,
                          .found = ins_text(k->s, "%s %s", ins_shape(k->s, t->dims, t->shape),
                                            dtype_name(t->dtype)),
                          .wanted = ins_text(k->s, "[%lld] integers or bools", (long long)n)});
    return false;
}

static void report_no_map(struct look *k)
{
    const struct head_config *c = &k->head.config;
    ins_problem(k->s, (struct ins_problem){
                          .what = "no d2t",
                          .where = k->s->path,
                          .found = ins_text(k->s, "%lld draft tokens of %lld and no map",
                                            (long long)c->draft_vocab, (long long)c->base.vocab),
                          .remedy = "store d2t: engines take draft ids for target ids otherwise"});
}

/* Where d2t and t2d disagree, the rows of lm_head say which of them the head was made with. */
static enum err_code choose_map(struct look *k, const struct vocab_view *map, struct err *err)
{
    int by_d2t = 0, by_t2d = 0;
    int64_t *id = malloc((size_t)(map->draft_vocab + 1) * sizeof *id);
    if (!id) return err_set(err, ERR_MEMORY, "vocabulary map|%s|no memory", k->s->path);
    if (map->t2d && vocab_ids(map, VOCAB_NEITHER, id) &&
        memcmp(id, k->id, (size_t)map->draft_vocab * sizeof *id) != 0 &&
        head_rows_agree(&k->head, k->target, k->id, k->options.threads, &by_d2t, err) == ERR_OK &&
        head_rows_agree(&k->head, k->target, id, k->options.threads, &by_t2d, err) == ERR_OK &&
        by_d2t != by_t2d) {
        note(k, ins_text(k->s, "lm_head follows %s: %d of the rows that were looked at against %d",
                         by_t2d > by_d2t ? "t2d" : "d2t", by_t2d > by_d2t ? by_t2d : by_d2t,
                         by_t2d > by_d2t ? by_d2t : by_t2d));
        if (by_t2d > by_d2t) memcpy(k->id, id, (size_t)map->draft_vocab * sizeof *id);
    }
    free(id);
    return err->code;
}

static enum err_code judge_map(struct look *k, const struct vocab_view *map, struct err *err)
{
    enum vocab_reading reading = vocab_check(k->s, map);
    if (reading == VOCAB_BOTH)
        note(k,
             "d2t may hold offsets or ids: both are ascending and in range, and there is no t2d; "
             "taken for offsets");
    if (vocab_ids(map, reading, k->id)) return choose_map(k, map, err);
    free(k->id);
    k->id = NULL;
    return ERR_OK;
}

static enum err_code check_map(struct look *k, struct err *err)
{
    const struct head *h = &k->head;
    const struct head_config *c = &h->config;
    size_t size = (size_t)c->draft_vocab * sizeof *k->id;
    bool fits = map_fits(k, h->d2t, c->draft_vocab) & map_fits(k, h->t2d, c->base.vocab);
    k->id = malloc(size);
    k->d2t = fits ? numbers_of(h->d2t) : NULL;
    k->t2d = fits ? numbers_of(h->t2d) : NULL;
    if (!k->id || (fits && h->d2t && !k->d2t) || (fits && h->t2d && !k->t2d))
        return err_set(err, ERR_MEMORY, "vocabulary map|%s|no memory", k->s->path);
    const struct vocab_view map = {k->s->path, k->d2t, k->t2d, c->draft_vocab, c->base.vocab};
    bool needed = c->draft_vocab < c->base.vocab;
    if (fits && (k->d2t || (k->t2d && !needed))) return judge_map(k, &map, err);
    if (h->target_id) {
        memcpy(k->id, h->target_id, size);
        return ERR_OK;
    }
    if (fits) report_no_map(k);
    if (!fits || !vocab_ids(&map, VOCAB_NEITHER, k->id)) {
        free(k->id);
        k->id = NULL;
    }
    return ERR_OK;
}

/* ---- the data ---- */

/* The samples' entries beside the head's; where they differ the trials decide which are right. */
static void compare_entries(struct look *k, const struct samples *w)
{
    const struct head_config *c = &k->head.config;
    bool same = (int)json_array_size(w->found) == c->aux_count + 1;
    for (int i = 0; i < c->aux_count && same; i++) {
        const json_t *e = json_object_get(json_array_get(w->found, (size_t)i), "entry");
        same = json_integer_value(e) == c->aux[i];
    }
    if (json_array_size(w->found) > 0 && !same)
        note(k, "the samples hold other layers than the head is given: the states were computed "
                "anew for every setting");
}

static enum err_code try_samples(struct look *k, const char *path, struct err *err)
{
    struct samples w = {0};
    struct head head = k->head;
    struct setting best;
    head.target_id = k->id;
    struct trials t = {.s = k->s,
                       .head = &head,
                       .samples = &w,
                       .notes = k->notes,
                       .settings = k->settings,
                       .threads = k->options.threads};
    if (samples_open(&w, k->s, path, &k->options, &k->loaded, err) == ERR_OK) {
        w.truth.keep = k->id;
        w.truth.kept = head.config.draft_vocab;
        if (samples_look(&w, err) == ERR_OK) {
            json_array_extend(k->states, w.found);
            json_array_extend(k->notes, w.notes);
            compare_entries(k, &w);
            if (w.truth.rows > 0 && head_search(&t, &best, err) == ERR_OK)
                (void)!head_report_settings(&t, &best, err);
        }
    }
    trials_free(&t);
    samples_close(&w);
    return err->code;
}

/* ---- all ---- */

static enum err_code steps(struct look *k, const char *samples, struct err *err)
{
    struct err e = ERR_INIT;
    bool finite;
    if (head_open_loose(&k->head, k->s->path, k->target, &e) != ERR_OK)
        return report_refusal(k, &e, err);
    if (k->head.config.residual_assumed[0]) note(k, k->head.config.residual_assumed);
    if (k->head.config.aux_assumed[0]) note(k, k->head.config.aux_assumed);
    if (check_map(k, err) != ERR_OK ||
        head_check_rows(k->s, &k->head, k->target, k->id, k->options.threads, k->notes, &finite,
                        err) != ERR_OK)
        return err->code;
    if (!samples) return ERR_OK;
    if (k->id && finite) return try_samples(k, samples, err);
    note(k, finite ? "no vocabulary map can be had, so that samples say nothing of the wiring"
                   : "the weights are no numbers, so that samples say nothing of the wiring");
    return ERR_OK;
}

static enum err_code result_fields(struct look *k, json_t *result, struct err *err)
{
    const struct inspection *s = k->s;
    const struct head_config *c = &k->head.config;
    const struct weights *w = &k->head.weights;
    json_t *aux = json_array();
    int64_t bytes = 0;
    for (int64_t i = 0; i < w->index_count; i++) bytes += w->index[i]->bytes;
    for (int i = 0; i < c->aux_count && c->aux[i] >= 0; i++)
        json_array_append_new(aux, json_integer(c->aux[i]));
    json_t *o = json_pack(
        "{s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:b, s:b, s:O, s:O, s:O, s:O, "
        "s:O, s:O}",
        "kind", "head", "path", ins_json(s->path), "naming", head_naming_name(c->naming),
        "head_kind", head_kind_name(c->kind), "tensors", (json_int_t)w->index_count, "bytes",
        (json_int_t)bytes, "shards", (json_int_t)w->file_count, "draft_vocab",
        (json_int_t)c->draft_vocab, "vocab", (json_int_t)c->base.vocab, "aux", aux, "aux_given",
        c->aux_given, "norm_before_residual", c->norm_before_residual, "norm_output",
        c->norm_output, "problems", s->problems, "missing", s->missing, "extra", s->extra, "notes",
        k->notes, "settings", k->settings, "states", k->states);
    bool held = o && !s->broken && json_object_update(result, o) == 0;
    json_decref(o);
    return held ? ERR_OK : err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
}

enum err_code inspect_head(struct inspection *s, const struct samples_options *o, const char *model,
                           const char *samples, json_t *result, struct err *err)
{
    struct look k = {.s = s,
                     .notes = json_array(),
                     .settings = json_array(),
                     .states = json_array(),
                     .options = *o};
    if (!k.notes || !k.settings || !k.states)
        err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    if (err->code == ERR_OK && model && loaded_open(&k.loaded, model, err) == ERR_OK)
        k.target = &k.loaded.model;
    if (err->code == ERR_OK && steps(&k, samples, err) == ERR_OK)
        (void)!result_fields(&k, result, err);
    free(k.d2t);
    free(k.t2d);
    free(k.id);
    head_close(&k.head);
    loaded_close(&k.loaded);
    json_decref(k.notes);
    json_decref(k.settings);
    json_decref(k.states);
    return err->code;
}
