/* fuzz_case.c: any text is a case line that prints and parses back to itself, or an error with a
 * text. */
#include "core/check.h"
#include "harness/case.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct op_case c, again;
    char *line = malloc(size + 1);
    CHECK(line);
    memcpy(line, data, size);
    line[size] = '\0';
    enum err_code rc = case_parse(&c, line, &err);
    CHECK(rc == err.code);
    if (rc != ERR_OK) {
        CHECK(err.what[0]);
    } else {
        char text[CASE_LINE], second[CASE_LINE];
        case_print(&c, text);
        CHECK(case_parse(&again, text, &err) == ERR_OK);
        case_print(&again, second);
        CHECK(strcmp(text, second) == 0);
    }
    free(line);
    return 0;
}
