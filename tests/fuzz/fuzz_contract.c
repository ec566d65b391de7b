/* fuzz_contract.c: any text is an op contract, or an error with a text and a place. The reader
 * takes a path, so each input passes through a file in memory. */
#include "compat/contract.h"
#include "core/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct err err = ERR_INIT;
    struct arena arena = ARENA_INIT;
    struct contract *c = calloc(1, sizeof *c);
    int fd = memfd_create("contract", 0);
    CHECK(c && fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum err_code rc = contract_read(c, path, &arena, &err);
    CHECK(rc == err.code);
    CHECK(rc != ERR_OK || (c->ops > 0 && c->stem));
    CHECK(rc == ERR_OK || (err.what[0] && err.where[0]));
    arena_release(&arena, NULL);
    free(c);
    close(fd);
    return 0;
}
