/* test_resume.c: a forward pass that is killed with SIGKILL goes on where its last whole layer
 * ended, with the same bits; what another run left is refused. */
#include "core/json.h"
#include "harness/forward.h"
#include "tests/golden.h"
#include "tests/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct forward_request request_of(const struct golden *g, const char *tokens,
                                         const char *out)
{
    return (struct forward_request){.model = g->model,
                                    .tokens = tokens,
                                    .out = out,
                                    .reals = DT_F32,
                                    .resume = true,
                                    .options = session_defaults()};
}

/* Runs until the state of a layer lies on disk, then kills. */
static void run_and_kill(const struct forward_request *r, const char *state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct forward_result f;
        struct err err = ERR_INIT;
        _exit(forward_run(r, &f, &err) == ERR_OK ? 0 : 1);
    }
    const struct timespec wait = {.tv_nsec = 2000000};
    for (int i = 0; i < 30000 && !file_exists(state); i++) nanosleep(&wait, NULL);
    assert_true(file_exists(state));
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* The first n tokens as a file: a layer long enough to be killed in, and no longer. */
static void write_ids(void **state, const struct golden *g, int64_t n, char *path, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    for (int64_t i = 0; i < n; i++) fprintf(f, "%s%lld", i ? "," : "[", (long long)g->tokens.id[i]);
    fprintf(f, "]");
    fclose(f);
    snprintf(path, size, "%s", folder_path(state, "ids.json"));
    write_text(path, text);
    free(text);
}

static void forward__goes_on_with_the_same_bits__after_kill_9(void **state)
{
    struct golden g;
    struct forward_result f;
    struct err err = ERR_INIT;
    char tokens[FILE_PATH + 16], whole[FILE_PATH], killed[FILE_PATH], partial[FILE_PATH + 16],
        kept[FILE_PATH + 16];
    golden_open(&g, "tiny-long");
    write_ids(state, &g, 1536, tokens, sizeof tokens);
    snprintf(whole, sizeof whole, "%s", folder_path(state, "whole.safetensors"));
    snprintf(killed, sizeof killed, "%s", folder_path(state, "killed.safetensors"));
    snprintf(partial, sizeof partial, "%s.partial", killed);
    snprintf(kept, sizeof kept, "%s.state", killed);
    struct forward_request r = request_of(&g, tokens, whole);
    struct session_options sgl = r.options;
    /* Norms of this profile read the sum before its rounding: both halves of the state matter. */
    (void)!profile_find("sgl", &sgl.profile, &err);
    assert_ok(&err);
    r.options = sgl;
    r.resume = false;
    (void)!forward_run(&r, &f, &err);
    assert_ok(&err);
    assert_int_equal(f.resumed_layer, 0);
    r = request_of(&g, tokens, killed);
    r.options = sgl;
    run_and_kill(&r, kept);
    assert_false(file_exists(killed));
    assert_true(file_exists(partial));
    r.options.threads = 1; /* may change: no bit depends on it */
    (void)!forward_run(&r, &f, &err);
    assert_ok(&err);
    assert_true(f.resumed_layer >= 1);
    assert_false(file_exists(partial));
    assert_false(file_exists(kept));
    size_t n, m;
    char *a = read_whole(whole, &n), *b = read_whole(killed, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    golden_close(&g);
}

/* Leaves a whole state of tiny-k25 behind: the commit is made impossible by a folder of the dump's
 * name. */
static void leave_state(void **state, const struct golden *g, const char *tokens,
                        char out[FILE_PATH])
{
    struct forward_result f;
    struct err err = ERR_INIT;
    snprintf(out, FILE_PATH, "%s", folder_path(state, "d.safetensors"));
    struct forward_request r = request_of(g, tokens, out);
    assert_int_equal(file_make_folder(out, &err), ERR_OK);
    assert_int_equal(forward_run(&r, &f, &err), ERR_INPUT);
    assert_int_equal(rmdir(out), 0);
}

static void resume__is_refused__for_another_request(void **state)
{
    struct golden g;
    struct forward_result f;
    char tokens[FILE_PATH + 16], out[FILE_PATH], other[FILE_PATH + 16];
    golden_open(&g, "tiny-k25");
    snprintf(tokens, sizeof tokens, "@%s/golden.json", g.folder);
    leave_state(state, &g, tokens, out);
    /* A stray partial of other tokens. */
    struct err err = ERR_INIT;
    snprintf(other, sizeof other, "%s.partial", out);
    write_text(other, "what somebody else wrote");
    struct forward_request r = request_of(&g, tokens, out);
    assert_int_equal(forward_run(&r, &f, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "resume", ".partial", "another run", NULL);
    assert_int_equal(unlink(other), 0);
    /* Chunks have no layer-by-layer state. */
    err_clear(&err);
    r.options.chunk = 4;
    assert_int_equal(forward_run(&r, &f, &err), ERR_USAGE);
    assert_err(&err, ERR_USAGE, "option", "--resume", "--prefill-chunk", NULL);
    golden_close(&g);
}

static void state__is_refused__when_it_does_not_fit(void **state)
{
    static const double x[2] = {1, 2};
    const struct st_meta good[] = {{"assay.request", "mine"}, {"assay.next", "1"}},
                         other[] = {{"assay.request", "yours"}},
                         layer[] = {{"assay.request", "mine"}, {"assay.next", "first"}};
    const struct {
        const struct st_meta *meta;
        int64_t metas, cols;
        const char *what;
    } bad[] = {{other, 1, 2, "yours"}, {layer, 2, 2, "first"}, {good, 2, 1, "another shape"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        struct resume r;
        struct dump_out out = {.file = FILE_OUT_INIT};
        const struct st_part parts[] = {
            {.name = "x", .dtype = DT_F64, .dims = 2, .shape = {1, bad[i].cols}, .data = x},
            {.name = "sum", .dtype = DT_F64, .dims = 2, .shape = {1, bad[i].cols}, .data = x}};
        assert_int_equal(resume_name(&r, folder_path(state, "o"), &err), ERR_OK);
        write_safetensors(r.state, parts, 2, bad[i].meta, bad[i].metas);
        assert_int_equal(resume_read(&r, &out, true, "mine", 1, 2, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "resume", ".state", bad[i].what, NULL);
        resume_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forward__goes_on_with_the_same_bits__after_kill_9,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(resume__is_refused__for_another_request, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(state__is_refused__when_it_does_not_fit, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
