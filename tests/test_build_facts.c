/* test_build_facts.c: what `assay --version` says of the build. */
#include "harness/build_facts.h"

#include "core/ops.h"
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

static void version__has_the_facts__as_text_and_as_json(void **state)
{
    (void)state;
    struct cli r;
    json_t *json = cli_passes("--version");
    const json_t *build = field(json, "build"), *cuda = field(build, "cuda");
    cli(&r, "--version");
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp(r.out, "assay " ASSAY_VERSION "\n", strlen(ASSAY_VERSION) + 7), 0);
    static const char *const texts[] = {"commit", "compiler", "build_type"};
    for (int i = 0; i < 3; i++) {
        assert_true(field_text(build, texts[i])[0] != '\0');
        assert_non_null(strstr(r.out, field_text(build, texts[i])));
    }
    assert_string_equal(field_text(json, "assay"), ASSAY_VERSION);
    assert_int_equal(json_is_true(field(cuda, "built")), gpu_side()->entries[0].name != NULL);
    assert_int_equal(json_array_size(field(cuda, "architectures")) > 0,
                     json_is_true(field(cuda, "built")));
    assert_non_null(strstr(r.out, field_text(cuda, "about")));
    assert_true(times_in(field(build, "kernels"), "portable") == 1);
    assert_true(times_in(field(build, "linear"), "blas") == 1);
    cli_free(&r);
    json_decref(json);
}

/* A commit is a number in hexadecimal, or nobody knows it; a path of this machine is in no fact. */
static void facts__are_facts(void **state)
{
    (void)state;
    const size_t n = strspn(build_commit, "0123456789abcdef");
    assert_true(strcmp(build_commit, "unknown") == 0 ||
                (n >= 7 && (!build_commit[n] || !strcmp(build_commit + n, "-dirty"))));
    assert_int_equal(strlen(build_commit_date), strcmp(build_commit, "unknown") ? 10 : 0);
    json_t *facts = build_facts();
    char *text = json_dumps(facts, 0);
    assert_null(strstr(text, ASSAY_SOURCE_DIR));
    free(text);
    json_decref(facts);
}

static void version__takes_no_words(void **state)
{
    cli_refuses(state, ((struct refusal){2, "arguments", "--version", "\"x\"", NULL}), "--version",
                "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version__has_the_facts__as_text_and_as_json),
        cmocka_unit_test(facts__are_facts),
        cmocka_unit_test_setup_teardown(version__takes_no_words, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
