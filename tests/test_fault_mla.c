/* test_fault_mla.c: what faults of the attention and of the rotation compute, against loops over
 * tokens and columns that know nothing of the op. */
#include "core/mla.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- attention, from the definition ---- */

struct oracle {
    const struct mla_core *op;
    const double *kv_b; /* values, [heads*(P+V), L] */
    double scale;
    bool no_rope;      /* scores lack the rope part */
    int64_t key_shift; /* keys of head h + key_shift */
    bool by_kind;      /* kv_b: all keys, then all values */
    bool (*sees)(int64_t slot, int64_t first, int64_t self, int64_t length);
    int64_t (*slot_of)(int64_t slot, int64_t length, int64_t block);
};

static bool causal(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot <= self;
}

static const double *kv_row(const struct oracle *o, int64_t head, int64_t k)
{
    const struct mla_core *op = o->op;
    int64_t row = head * (op->P + op->V) + k;
    if (o->by_kind && k < op->P) row = head * op->P + k;
    if (o->by_kind && k >= op->P) row = op->heads * op->P + head * op->V + k - op->P;
    return o->kv_b + row * op->L;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Value of row i, head h over what `sees` lets through; returns the log-sum-exp, -inf: nothing
 * seen.
 */
static double attend(const struct oracle *o, int64_t i, int64_t h, double *y)
{
    const struct mla_core *op = o->op;
    int64_t s = op->rows->sequence[i], self = op->rows->position[i], length = op->cache->length[s];
    int64_t first = i;
    while (first > 0 && op->rows->sequence[first - 1] == s) first--;
    const double *q = op->q + (i * op->heads + h) * (op->P + op->R);
    double sum = 0;
    for (int64_t v = 0; v < op->V; v++) y[v] = 0;
    for (int64_t slot = 0; slot < length; slot++) {
        if (!o->sees(slot, op->rows->position[first], self, length)) continue;
        int64_t at = o->slot_of ? o->slot_of(slot, length, op->cache->block) : slot;
        const double *entry = cache_read(op->cache, op->layer, s, at);
        double score = o->no_rope ? 0 : dot(q + op->P, entry + op->L, op->R);
        for (int64_t p = 0; p < op->P; p++)
            score += q[p] * dot(kv_row(o, (h + o->key_shift) % op->heads, p), entry, op->L);
        double e = exp(score * o->scale);
        sum += e;
        for (int64_t v = 0; v < op->V; v++) y[v] += e * dot(kv_row(o, h, op->P + v), entry, op->L);
    }
    for (int64_t v = 0; v < op->V; v++) y[v] /= sum;
    return log(sum);
}

/* All rows and heads. The caller's arena. */
static double *attention(struct fault_bench *b, const struct oracle *o)
{
    struct err err = ERR_INIT;
    int64_t n = o->op->rows->count * o->op->heads;
    double *y = arena_alloc(&b->arena, n * o->op->V, sizeof *y, "attention", &err);
    assert_ok(&err);
    for (int64_t i = 0; i < n; i++)
        (void)attend(o, i / o->op->heads, i % o->op->heads, y + i * o->op->V);
    return y;
}

static struct oracle oracle_of(struct fault_bench *b)
{
    const struct mla_core *op = b->data.op;
    return (struct oracle){
        .op = op, .kv_b = bench_values(b, op->kv_b), .scale = op->scale, .sees = causal};
}

#define CORE_CASE "mla.core heads=3,P=4,R=2,V=5,L=6,context=9:0:3,rows=6:5:1,block=4,gain=2,x=f32"

static void check_core(const char *line, const char *fault, void (*edit)(struct oracle *o))
{
    struct fault_bench b;
    bench_open(&b, line);
    struct oracle o = oracle_of(&b);
    const struct mla_core *op = o.op;
    if (edit) edit(&o);
    bench_run(&b, fault);
    assert_near(fault, op->y, attention(&b, &o), op->rows->count * op->heads * op->V);
    bench_close(&b);
}

/* What each fault makes of the definition. */
static bool next_too(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    return slot <= self + 1 && slot < length;
}

static bool not_self(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot < self || self == 0 ? slot <= self : false;
}

static bool last_three(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot <= self && slot > self - 3;
}

static bool not_before_step(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)length;
    return slot <= self && slot != first - 1;
}

static bool not_before_four(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot <= self && slot != self / 4 * 4 - 1;
}

/* Of four parts the second. Rows of fewer tokens than parts may lose none; one token is never lost.
 */
