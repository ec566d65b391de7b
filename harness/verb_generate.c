/* verb_generate.c: greedy decoding with the cache: prefill, then one token a step. */
#include "core/logits.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>

static const struct option_row options[] = {
    {"--tokens", "T", "the prompt: 1,5,9, a file, or @golden.json", false},
    {"--prompt", "N", "only the first N tokens of T", false},
    {"-n", "N", "tokens to generate (default 16)", false},
    {"--stop-eos", NULL, "stop after the config's eos token", false},
    SESSION_OPTION_ROWS,
    {NULL, NULL, NULL, false},
};

struct job {
    struct loaded loaded;
    struct tokens tokens;
    struct session_options options;
    struct session session;
    double *logits;
    int64_t count;
    bool stop_eos;
};

/* A choice whose margin is below what float32 sums of this width can move is a near tie: model
 * math 10. */
static bool near_tie(const struct job *j, const double *row, double margin)
{
    double largest = 0;
    const struct config *c = j->loaded.model.config;
    for (int64_t i = 0; i < c->vocab; i++)
        largest = row[i] > largest ? row[i] : -row[i] > largest ? -row[i] : largest;
    double unit = j->options.profile.rounds[RP_LOGITS] ? dtype_unit(c->dtype) : dtype_unit(DT_F32);
    return margin <= 4 * unit * largest;
}

/* What a run gives, token by token. */
struct result {
    json_t *tokens, *margins, *seconds; /* seconds: of the step that gave the logits */
    int64_t ties;
    double prefill_seconds;
};

static enum err_code generate(struct job *j, struct result *out, struct err *err)
{
    const struct config *c = j->loaded.model.config;
    double began = clock_seconds();
    if (session_forward(&j->session, &j->tokens, NULL, NULL, j->logits, err) != ERR_OK)
        return err->code;
    out->prefill_seconds = clock_seconds() - began;
    for (int64_t n = 0; n < j->count; n++) {
        double margin;
        int64_t id = logits_argmax(j->logits, c->vocab, &margin);
        if (id < 0)
            return err_set(err, ERR_DIFF, "generate|token %lld|logits with NaN|numbers",
                           (long long)n);
        out->ties += near_tie(j, j->logits, margin);
        json_array_append_new(out->tokens, json_integer(id));
        json_array_append_new(out->margins, json_real(margin));
        if (j->stop_eos && id == c->eos) break;
        progress_show(NULL, "tokens", n, j->count);
        began = clock_seconds();
        if (n + 1 < j->count && session_decode(&j->session, &id, j->logits, err) != ERR_OK)
            return err->code;
        if (n + 1 < j->count)
            json_array_append_new(out->seconds, json_real(clock_seconds() - began));
    }
    return ERR_OK;
}

static enum err_code prepare(struct job *j, const struct args *a, struct err *err)
{
    int64_t prompt;
    if (!args_value(a, "--tokens"))
        return err_set(err, ERR_USAGE, "arguments|generate|no --tokens|--tokens T");
    j->stop_eos = args_has(a, "--stop-eos");
    if (session_options_read(a, &j->options, err) != ERR_OK ||
        args_int(a, "-n", 1, INT32_MAX, 16, &j->count, err) != ERR_OK ||
        tokens_read(args_value(a, "--tokens"), &j->tokens, err) != ERR_OK)
        return err->code;
    if (j->tokens.sequences != 1)
        return err_set(err, ERR_INPUT, "generate|--tokens|%lld sequences|one",
                       (long long)j->tokens.sequences);
    if (args_int(a, "--prompt", 1, j->tokens.count, j->tokens.count, &prompt, err) != ERR_OK)
        return err->code;
    j->tokens.count = j->tokens.length[0] = prompt;
    if (loaded_open(&j->loaded, a->word[0], err) != ERR_OK) return err->code;
    int64_t room = prompt + j->count;
    j->logits = malloc((size_t)j->loaded.model.config->vocab * sizeof *j->logits);
    if (!j->logits) return err_set(err, ERR_MEMORY, "generate|logits|no memory");
    return session_open(&j->session, &j->loaded, &j->options, 1, &room, err);
}

static void print_tokens(const json_t *tokens)
{
    for (size_t i = 0; i < json_array_size(tokens); i++)
        printf("%s%lld", i ? "," : "", (long long)json_integer_value(json_array_get(tokens, i)));
    printf("\n");
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct job j = {0};
    struct result r = {.tokens = json_array(), .margins = json_array(), .seconds = json_array()};
    double began = clock_seconds();
    if (prepare(&j, a, err) == ERR_OK) (void)!generate(&j, &r, err);
    if (!a->json && err->code == ERR_OK) print_tokens(r.tokens);
    json_object_set_new(result, "tokens", r.tokens);
    json_object_set_new(result, "margins", r.margins);
    /* Drafts confirmed a round: none without a draft head. */
    json_object_set_new(result, "accepted", json_array());
    json_object_set_new(result, "mean_acceptance_length", json_null());
    json_object_set_new(result, "lossless", json_null());
    json_object_set_new(result, "near_ties", json_integer(r.ties));
    json_object_set_new(result, "prefill_seconds", json_real(r.prefill_seconds));
    json_object_set_new(result, "token_seconds", r.seconds);
    json_object_set_new(result, "seconds", json_real(clock_seconds() - began));
    json_object_set_new(result, "peak_bytes", json_integer(session_peak_bytes(&j.session)));
    session_close(&j.session);
    free(j.logits);
    tokens_free(&j.tokens);
    loaded_close(&j.loaded);
    return err->code;
}

const struct verb verb_generate = {
    .name = "generate",
    .usage = "MODEL --tokens T -n N [options]",
    .about = "continue a prompt greedily, with the paged latent cache",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
