/* forward.c: see forward.h. */
#include "harness/forward.h"

#include "core/file.h"
#include "core/checkpoint.h"
#include "core/json.h"
#include "core/text.h"
#include "harness/forward_draft.h"
#include "harness/kernel_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_METAS = SHARD_METAS + 1 };

/* "A:B" with either end optional and negative ends counted from n. */
static enum err_code read_range(const char *text, const char *name, int64_t n, int64_t *first,
                                int64_t *end, struct err *err)
{
    char left[32];
    *first = 0;
    *end = n;
    if (!text) return ERR_OK;
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool fits = colon && length < sizeof left;
    if (fits) {
        memcpy(left, text, length);
        left[length] = '\0';
        fits = (!left[0] || text_int(left, first)) && (!colon[1] || text_int(colon + 1, end));
    }
    if (fits && *first < 0) *first += n;
    if (fits && *end < 0) *end += n;
    if (!fits || *first < 0 || *first >= *end || *end > n)
        return err_set(err, ERR_USAGE, "option|%s|\"%s\"|A:B inside 0:%lld", name, text,
                       (long long)n);
    return ERR_OK;
}

/* Keeps the taps that match one of the comma-separated patterns; a pattern that matches nothing is
 * an error. */
static enum err_code select_taps(const char *globs, struct tap *taps, int64_t *count,
                                 struct err *err)
{
    if (!globs) return ERR_OK;
    bool *keep = calloc((size_t)*count + 1, sizeof *keep);
    char *copy = strdup(globs), *rest = NULL;
    if (!keep || !copy) err_set(err, ERR_MEMORY, "select taps||no memory");
    for (char *glob = copy ? strtok_r(copy, ",", &rest) : NULL; keep && glob;
         glob = strtok_r(NULL, ",", &rest)) {
        bool hit = false;
        for (int64_t i = 0; i < *count; i++) {
            if (!text_glob(glob, taps[i].name)) continue;
            keep[i] = hit = true;
        }
        if (!hit)
            err_set(err, ERR_USAGE,
                    "option|--taps|\"%s\", which matches no tap of this model|a pattern such as "
                    "layers.*.attn or logits",
                    glob);
    }
    int64_t n = 0;
    for (int64_t i = 0; keep && i < *count; i++) {
        if (keep[i]) taps[n++] = taps[i];
    }
    if (err->code == ERR_OK && n == 0)
        err_set(err, ERR_USAGE, "option|--taps|\"%s\"|at least one pattern", globs);
    *count = n;
    free(keep);
    free(copy);
    return err->code;
}

struct job {
    struct loaded loaded;
    struct tokens tokens;
    struct session session;
    struct tap *taps;
    int64_t tap_count;
    int64_t first_row, end_row, end_layer;
    struct dump forced_dump;
    struct forced forced;
    struct dump_out out;
    struct resume resume;
    struct forward_draft draft;
    struct shard_meta_room plan;  /* how ranks shared it, as the dump says it */
    char request[FILE_PATH + 64]; /* what the state of a resumable run must agree in */
};

static char *json_ints(const int64_t *v, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(a, json_integer(v[i]));
    char *text = json_dumps(a, JSON_COMPACT);
    json_decref(a);
    return text;
}

/* The dump of a run that may be killed and taken up again, and where it goes on. */
static enum err_code create_kept(struct job *j, const struct forward_request *r,
                                 const struct st_meta *meta, int64_t metas, struct err *err)
{
    bool resumed;
    if (r->options.chunk || r->options.decode_last)
        return err_set(err, ERR_USAGE,
                       "option|--resume|--prefill-chunk or --decode-last|one whole prefill");
    snprintf(j->request, sizeof j->request, "linear %s, experts %s%s",
             r->options.linear == LINEAR_BLAS ? "blas" : "own", r->experts ? r->experts : "own",
             r->options.engine->imitates ? "" : ", on a device");
    if (resume_name(&j->resume, r->out, err) != ERR_OK ||
        dump_create_kept(&j->out, r->out, j->resume.partial, j->taps, j->tap_count, j->tokens.count,
                         j->first_row, j->end_row, r->reals, meta, metas, &resumed, err) != ERR_OK)
        return err->code;
    return resume_read(&j->resume, &j->out, resumed, j->request, j->tokens.count,
                       j->loaded.model.config->hidden, err);
}

