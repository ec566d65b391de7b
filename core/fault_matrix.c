/* fault_matrix.c: an op run with edited copies of its weights; see fault_edits.h. Test:
 * tests/test_fault_moe.c
 *
 * Weights are mapped or made by rule, so they are copied into memory of our own first. The experts
 * of op moe are edited one at a time, as the op asks for them. */
#include "core/check.h"
#include "core/fault_edits.h"
#include "core/int4.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/router.h"

#include <stddef.h>
#include <string.h>

enum { PARTS = 3, OP_BYTES = 256 };

/* Where the matrices of an op's struct are, in the order of enum fault_part; -1: none. */
static const struct {
    const char *op;
    size_t bytes;
    int at[PARTS];
} ops[] = {
#define AT(type, field) (int)offsetof(struct type, field)
    {"linear", sizeof(struct linear), {AT(linear, w), -1, -1}},
    {"int4", sizeof(struct int4), {AT(int4, w), -1, -1}},
    {"logits", sizeof(struct logits), {AT(logits, head), -1, -1}},
    {"router", sizeof(struct router), {AT(router, w), -1, -1}},
    {"mla.q", sizeof(struct mla_q), {AT(mla_q, a), AT(mla_q, b), -1}},
    {"mla.kv", sizeof(struct mla_kv), {AT(mla_kv, a), -1, -1}},
    {"mla.core", sizeof(struct mla_core), {AT(mla_core, kv_b), -1, -1}},
    {"mla.output", sizeof(struct mla_output), {-1, -1, AT(mla_output, o)}},
    {"mlp", sizeof(struct mlp), {AT(mlp, gate), AT(mlp, up), AT(mlp, down)}},
    {"moe.shared", sizeof(struct mlp), {AT(mlp, gate), AT(mlp, up), AT(mlp, down)}},
#undef AT
};

const char *const fault_matrix_words[] = {"gate", "up", "down", "gate_up", "q_a", "q_b", NULL};

/* Which parts of which ops a word means; gate_up: the two that engines join to one (w13). */
static const struct {
    unsigned parts; /* bit p: enum fault_part p */
    const char *ops[3];
} matrices[] = {
    {1u << PART_FIRST, {"moe", "moe.shared", "mlp"}},
    {1u << PART_SECOND, {"moe", "moe.shared", "mlp"}},
    {1u << PART_DOWN, {"moe", "moe.shared", "mlp"}},
    {1u << PART_FIRST | 1u << PART_SECOND, {"moe", "moe.shared", "mlp"}},
    {1u << PART_FIRST, {"mla.q"}},
    {1u << PART_SECOND, {"mla.q"}},
};

bool fault_word_fits(const struct fault_key *key, int word, const char *op)
{
    bool fits = false;
    CHECK(key->words == fault_matrix_words && word >= 0 && fault_matrix_words[word]);
    for (int i = 0; i < 3 && matrices[word].ops[i]; i++)
        fits |= strcmp(matrices[word].ops[i], op) == 0;
    return fits;
}

/* The parts that the fault edits at this op. */
static unsigned parts_of(const struct fault_call *c)
{
    for (int k = 0; k < FAULT_KEYS && c->use->row->keys[k].name; k++) {
        const struct fault_key *key = &c->use->row->keys[k];
        int word = (int)c->use->value[k];
        if (key->fit != FIT_WORD || word < 0) continue;
        return fault_word_fits(key, word, c->place->op) ? matrices[word].parts : 0;
    }
    return ~0u;
}

void *fault_own(struct arena *arena, struct tensor *t, struct err *err)
{
    int64_t n = tensor_count(t), size = dtype_size(t->dtype);
    void *copy = arena_alloc(arena, n, (size_t)size, "a fault's copy of a tensor", err);
    if (!copy) return NULL;
    const void *from = tensor_elements(t, 0, n, copy);
    if (from != copy) memcpy(copy, from, (size_t)(n * size));
    tensor_hold(t, copy);
    return copy;
}

/* ---- experts ---- */

struct edited_experts {
    const struct moe *moe; /* as it came */
    struct fault_stored stored;
    fault_matrix_edit *edit;
    int64_t only;   /* -1: all */
    unsigned parts; /* bit p: enum fault_part p */
    struct arena arena;
};

/* What another fault made goes when it is asked for the next expert, as an edit may do. */
static enum err_code own_matrix(struct arena *arena, struct matrix *m, struct err *err)
{
    struct tensor *const tensor[] = {&m->data, &m->scale, &m->zero, &m->g_idx};
    for (size_t k = 0; k < sizeof tensor / sizeof tensor[0]; k++) {
        if (tensor_exists(tensor[k]) && !fault_own(arena, tensor[k], err)) return err->code;
    }
    return ERR_OK;
}

static enum err_code give_edited(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    /* The op's context is const for the op; it is ours, and lives on the stack below. */
    struct edited_experts *x = (struct edited_experts *)(uintptr_t)ctx;
    struct matrix *const part[PARTS] = {&out->gate, &out->up, &out->down};
    if (x->moe->expert(x->moe->ctx, e, out, err) != ERR_OK) return err->code;
    if (x->only >= 0 && e != x->only) return ERR_OK;
    arena_release(&x->arena, NULL);
    bool nested = x->moe->expert == give_edited;
    for (int i = 0; nested && i < PARTS; i++) {
        if (own_matrix(&x->arena, part[i], err) != ERR_OK) return err->code;
    }
    x->stored.expert = e;
    for (int i = 0; i < PARTS; i++) {
        if (!(x->parts >> i & 1)) continue;
        x->stored.part = (enum fault_part)i;
        if (x->edit(&x->stored, part[i], err) != ERR_OK ||
            (nested && own_matrix(&x->arena, part[i], err) != ERR_OK))
            return err->code;
    }
    return ERR_OK;
}

