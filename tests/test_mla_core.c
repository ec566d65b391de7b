/* test_mla_core.c: op "mla.core" on made caches: the two forms agree, and neither chunks, nor
 * pages, nor neighbours, nor what lies behind a sequence's end change a bit. Goldens:
 * tests/test_mla.c. */
#include "core/mla.h"

#include "tests/op_fixture.h"

#include <math.h>
#include <string.h>

struct shape {
    int64_t heads, P, R, V, L;
};

static const struct shape shapes[] = {
    {1, 1, 2, 1, 1}, {3, 7, 4, 5, 9}, {2, 16, 8, 24, 33}, {5, 3, 6, 17, 20}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], SEQUENCES = 4, LAYERS = 2 };

/* One call of the op: rows first[s] .. length[s] of each sequence, which[s] says whose data they
 * are. */
struct pass {
    int64_t sequences, block;
    const int64_t *which, *first, *length;
    uint64_t deal;
    enum mla_form form;
    bool round_robin; /* rows of the sequences in turn, not one sequence after the other */
    double sharpness; /* multiplies the usual scale; 0: 1 */
};

/* A cache that holds length[s] entries of each sequence in layer 1, and NaN wherever else it can.
 */
static struct cache made_cache(struct arena *a, const struct pass *p, int64_t width)
{
    struct err err = ERR_INIT;
    struct cache c;
    int64_t lengths_max[SEQUENCES];
    for (int64_t s = 0; s < p->sequences; s++) lengths_max[s] = p->length[s] + 9;
    if (cache_make(&c, a, LAYERS, p->sequences, lengths_max, p->block, width, p->deal, &err) !=
        ERR_OK)
        assert_ok(&err);
    for (int64_t s = 0; s < p->sequences; s++) {
        char name[2] = {(char)('a' + p->which[s]), 0};
        double *entries = random_f64(a, 71, name, p->length[s] * width, 1.0);
        for (int64_t t = 0; t < p->length[s]; t++)
            memcpy(cache_write(&c, 1, s, t), entries + t * width, (size_t)width * sizeof *entries);
        c.length[s] = p->length[s];
        /* What a table holds past the length may be stale: here, another sequence's first block. */
        for (int64_t b = (p->length[s] + p->block - 1) / p->block; b < c.blocks_max; b++)
            c.table[s * c.blocks_max + b] = c.table[0];
    }
    return c;
}

static struct matrix made_kv_b(struct arena *a, const struct shape *d)
{
    return random_matrix(a, 73, "kv_b", DT_BF16, d->heads * (d->P + d->V), d->L, 1.0);
}

static double *attend(struct arena *a, const struct shape *d, const struct pass *p, struct run *run)
{
    struct err err = ERR_INIT;
    struct cache cache = made_cache(a, p, d->L + d->R);
    int64_t wide = d->heads * (d->P + d->R), rows_max = 0, longest = 0, n = 0;
    for (int64_t s = 0; s < p->sequences; s++) {
        rows_max += p->length[s] - p->first[s];
        if (p->length[s] > longest) longest = p->length[s];
    }
    int32_t *sequence = arena_alloc(a, rows_max, sizeof *sequence, "sequence", &err);
    int64_t *position = arena_alloc(a, rows_max, sizeof *position, "position", &err);
    double *q = space(a, rows_max * wide), *y = space(a, rows_max * d->heads * d->V);
    for (int64_t outer = 0; outer < (p->round_robin ? longest : p->sequences); outer++) {
        for (int64_t inner = 0; inner < (p->round_robin ? p->sequences : longest); inner++) {
            int64_t s = p->round_robin ? inner : outer, t = p->round_robin ? outer : inner;
            if (t < p->first[s] || t >= p->length[s]) continue;
            char name[2] = {(char)('A' + p->which[s]), 0};
            uint64_t base = synth_base(72, name);
            for (int64_t j = 0; j < wide; j++) q[n * wide + j] = synth_u(base, t * wide + j);
            sequence[n] = (int32_t)s;
            position[n++] = t;
        }
    }
    struct rows rows = {.count = n,
                        .sequence = sequence,
                        .position = position,
                        .token = position,
                        .dump_row = position};
    struct matrix kv_b = made_kv_b(a, d);
    struct mla_core op = {.heads = d->heads,
                          .P = d->P,
                          .R = d->R,
                          .V = d->V,
                          .L = d->L,
                          .scale =
                              (p->sharpness != 0 ? p->sharpness : 1) / sqrt((double)(d->P + d->R)),
                          .form = p->form,
                          .rows = &rows,
                          .q = q,
                          .kv_b = &kv_b,
                          .cache = &cache,
                          .layer = 1,
                          .y = y};
    if (mla_core_ref(&op, run, &err) != ERR_OK) assert_ok(&err);
    return y;
}

