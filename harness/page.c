/* page.c: see page.h. */
#include "harness/page.h"

#include "core/file.h"

#include <stdlib.h>

enum err_code page_write(const char *folder, const char *name, page_renderer *render,
                         const void *what, int64_t *pages, struct err *err)
{
    char *text = NULL, path[FILE_PATH];
    size_t size = 0;
    struct file_out out = FILE_OUT_INIT;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        render(what, f);
        if (fclose(f) != 0) size = 0;
    }
    if (!f || !text || size == 0) err_set(err, ERR_MEMORY, "write page|%s|no memory", name);
    if (err->code == ERR_OK && file_make_folder(folder, err) == ERR_OK &&
        file_join(folder, name, path, err) == ERR_OK && file_out_open(&out, path, err) == ERR_OK &&
        file_out_write(&out, text, (int64_t)size, err) == ERR_OK &&
        file_out_commit(&out, err) == ERR_OK)
        (*pages)++;
    file_out_abandon(&out);
    free(text);
    return err->code;
}
