/* test_reference.c: docs/reference is what the program's tables say, byte for byte. */
#include "harness/reference.h"

#include "core/fault.h"
#include "core/profile.h"
#include "core/tap.h"
#include "harness/verb.h"
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

static void page__is_the_committed_one(void **state)
{
    struct err err = ERR_INIT;
    int64_t count = 0;
    const char *folder = folder_path(state, "reference");
    assert_int_equal(reference_write(folder, &count, &err), ERR_OK);
    for (int i = 0; reference_page(i); i++) {
        const char *committed = textf("%s/docs/reference/%s", ASSAY_SOURCE_DIR, reference_page(i));
        size_t size, made_size;
        if (!file_exists(committed)) fail_msg("docs/reference/%s is missing", reference_page(i));
        char *text = read_whole(committed, &size);
        char *made = read_whole(textf("%s/%s", folder, reference_page(i)), &made_size);
        if (strcmp(text, made) != 0)
            fail_msg("docs/reference/%s is not what the program says; write it anew: `assay help "
                     "--reference docs/reference`",
                     reference_page(i));
        free(made);
        free(text);
        count--;
    }
    assert_int_equal(count, 0);
    /* Nothing lies there that nobody makes. */
    assert_int_equal(folder_count(ASSAY_SOURCE_DIR "/docs/reference"), folder_count(folder));
}

/* Rows are counted by the tables that they come from, not by the renderer's own loop. */
static void page__has_a_row_for_each_entry(void **state)
{
    struct err err = ERR_INIT;
    int64_t count = 0;
    size_t size;
    const char *folder = folder_path(state, "reference");
    assert_int_equal(reference_write(folder, &count, &err), ERR_OK);
    char *faults = read_whole(textf("%s/faults.md", folder), &size);
    char *verbs = read_whole(textf("%s/verbs.md", folder), &size);
    char *profiles = read_whole(textf("%s/profiles.md", folder), &size);
    char *taps = read_whole(textf("%s/taps.md", folder), &size);
    for (int i = 0; fault_at(i); i++)
        assert_non_null(strstr(faults, textf("| `%s` |", fault_at(i)->id)));
    for (int i = 0; verb_at(i); i++)
        assert_non_null(strstr(verbs, textf("\n## %s\n", verb_at(i)->name)));
    for (int i = 0; profile_name(i); i++)
        assert_non_null(strstr(profiles, textf("\n| %s |", profile_name(i))));
    int points = 0;
    for (const char *p = strstr(profiles, "rounded at"); (p = strstr(p, "\n| ")); p++) points++;
    assert_int_equal(points, RP_COUNT);
    int kinds = 0;
    for (const char *p = strstr(taps, "|---"); (p = strstr(p, "\n| ")); p++) kinds++;
    assert_int_equal(kinds, TAP_KINDS);
    free(taps);
    free(profiles);
    free(verbs);
    free(faults);
}

/* The letters of a tap's shape stand for what tap_list() says of a model. */
static void shape__is_that_of_a_model(void **state)
{
    static const struct {
        const char *shape, *tap;
    } rows[] = {{"[T, H]", "layers.1.mlp"},
                {"[T, k]", "layers.1.experts"},
                {"[T, E]", "layers.1.router_logits"},
                {"[T, R]", "layers.1.k_rope"},
                {"[T, L]", "layers.1.kv_latent"},
                {"[T, h V]", "layers.1.attn_core"},
                {"[T, V]", "logits"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum tap_kind kind;
        int64_t layer;
        assert_true(tap_parse(rows[i].tap, &kind, &layer));
        assert_string_equal(tap_shape(kind), rows[i].shape);
        assert_int_equal(tap_is_ints(kind), kind == TAP_EXPERTS);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(page__is_the_committed_one),
        TEST(page__has_a_row_for_each_entry),
        cmocka_unit_test(shape__is_that_of_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
