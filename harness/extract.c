/* extract.c: see extract.h. */
#include "harness/extract.h"

#include "core/text.h"
#include "harness/extract_job.h"
#include "harness/kernel_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_TOKENS = 4096 }; /* states and scratch of a wide model stay within a few GB */

/* ---- the request ---- */

static enum err_code read_choices(const struct args *a, struct extract_request *r, struct err *err)
{
    static const char *const numberings[] = {"entry", "output", NULL};
    static const char *const dtypes[] = {"bf16", "f16", "f32", NULL};
    static const enum dtype types[] = {DT_BF16, DT_F16, DT_F32, DT_COUNT};
    const char *names[SAMPLE_FORMATS + 1] = {NULL};
    int numbering, format, dtype;
    for (int i = 0; i < SAMPLE_FORMATS; i++) names[i] = sample_format_name(i);
    if (args_choice(a, "--numbering", numberings, 0, &numbering, err) != ERR_OK ||
        args_choice(a, "--format", names, 0, &format, err) != ERR_OK ||
        args_choice(a, "--dtype", dtypes, 3, &dtype, err) != ERR_OK)
        return err->code;
    r->on = r->options.engine->name;
    r->numbering = numberings[numbering];
    r->format = (enum sample_format)format;
    r->dtype = types[dtype];
    return ERR_OK;
}

/* Options without a default, and why. */
static enum err_code require(const struct args *a, struct err *err)
{
    static const struct {
        const char *name, *wanted;
    } needed[] = {
        {"--data", "--data FILE"},
        {"--layers", "--layers 2,30,58,60"},
        {"--numbering", "--numbering entry (id i enters layer i: vLLM, SafeAILab) or output (id i "
                        "leaves layer i: speculators v0.3, SpecForge, ModelOpt)"},
        {"--format", "--format speculators-v0.3, vllm or specforge"},
        {"--out", "--out DIR"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!args_has(a, needed[i].name))
            return err_set(err, ERR_USAGE, "arguments|extract|no %s|%s", needed[i].name,
                           needed[i].wanted);
    }
    return ERR_OK;
}

/* Where a row's bits depend on the rows beside it, those of a sample must be its own: else the
 * bytes would depend on where an earlier run was stopped. */
static enum err_code batch_alone(struct extract_request *r, struct err *err)
{
    if (r->batch > 1)
        return err_set(err, ERR_USAGE,
                       "option|--batch with --on %s|%lld|1: a sample alone, so that "
                       "its bytes depend on no other",
                       r->on, (long long)r->batch);
    r->batch = 1;
    return ERR_OK;
}

enum err_code extract_request_read(const struct args *a, struct extract_request *r, struct err *err)
{
    *r = (struct extract_request){.model = a->word[0],
                                  .data = args_value(a, "--data"),
                                  .layers = args_value(a, "--layers"),
                                  .out = args_value(a, "--out"),
                                  .resume = args_has(a, "--resume"),
                                  .skip_bad = args_has(a, "--skip-bad")};
    if (require(a, err) != ERR_OK || session_options_read(a, &r->options, err) != ERR_OK ||
        read_choices(a, r, err) != ERR_OK ||
        args_int(a, "--batch", 1, EXTRACT_PENDING, 0, &r->batch, err) != ERR_OK ||
        args_int(a, "--batch-tokens", 1, INT32_MAX, BATCH_TOKENS, &r->batch_tokens, err) !=
            ERR_OK ||
        args_int(a, "--max-length", 1, INT32_MAX, 0, &r->length_max, err) != ERR_OK ||
        args_int(a, "--draft-vocab", 1, INT32_MAX, 0, &r->draft_vocab, err) != ERR_OK)
        return err->code;
    if (!r->options.engine->rows_alone && batch_alone(r, err) != ERR_OK) return err->code;
    if (!r->out[0])
        return err_set(err, ERR_USAGE, "option|--out|an empty path|the name of a folder");
    return ERR_OK;
}

/* ---- the run ---- */

static enum err_code open_model(struct extract_job *j, struct err *err)
{
    const struct extract_request *r = j->r;
    if (states_engine_open(&j->engine, r->on, r->model, &r->options, err) != ERR_OK)
        return err->code;
    j->config = &j->engine.weights->config;
    j->dtype = r->dtype == DT_COUNT ? j->engine.act : r->dtype;
    j->states.hidden = j->engine.hidden;
    if (states_ids(&j->states, r->layers, r->numbering, j->engine.layers, err) != ERR_OK ||
        extract_ids_check(j, err) != ERR_OK)
        return err->code;
    if (r->draft_vocab > j->engine.vocab)
        return err_set(err, ERR_USAGE, "option|--draft-vocab|%lld|1 to %lld, the vocabulary",
                       (long long)r->draft_vocab, (long long)j->engine.vocab);
    return checkpoint_name(j->engine.weights, j->checkpoint, err);
}

