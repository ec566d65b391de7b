/* test_cli_draft.c: `assay forward --draft`: what it writes and says, that options which only cut
 * or schedule the work never change a bit, and what is refused. Numbers: test_golden_eagle.c. */
#include "tests/assert_array.h"
#include "tests/cli.h"

#include "core/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define K25 FIXTURE("tiny-k25")
#define K25_TOKENS "@" FIXTURE("tiny-k25/golden.json")
#define LLAMA "synth:" FIXTURE("eagle-llama/config.json") "?seed=31"
#define MLA "synth:" FIXTURE("eagle-mla/config.json") "?seed=41"
#define TRAINED FIXTURE("eagle-trained")
#define BATCH "[[1,2,3,4,5,6],[7],[8,9,10]]"

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

static void open_dump(struct dump *d, const char *path)
{
    struct err err = ERR_INIT;
    (void)!dump_open(d, path, &err);
    assert_ok(&err);
}

/* Every draft tap of `part`, whose row i is row from + i of `whole`, has its bits. Returns how
 * many. */
static int assert_draft_rows(const char *part, const char *whole, int64_t from)
{
    struct dump p, w;
    int n = 0;
    open_dump(&p, part);
    open_dump(&w, whole);
    for (int64_t i = 0; i < p.count; i++) {
        const struct dump_tap *t = &p.taps[i], *u = dump_find(&w, t->name);
        if (!tap_is_draft(t->kind)) continue;
        assert_non_null(u);
        int64_t row = t->cols * dtype_size(t->tensor->dtype);
        assert_true(t->rows > 0 && from + t->rows <= u->rows && t->cols == u->cols);
        assert_memory_equal(t->tensor->data, (const char *)u->tensor->data + from * row,
                            (size_t)(t->rows * row));
        n++;
    }
    dump_close(&p);
    dump_close(&w);
    return n;
}

static void draft__adds_its_taps_metadata_and_json(void **state)
{
    struct dump d;
    const char *out = file_in(state, "a");
    json_t *j = cli_passes("forward", K25, "--tokens", K25_TOKENS, "--draft", LLAMA, "--out", out);
    const json_t *draft = field(j, "draft");
    assert_int_equal(field_int(j, "taps"), 82 + 10);
    assert_int_equal(field_int(j, "rows"), 48);
    assert_string_equal(field_text(draft, "head"), LLAMA);
    assert_string_equal(field_text(draft, "kind"), "Llama");
    assert_string_equal(field_text(draft, "naming"), "speculators");
    assert_int_equal(field_int(draft, "steps"), 3);
    assert_int_equal(field_int(draft, "rows"), 47);
    assert_string_equal(joined(field(draft, "aux_ids"), 8), "1,3,5");
    assert_int_equal(json_array_size(field(draft, "assumed")), 0);
    json_decref(j);
    open_dump(&d, out);
    assert_int_equal(d.rows, 48);
    assert_int_equal(d.draft_rows, 47);
    assert_string_equal(d.taps[81].name, "logits");
    assert_string_equal(d.taps[82].name, "draft.0.fused");
    assert_string_equal(d.taps[91].name, "draft.2.tokens");
    assert_string_equal(st_meta(&d.file, "assay.draft"), LLAMA);
    assert_string_equal(st_meta(&d.file, "assay.aux"), "[1,3,5]");
    assert_int_equal(strlen(st_meta(&d.file, "assay.draft_config_sha256")), 64);
    assert_non_null(strstr(st_meta(&d.file, "assay.draft_checkpoint"), "seed=31"));
    dump_close(&d);
    /* The target's own taps are those of a run without a head. */
    const char *plain = file_in(state, "plain");
    json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--out", plain));
    j = cli_passes("diff", out, plain, "--bound", "0");
    assert_int_equal(field_int(j, "compared"), 82);
    json_decref(j);
}

static void run(void **state, const char *name, const char *const *options)
{
    const char *argv[CLI_ARGS] = {"forward",  K25,     "--tokens",
                                  K25_TOKENS, "--out", file_in(state, name)};
    int n = 6;
    while (*options) argv[n++] = *options++;
    json_decref(cli_passed(argv, __FILE__, __LINE__));
}
#define run(state, name, ...) run(state, name, (const char *const[]){__VA_ARGS__, NULL})

