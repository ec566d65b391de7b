/* fuzz_api.c: any text is an API contract, or an error with a text and a place. What is taken
 * prints the same again when it is read back. */
#include "compat/api_lookup.h"
#include "core/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct arena arena = ARENA_INIT;
    struct api a, again;
    char *text = NULL, *text_again = NULL;
    int64_t n = 0, n_again = 0;
    enum err_code rc = api_parse(&a, (const char *)data, (int64_t)size, "c.yaml", &arena, &err);
    CHECK(rc == err.code);
    CHECK(rc == ERR_OK || (err.what[0] && err.where[0]));
    if (rc == ERR_OK) {
        CHECK(api_print(&a, &text, &n, &err) == ERR_OK);
        CHECK(api_parse(&again, text, n, "again.yaml", &arena, &err) == ERR_OK);
        CHECK(api_print(&again, &text_again, &n_again, &err) == ERR_OK);
        CHECK(n == n_again && memcmp(text, text_again, (size_t)n) == 0);
    }
    free(text);
    free(text_again);
    arena_release(&arena, NULL);
    return 0;
}
