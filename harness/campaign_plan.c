/* campaign_plan.c: the jobs of a campaign, drawn from its seed; see campaign_parts.h. */
#include "core/check.h"
#include "core/synth.h"
#include "core/text.h"
#include "harness/campaign_plan.h"
#include "harness/case.h"
#include "harness/fault_env.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANYWHERE = -1, OUTSIDE = -1, PROOF_EVERY = 6, PAIR_EVERY = 4 };

/* Draws for each kind of job. */
static const struct {
    int64_t alone, file, call, process, clean;
} draws[2] = {{20, 40, 24, 2 * CAMPAIGN_RANKS, 200}, {1, 3, 1, 1, 24}};

/* The profiles that subjects round in. */
static const char *const profiles[] = {"hf4", "vllm", "hf"};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

bool campaign_includes(const struct campaign_options *o, const char *id)
{
    if (!o->include || !o->include[0]) return true;
    for (int i = 0; o->include[i]; i++) {
        if (text_glob(o->include[i], id)) return true;
    }
    return false;
}

bool campaign_op_at(const struct config *c, const char *op, int64_t layer)
{
    static const char *const outside[] = {"embed", "norm", "logits"},
                             *const always[] = {"norm", "mla.q",    "mla.kv",
                                                "rope", "mla.core", "mla.output"},
                             *const moe[] = {"router", "moe"};
    if (layer == OUTSIDE) {
        for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
            if (strcmp(outside[i], op) == 0) return true;
        }
        return false;
    }
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        if (strcmp(always[i], op) == 0) return true;
    }
    if (!config_is_moe(c, layer)) return strcmp(op, "mlp") == 0;
    for (size_t i = 0; i < sizeof moe / sizeof moe[0]; i++) {
        if (strcmp(moe[i], op) == 0) return true;
    }
    return c->shared_experts > 0 && strcmp(op, "moe.shared") == 0;
}

/* ---- drawing ---- */

static uint64_t next(struct planner *p)
{
    return synth_x(synth_base(p->seed, "campaign.plan"), p->draws++);
}

int64_t plan_below(struct planner *p, int64_t n)
{
    return n < 1 ? 0 : (int64_t)(next(p) % (uint64_t)n);
}

struct job *plan_add(struct planner *p, struct job j)
{
    struct campaign *c = p->c;
    if (c->count == c->room) {
        int64_t room = c->room ? 2 * c->room : 1024;
        struct job *more = realloc(c->jobs, (size_t)room * sizeof *more);
        if (!more) {
            err_set(p->err, ERR_MEMORY, "plan faults||no memory");
            return NULL;
        }
        c->jobs = more;
        c->room = room;
    }
    j.seed = next(p);
    c->jobs[c->count] = j;
    return &c->jobs[c->count++];
}

static int tries_of(const struct fault_key *key)
{
    int n = 0;
    while (key->tries && !isnan(key->tries[n])) n++;
    return n;
}

/* A value that is none of those that a diagnosis tries. */
static double off_grid(struct planner *p, const struct fault_key *key)
{
    double v = key->tries[plan_below(p, tries_of(key))];
    v = key->whole ? v + 1 + (double)plan_below(p, 2) : v * 1.37;
    for (int i = 0; i < tries_of(key); i++) {
        if (key->tries[i] == v) v = key->whole ? v + 1 : v * 1.11;
    }
    return v;
}

/* Half of the time none; else one of those that some op of the layer knows. */
static double draw_word(struct planner *p, const struct job *j, const struct fault_key *key)
{
    int fits[32], n = 0;
    for (int i = 0; key->words[i] && n < 32; i++) {
        bool any = false;
        for (int h = 0; h < FAULT_HOSTS && j->row->hosts[h]; h++)
            any |= fault_word_fits(key, i, j->row->hosts[h]);
        if (any) fits[n++] = i;
    }
    return n > 0 && plan_below(p, 2) ? fits[plan_below(p, n)] : key->dflt;
}

