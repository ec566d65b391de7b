/* fuzz_json_tokens.c: any text is a batch of tokens that adds up, or an error with a text. */
#include "core/check.h"
#include "harness/tokens.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct tokens t = {0};
    enum err_code rc = tokens_parse_json((const char *)data, (int64_t)size, "fuzz", &t, &err);
    CHECK(rc == err.code);
    if (rc == ERR_OK) {
        int64_t sum = 0;
        CHECK(t.count > 0 && t.sequences > 0);
        for (int64_t i = 0; i < t.count; i++) CHECK(t.id[i] >= 0);
        for (int64_t i = 0; i < t.sequences; i++) {
            CHECK(t.length[i] > 0);
            sum += t.length[i];
        }
        CHECK(sum == t.count);
    } else {
        CHECK(err.what[0] && err.where[0]);
    }
    tokens_free(&t);
    return 0;
}
