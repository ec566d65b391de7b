/* shard_report.c: the printed plan, and the count of who holds each weight element; see shard.h.
 * Every rank's part is opened as a run would, and the places that its tensors lead to are counted
 * against the whole. Test: tests/test_shard_report.c */
#include "core/shard.h"

#include "core/check.h"
#include "core/shard_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 20, PROBLEM = 240 };

struct count {
    const struct model *whole;
    struct shard_model *rank; /* [world] */
    int world;
    struct matrix *part; /* [world]: of the matrix at hand */
    int *holder;         /* [world]: who holds part[i] */
    int holders;
    int64_t *bytes, *repeated; /* [world]: held; of them, those that another rank holds too */
    int64_t total;             /* of the whole model */
    json_t *matrices, *problems;
    int64_t wrong;
    char first[PROBLEM];
    bool broken; /* no memory for JSON */
};

/* Rows [r0, r1) and columns [c0, c1) of a tensor; a vector is one row. */
struct box {
    int64_t r0, r1, c0, c1;
};

static void give(struct count *c, json_t *object, const char *key, json_t *value)
{
    if (!object || json_object_set_new(object, key, value) != 0) c->broken = true;
}

static void append(struct count *c, json_t *array, json_t *value)
{
    if (!array || json_array_append_new(array, value) != 0) c->broken = true;
}

__attribute__((format(printf, 2, 3))) static void problem(struct count *c, const char *format, ...)
{
    char text[PROBLEM];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (c->wrong++ == 0) memcpy(c->first, text, sizeof text);
    if (c->wrong <= PROBLEMS) append(c, c->problems, json_string(text));
}

/* ---- one tensor ---- */

static struct box whole_box(const struct tensor *t)
{
    int64_t columns = t->shape[t->dims - 1];
    return (struct box){0, tensor_count(t) / columns, 0, columns};
}

