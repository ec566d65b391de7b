/* test_inspect_samples.c: what an inspection of training samples finds: each fault planted in the
 * fixture's samples, and nothing in clean ones. */
#include "tests/findings.h"
#include "tests/tampered.h"

#include <math.h>
#include <string.h>

#define MODEL FIXTURE("tiny-k25")

static struct tampered samples;

/* ---- running ---- */

static json_t *spoilt(void **state, bool beside)
{
    static int serial;
    const char *folder = folder_path(state, textf("s%d", serial++));
    tampered_write(&samples, folder, beside);
    return samples_inspected(folder, MODEL, NULL);
}

/* ---- clean ---- */

static void entries_are(const json_t *r, const int64_t want[4], const char *last_norm)
{
    const json_t *states = field(r, "states");
    assert_int_equal(json_array_size(states), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *o = json_array_get(states, i);
        assert_int_equal(field_int(o, "stored"), i);
        assert_int_equal(field_int(o, "entry"), want[i]);
        assert_string_equal(field_text(o, "norm"), i < 3 ? "none" : last_norm);
        /* Storage in bfloat16 and the reference's own bound, no more. */
        assert_true(json_real_value(field(o, "error")) <= dtype_unit(DT_BF16) + MATCH_REFERENCE);
        assert_true(json_real_value(field(field(o, "next_best"), "error")) > 0.1);
    }
}

static void fixtures__hold__in_all_formats(void **state)
{
    static const int64_t want[4] = {2, 3, 5, 6};
    static const char *const folders[] = {"speculators-v03", "vllm", "specforge"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        json_t *r = samples_inspected(textf(FIXTURE("samples/%s"), folders[i]), MODEL, NULL);
        problems_are(r, 0);
        entries_are(r, want, i == 2 ? "final" : "none");
        assert_true(notes_hold(r, "serve with eagle_aux_hidden_state_layer_ids = [2, 3, 5]"));
        assert_int_equal(field_int(r, "recomputed_rows"), 72);
        json_decref(r);
    }
}

static void verb__prints_states_and_layers(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "inspect", FIXTURE("samples/vllm"), "--model", MODEL);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "PASS: samples, 10 tensors"));
    assert_non_null(strstr(r.out, "state 0: entry 2, output of layer 1, error"));
    assert_non_null(strstr(r.out, "note: states are outputs of layers 1, 2, 4"));
    cli_free(&r);
    json_t *one =
        cli_passes("inspect", FIXTURE("samples/speculators-v03/data_1.pt"), "--model", MODEL);
    assert_string_equal(field_text(one, "kind"), "samples");
    assert_int_equal(field_int(one, "samples"), 1);
    json_decref(one);
}

static void without_a_model__says_what_was_not_checked(void **state)
{
    (void)state;
    json_t *r = samples_inspected(FIXTURE("samples/vllm"), NULL, NULL);
    problems_are(r, 0);
    assert_true(notes_hold(r, "no --model"));
    json_decref(r);
}

static void part__is_said__when_rows_or_samples_are_left_out(void **state)
{
    const struct samples_options few = {.count = 1, .rows = 20, .threads = 1};
    (void)state;
    json_t *r = samples_inspected(FIXTURE("samples/vllm"), MODEL, &few);
    problems_are(r, 0);
    assert_true(notes_hold(r, "1 of 2 samples were read"));
    assert_true(notes_hold(r, "20 of 48 rows were recomputed"));
    json_decref(r);
}

/* ---- layers ---- */

static void claim__is_held_against_the_states(void **state)
{
    static const struct {
        const char *ids, *cause;
    } claims[] = {
        {"[0, 1, 3, 5]", "one later than data_config.json says (entries 1, 2, 4)"},
        {"[2, 3, 5, 5]", "one earlier than data_config.json says (entries 3, 4, 6)"},
        {"[0, 2, 4, 5]", "others than data_config.json says (entries 1, 3, 5)"},
        {"[1, 2]", "claims 2 layers, the samples hold 4 states"},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        tampered_read(&samples, SAMPLE_V03);
        samples.claim = textf("{\"hidden_states\": {\"layer_ids\": %s}}", claims[i].ids);
        json_t *r = spoilt(state, true);
        problems_are(r, 1);
        finds(r, "aux layers", claims[i].cause, i < 3 ? "layer_ids = [2, 3, 5]" : "");
        json_decref(r);
    }
}

