/* diagnose_part.c: see diagnose_part.h. The edits are faults that no registry lists, so that they
 * are fitted as those are. */
#include "harness/diagnose_part.h"

#include "core/moe.h"

#include <math.h>
#include <stdio.h>

static enum err_code weigh_output(struct fault_call *c, const void *arg, struct run *run,
                                  struct err *err)
{
    struct fault_output out[2];
    double factor = fault_value(c->use, "factor");
    if (fault_next(c, arg, run, err) != ERR_OK) return err->code;
    int n = fault_outputs(c->place->op, arg, out);
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < out[i].rows * out[i].cols; k++) out[i].data[k] *= factor;
    }
    return ERR_OK;
}

static enum err_code weigh_expert(struct fault_call *c, const void *arg, struct run *run,
                                  struct err *err)
{
    struct moe op = *(const struct moe *)arg;
    int64_t n = op.T * op.top_k, expert = (int64_t)fault_value(c->use, "expert");
    double factor = fault_value(c->use, "factor");
    struct arena_block *mark = arena_mark(run->arena);
    double *w = arena_alloc(run->arena, n, sizeof *w, "weights of a part", err);
    for (int64_t i = 0; w && i < n; i++)
        w[i] = op.ids[i] == expert ? factor * op.weights[i] : op.weights[i];
    op.weights = w;
    if (w) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

#define SITE(key)                                                                                  \
    {                                                                                              \
        .name = key, .whole = true, .dflt = -1, .fit = FIT_SITE                                    \
    }
#define FACTOR                                                                                     \
    {                                                                                              \
        .name = "factor", .fit = FIT_LINEAR                                                        \
    }

enum { OUTPUT, EXPERT, PARTS };

static const struct fault_row parts[PARTS] = {
    [OUTPUT] = {.id = "output",
                .hosts = {"any"},
                .keys = {{.name = "op", .whole = true, .dflt = -1, .fit = FIT_OP},
                         SITE("layer"),
                         SITE("draft_step"),
                         FACTOR},
                .wrap = weigh_output},
    [EXPERT] = {.id = "expert",
                .hosts = {"moe"},
                .keys = {SITE("layer"), SITE("expert"), FACTOR},
                .wrap = weigh_expert},
};

enum err_code part_fit(struct fitter *f, struct hypothesis *out, struct err *err)
{
    *out = (struct hypothesis){.layer = -1, .left = INFINITY};
    for (int i = 0; i < PARTS; i++) {
        struct hypothesis one;
        if (fit_fault(f, &parts[i], NULL, &one, err) != ERR_OK) return err->code;
        if (one.left < out->left) *out = one;
    }
    return ERR_OK;
}

struct shape_weighed part_weighed(const struct hypothesis *part)
{
    struct shape_weighed w = {.factor = 1};
    const struct fault_use *u = &part->use;
    char expert[32] = "", where[32] = "";
    if (!u->row) return w;
    bool step = u->row == &parts[OUTPUT] && fault_value(u, "draft_step") >= 0;
    if (u->row == &parts[EXPERT])
        snprintf(expert, sizeof expert, "expert %.0f of ", fault_value(u, "expert"));
    if (part->layer >= 0)
        snprintf(where, sizeof where, ", %s %lld", step ? "step" : "layer", (long long)part->layer);
    snprintf(w.name, sizeof w.name, "%s%s%s", expert, part->op, where);
    w.factor = fault_value(u, "factor");
    w.explains = part->explains;
    return w;
}
