/* test_fault_eagle.c: each fault of a draft head gives what a calculation of the test's own gives,
 * where it says and nowhere else; faults of the verification, token by token. That they are caught
 * and named: test_diff_head.c, test_law.c, test_campaign.c. */
#include "core/eagle.h"
#include "core/fault.h"
#include "core/logits.h"
#include "tests/eagle_case.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs an op of the bench at a place in a draft; `draft` may be NULL. */
static void run_at(struct fault_bench *b, const char *fault, const void *arg,
                   const struct draft_step *draft)
{
    struct err err = ERR_INIT;
    struct faults faults = {0};
    const struct fault_place place = {
        .op = b->c.op->name, .layer = -1, .side = ref_side(), .draft = draft};
    if (fault && faults_add(&faults, fault, &err) != ERR_OK) assert_ok(&err);
    b->run.faults = &faults;
    (void)!fault_call(&place, arg, &b->run, &err);
    assert_ok(&err);
    b->run.faults = NULL;
    faults_clear(&faults);
}

static double *copy_of(const double *x, int64_t n)
{
    double *out = malloc((size_t)n * sizeof *out);
    assert_non_null(out);
    memcpy(out, x, (size_t)n * sizeof *out);
    return out;
}

/* ---- eagle.fc ---- */

static void check_order(const char *fault, const int from[3])
{
    struct fault_bench b;
    bench_open(&b, "eagle.fc T=4,H=10,Ht=6,aux=3,norm=none");
    const struct eagle_fc *op = b.data.op;
    double *aux = copy_of(op->aux, op->T * 18);
    for (int64_t i = 0; i < op->T * 3; i++)
        memcpy(aux + i * 6, op->aux + (i / 3 * 3 + from[i % 3]) * 6, 6 * sizeof *aux);
    const double *want = bench_product(&b, aux, op->T, bench_values(&b, &op->head->fc), 10, 18);
    bench_run(&b, fault);
    assert_near(fault, op->y, want, op->T * 10);
    free(aux);
    bench_close(&b);
}

static void aux_order__exchanges_the_states(void **state)
{
    (void)state;
    check_order("eagle.aux_order", (const int[]){2, 1, 0});
    check_order("eagle.aux_order@order=1", (const int[]){1, 2, 0});
    check_order("eagle.aux_order@order=2", (const int[]){2, 0, 1});
    check_order("eagle.aux_order@order=3", (const int[]){1, 0, 2});
    check_order("eagle.aux_order@order=4", (const int[]){0, 2, 1});
}

static void fc_skipped__hands_on_one_state(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        struct fault_bench b;
        bench_open(&b, wide ? "eagle.fc T=3,H=5,Ht=7,aux=3" : "eagle.fc T=3,H=7,Ht=5,aux=3");
        const struct eagle_fc *op = b.data.op;
        int64_t H = wide ? 5 : 7, Ht = 12 - H;
        for (int slice = -1; slice < 3; slice++) {
            char fault[64];
            snprintf(fault, sizeof fault, slice < 0 ? "eagle.fc_skipped" : "%s@slice=%d",
                     "eagle.fc_skipped", slice);
            bench_run(&b, fault);
            int64_t at = slice < 0 ? 2 : slice;
            for (int64_t i = 0; i < op->T * H; i++) {
                double want = i % H < Ht ? op->aux[(i / H * 3 + at) * Ht + i % H] : 0;
                assert_true(op->y[i] == want);
            }
        }
        bench_close(&b);
    }
}

