/* cover.c: see cover.h. */
#include "core/cover.h"

#include "core/check.h"
#include "core/file.h"
#include "core/ops.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPS_MAX = 64 };

static const char *const names[COVER_KINDS] = {
    [COVER_REF] = "ref",   [COVER_GPU] = "gpu",     [COVER_GOLDEN] = "golden",
    [COVER_DIFF] = "diff", [COVER_FAULT] = "fault", [COVER_CONTRACT] = "contract",
};

const char *cover_name(enum cover_kind kind)
{
    CHECK((unsigned)kind < COVER_KINDS);
    return names[kind];
}

void cover_note(const char *op, enum cover_kind kind)
{
    static bool noted[OPS_MAX][COVER_KINDS];
    const char *folder = getenv("ASSAY_COVER");
    const struct op_row *row = op_find(op);
    CHECK(row && (unsigned)kind < COVER_KINDS && op_count <= OPS_MAX);
    if (!folder || !folder[0] || noted[row - op_rows][kind]) return;
    noted[row - op_rows][kind] = true;
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/%ld.txt", folder, (long)getpid());
    FILE *f = fopen(path, "a");
    /* Evidence that cannot be kept is missing from the table: the cell stays empty, and that is
     * seen. */
    if (!f) return;
    fprintf(f, "%s %s\n", op, names[kind]);
    fclose(f);
}

static enum err_code read_line(const char *path, char *line, bool *noted, struct err *err)
{
    char *space = strchr(line, ' ');
    line[strcspn(line, "\n")] = '\0';
    if (space) *space++ = '\0';
    const struct op_row *row = op_find(line);
    for (int k = 0; row && space && k < COVER_KINDS; k++) {
        if (strcmp(names[k], space) != 0) continue;
        noted[(row - op_rows) * COVER_KINDS + k] = true;
        return ERR_OK;
    }
    return err_set(
        err, ERR_INPUT,
        "read coverage|%s|\"%s %s\"|an op and one of ref, gpu, golden, diff, fault, contract", path,
        line, space ? space : "");
}

static enum err_code read_file(const char *path, bool *noted, int64_t *lines, struct err *err)
{
    char line[128];
    FILE *f = fopen(path, "r");
    if (!f) return err_sys(err, errno, "read coverage|%s", path);
    while (err->code == ERR_OK && fgets(line, sizeof line, f)) {
        ++*lines;
        (void)!read_line(path, line, noted, err);
    }
    fclose(f);
    return err->code;
}

enum err_code cover_read(const char *folder, bool *noted, int64_t *lines, struct err *err)
{
    char path[FILE_PATH];
    DIR *d = opendir(folder);
    *lines = 0;
    if (!d) return err_sys(err, errno, "read coverage|%s", folder);
    for (const struct dirent *e = readdir(d); e && err->code == ERR_OK; e = readdir(d)) {
        if (!text_ends(e->d_name, ".txt")) continue;
        if (file_join(folder, e->d_name, path, err) == ERR_OK)
            (void)!read_file(path, noted, lines, err);
    }
    closedir(d);
    return err->code;
}
