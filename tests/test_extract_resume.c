/* test_extract_resume.c: an extract that dies, or whose n-th call fails, at any call that changes
 * the disk: for n = 1, 2, 3, .. until none is hit. What has a final name is whole; the run that
 * takes it up gives the bytes of one that was never stopped.
 *
 * The calls are this program's own: it defines them in place of the C library's. */
#include "tests/extracting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum how { NEVER, DIES_BEFORE, DIES_AFTER, FAILS };

/* Only in a child: which call is hit, and how. */
static enum how how = NEVER;
static long countdown;

static bool hit(void)
{
    if (how == NEVER || --countdown != 0) return false;
    if (how == DIES_BEFORE) raise(SIGKILL);
    return true;
}

/* The call's result, and what comes of being hit. */
static int outcome(bool is_hit, long rc)
{
    if (is_hit && how == DIES_AFTER) raise(SIGKILL);
    return (int)rc;
}

static bool fails(bool is_hit, int number)
{
    if (is_hit && how == FAILS) errno = number;
    return is_hit && how == FAILS;
}

int rename(const char *from, const char *to)
{
    bool h = hit();
    if (fails(h, EIO)) return -1;
    return outcome(h, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int fsync(int fd)
{
    bool h = hit();
    if (fails(h, EIO)) return -1;
    (void)fd; /* a kill leaves the page cache: what is only there is not lost */
    return outcome(h, 0);
}

int ftruncate(int fd, off_t size)
{
    bool h = hit();
    if (fails(h, EIO)) return -1;
    return outcome(h, syscall(SYS_ftruncate, fd, size));
}

int mkdir(const char *path, mode_t mode)
{
    bool h = hit();
    if (fails(h, ENOSPC)) return -1;
    return outcome(h, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char *path)
{
    bool h = hit();
    if (fails(h, EIO)) return -1;
    return outcome(h, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

/* Dies with half of it written; fails as a full disk does. */
ssize_t write(int fd, const void *data, size_t size)
{
    bool h = fd > STDERR_FILENO && hit();
    if (fails(h, ENOSPC)) return -1;
    if (h && how == DIES_AFTER) {
        syscall(SYS_write, fd, data, size / 2);
        raise(SIGKILL);
    }
    return syscall(SYS_write, fd, data, size);
}

/* Runs in a child whose n-th call is hit. 0: it passed, and none was; -1: it was killed; else the
 * code. */
static int run_hit(const struct extract_request *r, enum how as, long n)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct extract_result out;
        struct err err;
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        how = as;
        countdown = n;
        int code = (int)extract_of(r, &out, &err);
        bool said = code == 0 || (err.what[0] && err.found[0]);
        _exit(!said ? 99 : code == 0 && countdown <= 0 ? 98 : code);
    }
    while (waitpid(child, &status, 0) < 0) assert_int_equal(errno, EINTR);
    if (WIFSIGNALED(status)) assert_int_equal(WTERMSIG(status), SIGKILL);
    return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

static void clear(const char *folder)
{
    void *path = strdup(folder); /* the teardown frees it */
    assert_non_null(path);
    assert_int_equal(folder_teardown(&path), 0);
}

/* Every sample file under its final name, in a folder that an extract was killed in, is one of the
 * finished folder's. */
static void assert_no_half(const char *folder, const char *whole, const json_t *samples)
{
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const char *name = field_text(json_array_get(samples, i), "file");
        const char *path = textf("%s/%s", folder, name);
        if (!file_exists(path)) continue;
        size_t n, m;
        char *a = read_whole(path, &n), *b = read_whole(textf("%s/%s", whole, name), &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
}

static void assert_taken_up(void **state, enum sample_format format, enum how as)
{
    char data[FILE_PATH], model[FILE_PATH], whole[FILE_PATH], out[FILE_PATH];
    snprintf(data, sizeof data, "%s", extract_corpus(state, 3));
    snprintf(model, sizeof model, "%s", small_model(state, "m"));
    snprintf(whole, sizeof whole, "%s/whole", (const char *)*state);
    snprintf(out, sizeof out, "%s/out", (const char *)*state);
    struct extract_request r = extract_asked(state, model, data, "whole");
    r.out = whole;
    r.format = format;
    r.batch = 2;
    r.draft_vocab = 16;
    assert_int_equal(extract_all(&r), 3);
    uint64_t print = extract_print(whole);
    json_t *manifest = extract_manifest(whole);
    r.out = out;
    r.resume = true;
    long n = 1;
    for (;; n++) {
        int code = run_hit(&r, as, n);
        if (code == 0) break;
        /* 98: it passed though a call failed. Only what cannot be undone by it may do so: the sync
         * of a folder. */
        if (as != FAILS) assert_int_equal(code, -1);
        if (as == FAILS && code != 98) assert_int_equal(code, ERR_IO);
        if (file_is_folder(r.out)) assert_no_half(r.out, whole, field(manifest, "samples"));
        assert_int_equal(extract_all(&r), 3);
        assert_true(extract_print(r.out) == print);
        clear(r.out);
        assert_false(file_exists(r.out));
    }
    assert_true(n > 25);
    assert_true(extract_print(r.out) == print);
    json_decref(manifest);
}

static void extract__is_taken_up__when_killed_before_any_call(void **state)
{
    assert_taken_up(state, SAMPLE_VLLM, DIES_BEFORE);
}

static void extract__is_taken_up__when_killed_in_or_after_any_call(void **state)
{
    assert_taken_up(state, SAMPLE_V03, DIES_AFTER);
}

static void extract__is_taken_up__when_killed_among_folders(void **state)
{
    assert_taken_up(state, SAMPLE_SPECFORGE, DIES_AFTER);
}

static void extract__says_so_and_is_taken_up__when_any_call_fails(void **state)
{
    assert_taken_up(state, SAMPLE_VLLM, FAILS);
}

/* Killed again and again, each time a call later. */
static void extract__ends__when_killed_many_times(void **state)
{
    const char *data = extract_corpus(state, 4), *model = small_model(state, "m");
    struct extract_request r = extract_asked(state, model, data, "whole");
    r.batch = 1;
    assert_int_equal(extract_all(&r), 4);
    uint64_t print = extract_print(r.out);
    r.out = textf("%s/out", (const char *)*state);
    r.resume = true;
    int kills = 0;
    while (run_hit(&r, DIES_AFTER, 7 + kills) != 0) assert_true(++kills < 60);
    assert_true(kills > 5);
    assert_true(extract_print(r.out) == print);
}

/* What is done is not done again: the batch and the threads may change, the bytes do not. */
static void resume__does_only_what_is_left(void **state)
{
    const char *data = extract_corpus(state, 5), *model = small_model(state, "m");
    struct extract_request r = extract_asked(state, model, data, "whole");
    struct extract_result out;
    struct err err;
    assert_int_equal(extract_all(&r), 5);
    uint64_t print = extract_print(r.out);
    const char *gone = textf("%s/hs_3.safetensors", r.out);
    r.resume = true;
    (void)!extract_of(&r, &out, &err);
    assert_ok(&err);
    assert_int_equal(out.written, 0);
    assert_int_equal(out.resumed, 5);
    extract_result_free(&out);
    assert_int_equal(unlink(gone), 0);
    r.batch = 1;
    r.options.threads = 3;
    r.options.chunk = 2;
    (void)!extract_of(&r, &out, &err);
    assert_ok(&err);
    assert_int_equal(out.written, 2);
    assert_int_equal(out.resumed, 3);
    extract_result_free(&out);
    assert_true(extract_print(r.out) == print);
}

static void resume__is_refused__for_another_request(void **state)
{
    static const char *const keys[] = {"dtype",       "format",       "layer_ids",   "numbering",
                                       "profile",     "precision",    "draft_vocab", "length_max",
                                       "data_sha256", "config_sha256"};
    const char *data = extract_corpus(state, 2), *model = small_model(state, "m");
    const struct extract_request r = extract_asked(state, model, data, "out");
    assert_int_equal(extract_all(&r), 2);
    uint64_t print = extract_print(r.out);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct extract_request other = r;
        struct extract_result out;
        struct err err = ERR_INIT;
        other.resume = true;
        if (i == 0) other.dtype = DT_F32;
        if (i == 1) other.format = SAMPLE_V03;
        if (i == 2) other.layers = "0,1,3";
        if (i == 3) other.numbering = "output", other.layers = "0,1,2";
        if (i == 4) (void)!profile_find("hf", &other.options.profile, &err);
        if (i == 5) other.options.precision = PRECISION_F64;
        if (i == 6) other.draft_vocab = 8;
        if (i == 7) other.length_max = 100;
        if (i == 8) other.data = "1,2,3";
        if (i == 9) other.model = fixture_synth("tiny-k2-plainrope");
        assert_int_equal(extract_of(&other, &out, &err), ERR_INPUT);
        bool ids = i == 3; /* the ids as given come before the numbering that they are given in */
        assert_err(&err, ERR_INPUT, "resume", ids ? "layer_ids" : keys[i], NULL,
                   "what the samples there were made with");
        extract_result_free(&out);
        assert_true(extract_print(r.out) == print);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(extract__is_taken_up__when_killed_before_any_call),
        TEST(extract__is_taken_up__when_killed_in_or_after_any_call),
        TEST(extract__is_taken_up__when_killed_among_folders),
        TEST(extract__says_so_and_is_taken_up__when_any_call_fails),
        TEST(extract__ends__when_killed_many_times),
        TEST(resume__does_only_what_is_left),
        TEST(resume__is_refused__for_another_request),
    };
    return cmocka_run_group_tests_name("extract_resume", tests, NULL, NULL);
}
