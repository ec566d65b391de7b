/* test_cli_diff.c: verb diff on two dumps: what its JSON says, and that it goes red when it should.
 * With a model: test_cli_bugs.c. Dumps that cannot be used: test_cli_dumps.c. */
#include "tests/cli.h"

#include "tests/config_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

/* A dump of five tokens of the small synthetic model. */
static const char *dump_of(void **state, const char *name, const char *tokens, const char *profile)
{
    const char *config = file_in(state, "config.json"), *out = file_in(state, name);
    write_text(config, CONFIG_K25);
    json_decref(cli_passes("forward", textf("synth:%s?seed=3", config), "--tokens", tokens, "--out",
                           out, "--profile", profile));
    return out;
}
#define TOKENS "1,2,3,4,5"
#define TOKENS_24 TOKENS "," TOKENS "," TOKENS "," TOKENS ",1,2,3,4"

/* Sets one float32 cell of a tap, by row and column. */
static void set_cell(const char *path, const char *tap, int64_t row, int64_t col, float value)
{
    struct st_edit e;
    st_edit_read(&e, path);
    const json_t *shape = field(field(e.header, tap), "shape");
    int64_t cols = json_integer_value(json_array_get(shape, 1));
    memcpy(st_edit_data(&e, tap) + (row * cols + col) * 4, &value, 4);
    st_edit_write(&e, path);
    st_edit_free(&e);
}

/* Takes tensors away: the data is packed again. `meta` NULL: all metadata goes too. */
static void keep_taps(const char *from, const char *to, const char *const *names, bool meta)
{
    struct st_file f;
    struct err err = ERR_INIT;
    struct st_part parts[64];
    int64_t n = 0;
    (void)!st_open(&f, from, &err);
    assert_ok(&err);
    for (; names[n]; n++) {
        const struct st_tensor *t = st_find(&f, names[n]);
        assert_non_null(t);
        parts[n] = (struct st_part){t->name, t->dtype, t->dims, {0}, t->data};
        memcpy(parts[n].shape, t->shape, sizeof t->shape);
    }
    write_safetensors(to, parts, n, meta ? f.meta : NULL, meta ? f.metas : 0);
    st_close(&f);
}

static void verdict__has_all_fields__when_two_runs_are_equal(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *b = dump_of(state, "b", TOKENS, "math");
    json_t *j = cli_passes("diff", a, b);
    const json_t *taps = field(j, "taps");
    assert_int_equal(json_array_size(taps), 40);
    assert_int_equal(field_int(j, "compared"), 40);
    static const char *const empty[] = {"unchecked", "flips",     "missing",
                                        "extra",     "diagnosis", "hypotheses"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        assert_int_equal(json_array_size(field(j, empty[i])), 0);
    assert_true(json_is_null(field(j, "first")));
    assert_true(json_is_null(field(j, "guilty")));
    for (size_t i = 0; i < json_array_size(taps); i++) {
        const json_t *t = json_array_get(taps, i);
        bool ids = strstr(field_text(t, "name"), ".experts") != NULL;
        assert_string_equal(field_text(t, "verdict"), "pass");
        assert_true(json_number_value(field(t, "rel_rms")) == 0);
        assert_true(json_number_value(field(t, "max_abs")) == 0);
        assert_true(ids || json_number_value(field(t, "bound")) > 0);
        assert_true(field_text(t, "bound_from")[0] != '\0');
        assert_int_equal(field_int(t, "rows"), 5);
        const json_t *worst = field(t, "worst");
        assert_true(json_equal(field(worst, "subject"), field(worst, "truth")));
    }
    assert_string_equal(field_text(json_array_get(taps, 0), "name"), "embed");
    assert_string_equal(field_text(json_array_get(taps, 39), "name"), "logits");
    json_decref(j);
    struct cli r;
    cli(&r, "diff", a, b);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "PASS: 40 taps compared, 0 differ"));
    cli_free(&r);
}