static double draw_value(struct planner *p, const struct job *j, const struct fault_use *u,
                         const struct fault_key *key, bool off)
{
    const struct config *c = p->c->loaded[j->on].model.config;
    const struct tokens *t = &p->c->cases[j->on].tokens;
    if (key->fit == FIT_TRY) {
        if (off) return off_grid(p, key);
        return plan_below(p, 2) || key->dflt < 0 ? key->tries[plan_below(p, tries_of(key))]
                                                 : key->dflt;
    }
    if (key->fit == FIT_WORD) return draw_word(p, j, key);
    if (key->fit == FIT_LINEAR)
        return plan_below(p, 2) ? key->dflt : 0.3 + 0.01 * (double)plan_below(p, 400);
    if (strcmp(key->name, "expert") == 0)
        return plan_below(p, 2) ? ANYWHERE : (double)plan_below(p, c->experts);
    if (strcmp(key->name, "row") == 0) return (double)plan_below(p, t->count);
    if (strcmp(key->name, "slot") == 0) return (double)plan_below(p, t->length[0] - 1);
    if (strcmp(key->name, "col") == 0) return (double)plan_below(p, c->rope);
    if (strcmp(key->name, "rank") == 0) {
        double ranks = 2;
        for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
            if (strcmp(u->row->keys[k].name, "ranks") == 0) ranks = u->value[k];
        }
        return (double)plan_below(p, (int64_t)ranks);
    }
    return key->dflt;
}

/* The fault at this site, its other keys drawn. Norms come twice a layer, a draft head's ops once a
 * step and sequence. */
static void draw_fault(struct planner *p, const struct job *j, struct site at, bool off,
                       char text[FAULT_TEXT])
{
    const char *op = at.op;
    int64_t layer = at.layer;
    struct fault_use u = {.row = j->row};
    int rank = -1;
    for (int k = 0; k < FAULT_KEYS && u.row->keys[k].name; k++) {
        const struct fault_key *key = &u.row->keys[k];
        u.value[k] = key->dflt;
        if (strcmp(key->name, "layer") == 0) {
            u.value[k] = (double)layer;
        } else if (strcmp(key->name, "draft_step") == 0) {
            u.value[k] = (double)at.step;
        } else if (strcmp(key->name, "call") == 0 && at.step >= 0) {
            u.value[k] = ANYWHERE;
        } else if (key->fit == FIT_OP) {
            u.value[k] = op ? (double)(op_find(op) - op_rows) : ANYWHERE;
        } else if (strcmp(key->name, "call") == 0) {
            u.value[k] = op && strcmp(op, "norm") == 0 && layer >= 0 ? (double)plan_below(p, 2) : 0;
        } else if (strcmp(key->name, "rank") == 0) {
            rank = k;
        } else {
            u.value[k] = draw_value(p, j, &u, key, off);
        }
    }
    if (rank >= 0) u.value[rank] = draw_value(p, j, &u, &u.row->keys[rank], off);
    fault_print(&u, text);
}

/* ---- sites ---- */

static bool has_fit(const struct fault_row *row, enum fault_fit fit)
{
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++) {
        if (row->keys[k].fit == fit) return true;
    }
    return false;
}

static bool names_op(const struct fault_row *row)
{
    return has_fit(row, FIT_OP);
}

/* Its layer is a key, so that it has a site in each. */
static bool has_layer(const struct fault_row *row)
{
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++) {
        if (strcmp(row->keys[k].name, "layer") == 0) return true;
    }
    return false;
}

/* Sites in a draft head: each step of its ops. */
static int64_t list_draft_sites(const struct fault_row *row, struct site *sites)
{
    static const char *const ops[] = {"eagle.fc", "eagle.layer"};
    int64_t n = 0;
    for (int i = 0; i < 2; i++) {
        for (int64_t s = 0; s < (i == 0 ? 1 : SUBJECT_STEPS); s++) {
            if (fault_hosted_by(row, ops[i])) sites[n++] = (struct site){ops[i], OUTSIDE, s};
        }
    }
    return n;
}

int64_t plan_sites(const struct planner *p, int on, const struct fault_row *row, struct site *sites)
{
    const struct config *c = p->c->loaded[on].model.config;
    int64_t n = p->c->cases[on].head[0] ? list_draft_sites(row, sites) : 0;
    bool outside = names_op(row) || !has_layer(row);
    for (int64_t layer = outside ? OUTSIDE : 0; layer < c->layers; layer++) {
        bool hosted = false;
        for (int i = 0; i < op_count; i++) {
            const char *op = op_rows[i].name;
            if (!campaign_op_at(c, op, layer) || !fault_hosted_by(row, op)) continue;
            if (names_op(row)) sites[n++] = (struct site){op, layer, ANYWHERE};
            hosted = true;
        }
        if (!names_op(row) && hosted) sites[n++] = (struct site){NULL, layer, ANYWHERE};
    }
    return n;
}

