/* verb_generate.c: continue a prompt: greedily or sampling, from the target alone or with a draft
 * head, and say whether that was lossless. */
#include "harness/kernel_report.h"
#include "harness/lossless.h"

#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {"--tokens", "T", "the prompt: 1,5,9, a file, or @golden.json", false},
    {"--prompt", "N", "only the first N tokens of T", false},
    {"-n", "N", "tokens to generate (default 16); with the prompt at most the config's positions",
     false},
    {"--stop-eos", NULL, "stop after the config's eos token", false},
    {"--temperature", "X", "sample at this temperature (default 0: greedy)", false},
    {"--seed", "S", "of the random numbers (default 0)", false},
    {"--draft", "HEAD", "an EAGLE-3 draft head", false},
    {"--draft-tokens", "K", "drafts a round (default 4; tree: 59)", false},
    {"--mode", "chain|tree", "shape of the drafts (default chain)", false},
    {"--tree-depth", "D", "the draft is fed its own nodes D times (default 7)", false},
    {"--tree-top-k", "W", "children of a node, and nodes fed at once (default 10)", false},
    {"--check-lossless", NULL, "hold what came out against the target's own", false},
    SESSION_OPTION_ROWS,
    RANKS_OPTION_ROWS,
    {NULL, NULL, NULL, false},
};

struct job {
    struct loaded loaded;
    struct head head;
    bool drafts, check, stop_eos;
    struct tokens tokens;
    struct session_options options;
    struct session session;
    struct speculate_options how;
    struct speculate speculate;
    int64_t count;
};

/* ---- arguments ---- */