static void swap_states(int a, int b, int from)
{
    for (int i = from; i < samples.count; i++) {
        struct tampered_sample *s = &samples.sample[i];
        uint16_t kept[TAMPERED_ROWS][TAMPERED_WIDTH];
        memcpy(kept, s->state[a], sizeof kept);
        memcpy(s->state[a], s->state[b], sizeof kept);
        memcpy(s->state[b], kept, sizeof kept);
    }
}

static void states__swapped__are_found(void **state)
{
    for (int f = 0; f < SAMPLE_FORMATS; f++) {
        tampered_read(&samples, (enum sample_format)f);
        swap_states(0, 2, 0);
        json_t *r = spoilt(state, true);
        problems_are(r, 1);
        finds(r, "states swapped", "states 0 and 2 are swapped: entries 5, 3, 2, 6",
              "ascending layer");
        json_decref(r);
    }
}

static void states__of_one_sample__are_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    swap_states(0, 1, 1);
    json_t *r = spoilt(state, true);
    finds(r, "another layer than in the other samples", "state 0 is entry 3", "");
    json_decref(r);
}

static void last_state__normed__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    tampered_norm_last(&samples);
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "norm of the last state", "after the final norm", "apply it twice");
    entries_are(r, (const int64_t[]){2, 3, 5, 6}, "final");
    json_decref(r);
}

static void last_state__not_normed__is_found__where_it_should_be(void **state)
{
    struct tampered plain;
    tampered_read(&plain, SAMPLE_VLLM);
    samples = plain;
    samples.format = SAMPLE_SPECFORGE;
    json_t *r = spoilt(state, false);
    problems_are(r, 1);
    finds(r, "norm of the last state", "before the final norm", "apply the target's final norm");
    json_decref(r);
}

static void last_state__one_block_early__is_found(void **state)
{
    tampered_make(&samples, 2, (const int64_t[]){1, 3, 4, 5});
    samples.format = SAMPLE_VLLM;
    json_t *r = spoilt(state, false);
    problems_are(r, 1);
    finds(r, "last state", "entry 5 (output of layer 4), one block early", "ask for entry id 6");
    json_decref(r);
}

static void state__twice__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    for (int i = 0; i < samples.count; i++)
        memcpy(samples.sample[i].state[1], samples.sample[i].state[0],
               sizeof samples.sample[i].state[0]);
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "a state twice", "entry 2 stands twice", "ask for different layers");
    json_decref(r);
}

/* ---- rows ---- */

static void move_rows(struct tampered_sample *s, int64_t by)
{
    for (int k = 0; k < s->states; k++) {
        uint16_t kept[TAMPERED_ROWS][TAMPERED_WIDTH];
        memcpy(kept, s->state[k], sizeof kept);
        for (int64_t p = 0; p < s->rows; p++)
            memcpy(s->state[k][p], kept[(p + by + s->rows) % s->rows], sizeof kept[0]);
    }
}

static void rows__shifted__are_found(void **state)
{
    for (int64_t by = -2; by <= 2; by++) {
        if (by == 0) continue;
        tampered_read(&samples, (enum sample_format)((by + 2) % SAMPLE_FORMATS));
        for (int i = 0; i < samples.count; i++) move_rows(&samples.sample[i], by);
        json_t *r = spoilt(state, true);
        problems_are(r, 2);
        finds(r, "rows shifted against tokens",
              textf("all states: row p holds what belongs to token p%+d", (int)by),
              "move the states by");
        json_decref(r);
    }
}

static void row__stale__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    memcpy(samples.sample[0].state[1][20], samples.sample[0].state[1][19],
           sizeof samples.sample[0].state[1][20]);
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "stale row", "state 1: row 20 holds what belongs to row 19", "extract");
    json_decref(r);
}

