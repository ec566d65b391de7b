/* extract_beside.c: what decides the bytes of the samples, and what lies beside them; see
 * extract_job.h. Sources: the EAGLE-3 fact sheet, sections 3.1 and 4. */
#include "harness/extract_job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The states that the trainers of these formats expect: three aux states and the last hidden. */
enum { TRAINER_STATES = 4 };

/* What a format asks of the ids. */
static const struct {
    bool outputs;    /* its tool counts outputs: the embedding has no id */
    bool four;       /* its trainer reads TRAINER_STATES states */
    bool needs_last; /* the last state goes through the model's final norm: it must be entry id n */
} formats[SAMPLE_FORMATS] = {
    [SAMPLE_V03] = {.outputs = true, .four = true},
    [SAMPLE_VLLM] = {.outputs = false},
    [SAMPLE_SPECFORGE] = {.outputs = true, .four = true, .needs_last = true},
};

static json_t *id_list(const struct states *s, int64_t less)
{
    json_t *list = json_array();
    for (int k = 0; k < s->count; k++) json_array_append_new(list, json_integer(s->id[k] - less));
    return list;
}

static int64_t last_id(const struct extract_job *j)
{
    return j->states.id[j->states.count - 1];
}

/* Over ranks sums have another order: a resumed run must share it. */
static void add_ranks(const struct ranks_options *r, json_t *o)
{
    const struct shard_plan *p = &r->plan;
    if (!r->on) return;
    json_object_set_new(o, "ranks",
                        json_pack("{s:i, s:i, s:s, s:I, s:s}", "tp", p->tp, "ep", p->ep,
                                  "expert_map", expert_map_name(p->map), "redundant",
                                  (json_int_t)p->redundant, "reduce", dtype_name(p->reduce)));
}

json_t *extract_request_json(const struct extract_job *j)
{
    const struct extract_request *r = j->r;
    const struct states *s = &j->states;
    bool output = strcmp(r->numbering, "output") == 0;
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:s, s:o, s:o, s:b, s:b, "
        "s:s, s:I, s:I, s:I}",
        "assay", ASSAY_VERSION, "format", sample_format_name((int)r->format), "engine",
        j->engine.name, "profile", r->options.profile.name, "precision",
        session_precision_name(&r->options), "dtype", dtype_name(j->dtype), "config_sha256",
        j->config->sha256, "checkpoint", j->checkpoint, "layers", (json_int_t)j->engine.layers,
        "hidden", (json_int_t)j->engine.hidden, "vocab", (json_int_t)j->engine.vocab, "layer_ids",
        id_list(s, output ? 1 : 0), "numbering", r->numbering, "entry_ids", id_list(s, 0),
        "output_ids", id_list(s, 1), "last_is_hidden", last_id(j) == j->engine.layers,
        "last_is_normed", formats[r->format].needs_last, "data_sha256", j->data.sha256,
        "data_samples", (json_int_t)j->data.total, "length_max",
        (json_int_t)j->data.limits.length_max, "draft_vocab", (json_int_t)r->draft_vocab);
    if (!j->engine.rows_alone)
        json_object_set_new(o, "prefill_chunk", json_integer(r->options.chunk));
    add_ranks(&r->options.ranks, o);
    return o;
}

/* ---- layer ids ---- */

enum err_code extract_ids_check(const struct extract_job *j, struct err *err)
{
    const struct states *s = &j->states;
    const char *name = sample_format_name((int)j->r->format);
    if (formats[j->r->format].outputs && s->id[0] == 0)
        return err_set(err, ERR_USAGE,
                       "option|--layers|the embedding (entry id 0)|entry ids of 1 "
                       "or more: %s counts the outputs of layers",
                       name);
    if (formats[j->r->format].needs_last && (last_id(j) != j->engine.layers || s->count < 2))
        return err_set(err, ERR_USAGE,
                       "option|--layers|last entry id %lld of %d|aux ids and then entry id %lld "
                       "(output %lld): %s stores the final norm of the last state",
                       (long long)last_id(j), s->count, (long long)j->engine.layers,
                       (long long)j->engine.layers - 1, name);
    return ERR_OK;
}

void extract_warn(struct extract_job *j, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    progress_end();
    fprintf(stderr, "assay: warning: %s\n", text);
    json_array_append_new(j->result->warnings, json_string(text));
}

void extract_ids_warn(struct extract_job *j)
{
    long long n = (long long)j->engine.layers, last = (long long)last_id(j);
    if (last != n)
        extract_warn(
            j,
            "the last state is not the model's last hidden: it is entry id %lld (output of "
            "layer %lld), the last hidden is entry id %lld (output of layer %lld); a "
            "trainer takes the last state as its target",
            last, last - 1, n, n - 1);
    if (formats[j->r->format].four && j->states.count != TRAINER_STATES)
        extract_warn(j,
                     "%d states a token: the trainer of %s reads %d, three aux states and the "
                     "last hidden",
                     j->states.count, sample_format_name((int)j->r->format), TRAINER_STATES);
    if (!j->r->options.profile.verified)
        extract_warn(j, "profile %s: %s", j->r->options.profile.name, PROFILE_UNVERIFIED);
}

/* ---- files ---- */

static enum err_code write_text(const char *folder, const char *name, const char *text,
                                struct err *err)
{
    char path[FILE_PATH];
    struct file_out f = FILE_OUT_INIT;
    if (file_join(folder, name, path, err) == ERR_OK && file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, text, (int64_t)strlen(text), err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

/* data_config.json of speculators v0.3, whose layer ids are output ids. */
static enum err_code write_data_config(const struct extract_job *j, struct err *err)
{
    json_t *v = json_pack(
        "{s:s, s:i, s:{s:s, s:I, s:I}, s:{s:s, s:I}, s:{s:o}, s:{s:s, s:{s:s, s:s, s:s}}}",
        "version", "2.0", "data_format_version", 1, "model", "name", j->r->model, "layers",
        (json_int_t)j->engine.layers, "hidden_size", (json_int_t)j->engine.hidden, "data", "sha256",
        j->data.sha256, "samples", (json_int_t)j->data.total, "hidden_states", "layer_ids",
        id_list(&j->states, 1), "format", "file_pattern", "data_{idx}.pt", "schema", "input_ids",
        "int64 [S]", "hidden_states", "list of [S, H]", "loss_mask", "int64 [S]");
    char *text = v ? json_dumps(v, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    if (text)
        (void)!write_text(j->journal.folder, "data_config.json", text, err);
    else
        err_set(err, ERR_MEMORY, "write data_config.json|%s|no memory", j->journal.folder);
    free(text);
    json_decref(v);
    return err->code;
}

enum err_code extract_beside_write(const struct extract_job *j, struct err *err)
{
    char path[FILE_PATH];
    const struct extract_request *r = j->r;
    const char *folder = j->journal.folder;
    if (r->format == SAMPLE_V03 && write_data_config(j, err) != ERR_OK) return err->code;
    if (r->format != SAMPLE_SPECFORGE &&
        (file_join(folder, "token_freq.pt", path, err) != ERR_OK ||
         sample_write_freq(path, j->freq, j->engine.vocab, err) != ERR_OK))
        return err->code;
    if (!r->draft_vocab) return ERR_OK;
    return sample_write_maps(r->format, folder, j->freq, j->engine.vocab, r->draft_vocab, err);
}