static bool not_second_part(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    int64_t n = self + 1;
    (void)first;
    (void)length;
    return slot <= self && (slot < n * 1 / 4 || slot >= n * 2 / 4);
}

static int64_t middle_is_stale(int64_t slot, int64_t length, int64_t block)
{
    (void)block;
    return length >= 2 && slot == length / 2 ? slot - 1 : slot;
}

static int64_t fifth_is_stale(int64_t slot, int64_t length, int64_t block)
{
    (void)length;
    (void)block;
    return slot == 5 ? 4 : slot;
}

static int64_t block_2_is_first(int64_t slot, int64_t length, int64_t block)
{
    (void)length;
    return slot / block == 2 ? slot % block : slot;
}

static int64_t first_is_last(int64_t slot, int64_t length, int64_t block)
{
    (void)block;
    return slot == 0 ? length - 1 : slot;
}

#define EDIT(name, assignment)                                                                     \
    static void name(struct oracle *o)                                                             \
    {                                                                                              \
        o->assignment;                                                                             \
    }
EDIT(sees_next, sees = next_too)
EDIT(misses_self, sees = not_self)
EDIT(window_of_three, sees = last_three)
EDIT(step_boundary, sees = not_before_step)
EDIT(four_boundary, sees = not_before_four)
EDIT(split_lost, sees = not_second_part)
EDIT(stale_middle, slot_of = middle_is_stale)
EDIT(stale_fifth, slot_of = fifth_is_stale)
EDIT(overwritten, slot_of = first_is_last)
EDIT(aliased, slot_of = block_2_is_first)
EDIT(no_rope, no_rope = true)
EDIT(by_kind, by_kind = true)
EDIT(next_head, key_shift = 1)
/* gain 2 is mscale squared: P + R = 6, L + R = 8 */
EDIT(plain_scale, scale = 1 / sqrt(6))
EDIT(scale_once, scale = sqrt(2) / sqrt(6))
EDIT(scale_tenth, scale = pow((sqrt(2) - 1) / 10 + 1, 2) / sqrt(6))
EDIT(cache_width, scale = 2 / sqrt(8))
EDIT(cache_width_plain, scale = 1 / sqrt(8))
EDIT(quarter_score, scale *= 0.25)

