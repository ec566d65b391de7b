/* extract_resume.c: a folder that an earlier run left: is it ours, of the same request, and what of
 * it goes; see extract_journal.h. */
#include "core/text.h"
#include "harness/extract_journal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "NAME.tmp-PID", as core/file.h calls what it has not finished, of a name that an extract writes.
 */
static bool is_temporary(const char *name)
{
    static const char *const ours[] = {
        "data_*.pt", "data_*.ckpt", "hs_*.safetensors", "data_config.json", "token_freq.pt",
        "d2t.npy",   "t2d.npy",     "vocab_mapping.pt", "manifest.json",    "extract.journal"};
    const char *mark = strstr(name, ".tmp-");
    char stem[EXTRACT_NAME];
    if (!mark || !mark[5] || mark[5 + strspn(mark + 5, "0123456789")] ||
        mark - name >= (ptrdiff_t)sizeof stem)
        return false;
    snprintf(stem, sizeof stem, "%.*s", (int)(mark - name), name);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (text_glob(ours[i], stem)) return true;
    }
    return false;
}

static void remove_in(const char *folder, bool below)
{
    char path[FILE_PATH];
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        struct err none = ERR_INIT;
        if (file_join(folder, e->d_name, path, &none) != ERR_OK) continue;
        if (is_temporary(e->d_name)) unlink(path);
        bool ours = text_glob("rows_*", e->d_name) || strcmp(e->d_name, "vocab_mapping") == 0;
        if (below && ours && file_is_folder(path)) remove_in(path, false);
    }
    if (d) closedir(d);
}

void extract_temporaries_remove(const char *folder)
{
    remove_in(folder, true);
}

bool extract_folder_other(const char *folder, const char *but, bool settled,
                          char name[EXTRACT_NAME])
{
    bool found = false;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e && !found; e = readdir(d)) {
        bool self = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        if (self || (but && strcmp(e->d_name, but) == 0)) continue;
        if (settled && is_temporary(e->d_name)) continue;
        snprintf(name, EXTRACT_NAME, "%.60s", e->d_name);
        found = true;
    }
    if (d) closedir(d);
    return found;
}

enum err_code extract_request_check(const json_t *now, const json_t *before, const char *folder,
                                    struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)now, key, value)
    {
        const json_t *was = json_object_get(before, key);
        if (was && json_equal(was, value)) continue;
        char *text[] = {was ? json_dumps(was, JSON_COMPACT | JSON_ENCODE_ANY) : NULL,
                        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY)};
        err_set(err, ERR_INPUT, "resume|%s: %s|%s|%s, what the samples there were made with",
                folder, key, text[1] ? text[1] : "", text[0] ? text[0] : "nothing");
        free(text[0]);
        free(text[1]);
        return err->code;
    }
    return ERR_OK;
}
