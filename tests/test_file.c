/* test_file.c: all or nothing: under the final name stands the old content or the whole new one. */
#include "tests/support.h"

#include "core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void map__gives_the_bytes(void **state)
{
    struct err err = ERR_INIT;
    struct file_map m;
    const char *path = folder_path(state, "a");
    write_whole(path, "abc\0d", 5);
    assert_int_equal(file_map(path, &m, &err), ERR_OK);
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "abc\0d", 5);
    file_unmap(&m);
    assert_null(m.data);
    file_unmap(&m);
}

static void map__gives_null__when_the_file_is_empty(void **state)
{
    struct err err = ERR_INIT;
    struct file_map m;
    write_text(folder_path(state, "a"), "");
    assert_int_equal(file_map(folder_path(state, "a"), &m, &err), ERR_OK);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
}

static void map__is_an_input_error__when_missing_folder_or_device(void **state)
{
    struct err err = ERR_INIT;
    struct file_map m;
    assert_int_equal(file_map(folder_path(state, "none"), &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "/none", "No such file", NULL);
    err_clear(&err);
    assert_int_equal(file_map(*state, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", *state, "a folder", "a regular file");
    err_clear(&err);
    assert_int_equal(file_map("/dev/null", &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "/dev/null", "a special file", "a regular file");
}

static void join__puts_a_slash_between__and_refuses_long_paths(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char out[FILE_PATH], big[FILE_PATH];
    assert_int_equal(file_join("a/b", "c", out, &err), ERR_OK);
    assert_string_equal(out, "a/b/c");
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(file_join(big, "c", out, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "path", "xxx", "1025 bytes", "fewer than 1024");
    big[FILE_PATH - 3] = '\0';
    err_clear(&err);
    assert_int_equal(file_join(big, "c", out, &err), ERR_OK);
}

static void folder__is_made_with_those_above_it(void **state)
{
    struct err err = ERR_INIT;
    char deep[FILE_PATH];
    snprintf(deep, sizeof deep, "%s", folder_path(state, "a/b/c"));
    assert_false(file_exists(deep));
    assert_int_equal(file_make_folder(deep, &err), ERR_OK);
    assert_true(file_is_folder(deep));
    assert_int_equal(file_make_folder(deep, &err), ERR_OK);
    assert_int_equal(file_make_folder(folder_path(state, "a/d/"), &err), ERR_OK);
    assert_true(file_is_folder(folder_path(state, "a/d")));
}

static void folder__is_an_input_error__when_a_file_is_in_the_way(void **state)
{
    struct err err = ERR_INIT;
    write_text(folder_path(state, "a"), "x");
    assert_int_equal(file_make_folder(folder_path(state, "a"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "make folder", "/a", "a file of that name", "a folder");
    err_clear(&err);
    assert_int_equal(file_make_folder(folder_path(state, "a/b"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "make folder", "/a", "Not a directory", NULL);
    char big[FILE_PATH + 8];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    err_clear(&err);
    assert_int_equal(file_make_folder(big, &err), ERR_INPUT);
}

static void out__leaves_the_target_untouched__until_commit(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "a"));
    write_text(path, "old");
    assert_int_equal(file_out_open(&f, path, &err), ERR_OK);
    assert_false(f.direct);
    assert_int_equal(file_out_write(&f, "new content", 11, &err), ERR_OK);
    assert_int_equal(f.bytes, 11);
    char *text = read_whole(path, NULL);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(file_out_commit(&f, &err), ERR_OK);
    text = read_whole(path, NULL);
    assert_string_equal(text, "new content");
    free(text);
    assert_int_equal(folder_count(*state), 1);
    file_out_abandon(&f);
    assert_true(file_exists(path));
}

static void out__writes_at_offsets(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    size_t size;
    assert_int_equal(file_out_open(&f, folder_path(state, "a"), &err), ERR_OK);
    assert_int_equal(file_out_write(&f, "head", 4, &err), ERR_OK);
    assert_int_equal(file_out_write_at(&f, "cd", 2, 6, &err), ERR_OK);
    assert_int_equal(file_out_write_at(&f, "ab", 2, 4, &err), ERR_OK);
    assert_int_equal(file_out_write_at(&f, NULL, 0, 100, &err), ERR_OK);
    assert_int_equal(file_out_commit(&f, &err), ERR_OK);
    char *text = read_whole(folder_path(state, "a"), &size);
    assert_int_equal(size, 8);
    assert_memory_equal(text, "headabcd", 8);
    free(text);
}

static void out__leaves_nothing__when_abandoned(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    file_out_abandon(&f);
    assert_int_equal(file_out_open(&f, folder_path(state, "a"), &err), ERR_OK);
    assert_int_equal(file_out_write(&f, "x", 1, &err), ERR_OK);
    assert_int_equal(folder_count(*state), 1);
    file_out_abandon(&f);
    assert_int_equal(folder_count(*state), 0);
    file_out_abandon(&f);
}

static void out__leaves_nothing__when_an_error_is_set_before_commit(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    write_text(folder_path(state, "a"), "old");
    assert_int_equal(file_out_open(&f, folder_path(state, "a"), &err), ERR_OK);
    err_set(&err, ERR_INPUT, "something else went wrong");
    assert_int_equal(file_out_commit(&f, &err), ERR_INPUT);
    assert_int_equal(folder_count(*state), 1);
    char *text = read_whole(folder_path(state, "a"), NULL);
    assert_string_equal(text, "old");
    free(text);
}

/* A file size limit stands for a full disk: the write fails half way with EFBIG. */
static void write_past_the_limit(void *ctx)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    struct rlimit limit = {4096, 4096};
    char block[8192] = {0};
    signal(SIGXFSZ, SIG_IGN);
    bool ok = setrlimit(RLIMIT_FSIZE, &limit) == 0 && file_out_open(&f, ctx, &err) == ERR_OK;
    ok = ok && file_out_write(&f, block, sizeof block, &err) == ERR_IO && strstr(err.where, ctx) &&
         err.found[0];
    ok = ok && f.bytes == 4096 && file_out_commit(&f, &err) == ERR_IO;
    err_clear(&err);
    ok = ok && file_out_open(&f, ctx, &err) == ERR_OK;
    ok = ok && file_out_write_at(&f, block, sizeof block, 2048, &err) == ERR_IO;
    file_out_abandon(&f);
    if (!ok) abort();
}

static void out__leaves_nothing__when_the_disk_is_full(void **state)
{
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "a"));
    assert_int_equal(signal_of(write_past_the_limit, path, NULL), 0);
    assert_int_equal(folder_count(*state), 0);
}

static void out__is_an_io_error__when_the_device_is_full(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    assert_int_equal(file_out_open(&f, "/dev/full", &err), ERR_OK);
    assert_true(f.direct);
    assert_int_equal(file_out_write(&f, "x", 1, &err), ERR_IO);
    assert_err(&err, ERR_IO, "write", "/dev/full", "No space left", NULL);
    assert_int_equal(file_out_commit(&f, &err), ERR_IO);
    assert_true(file_exists("/dev/full"));
}

static void out__writes_straight_through__when_the_target_is_a_pipe(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    char path[FILE_PATH], got[6] = "";
    snprintf(path, sizeof path, "%s", folder_path(state, "pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(file_out_open(&f, path, &err), ERR_OK);
    assert_true(f.direct);
    assert_int_equal(file_out_write(&f, "hello", 5, &err), ERR_OK);
    assert_int_equal(file_out_commit(&f, &err), ERR_OK);
    assert_int_equal(read(reader, got, 5), 5);
    assert_string_equal(got, "hello");
    close(reader);
    assert_int_equal(file_out_open(&f, "/dev/null", &err), ERR_OK);
    file_out_abandon(&f);
    assert_true(file_exists("/dev/null"));
}

static void out__is_an_input_error__when_the_folder_is_missing(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    assert_int_equal(file_out_open(&f, folder_path(state, "none/a"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write", "none/a", "No such file", NULL);
    assert_int_equal(folder_count(*state), 0);
}

static void out__is_an_input_error__when_the_target_is_a_folder(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    assert_int_equal(file_out_open(&f, *state, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write", *state, "a folder", "a file name");
    err_clear(&err);
    assert_int_equal(file_out_open(&f, "", &err), ERR_INPUT);
    assert_true(err.what[0] && err.found[0]);
    char big[FILE_PATH + 8];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    err_clear(&err);
    assert_int_equal(file_out_open(&f, big, &err), ERR_INPUT);
}

static void commit__is_an_error_and_leaves_nothing__when_a_folder_took_the_name(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    assert_int_equal(file_out_open(&f, folder_path(state, "a"), &err), ERR_OK);
    assert_int_equal(mkdir(folder_path(state, "a"), 0700), 0);
    assert_int_not_equal(file_out_commit(&f, &err), ERR_OK);
    assert_err(&err, err.code, "rename to", "/a", "directory", NULL);
    assert_int_equal(folder_count(*state), 1);
}

static void abandon_all__removes_every_temporary_file(void **state)
{
    struct err err = ERR_INIT;
    struct file_out f[3] = {FILE_OUT_INIT, FILE_OUT_INIT, FILE_OUT_INIT};
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(file_out_open(&f[i], folder_path(state, names[i]), &err), ERR_OK);
    assert_int_equal(file_out_commit(&f[1], &err), ERR_OK);
    assert_int_equal(folder_count(*state), 3);
    file_out_abandon_all();
    assert_int_equal(folder_count(*state), 1);
    assert_true(file_exists(folder_path(state, "b")));
    file_out_abandon(&f[0]);
    file_out_abandon(&f[2]);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(map__gives_the_bytes),
        in_folder(map__gives_null__when_the_file_is_empty),
        in_folder(map__is_an_input_error__when_missing_folder_or_device),
        cmocka_unit_test(join__puts_a_slash_between__and_refuses_long_paths),
        in_folder(folder__is_made_with_those_above_it),
        in_folder(folder__is_an_input_error__when_a_file_is_in_the_way),
        in_folder(out__leaves_the_target_untouched__until_commit),
        in_folder(out__writes_at_offsets),
        in_folder(out__leaves_nothing__when_abandoned),
        in_folder(out__leaves_nothing__when_an_error_is_set_before_commit),
        in_folder(out__leaves_nothing__when_the_disk_is_full),
        cmocka_unit_test(out__is_an_io_error__when_the_device_is_full),
        in_folder(out__writes_straight_through__when_the_target_is_a_pipe),
        in_folder(out__is_an_input_error__when_the_folder_is_missing),
        in_folder(out__is_an_input_error__when_the_target_is_a_folder),
        in_folder(commit__is_an_error_and_leaves_nothing__when_a_folder_took_the_name),
        in_folder(abandon_all__removes_every_temporary_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
