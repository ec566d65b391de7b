/* test_foreign_folder.c: folders that the tools of SGLang and msprobe wrote (fixtures/foreign) are
 * read as dumps, ranks joined; what is not understood is refused by name. */
#include "harness/foreign.h"
#include "tests/cli.h"

#include "core/pt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOREIGN(name) FIXTURE("foreign/" name)
#define STEP(n) .has_step = true, .step = n

static void open_ok(struct dump *d, const char *path, struct foreign_options o)
{
    struct err err = ERR_INIT;
    (void)!foreign_open(d, path, &o, &err);
    assert_ok(&err);
    assert_string_equal(d->file.path, path);
}

static void refused(const char *path, struct foreign_options o, const char *where,
                    const char *found, const char *wanted)
{
    struct err err = ERR_INIT;
    struct dump d;
    (void)!foreign_open(&d, path, &o, &err);
    dump_close(&d);
    assert_err(&err, ERR_INPUT, NULL, where, found, wanted);
}

/* Element i is `first` + i, as all numbers of the fixture are. */
static void check_ramp(const struct dump *d, const char *name, int64_t rows, int64_t cols,
                       double first)
{
    const struct dump_tap *t = dump_find(d, name);
    if (!t) fail_msg("no %s", name);
    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        double x;
        dtype_to_f64(t->tensor->dtype,
                     (const char *)t->tensor->data + i * dtype_size(t->tensor->dtype), 1, &x);
        if (!(x == first + (double)i)) fail_msg("%s: %g at %lld", name, x, (long long)i);
    }
}

static char *meta_of(const struct dump *d, const char *key)
{
    return (char *)(uintptr_t)st_meta(&d->file, key);
}

/* Copies file or folder `from` to `to`, as cp does. */
static void copy(const char *from, const char *to)
{
    const pid_t child = fork();
    if (child == 0) {
        execlp("cp", "cp", "-r", from, to, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(cli_wait(child), 0);
    assert_true(file_exists(to) || file_is_folder(to));
}

/* ---- SGLang's dumper ---- */

static void dumper__joins_what_is_cut__and_checks_what_is_not(void **state)
{
    (void)state;
    struct dump d;
    open_ok(&d, FOREIGN("sglang_dumper"), (struct foreign_options){STEP(0)});
    assert_int_equal(d.count, 3);
    check_ramp(&d, "q.3", 3, 8, 0);
    check_ramp(&d, "attn_out.3", 3, 4, 100);
    check_ramp(&d, "model.layers.3.mlp.output", 3, 4, 200);
    assert_int_equal(d.token_count, 3);
    assert_int_equal(d.tokens[2], 7);
    assert_string_equal(meta_of(&d, "assay.parts"), "{\"q.3\":2}");
    dump_close(&d);
}

static void dumper__reads_the_pass_that_is_asked_for(void **state)
{
    (void)state;
    struct dump d;
    open_ok(&d, FOREIGN("sglang_dumper/dump_1"), (struct foreign_options){STEP(1)});
    assert_int_equal(d.tokens[0], 6);
    check_ramp(&d, "attn_out.3", 3, 4, 500);
    dump_close(&d);
    refused(FOREIGN("sglang_dumper"), (struct foreign_options){0}, "sglang_dumper", "0, 1",
            "--step N");
    refused(FOREIGN("sglang_dumper"), (struct foreign_options){STEP(7)}, "sglang_dumper", "0, 1",
            "7, as --step says");
}

/* A folder that is one file of the fixture less, or has one more. */
static const char *dumper_copy(void **state, const char *name)
{
    const char *to = textf("%s/%s", (const char *)*state, name);
    copy(FOREIGN("sglang_dumper/dump_1"), to);
    return to;
}

#define DUMPED(rank, index, name) "step=0___rank=" #rank "___dump_index=" #index "___name=" name
#define TAIL "___recompute_status=disabled"

static void dumper__refuses__a_rank_that_is_missing(void **state)
{
    const char *folder = dumper_copy(state, "less");
    assert_int_equal(remove(textf("%s/%s", folder, DUMPED(1, 3, "q") TAIL "___layer_id=3.pt")), 0);
    refused(folder, (struct foreign_options){STEP(0)}, "q.3", "1 ranks", "2, as many");
    const char *other = dumper_copy(state, "first");
    assert_int_equal(remove(textf("%s/%s", other, DUMPED(0, 3, "q") TAIL "___layer_id=3.pt")), 0);
    refused(other, (struct foreign_options){STEP(0)}, "q.3", "none of rank 0", "one of each of 2");
}

static void dumper__refuses__a_name_twice_and_foreign_files(void **state)
{
    const char *folder = dumper_copy(state, "twice");
    copy(textf("%s/%s", folder, DUMPED(0, 3, "q") TAIL "___layer_id=3.pt"),
         textf("%s/%s", folder, DUMPED(0, 9, "q") TAIL "___layer_id=3.pt"));
    refused(folder, (struct foreign_options){STEP(0)}, "q.3", "twice", "once a forward pass");
    const char *mixed = dumper_copy(state, "mixed");
    write_text(textf("%s/notes.npy", mixed), "x");
    refused(mixed, (struct foreign_options){STEP(0)}, "notes.npy", "no file of SGLang's dumper",
            "them alone");
}

/* Rank 1's copy of a replicated tensor is that of another layer: a finding, not a bad file. */
static void dumper__finds__ranks_that_differ(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    struct pt_file f;
    const char *folder = dumper_copy(state, "differ"),
               *path = textf("%s/%s", folder, DUMPED(1, 4, "attn_out") TAIL "___layer_id=3.pt");
    assert_int_equal(pt_open(&f, path, &err), ERR_OK);
    ((char *)(uintptr_t)pt_get(&f.root, "value")->tensor->data)[2 * 6] ^= 1;
    assert_int_equal(pt_write(path, &f.root, &err), ERR_OK);
    pt_close(&f);
    const struct foreign_options o = {STEP(0)};
    assert_int_equal(foreign_open(&d, folder, &o, &err), ERR_DIFF);
    assert_err(&err, ERR_DIFF, "join ranks", "attn_out.3: row 1, column 2",
               "106 on rank 0, 106.5 on rank 1", "the same bits");
    dump_close(&d);
    struct cli r;
    cli(&r, "diff", folder, folder, "--step", "0");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "assay: fail: join ranks"));
    assert_string_equal(r.out, "");
    cli_free(&r);
}

