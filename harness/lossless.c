/* lossless.c: see lossless.h. */
#include "harness/lossless.h"

#include "core/check.h"
#include "core/logits.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- greedy ---- */

static void compare(const struct session *s, const double *row, int64_t at, int64_t got,
                    struct lossless *out)
{
    double margin;
    int64_t wanted = logits_argmax(row, s->loaded->model.config->vocab, &margin);
    out->checked++;
    if (got == wanted) return;
    double gap = wanted < 0 ? margin : row[wanted] - row[got];
    if (speculate_near_tie(s, row, gap)) {
        out->ties++;
        return;
    }
    if (out->holds) {
        out->at = at;
        out->got = got;
        out->wanted = wanted;
        out->gap = gap;
        out->margin = margin;
    }
    out->holds = false;
}

enum err_code lossless_greedy(const struct loaded *l, const struct session_options *o,
                              const struct tokens *prompt, const int64_t *generated, int64_t count,
                              struct lossless *out, struct err *err)
{
    struct session s = {0};
    int64_t V = l->model.config->vocab, room = prompt->count + count;
    double *logits = malloc((size_t)V * sizeof *logits);
    *out = (struct lossless){.holds = true};
    if (!logits) (void)!err_set(err, ERR_MEMORY, "lossless|logits|no memory");
    if (err->code == ERR_OK && session_open(&s, l, o, 1, &room, err) == ERR_OK)
        (void)!session_forward(&s, prompt, NULL, NULL, logits, err);
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++) {
        compare(&s, logits, i, generated[i], out);
        progress_show(NULL, "tokens checked", i, count);
        if (i + 1 < count) (void)!session_decode(&s, &generated[i], logits, err);
    }
    session_close(&s);
    free(logits);
    return err->code;
}

/* ---- sampling ---- */

/* Laws of the first round after the prompt: of the target after its root and after the first
 * draft, and those that its two drafts were drawn from. */
static enum err_code model_laws(const struct loaded *l, const struct session_options *o,
                                const struct head *head, const struct speculate_options *how,
                                const struct tokens *prompt, struct lossless_laws *out,
                                struct err *err)
{
    struct session session = {0};
    struct speculate s = {0};
    struct speculate_options chain = {
        .drafts = 2, .temperature = how->temperature, .seed = how->seed};
    int64_t V = l->model.config->vocab, room = prompt->count + 1 + chain.drafts;
    if (session_open(&session, l, o, 1, &room, err) == ERR_OK &&
        speculate_open(&s, &session, head, &chain, err) == ERR_OK &&
        speculate_begin(&s, prompt, err) == ERR_OK && speculate_round(&s, err) == ERR_OK) {
        const double *const p[2] = {s.target, s.target + V};
        const double *const q[2] = {s.tree.q + V, s.tree.q + 2 * V};
        if (law_of_model(&out->model, how->tree, V, p, q, &out->arena, err) == ERR_OK)
            snprintf(out->model.name, sizeof out->model.name, "%s of the model's laws",
                     how->tree ? "tree" : "chain of 1 draft");
    }
    speculate_close(&s);
    session_close(&session);
    return err->code;
}

enum err_code lossless_sampling(const struct loaded *l, const struct session_options *o,
                                const struct head *head, const struct speculate_options *how,
                                const struct tokens *prompt, law_verify *verify, void *ctx,
                                struct lossless_laws *out, struct err *err)
{
    const struct law *law;
    *out = (struct lossless_laws){.arena = ARENA_INIT, .failed = -1};
    if (model_laws(l, o, head, how, prompt, out, err) != ERR_OK) return err->code;
    do {
        law = law_toy(out->count);
        if (!law) law = &out->model;
        CHECK(out->count < LOSSLESS_LAWS);
        struct law_test *t = &out->test[out->count];
        if (law_plan(t, law, err) != ERR_OK || law_play(t, verify, ctx, how->seed, err) != ERR_OK)
            return err->code;
        if (!t->holds && out->failed < 0) out->failed = out->count;
        out->count++;
    } while (law != &out->model);
    return ERR_OK;
}

void lossless_laws_free(struct lossless_laws *laws)
{
    arena_release(&laws->arena, NULL);
    *laws = (struct lossless_laws){0};
}
