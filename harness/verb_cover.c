/* verb_cover.c: which op was tested how, from the list of ops and from what the last test run
 * executed. */
#include "core/cover.h"
#include "core/ops.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>

static const struct option_row options[] = {
    {"--from", "DIR", "notes of a test run made with ASSAY_COVER=DIR (default build/cover)", false},
    {NULL, NULL, NULL, false},
};

static void print_table(const bool *noted)
{
    printf("%-12s", "op");
    for (int k = 0; k < COVER_KINDS; k++) printf(" %-8s", cover_name((enum cover_kind)k));
    printf("\n");
    for (int i = 0; i < op_count; i++) {
        printf("%-12s", op_rows[i].name);
        for (int k = 0; k < COVER_KINDS; k++)
            printf(" %-8s", noted[i * COVER_KINDS + k] ? "yes" : "-");
        printf("\n");
    }
    for (int i = 0; i < op_count * COVER_KINDS; i++) {
        if (!noted[i])
            printf("empty: %s %s\n", op_rows[i / COVER_KINDS].name,
                   cover_name((enum cover_kind)(i % COVER_KINDS)));
    }
}

static void record(const bool *noted, json_t *result)
{
    json_t *ops = json_array(), *empty = json_array();
    for (int i = 0; i < op_count; i++) {
        json_t *row = json_pack("{s:s}", "op", op_rows[i].name);
        for (int k = 0; k < COVER_KINDS; k++) {
            const char *kind = cover_name((enum cover_kind)k);
            bool yes = noted[i * COVER_KINDS + k];
            json_object_set_new(row, kind, json_boolean(yes));
            if (!yes) json_array_append_new(empty, json_sprintf("%s %s", op_rows[i].name, kind));
        }
        json_array_append_new(ops, row);
    }
    json_object_set_new(result, "ops", ops);
    json_object_set_new(result, "empty", empty);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    const char *folder = args_value(a, "--from") ? args_value(a, "--from") : "build/cover";
    bool *noted = calloc((size_t)(op_count * COVER_KINDS), sizeof *noted);
    int64_t lines = 0;
    if (!noted) return err_set(err, ERR_MEMORY, "read coverage||no memory");
    if (cover_read(folder, noted, &lines, err) == ERR_OK && lines == 0)
        err_set(err, ERR_INPUT,
                "read coverage|%s|no notes|those of a test run made with ASSAY_COVER", folder);
    if (err->code == ERR_OK) {
        record(noted, result);
        if (!a->json) print_table(noted);
    }
    free(noted);
    return err->code;
}

const struct verb verb_cover = {
    .name = "cover",
    .usage = "[--from DIR]",
    .about = "which op was tested how, by the last test run",
    .words_min = 0,
    .words_max = 0,
    .options = options,
    .run = run,
};