/* Where in the whole tensor a part lies; false: elsewhere than in it. */
static bool place_box(const struct tensor *whole, const struct tensor *part, struct box *out)
{
    struct box all = whole_box(whole), own = whole_box(part);
    int64_t first = tensor_place(part, 0) - tensor_place(whole, 0), columns = all.c1;
    int64_t last = tensor_place(part, tensor_count(part) - 1) - tensor_place(whole, 0);
    *out = (struct box){first / columns, last / columns + 1, first % columns, last % columns + 1};
    return part->data == whole->data && part->rule.base == whole->rule.base && first >= 0 &&
           out->r1 <= all.r1 && out->r1 - out->r0 == own.r1 && out->c1 - out->c0 == own.c1;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts and leaves each number once. */
static int unique(int64_t *x, int n)
{
    int out = 0;
    qsort(x, (size_t)n, sizeof *x, by_number);
    for (int i = 0; i < n; i++) {
        if (out == 0 || x[out - 1] != x[i]) x[out++] = x[i];
    }
    return out;
}

static bool inside(const struct box *cell, const struct box *b)
{
    return cell->r0 >= b->r0 && cell->r1 <= b->r1 && cell->c0 >= b->c0 && cell->c1 <= b->c1;
}

/* Elements that lie in the same boxes are counted at once. */
static void count_cell(struct count *c, const char *name, const struct box *cell,
                       const struct box *box, int64_t size, int wanted, bool exactly)
{
    int64_t bytes = (cell->r1 - cell->r0) * (cell->c1 - cell->c0) * size;
    int held = 0;
    for (int i = 0; i < c->holders; i++) held += inside(cell, &box[i]);
    for (int i = 0; i < c->holders; i++) {
        if (!inside(cell, &box[i])) continue;
        c->bytes[c->holder[i]] += bytes;
        if (held > 1) c->repeated[c->holder[i]] += bytes;
    }
    if (held < wanted || (exactly && held > wanted))
        problem(c, "%s: rows %lld to %lld, columns %lld to %lld: held by %d ranks, not by %d", name,
                (long long)cell->r0, (long long)cell->r1 - 1, (long long)cell->c0,
                (long long)cell->c1 - 1, held, wanted);
}

/* Counts who holds the elements of `whole` in box[holders]. `exactly`: no more ranks than wanted.
 */
static void count_boxes(struct count *c, const struct tensor *whole, const struct box *box,
                        int wanted, bool exactly)
{
    int64_t row[2 * COLLECTIVE_RANKS + 2], column[2 * COLLECTIVE_RANKS + 2];
    const struct box all = whole_box(whole);
    int64_t size = dtype_size(whole->dtype);
    int n = 2;
    row[0] = column[0] = 0;
    row[1] = all.r1;
    column[1] = all.c1;
    for (int i = 0; i < c->holders; i++, n += 2) {
        row[n] = box[i].r0;
        row[n + 1] = box[i].r1;
        column[n] = box[i].c0;
        column[n + 1] = box[i].c1;
    }
    int rows = unique(row, n), columns = unique(column, n);
    for (int r = 0; r + 1 < rows; r++) {
        for (int k = 0; k + 1 < columns; k++) {
            const struct box cell = {row[r], row[r + 1], column[k], column[k + 1]};
            count_cell(c, whole->name, &cell, box, size, wanted, exactly);
        }
    }
    c->total += all.r1 * all.c1 * size;
}

/* ---- one matrix ---- */

/* Elements of a data tensor that share one element of a companion: rows and columns. */
struct share {
    int64_t rows, columns;
};

static struct box touched(const struct box *b, struct share by)
{
    return (struct box){b->r0 / by.rows, (b->r1 - 1) / by.rows + 1, b->c0 / by.columns,
                        (b->c1 - 1) / by.columns + 1};
}

/* A scale or zero point is held by the ranks that hold what it belongs to, and by no others. */
static void count_companion(struct count *c, const struct tensor *whole, size_t at,
                            const struct box *data, struct share by)
{
    struct box box[COLLECTIVE_RANKS];
    if (!tensor_exists(whole)) return;
    for (int i = 0; i < c->holders; i++) {
        const struct tensor *part =
            (const struct tensor *)(const void *)((const char *)&c->part[i] + at);
        const struct box wanted = touched(&data[i], by);
        if (!place_box(whole, part, &box[i]) || memcmp(&box[i], &wanted, sizeof wanted) != 0)
            problem(c, "%s: rank %d holds rows %lld to %lld, not the %lld to %lld of its weights",
                    whole->name, c->holder[i], (long long)box[i].r0, (long long)box[i].r1 - 1,
                    (long long)wanted.r0, (long long)wanted.r1 - 1);
    }
    count_boxes(c, whole, box, 1, false);
}

/* c->part[holders] against the whole; each element is to be held by `wanted` ranks. */
static void count_matrix(struct count *c, const struct matrix *whole, int wanted)
{
    struct box box[COLLECTIVE_RANKS], weights[COLLECTIVE_RANKS];
    int64_t per_word = whole->format == MATRIX_PACKED ? 32 / whole->bits : 1;
    for (int i = 0; i < c->holders; i++) {
        if (!place_box(&whole->data, &c->part[i].data, &box[i]))
            problem(c, "%s: rank %d holds no part of it", whole->data.name, c->holder[i]);
        weights[i] = box[i];
        weights[i].c0 *= per_word;
        weights[i].c1 = weights[i].c0 + c->part[i].in;
    }
    count_boxes(c, &whole->data, box, wanted, true);
    if (whole->format == MATRIX_DENSE) return;
    const struct share block = {whole->block[0], whole->block[1]},
                       group = {1, whole->group ? whole->group : whole->in},
                       zeros = {per_word, group.columns};
    bool fp8 = whole->format == MATRIX_FP8_BLOCK;
    count_companion(c, &whole->scale, offsetof(struct matrix, scale), weights, fp8 ? block : group);
    if (!fp8) count_companion(c, &whole->zero, offsetof(struct matrix, zero), weights, zeros);
}

/* ---- the rows of the report ---- */

static const char *const cut_names[] = {
    [SHARD_WHOLE] = "replicated", [SHARD_ROWS] = "rows", [SHARD_COLUMNS] = "columns"};

static void add_row(struct count *c, const char *name, const char *cut, const struct matrix *whole,
                    int ranks)
{
    static const char *const formats[] = {
        [MATRIX_DENSE] = "dense", [MATRIX_PACKED] = "packed", [MATRIX_FP8_BLOCK] = "fp8"};
    append(c, c->matrices,
           json_pack("{s:s, s:s, s:s, s:[I, I], s:[I, I], s:i}", "name", name, "cut", cut, "format",
                     formats[whole->format], "shape", (json_int_t)whole->out, (json_int_t)whole->in,
                     "part", (json_int_t)c->part[0].out, (json_int_t)c->part[0].in, "ranks",
                     ranks));
}

static void take(struct count *c, int rank, const struct matrix *part)
{
    c->holder[c->holders] = rank;
    c->part[c->holders++] = *part;
}

/* A matrix that stands at the same place in every rank's model. */
static void count_everywhere(struct count *c, const struct matrix *whole, size_t at,
                             const struct layer *layers, int64_t layer, enum shard_cut cut)
{
    c->holders = 0;
    for (int r = 0; r < c->world; r++) {
        const struct model *m = &c->rank[r].model;
        const char *from = layers ? (const char *)&m->layers[layer] : (const char *)m;
        take(c, r, (const struct matrix *)(const void *)(from + at));
    }
    int each = cut == SHARD_WHOLE ? c->world : c->rank[0].shard.plan.ep;
    count_matrix(c, whole, each);
    add_row(c, whole->data.name, cut_names[cut], whole, c->world);
}

/* A vector or table, as a matrix of one tensor. */
static struct matrix alone(const struct tensor *t)
{
    struct matrix m = {.format = MATRIX_DENSE, .out = t->dims > 1 ? t->shape[0] : 1, .data = *t};
    m.in = t->shape[t->dims - 1];
    return m;
}

static void count_tensor(struct count *c, const struct tensor *whole, size_t at,
                         const struct layer *layers, int64_t layer, enum shard_cut cut)
{
    if (!tensor_exists(whole)) return;
    const struct matrix m = alone(whole);
    c->holders = 0;
    for (int r = 0; r < c->world; r++) {
        const struct model *rank = &c->rank[r].model;
        const char *from = layers ? (const char *)&rank->layers[layer] : (const char *)rank;
        const struct matrix part = alone((const struct tensor *)(const void *)(from + at));
        take(c, r, &part);
    }
    count_matrix(c, &m, cut == SHARD_WHOLE ? c->world : c->rank[0].shard.plan.ep);
    add_row(c, whole->name, cut_names[cut], &m, c->world);
}

/* ---- the model ---- */

static enum err_code count_expert(struct count *c, int64_t layer, int64_t e, struct err *err)
{
    const struct shard *s = &c->rank[0].shard;
    struct shard_role role[3];
    struct expert whole, *part = calloc((size_t)c->world, sizeof *part);
    if (!part) return err_set(err, ERR_MEMORY, "shard plan|expert %lld|no memory", (long long)e);
    (void)!model_expert(c->whole, layer, e, &whole, err);
    for (int r = 0; r < c->world && err->code == ERR_OK; r++) {
        if (shard_holds(&c->rank[r].shard, e))
            (void)!model_expert(&c->rank[r].model, layer, e, &part[r], err);
    }
    shard_expert_roles(s, c->whole->config, role);
    for (int k = 0; k < 3 && err->code == ERR_OK; k++) {
        c->holders = 0;
        for (int r = 0; r < c->world; r++) {
            if (!shard_holds(&c->rank[r].shard, e)) continue;
            take(c, r, (const struct matrix *)(const void *)((const char *)&part[r] + role[k].at));
        }
        const struct matrix *m =
            (const struct matrix *)(const void *)((const char *)&whole + role[k].at);
        count_matrix(c, m, shard_copies(s, e));
        add_row(c, m->data.name, "experts", m, c->holders);
    }
    free(part);
    return err->code;
}

static enum err_code count_layer(struct count *c, int64_t i, struct err *err)
{
    const struct layer *l = &c->whole->layers[i];
    struct shard_role role[SHARD_ROLES];
    const struct {
        const struct tensor *t;
        size_t at;
    } vectors[] = {
        {&l->attn_norm, offsetof(struct layer, attn_norm)},
        {&l->mlp_norm, offsetof(struct layer, mlp_norm)},
        {&l->q_norm, offsetof(struct layer, q_norm)},
        {&l->kv_norm, offsetof(struct layer, kv_norm)},
        {&l->bias, offsetof(struct layer, bias)},
    };
    int n = shard_roles(&c->rank[0].shard, c->whole->config, l->moe, role);
    for (int k = 0; k < n; k++)
        count_everywhere(c, (const struct matrix *)(const void *)((const char *)l + role[k].at),
                         role[k].at, l, i, role[k].cut);
    for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++)
        count_tensor(c, vectors[k].t, vectors[k].at, l, i, SHARD_WHOLE);
    for (int64_t e = 0; l->moe && e < c->whole->config->experts; e++) {
        if (count_expert(c, i, e, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code count_model(struct count *c, struct err *err)
{
    const struct model *m = c->whole;
    count_tensor(c, &m->embed, offsetof(struct model, embed), NULL, 0, SHARD_ROWS);
    count_tensor(c, &m->norm, offsetof(struct model, norm), NULL, 0, SHARD_WHOLE);
    if (!m->config->tied_embeddings) /* else it is the table above */
        count_everywhere(c, &m->head, offsetof(struct model, head), NULL, 0, SHARD_ROWS);
    for (int64_t i = 0; i < m->config->layers; i++) {
        if (count_layer(c, i, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* ---- JSON ---- */

static json_t *range(struct extent e)
{
    return json_pack("[I, I]", (json_int_t)e.first, (json_int_t)(e.first + e.count));
}

static json_t *rank_row(struct count *c, int r)
{
    const struct shard *s = &c->rank[r].shard;
    json_t *row = json_pack("{s:i, s:i, s:i}", "rank", r, "t", s->t, "e", s->e);
    json_t *experts = json_array();
    for (int64_t e = 0; e < s->experts; e++) {
        if (shard_holds(s, e)) append(c, experts, json_integer(e));
    }
    give(c, row, "heads", range(s->heads));
    give(c, row, "intermediate", range(s->intermediate));
    give(c, row, "moe", range(s->moe));
    give(c, row, "shared", range(s->shared));
    give(c, row, "vocab", range(s->vocab));
    give(c, row, "experts", experts);
    give(c, row, "bytes", json_integer(c->bytes[r]));
    give(c, row, "replicated_bytes", json_integer(c->repeated[r]));
    return row;
}

static json_t *report_of(struct count *c)
{
    const struct shard_plan *p = &c->rank[0].shard.plan;
    json_t *out =
        json_pack("{s:i, s:i, s:i, s:s, s:I, s:s}", "tp", p->tp, "ep", p->ep, "world", c->world,
                  "map", expert_map_name(p->map), "redundant", (json_int_t)p->redundant, "reduce",
                  p->reduce == DT_F64   ? "f64"
                  : p->reduce == DT_F32 ? "f32"
                                        : "bf16");
    json_t *ranks = json_array();
    for (int r = 0; r < c->world; r++) append(c, ranks, rank_row(c, r));
    give(c, out, "ranks", ranks);
    give(c, out, "matrices", c->matrices);
    give(c, out, "bytes", json_integer(c->total));
    give(c, out, "problems", c->problems);
    c->matrices = c->problems = NULL; /* the report's now */
    return out;
}

static enum err_code open_ranks(struct count *c, const struct shard_plan *p, struct err *err)
{
    size_t n = (size_t)c->world;
    c->rank = calloc(n, sizeof *c->rank);
    c->part = calloc(n, sizeof *c->part);
    c->holder = calloc(n, sizeof *c->holder);
    c->bytes = calloc(n, sizeof *c->bytes);
    c->repeated = calloc(n, sizeof *c->repeated);
    c->matrices = json_array();
    c->problems = json_array();
    if (!c->rank || !c->part || !c->holder || !c->bytes || !c->repeated || !c->matrices ||
        !c->problems)
        return err_set(err, ERR_MEMORY, "shard plan|%d ranks|no memory", c->world);
    for (int r = 0; r < c->world; r++) {
        struct shard s;
        shard_of(p, c->whole->config, r, &s);
        if (shard_model_open(&c->rank[r], c->whole, &s, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static void close_ranks(struct count *c)
{
    for (int r = 0; c->rank && r < c->world; r++) shard_model_close(&c->rank[r]);
    free(c->rank);
    free(c->part);
    free(c->holder);
    free(c->bytes);
    free(c->repeated);
    json_decref(c->matrices);
    json_decref(c->problems);
}

enum err_code shard_plan_report(const struct shard_plan *p, const struct model *whole, json_t **out,
                                struct err *err)
{
    struct count c = {.whole = whole, .world = shard_world(p)};
    *out = NULL;
    if (shard_plan_check(p, whole->config, err) != ERR_OK) return err->code;
    if (open_ranks(&c, p, err) == ERR_OK && count_model(&c, err) == ERR_OK) {
        *out = report_of(&c);
        if (c.broken || !*out)
            (void)err_set(err, ERR_MEMORY, "shard plan|report|no memory|a few megabytes");
        else if (c.wrong)
            (void)err_set(err, ERR_DIFF, "shard plan|%lld of its weights' places|%s|as planned",
                          (long long)c.wrong, c.first);
    }
    if (err->code != ERR_OK && err->code != ERR_DIFF) {
        json_decref(*out);
        *out = NULL;
    }
    close_ranks(&c);
    return err->code;
}