/* ---- SGLang's passes ---- */

static void passes__are_read_with_the_map_that_says_how_ranks_hold_them(void **state)
{
    (void)state;
    struct dump d;
    open_ok(&d, FOREIGN("sglang_passes"), (struct foreign_options){.map = "sglang", STEP(1)});
    assert_string_equal(d.engine, "sglang");
    check_ramp(&d, "layers.0.q", 3, 8, 1000);
    check_ramp(&d, "layers.1.q", 3, 8, 1400);
    assert_int_equal(d.count, 4);
    /* A sum of the ranks' terms: both hold 1100 + i. */
    const struct dump_tap *t = dump_find(&d, "layers.0.attn");
    double x[2];
    dtype_to_f64(t->tensor->dtype, t->tensor->data, 2, x);
    assert_true(x[0] == 2200 && x[1] == 2202);
    dump_close(&d);
}

static void passes__without_a_map__are_refused_where_ranks_differ(void **state)
{
    (void)state;
    refused(FOREIGN("sglang_passes"), (struct foreign_options){STEP(0)},
            "model.layers.0.self_attn.q_b_proj: row 0, column 0", "0 on rank 0, 4 on rank 1",
            "`shard: AXIS`");
}

/* ---- msprobe ---- */

static void msprobe__reads_steps_and_one_process(void **state)
{
    (void)state;
    struct dump d;
    open_ok(&d, FOREIGN("msprobe"), (struct foreign_options){STEP(1)});
    check_ramp(&d, "Module.model.layers.0.input_layernorm.RMSNorm.forward.0.output.0", 3, 4, 100);
    check_ramp(&d, "Module.model.layers.0.Layer.forward.0.output.0", 3, 4, 101);
    dump_close(&d);
    open_ok(&d, FOREIGN("msprobe/step0"), (struct foreign_options){.map = "vllm"});
    assert_int_equal(d.count, 2);
    check_ramp(&d, "layers.0.attn_norm", 3, 4, 0);
    check_ramp(&d, "layers.0.attn", 3, 4, 1);
    dump_close(&d);
    open_ok(&d, FOREIGN("msprobe/step0/proc12"), (struct foreign_options){0});
    dump_close(&d);
    refused(FOREIGN("msprobe"), (struct foreign_options){0}, "msprobe", "0, 1", "--step N");
}

