/* map_shipped.c: the maps that the program brings along, found beside it: see map_path() in
 * map.h. */
#include "core/file.h"
#include "harness/map.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAPS "../share/assay/maps"

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* "sglang, transformers, vllm" */
static void list_names(const char *folder, char *out, size_t room)
{
    enum { MOST = 16, NAME = 64 };
    char names[MOST][NAME];
    int count = 0, used = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && count < MOST && (e = readdir(d));) {
        char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".yaml") != 0) continue;
        snprintf(names[count++], NAME, "%.*s", (int)(dot - e->d_name), e->d_name);
    }
    if (d) closedir(d);
    qsort(names, (size_t)count, NAME, by_text);
    out[0] = '\0';
    for (int i = 0; i < count && used < (int)room - NAME; i++)
        used += snprintf(out + used, room - (size_t)used, "%s%s", i ? ", " : "", names[i]);
}

enum err_code map_path(const char *name, char out[FILE_PATH], struct err *err)
{
    char folder[FILE_PATH], file[FILE_PATH], names[ERR_PART / 2];
    if (strpbrk(name, "/.") || file_exists(name)) {
        if (snprintf(out, FILE_PATH, "%s", name) < FILE_PATH) return ERR_OK;
        return err_set(err, ERR_INPUT, "map names|%.64s...|a path of %zu bytes|fewer than %d", name,
                       strlen(name), FILE_PATH);
    }
    snprintf(file, sizeof file, "%.200s.yaml", name);
    if (file_beside_program(MAPS, folder, err) != ERR_OK ||
        file_join(folder, file, out, err) != ERR_OK)
        return err->code;
    if (file_exists(out)) return ERR_OK;
    list_names(folder, names, sizeof names);
    return err_set(err, ERR_INPUT, "map names|%.100s|no map of that name in %s|%s, or a file", name,
                   folder, names[0] ? names : "the shipped maps there");
}
