/* old_driver.c: stands in for the NVIDIA driver's library: one that is there and knows an older
 * CUDA than this build needs. For tests/test_device.c. */
int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);

int cuDriverGetVersion(int *version)
{
    *version = 11020;
    return 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}
