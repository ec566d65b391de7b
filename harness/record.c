/* record.c: see record.h. */
#include "harness/record.h"

#include "core/file.h"

#include <stdlib.h>
#include <string.h>

static enum err_code write_file(const char *folder, const char *stem, const char *end,
                                const char *text, struct err *err)
{
    char path[FILE_PATH], name[128];
    struct file_out f = FILE_OUT_INIT;
    snprintf(name, sizeof name, "%s.%s", stem, end);
    if (file_join(folder, name, path, err) == ERR_OK && file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, text, (int64_t)strlen(text), err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

enum err_code record_result(const json_t *result, const char *folder, const char *stem,
                            text_report *render, struct err *err)
{
    char *text = NULL;
    char *json = json_dumps(result, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        render(result, f, (struct text_view){0});
        fclose(f);
    }
    if (!f || !json || !text) err_set(err, ERR_MEMORY, "write report|%s|no memory", folder);
    if (err->code == ERR_OK && file_make_folder(folder, err) == ERR_OK &&
        write_file(folder, stem, "json", json, err) == ERR_OK)
        (void)!write_file(folder, stem, "txt", text, err);
    free(text);
    free(json);
    return err->code;
}
