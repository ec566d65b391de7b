/* test_contract_shipped.c: the contracts in compat/api: each can be read, is written again byte for
 * byte, is small enough to be reviewed, and gives the verdicts that its story needs. The worker's
 * contract is the one of fixtures/worker, recorded anew. Needs python3 as test_contract_pairs.c
 * does. */
#include "compat/api.h"
#include "tests/contract_expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED ASSAY_SOURCE_DIR "/compat/api/"

enum { CONTRACT_BYTES = 100000 };

/* A contract, the consumer that it is held against, and what must come out. */
static const struct {
    const char *contract, *consumer, *expect;
} rows[] = {
    {SHIPPED "vllm-0.11.0.yaml", FIXTURE("story/consumer.py"), FIXTURE("story/expect-0.11.0")},
    {SHIPPED "vllm-0.16.0.yaml", FIXTURE("story/consumer.py"), FIXTURE("story/expect-0.16.0")},
    {SHIPPED "vllm-0.33.0.yaml", FIXTURE("story/consumer.py"), FIXTURE("story/expect-0.33.0")},
    {SHIPPED "assay-worker.yaml", FIXTURE("worker/consumer.py"), FIXTURE("worker/expect")},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void contract__is_written_as_it_was_read__each(void **state)
{
    (void)state;
    assert_int_equal(folder_count(SHIPPED), ROWS);
    for (int i = 0; i < ROWS; i++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct api api;
        char *printed = NULL;
        size_t size = 0;
        int64_t printed_size = 0;
        char *text = read_whole(rows[i].contract, &size);
        if (api_read(&api, rows[i].contract, &arena, &err) != ERR_OK) assert_ok(&err);
        if (api_print(&api, &printed, &printed_size, &err) != ERR_OK) assert_ok(&err);
        assert_int_equal(printed_size, size);
        assert_memory_equal(printed, text, size);
        assert_in_range(size, 1, CONTRACT_BYTES);
        free(printed);
        free(text);
        arena_release(&arena, NULL);
    }
}

static void story__gives_its_verdicts__with_each_contract(void **state)
{
    (void)state;
    expect_python();
    for (int i = 0; i < ROWS; i++) {
        struct expect e;
        struct cli r;
        expect_read(&e, rows[i].expect);
        cli(&r, "contract", "check", rows[i].consumer, "--against", rows[i].contract, "--json");
        if (!r.json || r.status != expect_broken(&e, false))
            fail_msg("%s: exit %d: %s", rows[i].expect, r.status, r.err);
        assert_int_equal(expect_differs(&e, false, field(r.json, "findings"), rows[i].expect), 0);
        cli_free(&r);
    }
}

static void worker__is_recorded_as_shipped(void **state)
{
    expect_python();
    const char *out = folder_path(state, "worker.yaml");
    struct cli r;
    size_t size = 0, shipped_size = 0;
    cli(&r, "contract", "record", FIXTURE("worker/library"), "--out", out);
    if (r.status != 0) fail_msg("%s", r.err);
    cli_free(&r);
    char *text = read_whole(out, &size);
    char *shipped = read_whole(SHIPPED "assay-worker.yaml", &shipped_size);
    assert_string_equal(text, shipped);
    free(shipped);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract__is_written_as_it_was_read__each),
        cmocka_unit_test(story__gives_its_verdicts__with_each_contract),
        cmocka_unit_test_setup_teardown(worker__is_recorded_as_shipped, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests_name("contract_shipped", tests, NULL, NULL);
}