static void row__of_nothing_known__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < TAMPERED_WIDTH; j++)
            samples.sample[0].state[k][30][j] =
                bf16_from_f32((float)((j * 7919 + k) % 41 - 20) / 9);
    }
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "wrong rows", "all states: row 30: not what the model computes", "extract");
    json_decref(r);
}

/* One element a little off shows where all others are exact. */
static void row__slightly_off__is_found__beside_exact_ones(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    for (int j = 0; j < TAMPERED_WIDTH; j += 2) {
        uint16_t *x = &samples.sample[0].state[2][9][j];
        *x = bf16_from_f32(1.1f * bf16_to_f32(*x));
    }
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "wrong rows", "state 2: row 9", "extract");
    json_decref(r);
}

static void rows__permuted__are_found(void **state)
{
    tampered_make(&samples, 2, (const int64_t[]){1, 3, 5, 6});
    samples.format = SAMPLE_VLLM;
    struct tampered_sample *s = &samples.sample[0];
    for (int k = 0; k < 4; k++) {
        uint16_t kept[TAMPERED_ROWS][TAMPERED_WIDTH];
        memcpy(kept, s->state[k], sizeof kept);
        for (int64_t p = 0; p < s->rows; p++)
            memcpy(s->state[k][p], kept[(p * 5 + 3) % s->rows], sizeof kept[0]);
    }
    json_t *r = spoilt(state, false);
    problems_are(r, 1);
    finds(r, "rows permuted",
          "row 0 holds what belongs to row 3; row 1 holds what belongs to row 8", "another order");
    json_decref(r);
}

static void samples__mixed_up__are_found(void **state)
{
    tampered_make(&samples, 3, (const int64_t[]){1, 3, 5, 6});
    samples.format = SAMPLE_V03;
    struct tampered_sample kept = samples.sample[0];
    memcpy(samples.sample[0].state, samples.sample[2].state, sizeof kept.state);
    memcpy(samples.sample[2].state, kept.state, sizeof kept.state);
    json_t *r = spoilt(state, false);
    problems_are(r, 2);
    finds(r, "samples mixed up", "of data_2.pt", "one by one");
    finds(r, "samples mixed up", "of data_0.pt", "one by one");
    json_decref(r);
}

static void several_faults__are_all_found(void **state)
{
    tampered_make(&samples, 3, (const int64_t[]){1, 3, 5, 6});
    samples.format = SAMPLE_V03;
    tampered_norm_last(&samples);
    swap_states(0, 1, 0);
    move_rows(&samples.sample[1], 1);
    memset(samples.sample[2].mask, 0, sizeof samples.sample[2].mask);
    json_t *r = spoilt(state, false);
    problems_are(r, 4);
    finds(r, "norm of the last state", "after", "");
    finds(r, "states swapped", "0 and 1", "");
    finds(r, "rows shifted against tokens", "p+1", "");
    finds(r, "loss mask", "0 at all 32 tokens", "");
    json_decref(r);
}

/* ---- scale, rotation, other models ---- */

static void map_rows(void (*body)(const float *in, float *out))
{
    for (int i = 0; i < samples.count; i++) {
        for (int k = 0; k < 4; k++) {
            for (int64_t p = 0; p < samples.sample[i].rows; p++) {
                float in[TAMPERED_WIDTH], out[TAMPERED_WIDTH];
                uint16_t *row = samples.sample[i].state[k][p];
                for (int j = 0; j < TAMPERED_WIDTH; j++) in[j] = bf16_to_f32(row[j]);
                body(in, out);
                for (int j = 0; j < TAMPERED_WIDTH; j++) row[j] = bf16_from_f32(out[j]);
            }
        }
    }
}

static void scale_row(const float *in, float *out)
{
    for (int j = 0; j < TAMPERED_WIDTH; j++) out[j] = in[j] / 2.827f;
}