/* What a dump says of the ranks and the device that it was computed on. */
static int64_t device_meta(struct job *j, const struct forward_request *r,
                           struct st_meta out[DEVICE_METAS])
{
    const struct engine *e = &j->loaded.engine;
    int64_t n = 0;
    if (!e->kind->device && !r->options.ranks.on) return 0;
    const struct shard_plan alone = shard_plan_alone();
    shard_plan_meta(r->options.ranks.on ? &r->options.ranks.plan : &alone, &j->plan, out);
    n += SHARD_METAS;
    if (e->kind->device) out[n++] = (struct st_meta){"assay.device", engine_device(e)};
    return n;
}

static enum err_code create_dump(struct job *j, const struct forward_request *r, struct err *err)
{
    const struct config *c = j->loaded.model.config;
    int64_t n = j->tokens.count, at = 0;
    int64_t *position = calloc((size_t)n + 1, sizeof *position),
            *row = calloc((size_t)n + 1, sizeof *row);
    char checkpoint[CHECKPOINT_TEXT] = "";
    json_t *order = json_array();
    (void)!checkpoint_name(&j->loaded.weights, checkpoint, err);
    for (int64_t s = 0; position && s < j->tokens.sequences; s++) {
        for (int64_t p = 0; p < j->tokens.length[s]; p++) position[at++] = p;
    }
    for (int64_t i = j->first_row; row && i < j->end_row; i++) row[i - j->first_row] = i;
    for (int64_t i = 0; i < j->tap_count; i++)
        json_array_append_new(order, json_string(j->taps[i].name));
    char *text[] = {json_ints(j->tokens.id, n), json_ints(j->tokens.length, j->tokens.sequences),
                    position ? json_ints(position + j->first_row, j->end_row - j->first_row) : NULL,
                    row ? json_ints(row, j->end_row - j->first_row) : NULL,
                    json_dumps(order, JSON_COMPACT)};
    struct st_meta meta[13 + DEVICE_METAS + FORWARD_DRAFT_METAS] = {
        {"assay.version", ASSAY_VERSION},
        {"assay.engine", r->options.engine->about},
        {"assay.engine_version", ASSAY_VERSION},
        {"assay.profile", r->options.profile.name},
        {"assay.precision", session_precision_name(&r->options)},
        {"assay.config_sha256", c->sha256},
        {"assay.checkpoint", checkpoint},
        {"assay.model", r->model},
        {"assay.tokens", text[0]},
        {"assay.lengths", text[1]},
        {"assay.positions", text[2]},
        {"assay.rows", text[3]},
        {"assay.order", text[4]},
    };
    if (!text[0] || !text[1] || !text[2] || !text[3] || !text[4])
        err_set(err, ERR_MEMORY, "plan dump|%s|no memory", r->out);
    int64_t metas = 13 + device_meta(j, r, meta + 13);
    if (j->draft.steps > 0) {
        forward_draft_meta(&j->draft, r->draft, meta + metas);
        metas += FORWARD_DRAFT_METAS;
    }
    if (err->code == ERR_OK && r->resume)
        (void)!create_kept(j, r, meta, metas, err);
    else if (err->code == ERR_OK)
        (void)!dump_create(&j->out, r->out, j->taps, j->tap_count, n, j->first_row, j->end_row,
                           r->reals, meta, metas, err);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) free(text[i]);
    free(position);
    free(row);
    json_decref(order);
    return err->code;
}

static enum err_code read_forced(struct job *j, const char *path, struct err *err)
{
    if (!path) return ERR_OK;
    if (dump_open(&j->forced_dump, path, err) != ERR_OK) return err->code;
    const struct dump *d = &j->forced_dump;
    if (!d->batch_row && d->rows != j->tokens.count)
        return err_set(err, ERR_INPUT, "option|--experts: %s|%lld rows|%lld, as the tokens have",
                       path, (long long)d->rows, (long long)j->tokens.count);
    for (int64_t i = 0; d->tokens && i < d->token_count && i < j->tokens.count; i++) {
        if (d->tokens[i] != j->tokens.id[i])
            return err_set(err, ERR_INPUT,
                           "option|--experts: %s|token %lld: %lld|%lld, as --tokens says", path,
                           (long long)i, (long long)d->tokens[i], (long long)j->tokens.id[i]);
    }
    if (forced_read(&j->forced, j->loaded.model.config, d, d->batch_row, j->tokens.count, err) !=
        ERR_OK)
        return err->code;
    if (j->forced.count == 0)
        return err_set(err, ERR_INPUT,
                       "option|--experts: %s|no tap layers.N.experts for these rows|at least one",
                       path);
    return ERR_OK;
}

