/* test_inspect_head.c: what an inspection of a draft head finds: each fault planted in the trained
 * head of the fixtures, the trainer's own metrics, and nothing in clean heads. */
#include "harness/inspect_head.h"

#include "core/json.h"
#include "tests/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL FIXTURE("tiny-k25")
#define TRAINED FIXTURE("eagle-trained")

enum { H = 256, VD = 256, V = 512, TRACES = 1 };

/* ---- data: traces of the fixture as samples ---- */

static char traces[FILE_PATH];

/* The tokens of trace i: its prompt and what the target went on with. */
static int64_t trace_tokens(size_t i, int64_t *token)
{
    struct err err = ERR_INIT;
    json_t *golden = NULL, *t;
    int64_t n = 0;
    (void)!json_read(TRAINED "/golden.json", &golden, &err);
    assert_ok(&err);
    t = json_array_get(json_object_get(golden, "traces"), i);
    for (int k = 0; k < 2; k++) {
        const json_t *list = field(t, k ? "greedy" : "prompt");
        for (size_t j = 0; j < json_array_size(list); j++)
            token[n++] = json_integer_value(json_array_get(list, j));
    }
    json_decref(golden);
    return n;
}

/* Samples without states of their own: entries 1, 3, 5 and 6 from the reference, by the verb. */
static void make_traces(const char *folder)
{
    char text[TRACES * 1024];
    int used = 0;
    for (size_t i = 0; i < TRACES; i++) {
        int64_t token[128], n = trace_tokens(i, token);
        used += snprintf(text + used, sizeof text - (size_t)used, "{\"input_ids\": [");
        for (int64_t p = 0; p < n; p++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", p ? "," : "",
                             (long long)token[p]);
        used += snprintf(text + used, sizeof text - (size_t)used, "]}\n");
    }
    write_text(textf("%s.jsonl", folder), text);
    struct cli r;
    cli(&r, "extract", MODEL, "--data", textf("%s.jsonl", folder), "--layers", "1,3,5,6",
        "--numbering", "entry", "--format", "vllm", "--out", folder);
    assert_int_equal(r.status, 0);
    cli_free(&r);
}

/* ---- heads ---- */

/* The trained head, to be spoilt: its config as JSON, its tensors in memory. */
struct spoilt {
    struct st_edit file;
    json_t *config;
};

static uint16_t *weights_of(struct spoilt *h, const char *name)
{
    return (uint16_t *)(void *)st_edit_data(&h->file, name);
}

static int64_t *d2t_of(struct spoilt *h)
{
    return (int64_t *)(void *)st_edit_data(&h->file, "d2t");
}

static void set_aux(struct spoilt *h, int64_t a, int64_t b, int64_t c)
{
    json_object_set_new(h->config, "eagle_aux_hidden_state_layer_ids",
                        json_pack("[I, I, I]", (json_int_t)a, (json_int_t)b, (json_int_t)c));
}

static void aux_of_outputs(struct spoilt *h)
{
    set_aux(h, 0, 2, 4);
}

static void aux_one_later(struct spoilt *h)
{
    set_aux(h, 2, 4, 6);
}

static void aux_out_of_order(struct spoilt *h)
{
    set_aux(h, 3, 1, 5);
}

/* Exchanges column blocks a and b, `width` wide, of a matrix [rows, columns]. */
static void exchange(uint16_t *w, int64_t rows, int64_t columns, int64_t width, int64_t a,
                     int64_t b)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < width; j++) {
            uint16_t *x = w + i * columns + a * width + j, *y = w + i * columns + b * width + j;
            uint16_t kept = *x;
            *x = *y;
            *y = kept;
        }
    }
}

static void fc_blocks(struct spoilt *h)
{
    exchange(weights_of(h, "fc.weight"), H, 3 * H, H, 0, 1);
}

static void concat(struct spoilt *h)
{
    exchange(weights_of(h, "layers.0.self_attn.q_proj.weight"), 256, 2 * H, H, 0, 1);
    exchange(weights_of(h, "layers.0.self_attn.k_proj.weight"), 64, 2 * H, H, 0, 1);
    exchange(weights_of(h, "layers.0.self_attn.v_proj.weight"), 64, 2 * H, H, 0, 1);
}

