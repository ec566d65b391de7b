/* test_device.c: what the program says where no CUDA device can be used: a build without CUDA, a
 * machine without a driver, a driver that is too old. */
#include "core/device.h"

#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

static bool built_with_cuda(void)
{
    struct device_info one;
    struct err err = {0};
    return gpu_devices(&one, 1, &err) >= 1 || !strstr(err.found, "has no CUDA");
}

static const char *const on_gpu[] = {
    "forward", FIXTURE("tiny-k25"), "--tokens", "1,2", "--on", "gpu", "--out", NULL, NULL};

static void refused_for(void **state, const char *found)
{
    const char *argv[sizeof on_gpu / sizeof on_gpu[0]];
    memcpy(argv, on_gpu, sizeof on_gpu);
    argv[7] = folder_path(state, "never.safetensors");
    cli_refused(state,
                (struct refusal){.exit = 3, .what = "run", .where = "--on gpu", .found = found},
                argv, __FILE__, __LINE__);
}

static void gpu__is_refused_with_the_reason__when_there_is_no_device(void **state)
{
    struct device_info one;
    struct err err = {0};
    if (gpu_devices(&one, 1, &err) >= 1) return; /* this machine has one: ci/gpu.sh tests there */
    refused_for(state, err.found);
}

static void gpu__is_refused_with_both_versions__when_the_driver_is_too_old(void **state)
{
    if (!built_with_cuda()) {
        refused_for(state, "has no CUDA");
        return;
    }
    const char *before = getenv("LD_LIBRARY_PATH");
    char *kept = before ? strdup(before) : NULL;
    assert_int_equal(setenv("LD_LIBRARY_PATH", ASSAY_BINARY_DIR "/tests/driver", 1), 0);
    refused_for(state, "it knows CUDA 11.2, this build needs");
    if (kept)
        assert_int_equal(setenv("LD_LIBRARY_PATH", kept, 1), 0);
    else
        assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
    free(kept);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(gpu__is_refused_with_the_reason__when_there_is_no_device),
        FOLDER(gpu__is_refused_with_both_versions__when_the_driver_is_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