static const int64_t zeros[SEQUENCES] = {0, 0, 0, 0};
static const char *const profiles[] = {"math", "hf", "vllm"};

/* ---- against plain loops, for every profile ---- */

struct plain {
    const struct shape *d;
    const struct run *run;
    const double *w, *entries; /* W_kvb; [tokens][L + R] */
    bool absorbed;
    double scale;
};

static double rounded(const struct plain *n, enum round_point p, double x)
{
    return n->run->profile.rounds[p] ? dtype_round(DT_BF16, x) : x;
}

static double dot(const double *a, int64_t stride, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i * stride] * b[i];
    return sum;
}

/* One head's row: q [P + R] against tokens 0 .. t, w the head's rows of W_kvb; y [V]. */
static void plain_row(const struct plain *n, const double *w, const double *q, int64_t t, double *y)
{
    enum { MOST = 64 };
    const struct shape *d = n->d;
    double p[MOST], latent_query[MOST], mixed[MOST], max = -INFINITY, sum = 0;
    for (int64_t l = 0; l < d->L; l++)
        latent_query[l] = rounded(n, RP_Q_LATENT, dot(w + l, d->L, q, d->P));
    for (int64_t s = 0; s <= t; s++) {
        const double *c = n->entries + s * (d->L + d->R);
        double score = dot(c + d->L, 1, q + d->P, d->R);
        if (n->absorbed) score += dot(latent_query, 1, c, d->L);
        for (int64_t k = 0; k < d->P && !n->absorbed; k++)
            score += q[k] * rounded(n, RP_LINEAR, dot(w + k * d->L, 1, c, d->L));
        p[s] = rounded(n, RP_SCORE_SCALED, rounded(n, RP_SCORE, score) * n->scale);
        max = fmax(max, p[s]);
    }
    for (int64_t s = 0; s <= t; s++) sum += p[s] = exp(p[s] - max);
    for (int64_t s = 0; s <= t; s++) {
        if (n->run->profile.prob_before_sum)
            p[s] = rounded(n, RP_PROB, p[s]) / sum;
        else
            p[s] = rounded(n, RP_PROB, p[s] / sum);
    }
    for (int64_t l = 0; l < d->L; l++)
        mixed[l] = rounded(n, RP_O_LATENT, dot(n->entries + l, d->L + d->R, p, t + 1));
    for (int64_t v = 0; v < d->V; v++) {
        const double *row = w + (d->P + v) * d->L;
        y[v] = n->absorbed ? dot(row, 1, mixed, d->L) : 0;
        for (int64_t s = 0; s <= t && !n->absorbed; s++) {
            const double *c = n->entries + s * (d->L + d->R);
            y[v] += p[s] * rounded(n, RP_LINEAR, dot(row, 1, c, d->L));
        }
        y[v] = rounded(n, RP_ATTN_CORE, y[v]);
    }
}