static void aux_off_by_one__takes_the_neighbour_that_the_step_has(void **state)
{
    (void)state;
    struct fault_bench b;
    bench_open(&b, "eagle.fc T=3,H=8,Ht=4,aux=3");
    const struct eagle_fc *op = b.data.op;
    double *near[2] = {copy_of(op->aux, op->T * 12), copy_of(op->aux, op->T * 12)};
    for (int64_t i = 0; i < op->T * 12; i++) {
        near[0][i] += 1;
        near[1][i] *= -2;
    }
    const struct draft_step step = {.aux = op->aux, .aux_near = {near[0], near[1]}},
                            none = {.aux = op->aux};
    for (int by = -1; by < 3; by++) {
        const double *from = by == 0 ? near[0] : by == 1 ? near[1] : op->aux;
        const double *want = bench_product(&b, from, op->T, bench_values(&b, &op->head->fc), 8, 12);
        run_at(&b, by == 0 ? "eagle.aux_off_by_one@by=-1" : "eagle.aux_off_by_one", op,
               by < 0    ? NULL
               : by == 2 ? &none
                         : &step);
        assert_near("aux_off_by_one", op->y, want, op->T * 8);
    }
    free(near[0]);
    free(near[1]);
    bench_close(&b);
}

/* ---- eagle.layer ---- */

enum { ROWS = 5, WIDE = 32 };
#define PLAIN "eagle.layer rows=5,H=32"
#define OF_MLA "eagle.layer rows=5,H=32,kind=mla,qk_norm=0"

/* What the op of a line gives on edited inputs, without a fault; the caller's. */
static double *clean(const char *line, void (*edit)(struct eagle_layer *op))
{
    struct fault_bench b;
    bench_open(&b, line);
    struct eagle_layer *op = b.data.op;
    if (edit) edit(op);
    run_at(&b, NULL, op, NULL);
    double *y = copy_of(op->y, ROWS * WIDE);
    bench_close(&b);
    return y;
}

/* And under a fault, at a place. */
static double *faulted(const char *line, const char *fault, const struct draft_step *at,
                       void (*edit)(struct eagle_layer *op))
{
    struct fault_bench b;
    bench_open(&b, line);
    struct eagle_layer *op = b.data.op;
    if (edit) edit(op);
    run_at(&b, fault, op, at);
    double *y = copy_of(op->y, ROWS * WIDE);
    bench_close(&b);
    return y;
}

static void same(const char *what, double *got, double *want)
{
    assert_near(what, got, want, ROWS * WIDE);
    free(got);
    free(want);
}

static void differ(const char *what, double *a, double *b)
{
    double most = 0;
    for (int i = 0; i < ROWS * WIDE; i++) most = fmax(most, fabs(a[i] - b[i]));
    if (!(most > 1e-3)) fail_msg("%s: differs by %g", what, most);
    free(a);
    free(b);
}

static double edited[ROWS * WIDE];

/* Row i with the embedding of row i - 1; the first keeps its own. */
static void shift_back(struct eagle_layer *op)
{
    memcpy(edited, op->embed, WIDE * sizeof *edited);
    memcpy(edited + WIDE, op->embed, (ROWS - 1) * WIDE * sizeof *edited);
    op->embed = edited;
}

static void no_shift__pairs_a_row_with_its_own_token__in_the_first_step(void **state)
{
    const double aux = 0;
    const struct draft_step first = {.aux = &aux}, second = {.number = 1};
    (void)state;
    same("alone", faulted(PLAIN, "eagle.no_shift", NULL, NULL), clean(PLAIN, shift_back));
    same("first", faulted(PLAIN, "eagle.no_shift", &first, NULL), clean(PLAIN, shift_back));
    same("second", faulted(PLAIN, "eagle.no_shift", &second, NULL), clean(PLAIN, NULL));
    same("another", faulted(PLAIN, "eagle.no_shift@draft_step=1", &first, NULL),
         clean(PLAIN, NULL));
    differ("no shift", clean(PLAIN, shift_back), clean(PLAIN, NULL));
}

static void residual_normed__is_the_other_flag(void **state)
{
    static const char *const lines[2][2] = {{PLAIN, PLAIN ",residual=normed"},
                                            {OF_MLA, OF_MLA ",residual=normed"}};
    (void)state;
    for (int i = 0; i < 4; i++)
        same("other flag", faulted(lines[i / 2][i % 2], "eagle.residual_normed", NULL, NULL),
             clean(lines[i / 2][1 - i % 2], NULL));
}

/* Without an mlp the output is residual + attention. Inputs and their norms exchanged give the
 * attention of exchanged halves, on the other residual. */
