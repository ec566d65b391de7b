/* collective_open.cu: which device and which transport, and the watch over the waits of ranks that
 * work together; see collective.cuh. */
#include "gpu/collective.cuh"

#include "core/check.h"
#include "gpu/device.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_S 0.05

/* ---- the device ---- */

/* The place of this rank among the ranks of its host. */
static enum err_code local_place(const struct shard *s, int *place, struct err *err)
{
    char hosts[COLLECTIVE_RANKS][TRANSPORT_HOST] = {};
    char *mine = hosts[s->rank];
    if (gethostname(mine, TRANSPORT_HOST - 1) != 0) snprintf(mine, TRANSPORT_HOST, "unknown");
    if (collective_all_gather(s->all, "hosts of the ranks", mine, TRANSPORT_HOST, hosts, err) !=
        ERR_OK)
        return err->code;
    *place = 0;
    for (int r = 0; r < s->rank; r++) *place += strcmp(hosts[r], hosts[s->rank]) == 0;
    return ERR_OK;
}

enum err_code gpu_ranks_select(const struct shard *s, struct err *err)
{
    char why[DEVICE_WHY];
    int place, count = device_count(why, sizeof why);
    if (local_place(s, &place, err) != ERR_OK) return err->code;
    if (count < 0) return err_set(err, ERR_DEVICE, "open the device|gpu|%s|a usable device", why);
    gpu_select(place % count);
    return ERR_OK;
}

/* ---- the transport ---- */

static enum err_code describe(const struct gpu *g, struct rank_about *a, struct err *err)
{
    cudaDeviceProp prop;
    struct err none;
    char why[DEVICE_WHY];
    err_clear(&none);
    *a = (struct rank_about){};
    if (transport_wish_read(&a->wish, err) != ERR_OK) return err->code;
    if (gethostname(a->host, TRANSPORT_HOST - 1) != 0) snprintf(a->host, TRANSPORT_HOST, "unknown");
    if (cudaGetDeviceProperties(&prop, g->device) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "read the device|%s|no properties|an identity", g->name);
    memcpy(a->uuid, &prop.uuid, sizeof a->uuid);
    a->devices = device_count(why, sizeof why);
    const struct nccl *nccl = nccl_open(&none);
    a->version = nccl ? nccl->version : 0;
    if (!nccl) snprintf(a->why, sizeof a->why, "%s", none.found);
    return ERR_OK;
}

/* ---- the watch ---- */

/* "sum of mla.output, layer 3", which is the first that is not done. */
static void describe_wait(const struct gpu_ranks *r, char text[RANKS_TEXT])
{
    uint32_t done = r->done ? *r->done : 0;
    if (done >= r->now->count) {
        snprintf(text, RANKS_TEXT, "kernels after the last collective");
        return;
    }
    const struct ranks_call *c = &r->now->call[done];
    if (c->layer < 0)
        snprintf(text, RANKS_TEXT, "%s of %s", c->what, c->op);
    else
        snprintf(text, RANKS_TEXT, "%s of %s, layer %lld", c->what, c->op, (long long)c->layer);
}

static enum err_code look(void *ctx, bool over, struct err *err)
{
    struct gpu_ranks *r = (struct gpu_ranks *)ctx;
    char text[RANKS_TEXT];
    double now = gpu_clock();
    if (over) {
        bool told = r->looked > r->wait_from;
        r->wait_from = r->looked = 0;
        return told ? collective_watch(r->shard.all, NULL, err) : ERR_OK;
    }
    if (r->wait_from == 0) r->wait_from = r->looked = now;
    if (now - r->looked < LOOK_S) return ERR_OK;
    r->looked = now;
    describe_wait(r, text);
    if (gpu_comm_look(&r->all, text, err) == ERR_OK &&
        gpu_comm_look(&r->tensor, text, err) == ERR_OK &&
        collective_watch(r->shard.all, text, err) == ERR_OK &&
        now - r->wait_from > r->shard.all->deadline_s)
        (void)!err_set(err, ERR_PROCESS,
                       "wait for the device|%s, rank %d of %d|not done in %g s|all ranks in it",
                       text, r->shard.rank, r->shard.world, r->shard.all->deadline_s);
    if (err->code == ERR_OK) return ERR_OK;
    (void)err_note(err, "while rank %d waits for the %s", r->shard.rank, text);
    gpu_ranks_fail(r, err);
    return err->code;
}