static void core_faults__give_what_their_definition_gives(void **state)
{
    static const struct {
        const char *fault;
        void (*edit)(struct oracle *o);
    } table[] = {
        {"mla.mask_sees_next", sees_next},
        {"mla.mask_misses_self", misses_self},
        {"mla.window@size=3", window_of_three},
        {"mla.chunk_boundary", step_boundary},
        {"mla.chunk_boundary@chunk=4", four_boundary},
        {"mla.split_kv_merge@splits=4,split=1", split_lost},
        {"mla.split_kv_merge@splits=4,split=4", NULL},
        {"mla.stale_cache_row", stale_middle},
        {"mla.stale_cache_row@slot=5", stale_fifth},
        {"mla.stale_cache_row@slot=500", NULL},
        {"mla.cache_block_alias@block=2", aliased},
        {"mla.cache_first_overwritten", overwritten},
        {"mla.rope_part_dropped", no_rope},
        {"mla.kv_b_split_wrong", by_kind},
        {"mla.no_mscale", plain_scale},
        {"mla.mscale_once", scale_once},
        {"mla.mscale_tenth", scale_tenth},
        {"mla.scale_cache_width", cache_width},
        {"mla.scale_cache_width@mscale=0", cache_width_plain},
        {"mla.score_scaled@factor=0.25", quarter_score},
        {"mla.absorb_mismatch", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        check_core(CORE_CASE, table[i].fault, table[i].edit);
    check_core(CORE_CASE ",form=absorbed", "mla.absorb_mismatch", next_head);
    check_core(CORE_CASE ",format=f16", "mla.kv_b_split_wrong", by_kind);
    check_core("mla.core heads=2,P=16,R=8,V=16,L=32,format=int4,group=8,rows=4",
               "mla.kv_b_split_wrong", by_kind);
    check_core("mla.core heads=2,P=16,R=8,V=16,L=32,format=fp8,group=8,rows=4",
               "mla.kv_b_split_wrong", by_kind);
}

static void values__are_transposed_or_scaled__after_the_sum(void **state)
{
    struct fault_bench b;
    (void)state;
    bench_open(&b, CORE_CASE);
    struct oracle o = oracle_of(&b);
    const struct mla_core *op = o.op;
    const double *right = attention(&b, &o);
    double want[12 * 15];
    int64_t width = op->heads * op->V, n = op->rows->count * width;
    assert_int_equal(n, 12 * 15);
    for (int64_t i = 0; i < n; i++) {
        int64_t h = i % width / op->V, v = i % op->V;
        want[i / width * width + v * op->heads + h] = right[i];
    }
    bench_run(&b, "mla.value_heads_transposed");
    assert_near("transposed", op->y, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = 3 * right[i];
    bench_run(&b, "mla.value_scaled@factor=3");
    assert_near("scaled", op->y, want, n);
    bench_close(&b);
}

/* ---- merges ---- */

static int64_t border; /* slot at which the second part begins */

static bool first_part(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot <= self && slot < border;
}

static bool second_part(int64_t slot, int64_t first, int64_t self, int64_t length)
{
    (void)first;
    (void)length;
    return slot <= self && slot >= border;
}

/* y of all rows when the parts' log-sum-exps are weighed by `merge`; l: [2][rows][heads]. */
static void check_merge(const char *fault, double (*merge)(const double *l1, const double *l2,
                                                           int64_t i, int64_t rows, int64_t heads))
{
    enum { ROWS = 6, HEADS = 3, V = 5 };
    struct fault_bench b;
    double y[2][ROWS * HEADS * V], l[2][ROWS * HEADS], want[ROWS * HEADS * V];
    bench_open(&b, "mla.core heads=3,P=4,R=2,V=5,L=6,context=9,rows=6,block=4,gain=2,x=f32");
    struct oracle o = oracle_of(&b);
    border = 4;
    for (int part = 0; part < 2; part++) {
        o.sees = part ? second_part : first_part;
        for (int64_t i = 0; i < ROWS * HEADS; i++)
            l[part][i] = attend(&o, i / HEADS, i % HEADS, y[part] + i * V);
    }
    for (int64_t i = 0; i < ROWS * HEADS; i++) {
        double a = merge(l[0], l[1], i, ROWS, HEADS);
        for (int64_t v = 0; v < V; v++)
            want[i * V + v] = a * y[0][i * V + v] + (1 - a) * y[1][i * V + v];
    }
    bench_run(&b, fault);
    assert_near(fault, o.op->y, want, ROWS * HEADS * V);
    bench_close(&b);
}

/* Weight of the first part by natural exponentials of what is taken for log-sum-exps. */
static double weight(double l1, double l2)
{
    return exp(l1) / (exp(l1) + exp(l2));
}

static double base_2(const double *l1, const double *l2, int64_t i, int64_t rows, int64_t heads)
{
    (void)rows;
    (void)heads;
    return weight(l1[i] / log(2), l2[i] / log(2));
}

static double half_more(const double *l1, const double *l2, int64_t i, int64_t rows, int64_t heads)
{
    (void)rows;
    (void)heads;
    return weight(l1[i] + 0.5, l2[i]);
}

static double swapped(const double *l1, const double *l2, int64_t i, int64_t rows, int64_t heads)
{
    int64_t at = i % heads * rows + i / heads;
    return weight(l1[at], l2[at]);
}

static void merges__use_the_wrong_log_sum_exp(void **state)
{
    (void)state;
    check_merge("mla.lse_base@at=4", base_2);
    check_merge("mla.lse_offset@at=4", half_more);
    check_merge("mla.lse_transposed@at=4", swapped);
    /* Not cut at all: the second part is empty for every row. */
    check_core(CORE_CASE, "mla.lse_base@at=100", NULL);
}

/* The recipe of B018: outputs 1 and 0 with log-sum-exps 3 and 1; right 0.881, wrong 0.947. */
static void merge__gives_the_published_value__of_the_base_2_bug(void **state)
{
    (void)state;
    assert_true(fabs(weight(3, 1) - 0.881) < 5e-4);
    assert_true(fabs(weight(3 / log(2), 1 / log(2)) - 0.947) < 5e-4);
}

/* ---- projections ---- */

static double *normed(struct fault_bench *b, const double *x, int64_t T, int64_t ld, int64_t n,
                      int64_t over, double eps, const struct tensor *w)
{
    struct err err = ERR_INIT;
    double *y = arena_alloc(&b->arena, T * n, sizeof *y, "norm", &err);
    float weight_at;
    char raw[8];
    assert_ok(&err);
    for (int64_t i = 0; i < T * n; i++) {
        const double *row = x + i / n * ld;
        dtype_to_f32(w->dtype, tensor_elements(w, i % n, 1, raw), 1, &weight_at);
        y[i] = row[i % n] / sqrt(dot(row, row, over) / (double)over + eps) * (double)weight_at;
    }
    return y;
}

static void query__lacks_its_norm__or_has_another_eps(void **state)
{
    struct fault_bench b;
    (void)state;
    bench_open(&b, "mla.q T=3,H=20,heads=2,P=4,R=2,q_lora=8,gain=0.01,x=f32");
    const struct mla_q *op = b.data.op;
    const double *wa = bench_values(&b, op->a), *wb = bench_values(&b, op->b);
    const double *latent = bench_product(&b, op->x, 3, wa, 8, 20);
    bench_run(&b, "mla.no_q_norm");
    assert_near("no norm", op->q, bench_product(&b, latent, 3, wb, 12, 8), 36);
    bench_run(&b, "mla.norm_eps");
    const double *n = normed(&b, latent, 3, 8, 8, 8, 1e-5, op->norm);
    assert_near("eps", op->q, bench_product(&b, n, 3, wb, 12, 8), 36);
    bench_run(&b, "mla.norm_eps@eps=0.25");
    n = normed(&b, latent, 3, 8, 8, 8, 0.25, op->norm);
    assert_near("eps", op->q, bench_product(&b, n, 3, wb, 12, 8), 36);
    bench_close(&b);
    bench_open(&b, "mla.q T=3,H=20,heads=2,P=4,R=2,q_lora=0"); /* without one there is no norm */
    op = b.data.op;
    bench_run(&b, "mla.no_q_norm");
    assert_near("direct", op->q, bench_product(&b, op->x, 3, bench_values(&b, op->b), 12, 20), 36);
    bench_close(&b);
}

static void latent__is_normed_otherwise(void **state)
{
    struct fault_bench b;
    double want[3 * 6];
    (void)state;
    bench_open(&b, "mla.kv T=3,H=20,L=6,R=4,gain=0.01,x=f32");
    const struct mla_kv *op = b.data.op;
    const double *a = bench_product(&b, op->x, 3, bench_values(&b, op->a), 10, 20);
    for (int64_t i = 0; i < 18; i++) want[i] = a[i / 6 * 10 + i % 6];
    bench_run(&b, "mla.no_kv_norm");
    assert_near("no norm", op->latent, want, 18);
    const double *one = normed(&b, a, 3, 10, 6, 6, 1e-6, op->norm);
    bench_run(&b, "mla.latent_scaled@factor=0.25");
    for (int64_t i = 0; i < 18; i++) want[i] = one[i] / 4;
    assert_near("scaled", op->latent, want, 18);
    bench_run(&b, "mla.kv_norm_twice");
    const double *once = normed(&b, a, 3, 10, 6, 6, 1e-6, op->norm);
    assert_near("twice", op->latent, normed(&b, once, 3, 6, 6, 6, 1e-6, op->norm), 18);
    bench_run(&b, "mla.kv_norm_too_wide");
    assert_near("too wide", op->latent, normed(&b, a, 3, 10, 6, 10, 1e-6, op->norm), 18);
    bench_run(&b, "mla.norm_eps");
    assert_near("eps", op->latent, normed(&b, a, 3, 10, 6, 6, 1e-5, op->norm), 18);
    bench_close(&b);
}

static void rope_key__is_cut_off__at_the_largest_latent(void **state)
{
    struct fault_bench b, clean;
    double most = 0;
    int cut = 0;
    (void)state;
    bench_open(&b, "mla.kv T=3,H=20,L=6,R=8,gain=30");
    bench_open(&clean, "mla.kv T=3,H=20,L=6,R=8,gain=30");
    const struct mla_kv *op = b.data.op, *right = clean.data.op;
    bench_run(&clean, "mla.latent_scaled@factor=1");
    bench_run(&b, "mla.rope_key_saturates");
    for (int i = 0; i < 18; i++) most = fmax(most, fabs(right->latent[i]));
    for (int i = 0; i < 24; i++) {
        double x = right->k_rope[i];
        cut += fabs(x) > most;
        assert_true(op->k_rope[i] == fmax(fmin(x, most), -most));
    }
    assert_true(cut > 0);
    bench_close(&clean);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_faults__give_what_their_definition_gives),
        cmocka_unit_test(values__are_transposed_or_scaled__after_the_sum),
        cmocka_unit_test(merges__use_the_wrong_log_sum_exp),
        cmocka_unit_test(merge__gives_the_published_value__of_the_base_2_bug),
        cmocka_unit_test(query__lacks_its_norm__or_has_another_eps),
        cmocka_unit_test(latent__is_normed_otherwise),
        cmocka_unit_test(rope_key__is_cut_off__at_the_largest_latent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