static void first_difference__is_named__when_one_cell_is_off(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *b = dump_of(state, "b", TOKENS, "math");
    set_cell(a, "layers.2.mlp", 0, 0, 3);
    set_cell(a, "layers.1.kv_latent", 3, 7, 9);
    json_t *j = cli_fails("diff", a, b);
    const json_t *first = field(j, "first");
    assert_string_equal(field_text(first, "tap"), "layers.1.kv_latent");
    assert_string_equal(field_text(first, "op"), "mla.kv");
    assert_int_equal(field_int(first, "layer"), 1);
    assert_int_equal(field_int(first, "row"), 3);
    assert_int_equal(field_int(first, "col"), 7);
    const json_t *t = named(field(j, "taps"), "layers.1.kv_latent");
    assert_string_equal(field_text(t, "verdict"), "fail");
    assert_int_equal(field_int(field(t, "worst"), "row"), 3);
    assert_int_equal(field_int(field(t, "worst"), "col"), 7);
    assert_true(json_number_value(field(field(t, "worst"), "subject")) == 9);
    assert_string_equal(field_text(named(field(j, "taps"), "layers.2.mlp"), "verdict"), "fail");
    assert_string_equal(field_text(named(field(j, "taps"), "logits"), "verdict"), "pass");
    assert_int_equal(field_int(j, "compared"), 40);
    json_decref(j);
    struct cli r;
    cli(&r, "diff", a, b);
    assert_int_equal(r.status, 1);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "layers.1.kv_latent"));
    cli_free(&r);
}

static void special_value__is_red__when_on_one_side(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static const char *const names[] = {"nan", "inf", "-inf"};
    for (int i = 0; i < 3; i++) {
        const char *a = dump_of(state, "a", TOKENS, "math");
        const char *b = dump_of(state, "b", TOKENS, "math");
        const char *const lines[][8] = {
            {"diff", a, b},
            {"diff", a, b, "--bound", "1e300"},
            {"diff", a, b, "--profile-run", a},
        };
        set_cell(a, "layers.0.q", 4, 47, values[i]);
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
            json_t *j = cli_failed(lines[k], __FILE__, __LINE__);
            const json_t *first = field(j, "first");
            const json_t *t = named(field(j, "taps"), "layers.0.q");
            assert_string_equal(field_text(first, "tap"), "layers.0.q");
            assert_int_equal(field_int(first, "row"), 4);
            assert_int_equal(field_int(first, "col"), 47);
            assert_string_equal(field_text(field(t, "worst"), "subject"), names[i]);
            assert_int_equal(field_int(t, "special_mismatch"), 1);
            assert_int_equal(field_int(t, "nan_subject"), i == 0);
            json_decref(j);
        }
        json_decref(cli_fails("diff", b, a)); /* in the truth alone: as red */
        json_decref(cli_fails("diff", b, a, "--bound", "1e300"));
    }
}

/* Nothing compared is not a pass. */
static void verdict__is_red__when_nothing_was_compared(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *b = dump_of(state, "b", TOKENS, "math");
    const char *one = file_in(state, "one"), *two = file_in(state, "two");
    const char *none = file_in(state, "none");
    keep_taps(a, one, (const char *const[]){"embed", NULL}, false);
    keep_taps(b, two, (const char *const[]){"logits", NULL}, false);
    json_t *j = cli_fails("diff", one, two);
    assert_int_equal(field_int(j, "compared"), 0);
    assert_int_equal(times_in(field(j, "extra"), "embed"), 1);
    assert_int_equal(times_in(field(j, "missing"), "logits"), 1);
    assert_true(json_is_null(field(j, "first")));
    json_decref(j);
    const struct st_part empty = {"embed", DT_F32, 2, {5, 0}, NULL};
    write_safetensors(none, &empty, 1, NULL, 0);
    j = cli_fails("diff", none, none);
    assert_int_equal(field_int(j, "compared"), 0);
    assert_int_equal(times_in(field(j, "unchecked"), "embed"), 1);
    json_decref(j);
}