static enum err_code prepare(struct extract_job *j, struct err *err)
{
    const struct extract_request *r = j->r;
    if (extract_folder_check(r->out, r->resume, err) != ERR_OK || open_model(j, err) != ERR_OK ||
        extract_data_open(&j->data, r->data, err) != ERR_OK)
        return err->code;
    int64_t positions = j->config->max_position;
    j->data.limits.vocab = j->engine.vocab;
    j->data.limits.length_max =
        r->length_max && r->length_max < positions ? r->length_max : positions;
    j->freq = calloc((size_t)j->engine.vocab, sizeof *j->freq);
    json_t *request = extract_request_json(j);
    if (!j->freq || !request)
        err_set(err, ERR_MEMORY, "extract|%s|no memory", r->out);
    else
        (void)!extract_journal_open(&j->journal, r->out, request, r->resume, err);
    json_decref(request);
    return err->code;
}

/* The sample goes into the batch, or was settled by the run that this one goes on with. */
static enum err_code take(struct extract_job *j, struct extract_sample *s, struct err *err)
{
    struct extract_entry e;
    if (s->number < j->journal.first) {
        if (extract_journal_next(&j->journal, &e, err) == ERR_OK) extract_settle(j, s, &e, -1);
        return err->code;
    }
    if (extract_batch_full(j, s) && extract_batch_flush(j, err) != ERR_OK) return err->code;
    return extract_batch_add(j, s, err);
}

static enum err_code run_all(struct extract_job *j, struct err *err)
{
    struct extract_sample s;
    for (bool more = true; more && err->code == ERR_OK;) {
        if (extract_data_next(&j->data, &s, &more, err) == ERR_OK && more) (void)!take(j, &s, err);
        extract_sample_free(&s);
    }
    return err->code == ERR_OK ? extract_batch_flush(j, err) : err->code;
}

static enum err_code finish(struct extract_job *j, struct err *err)
{
    const struct extract_result *out = j->result;
    if (j->unmasked > 0)
        extract_warn(j, "%lld samples without loss_mask: ones were taken", (long long)j->unmasked);
    json_t *head = extract_request_json(j);
    json_object_set_new(head, "written", json_integer(out->written + out->resumed));
    if (!head)
        err_set(err, ERR_MEMORY, "write manifest|%s|no memory", j->r->out);
    else if (extract_beside_write(j, err) == ERR_OK)
        (void)!extract_journal_finish(&j->journal, head, err);
    json_decref(head);
    return err->code;
}

/* All that was asked lies there, or the run is no pass. */
static enum err_code judge(const struct extract_job *j, struct err *err)
{
    const struct extract_result *out = j->result;
    size_t skipped = json_array_size(out->skipped);
    if (skipped == 0 && out->written + out->resumed > 0) return ERR_OK;
    const json_t *first = json_array_get(out->skipped, 0);
    const char *why = json_string_value(json_object_get(first, "why"));
    return err_set(err, ERR_DIFF, "extract|%s|%zu of %lld samples skipped|all of them written; %s",
                   j->r->out, skipped, (long long)j->data.total, why ? why : "none was skipped");
}

static void release(struct extract_job *j)
{
    for (int64_t i = 0; i < j->pending_count; i++) extract_sample_free(&j->pending[i]);
    extract_journal_close(&j->journal);
    extract_data_close(&j->data);
    states_engine_close(&j->engine);
    free(j->states.data);
    free(j->states.normed);
    free(j->states.bad);
    free(j->packed);
    free(j->freq);
    free(j->pending);
}

enum err_code extract_run(const struct extract_request *r, struct extract_result *out,
                          struct err *err)
{
    *out = (struct extract_result){.skipped = json_array(), .warnings = json_array()};
    struct extract_job j = {.r = r, .result = out, .journal = EXTRACT_JOURNAL_INIT};
    if (prepare(&j, err) == ERR_OK) {
        extract_ids_warn(&j);
        j.began = clock_seconds();
        if (run_all(&j, err) == ERR_OK && finish(&j, err) == ERR_OK) (void)!judge(&j, err);
        out->seconds = clock_seconds() - j.began;
        out->kernels = loaded_take_kernels(states_engine_loaded(&j.engine));
    }
    const struct loaded *loaded = states_engine_loaded(&j.engine);
    out->ranks = loaded ? ranks_json(&loaded->engine) : NULL;
    release(&j);
    return err->code;
}

json_t *extract_json(const struct extract_request *r, const struct extract_result *f)
{
    double rate = f->seconds > 0 ? (double)f->tokens / f->seconds : 0;
    json_t *o = json_pack(
        "{s:I, s:O, s:I, s:s, s:s, s:I, s:f, s:f, s:s, s:s, s:b, s:O, s:o*}", "written",
        (json_int_t)f->written, "skipped", f->skipped, "resumed", (json_int_t)f->resumed, "out",
        r->out, "format", sample_format_name((int)r->format), "tokens", (json_int_t)f->tokens,
        "seconds", f->seconds, "tokens_per_second", rate, "on", r->on, "profile",
        r->options.profile.name, "unverified", !r->options.profile.verified, "warnings",
        f->warnings, "kernels", f->kernels ? kernels_json(f->kernels) : NULL);
    if (f->ranks) json_object_update(o, f->ranks);
    return o;
}

void extract_result_free(struct extract_result *f)
{
    json_decref(f->skipped);
    json_decref(f->warnings);
    json_decref(f->ranks);
    free(f->kernels);
    *f = (struct extract_result){0};
}
