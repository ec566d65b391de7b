/* test_inspect_samples_values.c: what an inspection of training samples finds without looking at
 * layers: numbers, tokens, masks, maps, files that are broken or have changed. */
#include "core/npy.h"
#include "tests/findings.h"
#include "tests/tampered.h"

#include <stdlib.h>
#include <string.h>

#define MODEL FIXTURE("tiny-k25")

static struct tampered samples;

static json_t *spoilt(void **state, bool beside)
{
    static int serial;
    const char *folder = folder_path(state, textf("s%d", serial++));
    tampered_write(&samples, folder, beside);
    return samples_inspected(folder, MODEL, NULL);
}

/* ---- values, tokens, masks ---- */

static void values__that_are_none__are_found(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    samples.sample[0].state[2][5][7] = 0x7fc0;
    samples.sample[1].state[0][3][1] = 0x7f80;
    memset(samples.sample[1].state[1][4], 0, sizeof samples.sample[1].state[1][4]);
    json_t *r = spoilt(state, true);
    finds(r, "NaN", "state 2 holds 1 NaN in 1 rows, the first in row 5", "leave the sample out");
    finds(r, "infinity", "state 0 holds 1 infinities, the first in row 3", "");
    finds(r, "rows of zeros", "state 1 has 1 rows", "never written");
    json_decref(r);
}

static void tokens__beyond_the_vocabulary__are_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    samples.sample[0].token[47] = 512;
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "tokens beyond the vocabulary", "1 tokens outside 0..511, the first is 512 at row 47",
          "tokenizer");
    json_decref(r);
}

static void mask__strange_or_empty__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_SPECFORGE);
    samples.sample[0].mask[3] = 2;
    memset(samples.sample[1].mask, 0, sizeof samples.sample[1].mask);
    json_t *r = spoilt(state, true);
    problems_are(r, 2);
    finds(r, "loss mask", "loss_mask[3] is 2", "0 and 1 only");
    finds(r, "loss mask", "loss_mask is 0 at all 24 tokens", "trains nothing");
    json_decref(r);
}

static void mask__shifted__is_found_by_the_counts(void **state)
{
    for (int by = -2; by <= 2; by++) {
        for (int only = 0; only < 2; only++) {
            tampered_read(&samples, SAMPLE_V03);
            for (int i = only; i < samples.count && by; i++) {
                struct tampered_sample *s = &samples.sample[i], was = *s;
                for (int64_t p = 0; p < s->rows; p++)
                    s->mask[p] = p - by < 0 ? 0 : p - by >= s->rows ? 1 : was.mask[p - by];
            }
            json_t *r = spoilt(state, true);
            problems_are(r, by ? 1 : 0);
            if (by)
                finds(r, "loss mask shifted",
                      textf("%d token%s %s", abs(by), abs(by) == 1 ? "" : "s",
                            by > 0 ? "late" : "early"),
                      "loss_mask[p] for token p");
            json_decref(r);
        }
    }
}

static void mask__of_other_counts__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    for (int64_t p = 0; p < 6; p++) samples.sample[0].mask[p] = 1;
    json_t *r = spoilt(state, true);
    problems_are(r, 1);
    finds(r, "token_freq.pt", "the masks hold 6 tokens that it does not count", "count again");
    json_decref(r);
}

static void map__beside_samples__is_checked(void **state)
{
    int64_t d2t[3] = {1, 5, 9}, t2d[512] = {0};
    struct err err = ERR_INIT;
    tampered_read(&samples, SAMPLE_V03);
    const char *folder = folder_path(state, "map");
    tampered_write(&samples, folder, false);
    t2d[1] = t2d[5] = t2d[9] = 1;
    const struct st_tensor a = {"d2t", DT_I64, 1, {3}, 3, 0, sizeof d2t, d2t};
    const struct st_tensor b = {"t2d", DT_I64, 1, {512}, 512, 0, sizeof t2d, t2d};
    (void)!npy_write(textf("%s/d2t.npy", folder), &a, &err);
    (void)!npy_write(textf("%s/t2d.npy", folder), &b, &err);
    assert_ok(&err);
    json_t *r = samples_inspected(folder, MODEL, NULL);
    problems_are(r, 1);
    finds(r, "d2t holds target ids", "1, 5", "id - i");
    json_decref(r);
}