static void tap__is_red__when_promised_and_missing(void **state)
{
    static const char *const some[] = {"embed", "layers.0.q", "logits", NULL};
    const char *a = dump_of(state, "a", TOKENS, "math"), *part = file_in(state, "part");
    keep_taps(a, part, some, true); /* its assay.order still promises 40 */
    json_t *j = cli_fails("diff", part, a);
    assert_int_equal(field_int(j, "compared"), 3);
    assert_int_equal(field_int(j, "failed"), 0);
    assert_int_equal(json_array_size(field(j, "promised")), 37);
    assert_int_equal(times_in(field(j, "missing"), "final_norm"), 1);
    assert_int_equal(times_in(field(j, "unchecked"), "final_norm"), 1);
    json_decref(j);
    keep_taps(a, part, some, false); /* without a promise: counted, not red */
    j = cli_passes("diff", part, a);
    assert_int_equal(json_array_size(field(j, "unchecked")), 37);
    json_decref(j);
}

static void tap__is_red__when_required_and_missing(void **state)
{
    static const char *const some[] = {"embed", "layers.0.q", "logits", NULL};
    const char *a = dump_of(state, "a", TOKENS, "math"), *part = file_in(state, "part");
    keep_taps(a, part, some, false);
    json_decref(cli_passes("diff", part, a, "--require", "logits"));
    json_decref(
        cli_passes("diff", part, a, "--require", "*.0.q", "--require", "embed", "--bound", "0"));
    json_t *j = cli_fails("diff", part, a, "--require", "layers.*.q");
    assert_int_equal(json_array_size(field(j, "promised")), 2);
    assert_int_equal(times_in(field(j, "promised"), "layers.2.q"), 1);
    json_decref(j);
    json_decref(cli_fails("diff", part, a, "--require", "*"));
    json_decref(cli_fails("diff", part, a, "--require", ""));
    j = cli_fails("diff", part, a, "--require", "logitz"); /* a typing error is no pass */
    assert_int_equal(times_in(field(j, "promised"), "logitz"), 1);
    json_decref(j);
}

/* Every one counts, however many there are. */
static void last_requirement__counts__when_there_are_forty(void **state)
{
    struct cli r;
    const char *a = dump_of(state, "a", TOKENS, "math"), *argv[CLI_ARGS] = {"diff", a, a};
    int n = 3;
    while (n < 43) argv[n++] = "--require=embed";
    argv[n++] = "--require=nothing";
    argv[n] = NULL;
    cli_run(&r, argv);
    assert_int_equal(r.status, 1);
    cli_free(&r);
}

static void bound__decides__when_given(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *b = dump_of(state, "b", TOKENS, "hf");
    json_t *j = cli_fails("diff", b, a, "--bound", "1e-4");
    const json_t *t = named(field(j, "taps"), "layers.0.q");
    double off = json_number_value(field(t, "rel_rms"));
    assert_true(off > 1e-4 && off < 0.05);
    assert_true(json_number_value(field(t, "bound")) == 1e-4);
    json_decref(j);
    j = cli_fails("diff", b, a, "--bound", textf("%.6g", off * 0.99), "--require", "layers.0.q");
    assert_string_equal(field_text(named(field(j, "taps"), "layers.0.q"), "verdict"), "fail");
    json_decref(j);
    json_decref(cli_fails("diff", b, a, "--bound", "0"));
    json_decref(cli_passes("diff", a, a, "--bound", "0"));
}

/* One of 24 rows is 4 % off: 0.8 % of the whole tap. */
static void one_row__is_red__when_the_whole_tap_hides_it(void **state)
{
    const char *a = dump_of(state, "a", TOKENS_24, "math");
    const char *b = dump_of(state, "b", TOKENS_24, "math");
    struct st_edit e;
    st_edit_read(&e, a);
    float *x = (float *)(void *)st_edit_data(&e, "layers.2.mlp");
    for (int i = 0; i < 64; i++) x[7 * 64 + i] *= 1.04f;
    st_edit_write(&e, a);
    st_edit_free(&e);
    json_decref(cli_passes("diff", a, b, "--bound", "0.04"));
    json_t *j = cli_fails("diff", a, b, "--bound", "0.0095"); /* a row may have four times that */
    const json_t *t = named(field(j, "taps"), "layers.2.mlp");
    assert_true(json_number_value(field(t, "rel_rms")) < 0.0095);
    assert_int_equal(field_int(t, "rows_failed"), 1);
    assert_int_equal(field_int(field(j, "first"), "row"), 7);
    json_decref(j);
}