static int64_t expert_key(const struct fault_use *u)
{
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
        if (strcmp(u->row->keys[k].name, "expert") == 0) return (int64_t)u->value[k];
    }
    return -1;
}

static enum err_code with_experts(struct fault_call *c, const struct moe *moe, struct run *run,
                                  fault_matrix_edit *edit, const void *ctx, struct err *err)
{
    struct edited_experts x = {.moe = moe, .edit = edit, .only = expert_key(c->use)};
    x.parts = parts_of(c);
    struct moe op = *moe;
    x.stored =
        (struct fault_stored){.call = c, .run = run, .arena = &x.arena, .moe = moe, .ctx = ctx};
    op.expert = give_edited;
    op.ctx = &x;
    enum err_code rc = fault_next(c, &op, run, err);
    arena_release(&x.arena, NULL);
    return rc;
}

enum err_code fault_with_matrices(struct fault_call *c, const void *arg, struct run *run,
                                  fault_matrix_edit *edit, const void *ctx, struct err *err)
{
    union {
        char bytes[OP_BYTES];
        double aligned;
    } op;
    struct matrix copy[PARTS];
    size_t i = 0;
    unsigned parts = parts_of(c);
    if (strcmp(c->place->op, "moe") == 0) return with_experts(c, arg, run, edit, ctx, err);
    while (i < sizeof ops / sizeof ops[0] && strcmp(ops[i].op, c->place->op) != 0) i++;
    if (i == sizeof ops / sizeof ops[0] || expert_key(c->use) >= 0)
        return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    struct fault_stored s = {.call = c, .run = run, .arena = run->arena, .expert = -1, .ctx = ctx};
    memcpy(op.bytes, arg, ops[i].bytes);
    for (int p = 0; p < PARTS && err->code == ERR_OK; p++) {
        const struct matrix *m;
        if (ops[i].at[p] < 0 || !(parts >> p & 1)) continue;
        memcpy(&m, op.bytes + ops[i].at[p], sizeof(struct matrix *));
        if (!m) continue;
        copy[p] = *m;
        m = &copy[p];
        memcpy(op.bytes + ops[i].at[p], &m, sizeof(struct matrix *));
        s.part = (enum fault_part)p;
        (void)!edit(&s, &copy[p], err);
    }
    if (err->code == ERR_OK) (void)!fault_next(c, op.bytes, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* ---- rows as values ---- */

/* Row `row` as the values that the op multiplies by, in float64. */
static enum err_code row_values(const struct fault_stored *s, const struct matrix *m, int64_t row,
                                void *raw, double *out, struct err *err)
{
    if (m->format == MATRIX_PACKED) {
        const struct int4 one = {.w = m, .row = row, .n = 1, .y = out};
        return fault_other(s->call, "int4", &one, s->run, err);
    }
    dtype_to_f64(m->data.dtype, tensor_elements(&m->data, row * m->in, m->in, raw), m->in, out);
    for (int64_t i = 0; m->format == MATRIX_FP8_BLOCK && i < m->in; i++) {
        float scale, unused;
        int64_t at = row / m->block[0] * m->scale.shape[1] + i / m->block[1];
        dtype_to_f32(m->scale.dtype, tensor_elements(&m->scale, at, 1, &unused), 1, &scale);
        out[i] = dtype_round(DT_BF16, (double)((float)out[i] * scale));
    }
    return ERR_OK;
}

enum err_code fault_matrix_rows(const struct fault_stored *s, struct matrix *m, const int64_t *map,
                                struct err *err)
{
    enum dtype t = m->format == MATRIX_PACKED  ? m->scale.dtype
                   : m->format == MATRIX_DENSE ? m->data.dtype
                                               : DT_BF16;
    int64_t bytes = m->in * dtype_size(t);
    char *dense = arena_alloc(s->arena, m->out, (size_t)bytes, "a fault's copy of a matrix", err);
    double *row = arena_alloc(s->arena, m->in, sizeof *row, "a fault's row", err);
    double *raw = arena_alloc(s->arena, m->in, sizeof *raw, "a fault's row", err);
    if (!dense || !row || !raw) return err->code;
    for (int64_t i = 0; i < m->out; i++) {
        memset(row, 0, (size_t)m->in * sizeof *row);
        if (map[i] >= 0 && row_values(s, m, map[i], raw, row, err) != ERR_OK) return err->code;
        dtype_from_f64(t, row, m->in, dense + i * bytes);
    }
    struct matrix out = {.format = MATRIX_DENSE, .out = m->out, .in = m->in, .data = m->data};
    out.data.dtype = t;
    out.data.dims = 2;
    out.data.shape[0] = m->out;
    out.data.shape[1] = m->in;
    tensor_hold(&out.data, dense);
    *m = out;
    return ERR_OK;
}

enum err_code fault_linear(struct fault_call *c, int64_t T, const double *x, const struct matrix *w,
                           double *y, struct run *run, struct err *err)
{
    const struct linear op = {.T = T, .x = x, .w = w, .y = y, .point = RP_LINEAR};
    return fault_other(c, "linear", &op, run, err);
}