/* ---- without a model ---- */

static void rows__repeated__are_found_without_a_model(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    memcpy(samples.sample[0].state[2][30], samples.sample[0].state[2][17], 2 * TAMPERED_WIDTH);
    const char *folder = folder_path(state, "r");
    tampered_write(&samples, folder, false);
    json_t *r = samples_inspected(folder, NULL, NULL);
    problems_are(r, 1);
    finds(r, "repeated rows", "state 2: row 30 is the same as row 17 of hs_0.safetensors",
          "extract");
    json_decref(r);
}

/* Rows behind equal tokens are equal by right, and so are all rows of a token's embedding. */
static void rows__equal_by_right__are_no_finding(void **state)
{
    tampered_make(&samples, 2, (const int64_t[]){0, 1, 5, 6});
    samples.format = SAMPLE_VLLM;
    for (int i = 0; i < 2; i++) {
        struct tampered_sample *s = &samples.sample[i];
        for (int64_t p = 1; p < s->rows && i == 1; p++) {
            s->token[p] = s->token[0];
            for (int k = 0; k < 4; k++) memcpy(s->state[k][p], s->state[k][0], 2 * TAMPERED_WIDTH);
        }
    }
    const char *folder = folder_path(state, "e");
    tampered_write(&samples, folder, false);
    for (int i = 0; i < 2; i++) {
        json_t *r = samples_inspected(folder, i ? MODEL : NULL, NULL);
        problems_are(r, 0);
        json_decref(r);
    }
}

/* ---- files ---- */

static void sample__broken__is_a_problem__and_the_others_are_read(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    const char *folder = folder_path(state, "b");
    tampered_write(&samples, folder, false);
    write_text(textf("%s/data_1.pt", folder), "no zip");
    json_t *r = cli_fails("inspect", folder, "--model", MODEL);
    problems_are(r, 1);
    finds(r, "broken sample", "data_1.pt", "extract it again");
    assert_int_equal(field_int(r, "recomputed_rows"), 48);
    json_decref(r);
}

static void form__unlike_the_others__is_found(void **state)
{
    tampered_read(&samples, SAMPLE_VLLM);
    samples.sample[1].states = 3;
    const char *folder = folder_path(state, "f");
    tampered_write(&samples, folder, false);
    json_t *r = samples_inspected(folder, NULL, NULL);
    finds(r, "states", "3 states of 256 columns, 4 of 256 in hs_0.safetensors",
          "different folders");
    json_decref(r);
}

static void manifest__tells_a_changed_file(void **state)
{
    tampered_read(&samples, SAMPLE_V03);
    const char *folder = folder_path(state, "m");
    tampered_write(&samples, folder, false);
    write_text(textf("%s/manifest.json", folder),
               "{\"samples\": [{\"file\": \"data_0.pt\", \"sha256\": \"00\"}, {\"file\": "
               "\"data_1.pt\"}]}");
    json_t *r = samples_inspected(folder, NULL, NULL);
    problems_are(r, 1);
    finds(r, "changed since extraction", "00.. in manifest.json", "extract");
    json_decref(r);
}

static void options__are_refused__where_they_say_nothing(void **state)
{
    const char *path = FIXTURE("samples/vllm");
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--rows alone", "--model"}),
                "inspect", path, "--rows", "5");
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--samples", "a draft head"}),
                "inspect", path, "--samples", path);
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--record", "checkpoint"}),
                "inspect", path, "--record", "x.json");
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "inspect", path, "--model",
                "/nowhere");
    cli_refuses(state,
                ((struct refusal){2, "arguments", NULL, "--count", "a draft head or samples"}),
                "inspect", MODEL, "--count", "3");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(values__that_are_none__are_found),
        CASE(tokens__beyond_the_vocabulary__are_found),
        CASE(mask__strange_or_empty__is_found),
        CASE(mask__shifted__is_found_by_the_counts),
        CASE(mask__of_other_counts__is_found),
        CASE(map__beside_samples__is_checked),
        CASE(rows__repeated__are_found_without_a_model),
        CASE(rows__equal_by_right__are_no_finding),
        CASE(sample__broken__is_a_problem__and_the_others_are_read),
        CASE(form__unlike_the_others__is_found),
        CASE(manifest__tells_a_changed_file),
        CASE(options__are_refused__where_they_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