static void mla_core_ref__equals_plain_loops__in_both_forms_of_every_profile(void **state)
{
    (void)state;
    for (int i = 0; profile_name(i); i++) {
        for (int j = 0; j < 2 * SHAPES; j++) {
            struct arena a = ARENA_INIT;
            const struct shape *d = &shapes[j / 2];
            int64_t length = 11, rows = d->P + d->V, qk = d->P + d->R, cols = d->heads * d->V;
            struct pass p = {.sequences = 1, .block = 4, .which = zeros, .first = zeros};
            p.length = &length;
            p.form = j % 2 ? MLA_ABSORBED : MLA_EXPANDED;
            struct run run = op_run(&a, profile_name(i), PRECISION_F64);
            double *got = attend(&a, d, &p, &run), *want = space(&a, length * cols);
            struct matrix kv_b = made_kv_b(&a, d);
            double *w = matrix_values(&a, &kv_b), *q = space(&a, qk);
            struct plain n = {.d = d, .run = &run, .scale = 1 / sqrt((double)qk)};
            n.absorbed = p.form == MLA_ABSORBED;
            n.entries = random_f64(&a, 71, "a", length * (d->L + d->R), 1.0);
            for (int64_t r = 0; r < length * d->heads; r++) {
                for (int64_t k = 0; k < qk; k++) q[k] = synth_u(synth_base(72, "A"), r * qk + k);
                plain_row(&n, w + r % d->heads * rows * d->L, q, r / d->heads, want + r * d->V);
            }
            if (run.profile.rounds[RP_ATTN_CORE])
                assert_share(got, want, length, cols, 1.0);
            else
                assert_f64_near(got, want, length, cols, 1e-13, 0);
            arena_release(&a, NULL);
        }
    }
}

static void mla_core_ref__agrees_between_absorbed_and_expanded__to_1e_12(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct arena a = ARENA_INIT;
        int64_t length = 1 + 8 * i, cols = shapes[i].heads * shapes[i].V;
        struct pass p = {
            .sequences = 1, .block = 4, .which = zeros, .first = zeros, .length = &length};
        struct run run = op_run(&a, "math", PRECISION_F64);
        double *expanded = attend(&a, &shapes[i], &p, &run);
        p.form = MLA_ABSORBED;
        double *absorbed = attend(&a, &shapes[i], &p, &run);
        for (int64_t t = 0; t < length; t++) {
            double largest = 0;
            for (int64_t j = 0; j < cols; j++)
                largest = fmax(largest, fabs(expanded[t * cols + j]));
            assert_f64_near(absorbed + t * cols, expanded + t * cols, 1, cols, 1e-12 * largest, 0);
        }
        arena_release(&a, NULL);
    }
}

static void mla_core_ref__gives_the_same_bits__in_chunks_and_whole(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int form = MLA_EXPANDED; form <= MLA_ABSORBED; form++) {
            for (int k = 0; k < 3; k++) {
                struct arena a = ARENA_INIT;
                int64_t length = 13, cols = shapes[i].heads * shapes[i].V;
                struct run run = op_run(&a, profiles[k], k == 2 ? PRECISION_F32 : PRECISION_F64);
                struct pass p = {.sequences = 1,
                                 .block = 4,
                                 .which = zeros,
                                 .first = zeros,
                                 .length = &length,
                                 .form = (enum mla_form)form};
                double *whole = attend(&a, &shapes[i], &p, &run);
                static const int64_t cuts[] = {0, 1, 2, 7, 12, 13};
                for (int c = 0; c < 5; c++) {
                    struct pass chunk = p;
                    chunk.first = &cuts[c];
                    chunk.length = &cuts[c + 1];
                    double *part = attend(&a, &shapes[i], &chunk, &run);
                    assert_f64_bits(part, whole + cuts[c] * cols, cuts[c + 1] - cuts[c], cols);
                }
                arena_release(&a, NULL);
            }
        }
    }
}