static void residual(struct spoilt *h)
{
    json_object_set_new(h->config, "norm_before_residual", json_true());
}

static void feedback(struct spoilt *h)
{
    json_object_set_new(h->config, "norm_output", json_true());
}

/* fc that lets the last state through. */
static void fc_identity(struct spoilt *h)
{
    uint16_t *w = weights_of(h, "fc.weight");
    for (int64_t i = 0; i < H; i++) {
        for (int64_t j = 0; j < 3 * H; j++) w[i * 3 * H + j] = j == 2 * H + i ? 0x3f80 : 0;
    }
}

static void fc_block_zero(struct spoilt *h)
{
    uint16_t *w = weights_of(h, "fc.weight");
    for (int64_t i = 0; i < H; i++) memset(w + i * 3 * H, 0, 2 * H);
}

static void fc_gone(struct spoilt *h)
{
    json_t *fc = json_incref(json_object_get(h->file.header, "fc.weight"));
    json_object_del(h->file.header, "fc.weight");
    json_object_set_new(h->file.header, "skipped.weight", fc);
}

/* fc whose rows stand in another order: numbers like a trained one's, and useless. */
static void fc_untrained(struct spoilt *h)
{
    uint16_t *w = weights_of(h, "fc.weight");
    for (int64_t i = 0; i < H * 3 * H; i++)
        w[i] = bf16_from_f32((float)((i * 7919) % 1009 - 504) / 9000.0f);
}

static void d2t_absolute(struct spoilt *h)
{
    for (int64_t i = 0; i < VD; i++) d2t_of(h)[i] += i;
}

static void d2t_outside(struct spoilt *h)
{
    d2t_of(h)[200] = 900;
}

static void d2t_descends(struct spoilt *h)
{
    d2t_of(h)[10] = d2t_of(h)[9] - 1;
}

static void d2t_of_reals(struct spoilt *h)
{
    json_object_set_new(json_object_get(h->file.header, "d2t"), "dtype", json_string("F64"));
}

static void d2t_zero(struct spoilt *h)
{
    memset(d2t_of(h), 0, VD * sizeof(int64_t));
}

static void t2d_other(struct spoilt *h)
{
    unsigned char *marks = st_edit_data(&h->file, "t2d");
    int64_t at = 0;
    while (!marks[at]) at++;
    marks[at] = 0;
}

static void head_rows(struct spoilt *h)
{
    uint16_t *w = weights_of(h, "lm_head.weight");
    memmove(w + H, w, (VD - 1) * H * sizeof *w);
}

static void norm_nan(struct spoilt *h)
{
    weights_of(h, "norm.weight")[3] = 0x7fc0;
}

/* Takes out d2t, with which the file's data begin, and t2d, with which they end. */
static void no_map(struct spoilt *h)
{
    const char *name;
    json_t *t;
    size_t gone = VD * sizeof(int64_t);
    json_object_del(h->file.header, "d2t");
    json_object_del(h->file.header, "t2d");
    json_object_foreach(h->file.header, name, t)
    {
        json_t *offsets = json_object_get(t, "data_offsets");
        for (size_t i = 0; i < json_array_size(offsets); i++) {
            json_int_t at = json_integer_value(json_array_get(offsets, i));
            json_array_set_new(offsets, i, json_integer(at - (json_int_t)gone));
        }
    }
    h->file.size -= gone + V;
    memmove(h->file.data, h->file.data + gone, h->file.size);
}

static void several(struct spoilt *h)
{
    d2t_absolute(h);
    concat(h);
    residual(h);
    aux_of_outputs(h);
}

static json_t *inspected(const char *path, const char *samples)
{
    const struct samples_options o = {.count = 64, .rows = 1024, .threads = 1};
    struct inspection s;
    struct err err = ERR_INIT;
    json_t *result = json_object();
    inspection_open(&s, path);
    (void)!inspect_head(&s, &o, MODEL, samples, result, &err);
    assert_ok(&err);
    inspection_close(&s);
    return result;
}