/* Rotates pairs of columns that lie half the width apart. */
static void turn_row(const float *in, float *out)
{
    for (int j = 0; j < TAMPERED_WIDTH / 2; j++) {
        float a = in[j], b = in[j + TAMPERED_WIDTH / 2];
        out[j] = 0.6f * a - 0.8f * b;
        out[j + TAMPERED_WIDTH / 2] = 0.8f * a + 0.6f * b;
    }
}

static void states__scaled__are_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    map_rows(scale_row);
    json_t *r = spoilt(state, true);
    problems_are(r, 8);
    finds(r, "scaled states", "state 3 is entry 6 times 0.3537, which is 1 / routed_scaling_factor",
          "multiply the states by 2.827");
    json_decref(r);
}

static void states__rotated__are_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    map_rows(turn_row);
    json_t *r = spoilt(state, true);
    problems_are(r, 8);
    finds(r, "rotated states", "state 0 has the scalar products of entry 2", "undo the rotation");
    json_decref(r);
}

/* What an engine's own rounding and flipped experts do is no finding. */
static void states__rounded_by_an_engine__hold(void **state)
{
    static const char *const engines[] = {"hf", "vllm", "sgl"};
    for (int i = 0; i < 3; i++) {
        tampered_make_as(&samples, 2, (const int64_t[]){1, 3, 5, 6}, engines[i]);
        samples.format = SAMPLE_VLLM;
        json_t *r = spoilt(state, false);
        problems_are(r, 0);
        const json_t *last = json_array_get(field(r, "states"), 3);
        assert_true(json_real_value(field(last, "error")) > dtype_unit(DT_BF16));
        json_decref(r);
    }
}

static void blur_row(const float *in, float *out)
{
    double length = 0;
    for (int j = 0; j < TAMPERED_WIDTH; j++) length += in[j] * in[j];
    float size = (float)sqrt(length / TAMPERED_WIDTH);
    for (int j = 0; j < TAMPERED_WIDTH; j++)
        out[j] = in[j] + 0.5f * size * (float)((j * 7919 + (int)(in[j] * 4096)) % 3 - 1);
}

/* Uniform noise up to `most`, as trainers add to the states of one sample. */
static void add_noise(struct tampered_sample *s, float most)
{
    for (int k = 0; k < s->states; k++) {
        for (int64_t p = 0; p < s->rows; p++) {
            for (int j = 0; j < TAMPERED_WIDTH; j++) {
                int place = (int)((p * 7919 + j * 104729 + k * 31) % 2001) - 1000;
                uint16_t *cell = &s->state[k][p][j];
                *cell = bf16_from_f32(bf16_to_f32(*cell) + most * (float)place / 1000);
            }
        }
    }
}

static void states__with_a_trainers_noise__are_found_in_their_sample(void **state)
{
    for (int i = 0; i < 2; i++) {
        tampered_read(&samples, SAMPLE_VLLM);
        add_noise(&samples.sample[i], 0.2f);
        json_t *r = spoilt(state, true);
        problems_are(r, 4);
        finds(r, "noisy states", "state 0 is nearest to entry 2, but three quarters of the rows",
              "without a trainer's noise");
        json_decref(r);
    }
}

/* Moves one row by `share` of its length, in a direction that no other row has. */
static void move_row(uint16_t *row, float share)
{
    double length = 0;
    for (int j = 0; j < TAMPERED_WIDTH; j++) length += pow(bf16_to_f32(row[j]), 2);
    float step = share * (float)sqrt(length / TAMPERED_WIDTH);
    for (int j = 0; j < TAMPERED_WIDTH; j++)
        row[j] = bf16_from_f32(bf16_to_f32(row[j]) + ((j * 7919) % 13 % 2 ? step : -step));
}

/* A row as far off as flipped experts throw the reference's own is no finding; one further off is,
 * and so is the near one where all others are exact. */