static void mla_core_ref__gives_the_same_bits__with_any_block_size_and_deal(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int form = MLA_EXPANDED; form <= MLA_ABSORBED; form++) {
            struct arena a = ARENA_INIT;
            int64_t length = 17, cols = shapes[i].heads * shapes[i].V;
            struct run run = op_run(&a, "vllm", PRECISION_F64);
            struct pass p = {.sequences = 1,
                             .block = 64,
                             .which = zeros,
                             .first = zeros,
                             .length = &length,
                             .form = (enum mla_form)form};
            double *flat = attend(&a, &shapes[i], &p, &run);
            static const int64_t blocks[] = {1, 2, 3, 16, 17};
            for (int b = 0; b < 5; b++) {
                p.block = blocks[b];
                p.deal = (uint64_t)b;
                assert_f64_bits(attend(&a, &shapes[i], &p, &run), flat, length, cols);
            }
            arena_release(&a, NULL);
        }
    }
}

static void mla_core_ref__gives_a_sequence_the_same_bits__alone_and_in_a_batch_of_unequal_lengths(
    void **state)
{
    (void)state;
    static const int64_t which[SEQUENCES] = {2, 0, 3, 1}, first[SEQUENCES] = {0, 4, 10, 0},
                         length[SEQUENCES] = {5, 19, 11, 1};
    for (int i = 0; i < SHAPES; i++) {
        for (int form = MLA_EXPANDED; form <= MLA_ABSORBED; form++) {
            for (int k = 0; k < 3; k++) {
                struct arena a = ARENA_INIT;
                int64_t cols = shapes[i].heads * shapes[i].V, at = 0;
                struct run run = op_run(&a, profiles[k], PRECISION_F64);
                struct pass p = {.sequences = SEQUENCES,
                                 .block = 3,
                                 .which = which,
                                 .first = first,
                                 .length = length,
                                 .deal = 5,
                                 .form = (enum mla_form)form};
                run.threads = 3;
                double *batch = attend(&a, &shapes[i], &p, &run);
                run.threads = 1;
                for (int s = 0; s < SEQUENCES; s++) {
                    struct pass one = p;
                    one.sequences = 1;
                    one.which += s;
                    one.first += s;
                    one.length += s;
                    one.block = 8;
                    double *alone = attend(&a, &shapes[i], &one, &run);
                    assert_f64_bits(alone, batch + at * cols, length[s] - first[s], cols);
                    at += length[s] - first[s];
                }
                arena_release(&a, NULL);
            }
        }
    }
}

static void mla_core_ref__gives_the_same_bits__when_rows_of_the_sequences_alternate(void **state)
{
    (void)state;
    static const int64_t which[2] = {0, 1}, first[2] = {0, 0}, length[2] = {6, 6};
    struct arena a = ARENA_INIT;
    const struct shape *d = &shapes[1];
    int64_t cols = d->heads * d->V;
    struct run run = op_run(&a, "math", PRECISION_F64);
    struct pass p = {.sequences = 2, .block = 2, .which = which, .first = first, .length = length};
    double *straight = attend(&a, d, &p, &run);
    p.round_robin = true;
    double *turns = attend(&a, d, &p, &run);
    for (int t = 0; t < 12; t++)
        assert_f64_bits(turns + t * cols, straight + (t % 2 * 6 + t / 2) * cols, 1, cols);
    arena_release(&a, NULL);
}

static void mla_core_ref__gives_the_value_itself__when_there_is_one_token(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    const struct shape *d = &shapes[2];
    int64_t length = 1;
    struct pass p = {.sequences = 1, .block = 4, .which = zeros, .first = zeros, .length = &length};
    struct run run = op_run(&a, "math", PRECISION_F64);
    double *y = attend(&a, d, &p, &run), *c = random_f64(&a, 71, "a", d->L + d->R, 1.0);
    struct matrix kv_b = made_kv_b(&a, d);
    double *w = matrix_values(&a, &kv_b);
    for (int64_t j = 0; j < d->heads * d->V; j++) {
        double v = 0;
        int64_t row =
            j / d->V * (d->P + d->V) + d->P + j % d->V; /* of its head, behind the key rows */
        for (int64_t k = 0; k < d->L; k++) v += w[row * d->L + k] * c[k];
        assert_f64_close(y[j], v, 1e-14, 0);
    }
    arena_release(&a, NULL);
}