/* The trained head after `spoil`, in a folder. */
static const char *spoil(void **state, void (*fault)(struct spoilt *h))
{
    static int serial;
    struct spoilt h;
    struct err err = ERR_INIT;
    const char *folder = folder_path(state, textf("h%d", serial++));
    (void)!file_make_folder(folder, &err);
    st_edit_read(&h.file, TRAINED "/model.safetensors");
    (void)!json_read(TRAINED "/config.json", &h.config, &err);
    assert_ok(&err);
    fault(&h);
    st_edit_write(&h.file, textf("%s/model.safetensors", folder));
    assert_int_equal(json_dump_file(h.config, textf("%s/config.json", folder), 0), 0);
    json_decref(h.config);
    st_edit_free(&h.file);
    return folder;
}

/* ---- clean ---- */

static void trained__holds__and_as_given_is_the_best(void **state)
{
    (void)state;
    json_t *r = inspected(TRAINED, traces);
    problems_are(r, 0);
    const json_t *first = json_array_get(field(r, "settings"), 0);
    assert_string_equal(field_text(first, "setting"), "as given");
    assert_string_equal(field_text(r, "naming"), "speculators");
    assert_true(notes_hold(r, "rows are the target's (fresh)"));
    /* Sorted by the bits of a choice. */
    double before = 0;
    const json_t *s;
    size_t i;
    json_array_foreach(field(r, "settings"), i, s)
    {
        double bits = json_real_value(field(s, "choice_bits"));
        assert_true(bits >= before);
        before = bits;
    }
    json_decref(r);
}

/* Samples that the head knows nothing about say nothing against it. */
static void trained__holds__on_samples_that_cannot_tell(void **state)
{
    (void)state;
    json_t *r = inspected(TRAINED, FIXTURE("samples/vllm"));
    problems_are(r, 0);
    assert_true(notes_hold(r, "other settings explain these 70 rows as well"));
    assert_true(notes_hold(r, "the samples hold other layers than the head is given"));
    json_decref(r);
}

static void clean_heads__hold__without_samples(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        static const char *const specs[] = {"eagle-llama/config.json?seed=31",
                                            "eagle-llama-nbr/config.json?seed=32",
                                            "eagle-mla/config.json?seed=33"};
        json_t *r = inspected(textf("synth:" FIXTURE("%s"), specs[i]), NULL);
        problems_are(r, 0);
        assert_string_equal(field_text(r, "head_kind"), i == 2 ? "MLA" : "Llama");
        json_decref(r);
    }
}

static void verb__prints_the_ranking(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "inspect", TRAINED, "--model", MODEL, "--samples", traces, "--count", "1");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "PASS: head, 15 tensors"));
    assert_non_null(strstr(r.out, "   1. as given"));
    assert_non_null(strstr(r.out, "bits a choice; KL"));
    cli_free(&r);
    json_t *alone = cli_passes("inspect", TRAINED);
    assert_string_equal(field_text(alone, "kind"), "head");
    json_decref(alone);
}

/* ---- faults ---- */

struct fault {
    void (*spoil)(struct spoilt *h);
    const char *what, *cause, *remedy;
};

static double best_bits(const json_t *r)
{
    return json_real_value(field(json_array_get(field(r, "settings"), 0), "choice_bits"));
}

/* Each fault is named alone, and with it undone the head explains as much as the trained one. */
static void check_faults(void **state, const struct fault *list, size_t n, const char *samples)
{
    json_t *trained = inspected(TRAINED, samples);
    for (size_t i = 0; i < n; i++) {
        json_t *r = inspected(spoil(state, list[i].spoil), samples);
        finds(r, list[i].what, list[i].cause, list[i].remedy);
        problems_are(r, 1);
        /* The reference sums in float32: blocks in another order move the last bits. */
        assert_true(fabs(best_bits(r) - best_bits(trained)) < 1e-4);
        json_decref(r);
    }
    json_decref(trained);
}