/* An engine that rounds in its own way has one profile. */
static const char *draw_profile(struct planner *p, const char *const *list, int64_t n)
{
    const struct engine_kind *engine = p->c->options->engine;
    int64_t i = plan_below(p, n);
    return engine ? engine->profile : list[i];
}

const char *plan_profile(struct planner *p)
{
    return draw_profile(p, profiles, PROFILES);
}

static void add_op(struct planner *p, int on, const struct fault_row *row, struct site s)
{
    struct job j = {.kind = JOB_OP, .on = on, .row = row, .op = s.op, .draft = s.step >= 0};
    if (j.draft && p->c->options->engine) return;
    j.profile = plan_profile(p);
    j.order = plan_below(p, 2) ? ORDER_F64 : ORDER_BLAS;
    draw_fault(p, &j, s, false, j.fault[0]);
    if (!plan_add(p, j)) return;
    if (plan_below(p, PROOF_EVERY) == 0) {
        j.kind = JOB_WITHOUT;
        (void)plan_add(p, j);
    }
    if (has_fit(row, FIT_TRY) && plan_below(p, PAIR_EVERY) == 0) {
        j.kind = JOB_OFF_GRID;
        draw_fault(p, &j, s, true, j.fault[0]);
        (void)plan_add(p, j);
    }
}

/* A second fault, of any kind, in any layer, beside the first. */
static void add_pair(struct planner *p, int on, const struct fault_row *first, struct site *sites)
{
    const struct config *c = p->c->loaded[on].model.config;
    int total = 0;
    while (fault_at(total)) total++;
    struct job j = {.kind = JOB_PAIR, .on = on, .row = first};
    j.profile = plan_profile(p);
    int64_t n = plan_sites(p, on, first, sites);
    if (n == 0) return;
    struct site s = sites[plan_below(p, n)];
    j.draft = s.step >= 0;
    if (j.draft && p->c->options->engine) return;
    draw_fault(p, &j, s, false, j.fault[0]);
    for (int tries = 0; tries < 20 && !j.fault[1][0]; tries++) {
        struct job other = j;
        other.row = fault_at((int)plan_below(p, total));
        if (other.row->stage != FAULT_OP || other.row == first) continue;
        n = plan_sites(p, on, other.row, sites);
        if (n == 0) continue;
        struct site at = sites[plan_below(p, n)];
        if (at.step >= 0 && p->c->options->engine) continue;
        bool near = plan_below(p, 2) && at.step < 0 && s.step < 0; /* at one op or near it */
        if (near) at.layer = s.layer;
        if (at.op && at.step < 0 && !campaign_op_at(c, at.op, at.layer)) continue;
        j.draft |= at.step >= 0;
        draw_fault(p, &other, at, false, j.fault[1]);
    }
    if (j.fault[1][0]) (void)plan_add(p, j);
}

static enum err_code plan_ops(struct planner *p, int on)
{
    const struct config *c = p->c->loaded[on].model.config;
    struct site *sites =
        calloc((size_t)((c->layers + 1) * op_count + 2 * SUBJECT_STEPS), sizeof *sites);
    if (!sites) return err_set(p->err, ERR_MEMORY, "plan faults||no memory");
    for (int i = 0; fault_at(i) && p->err->code == ERR_OK; i++) {
        const struct fault_row *row = fault_at(i);
        if (row->stage != FAULT_OP || !campaign_includes(p->c->options, row->id)) continue;
        int64_t n = plan_sites(p, on, row, sites), from = 0, to = n;
        if (p->c->options->quick && n > 0) {
            from = plan_below(p, n);
            to = from + 1;
        }
        for (int64_t s = from; s < to; s++) add_op(p, on, row, sites[s]);
        if (plan_below(p, PAIR_EVERY) == 0) add_pair(p, on, row, sites);
    }
    free(sites);
    return p->err->code;
}

