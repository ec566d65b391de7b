/* test_campaign_case.c: what campaigns run on: every kind of checkpoint can be run, the same draw
 * is the same case, and folders of a campaign go when they must. */
#include "core/head.h"
#include "harness/campaign_case.h"
#include "harness/campaign_subject.h"
#include "tests/cli.h"
#include "tests/extracting.h"

#include "core/blas.h"

#include <math.h>
#include <string.h>

static void make(struct campaign_case *c, void **state, int64_t i, uint64_t seed)
{
    struct err err = ERR_INIT;
    const char *folder = textf("%s/%d-%d", (const char *)*state, (int)i, (int)seed);
    (void)!campaign_case_make(c, i, seed, folder, &err);
    assert_ok(&err);
}

/* Runs it in bf16: every tap is given and finite. Returns the model's config. */
static struct config run(const struct campaign_case *c)
{
    struct err err = ERR_INIT;
    struct loaded l;
    struct subject s;
    (void)!loaded_open(&l, c->model, &err);
    assert_ok(&err);
    (void)!subject_run(&s, &l, &c->tokens, (struct subject_how){.profile = "hf4", .threads = 1},
                       NULL, &err);
    assert_ok(&err);
    assert_int_equal(s.rows, c->tokens.count);
    for (int64_t i = 0; i < s.count; i++) {
        assert_true(s.given[i]);
        for (int64_t k = 0; !s.taps[i].ints && k < s.rows * s.taps[i].cols; k++)
            assert_true(isfinite(bf16_to_f32(((const uint16_t *)s.data[i])[k])));
    }
    struct config config = *l.model.config;
    subject_free(&s);
    loaded_close(&l);
    return config;
}

static void fixed__have_the_shapes_of_the_tiny_models(void **state)
{
    static const char *const names[CASE_FIXED] = {"tiny-k25", "tiny-dsv3"};
    for (int i = 0; i < CASE_FIXED; i++) {
        struct campaign_case c;
        struct config wanted;
        struct err err = ERR_INIT;
        make(&c, state, i, 1);
        (void)!config_read(textf("%s/fixtures/%s/config.json", ASSAY_SOURCE_DIR, names[i]), &wanted,
                           &err);
        assert_ok(&err);
        struct config is = run(&c);
        const int64_t sizes[][2] = {{is.hidden, wanted.hidden},
                                    {is.layers, wanted.layers},
                                    {is.heads, wanted.heads},
                                    {is.q_lora, wanted.q_lora},
                                    {is.kv_lora, wanted.kv_lora},
                                    {is.rope, wanted.rope},
                                    {is.experts, wanted.experts},
                                    {is.top_k, wanted.top_k},
                                    {is.groups, wanted.groups},
                                    {is.top_groups, wanted.top_groups},
                                    {is.intermediate, wanted.intermediate},
                                    {is.moe_intermediate, wanted.moe_intermediate},
                                    {is.quant.kind, wanted.quant.kind}};
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            assert_int_equal(sizes[k][0], sizes[k][1]);
        assert_true(is.norm_eps == wanted.norm_eps && is.rope_theta == wanted.rope_theta);
        assert_true(is.routed_scale == wanted.routed_scale);
        campaign_case_close(&c);
    }
}

static void drawn__can_all_be_run__of_every_quantisation(void **state)
{
    int kinds[3] = {0}, zero_points = 0, grouped = 0, plain_rope = 0, batches = 0;
    for (int i = 0; i < 15; i++) {
        struct campaign_case c;
        make(&c, state, CASE_FIXED + i, 7);
        struct config is = run(&c);
        kinds[is.quant.kind]++;
        zero_points += is.quant.kind == QUANT_PACKED && !is.quant.symmetric;
        grouped += is.groups > 1;
        plain_rope += !is.scaling.yarn;
        batches += c.tokens.sequences > 1;
        campaign_case_close(&c);
    }
    assert_true(kinds[QUANT_NONE] && kinds[QUANT_PACKED] && kinds[QUANT_FP8_BLOCK] && zero_points);
    assert_true(grouped && plain_rope && batches);
}

static void draw__is_the_same__for_the_same_seed_alone(void **state)
{
    struct campaign_case a, b;
    struct err err = ERR_INIT;
    make(&a, state, 4, 1);
    make(&b, state, 4, 2);
    uint64_t first = extract_print(a.model);
    assert_true(first != extract_print(b.model));
    campaign_case_close(&b);
    const char *again = textf("%s/again", (const char *)*state);
    (void)!campaign_case_make(&b, 4, 1, again, &err);
    assert_ok(&err);
    assert_true(first == extract_print(again));
    assert_int_equal(a.tokens.count, b.tokens.count);
    assert_memory_equal(a.tokens.id, b.tokens.id, (size_t)a.tokens.count * sizeof *a.tokens.id);
    campaign_case_close(&a);
    campaign_case_close(&b);
}

