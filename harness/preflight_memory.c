/* preflight_memory.c: whether each rank's part fits its device, and what loading takes of the host.
 *
 *   device:  weights of the rank (core/shard.h, counted) + kv_tokens * layers * (kv_lora + rope) *
 *            bytes of the model's type (the latent cache, which every rank holds whole)
 *   host:    ranks * the largest tensor (each rank copies one at a time) + states of one sample
 *
 * Not counted: activations, what a library keeps for itself (CUDA context, graphs, NCCL). A device
 * that is filled past nine tenths is a warning because of them. */
#include "core/device.h"
#include "core/text.h"
#include "harness/host_memory.h"
#include "harness/preflight.h"
#include "harness/session.h"
#include "reports/fields.h"

#include <math.h>
#include <string.h>

enum { DEVICES = 64, STATES = 4 };

static const double full = 0.9;

/* ---- the device ---- */

/* Bytes of one device, the smallest that ranks would get; -1 with the reason in *why. */
static double device_bytes(const struct preflight *p, const char **why)
{
    struct device_info device[DEVICES];
    struct err e = ERR_INIT;
    double least = INFINITY;
    if (p->keys->device_memory > 0) return p->keys->device_memory;
    *why = "the plan's target does not say device_memory";
    if (p->keys->devices > 0) return -1;
    int n = gpu_devices(device, DEVICES, &e);
    *why = "there is no device here, and the plan names no target";
    for (int i = 0; i < n && i < DEVICES; i++) least = fmin(least, (double)device[i].memory);
    return n > 0 ? least : -1;
}

/* The report of core/shard.h on the checkpoint, or on its config alone where the files do not hold
 * what it wants. NULL: the model cannot be cut so, which preflight_ranks() says. */
static json_t *cut(struct preflight *p, const char *model)
{
    struct loaded l;
    struct err e = ERR_INIT;
    json_t *report = NULL;
    if (loaded_open(&l, model, &e) == ERR_OK)
        (void)!shard_plan_report(&p->keys->shard, &l.model, &report, &e);
    loaded_close(&l);
    if (e.code == ERR_MEMORY && p->err->code == ERR_OK) *p->err = e;
    return report;
}

static json_t *cut_any(struct preflight *p)
{
    json_t *report = cut(p, p->model);
    if (report || text_starts(p->model, "synth:")) return report;
    const char *alone = preflight_text(p, "synth:%s?seed=0", p->config_at);
    return alone ? cut(p, alone) : NULL;
}

static double cache_bytes(const struct preflight *p)
{
    const struct config *c = &p->config;
    if (p->keys->kv_tokens <= 0) return 0;
    return (double)p->keys->kv_tokens * (double)c->layers * (double)(c->kv_lora + c->rope) *
           (double)dtype_size(c->dtype);
}

/* The rank that holds most. */
static void fullest(const json_t *report, long long *rank, double *bytes)
{
    const json_t *one;
    size_t i;
    *bytes = -1;
    json_array_foreach(json_object_get(report, "ranks"), i, one)
    {
        double held = json_number_value(json_object_get(one, "bytes"));
        if (!(held > *bytes)) continue;
        *bytes = held;
        *rank = int_at(one, "rank");
    }
}

static void judge_device(struct preflight *p, long long rank, double weights, double device)
{
    char weights_text[32], cache_text[32], device_text[32];
    const double cache = cache_bytes(p), need = weights + cache;
    text_bytes(weights, weights_text, sizeof weights_text);
    text_bytes(cache, cache_text, sizeof cache_text);
    text_bytes(device, device_text, sizeof device_text);
    preflight_about(p, "rank %lld holds most: %s of weights%s%s; a device has %s", rank,
                    weights_text, cache > 0 ? ", cache " : "", cache > 0 ? cache_text : "",
                    device_text);
    if (need <= full * device) return;
    const bool over = !(need <= device);
    preflight_add(
        p, (struct preflight_finding){
               .rule = "device",
               .severity = over ? PREFLIGHT_ERROR : PREFLIGHT_WARNING,
               .file = preflight_plan(p),
               .line = p->keys->line,
               .message = preflight_text(p,
                                         over ? "rank %lld does not fit its device"
                                              : "rank %lld leaves less than a tenth of its "
                                                "device for all that is not counted",
                                         rank),
               .found = preflight_text(p, "%s of weights%s%s", weights_text,
                                       cache > 0 ? ", cache " : "", cache > 0 ? cache_text : ""),
               .wanted = preflight_text(p, "at most %s", device_text),
               .remedy = "more ranks, fewer kv_tokens, or another device",
               .strikes = over && !(weights <= device) ? PREFLIGHT_IN_LOAD : PREFLIGHT_AFTER_LOAD,
               .share = device / weights});
}

static void check_device(struct preflight *p)
{
    const char *why = "";
    double device = device_bytes(p, &why), weights;
    long long rank = 0;
    if (device < 0) {
        if (p->keys->sharded || p->keys->devices > 0)
            preflight_not_checked(p, why, "target: {devices: N, device_memory: 141 GB}");
        else
            preflight_not_asked(p, "the plan says neither tp, ep nor target");
        return;
    }
    json_t *report = cut_any(p);
    if (!report) {
        preflight_not_checked(p, "the model cannot be cut over these ranks",
                              "see the findings of config and ranks");
        return;
    }
    fullest(report, &rank, &weights);
    json_decref(report);
    judge_device(p, rank, weights, device);
}

/* ---- the host ---- */

static void check_host(struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    const struct host_memory m = host_memory();
    const bool elsewhere = k->devices > 0 || k->device_memory > 0;
    const double here = fmin(m.available, m.limit);
    const double has = k->host_memory > 0 ? k->host_memory : elsewhere ? -1 : here;
    const double states = (double)(k->sample_tokens > 0 ? k->sample_tokens : 0) *
                          (k->layers > 0 ? k->layers : STATES) * (double)p->config.hidden *
                          (double)dtype_size(p->config.dtype);
    const double need = shard_world(&k->shard) * (double)p->largest_tensor + states;
    char need_text[32], has_text[32];
    if (has < 0 || p->largest_tensor == 0 || need <= has) return;
    text_bytes(need, need_text, sizeof need_text);
    text_bytes(has, has_text, sizeof has_text);
    preflight_add(p, (struct preflight_finding){
                         .rule = "host",
                         .file = preflight_plan(p),
                         .line = k->line,
                         .message = "the host has too little memory for its ranks' tensors",
                         .found = preflight_text(p, "%s", has_text),
                         .wanted = preflight_text(p,
                                                  "%s: the largest tensor on each of %d ranks, "
                                                  "and the states of a sample",
                                                  need_text, shard_world(&k->shard)),
                         .remedy = "fewer ranks a host, or raise the limit",
                         .strikes = PREFLIGHT_IN_LOAD});
}

void preflight_memory(struct preflight *p)
{
    if (!p->model) {
        preflight_not_asked(p, "the plan names no model");
        return;
    }
    if (!p->configured) {
        preflight_not_checked(p, "sizes are not known without the model's config", "model: DIR");
        return;
    }
    check_device(p);
    check_host(p);
}