/* Every op that hosts the fault, alone. */
static enum err_code plan_alone(struct planner *p)
{
    for (int i = 0; fault_at(i) && p->err->code == ERR_OK; i++) {
        const struct fault_row *row = fault_at(i);
        if (row->stage != FAULT_OP || !campaign_includes(p->c->options, row->id)) continue;
        for (int k = 0; case_op_at(k); k++) {
            struct job j = {.kind = JOB_ALONE, .row = row, .op = case_op_at(k)->name};
            if (!fault_hosted_by(row, j.op)) continue;
            snprintf(j.fault[0], sizeof j.fault[0], "%s", row->id);
            for (int64_t n = 0; n < draws[p->c->options->quick].alone; n++) {
                if (!plan_add(p, j)) return p->err->code;
            }
        }
    }
    return p->err->code;
}

/* Faults of the verification, each way to ask whether it is lossless. */
static enum err_code plan_verify(struct planner *p)
{
    for (int i = 0; fault_at(i) && p->err->code == ERR_OK; i++) {
        const struct fault_row *row = fault_at(i);
        if (strcmp(row->hosts[0] ? row->hosts[0] : "", "eagle.verify") != 0 ||
            !campaign_includes(p->c->options, row->id))
            continue;
        for (int k = 0; k < campaign_verify_ways(); k++) {
            struct job j = {.kind = JOB_VERIFY, .row = row, .op = "eagle.verify", .command = k};
            j.on = (int)plan_below(p, p->c->cases_count);
            snprintf(j.fault[0], sizeof j.fault[0], "%s", row->id);
            if (!plan_add(p, j)) break;
        }
    }
    return p->err->code;
}

static const enum job_kind outside_kinds[] = {
    [FAULT_FILE] = JOB_FILE, [FAULT_CALL] = JOB_CALL, [FAULT_PROCESS] = JOB_PROCESS};

static enum err_code plan_outside(struct planner *p)
{
    const struct campaign_options *o = p->c->options;
    for (int i = 0; fault_at(i) && p->err->code == ERR_OK; i++) {
        const struct fault_row *row = fault_at(i);
        if (row->stage == FAULT_OP || !campaign_includes(o, row->id)) continue;
        int commands = row->stage == FAULT_CALL ? campaign_commands() : 1;
        int64_t n = row->stage == FAULT_FILE   ? draws[o->quick].file
                    : row->stage == FAULT_CALL ? draws[o->quick].call
                                               : draws[o->quick].process;
        for (int64_t k = 0; k < n * commands; k++) {
            struct job j = {.kind = outside_kinds[row->stage], .row = row};
            j.command = (int)(k % commands);
            if (row->stage == FAULT_PROCESS) j.command = o->quick ? -1 : (int)k;
            snprintf(j.fault[0], sizeof j.fault[0], "%s", row->id);
            if (!plan_add(p, j)) break;
        }
    }
    return p->err->code;
}

static enum err_code plan_clean(struct planner *p)
{
    static const char *const all[] = {"hf4", "vllm", "hf", "sgl"};
    const struct campaign_options *o = p->c->options;
    int64_t n = o->clean >= 0 ? o->clean : draws[o->quick].clean;
    for (int64_t k = 0; k < n; k++) {
        struct job j = {.kind = JOB_CLEAN, .on = (int)plan_below(p, p->c->cases_count)};
        j.profile = draw_profile(p, all, sizeof all / sizeof all[0]);
        j.order = (enum subject_order)plan_below(p, ORDERS);
        j.draft = p->c->cases[j.on].head[0] && plan_below(p, 2) && !o->engine;
        if (!plan_add(p, j)) break;
    }
    return p->err->code;
}

enum err_code campaign_plan(struct campaign *c, struct err *err)
{
    struct planner p = {.c = c, .seed = c->options->seed, .err = err};
    /* A model that was given is one case for all seeds. */
    int64_t rounds = c->options->model ? c->options->seeds : 1;
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < c->cases_count; i++) {
            if (plan_ops(&p, i) != ERR_OK) return err->code;
        }
    }
    if (plan_alone(&p) != ERR_OK) return err->code;
    /* Verification, files and calls are the same whatever engine runs. */
    if (!c->options->engine && (plan_verify(&p) != ERR_OK || plan_outside(&p) != ERR_OK))
        return err->code;
    if (plan_clean(&p) != ERR_OK) return err->code;
    /* Ranks on devices only where they are asked for: there may be one device alone. */
    return c->options->engine && !c->options->ranks ? ERR_OK : plan_ranks(c, err);
}
