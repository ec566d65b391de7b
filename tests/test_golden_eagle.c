/* test_golden_eagle.c: draft heads against outside implementations (speculators 0.3.0's layers,
 * transformers' MLA), fed from the reference's own target; and that every choice of the wiring
 * matters: the heads with one thing wrong are far off. */
#include "tests/eagle_case.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

/* A wrong wiring must move the result at least this far: a hundred times the bound of a right one.
 */
#define FAR 5e-3

static void drafts__match_golden__llama_with_grouped_keys_and_a_draft_vocabulary(void **state)
{
    (void)state;
    eagle_case_check(&eagle_llama, PRECISION_F32);
    eagle_case_check(&eagle_llama, PRECISION_F64);
}

static void drafts__match_golden__norm_before_residual_and_aux_of_the_last_layer(void **state)
{
    (void)state;
    eagle_case_check(&eagle_llama_nbr, PRECISION_F32);
    eagle_case_check(&eagle_llama_nbr, PRECISION_F64);
}

static void drafts__match_golden__mla(void **state)
{
    (void)state;
    eagle_case_check(&eagle_mla, PRECISION_F32);
    eagle_case_check(&eagle_mla, PRECISION_F64);
}

static void drafts__match_golden__trained_head_in_files(void **state)
{
    (void)state;
    eagle_case_check(&eagle_trained, PRECISION_F32);
    eagle_case_check(&eagle_trained, PRECISION_F64);
}

/* ---- heads with one thing wrong ---- */

static const struct eagle_spec *const specs[] = {&eagle_llama, &eagle_llama_nbr, &eagle_mla,
                                                 &eagle_trained};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* A dense bf16 matrix whose left and right halves of columns have changed places. */
static struct matrix halves_swapped(const struct matrix *m, void **owned)
{
    struct matrix out = *m;
    size_t half = (size_t)m->in / 2 * sizeof(uint16_t);
    unsigned char *made = malloc((size_t)m->out * 2 * half), *data = malloc(2 * half);
    assert_int_equal(m->format, MATRIX_DENSE);
    assert_int_equal(m->data.dtype, DT_BF16);
    assert_true(made && data);
    for (int64_t r = 0; r < m->out; r++) {
        const unsigned char *row = tensor_elements(&m->data, r * m->in, m->in, data);
        memcpy(made + (size_t)r * 2 * half, row + half, half);
        memcpy(made + (size_t)r * 2 * half + half, row, half);
    }
    out.data.data = made;
    free(data);
    *owned = made;
    return out;
}

enum mistake {
    NOTHING_WRONG,
    HALVES_SWAPPED, /* [hidden | embedding] */
    AUX_REVERSED,   /* high | mid | low */
    AUX_ONE_LATER,  /* low | mid | mid: a neighbour taken for the last one */
    OTHER_RESIDUAL, /* the skip path starts at the other of h and norm(h) */
    FEEDS_NORMED,   /* what EAGLE-3.1 feeds back */
    NO_FC,          /* the last aux state in fc's place */
    ROWS_LATE,      /* the aux states of the token itself */
    LAYER_NORMS,    /* the norms of embedding and hidden state changed places */
    MISTAKES
};

static void swap_columns(struct head *h, void *owned[4])
{
    struct head_layer *l = &h->layers[0];
    if (h->config.kind == HEAD_MLA) {
        l->q_a = halves_swapped(&l->q_a, &owned[0]);
        l->kv_a = halves_swapped(&l->kv_a, &owned[1]);
        return;
    }
    l->q = halves_swapped(&l->q, &owned[0]);
    l->k = halves_swapped(&l->k, &owned[1]);
    l->v = halves_swapped(&l->v, &owned[2]);
}

/* The aux states that the mistaken head is given. */
static double *aux_of(const struct eagle_case *c, enum mistake m)
{
    int64_t H = c->states.hidden, n = c->states.count;
    double *aux = malloc((size_t)(c->tokens.count * n * H) * sizeof *aux);
    assert_non_null(aux);
    for (int64_t p = 0; p < c->tokens.count; p++) {
        for (int64_t k = 0; k < n; k++) {
            int64_t from = m == AUX_REVERSED ? n - 1 - k : m == AUX_ONE_LATER && k == n - 1 ? 1 : k;
            int64_t row = m == ROWS_LATE && p + 1 < c->tokens.count ? p + 1 : p;
            memcpy(aux + (p * n + k) * H, c->states.data + (row * n + from) * H,
                   (size_t)H * sizeof *aux);
        }
    }
    return aux;
}

/* A matrix that gives back the last aux state: fc skipped. */
static struct matrix identity_of_last(const struct matrix *fc, void **owned)
{
    struct matrix out = *fc;
    uint16_t *made = calloc((size_t)(fc->out * fc->in), sizeof *made);
    assert_non_null(made);
    for (int64_t r = 0; r < fc->out; r++)
        made[r * fc->in + fc->in - fc->out + r] = bf16_from_f32(1);
    out.data.data = made;
    *owned = made;
    return out;
}

static double distance_with(struct eagle_case *c, enum mistake m, int64_t *tokens)
{
    struct head h = c->head;
    struct head_layer *l = &h.layers[0];
    struct eagle_drafts d;
    void *owned[4] = {NULL};
    double *aux = aux_of(c, m);
    if (m == HALVES_SWAPPED) swap_columns(&h, owned);
    if (m == OTHER_RESIDUAL) h.config.norm_before_residual = !h.config.norm_before_residual;
    if (m == FEEDS_NORMED) h.config.norm_output = !h.config.norm_output;
    if (m == NO_FC) h.fc = identity_of_last(&h.fc, &owned[3]);
    if (m == LAYER_NORMS) {
        struct tensor t = l->embed_norm;
        l->embed_norm = l->hidden_norm;
        l->hidden_norm = t;
    }
    eagle_case_draft(c, &h, aux, NULL, &d);
    double far = eagle_case_distance(c, &d, tokens);
    eagle_drafts_free(&d);
    for (int i = 0; i < 4; i++) free(owned[i]);
    free(aux);
    return far;
}

static void every_choice_of_the_wiring__matters(void **state)
{
    (void)state;
    for (int i = 0; i < SPECS; i++) {
        struct eagle_case c;
        struct session_options o = session_defaults();
        eagle_case_open(&c, specs[i], &o);
        for (int m = 0; m < MISTAKES; m++) {
            int64_t tokens;
            double far = distance_with(&c, (enum mistake)m, &tokens);
            if (m == NOTHING_WRONG ? far <= 5e-5 && tokens == 0 : far >= FAR) continue;
            fail_msg("%s: mistake %d moves the result by %g", specs[i]->name, m, far);
        }
        eagle_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts__match_golden__llama_with_grouped_keys_and_a_draft_vocabulary),
        cmocka_unit_test(drafts__match_golden__norm_before_residual_and_aux_of_the_last_layer),
        cmocka_unit_test(drafts__match_golden__mla),
        cmocka_unit_test(drafts__match_golden__trained_head_in_files),
        cmocka_unit_test(every_choice_of_the_wiring__matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