/* The dump must not replace what it is made from. */
static enum err_code check_out(const struct weights *w, const char *whose, const char *out,
                               struct err *err)
{
    for (int64_t i = 0; i < w->file_count; i++) {
        if (file_same(out, w->files[i].path))
            return err_set(err, ERR_USAGE, "option|--out: %s|a file of the %s|another name", out,
                           whose);
    }
    return ERR_OK;
}

static enum err_code open_draft(struct job *j, const struct forward_request *r, struct err *err)
{
    if (!r->draft) return ERR_OK;
    if (r->resume)
        return err_set(err, ERR_USAGE,
                       "option|--resume|--draft|a run without a head: the state of "
                       "a killed run has no aux states");
    if (forward_draft_open(&j->draft, r->draft, r->draft_steps, &j->loaded.model, &j->tokens,
                           err) != ERR_OK ||
        forward_draft_taps(&j->draft, &j->taps, &j->tap_count, err) != ERR_OK)
        return err->code;
    return check_out(&j->draft.head.weights, "head", r->out, err);
}

static enum err_code prepare(struct job *j, const struct forward_request *r, struct err *err)
{
    int64_t first_layer;
    if (r->options.ranks.on && r->resume)
        return err_set(err, ERR_USAGE,
                       "option|--resume|--tp, --ep|a run of one process: what ranks have done of a "
                       "step is not kept");
    if (tokens_read(r->tokens, &j->tokens, err) != ERR_OK ||
        loaded_open_by(&j->loaded, r->model, &r->options, err) != ERR_OK)
        return err->code;
    const struct config *c = j->loaded.model.config;
    if (tokens_check(&j->tokens, c->vocab, err) != ERR_OK ||
        read_range(r->layers, "--layers", c->layers, &first_layer, &j->end_layer, err) != ERR_OK ||
        read_range(r->rows, "--rows", j->tokens.count, &j->first_row, &j->end_row, err) != ERR_OK ||
        tap_list(c, first_layer, j->end_layer, &j->taps, &j->tap_count, err) != ERR_OK ||
        open_draft(j, r, err) != ERR_OK ||
        select_taps(r->taps, j->taps, &j->tap_count, err) != ERR_OK ||
        read_forced(j, r->experts, err) != ERR_OK ||
        check_out(&j->loaded.weights, "model", r->out, err) != ERR_OK)
        return err->code;
    if (r->draft) j->end_layer = forward_draft_layers(&j->draft, j->taps, j->tap_count, c->layers);
    return create_dump(j, r, err);
}

static enum err_code execute(struct job *j, const struct forward_request *r,
                             struct forward_result *out, struct err *err)
{
    struct session_options o = r->options;
    double began = clock_seconds();
    o.layer_end = j->end_layer;
    if (session_open(&j->session, &j->loaded, &o, j->tokens.sequences, j->tokens.length, err) !=
        ERR_OK)
        return err->code;
    if (r->resume) j->session.resume = &j->resume;
    j->draft.engine = &j->loaded.engine;
    struct tap_sink *sink = &j->out.sink;
    if (r->draft) sink = forward_draft_sink(&j->draft, sink);
    if (session_forward(&j->session, &j->tokens, sink, j->forced.ids ? &j->forced : NULL, NULL,
                        err) != ERR_OK ||
        (r->draft &&
         forward_draft_run(&j->draft, &j->session.run, &j->tokens, &j->out.sink, err) != ERR_OK) ||
        dump_commit(&j->out, err) != ERR_OK)
        return err->code;
    if (r->resume) resume_done(&j->resume);
    *out = (struct forward_result){.taps = j->tap_count,
                                   .resumed_layer = j->resume.next,
                                   .rows = j->end_row - j->first_row,
                                   .forced_rows = j->forced.count,
                                   .peak_bytes = session_peak_bytes(&j->session),
                                   .special = j->out.special,
                                   .special_row = j->out.special_row,
                                   .special_col = j->out.special_col,
                                   .draft = j->draft.head.config,
                                   .draft_rows = r->draft ? j->out.draft_kept : 0,
                                   .kernels = loaded_take_kernels(&j->loaded),
                                   .seconds = clock_seconds() - began};
    snprintf(out->special_tap, sizeof out->special_tap, "%s",
             j->out.special_tap ? j->out.special_tap : "");
    return ERR_OK;
}

enum err_code forward_check(const struct forward_result *f, struct err *err)
{
    if (f->special == 0) return ERR_OK;
    return err_set(err, ERR_DIFF,
                   "forward|%s, row %lld, column %lld|%lld cells NaN or infinite|numbers",
                   f->special_tap, (long long)f->special_row, (long long)f->special_col,
                   (long long)f->special);
}