static void mla_core_ref__stays_finite__when_scores_are_in_the_thousands(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int form = MLA_EXPANDED; form <= MLA_ABSORBED; form++) {
            struct arena a = ARENA_INIT;
            int64_t length = 9, cells = length * shapes[i].heads * shapes[i].V;
            struct pass p = {.sequences = 1, .block = 4, .which = zeros, .first = zeros};
            p.length = &length;
            p.form = (enum mla_form)form;
            p.sharpness = 1e5;
            struct run run = op_run(&a, "math", PRECISION_F64);
            double *y = attend(&a, &shapes[i], &p, &run);
            for (int64_t j = 0; j < cells; j++) assert_true(isfinite(y[j]));
            arena_release(&a, NULL);
        }
    }
}

static void mla_core_check__refuses__when_a_row_or_the_cache_does_not_fit(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache cache;
    const int64_t lengths[2] = {3, 5};
    if (cache_make(&cache, &a, 1, 2, lengths, 2, 6, 0, &err) != ERR_OK) assert_ok(&err);
    cache.length[0] = 3;
    cache.length[1] = 2;
    int32_t sequence[2] = {0, 1};
    int64_t position[2] = {2, 1};
    struct rows rows = {.count = 2, .sequence = sequence, .position = position};
    struct matrix kv_b = random_matrix(&a, 82, "kv_b", DT_BF16, 2 * (3 + 2), 4, 1.0);
    const struct mla_core good = {.heads = 2,
                                  .P = 3,
                                  .R = 2,
                                  .V = 2,
                                  .L = 4,
                                  .scale = 1,
                                  .rows = &rows,
                                  .kv_b = &kv_b,
                                  .cache = &cache,
                                  .q = space(&a, 20),
                                  .y = space(&a, 8)};
    struct mla_core op = good;
    assert_int_equal(mla_core_check(&op, &err), ERR_OK);
    position[1] = 2; /* inside the room, behind the length */
    assert_refused(mla_core_check(&op, &err), &err,
                   "row 1: found position 2, wanted inside the 2 cached");
    position[1] = -1;
    assert_refused(mla_core_check(&op, &err), &err, "position -1");
    position[1] = 0;
    sequence[1] = 2;
    assert_refused(mla_core_check(&op, &err), &err, "sequence 2");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(mla_core_ref(&op, &run, &err), &err, "sequence 2");
    sequence[1] = 1;
    op.L = 5;
    assert_refused(mla_core_check(&op, &err), &err, "found entries of 6, wanted 7");
    op = good;
    op.V = 3;
    assert_refused(mla_core_check(&op, &err), &err, "kv_b: found [10, 4], wanted [12, 4]");
    op.heads = 0;
    assert_refused(mla_core_check(&op, &err), &err, "heads = 0");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mla_core_ref__equals_plain_loops__in_both_forms_of_every_profile),
        cmocka_unit_test(mla_core_ref__agrees_between_absorbed_and_expanded__to_1e_12),
        cmocka_unit_test(mla_core_ref__gives_the_same_bits__in_chunks_and_whole),
        cmocka_unit_test(mla_core_ref__gives_the_same_bits__with_any_block_size_and_deal),
        cmocka_unit_test(
            mla_core_ref__gives_a_sequence_the_same_bits__alone_and_in_a_batch_of_unequal_lengths),
        cmocka_unit_test(mla_core_ref__gives_the_same_bits__when_rows_of_the_sequences_alternate),
        cmocka_unit_test(mla_core_ref__gives_the_value_itself__when_there_is_one_token),
        cmocka_unit_test(mla_core_ref__stays_finite__when_scores_are_in_the_thousands),
        cmocka_unit_test(mla_core_check__refuses__when_a_row_or_the_cache_does_not_fit),
    };
    return cmocka_run_group_tests_name("mla_core", tests, NULL, NULL);
}