static void msprobe__joins_ranks(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    const char *folder = folder_path(state, "step0"), *map = folder_path(state, "names.yaml");
    assert_int_equal(file_make_folder(folder, &err), ERR_OK);
    copy(FOREIGN("msprobe/step0/proc12"), textf("%s/rank0", folder));
    copy(FOREIGN("msprobe/step0/proc12"), textf("%s/rank1", folder));
    write_text(map, "assay-map: 1\ntaps:\n  - {from: \"*o_proj*\", to: layers.0.attn, shard: 1}\n");
    open_ok(&d, folder, (struct foreign_options){.map = map});
    const struct dump_tap *t = dump_find(&d, "layers.0.attn");
    assert_non_null(t);
    assert_int_equal(t->rows, 3);
    assert_int_equal(t->cols, 8);
    double x[12];
    dtype_to_f64(DT_F32, t->tensor->data, 12, x);
    assert_true(x[0] == 1 && x[3] == 4 && x[4] == 1 && x[7] == 4 && x[8] == 5);
    dump_close(&d);
    write_text(map, "assay-map: 1\ntaps:\n  - {from: \"*o_proj*\", to: layers.0.attn, shard: 2}\n");
    refused(folder, (struct foreign_options){.map = map}, "o_proj", "axis 2 of 2", NULL);
}