static void foreign_dump__is_read__when_it_has_no_metadata(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *part = file_in(state, "part");
    static const char *const some[] = {"logits", "layers.2.output", "layers.0.attn", "embed", NULL};
    keep_taps(a, part, some, false);
    json_t *j = cli_passes("diff", part, a);
    const json_t *taps = field(j, "taps");
    assert_int_equal(json_array_size(taps), 4); /* in the order of execution, not of the file */
    assert_string_equal(field_text(json_array_get(taps, 0), "name"), "embed");
    assert_string_equal(field_text(json_array_get(taps, 1), "name"), "layers.0.attn");
    assert_string_equal(field_text(json_array_get(taps, 3), "name"), "logits");
    json_decref(j);
    set_cell(part, "layers.2.output", 0, 1, 50);
    set_cell(part, "logits", 0, 1, 50);
    j = cli_fails("diff", part, a);
    assert_string_equal(field_text(field(j, "first"), "tap"), "layers.2.output");
    assert_string_equal(field_text(field(j, "first"), "op"), "moe");
    json_decref(j);
}

static void rows__are_matched__when_the_subject_has_fewer(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *b = file_in(state, "b");
    const char *model = textf("synth:%s?seed=3", file_in(state, "config.json"));
    static const char *const ranges[] = {"-2:", "1:3", ":1"};
    for (int i = 0; i < 3; i++) {
        json_decref(
            cli_passes("forward", model, "--tokens", TOKENS, "--out", b, "--rows", ranges[i]));
        json_decref(cli_passes("diff", b, a, "--bound", "0"));
        json_decref(cli_passes("diff", a, b, "--bound", "0"));
    }
    json_decref(cli_passes("forward", model, "--tokens", "1,2,3", "--out", b));
    json_t *j = cli_passes("diff", b, a, "--bound", "0"); /* a shorter prompt begins the longer */
    assert_int_equal(field_int(named(field(j, "taps"), "logits"), "rows"), 3);
    json_decref(j);
    json_decref(cli_passes("forward", model, "--tokens", TOKENS, "--out", b, "--rows", "-2:"));
    set_cell(b, "embed", 1, 3, 77);
    j = cli_fails("diff", b, a);
    assert_int_equal(field_int(field(j, "first"), "row"), 1);
    json_decref(j);
}

static void dumps__are_refused__when_of_other_tokens(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math");
    const char *b = dump_of(state, "b", "1,2,9,4,5", "math");
    struct refusal r = {2, "align dumps", "token 2", "3 and 9", "the same tokens"};
    cli_refuses(state, r, "diff", a, b);
    cli_refuses(state, r, "diff", a, a, "--profile-run", b);
    const char *model = textf("synth:%s?seed=3", file_in(state, "config.json"));
    json_decref(cli_passes("forward", model, "--tokens", TOKENS, "--out", a, "--rows", ":2"));
    json_decref(cli_passes("forward", model, "--tokens", TOKENS, "--out", b, "--rows", "3:"));
    struct refusal apart = {2, "align dumps", NULL, "no row of the same token", "at least one"};
    cli_refuses(state, apart, "diff", a, b);
}

static void shape__is_red__when_columns_differ(void **state)
{
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    const struct st_part wide = {"logits", DT_F32, 2, {5, 8}, NULL};
    const struct st_part narrow = {"logits", DT_F32, 2, {5, 4}, NULL};
    write_safetensors(a, &wide, 1, NULL, 0);
    write_safetensors(b, &narrow, 1, NULL, 0);
    json_t *j = cli_fails("diff", a, b);
    const json_t *t = named(field(j, "taps"), "logits");
    assert_string_equal(field_text(t, "why"), "shape [5, 8], wanted [5, 4]");
    json_decref(j);
}