static void no_mlp(struct eagle_layer *op)
{
    static const unsigned char zeros[1 << 16];
    struct head_layer *l = &((struct head *)(uintptr_t)op->head)->layers[0];
    l->down.data.data = zeros;
}

static void exchange(struct eagle_layer *op)
{
    struct head_layer *l = &((struct head *)(uintptr_t)op->head)->layers[0];
    const struct tensor norm = l->embed_norm;
    const double *embed = op->embed;
    no_mlp(op);
    l->embed_norm = l->hidden_norm;
    l->hidden_norm = norm;
    op->embed = op->hidden;
    op->hidden = embed;
}

static void check_swapped(const char *line)
{
    struct fault_bench b;
    bench_open(&b, line);
    const struct eagle_layer *op = b.data.op;
    double *got = faulted(line, "eagle.concat_swapped", NULL, no_mlp),
           *want = clean(line, exchange);
    for (int i = 0; i < ROWS * WIDE; i++) want[i] += op->hidden[i] - op->embed[i];
    same(line, got, want);
    differ(line, faulted(line, "eagle.concat_swapped", NULL, NULL), clean(line, NULL));
    bench_close(&b);
}

static void concat_swapped__reads_the_halves_the_other_way_round(void **state)
{
    (void)state;
    check_swapped(PLAIN);
    check_swapped(OF_MLA);
    check_swapped(OF_MLA ",q_lora=0");
    same("further layer", faulted(PLAIN ",layer=1", "eagle.concat_swapped", NULL, NULL),
         clean(PLAIN ",layer=1", NULL));
}

/* x / sqrt(mean x^2 + eps) * w */
static void norm_hidden(struct eagle_layer *op)
{
    const struct tensor *w = &op->head->norm;
    for (int64_t t = 0; t < ROWS; t++) {
        double sum = 0, weight;
        for (int64_t i = 0; i < WIDE; i++)
            sum += op->hidden[t * WIDE + i] * op->hidden[t * WIDE + i];
        for (int64_t i = 0; i < WIDE; i++) {
            char raw[8];
            dtype_to_f64(w->dtype, tensor_elements(w, i, 1, raw), 1, &weight);
            edited[t * WIDE + i] = op->hidden[t * WIDE + i] /
                                   sqrt(sum / WIDE + op->head->config.base.norm_eps) * weight;
        }
    }
    op->hidden = edited;
}

static void normed_already(struct eagle_layer *op)
{
    ((struct head *)(uintptr_t)op->head)->config.norm_output = true;
}

static void feedback_post_norm__norms_what_is_fed_back__and_no_fc_output(void **state)
{
    const double aux = 0;
    const struct draft_step first = {.aux = &aux}, second = {.number = 1};
    const char *fault = "eagle.feedback_post_norm";
    (void)state;
    same("fed back", faulted(PLAIN, fault, &second, NULL), clean(PLAIN, norm_hidden));
    same("alone", faulted(PLAIN, fault, NULL, NULL), clean(PLAIN, norm_hidden));
    same("first step", faulted(PLAIN, fault, &first, NULL), clean(PLAIN, NULL));
    same("EAGLE-3.1", faulted(PLAIN, fault, &second, normed_already), clean(PLAIN, NULL));
    differ("norm", clean(PLAIN, norm_hidden), clean(PLAIN, NULL));
}

/* ---- a head on known tokens ---- */

static void draft_under(struct eagle_case *c, const char *fault, struct eagle_drafts *out)
{
    struct err err = ERR_INIT;
    struct faults faults = {0};
    if (faults_add(&faults, fault, &err) != ERR_OK) assert_ok(&err);
    c->session.run.faults = &faults;
    eagle_case_draft(c, &c->head, NULL, NULL, out);
    c->session.run.faults = NULL;
    faults_clear(&faults);
}

