/* fuzz_envelope.c: any bytes are an error that encodes to the same bytes again, or a refusal with a
 * text. A mutated envelope fails at its checksum, so the input is also taken as the body of one
 * whose header is right. */
#include "compat/envelope.h"
#include "core/check.h"
#include "core/crc32.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_and_check(const uint8_t *data, size_t size)
{
    static unsigned char again[ENVELOPE_MOST];
    struct err err = ERR_INIT, raised = ERR_INIT;
    struct envelope e;
    enum err_code rc = envelope_decode(&e, data, size, &err);
    CHECK(rc == err.code);
    if (rc != ERR_OK) {
        CHECK(err.what[0] && err.where[0] && err.found[0] && err.wanted[0]);
        return;
    }
    CHECK(envelope_encode(&e, again) == size && memcmp(again, data, size) == 0);
    CHECK(envelope_raise(&e, &raised) != ERR_OK && raised.what[0] && raised.notes > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char whole[ENVELOPE_MOST];
    struct crc32 c;
    decode_and_check(data, size);
    if (size > ENVELOPE_MOST - ENVELOPE_HEADER) return 0;
    crc32_init(&c);
    const uint32_t words[4] = {0x56455341, ENVELOPE_VERSION, (uint32_t)size,
                               crc32_of(&c, 0, data, (int64_t)size)};
    for (int i = 0; i < ENVELOPE_HEADER; i++)
        whole[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
    memcpy(whole + ENVELOPE_HEADER, data, size);
    decode_and_check(whole, ENVELOPE_HEADER + size);
    return 0;
}