void gpu_ranks_fail(struct gpu_ranks *r, const struct err *err)
{
    r->g->watch = (struct gpu_watch){};
    gpu_comm_abort(&r->tensor);
    gpu_comm_abort(&r->all);
    if (r->g->lost.code == ERR_OK) r->g->lost = *err;
}

/* ---- experts ---- */

int64_t gpu_ranks_held(const struct shard *s)
{
    int64_t held = 0;
    for (int64_t e = 0; e < s->experts; e++) held += shard_holds(s, e);
    return held;
}

/* Two copies take turns by row, so two rows say it all. */
static enum err_code number_experts(struct gpu_ranks *r, struct err *err)
{
    const struct shard *s = &r->shard;
    int64_t E = s->experts, n = 2 * E;
    int32_t next = 0;
    if (E == 0) return ERR_OK;
    r->number = (int32_t *)calloc((size_t)n, sizeof *r->number);
    r->number_there =
        (int32_t *)gpu_keep(r->g, n, sizeof *r->number_there, "experts of this rank", err);
    if (!r->number) return err_set(err, ERR_MEMORY, "open ranks|host|no memory");
    for (int64_t e = 0; e < E; e++) {
        for (int64_t row = 0; row < 2; row++)
            r->number[row * E + e] = shard_computer(s, e, row) == s->e ? next : -1;
        next += shard_holds(s, e);
    }
    if (!r->number_there) return err->code;
    return gpu_send(r->g, r->number_there, r->number, (size_t)n * sizeof *r->number,
                    "experts of this rank", err);
}

/* ---- all of it ---- */

static enum err_code open_nccl(struct gpu_ranks *r, struct err *err)
{
    const struct nccl *nccl = nccl_open(err);
    void *done = NULL;
    if (!nccl || gpu_call(r->g, cudaHostAlloc(&done, sizeof *r->done, cudaHostAllocMapped),
                          "pin host memory", err) != ERR_OK)
        return err->code;
    r->done = (volatile uint32_t *)done;
    *r->done = 0;
    if (gpu_comm_open(&r->all, nccl, r->shard.all, err) != ERR_OK) return err->code;
    if (r->shard.plan.tp > 1 && r->shard.plan.ep > 1 &&
        gpu_comm_open(&r->tensor, nccl, r->shard.tensor, err) != ERR_OK)
        return err->code;
    r->g->watch = {look, r};
    return ERR_OK;
}

static enum err_code open_ranks(struct gpu_ranks *r, struct err *err)
{
    struct rank_about all[COLLECTIVE_RANKS];
    struct rank_about *mine = &all[r->shard.rank];
    const char *agree = getenv("ASSAY_GPU_AGREE");
    r->agrees = agree && agree[0] && strcmp(agree, "0") != 0;
    gpu_at(r->g, "open", -1);
    if (describe(r->g, mine, err) != ERR_OK ||
        collective_all_gather(r->shard.all, "devices of the ranks", mine, sizeof *mine, all, err) !=
            ERR_OK ||
        transport_choose(all, r->shard.world, &r->transport, err) != ERR_OK ||
        number_experts(r, err) != ERR_OK)
        return err->code;
    return r->transport.nccl ? open_nccl(r, err) : ERR_OK;
}

enum err_code gpu_ranks_open(struct gpu *g, const struct shard *s, struct gpu_ranks **out,
                             struct err *err)
{
    CHECK(s->all && s->tensor && s->world > 1);
    struct gpu_ranks *r = (struct gpu_ranks *)calloc(1, sizeof *r);
    if (!r) return err_set(err, ERR_MEMORY, "open ranks|host|no memory");
    r->g = g;
    r->shard = *s;
    r->now = &r->eager;
    if (s->plan.reduce == DT_F64) r->shard.plan.reduce = DT_F32;
    *out = r;
    return open_ranks(r, err);
}

void gpu_ranks_close(struct gpu_ranks *r)
{
    if (!r) return;
    struct err ignored;
    err_clear(&ignored);
    if (r->transport.nccl && r->g->lost.code == ERR_OK) (void)!gpu_wait(r->g, &ignored);
    if (r->g->watch.ctx == r) r->g->watch = (struct gpu_watch){};
    gpu_comm_close(&r->tensor);
    gpu_comm_close(&r->all);
    gpu_drop(r->g, r->number_there);
    /* On a lost context the device may still be ending what writes there. */
    if (r->done && r->g->lost.code == ERR_OK) (void)cudaFreeHost((void *)r->done);
    free(r->number);
    free(r);
}
