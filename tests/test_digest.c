/* test_digest.c: SHA-256 against its published examples, in memory and of files. */
#include "core/digest.h"
#include "tests/support.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static void sha256__is_the_published_one__for_the_examples(void **state)
{
    (void)state;
    char hex[DIGEST_TEXT];
    struct err err = ERR_INIT;
    assert_int_equal(digest_sha256("abc", 3, "abc", hex, &err), ERR_OK);
    assert_string_equal(hex, ABC);
    assert_int_equal(digest_sha256("", 0, "nothing", hex, &err), ERR_OK);
    assert_string_equal(hex, EMPTY);
}

static void file__has_the_hash_of_its_bytes(void **state)
{
    char hex[DIGEST_TEXT];
    struct err err = ERR_INIT;
    write_text(folder_path(state, "abc"), "abc");
    write_text(folder_path(state, "empty"), "");
    assert_int_equal(digest_file(folder_path(state, "abc"), hex, &err), ERR_OK);
    assert_string_equal(hex, ABC);
    assert_int_equal(digest_file(folder_path(state, "empty"), hex, &err), ERR_OK);
    assert_string_equal(hex, EMPTY);
    assert_int_equal(digest_file(folder_path(state, "none"), hex, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "none", "No such file", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256__is_the_published_one__for_the_examples),
        cmocka_unit_test_setup_teardown(file__has_the_hash_of_its_bytes, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
