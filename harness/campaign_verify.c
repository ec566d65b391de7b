/* campaign_verify.c: a fault of op eagle.verify in speculation, which must be found lossy: by the
 * law of what it emits on each small vocabulary, and greedily in a model; see campaign_parts.h. */
#include "core/cover.h"
#include "harness/campaign_parts.h"
#include "harness/lossless.h"

#include <string.h>

enum { TOKENS = 12, DRAFTS = 4, TREE_DRAFTS = 24, TREE_TOP_K = 6 };

static int toys(void)
{
    int n = 0;
    while (law_toy(n)) n++;
    return n;
}

/* Each toy, a chain, a tree. */
int campaign_verify_ways(void)
{
    return toys() + 2;
}

static bool changed(const struct faults *f)
{
    return f->use[0].changed > 0;
}

static json_t *caught(const struct campaign *c, const struct job *j, const char *how,
                      const char *what)
{
    cover_note("eagle.verify", COVER_FAULT);
    return campaign_record(j, c, "caught", "%s: %s", how, what);
}

/* ---- sampling ---- */

/* The power of a test against this fault; -1: its law is not known. */
static double power_of(const struct law_test *t, const struct fault_row *row)
{
    int faults;
    const struct law_fault *fault = law_faults(t->law->tree, &faults);
    for (int f = 0; f < faults; f++) {
        if (fault[f].fault && strcmp(fault[f].fault, row->id) == 0) return t->power[f];
    }
    return -1;
}

static json_t *judge_law(const struct campaign *c, const struct job *j, const struct law_test *t,
                         const struct faults *f)
{
    int faults;
    const struct law_fault *fault = law_faults(t->law->tree, &faults);
    double power = power_of(t, j->row);
    if (!changed(f)) return campaign_record(j, c, "inert", "no bit changes: %s", t->law->name);
    if (t->holds && power >= 0 && power < LAW_POWER)
        return campaign_record(j, c, "sub-threshold", "%s: power %.3g", t->law->name, power);
    if (t->holds) return campaign_record(j, c, "missed", "the law of %s holds", t->law->name);
    const char *id = t->like >= 0 ? fault[t->like].fault : NULL;
    json_t *record = caught(c, j, t->law->name, "its law does not hold");
    bool named = id && strcmp(id, j->row->id) == 0;
    json_object_set_new(record, "claims", json_string(t->like >= 0 ? fault[t->like].name : ""));
    json_object_set_new(record, "named", json_boolean(named));
    json_object_set_new(record, "misnamed", json_boolean(t->like >= 0 && !named));
    return record;
}

static json_t *by_law(struct campaign *c, const struct job *j, struct faults *f, struct err *err)
{
    struct law_test t;
    if (law_plan(&t, law_toy(j->command), err) != ERR_OK ||
        law_play(&t, law_verify_ref, f, j->seed, err) != ERR_OK)
        return NULL;
    return judge_law(c, j, &t, f);
}

/* ---- greedy ---- */

static enum err_code generate(const struct campaign *c, const struct job *j, bool tree,
                              const struct head *head, struct faults *f, struct lossless *out,
                              struct err *err)
{
    struct session session = {0};
    struct speculate s = {0};
    struct session_options o = session_defaults();
    const struct loaded *l = &c->loaded[j->on];
    const struct tokens *t = &c->cases[j->on].tokens;
    const struct tokens prompt = {
        .id = t->id, .count = t->length[0], .sequences = 1, .length = t->length};
    struct speculate_options how = {.drafts = tree ? TREE_DRAFTS : DRAFTS,
                                    .tree = tree,
                                    .depth = 2,
                                    .top_k = TREE_TOP_K,
                                    .seed = j->seed};
    int64_t room = prompt.count + TOKENS + how.drafts + 1;
    o.threads = 1;
    if (session_open(&session, l, &o, 1, &room, err) == ERR_OK) {
        session.run.progress = NULL;
        session.run.faults = f;
        if (speculate_open(&s, &session, head, &how, err) == ERR_OK)
            (void)!speculate_begin(&s, &prompt, err);
        while (err->code == ERR_OK && s.length - s.prompt < TOKENS) (void)!speculate_round(&s, err);
    }
    if (err->code == ERR_OK)
        (void)!lossless_greedy(l, &o, &prompt, s.text + s.prompt, s.length - s.prompt, out, err);
    speculate_close(&s);
    session_close(&session);
    return err->code;
}

static json_t *by_text(struct campaign *c, const struct job *j, struct faults *f, struct err *err)
{
    const char *spec = c->cases[j->on].head;
    bool tree = j->command > toys();
    const char *how = tree ? "greedy tree" : "greedy chain";
    struct lossless l;
    struct head head = {0};
    if (!spec[0]) return campaign_record(j, c, "inert", "%s: the case has no draft head", how);
    if (head_open(&head, spec, &c->loaded[j->on].model, err) == ERR_OK)
        (void)!generate(c, j, tree, &head, f, &l, err);
    head_close(&head);
    if (err->code != ERR_OK) return NULL;
    if (!changed(f)) return campaign_record(j, c, "inert", "no bit changes: %s", how);
    if (!l.holds) return caught(c, j, how, "a token is not the target's");
    return l.ties > 0 ? campaign_record(j, c, "sub-threshold", "%s: near ties alone", how)
                      : campaign_record(j, c, "missed", "%s: found lossless", how);
}

json_t *campaign_verify(struct campaign *c, const struct job *j)
{
    char line[ERR_LINE];
    struct err err = ERR_INIT;
    struct faults f = {.count_changes = true};
    json_t *record = NULL;
    if (faults_add(&f, j->fault[0], &err) == ERR_OK)
        record = j->command < toys() ? by_law(c, j, &f, &err) : by_text(c, j, &f, &err);
    faults_clear(&f);
    if (record) return record;
    return campaign_record(j, c, "error", "%s", err_line(&err, line, sizeof line));
}
