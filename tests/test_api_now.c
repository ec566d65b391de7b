/* test_api_now.c: names that are alike, and where a name may be now. */
#include "compat/api_now.h"
#include "tests/surface.h"

#include <string.h>

static bool alike(const char *x, const char *y)
{
    return 100 * api_alike(x, y) >= API_ALIKE_MIN_PERCENT;
}

static void alike__finds_renamings_and_slips(void **state)
{
    (void)state;
    assert_true(alike("get_input_embeddings", "embed_input_ids"));
    assert_true(alike("schedul", "schedule"));
    assert_true(alike("KVCacheConfig", "kv_cache_config"));
    assert_false(alike("forward", "load_weights"));
    assert_false(alike("", "x"));
    assert_true(api_alike("same", "same") >= 1);
    assert_true(api_alike("a_b", "b_a") >= 1); /* words in another order */
}

static void best__keeps_the_best_in_order(void **state)
{
    (void)state;
    const char *text[2];
    double score[2];
    struct api_best b = {.text = text, .score = score, .most = 2};
    api_best_add(&b, "low", 1);
    api_best_add(&b, "high", 3);
    api_best_add(&b, "high", 3); /* once */
    api_best_add(&b, "middle", 2);
    api_best_add(&b, "lower", 0.5);
    assert_int_equal(b.count, 2);
    assert_string_equal(text[0], "high");
    assert_string_equal(text[1], "middle");
    api_best_add(&b, "alpha", 3); /* by name where the score is the same */
    assert_string_equal(text[0], "alpha");
}

static void moved__prefers_what_agrees_most(void **state)
{
    (void)state;
    struct surface *s =
        surface_make("{'lib.models.a': {'names': {'Attention': {'bases': []}}},"
                     " 'lib.layers.attention.attention': {'names': {'Attention': {'bases': []}}},"
                     " 'lib.layers.attention': {'names': {'Attention': {'to': "
                     "'lib.layers.attention.attention:Attention'}}},"
                     " 'lib.v1.layer': {}}");
    const char *now[6];
    assert_true(api_moved(&s->api, "lib.attention.layer:Attention", now, 6) >= 3);
    assert_string_equal(now[0], "lib.layers.attention.attention:Attention");
    assert_string_equal(now[1], "lib.layers.attention:Attention");
    assert_int_equal(api_moved(&s->api, "lib.attention.layer", now, 6), 1);
    assert_string_equal(now[0], "lib.v1.layer");
    assert_int_equal(api_moved(&s->api, "lib.x:Nothing", now, 6), 0);
    assert_int_equal(api_moved(&s->api, "lib.models.a:Attention", now, 1), 1);
    assert_string_not_equal(now[0], "lib.models.a:Attention"); /* not the name itself */
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike__finds_renamings_and_slips),
        cmocka_unit_test(best__keeps_the_best_in_order),
        cmocka_unit_test(moved__prefers_what_agrees_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