enum err_code forward_request_read(const struct args *a, struct forward_request *r, struct err *err)
{
    static const char *const dtypes[] = {"f32", "f64", NULL};
    int dtype;
    *r = (struct forward_request){.model = a->word[0],
                                  .tokens = args_value(a, "--tokens"),
                                  .out = args_value(a, "--out"),
                                  .taps = args_value(a, "--taps"),
                                  .layers = args_value(a, "--layers"),
                                  .rows = args_value(a, "--rows"),
                                  .experts = args_value(a, "--experts"),
                                  .draft = args_value(a, "--draft")};
    if (session_options_read(a, &r->options, err) != ERR_OK ||
        engine_usable(r->options.engine, err) != ERR_OK)
        return err->code;
    if (!r->tokens) return err_set(err, ERR_USAGE, "arguments|forward|no --tokens|--tokens T");
    if (!r->out) return err_set(err, ERR_USAGE, "arguments|forward|no --out|--out DUMP");
    if (!r->draft && args_value(a, "--draft-steps"))
        return err_set(err, ERR_USAGE, "option|--draft-steps|no --draft|--draft HEAD with it");
    if (args_int(a, "--draft-steps", 1, FORWARD_DRAFT_STEPS_MAX, FORWARD_DRAFT_STEPS,
                 &r->draft_steps, err) != ERR_OK ||
        args_choice(a, "--dump-dtype", dtypes, 0, &dtype, err) != ERR_OK)
        return err->code;
    r->reals = dtype ? DT_F64 : DT_F32;
    if (r->options.engine->own_dtypes && !args_has(a, "--dump-dtype")) r->reals = DT_BF16;
    r->resume = args_has(a, "--resume");
    return ERR_OK;
}

enum err_code forward_run(const struct forward_request *r, struct forward_result *out,
                          struct err *err)
{
    struct job j = {.out.file = FILE_OUT_INIT};
    *out = (struct forward_result){0};
    if (prepare(&j, r, err) == ERR_OK) (void)!execute(&j, r, out, err);
    out->ranks = ranks_json(&j.loaded.engine);
    session_close(&j.session);
    resume_close(&j.resume);
    dump_abandon(&j.out);
    forced_free(&j.forced);
    dump_close(&j.forced_dump);
    free(j.taps);
    tokens_free(&j.tokens);
    forward_draft_close(&j.draft);
    loaded_close(&j.loaded);
    return err->code;
}

const char *forward_note(const struct forward_request *r)
{
    return r->options.profile.verified ? "" : PROFILE_UNVERIFIED;
}

static json_t *draft_json(const struct forward_request *r, const struct forward_result *f)
{
    const struct head_config *c = &f->draft;
    const char *const assumed[] = {c->residual_assumed, c->aux_assumed, c->width_assumed};
    json_t *aux = json_array(), *list = json_array();
    for (int i = 0; i < c->aux_count; i++)
        json_array_append_new(aux, json_integer((json_int_t)c->aux[i]));
    for (size_t i = 0; i < sizeof assumed / sizeof assumed[0]; i++) {
        if (assumed[i][0]) json_array_append_new(list, json_string(assumed[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:o}", "head", r->draft, "kind",
                     head_kind_name(c->kind), "naming", head_naming_name(c->naming), "aux_ids", aux,
                     "steps", (json_int_t)r->draft_steps, "rows", (json_int_t)f->draft_rows,
                     "assumed", list);
}

void forward_result_free(struct forward_result *f)
{
    free(f->kernels);
    f->kernels = NULL;
    json_decref(f->ranks);
    f->ranks = NULL;
}

json_t *forward_json(const struct forward_request *r, const struct forward_result *f)
{
    json_t *o =
        json_pack("{s:I, s:s, s:f, s:I, s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:o, s:o*}", "taps",
                  (json_int_t)f->taps, "out", r->out, "seconds", f->seconds, "peak_bytes",
                  (json_int_t)f->peak_bytes, "rows", (json_int_t)f->rows, "on",
                  r->options.engine->name, "profile", r->options.profile.name, "unverified",
                  !r->options.profile.verified, "forced_rows", (json_int_t)f->forced_rows,
                  "not_finite", (json_int_t)f->special, "resumed_layer",
                  (json_int_t)f->resumed_layer, "draft", r->draft ? draft_json(r, f) : json_null(),
                  "kernels", f->kernels ? kernels_json(f->kernels) : NULL);
    if (f->ranks) json_object_update(o, f->ranks);
    return o;
}