static void tokens__lie_in_the_vocabulary__in_one_or_two_sequences(void **state)
{
    int sequences[3] = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct tokens t;
        struct err err = ERR_INIT;
        (void)!campaign_case_tokens(&t, 50, seed, &err);
        assert_ok(&err);
        (void)!tokens_check(&t, 50, &err);
        assert_ok(&err);
        sequences[t.sequences]++;
        tokens_free(&t);
    }
    assert_true(sequences[1] > 5 && sequences[2] > 5);
}

static void given__is_taken_as_it_is__or_refused(void **state)
{
    struct campaign_case c;
    struct err err = ERR_INIT;
    char longer[2 * FILE_PATH];
    (void)state;
    (void)!campaign_case_given(&c, "m", "1,2", NULL, &err);
    assert_ok(&err);
    assert_string_equal(c.model, "m");
    assert_int_equal(c.tokens.count, 2);
    campaign_case_close(&c);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    (void)!campaign_case_given(&c, longer, "1", NULL, &err);
    assert_err(&err, ERR_USAGE, "option", "--model", "too long", NULL);
    campaign_case_close(&c);
}

/* Runs one case in every order; true where OpenBLAS's sums change a bit of what bf16 keeps. */
static bool orders_differ(void **state, uint64_t seed)
{
    struct campaign_case c;
    struct loaded l;
    struct err err = ERR_INIT;
    struct subject s[ORDERS];
    make(&c, state, CASE_FIXED, seed);
    (void)!loaded_open(&l, c.model, &err);
    assert_ok(&err);
    for (int o = 0; o < ORDERS; o++) {
        (void)!subject_run(
            &s[o], &l, &c.tokens,
            (struct subject_how){.profile = "vllm", .order = (enum subject_order)o, .threads = 2},
            NULL, &err);
        assert_ok(&err);
    }
    assert_int_equal(subject_differ(&s[0], &s[0], 0), -1);
    assert_int_equal(subject_differ(&s[ORDER_F64], &s[ORDER_CHUNKS], 0), -1);
    bool differ = subject_differ(&s[ORDER_F64], &s[ORDER_BLAS], 0) >= 0;
    for (int o = 0; o < ORDERS; o++) subject_free(&s[o]);
    loaded_close(&l);
    campaign_case_close(&c);
    return differ;
}

/* Chunks never change a bit; another order of sums does, in most cases. */
static void orders__differ_in_bits__where_sums_do(void **state)
{
    struct err none = ERR_INIT;
    const struct blas *blas;
    int differ = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) differ += orders_differ(state, seed);
    if (blas_open(&blas, &none) == ERR_OK) assert_true(differ >= 1);
}

/* Every case has a head that runs behind its model, and draws make unlike ones. */
static void heads__are_of_both_kinds_and_can_be_run(void **state)
{
    int64_t mla = 0, normed = 0, mapped = 0, fed_normed = 0, n = 12;
    for (int64_t i = 0; i < n; i++) {
        struct campaign_case c;
        struct err err = ERR_INIT;
        struct loaded l;
        struct subject s;
        struct head h;
        make(&c, state, i, 4);
        (void)!loaded_open(&l, c.model, &err);
        (void)!head_open(&h, c.head, &l.model, &err);
        assert_ok(&err);
        assert_int_equal(h.config.aux_count, 3);
        assert_true(h.config.aux[2] < l.model.config->layers); /* there is one behind it */
        mla += h.config.kind == HEAD_MLA;
        normed += h.config.norm_before_residual;
        mapped += h.mapped;
        fed_normed += h.config.norm_output;
        const struct subject_how how = {.profile = "hf4", .threads = 1, .head = c.head};
        (void)!subject_run(&s, &l, &c.tokens, how, NULL, &err);
        assert_ok(&err);
        assert_int_equal(s.draft_rows, c.tokens.count - c.tokens.sequences);
        for (int64_t k = 0; k < s.count; k++) assert_true(s.given[k]);
        subject_free(&s);
        head_close(&h);
        loaded_close(&l);
        campaign_case_close(&c);
    }
    assert_int_equal(mla, n / 2);
    assert_true(normed > 0 && normed < n && mapped > n / 2 && mapped < n);
    assert_true(fed_normed > 0 && fed_normed < n / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fixed__have_the_shapes_of_the_tiny_models, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(drawn__can_all_be_run__of_every_quantisation, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(draw__is_the_same__for_the_same_seed_alone, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(tokens__lie_in_the_vocabulary__in_one_or_two_sequences),
        cmocka_unit_test(given__is_taken_as_it_is__or_refused),
        cmocka_unit_test_setup_teardown(orders__differ_in_bits__where_sums_do, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(heads__are_of_both_kinds_and_can_be_run, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