static void schedule__never_changes_a_bit_of_a_draft(void **state)
{
    static const char *const heads[] = {LLAMA, MLA};
    for (int i = 0; i < 2; i++) {
        const char *whole = file_in(state, "whole");
        run(state, "whole", "--draft", heads[i], "--threads", "1");
        run(state, "a", "--draft", heads[i], "--threads", "3");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 0), 10);
        run(state, "a", "--draft", heads[i], "--prefill-chunk", "7", "--block-size", "5");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 0), 10);
        run(state, "a", "--draft", heads[i], "--taps", "draft.*");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 0), 10);
        run(state, "a", "--draft", heads[i], "--layers", ":1");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 0), 10);
        run(state, "a", "--draft", heads[i], "--rows", "40:46");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 40), 10);
        run(state, "a", "--draft", heads[i], "--rows", "-5:", "--taps", "draft.1.*,embed");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 43), 3);
        run(state, "a", "--draft", heads[i], "--draft-steps", "1");
        assert_int_equal(assert_draft_rows(file_in(state, "a"), whole, 0), 4);
    }
}

static void batch__has_the_drafts_of_its_sequences_alone(void **state)
{
    static const char *const alone[] = {"1,2,3,4,5,6", "8,9,10"};
    static const int64_t from[] = {0, 5};
    const char *batch = file_in(state, "batch"), *tokens = file_in(state, "batch.json");
    write_text(tokens, BATCH);
    json_t *j = cli_passes("forward", K25, "--tokens", tokens, "--draft", MLA, "--out", batch);
    assert_int_equal(field_int(field(j, "draft"), "rows"), 7);
    json_decref(j);
    for (int i = 0; i < 2; i++) {
        const char *one = file_in(state, "one");
        json_decref(cli_passes("forward", K25, "--tokens", alone[i], "--draft", MLA, "--out", one));
        assert_int_equal(assert_draft_rows(one, batch, from[i]), 10);
    }
    j = cli_passes("diff", batch, batch, "--bound", "0");
    assert_int_equal(field_int(j, "compared"), 92);
    json_decref(j);
    json_decref(cli_passes("inspect", batch));
}

/* tiny-k25 with a weight of its last layer that is no number. */
static const char *model_with_a_broken_end(void **state)
{
    static const uint16_t nan_bf16 = 0x7FC0;
    const char *folder = file_in(state, "broken");
    struct st_edit e;
    size_t size;
    assert_int_equal(mkdir(folder, 0755), 0);
    char *config = read_whole(FIXTURE("tiny-k25/config.json"), &size);
    write_text(textf("%s/config.json", folder), config);
    free(config);
    st_edit_read(&e, FIXTURE("tiny-k25/model.safetensors"));
    memcpy(st_edit_data(&e, "language_model.model.layers.5.self_attn.o_proj.weight"), &nan_bf16,
           sizeof nan_bf16);
    st_edit_write(&e, textf("%s/model.safetensors", folder));
    st_edit_free(&e);
    return folder;
}

static void draft_alone__runs_no_layer_past_its_last_aux_id(void **state)
{
    struct dump d;
    const char *broken = model_with_a_broken_end(state), *out = file_in(state, "a");
    cli_refuses(state, ((struct refusal){2, NULL, "layers.5.self_attn.o_proj", NULL, NULL}),
                "forward", broken, "--tokens", K25_TOKENS, "--draft", LLAMA, "--out", out);
    json_decref(cli_passes("forward", broken, "--tokens", K25_TOKENS, "--draft", LLAMA, "--out",
                           out, "--taps", "draft.*,layers.1.*"));
    run(state, "whole", "--draft", LLAMA);
    assert_int_equal(assert_draft_rows(out, file_in(state, "whole"), 0), 10);
    run(state, "a", "--draft", LLAMA, "--taps", "draft.0.*");
    open_dump(&d, out);
    assert_int_equal(d.count, 4);
    assert_int_equal(d.draft_rows, 47);
    assert_string_equal(st_meta(&d.file, "assay.order"),
                        "[\"draft.0.fused\",\"draft.0.hidden\",\"draft.0.logits\","
                        "\"draft.0.tokens\"]");
    dump_close(&d);
}

