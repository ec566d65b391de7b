/* fault_rope.c: rotary embeddings gone wrong: pairs, frequencies, positions. Test:
 * tests/test_fault_simple.c */
#include "core/fault_edits.h"
#include "core/mla.h"
#include "core/rope.h"

#include <math.h>
#include <string.h>

static bool is_rope(const struct fault_call *c)
{
    return strcmp(c->place->op, "rope") == 0;
}

static enum err_code half_split(struct fault_call *c, const void *arg, struct run *run,
                                struct err *err)
{
    if (is_rope(c)) {
        struct rope op = *(const struct rope *)arg;
        op.interleaved = !op.interleaved;
        return fault_next(c, &op, run, err);
    }
    struct mla_kv op = *(const struct mla_kv *)arg;
    op.interleaved = !op.interleaved;
    return fault_next(c, &op, run, err);
}

/* ---- frequencies ---- */

/* What the table is made from, to be edited. */
typedef void edit_table(const struct fault_call *c, struct config *from);

/* Goes on with another table. */
static enum err_code use_table(struct fault_call *c, const void *arg, struct run *run,
                               const struct rope_table *table, struct err *err)
{
    if (is_rope(c)) {
        struct rope op = *(const struct rope *)arg;
        op.table = table;
        return fault_next(c, &op, run, err);
    }
    struct mla_kv op = *(const struct mla_kv *)arg;
    op.table = table;
    return fault_next(c, &op, run, err);
}

static const struct rope_table *table_of(const struct fault_call *c, const void *arg)
{
    return is_rope(c) ? ((const struct rope *)arg)->table : ((const struct mla_kv *)arg)->table;
}

static enum err_code with_table(struct fault_call *c, const void *arg, struct run *run,
                                edit_table *edit, struct err *err)
{
    const struct rope_table *given = table_of(c, arg);
    struct rope_table table;
    struct config from = {.rope = given->R, .rope_theta = given->theta, .scaling = given->scaling};
    edit(c, &from);
    if (rope_table_make(&from, &table, err) != ERR_OK) return err->code;
    return use_table(c, arg, run, &table, err);
}

/* Plain frequencies, every one divided by the factor. */
static enum err_code no_ramp(struct fault_call *c, const void *arg, struct run *run,
                             struct err *err)
{
    const struct rope_table *given = table_of(c, arg);
    struct rope_table table;
    struct config from = {.rope = given->R, .rope_theta = given->theta};
    if (rope_table_make(&from, &table, err) != ERR_OK) return err->code;
    for (int64_t i = 0; given->scaling.yarn && i < given->R / 2; i++)
        table.frequency[i] /= (float)given->scaling.factor;
    table.factor = given->factor;
    return use_table(c, arg, run, &table, err);
}

static void leave_out_yarn(const struct fault_call *c, struct config *from)
{
    (void)c;
    from->scaling.yarn = false;
}

static void set_beta_fast(const struct fault_call *c, struct config *from)
{
    from->scaling.beta_fast = fault_value(c->use, "value");
}

static void set_original(const struct fault_call *c, struct config *from)
{
    from->scaling.original_max_position = (int64_t)fault_value(c->use, "value");
}

static void set_theta(const struct fault_call *c, struct config *from)
{
    from->rope_theta = fault_value(c->use, "value");
}

/* A = 0.1 ln(factor) + 1: as if there were no mscale fields. */
static void forget_mscale(const struct fault_call *c, struct config *from)
{
    (void)c;
    from->scaling.mscale = from->scaling.mscale_all_dim = from->scaling.attention_factor = 0;
}

#define WITH_TABLE(name, edit)                                                                     \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_table(c, arg, run, edit, err);                                                 \
    }

WITH_TABLE(no_yarn, leave_out_yarn)
WITH_TABLE(beta_fast, set_beta_fast)
WITH_TABLE(original_max, set_original)
WITH_TABLE(theta_default, set_theta)
WITH_TABLE(mscale_ignored, forget_mscale)

/* ---- positions and columns ---- */