static bool same_bits(const struct eagle_drafts *a, const struct eagle_drafts *b, int64_t s)
{
    size_t rows = (size_t)a->rows;
    return memcmp(a->hidden[s], b->hidden[s], rows * (size_t)a->H * sizeof(double)) == 0 &&
           memcmp(a->logits[s], b->logits[s], rows * (size_t)a->V * sizeof(double)) == 0 &&
           memcmp(a->token[s], b->token[s], rows * sizeof(int32_t)) == 0;
}

static void open_case(struct eagle_case *c, const struct eagle_spec *spec)
{
    struct session_options o = session_defaults();
    o.precision = PRECISION_F64;
    eagle_case_open(c, spec, &o);
}

/* The first step over a text in which every token is the one before it. */
static void no_shift__is_a_head_on_the_text_itself__from_the_first_row_on(void **state)
{
    struct eagle_case c;
    struct eagle_drafts wrong, text;
    (void)state;
    open_case(&c, &eagle_llama);
    draft_under(&c, "eagle.no_shift", &wrong);
    memmove(c.tokens.id + 1, c.tokens.id, (size_t)c.rows * sizeof *c.tokens.id);
    eagle_case_draft(&c, &c.head, NULL, NULL, &text);
    assert_true(same_bits(&wrong, &text, 0) && same_bits(&wrong, &text, 1));
    eagle_drafts_free(&wrong);
    eagle_drafts_free(&text);
    eagle_case_close(&c);
}

/* Plain rows behind the first true one, each fed what the clean first step left in the row before
 * it: row k of it sees one true entry and guesses, as row k - 1 of the second step does. */
static void guessed_rows(struct eagle_case *c, const struct eagle_drafts *d, double *out)
{
    struct err err = ERR_INIT;
    struct arena *a = &c->session.arena;
    const struct head_config *h = &c->head.config;
    struct cache cache;
    int64_t n = c->rows + 1, position[128], token[128], H = h->base.hidden;
    int32_t sequence[128] = {0};
    assert_true(n <= 128);
    for (int64_t k = 0; k < n; k++) {
        position[k] = k;
        token[k] = k == 0 ? c->tokens.id[1] : d->token[0][k - 1];
    }
    (void)!cache_make(&cache, a, h->base.layers, 1, &n, 7, head_cache_width(h), 1, &err);
    assert_ok(&err);
    struct rows rows = {.count = 1,
                        .sequence = sequence,
                        .position = position,
                        .token = token,
                        .dump_row = position};
    const struct draft_step first = {
        .head = &c->head, .cache = &cache, .rows = &rows, .aux = c->states.data};
    if (draft_step_ref(&first, &c->session.run, &err) != ERR_OK) assert_ok(&err);
    const struct rows later = {.count = n - 1,
                               .sequence = sequence,
                               .position = position + 1,
                               .token = token + 1,
                               .dump_row = position};
    const struct draft_step second = {.head = &c->head,
                                      .cache = &cache,
                                      .rows = &later,
                                      .hidden = d->hidden[0],
                                      .number = 1,
                                      .out = out};
    if (draft_step_ref(&second, &c->session.run, &err) != ERR_OK) assert_ok(&err);
    assert_true(h->base.layers == 1 && !h->norm_output && H > 0);
}

static void check_stale(const struct eagle_spec *spec)
{
    struct eagle_case c;
    struct eagle_drafts right, wrong, one;
    open_case(&c, spec);
    eagle_case_draft(&c, &c.head, NULL, NULL, &right);
    draft_under(&c, "eagle.stale_draft_kv@draft_step=1", &wrong);
    draft_under(&c, "eagle.stale_draft_kv@draft_step=1,slot=4", &one);
    int64_t H = right.H;
    double *want = calloc((size_t)(c.rows * H), sizeof *want);
    guessed_rows(&c, &right, want);
    assert_near(spec->name, wrong.hidden[1], want, c.rows * H);
    assert_true(same_bits(&wrong, &right, 0));
    assert_false(same_bits(&wrong, &right, 1));
    /* One slot: rows before it do not see it. */
    assert_memory_equal(one.hidden[1], right.hidden[1], (size_t)(4 * H) * sizeof *want);
    for (int64_t p = 4; p < c.rows; p++)
        assert_memory_not_equal(one.hidden[1] + p * H, right.hidden[1] + p * H,
                                (size_t)H * sizeof *want);
    free(want);
    eagle_drafts_free(&right);
    eagle_drafts_free(&wrong);
    eagle_drafts_free(&one);
    eagle_case_close(&c);
}

