/* inspect_samples_manifest.c: the samples' files against the checksums of their manifest, where
 * `assay extract` left one; see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include "core/json.h"

#include <stdlib.h>
#include <string.h>

/* The manifest's entry of a file that ends in that name, or NULL. */
static const json_t *entry_of(const json_t *manifest, const char *path)
{
    const json_t *e;
    size_t i, n = strlen(path);
    json_array_foreach(json_object_get(manifest, "samples"), i, e)
    {
        const char *file = json_string_value(json_object_get(e, "file"));
        size_t m = file ? strlen(file) : 0;
        if (m > 0 && m < n && path[n - m - 1] == '/' && strcmp(path + n - m, file) == 0) return e;
    }
    return NULL;
}

static void check_file(struct samples *w, const struct looked *k, const json_t *entry)
{
    struct err ignored = ERR_INIT;
    struct file_map map;
    char hex[65];
    const char *sum = json_string_value(json_object_get(entry, "sha256"));
    if (!sum || file_map(k->entry->path, &map, &ignored) != ERR_OK) return;
    if (ins_sha256(map.data, (size_t)map.size, hex) && strcmp(hex, sum) != 0)
        samples_problem(w, "changed since extraction", k->name,
                        ins_text(w->s, "SHA-256 %.16s.., %.16s.. in manifest.json", hex, sum),
                        "extract the sample again, or inspect what was changed in it");
    file_unmap(&map);
}

void samples_check_manifest(struct samples *w)
{
    struct err ignored = ERR_INIT;
    json_t *manifest = NULL;
    char path[FILE_PATH];
    if (file_join(w->set.folder, "manifest.json", path, &ignored) != ERR_OK || !file_exists(path) ||
        json_read(path, &manifest, &ignored) != ERR_OK)
        return;
    for (int64_t i = 0; i < w->count; i++) {
        const json_t *e = entry_of(manifest, w->looked[i].entry->path);
        if (e) check_file(w, &w->looked[i], e);
    }
    json_decref(manifest);
}
