/* fuzz_dump.c: any file is a dump whose row map, order and taps can be used, or an error with a
 * text. The reader takes a path, so the bytes lie in an unnamed file in memory. */
#include "core/check.h"
#include "core/dump.h"
#include "tests/fuzz/st_repair.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_dump(const struct dump *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        const struct dump_tap *t = &d->taps[i];
        CHECK(dump_find(d, t->name) == t);
        CHECK(t->rows >= 0 && t->cols >= 0 && t->rows * t->cols == t->tensor->count);
        CHECK(i == 0 || d->taps[i - 1].order <= t->order);
        CHECK(d->rows == -1 || d->rows == t->rows);
    }
    for (int64_t i = 0; d->batch_row && i < d->rows; i++) {
        CHECK(d->batch_row[i] >= 0);
        CHECK(!d->tokens || d->batch_row[i] < d->token_count);
    }
    int64_t sum = 0;
    for (int64_t i = 0; i < d->sequences; i++) {
        CHECK(d->lengths[i] >= 0);
        sum += d->lengths[i];
    }
    CHECK(!d->lengths || !d->tokens || sum == d->token_count);
    for (int64_t i = 0; i < d->promised_count; i++) CHECK(d->promised[i]);
    CHECK(d->engine && d->profile);
}

static void open_and_check(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    if (fd < 0) fd = memfd_create("dump", 0);
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct err err = ERR_INIT;
    struct dump d;
    enum err_code rc = dump_open(&d, path, &err);
    CHECK(rc == err.code);
    if (rc == ERR_OK) {
        check_dump(&d);
    } else {
        CHECK(err.what[0] && err.where[0]);
    }
    dump_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *repaired = st_repaired(data, size);
    open_and_check(data, size);
    if (repaired) open_and_check(repaired, size);
    free(repaired);
    return 0;
}