static void dump_of_a_head__is_held_against_its_golden(void **state)
{
    const char *out = file_in(state, "a");
    run(state, "a", "--draft", MLA);
    json_t *j = cli_passes("diff", out, FIXTURE("eagle-mla/golden.safetensors"), "--bound", "5e-5",
                           "--require", "draft.*");
    assert_int_equal(field_int(j, "compared"), 10);
    assert_int_equal(json_array_size(field(j, "missing")), 0);
    assert_string_equal(field_text(named(field(j, "taps"), "draft.0.fused"), "op"), "eagle.fc");
    json_decref(j);
    /* Another head's golden is red, first at the head's first op. */
    j = cli_fails("diff", out, FIXTURE("eagle-llama-nbr/golden.safetensors"), "--bound", "5e-5");
    assert_string_equal(field_text(field(j, "first"), "tap"), "draft.0.fused");
    assert_string_equal(field_text(field(j, "first"), "op"), "eagle.fc");
    assert_int_equal(field_int(field(j, "first"), "layer"), -1);
    assert_int_equal(field_int(field(j, "first"), "draft_step"), 0);
    json_decref(j);
}

static void dumps_of_two_heads__are_no_comparison(void **state)
{
    run(state, "a", "--draft", LLAMA, "--taps", "draft.*");
    run(state, "b", "--draft", MLA, "--taps", "draft.*");
    cli_refuses(state, ((struct refusal){2, "compare dumps", NULL, "draft_config", "one head"}),
                "diff", file_in(state, "a"), file_in(state, "b"));
}

static void draft__is_refused__when_it_cannot_be(void **state)
{
    const char *out = file_in(state, "a");
    static const char *const forward[] = {"forward", K25, "--tokens"};
    cli_refuses(state, ((struct refusal){2, "option", "--draft-steps", "no --draft", NULL}),
                forward[0], forward[1], "--tokens", "1,2,3", "--out", out, "--draft-steps", "2");
    cli_refuses(state, ((struct refusal){2, "option", "--draft-steps", "0", NULL}), "forward", K25,
                "--tokens", "1,2,3", "--out", out, "--draft", LLAMA, "--draft-steps", "0");
    cli_refuses(state, ((struct refusal){2, "option", "--draft", "one token", NULL}), "forward",
                K25, "--tokens", "1", "--out", out, "--draft", LLAMA);
    cli_refuses(state, ((struct refusal){2, "option", "--resume", "--draft", NULL}), "forward", K25,
                "--tokens", "1,2,3", "--out", out, "--draft", LLAMA, "--resume");
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "forward", K25, "--tokens",
                "1,2,3", "--out", out, "--draft", FIXTURE("tiny-k25"));
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "forward", K25, "--tokens",
                "1,2,3", "--out", out, "--draft",
                "synth:" FIXTURE("eagle-full/config.json") "?seed=1");
    cli_refuses(state, ((struct refusal){2, "option", "--out", "file of the head", NULL}),
                "forward", K25, "--tokens", "1,2,3", "--draft", TRAINED, "--out",
                FIXTURE("eagle-trained/model.safetensors"));
    cli_refuses(state, ((struct refusal){2, "option", "--taps", "draft.3.*", NULL}), "forward", K25,
                "--tokens", "1,2,3", "--draft", LLAMA, "--out", out, "--taps", "draft.3.*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(draft__adds_its_taps_metadata_and_json, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(schedule__never_changes_a_bit_of_a_draft, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(batch__has_the_drafts_of_its_sequences_alone, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(draft_alone__runs_no_layer_past_its_last_aux_id,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(dump_of_a_head__is_held_against_its_golden, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(dumps_of_two_heads__are_no_comparison, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(draft__is_refused__when_it_cannot_be, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