static void profile_run__sets_the_bounds__when_given(void **state)
{
    const char *math = dump_of(state, "math", TOKENS, "math");
    const char *hf = dump_of(state, "hf", TOKENS, "hf");
    json_t *j = cli_passes("diff", hf, math, "--profile-run", hf);
    const json_t *t = named(field(j, "taps"), "layers.2.output");
    assert_true(json_number_value(field(t, "rel_rms")) > 1e-4);
    assert_non_null(strstr(field_text(t, "bound_from"), "measured: 2 x"));
    json_decref(j);
    json_decref(cli_fails("diff", hf, math)); /* what float32 explains is far less */
    set_cell(hf, "layers.0.q", 2, 2, 40);
    json_decref(cli_fails("diff", hf, math, "--profile-run", dump_of(state, "hf2", TOKENS, "hf")));
}

static void reports__are_written__when_a_folder_is_given(void **state)
{
    const char *a = dump_of(state, "a", TOKENS, "math"), *folder = file_in(state, "x/y");
    json_t *j = cli_passes("diff", a, a, "--out", folder);
    json_t *kept = json_load_file(textf("%s/diff.json", folder), 0, NULL);
    assert_non_null(kept);
    assert_true(json_equal(field(kept, "taps"), field(j, "taps")));
    assert_string_equal(field_text(kept, "verdict"), "pass");
    json_decref(kept);
    json_decref(j);
    char *text = read_whole(textf("%s/diff.txt", folder), NULL);
    assert_non_null(strstr(text, "PASS"));
    free(text);
    set_cell(a, "embed", 0, 0, 50);
    json_decref(cli_fails("diff", a, dump_of(state, "b", TOKENS, "math"), "--out", folder));
    text = read_whole(textf("%s/diff.txt", folder), NULL);
    assert_null(strstr(text, "PASS"));
    free(text);
    assert_int_equal(folder_count(folder), 2);
}

/* Its bounds come from a profile that nobody has seen that engine follow: green says less. */
static void profile__that_no_dump_has_confirmed_is_said(void **state)
{
    static const char *const profiles[] = {"sgl", "vllm+exact", "hf"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *argv[] = {"diff",      FIXTURE("bugs/clean.safetensors"),
                              "--model",   FIXTURE("tiny-k25"),
                              "--profile", profiles[i],
                              "--json",    NULL};
        struct cli r;
        cli_run(&r, argv);
        assert_in_range(r.status, 0, 1); /* green or red, it is said */
        const char *how = field_text(r.json, "profile_how");
        assert_int_equal(json_is_true(field(r.json, "unverified")), i < 2);
        assert_int_equal(strstr(how, "unverified: no outside dump") != NULL, i < 2);
        if (i < 2) assert_int_equal(strncmp(how, "as asked; ", 10), 0);
        cli_free(&r);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(verdict__has_all_fields__when_two_runs_are_equal),
        TEST(first_difference__is_named__when_one_cell_is_off),
        TEST(special_value__is_red__when_on_one_side),
        TEST(verdict__is_red__when_nothing_was_compared),
        TEST(tap__is_red__when_promised_and_missing),
        TEST(tap__is_red__when_required_and_missing),
        TEST(last_requirement__counts__when_there_are_forty),
        TEST(bound__decides__when_given),
        TEST(one_row__is_red__when_the_whole_tap_hides_it),
        TEST(foreign_dump__is_read__when_it_has_no_metadata),
        TEST(rows__are_matched__when_the_subject_has_fewer),
        TEST(dumps__are_refused__when_of_other_tokens),
        TEST(shape__is_red__when_columns_differ),
        TEST(profile_run__sets_the_bounds__when_given),
        TEST(reports__are_written__when_a_folder_is_given),
        cmocka_unit_test(profile__that_no_dump_has_confirmed_is_said),
    };
    return cmocka_run_group_tests_name("cli_diff", tests, NULL, NULL);
}