static void stale_draft_kv__shows_rows_what_the_chain_before_them_guessed(void **state)
{
    (void)state;
    check_stale(&eagle_llama);
    check_stale(&eagle_mla);
}

static void d2t_absolute__takes_the_offset_for_the_id__and_feeds_it(void **state)
{
    struct eagle_case c;
    struct eagle_drafts right, wrong;
    (void)state;
    open_case(&c, &eagle_llama);
    eagle_case_draft(&c, &c.head, NULL, NULL, &right);
    draft_under(&c, "eagle.d2t_absolute", &wrong);
    int64_t moved = 0;
    assert_memory_equal(wrong.logits[0], right.logits[0],
                        (size_t)(right.rows * right.V) * sizeof(double));
    for (int64_t p = 0; p < right.rows; p++) {
        double margin;
        int64_t id = logits_argmax(right.logits[0] + p * right.V, right.V, &margin);
        assert_int_equal(right.token[0][p], c.head.target_id[id]);
        assert_int_equal(wrong.token[0][p], c.head.target_id[id] - id);
        moved += id > 0;
    }
    assert_true(moved > 0);
    assert_false(same_bits(&wrong, &right, 1));
    eagle_drafts_free(&wrong);
    draft_under(&c, "eagle.d2t_absolute@draft_step=1", &wrong);
    assert_true(same_bits(&wrong, &right, 0) && !same_bits(&wrong, &right, 1));
    eagle_drafts_free(&wrong);
    eagle_drafts_free(&right);
    eagle_case_close(&c);
}

/* A site that does not come leaves every bit as it is: the seam alone changes nothing. */
static void fault_of_another_step__changes_no_bit(void **state)
{
    struct eagle_case c;
    struct eagle_drafts right, wrong;
    (void)state;
    open_case(&c, &eagle_mla);
    eagle_case_draft(&c, &c.head, NULL, NULL, &right);
    draft_under(&c, "any.zero_row@draft_step=7", &wrong);
    for (int64_t s = 0; s < right.steps; s++) assert_true(same_bits(&wrong, &right, s));
    eagle_drafts_free(&wrong);
    draft_under(&c, "any.zero_row@op=eagle.layer,draft_step=1,row=3", &wrong);
    assert_true(same_bits(&wrong, &right, 0));
    for (int64_t i = 0; i < right.H; i++) assert_true(wrong.hidden[1][3 * right.H + i] == 0);
    eagle_drafts_free(&wrong);
    draft_under(&c, "any.zero_row@op=eagle.layer,layer=1,row=3", &wrong); /* of the target */
    for (int64_t s = 0; s < right.steps; s++) assert_true(same_bits(&wrong, &right, s));
    eagle_drafts_free(&wrong);
    eagle_drafts_free(&right);
    eagle_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aux_order__exchanges_the_states),
        cmocka_unit_test(fc_skipped__hands_on_one_state),
        cmocka_unit_test(aux_off_by_one__takes_the_neighbour_that_the_step_has),
        cmocka_unit_test(no_shift__pairs_a_row_with_its_own_token__in_the_first_step),
        cmocka_unit_test(residual_normed__is_the_other_flag),
        cmocka_unit_test(concat_swapped__reads_the_halves_the_other_way_round),
        cmocka_unit_test(feedback_post_norm__norms_what_is_fed_back__and_no_fc_output),
        cmocka_unit_test(no_shift__is_a_head_on_the_text_itself__from_the_first_row_on),
        cmocka_unit_test(stale_draft_kv__shows_rows_what_the_chain_before_them_guessed),
        cmocka_unit_test(d2t_absolute__takes_the_offset_for_the_id__and_feeds_it),
        cmocka_unit_test(fault_of_another_step__changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
