/* fuzz_map.c: any text is a map whose rules can be asked about any name, or an error with a text.
 */
#include "core/check.h"
#include "harness/map.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"", "q.7", "model.layers.3.o_proj", "a.debug", "hidden"};
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct map m;
    enum err_code rc = map_parse((const char *)data, (int64_t)size, "map", &a, &m, &err);
    CHECK(rc == err.code);
    CHECK(rc == ERR_OK || err.what[0]);
    for (size_t i = 0; rc == ERR_OK && i < sizeof names / sizeof names[0]; i++) {
        const struct map_rule *rule;
        char to[MAP_NAME];
        (void)map_find(&m, names[i], &rule, to);
    }
    arena_release(&a, NULL);
    return 0;
}