static void wiring__wrong__is_named(void **state)
{
    static const struct fault list[] = {
        {aux_one_later, "aux layers", "trained on entries [1, 3, 5], [2, 4, 6] is given",
         "layer_ids = [1, 3, 5] (one was added to ids that were entries already)"},
        {fc_blocks, "aux states swapped", "trained on entries [3, 1, 5]", "reorder fc's column"},
        {concat, "concat order swapped", "trained on [hidden | embedding]", "exchange the column"},
        {residual, "norm_before_residual", "false explains the data better than true (given)",
         "set norm_before_residual to false"},
        {feedback, "norm_output", "feeding back the un-normed state", "set norm_output to false"},
    };
    check_faults(state, list, sizeof list / sizeof *list, traces);
}

static void weights__wrong__are_named_without_samples(void **state)
{
    static const struct fault list[] = {
        {fc_identity, "fc skipped", "passes aux state 2 as it is and drops the others", "EAGLE3"},
        {fc_block_zero, "fc ignores states", "1 of fc.weight's 3 column blocks are zero", ""},
        {fc_gone, "missing tensor", "nothing", "fc skipped"},
        {d2t_absolute, "d2t holds target ids", "not offsets", "id - i"},
        {d2t_outside, "d2t out of range", "d2t[200] = 900 gives a target id outside 0..511",
         "rebuild d2t from t2d"},
        {d2t_descends, "d2t not ascending", "d2t[10] gives target id", ""},
        {d2t_of_reals, "vocabulary map", "[256] F64", "[256] integers or bools"},
        {t2d_other, "t2d disagrees with d2t", "1 tokens, the first is", "one build"},
        {no_map, "no d2t", "256 draft tokens of 512 and no map", "store d2t"},
        {head_rows, "rows of other tokens", "lm_head.weight[", "another build"},
        {norm_nan, "no numbers", "norm.weight holds 1 NaN", "earlier checkpoint"},
        {aux_out_of_order, "read key \"eagle_aux_hidden_state_layer_ids\"", "1 after 3",
         "ascending"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        json_t *r = inspected(spoil(state, list[i].spoil), NULL);
        finds(r, list[i].what, list[i].cause, list[i].remedy);
        json_decref(r);
    }
}

static void fc__untrained__is_told_from_a_head_that_works(void **state)
{
    json_t *r = inspected(spoil(state, fc_untrained), traces);
    assert_true(json_array_size(field(r, "problems")) > 0);
    const json_t *p = json_array_get(field(r, "problems"), 0);
    const char *what = field_text(p, "what");
    if (strcmp(what, "fc skipped") != 0 && strcmp(what, "the head explains nothing") != 0)
        fail_msg("%s: %s", what, field_text(p, "found"));
    json_decref(r);
}

static void several_faults__are_all_named(void **state)
{
    json_t *r = inspected(spoil(state, several), traces);
    problems_are(r, 4);
    finds(r, "d2t holds target ids", "", "");
    finds(r, "concat order swapped", "", "");
    finds(r, "norm_before_residual", "", "");
    finds(r, "aux layers", "trained on entries [1, 3, 5], [0, 2, 4] is given",
          "eagle_aux_hidden_state_layer_ids = [1, 3, 5] (the ids given are those of outputs)");
    json_decref(r);
}

/* Where d2t and t2d disagree, lm_head says which of them it was made with; the trials go by that.
 */
static void map__that_lm_head_follows__is_used(void **state)
{
    json_t *r = inspected(spoil(state, d2t_zero), traces);
    problems_are(r, 1);
    finds(r, "t2d disagrees with d2t", "180 tokens", "");
    assert_true(notes_hold(r, "lm_head follows t2d"));
    assert_string_equal(field_text(json_array_get(field(r, "settings"), 0), "setting"), "as given");
    json_decref(r);
}

static void head__random__explains_nothing(void **state)
{
    (void)state;
    json_t *r = inspected("synth:" FIXTURE("eagle-llama/config.json?seed=31"), traces);
    problems_are(r, 1);
    finds(r, "the head explains nothing", "where knowing nothing takes 7.322", "never trained");
    json_decref(r);
}

/* Random tokens are nothing that any head of this target can draft: no fault of the head. */
static void head__is_not_blamed__for_text_that_is_not_the_targets(void **state)
{
    static const char *const folders[] = {"samples/vllm", "samples/speculators-v03",
                                          "samples/specforge"};
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        json_t *r = inspected(TRAINED, textf("%s/fixtures/%s", ASSAY_SOURCE_DIR, folders[i]));
        problems_are(r, 0);
        if (i > 0) assert_true(notes_hold(r, "not what this target writes"));
        json_decref(r);
    }
}

