/* test_transport.c: what ranks sum over: NCCL where each has a device and the library, the host
 * otherwise, and one clear line where that is not what was asked for. */
#include "tests/support.h"

#include "gpu/transport.h"

#include <stdlib.h>

enum { RANKS = 4 };

/* Ranks on one host, `devices` of them, all with the same NCCL. */
static void make(struct rank_about a[RANKS], int devices)
{
    for (int r = 0; r < RANKS; r++) {
        a[r] = (struct rank_about){.host = "h1", .version = 22809, .devices = devices};
        a[r].uuid[3] = (unsigned char)(r % devices);
    }
}

static struct transport chosen(const struct rank_about *a)
{
    struct transport t;
    struct err err = ERR_INIT;
    (void)!transport_choose(a, RANKS, &t, &err);
    assert_ok(&err);
    return t;
}

static void ranks__with_a_device_each_go_by_nccl(void **state)
{
    (void)state;
    struct rank_about a[RANKS];
    make(a, RANKS);
    assert_true(chosen(a).nccl);
    assert_string_equal(chosen(a).text, "4 ranks by NCCL 2.28.9");
    for (int r = 0; r < RANKS; r++) a[r].wish = WISH_NCCL;
    assert_true(chosen(a).nccl);
    for (int r = 0; r < RANKS; r++) a[r].wish = WISH_HOST;
    assert_false(chosen(a).nccl);
    assert_string_equal(chosen(a).text, "4 ranks on 4 devices: sums go over the host");
}

static void ranks__that_share_a_device_go_over_the_host(void **state)
{
    (void)state;
    struct rank_about a[RANKS];
    make(a, 1);
    assert_false(chosen(a).nccl);
    assert_string_equal(chosen(a).text, "4 ranks on 1 device: sums go over the host");
    make(a, RANKS);
    memcpy(a[3].uuid, a[1].uuid, sizeof a[3].uuid);
    assert_string_equal(chosen(a).text, "4 ranks on 3 devices: sums go over the host");
    snprintf(a[3].host, sizeof a[3].host, "h2"); /* another host's device of that name */
    assert_true(chosen(a).nccl);
}

static void ranks__without_nccl_go_over_the_host(void **state)
{
    (void)state;
    struct rank_about a[RANKS];
    make(a, RANKS);
    a[2].version = 0;
    assert_false(chosen(a).nccl);
    assert_string_equal(chosen(a).text, "4 ranks, no NCCL on rank 2: sums go over the host");
}

static void refused(const struct rank_about *a, enum err_code code, const char *where,
                    const char *found, const char *wanted)
{
    struct transport t;
    struct err err = ERR_INIT;
    (void)!transport_choose(a, RANKS, &t, &err);
    assert_err(&err, code, NULL, where, found, wanted);
}

static void ranks__that_cannot_do_what_was_asked_for_are_refused(void **state)
{
    (void)state;
    struct rank_about a[RANKS];
    make(a, 2);
    for (int r = 0; r < RANKS; r++) a[r].wish = WISH_NCCL;
    refused(a, ERR_DEVICE, "NCCL", "4 ranks on 2 devices (2 on h1)", "a device for each rank");
    make(a, RANKS);
    for (int r = 0; r < RANKS; r++) a[r].wish = WISH_NCCL;
    a[1].version = 0;
    snprintf(a[1].why, sizeof a[1].why, "no such file");
    refused(a, ERR_DEVICE, "rank 1 on h1", "no such file", "NCCL 2.18");
    a[3].wish = WISH_HOST;
    refused(a, ERR_USAGE, "rank 3 on h1", "host", "nccl");
}

static void ranks__with_other_versions_are_named(void **state)
{
    (void)state;
    struct rank_about a[RANKS];
    make(a, RANKS);
    a[3].version = 22703;
    snprintf(a[3].host, sizeof a[3].host, "h2");
    refused(a, ERR_DEVICE, "rank 3 on h2", "version 2.27.3", "2.28.9, as rank 0 on h1");
}

static void wish__is_read_from_the_environment(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int wish;
    unsetenv("ASSAY_GPU_TRANSPORT");
    assert_int_equal(transport_wish_read(&wish, &err), ERR_OK);
    assert_int_equal(wish, WISH_NONE);
    setenv("ASSAY_GPU_TRANSPORT", "host", 1);
    assert_int_equal(transport_wish_read(&wish, &err), ERR_OK);
    assert_int_equal(wish, WISH_HOST);
    setenv("ASSAY_GPU_TRANSPORT", "pigeon", 1);
    (void)!transport_wish_read(&wish, &err);
    assert_err(&err, ERR_USAGE, "ASSAY_GPU_TRANSPORT", NULL, "pigeon", "nccl or host");
    unsetenv("ASSAY_GPU_TRANSPORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks__with_a_device_each_go_by_nccl),
        cmocka_unit_test(ranks__that_share_a_device_go_over_the_host),
        cmocka_unit_test(ranks__without_nccl_go_over_the_host),
        cmocka_unit_test(ranks__that_cannot_do_what_was_asked_for_are_refused),
        cmocka_unit_test(ranks__with_other_versions_are_named),
        cmocka_unit_test(wish__is_read_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
