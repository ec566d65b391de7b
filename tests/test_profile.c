/* test_profile.c: names, and what each row must and must not round. */
#include "tests/support.h"

#include "core/profile.h"

#include <stdio.h>
#include <string.h>

static struct profile found(const char *name)
{
    struct err err = ERR_INIT;
    struct profile p;
    (void)!profile_find(name, &p, &err);
    assert_ok(&err);
    return p;
}

static int points(const struct profile *p)
{
    int n = 0;
    for (int i = 0; i < RP_COUNT; i++) n += p->rounds[i];
    return n;
}

static void find__knows_every_listed_name_plain_and_exact(void **state)
{
    (void)state;
    int n = 0;
    for (; profile_name(n); n++) {
        char exact[64];
        struct profile p = found(profile_name(n));
        assert_int_equal(strncmp(p.name, profile_name(n), strlen(profile_name(n))), 0);
        assert_true(p.about && p.about[0]);
        snprintf(exact, sizeof exact, "%s+exact", profile_name(n));
        struct profile e = found(exact);
        assert_int_equal(points(&e), 0);
        assert_int_equal(e.latent_eps_config, p.latent_eps_config);
        assert_int_equal(e.scale_after_sum, p.scale_after_sum);
        assert_int_equal(e.decode_absorbed, p.decode_absorbed);
        assert_int_equal(e.norm_sees_unrounded, p.norm_sees_unrounded);
    }
    assert_true(n >= 4);
    assert_null(profile_name(-1));
    assert_null(profile_name(n + 100));
}

static void find__does_not_change_the_table__when_a_copy_is_changed(void **state)
{
    (void)state;
    struct profile hf = found("hf");
    memset(hf.rounds, 0, sizeof hf.rounds);
    (void)found("hf+exact");
    hf = found("hf");
    assert_true(points(&hf) > 0);
}

static void find__lists_the_known_names__when_unknown(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "HF",    "hf+", "hf+exac",  "hf+exact+exact", "+exact",
                                      "vll", "vllmx", "mat", "hf exact", "hf+bf16"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = ERR_INIT;
        struct profile p;
        assert_int_equal(profile_find(bad[i], &p, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "profile", NULL, bad[i][0] ? bad[i] : "\"\"", "math");
        for (int k = 0; profile_name(k); k++) assert_non_null(strstr(err.wanted, profile_name(k)));
        assert_non_null(strstr(err.wanted, "+exact"));
    }
}

static void math__rounds_nowhere(void **state)
{
    (void)state;
    struct profile p = found("math");
    assert_int_equal(points(&p), 0);
    assert_false(p.latent_eps_config);
    assert_false(p.scale_after_sum);
}

/* The conventions of the rounding notes: which engine takes which epsilon, scale and norm input. */
static void engines__follow_their_conventions(void **state)
{
    (void)state;
    struct profile hf = found("hf"), vllm = found("vllm"), sgl = found("sgl");
    assert_false(hf.latent_eps_config);
    assert_true(vllm.latent_eps_config && sgl.latent_eps_config);
    assert_true(vllm.scale_after_sum);
    assert_false(hf.scale_after_sum || hf.decode_absorbed);
    assert_true(vllm.decode_absorbed && sgl.decode_absorbed);
    assert_true(sgl.norm_sees_unrounded);
    assert_false(hf.norm_sees_unrounded || vllm.norm_sees_unrounded);
}

static void engines__round_what_all_of_them_store_in_bf16(void **state)
{
    (void)state;
    static const enum round_point stored[] = {RP_EMBED,  RP_LINEAR,    RP_NORM,     RP_ROPE,
                                              RP_PROB,   RP_ATTN_CORE, RP_RESIDUAL, RP_ACT,
                                              RP_ROUTED, RP_MOE,       RP_LOGITS};
    static const char *const names[] = {"hf", "vllm", "sgl"};
    for (size_t n = 0; n < 3; n++) {
        struct profile p = found(names[n]);
        for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
            assert_true(p.rounds[stored[i]]);
        assert_false(p.rounds[RP_ROUTER_LOGITS]); /* float32 in all three */
    }
    assert_true(found("hf").rounds[RP_SCORE] && found("hf").rounds[RP_ROPE_TERM]);
    assert_false(found("vllm").rounds[RP_SCORE] || found("sgl").rounds[RP_SCORE]);
    assert_true(found("hf").rounds[RP_NORM_INNER] && found("vllm").rounds[RP_NORM_INNER]);
    assert_false(found("sgl").rounds[RP_NORM_INNER]);
    assert_true(found("vllm").rounds[RP_ROUTED_SCALED] && found("vllm").rounds[RP_Q_LATENT]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find__knows_every_listed_name_plain_and_exact),
        cmocka_unit_test(find__does_not_change_the_table__when_a_copy_is_changed),
        cmocka_unit_test(find__lists_the_known_names__when_unknown),
        cmocka_unit_test(math__rounds_nowhere),
        cmocka_unit_test(engines__follow_their_conventions),
        cmocka_unit_test(engines__round_what_all_of_them_store_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