/* What has no effect is no silent no: a head's options need a head, a tree's a tree. */
static enum err_code check_needs(const struct args *a, bool tree, struct err *err)
{
    static const struct {
        const char *option, *needs;
    } rows[] = {{"--draft-tokens", "--draft"},
                {"--mode", "--draft"},
                {"--check-lossless", "--draft"},
                {"--tree-depth", "--mode tree"},
                {"--tree-top-k", "--mode tree"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool there = strcmp(rows[i].needs, "--draft") == 0 ? args_has(a, "--draft") : tree;
        if (args_has(a, rows[i].option) && !there)
            return err_set(err, ERR_USAGE, "option|generate|%s without %s|%s with it",
                           rows[i].option, rows[i].needs, rows[i].needs);
    }
    return ERR_OK;
}

static enum err_code read_how(const struct args *a, struct speculate_options *how, struct err *err)
{
    static const char *const modes[] = {"chain", "tree", NULL};
    int mode;
    int64_t seed;
    if (args_choice(a, "--mode", modes, 0, &mode, err) != ERR_OK ||
        check_needs(a, mode == 1, err) != ERR_OK ||
        args_int(a, "--draft-tokens", 1, 4096, mode ? 59 : 4, &how->drafts, err) != ERR_OK ||
        args_int(a, "--tree-depth", 0, 64, 7, &how->depth, err) != ERR_OK ||
        args_int(a, "--tree-top-k", 1, 256, 10, &how->top_k, err) != ERR_OK ||
        args_double(a, "--temperature", 0, 1e6, 0, &how->temperature, err) != ERR_OK ||
        args_int(a, "--seed", 0, INT64_MAX, 0, &seed, err) != ERR_OK)
        return err->code;
    how->tree = mode == 1;
    how->seed = (uint64_t)seed;
    return ERR_OK;
}

static enum err_code read_prompt(const struct args *a, struct job *j, struct err *err)
{
    int64_t prompt;
    if (tokens_read(args_value(a, "--tokens"), &j->tokens, err) != ERR_OK) return err->code;
    if (j->tokens.sequences != 1)
        return err_set(err, ERR_INPUT, "generate|--tokens|%lld sequences|one",
                       (long long)j->tokens.sequences);
    if (args_int(a, "--prompt", 1, j->tokens.count, j->tokens.count, &prompt, err) != ERR_OK)
        return err->code;
    j->tokens.count = j->tokens.length[0] = prompt;
    return ERR_OK;
}

/* RoPE goes on past the last position that the model was made for, and what comes out there means
 * nothing: serving engines end before it. Drafts beyond the end are never kept, so they do not
 * count. */
static enum err_code check_positions(const struct job *j, struct err *err)
{
    const int64_t most = j->loaded.model.config->max_position;
    if (j->tokens.count + j->count <= most) return ERR_OK;
    return err_set(err, ERR_INPUT,
                   "generate|-n|%lld tokens of the prompt and %lld to come|at most "
                   "max_position_embeddings, %lld, in all",
                   (long long)j->tokens.count, (long long)j->count, (long long)most);
}

static enum err_code prepare(struct job *j, const struct args *a, struct err *err)
{
    if (!args_value(a, "--tokens"))
        return err_set(err, ERR_USAGE, "arguments|generate|no --tokens|--tokens T");
    j->stop_eos = args_has(a, "--stop-eos");
    j->check = args_has(a, "--check-lossless");
    j->drafts = args_has(a, "--draft");
    if (session_options_read(a, &j->options, err) != ERR_OK ||
        engine_usable(j->options.engine, err) != ERR_OK || read_how(a, &j->how, err) != ERR_OK ||
        args_int(a, "-n", 1, INT32_MAX, 16, &j->count, err) != ERR_OK ||
        read_prompt(a, j, err) != ERR_OK ||
        loaded_open_by(&j->loaded, a->word[0], &j->options, err) != ERR_OK)
        return err->code;
    if (j->drafts && head_open(&j->head, args_value(a, "--draft"), &j->loaded.model, err) != ERR_OK)
        return err->code;
    /* The last round may begin one token before the end. */
    int64_t room = j->tokens.count + j->count + (j->drafts ? j->how.drafts : 0);
    if (check_positions(j, err) != ERR_OK ||
        session_open(&j->session, &j->loaded, &j->options, 1, &room, err) != ERR_OK)
        return err->code;
    return speculate_open(&j->speculate, &j->session, j->drafts ? &j->head : NULL, &j->how, err);
}

/* ---- generating ---- */

/* What a run gives, round by round. */
struct result {
    json_t *accepted, *seconds; /* seconds: of a round */
    int64_t rounds, drafted, confirmed;
    int64_t at[4096]; /* rounds in which the draft of this depth was confirmed */
    double prefill_seconds;
};

/* Cuts the text behind the first eos of the tokens from `first` on; true where there is one. */
static bool cut_at_eos(struct job *j, int64_t first)
{
    struct speculate *s = &j->speculate;
    for (int64_t i = first; i < s->length && j->stop_eos; i++) {
        if (s->text[i] != j->loaded.model.config->eos) continue;
        s->length = i + 1;
        return true;
    }
    return false;
}

static void count_round(struct result *r, const struct speculate *s, double seconds)
{
    r->rounds++;
    r->drafted += s->tree.nodes - 1;
    r->confirmed += s->accepted;
    for (int64_t d = 0; d < s->accepted; d++) r->at[d]++;
    if (s->head) json_array_append_new(r->accepted, json_integer(s->accepted));
    json_array_append_new(r->seconds, json_real(seconds));
}

static enum err_code generate(struct job *j, struct result *r, struct err *err)
{
    struct speculate *s = &j->speculate;
    double began = clock_seconds();
    if (speculate_begin(s, &j->tokens, err) != ERR_OK) return err->code;
    r->prefill_seconds = clock_seconds() - began;
    for (int64_t first = s->prompt; !cut_at_eos(j, first) && s->length - s->prompt < j->count;) {
        progress_show(NULL, "tokens", s->length - s->prompt, j->count);
        first = s->length;
        began = clock_seconds();
        if (speculate_round(s, err) != ERR_OK) return err->code;
        count_round(r, s, clock_seconds() - began);
    }
    return ERR_OK;
}

/* ---- what is reported ---- */

static void report_tokens(const struct job *j, json_t *result)
{
    const struct speculate *s = &j->speculate;
    json_t *tokens = json_array(), *margins = json_array();
    int64_t ties = 0;
    for (int64_t i = s->prompt; i < s->length; i++) {
        json_array_append_new(tokens, json_integer(s->text[i]));
        if (s->options.temperature == 0)
            json_array_append_new(margins, json_real(s->generated[i].margin));
        ties += s->generated[i].near_tie;
    }
    json_object_set_new(result, "tokens", tokens);
    json_object_set_new(result, "margins", margins);
    json_object_set_new(result, "near_ties", json_integer(ties));
}

/* As serving engines count: the bonus is part of the length, and the rate of a place is of all
 * rounds, not of those that came so far. */
static void report_rounds(const struct job *j, const struct result *r, json_t *result)
{
    double rounds = r->rounds ? (double)r->rounds : 1;
    json_t *rates = json_array();
    bool mean = j->drafts && r->rounds > 0;
    int64_t places = !j->drafts ? 0 : j->how.tree ? j->how.depth + 1 : j->how.drafts;
    for (int64_t d = 0; d < places; d++)
        json_array_append_new(rates, json_real((double)r->at[d] / rounds));
    json_object_set(result, "accepted", r->accepted);
    json_object_set_new(result, "mean_acceptance_length",
                        mean ? json_real(1 + (double)r->confirmed / rounds) : json_null());
    json_object_set_new(result, "position_acceptance", rates);
    json_object_set_new(result, "rounds", json_integer(r->rounds));
    json_object_set_new(result, "drafted", json_integer(r->drafted));
    json_object_set_new(result, "prefill_seconds", json_real(r->prefill_seconds));
    json_object_set(result, "token_seconds", r->seconds);
}

/* What was assumed about the head, for those who compare acceptance. */
static void report_head(const struct job *j, json_t *result)
{
    const struct head_config *c = &j->head.config;
    json_t *assumed = json_array();
    const char *const said[] = {c->residual_assumed, c->aux_assumed};
    for (size_t i = 0; j->drafts && i < sizeof said / sizeof said[0]; i++) {
        if (said[i][0]) json_array_append_new(assumed, json_string(said[i]));
    }
    json_object_set_new(result, "assumed", assumed);
}

/* What it ran on, and by which kernels. */
static void report_engine(const struct args *a, const struct job *j, json_t *result)
{
    const struct kernel_log *kernels = j->loaded.kernels;
    json_t *ranks = ranks_json(&j->loaded.engine);
    if (ranks) json_object_update(result, ranks);
    json_decref(ranks);
    if (j->options.engine) json_object_set_new(result, "on", json_string(j->options.engine->name));
    if (!kernels) return;
    if (!a->json) kernels_print(kernels, stdout);
    json_object_set_new(result, "kernels", kernels_json(kernels));
}

static void print_tokens(const struct speculate *s)
{
    for (int64_t i = s->prompt; i < s->length; i++)
        printf("%s%lld", i > s->prompt ? "," : "", (long long)s->text[i]);
    printf("\n");
}

/* ---- lossless ---- */

static enum err_code check_greedy(const struct job *j, json_t *result, struct err *err)
{
    const struct speculate *s = &j->speculate;
    struct lossless l;
    if (lossless_greedy(&j->loaded, &j->options, &j->tokens, s->text + s->prompt,
                        s->length - s->prompt, &l, err) != ERR_OK)
        return err->code;
    json_object_set_new(result, "lossless", json_boolean(l.holds));
    json_object_set_new(result, "checked", json_integer(l.checked));
    json_object_set_new(result, "tie_differences", json_integer(l.ties));
    if (l.holds) return ERR_OK;
    return err_set(err, ERR_DIFF,
                   "lossless|generated token %lld|%lld, whose logit lies %g below|%lld, the "
                   "target's own by a margin of %g",
                   (long long)l.at, (long long)l.got, l.gap, (long long)l.wanted, l.margin);
}

static json_t *law_json(const struct law_test *t)
{
    int faults;
    const struct law_fault *fault = law_faults(t->law->tree, &faults);
    json_t *power = json_array();
    for (int f = 0; f < faults; f++)
        json_array_append_new(power, json_pack("{s:s, s:s?, s:f}", "fault", fault[f].name, "id",
                                               fault[f].fault, "power", t->power[f]));
    json_t *o = json_pack("{s:s, s:I, s:i, s:f, s:f, s:b, s:o}", "law", t->law->name, "samples",
                          (json_int_t)t->samples, "cells", t->cells, "alpha", LAW_ALPHA, "bound",
                          t->bound, "holds", t->holds, "faults", power);
    bool finite = t->statistic <= 1e300;
    json_object_set_new(o, "statistic", finite ? json_real(t->statistic) : json_null());
    return o;
}

static enum err_code law_failed(const struct law_test *t, struct err *err)
{
    int faults;
    const struct law_fault *fault = law_faults(t->law->tree, &faults),
                           *like = t->like >= 0 ? &fault[t->like] : NULL;
    const char *id = like ? like->fault : NULL;
    return err_set(err, ERR_DIFF,
                   "lossless|%s, %lld samples|chi-square %g%s%s%s%s|at most %g, for the target's "
                   "law",
                   t->law->name, (long long)t->samples, t->statistic, like ? ", as if " : "",
                   like ? like->name : "", id ? ": " : "", id ? id : "", t->bound);
}

static enum err_code check_sampling(const struct job *j, json_t *result, struct err *err)
{
    struct lossless_laws laws;
    json_t *list = json_array();
    (void)!lossless_sampling(&j->loaded, &j->options, &j->head, &j->how, &j->tokens, law_verify_ref,
                             NULL, &laws, err);
    for (int i = 0; i < laws.count; i++) json_array_append_new(list, law_json(&laws.test[i]));
    json_object_set_new(result, "laws", list);
    if (err->code == ERR_OK) json_object_set_new(result, "lossless", json_boolean(laws.failed < 0));
    if (err->code == ERR_OK && laws.failed >= 0) (void)!law_failed(&laws.test[laws.failed], err);
    lossless_laws_free(&laws);
    return err->code;
}

/* ---- the verb ---- */

static void close_job(struct job *j)
{
    speculate_close(&j->speculate);
    session_close(&j->session);
    head_close(&j->head);
    tokens_free(&j->tokens);
    loaded_close(&j->loaded);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct job j = {0};
    struct result r = {.accepted = json_array(), .seconds = json_array()};
    double began = clock_seconds();
    if (prepare(&j, a, err) == ERR_OK) (void)!generate(&j, &r, err);
    if (!a->json && err->code == ERR_OK) print_tokens(&j.speculate);
    report_tokens(&j, result);
    report_rounds(&j, &r, result);
    report_head(&j, result);
    json_object_set_new(result, "lossless", json_null());
    if (j.check && err->code == ERR_OK)
        (void)!(j.how.temperature > 0 ? check_sampling(&j, result, err)
                                      : check_greedy(&j, result, err));
    json_object_set_new(result, "seconds", json_real(clock_seconds() - began));
    json_object_set_new(result, "peak_bytes", json_integer(session_peak_bytes(&j.session)));
    report_engine(a, &j, result);
    close_job(&j);
    json_decref(r.accepted);
    json_decref(r.seconds);
    return err->code;
}

const struct verb verb_generate = {
    .name = "generate",
    .usage = "MODEL --tokens T -n N [--draft HEAD] [options]",
    .about = "continue a prompt with the paged latent cache, alone or with a draft head",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
