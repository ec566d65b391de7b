/* preflight_device.c: whether there are as many devices as ranks, and how they reach each other. */
#include "core/device.h"
#include "harness/preflight.h"

enum { DEVICES = 64 };

static void add_missing(struct preflight *p, int devices, const char *found)
{
    preflight_add(p, (struct preflight_finding){
                         .rule = "missing",
                         .file = preflight_plan(p),
                         .line = p->keys->line,
                         .message = "fewer devices than ranks",
                         .found = devices > 0 ? preflight_text(p, "%d %s", devices, found) : found,
                         .wanted = preflight_text(p, "%d", shard_world(&p->keys->shard)),
                         .remedy = "fewer ranks, or target: {devices: N, device_memory: 141 GB} "
                                   "where the load runs elsewhere",
                         .strikes = PREFLIGHT_AT_START});
}

static void check_links(struct preflight *p, int devices)
{
    struct device_links l;
    struct err e = ERR_INIT;
    if (gpu_links(&l, &e) != ERR_OK) {
        preflight_not_checked(p, preflight_text(p, "links: %s", e.found), "assay doctor");
        return;
    }
    preflight_about(p, "%d devices here, %d of %d pairs are peers, %d NVLinks each (-1: unknown)",
                    devices, l.peers, l.pairs, l.nvlinks);
    if (l.peers == l.pairs) return;
    preflight_add(p, (struct preflight_finding){
                         .rule = "links",
                         .severity = PREFLIGHT_WARNING,
                         .file = preflight_plan(p),
                         .line = p->keys->line,
                         .message = "some devices do not reach each other's memory",
                         .found = preflight_text(p, "%d of %d pairs", l.peers, l.pairs),
                         .wanted = "all pairs",
                         .remedy = "assay doctor; sums between ranks go a slower way",
                         .strikes = PREFLIGHT_AFTER_LOAD});
}

void preflight_device(struct preflight *p)
{
    struct device_info device[DEVICES];
    struct err e = ERR_INIT;
    const int ranks = shard_world(&p->keys->shard);
    if (p->keys->devices > 0) {
        preflight_about(p,
                        "%lld devices of the plan's target for %d ranks; its links are not "
                        "known here",
                        (long long)p->keys->devices, ranks);
        if (p->keys->devices < ranks) add_missing(p, (int)p->keys->devices, "of the target");
        return;
    }
    if (p->keys->device_memory > 0) {
        preflight_not_asked(p, "the plan's target does not say how many devices it has");
        return;
    }
    if (!p->keys->sharded) {
        preflight_not_asked(p, "the plan says neither tp, ep nor target");
        return;
    }
    int n = gpu_devices(device, DEVICES, &e);
    preflight_about(p, "%d devices here for %d ranks", n > 0 ? n : 0, ranks);
    if (n < ranks)
        add_missing(p, n, n > 0 ? "here" : preflight_text(p, "none: %s", e.found));
    else if (ranks > 1)
        check_links(p, n);
}
