/* test_campaign_folder.c: a campaign's own folder, and what counts as half written. */
#include "harness/campaign_folder.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void folder__goes_with_all_it_holds(void **state)
{
    char path[FILE_PATH], below[FILE_PATH];
    struct err err = ERR_INIT;
    setenv("TMPDIR", *state, 1);
    (void)!campaign_folder_make(path, &err);
    assert_ok(&err);
    assert_int_equal(strncmp(path, *state, strlen(*state)), 0);
    (void)!file_join(path, "a", below, &err);
    (void)!file_make_folder(below, &err);
    (void)!file_join(below, "x.json", path, &err);
    write_text(path, "{}");
    path[strlen(path) - strlen("/a/x.json")] = '\0';
    campaign_folder_remove(path);
    assert_false(file_is_folder(path));
    campaign_folder_remove(path); /* nothing there: fine */
    unsetenv("TMPDIR");
}

static void make__says__where_it_cannot(void **state)
{
    char path[FILE_PATH], longer[2 * FILE_PATH];
    struct err err = ERR_INIT;
    (void)state;
    setenv("TMPDIR", "/nowhere/at/all", 1);
    (void)!campaign_folder_make(path, &err);
    assert_err(&err, ERR_INPUT, "temporary folder", "/nowhere/at/all", NULL, NULL);
    err_clear(&err);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    setenv("TMPDIR", longer, 1);
    (void)!campaign_folder_make(path, &err);
    assert_err(&err, ERR_INPUT, "temporary folder", "TMPDIR", NULL, "a shorter path");
    unsetenv("TMPDIR");
}

static void whole__is_red__for_half_a_file_or_a_temporary_name(void **state)
{
    static const struct {
        const char *name, *text;
        bool whole;
    } rows[] = {
        {"a.json", "{\"x\": 1}\n", true}, {"a.json", "{\"x\": ", false},
        {"a.txt", "anything", true},      {"a.safetensors", "short", false},
        {"b.json.tmp-7", "{}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        int files = 0;
        const char *path = folder_path(state, rows[i].name);
        write_text(path, rows[i].text);
        (void)!campaign_folder_whole(*state, &files, &err);
        assert_int_equal(err.code, rows[i].whole ? ERR_OK : ERR_FAULT);
        if (!rows[i].whole) assert_non_null(strstr(err.where, rows[i].name));
        assert_int_equal(files, 1);
        assert_int_equal(unlink(folder_path(state, rows[i].name)), 0);
    }
    size_t n;
    struct err err = ERR_INIT;
    int files = 0;
    unsigned char *good = st_bytes("{}", NULL, 0, &n);
    write_whole(folder_path(state, "c.safetensors"), good, n);
    free(good);
    (void)!campaign_folder_whole(*state, &files, &err);
    assert_ok(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folder__goes_with_all_it_holds, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(make__says__where_it_cannot),
        cmocka_unit_test_setup_teardown(whole__is_red__for_half_a_file_or_a_temporary_name,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
