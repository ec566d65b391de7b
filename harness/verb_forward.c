/* verb_forward.c: a model on a token list, its taps to a dump. */
#include "core/json.h"
#include "core/ops.h"
#include "core/text.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
    {"--tokens", "T", "1,5,9, a file, or @golden.json", false},
    {"--on", "ref|gpu", "the engine (default ref)", false},
    {"--out", "DUMP", "the file to write", false},
    SESSION_OPTION_ROWS,
    {"--taps", "GLOB,...", "only taps that match (default all)", false},
    {"--layers", "A:B", "taps of layers A to B-1; layers from B on are not run", false},
    {"--rows", "A:B", "only these rows of the batch; -24: is the last 24", false},
    {"--experts", "DUMP", "take the experts of this dump instead of the router's own", false},
    {"--dump-dtype", "f32|f64", "type of real taps (default f32)", false},
    {NULL, NULL, NULL, false},
};

/* "A:B" with either end optional and negative ends counted from n. */
static enum err_code read_range(const struct args *a, const char *name, int64_t n, int64_t *first,
                                int64_t *end, struct err *err)
{
    const char *text = args_value(a, name);
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
    struct session_options options;
    struct session session;
    struct tap *taps;
    int64_t tap_count;
    int64_t first_row, end_row;
    struct dump forced_dump;
    struct forced forced;
    struct dump_out out;
    enum dtype reals;
};

static char *json_ints(const int64_t *v, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(a, json_integer(v[i]));
    char *text = json_dumps(a, JSON_COMPACT);
    json_decref(a);
    return text;
}

static enum err_code create_dump(struct job *j, const char *path, const char *model,
                                 struct err *err)
{
    const struct config *c = j->loaded.model.config;
    int64_t n = j->tokens.count, at = 0;
    int64_t *position = calloc((size_t)n + 1, sizeof *position),
            *row = calloc((size_t)n + 1, sizeof *row);
    json_t *order = json_array();
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
    const struct st_meta meta[] = {
        {"assay.version", ASSAY_VERSION},
        {"assay.engine", "assay ref"},
        {"assay.profile", j->options.profile.name},
        {"assay.precision", j->options.precision == PRECISION_F64 ? "f64" : "f32"},
        {"assay.config_sha256", c->sha256},
        {"assay.model", model},
        {"assay.tokens", text[0]},
        {"assay.lengths", text[1]},
        {"assay.positions", text[2]},
        {"assay.rows", text[3]},
        {"assay.order", text[4]},
    };
    if (!text[0] || !text[1] || !text[2] || !text[3] || !text[4])
        err_set(err, ERR_MEMORY, "plan dump|%s|no memory", path);
    if (err->code == ERR_OK)
        (void)!dump_create(&j->out, path, j->taps, j->tap_count, n, j->first_row, j->end_row,
                           j->reals, meta, sizeof meta / sizeof meta[0], err);
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

static enum err_code prepare(struct job *j, const struct args *a, struct err *err)
{
    static const char *const dtypes[] = {"f32", "f64", NULL};
    int dtype;
    int64_t first_layer, end_layer;
    if (!args_value(a, "--tokens"))
        return err_set(err, ERR_USAGE, "arguments|forward|no --tokens|--tokens T");
    if (!args_value(a, "--out"))
        return err_set(err, ERR_USAGE, "arguments|forward|no --out|--out DUMP");
    if (session_options_read(a, &j->options, err) != ERR_OK ||
        args_choice(a, "--dump-dtype", dtypes, 0, &dtype, err) != ERR_OK ||
        tokens_read(args_value(a, "--tokens"), &j->tokens, err) != ERR_OK ||
        loaded_open(&j->loaded, a->word[0], err) != ERR_OK)
        return err->code;
    const struct config *c = j->loaded.model.config;
    j->reals = dtype ? DT_F64 : DT_F32;
    if (tokens_check(&j->tokens, c->vocab, err) != ERR_OK ||
        read_range(a, "--layers", c->layers, &first_layer, &end_layer, err) != ERR_OK ||
        read_range(a, "--rows", j->tokens.count, &j->first_row, &j->end_row, err) != ERR_OK ||
        tap_list(c, first_layer, end_layer, &j->taps, &j->tap_count, err) != ERR_OK ||
        select_taps(args_value(a, "--taps"), j->taps, &j->tap_count, err) != ERR_OK ||
        read_forced(j, args_value(a, "--experts"), err) != ERR_OK)
        return err->code;
    j->options.layer_end = end_layer;
    return create_dump(j, args_value(a, "--out"), a->word[0], err);
}

static enum err_code execute(struct job *j, const struct args *a, json_t *result, struct err *err)
{
    double began = clock_seconds();
    if (session_open(&j->session, &j->loaded, &j->options, j->tokens.sequences, j->tokens.length,
                     err) != ERR_OK ||
        session_forward(&j->session, &j->tokens, &j->out.sink, j->forced.ids ? &j->forced : NULL,
                        NULL, err) != ERR_OK ||
        dump_commit(&j->out, err) != ERR_OK)
        return err->code;
    double seconds = clock_seconds() - began;
    int64_t peak = session_peak_bytes(&j->session);
    const char *note =
        j->options.profile.verified ? "" : "unverified: no outside dump has confirmed this profile";
    json_t *fields = json_pack(
        "{s:I, s:s, s:f, s:I, s:I, s:s, s:b, s:I}", "taps", (json_int_t)j->tap_count, "out",
        args_value(a, "--out"), "seconds", seconds, "peak_bytes", (json_int_t)peak, "rows",
        (json_int_t)(j->end_row - j->first_row), "profile", j->options.profile.name, "unverified",
        !j->options.profile.verified, "forced_rows", (json_int_t)j->forced.count);
    json_object_update(result, fields);
    json_decref(fields);
    if (note[0]) fprintf(stderr, "assay: warning: profile %s: %s\n", j->options.profile.name, note);
    if (a->json) return ERR_OK;
    char bytes[32];
    printf("%lld taps of %lld rows, ref %s %s%s -> %s (%.2f s, %s of memory)\n",
           (long long)j->tap_count, (long long)(j->end_row - j->first_row), j->options.profile.name,
           j->options.precision == PRECISION_F64 ? "f64" : "f32", note[0] ? ", unverified" : "",
           args_value(a, "--out"), seconds, text_bytes((double)peak, bytes, sizeof bytes));
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    static const char *const engines[] = {"ref", "gpu", NULL};
    int engine;
    struct job j = {.out.file = FILE_OUT_INIT};
    if (args_choice(a, "--on", engines, 0, &engine, err) != ERR_OK) return err->code;
    if (engine == 1) {
        const struct op_side *gpu = gpu_side();
        return err_set(err, ERR_DEVICE, "run|--on gpu|%s|a build and a machine with a CUDA device",
                       gpu->available ? "no op that is implemented" : gpu->why_not);
    }
    if (prepare(&j, a, err) == ERR_OK) (void)!execute(&j, a, result, err);
    session_close(&j.session);
    dump_abandon(&j.out);
    forced_free(&j.forced);
    dump_close(&j.forced_dump);
    free(j.taps);
    tokens_free(&j.tokens);
    loaded_close(&j.loaded);
    return err->code;
}

const struct verb verb_forward = {
    .name = "forward",
    .usage = "MODEL --tokens T --out DUMP [--on ref|gpu] [options]",
    .about = "run a model on a token list and write its taps to a dump",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