static void msprobe__refuses__what_its_json_does_not_say(void **state)
{
    size_t size;
    const char *folder = folder_path(state, "rank0"), *json = textf("%s/dump.json", folder);
    copy(FOREIGN("msprobe/step0/proc12"), folder);
    char *text = read_whole(json, &size);
    static const struct {
        const char *from, *to, *where, *found, *wanted;
    } cases[] = {
        {"\"tensor\"", "\"statistics\"", "dump.json: task", "statistics", "tensor"},
        {".output.0.pt\"", ".output.7.pt\"", "output.7.pt", NULL, NULL},
        {"\"data_name\": \"", "\"data_name\": \"../", "dump.json", "../Module", "NAME.pt"},
        {"      3,\n      4", "      3,\n      5", "output.0.pt", "another shape", "dump.json"},
        {"\"data\":", "\"date\":", "dump.json", "no tensor", "one at least"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *changed = replaced(text, cases[i].from, cases[i].to);
        write_text(json, changed);
        refused(folder, (struct foreign_options){0}, cases[i].where, cases[i].found,
                cases[i].wanted);
        free(changed);
    }
    free(text);
}

/* ---- folders of plain files ---- */

static void files__of_a_folder_are_one_dump(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    const char *folder = folder_path(state, "parts");
    const float x[] = {0, 1, 2, 3};
    const struct st_part part[] = {
        {.name = "embed", .dtype = DT_F32, .dims = 2, .shape = {2, 2}, .data = x}};
    assert_int_equal(file_make_folder(folder, &err), ERR_OK);
    write_safetensors(textf("%s/a.safetensors", folder), part, 1, NULL, 0);
    copy(FIXTURE("pt/f4.npy"), textf("%s/layers.0.attn.npy", folder));
    copy(FOREIGN("msprobe/step0/proc12/dump_tensor_data/"
                 "Module.model.layers.0.Layer.forward.0.output.0.pt"),
         textf("%s/layers.0.mlp.pt", folder));
    open_ok(&d, folder, (struct foreign_options){0});
    assert_int_equal(d.count, 3);
    check_ramp(&d, "embed", 2, 2, 0);
    check_ramp(&d, "layers.0.mlp", 3, 4, 1);
    dump_close(&d);
    write_safetensors(textf("%s/b.safetensors", folder), part, 1, NULL, 0);
    refused(folder, (struct foreign_options){0}, "embed", "twice", NULL);
    refused(folder, (struct foreign_options){STEP(0)}, "parts", "no forward passes", NULL);
}

static void folder__of_nothing_known_is_refused(void **state)
{
    struct err err = ERR_INIT;
    const char *folder = folder_path(state, "other");
    assert_int_equal(file_make_folder(folder, &err), ERR_OK);
    refused(folder, (struct foreign_options){0}, "other", "0 names", "SGLang, msprobe");
    write_text(textf("%s/log.txt", folder), "x");
    refused(folder, (struct foreign_options){0}, "other", "1 names", "SGLang, msprobe");
    refused(folder_path(state, "nowhere.pt"), (struct foreign_options){0}, "nowhere.pt", NULL,
            NULL);
}

/* ---- the verbs ---- */

static void diff_and_inspect__take_them(void **state)
{
    (void)state;
    json_t *r =
        cli_passes("diff", FOREIGN("sglang_dumper"), FOREIGN("sglang_dumper"), "--step", "0");
    assert_int_equal(field_int(r, "compared"), 3);
    json_decref(r);
    r = cli_passes("inspect", FOREIGN("sglang_passes"), "--map", "sglang", "--step", "1");
    assert_string_equal(field_text(r, "kind"), "dump");
    assert_int_equal(field_int(r, "tensors"), 4);
    json_decref(r);
    r = cli_passes("inspect", FIXTURE("pt/views.pt"));
    assert_string_equal(field_text(r, "kind"), "tensors");
    json_decref(r);
    r = cli_passes("inspect", FIXTURE("pt/void_bf16.npy"), "--dtype", "bf16");
    assert_string_equal(field_text(json_array_get(field(r, "taps"), 0), "dtype"), "BF16");
    json_decref(r);
    cli_refuses(state, ((struct refusal){2, "read numpy array", "void_bf16", "V2", "--dtype bf16"}),
                "inspect", FIXTURE("pt/void_bf16.npy"));
    cli_refuses(state, ((struct refusal){2, "arguments", "--dtype", "float7", "bf16"}), "inspect",
                FIXTURE("pt/void_bf16.npy"), "--dtype", "float7");
    cli_refuses(state,
                ((struct refusal){2, "map names", "vlllm", "no map of that name",
                                  "sglang, transformers, vllm"}),
                "diff", FIXTURE("pt/views.pt"), FIXTURE("pt/views.pt"), "--map", "vlllm");
}

/* The map of the error can be divided by the ranks that made the columns. */
static void diff__of_joined_ranks__knows_them(void **state)
{
    struct dump d;
    float wrong[24];
    open_ok(&d, FOREIGN("sglang_dumper"), (struct foreign_options){STEP(0)});
    memcpy(wrong, dump_find(&d, "q.3")->tensor->data, sizeof wrong);
    dump_close(&d);
    wrong[5] += 3;
    const char *truth = folder_path(state, "truth.safetensors");
    const struct st_part part = {
        .name = "q.3", .dtype = DT_F32, .dims = 2, .shape = {3, 8}, .data = wrong};
    write_safetensors(truth, &part, 1, NULL, 0);
    json_t *r =
        cli_fails("diff", FOREIGN("sglang_dumper"), truth, "--step", "0", "--bound", "1e-6");
    const json_t *first = json_array_get(field(field(r, "error_map"), "divisions"), 0);
    assert_string_equal(field_text(first, "what"), "ranks");
    assert_int_equal(field_int(first, "size"), 4);
    json_decref(r);
}

/* A checkpoint as torch.save wrote it before safetensors. */
static void inspect__reads_pytorch_model_bin(void **state)
{
    const char *path = folder_path(state, "pytorch_model.bin");
    copy(FIXTURE("pt/views.pt"), path);
    json_t *r = cli_passes("inspect", path);
    assert_string_equal(field_text(r, "kind"), "tensors");
    assert_int_equal(field_int(named(field(r, "taps"), "state.weight"), "cols"), 2);
    json_decref(r);
    r = cli_passes("diff", path, path);
    assert_true(field_int(r, "compared") > 5);
    json_decref(r);
    write_whole(path, "\x80\x02\x8a\nl\xfc\x9c", 7);
    cli_refuses(state,
                ((struct refusal){2, "read torch file", "pytorch_model.bin",
                                  "a bare pickle, as torch.save wrote before 1.6", NULL}),
                "diff", path, path);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(dumper__joins_what_is_cut__and_checks_what_is_not),
        in_folder(dumper__reads_the_pass_that_is_asked_for),
        in_folder(dumper__refuses__a_rank_that_is_missing),
        in_folder(dumper__refuses__a_name_twice_and_foreign_files),
        in_folder(dumper__finds__ranks_that_differ),
        in_folder(passes__are_read_with_the_map_that_says_how_ranks_hold_them),
        in_folder(passes__without_a_map__are_refused_where_ranks_differ),
        in_folder(msprobe__reads_steps_and_one_process),
        in_folder(msprobe__joins_ranks),
        in_folder(msprobe__refuses__what_its_json_does_not_say),
        in_folder(files__of_a_folder_are_one_dump),
        in_folder(folder__of_nothing_known_is_refused),
        in_folder(diff_and_inspect__take_them),
        in_folder(diff__of_joined_ranks__knows_them),
        in_folder(inspect__reads_pytorch_model_bin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