static enum err_code with_positions(struct fault_call *c, const struct mla_kv *kv, int64_t times,
                                    int64_t plus, struct run *run, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct mla_kv op = *kv;
    int64_t *position = arena_alloc(run->arena, op.T, sizeof *position, "a fault's positions", err);
    for (int64_t t = 0; position && t < op.T; t++) position[t] = times * op.position[t] + plus;
    op.position = position;
    if (position) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code position_off_by_one(struct fault_call *c, const void *arg, struct run *run,
                                         struct err *err)
{
    return with_positions(c, arg, 1, 1, run, err);
}

static enum err_code k_unrotated(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    return with_positions(c, arg, 0, 0, run, err);
}

static enum err_code k_rotated_twice(struct fault_call *c, const void *arg, struct run *run,
                                     struct err *err)
{
    const struct mla_kv *op = arg;
    const struct rope again = {.T = op->T,
                               .heads = 1,
                               .stride = op->R,
                               .position = op->position,
                               .table = op->table,
                               .interleaved = op->interleaved,
                               .x = op->k_rope};
    return fault_next(c, op, run, err) == ERR_OK ? fault_other(c, "rope", &again, run, err)
                                                 : err->code;
}

static enum err_code wrong_columns(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    struct rope op = *(const struct rope *)arg;
    op.offset = 0;
    return fault_next(c, &op, run, err);
}

static const double tries_beta[] = {1, 32, NAN};
static const double tries_original[] = {4096, 32768, 131072, 163840, 262144, NAN};
static const double tries_theta[] = {10000, 50000, 1000000, NAN};

#define BOTH .hosts = {"rope", "mla.kv"}
#define KEY_VALUE(d, t, text)                                                                      \
    {                                                                                              \
        .name = "value", .dflt = d, .fit = FIT_TRY, .tries = t, .about = text                      \
    }

const struct fault_row fault_rows_rope[] = {
    {.id = "rope.half_split",
     BOTH,
     .keys = {KEY_LAYER},
     .wrap = half_split,
     .edit = "pairs are taken from the two halves where the model wants neighbours, and back",
     .source = "B028",
     .detector = "diff"},
    {.id = "rope.no_yarn",
     BOTH,
     .keys = {KEY_LAYER},
     .wrap = no_yarn,
     .edit = "plain frequencies",
     .source = "model math 11.23",
     .detector = "diff"},
    {.id = "rope.no_ramp",
     BOTH,
     .keys = {KEY_LAYER},
     .wrap = no_ramp,
     .edit = "every frequency is divided by the factor",
     .source = "our own",
     .detector = "diff"},
    {.id = "rope.beta_fast",
     BOTH,
     .wrap = beta_fast,
     .keys = {KEY_LAYER, KEY_VALUE(1, tries_beta, "beta_fast")},
     .edit = "the ramp begins at another beta_fast",
     .source = "model math 11.22",
     .detector = "diff"},
    {.id = "rope.original_max",
     BOTH,
     .wrap = original_max,
     .keys = {KEY_LAYER, KEY_VALUE(262144, tries_original, "original_max_position_embeddings")},
     .edit = "the ramp is built from the longest context, not from the original one",
     .source = "model math 11.24",
     .detector = "diff"},
    {.id = "rope.theta_default",
     BOTH,
     .wrap = theta_default,
     .keys = {KEY_LAYER, KEY_VALUE(10000, tries_theta, "rope_theta")},
     .edit = "a default stands in for rope_theta",
     .source = "B145",
     .detector = "diff"},
    {.id = "rope.mscale_ignored",
     BOTH,
     .keys = {KEY_LAYER},
     .wrap = mscale_ignored,
     .edit = "cos and sin times 0.1 ln(factor) + 1, whatever the mscale fields say",
     .source = "B026, model math 11.26",
     .detector = "diff"},
    {.id = "rope.position_off_by_one_for_k",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = position_off_by_one,
     .edit = "keys are rotated as one token later",
     .source = "our own",
     .detector = "diff"},
    {.id = "rope.k_unrotated",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = k_unrotated,
     .edit = "keys are cached before they are rotated",
     .source = "model math 11.31",
     .detector = "diff"},
    {.id = "rope.k_rotated_twice",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = k_rotated_twice,
     .edit = "keys are rotated again when they are read",
     .source = "model math 11.31",
     .detector = "diff"},
    {.id = "rope.wrong_columns",
     .hosts = {"rope"},
     .keys = {KEY_LAYER},
     .wrap = wrong_columns,
     .edit = "the first columns of a head are rotated, as if the rope part stood first",
     .source = "model math 11.32",
     .detector = "diff"},
    {0},
};
