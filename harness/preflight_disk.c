/* preflight_disk.c: room for the samples to come.
 *
 *   bytes = samples * (tokens * states * hidden * bytes of the type      the states
 *                      + tokens * 16                                     input_ids, loss_mask:
 * int64
 *                      + 4096)                                           header, names, a block
 *
 * states: one a layer id, as all formats of `extract` store them; 4 where the plan names none.
 * tokens: sample_tokens, else 2048, the longest that speculators cuts samples to. */
#include "core/file.h"
#include "core/text.h"
#include "harness/preflight.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { TOKENS = 2048, STATES = 4, IDS_BYTES = 16, FILE_BYTES = 4096 };

/* The nearest thing at or above `path` that is there. */
static void nearest(const char *path, char out[FILE_PATH])
{
    snprintf(out, FILE_PATH, "%s", path);
    while (!file_exists(out)) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            snprintf(out, FILE_PATH, ".");
            return;
        }
        slash[slash == out] = '\0';
        if (slash == out) return;
    }
}

static double sample_bytes(const struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    const double tokens = (double)(k->sample_tokens > 0 ? k->sample_tokens : TOKENS);
    const double states = k->layers > 0 ? k->layers : STATES;
    const enum dtype dtype = k->dtype != DT_COUNT ? k->dtype : p->config.dtype;
    return tokens * states * (double)p->config.hidden * (double)dtype_size(dtype) +
           tokens * IDS_BYTES + FILE_BYTES;
}

static const char *sum_text(struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    return preflight_text(
        p, "%lld samples of %lld%s tokens, %d%s states of %lld %s", (long long)k->samples,
        (long long)(k->sample_tokens > 0 ? k->sample_tokens : TOKENS),
        k->sample_tokens > 0 ? "" : " (assumed: sample_tokens)", k->layers > 0 ? k->layers : STATES,
        k->layers > 0 ? "" : " (assumed: layers)", (long long)p->config.hidden,
        dtype_name(k->dtype != DT_COUNT ? k->dtype : p->config.dtype));
}

static void check_room(struct preflight *p, const char *folder, double room)
{
    char need_text[32], room_text[32];
    const double one = sample_bytes(p), need = one * (double)p->keys->samples;
    text_bytes(need, need_text, sizeof need_text);
    text_bytes(room, room_text, sizeof room_text);
    preflight_about(p, "%s need %s; %s has %s", sum_text(p), need_text, folder, room_text);
    if (need <= room) return;
    preflight_add(p, (struct preflight_finding){
                         .rule = "room",
                         .file = preflight_plan(p),
                         .line = p->keys->line,
                         .message = preflight_text(p, "the disk is full after sample %.0f of %lld",
                                                   room / one, (long long)p->keys->samples),
                         .found = preflight_text(p, "%s free in %s", room_text, folder),
                         .wanted = preflight_text(p, "%s: %s", need_text, sum_text(p)),
                         .remedy = "another folder, fewer samples, or a narrower dtype",
                         .strikes = PREFLIGHT_AFTER_LOAD});
}

static void check_writable(struct preflight *p, const char *folder)
{
    errno = ENOTDIR;
    if (file_is_folder(folder) && access(folder, W_OK | X_OK) == 0) return;
    preflight_add(p, (struct preflight_finding){
                         .rule = "folder",
                         .file = preflight_plan(p),
                         .line = p->keys->line,
                         .message = preflight_text(p, "%s cannot be made", p->keys->out),
                         .found = preflight_text(p, "%s: %s", folder, strerror(errno)),
                         .wanted = "a folder that can be written",
                         .remedy = "out: another folder",
                         .strikes = PREFLIGHT_AFTER_LOAD});
}

void preflight_disk(struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    char folder[FILE_PATH];
    struct statvfs disk;
    if (k->samples < 0 || !k->out) {
        preflight_not_asked(p, k->out ? "the plan does not say how many samples"
                                      : "the plan does not say where samples go");
        return;
    }
    nearest(preflight_path(p, k->out), folder);
    check_writable(p, folder);
    if (!p->configured) {
        preflight_not_checked(p, "the size of a state is not known without the model's config",
                              "model: DIR");
    } else if (statvfs(folder, &disk) != 0) {
        preflight_not_checked(p, preflight_text(p, "%s: %s", folder, strerror(errno)),
                              "out: another folder");
    } else {
        check_room(p, folder, (double)disk.f_bavail * (double)disk.f_frsize);
    }
}
