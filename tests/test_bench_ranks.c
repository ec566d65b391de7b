/* test_bench_ranks.c: what `assay bench` over ranks refuses; what it measures is the machine's
 * affair: ci/gpu.sh --ranks. */
#include "harness/bench_ranks.h"

#include "core/ops.h"
#include "harness/workers.h"
#include "tests/cli.h"

static void bench_collectives__is_refused__for_one_rank_and_the_reference(void **state)
{
    cli_refuses(state,
                ((struct refusal){2, "bench collectives", "--tp, --ep", "one rank", "--tp 2"}),
                "bench", "collectives", "--on", "gpu");
    cli_refuses(state, ((struct refusal){2, "bench collectives", "--on", "ref", "gpu"}), "bench",
                "collectives", "--tp", "2");
    cli_refuses(state, ((struct refusal){2, "bench", "--tp, --ep", NULL, "collectives"}), "bench",
                "norm", "--ep", "2");
    cli_refuses(state, ((struct refusal){2, "bench layer", "--on", "ref", "gpu"}), "bench", "layer",
                "--ep", "2");
    cli_refuses(state, ((struct refusal){2, "bench", "--tp, --ep", NULL, "or layer, alone"}),
                "bench", "layer", "norm", "--tp", "2");
    cli_refuses(state, ((struct refusal){2, "bench collectives", "--against", "ranks", "ops"}),
                "bench", "collectives", "--tp", "2", "--against", "x.json");
    if (!gpu_side()->available)
        cli_refuses(state, ((struct refusal){3, "bench", "side gpu", NULL, NULL}), "bench",
                    "collectives", "--on", "gpu", "--tp", "2");
}

static void group__of_the_device_is_there_or_says_why_not(void **state)
{
    (void)state;
    const struct bench_group *const groups[] = {gpu_bench_group(), gpu_bench_layers()};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(groups[i]->name, "gpu");
        assert_non_null(groups[i]->open);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            bench_collectives__is_refused__for_one_rank_and_the_reference, folder_setup,
            folder_teardown),
        cmocka_unit_test(group__of_the_device_is_there_or_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