/* ---- the trainer's metrics ---- */

/* Loss and accuracies of the fixture's first trace, as its trainer computed them: KL over the draft
 * vocabulary, the draft's own argmax fed, every row counted. */
static void metrics__are_the_trainers(void **state)
{
    struct err err = ERR_INIT;
    struct loaded l;
    struct head h;
    struct samples w;
    struct inspection s;
    struct score score;
    const struct samples_options o = {.count = 1, .rows = 1024, .threads = 2};
    json_t *golden = NULL;
    (void)state;
    (void)!json_read(TRAINED "/golden.json", &golden, &err);
    const json_t *want = field(golden, "trainer_metrics_sample_0");
    inspection_open(&s, traces);
    (void)!loaded_open(&l, MODEL, &err);
    (void)!head_open(&h, TRAINED, &l.model, &err);
    (void)!samples_open(&w, &s, traces, &o, &l, &err);
    assert_ok(&err);
    w.truth.keep = h.target_id;
    w.truth.kept = VD;
    (void)!samples_look(&w, &err);
    const struct setting given = setting_of(&h);
    (void)!head_score(&h, &w, &given, false, 2, &score, &err);
    assert_ok(&err);
    assert_int_equal(score.rows, 63);
    for (int step = 0; step < HEAD_STEPS; step++) {
        const struct {
            const char *key;
            double found;
        } row[] = {{"loss", score.loss[step]},
                   {"full_acc", score.full_acc[step]},
                   {"cond_acc", score.cond_acc[step]}};
        for (int i = 0; i < 3; i++) {
            double x = json_number_value(field(want, textf("%s_%d", row[i].key, step)));
            if (!(fabs(row[i].found - x) <= 1e-5 * fabs(x)))
                fail_msg("%s_%d is %.9g, the trainer's %.9g", row[i].key, step, row[i].found, x);
        }
    }
    free(score.row_bits);
    samples_close(&w);
    head_close(&h);
    loaded_close(&l);
    inspection_close(&s);
    json_decref(golden);
}

/* ---- refusals ---- */

static void input__unusable__is_refused(void **state)
{
    const char *empty = folder_path(state, "empty");
    struct err err = ERR_INIT;
    (void)!file_make_folder(empty, &err);
    write_text(textf("%s/config.json", empty), "{\"speculators_model_type\": \"eagle3\"}");
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "inspect", empty);
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--samples alone", "--model"}),
                "inspect", TRAINED, "--samples", traces);
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--record", "checkpoint"}),
                "inspect", TRAINED, "--record", "x.json");
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "inspect", TRAINED, "--model",
                MODEL, "--samples", empty);
}

static int make_all(void **state)
{
    if (folder_setup(state) != 0) return -1;
    snprintf(traces, sizeof traces, "%s", folder_path(state, "traces"));
    make_traces(traces);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(trained__holds__and_as_given_is_the_best),
        CASE(trained__holds__on_samples_that_cannot_tell),
        CASE(clean_heads__hold__without_samples),
        CASE(verb__prints_the_ranking),
        CASE(wiring__wrong__is_named),
        CASE(weights__wrong__are_named_without_samples),
        CASE(fc__untrained__is_told_from_a_head_that_works),
        CASE(several_faults__are_all_named),
        CASE(map__that_lm_head_follows__is_used),
        CASE(head__random__explains_nothing),
        CASE(head__is_not_blamed__for_text_that_is_not_the_targets),
        CASE(metrics__are_the_trainers),
        CASE(input__unusable__is_refused),
    };
    return cmocka_run_group_tests(tests, make_all, folder_teardown);
}
