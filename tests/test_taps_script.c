/* test_taps_script.c: compat/python/assay_taps.py, run over a stand-in module tree and a stand-in
 * for torch (tests/python): what it writes is a dump, ranks are joined, and a tap that is missing
 * or came twice is an error that each reader shows. Against transformers it is run by hand. */
#include "harness/foreign.h"
#include "tests/cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs tests/python/tapped.py; its exit status, and what it wrote on stderr (the caller's). */
static int tapped(void **state, const char *name, char **text)
{
    const char *said = folder_path(state, "stderr"), *given = getenv("ASSAY_PYTHON"),
               *python = given ? given : "python3";
    const pid_t child = fork();
    if (child == 0) {
        const int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        setenv("PYTHONPATH", ASSAY_SOURCE_DIR "/tests/python:" ASSAY_SOURCE_DIR "/compat/python",
               1);
        setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        dup2(fd, STDERR_FILENO);
        execlp(python, python, ASSAY_SOURCE_DIR "/tests/python/tapped.py", name,
               textf("%s/%s", (const char *)*state, name), (char *)NULL);
        _exit(127);
    }
    size_t size;
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    *text = read_whole(said, &size);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *written(void **state, const char *name)
{
    char *text;
    if (tapped(state, name, &text) != 0) fail_msg("%s: %s", name, text);
    free(text);
    return textf("%s/%s", (const char *)*state, name);
}

static void open_ok(struct dump *d, const char *path)
{
    struct err err = ERR_INIT;
    (void)!foreign_open(d, path, NULL, &err);
    assert_ok(&err);
}

static double at(const struct dump *d, const char *name, int64_t row, int64_t col)
{
    const struct dump_tap *t = dump_find(d, name);
    double x = 0;
    if (!t) fail_msg("no %s", name);
    dtype_to_f64(t->tensor->dtype,
                 (const char *)t->tensor->data +
                     (row * t->cols + col) * dtype_size(t->tensor->dtype),
                 1, &x);
    return x;
}

static void plain__is_a_dump_of_every_tap(void **state)
{
    struct dump d;
    const char *folder = written(state, "plain");
    open_ok(&d, folder);
    assert_int_equal(d.count, 24);
    assert_int_equal(d.promised_count, 24);
    assert_int_equal(d.rows, 4);
    assert_int_equal(d.token_count, 4);
    assert_int_equal(d.tokens[2], 4);
    assert_string_equal(d.promised[0], "embed");
    assert_string_equal(d.promised[23], "logits");
    /* Leaves are called in this order: embed, input norm, q_b, kv_a norm, core, o. */
    assert_true(at(&d, "embed", 0, 0) == 100 && at(&d, "layers.0.attn_norm", 3, 3) == 215);
    assert_true(at(&d, "layers.0.q", 1, 0) == 306 && at(&d, "layers.0.attn_core", 0, 5) == 505);
    assert_true(at(&d, "layers.0.attn", 0, 0) == 600);
    /* The gate gives 5 2, 7 0, 1 6, 4 3 and weights 0.5, 0.25: in ascending ids. */
    assert_true(at(&d, "layers.1.experts", 0, 0) == 2 && at(&d, "layers.1.experts", 2, 0) == 1);
    assert_true(at(&d, "layers.1.expert_weights", 0, 0) == 0.25);
    assert_true(at(&d, "layers.1.expert_weights", 2, 0) == 0.5);
    assert_int_equal(dump_find(&d, "layers.1.experts")->tensor->dtype, DT_I32);
    dump_close(&d);
    json_t *r = cli_passes("inspect", textf("%s/step0.rank0.safetensors", folder));
    assert_int_equal(field_int(r, "tensors"), 24);
    json_decref(r);
}

/* A layer that gives (hidden states, residual) has their sum as its output. */
static void vllm__sums_what_a_layer_gives(void **state)
{
    struct dump d;
    open_ok(&d, written(state, "vllm"));
    const double mlp = at(&d, "layers.0.mlp", 1, 1);
    assert_true(at(&d, "layers.0.output", 1, 1) == mlp + mlp + 100);
    dump_close(&d);
}

static void passes__are_chosen_by_step(void **state)
{
    struct dump d;
    const char *folder = written(state, "passes");
    const struct foreign_options o = {.has_step = true, .step = 1};
    struct err err = ERR_INIT;
    assert_int_equal(foreign_open(&d, folder, NULL, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read dump", "passes", "0, 1", "--step N");
    err_clear(&err);
    assert_int_equal(foreign_open(&d, folder, &o, &err), ERR_OK);
    assert_true(at(&d, "embed", 0, 0) > 100);
    dump_close(&d);
}

static void ranks__are_joined(void **state)
{
    struct dump d, one;
    const char *folder = written(state, "ranks");
    open_ok(&one, written(state, "plain"));
    open_ok(&d, folder);
    assert_int_equal(d.count, 21); /* routed, shared and logits are left out */
    for (int64_t i = 0; i < d.count; i++) {
        const struct st_tensor *t = d.taps[i].tensor,
                               *want = dump_find(&one, d.taps[i].name)->tensor;
        assert_int_equal(t->bytes, want->bytes);
        assert_memory_equal(t->data, want->data, (size_t)t->bytes);
    }
    assert_non_null(strstr(st_meta(&d.file, "assay.parts"), "\"layers.1.q\":2"));
    dump_close(&one);
    dump_close(&d);
    assert_int_equal(remove(textf("%s/step0.rank1.safetensors", folder)), 0);
    cli_refuses(state, ((struct refusal){2, "join ranks", NULL, "1 ranks", "2, as many"}), "diff",
                folder, folder);
}

/* A copy on one rank that is not the other's: exit 1, and it says where. */
static void ranks__that_differ_are_found(void **state)
{
    struct st_edit e;
    const char *folder = written(state, "ranks"),
               *path = textf("%s/step0.rank1.safetensors", folder);
    st_edit_read(&e, path);
    st_edit_data(&e, "layers.1.mlp")[4 * 4 + 1] ^= 0x10;
    st_edit_write(&e, path);
    st_edit_free(&e);
    struct cli r;
    cli(&r, "diff", folder, folder);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "layers.1.mlp: row 1, column 0"));
    cli_free(&r);
}

static void taps__that_are_missing_or_came_twice__are_errors_everywhere(void **state)
{
    static const struct {
        const char *name, *said, *tap, *found;
    } cases[] = {{"missing", "layers.0.mlp_norm 0 times", "layers.0.mlp_norm", "0 in one"},
                 {"twice", "layers.0.attn 2 times", "layers.0.attn", "2 in one"},
                 {"raises", "layers.1.output 0 times", "layers.1.output", "0 in one"}};
    const char *plain = written(state, "plain");
    for (int i = 0; i < 3; i++) {
        char *text;
        const char *folder = textf("%s/%s", (const char *)*state, cases[i].name);
        assert_int_equal(tapped(state, cases[i].name, &text), 1);
        assert_non_null(strstr(text, "assay_taps: count taps: found forward pass 0: "));
        if (i < 2) assert_non_null(strstr(text, cases[i].said));
        free(text);
        static const char *const paths[] = {"", "/step0.rank0.safetensors"};
        for (int k = 0; k < 2; k++) {
            const char *path = textf("%s%s", folder, paths[k]);
            json_t *r = cli_fails("inspect", path);
            const json_t *p;
            size_t at;
            bool shown = false;
            json_array_foreach(field(r, "problems"), at, p)
            {
                shown |= strcmp(field_text(p, "tensor"), cases[i].tap) == 0 &&
                         strstr(field_text(p, "found"), cases[i].found);
            }
            assert_true(shown);
            json_decref(r);
            struct cli d;
            cli(&d, "diff", path, i == 1 ? path : plain);
            assert_int_equal(d.status, 1);
            if (i == 1) assert_non_null(strstr(d.err, "assay: fail: count taps"));
            cli_free(&d);
        }
    }
}

static void script__refuses__what_is_no_model_and_no_pass(void **state)
{
    static const char *const cases[][2] = {{"none", "no forward pass ran"},
                                           {"foreign", "none of the names"}};
    for (int i = 0; i < 2; i++) {
        char *text;
        assert_int_equal(tapped(state, cases[i][0], &text), 1);
        assert_non_null(strstr(text, cases[i][1]));
        free(text);
    }
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(plain__is_a_dump_of_every_tap),
        in_folder(vllm__sums_what_a_layer_gives),
        in_folder(passes__are_chosen_by_step),
        in_folder(ranks__are_joined),
        in_folder(ranks__that_differ_are_found),
        in_folder(taps__that_are_missing_or_came_twice__are_errors_everywhere),
        in_folder(script__refuses__what_is_no_model_and_no_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
