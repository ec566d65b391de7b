/* fuzz_index.c: any text is an index, and any bytes are a file whose header an inspection reads to
 * its end: every problem has words, and a file without one is a file that the strict reader opens,
 * and the other way round. The input is "INDEX\0FILE"; without a NUL it is taken as both. */
#include "core/check.h"
#include "core/safetensors.h"
#include "harness/inspect.h"
#include "tests/fuzz/st_repair.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problems(const struct inspection *s)
{
    size_t i;
    const json_t *p;
    CHECK(!s->broken);
    json_array_foreach(s->problems, i, p)
    {
        static const char *const keys[] = {"what", "found", "wanted"};
        for (int k = 0; k < 3; k++) {
            const char *text = json_string_value(json_object_get(p, keys[k]));
            CHECK(text && text[0]);
        }
    }
}

static void read_index(const uint8_t *data, size_t size)
{
    struct inspection s;
    inspection_open(&s, "fuzz");
    ins_parse_index(&s, (const char *)data, (int64_t)size);
    ins_sort(&s);
    check_problems(&s);
    CHECK(s.has_index || json_array_size(s.problems) > 0);
    for (int64_t i = 0; i < s.entry_count; i++) {
        CHECK(s.entries[i].file >= 0 && s.entries[i].file < s.file_count);
        CHECK(ins_indexed(&s, s.entries[i].name) != NULL);
    }
    ins_check_index(&s);
    check_problems(&s);
    inspection_close(&s);
}

static void read_file(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct inspection s;
    struct st_file f;
    inspection_open(&s, "fuzz");
    (void)ins_file_of(&s, "fuzz");
    ins_parse_header(&s, 0, data, (int64_t)size);
    ins_sort(&s);
    check_problems(&s);
    bool clean = json_array_size(s.problems) == 0 && !s.files[0].lost;
    bool opens = st_open_memory(&f, "fuzz", data, (int64_t)size, &err) == ERR_OK;
    CHECK(clean == opens);
    CHECK(!opens || s.tensor_count == f.count);
    for (int64_t i = 0; i < s.tensor_count; i++) {
        const struct ins_tensor *t = &s.tensors[i];
        CHECK(strcmp(ins_find(&s, t->name)->name, t->name) == 0);
        if (t->placed)
            CHECK(t->offset >= 8 && t->bytes >= 0 && t->offset + t->bytes <= (int64_t)size);
        if (opens) CHECK(st_find(&f, t->name)->bytes == t->bytes);
    }
    st_close(&f);
    inspection_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t index = nul ? (size_t)(nul - data) : size;
    const uint8_t *file = nul ? nul + 1 : data;
    size_t file_size = nul ? size - index - 1 : size;
    uint8_t *repaired = st_repaired(file, file_size);
    read_index(data, index);
    read_file(file, file_size);
    if (repaired) read_file(repaired, file_size);
    free(repaired);
    return 0;
}