static void row__as_far_off_as_flipped_experts__holds_where_others_are_rounded(void **state)
{
    static const struct {
        const char *engine;
        float share;
        int problems;
    } table[] = {{"hf", 0.8f, 0}, {"hf", 2.0f, 1}, {"math", 0.8f, 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tampered_make_as(&samples, 2, (const int64_t[]){1, 3, 5, 6}, table[i].engine);
        samples.format = SAMPLE_VLLM;
        move_row(samples.sample[1].state[3][9], table[i].share);
        json_t *r = spoilt(state, false);
        problems_are(r, table[i].problems);
        if (table[i].problems) finds(r, "wrong rows", "state 3: row 9", "");
        json_decref(r);
    }
}

/* Nearest to the right layers, and further from them than arithmetic explains. */
static void states__of_a_model_like_this_one__are_found(void **state)
{
    tampered_make(&samples, 2, (const int64_t[]){1, 2, 3, 6});
    samples.format = SAMPLE_VLLM;
    map_rows(blur_row);
    json_t *r = spoilt(state, false);
    finds(r, "states of another model", "state 0 is nearest to entry 1", "name the checkpoint");
    json_decref(r);
}

static void mean_row(struct tampered *t, const struct tampered *other)
{
    for (int i = 0; i < t->count; i++) {
        for (int64_t p = 0; p < t->sample[i].rows; p++) {
            for (int j = 0; j < TAMPERED_WIDTH; j++) {
                uint16_t *x = &t->sample[i].state[1][p][j];
                float y = bf16_to_f32(other->sample[i].state[1][p][j]);
                *x = bf16_from_f32(0.5f * (bf16_to_f32(*x) + y));
            }
        }
    }
}

/* Half-way between two layers: both are named. */
static void state__between_two_layers__is_said_to_be_either(void **state)
{
    static struct tampered other;
    for (int claimed = 0; claimed < 2; claimed++) {
        tampered_make(&samples, 2, (const int64_t[]){1, 3, 5, 6});
        tampered_make(&other, 2, (const int64_t[]){1, 4, 5, 6});
        mean_row(&samples, &other);
        samples.format = SAMPLE_V03;
        samples.claim = claimed ? "{\"hidden_states\": {\"layer_ids\": [0, 1, 4, 5]}}" : NULL;
        json_t *r = spoilt(state, false);
        if (claimed)
            finds(r, "aux layers", "state 1 may be entry", "data_config.json says entry 2");
        else
            assert_true(notes_hold(r, "state 1 may be entry"));
        json_decref(r);
    }
}

static void tokens__of_other_texts__fit_no_state(void **state)
{
    tampered_make(&samples, 3, (const int64_t[]){1, 3, 5, 6});
    samples.format = SAMPLE_VLLM;
    for (int64_t p = 0; p < samples.sample[0].rows; p++)
        samples.sample[0].token[p] = (p * 101 + 7) % 500;
    json_t *r = spoilt(state, false);
    finds(r, "unknown states", "state 3 is no entry of this model", "extract again");
    json_decref(r);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(fixtures__hold__in_all_formats),
        CASE(verb__prints_states_and_layers),
        CASE(without_a_model__says_what_was_not_checked),
        CASE(part__is_said__when_rows_or_samples_are_left_out),
        CASE(claim__is_held_against_the_states),
        CASE(states__swapped__are_found),
        CASE(states__of_one_sample__are_found),
        CASE(last_state__normed__is_found),
        CASE(last_state__not_normed__is_found__where_it_should_be),
        CASE(last_state__one_block_early__is_found),
        CASE(state__twice__is_found),
        CASE(rows__shifted__are_found),
        CASE(row__stale__is_found),
        CASE(row__of_nothing_known__is_found),
        CASE(row__slightly_off__is_found__beside_exact_ones),
        CASE(rows__permuted__are_found),
        CASE(samples__mixed_up__are_found),
        CASE(several_faults__are_all_found),
        CASE(states__scaled__are_found),
        CASE(states__rotated__are_found),
        CASE(states__rounded_by_an_engine__hold),
        CASE(states__with_a_trainers_noise__are_found_in_their_sample),
        CASE(row__as_far_off_as_flipped_experts__holds_where_others_are_rounded),
        CASE(states__of_a_model_like_this_one__are_found),
        CASE(state__between_two_layers__is_said_to_be_either),
        CASE(tokens__of_other_texts__fit_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
