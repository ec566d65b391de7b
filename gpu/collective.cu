/* collective.cu: sums and gatherings of a step, by either transport; see collective.cuh. Opening
 * and watching: collective_open.cu; kernels: collective_kernels.cu. */
#include "gpu/collective_parts.cuh"

#include "core/check.h"
#include "gpu/model.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that gathering all parts may move beyond what slices would: what the second round of calls
 * costs otherwise. */
static const int64_t SLICE_FROM = 2 << 20;

/* ---- who, and what for ---- */

struct members {
    struct gpu_comm *comm;
    int count, place; /* of this rank among them */
};

static struct members members_of(struct gpu_ranks *r, bool whole)
{
    const struct shard *s = &r->shard;
    if (whole || s->plan.ep == 1) return {&r->all, s->world, s->rank};
    return {&r->tensor, s->plan.tp, s->t};
}

static bool over_all(const struct shard_site *at)
{
    return strcmp(at->op, "moe") == 0;
}

enum dtype gpu_partial_type(const struct gpu_ranks *r)
{
    return r->shard.plan.reduce == DT_BF16 ? DT_BF16 : DT_F32;
}

/* By NCCL, and without an edit. */
static bool on_device(const struct gpu_ranks *r)
{
    return r->transport.nccl && !r->shard.fault;
}

static uint32_t number(struct gpu_ranks *r, const char *what, const struct shard_site *at)
{
    struct ranks_calls *c = r->now;
    if (c->count < RANKS_CALLS) c->call[c->count++] = {what, at->op, at->layer};
    return c->count;
}

void gpu_ranks_begin(struct gpu_ranks *r, bool graph)
{
    r->now = graph ? &r->captured : &r->eager;
    if (!graph || r->g->capturing) r->now->count = 0;
    if (r->done && !r->g->capturing) *r->done = 0;
}

/* Every collective of a step passes here: an injected fault drops out of it. */
static enum err_code enter(struct gpu_ranks *r, const char *what, const struct shard_site *at,
                           struct err *err)
{
    if (!getenv(COLLECTIVE_ABORT)) return ERR_OK;
    (void)!err_set(err, ERR_PROCESS,
                   "%s over ranks|op %s, layer %lld, rank %d of %d|it is aborted (" COLLECTIVE_ABORT
                   ")|one that all ranks finish",
                   what, at->op, (long long)at->layer, r->shard.rank, r->shard.world);
    gpu_ranks_fail(r, err);
    return err->code;
}

/* ---- NCCL ---- */

/* Before a call of NCCL: it is counted and logged as a launch. */
static enum err_code before(struct gpu_ranks *r, const char *call, int ranks, struct err *err)
{
    char tactic[KERNEL_NAME];
    snprintf(tactic, sizeof tactic, "%d ranks", ranks);
    return gpu_before(r->g, call, tactic, dim3(0, 0, 0), dim3(0, 0, 0), 0, err);
}

static enum err_code after(struct gpu_ranks *r, struct gpu_comm *comm, int code, const char *call,
                           const struct shard_site *at, struct err *err)
{
    if (gpu_comm_call(comm, code, call, err) == ERR_OK) return gpu_after(r->g, call, err);
    (void)err_note(err, "op %s, layer %lld", at->op, (long long)at->layer);
    gpu_ranks_fail(r, err);
    return err->code;
}

static enum err_code all_gather(struct gpu_ranks *r, const struct members *m, const void *x,
                                int64_t bytes, void *y, const struct shard_site *at,
                                struct err *err)
{
    if (before(r, "ncclAllGather", m->count, err) != ERR_OK) return err->code;
    int code =
        m->comm->nccl->ncclAllGather(x, y, (size_t)bytes, NCCL_BYTE, m->comm->comm, r->g->stream);
    return after(r, m->comm, code, "ncclAllGather", at, err);
}

/* parts[p] = what member p has of this rank's slice: x is cut into a slice a member. */
static enum err_code exchange(struct gpu_ranks *r, const struct members *m, const char *x,
                              int64_t bytes, char *parts, const struct shard_site *at,
                              struct err *err)
{
    const struct nccl *n = m->comm->nccl;
    if (before(r, "ncclSend, ncclRecv", m->count, err) != ERR_OK) return err->code;
    int code = n->ncclGroupStart();
    for (int p = 0; p < m->count && code == NCCL_OK; p++) {
        code = n->ncclSend(x + p * bytes, (size_t)bytes, NCCL_BYTE, p, m->comm->comm, r->g->stream);
        if (code == NCCL_OK)
            code = n->ncclRecv(parts + p * bytes, (size_t)bytes, NCCL_BYTE, p, m->comm->comm,
                               r->g->stream);
    }
    int ended = n->ncclGroupEnd();
    return after(r, m->comm, code != NCCL_OK ? code : ended, "ncclSend, ncclRecv", at, err);
}

/* ---- sums ---- */

/* Every member adds all parts. */
static enum err_code sum_whole(struct gpu_ranks *r, const struct members *m,
                               const struct shard_site *at, enum dtype type, const void *x, bf16 *y,
                               struct err *err)
{
    int64_t n = at->T * at->width, bytes = n * dtype_size(type);
    void *parts = gpu_alloc(r->g, m->count * n, (size_t)dtype_size(type), "parts of a sum", err);
    if (!parts || all_gather(r, m, x, bytes, parts, at, err) != ERR_OK) return err->code;
    const struct ranks_sum p = {parts, n, n, m->count, y, r->done, number(r, "sum", at)};
    return ranks_add(r->g, type, &p, err);
}

/* Every member adds a slice, and the slices go around. */
static enum err_code sum_slices(struct gpu_ranks *r, const struct members *m,
                                const struct shard_site *at, enum dtype type, const void *x,
                                bf16 *y, struct err *err)
{
    int64_t slice = at->T * at->width / m->count, size = dtype_size(type);
    bf16 *mine = y + m->place * slice;
    char *parts = (char *)gpu_alloc(r->g, m->count * slice, (size_t)size, "parts of a sum", err);
    if (!parts || exchange(r, m, (const char *)x, slice * size, parts, at, err) != ERR_OK)
        return err->code;
    const struct ranks_sum p = {parts, slice, slice, m->count, mine, NULL, 0};
    if (ranks_add(r->g, type, &p, err) != ERR_OK ||
        all_gather(r, m, mine, slice * (int64_t)sizeof *y, y, at, err) != ERR_OK)
        return err->code;
    return ranks_set_done(r->g, r->done, number(r, "sum", at), err);
}

/* y may be x where both are bf16: parts are read out of scratch. */
static enum err_code sum_on_device(struct gpu_ranks *r, const struct shard_site *at,
                                   enum dtype type, const void *x, bf16 *y, struct err *err)
{
    const struct members m = members_of(r, over_all(at));
    int64_t n = at->T * at->width, whole = (m.count - 1) * n * dtype_size(type);
    int64_t slices = (m.count - 1) * n / m.count * (dtype_size(type) + (int64_t)sizeof *y);
    struct gpu_mark mark = gpu_mark(r->g);
    if (whole - slices > SLICE_FROM && n % (8 * m.count) == 0)
        (void)!sum_slices(r, &m, at, type, x, y, err);
    else
        (void)!sum_whole(r, &m, at, type, x, y, err);
    gpu_release(r->g, mark);
    return err->code;
}

/* What travels over the host shows in the report of the kernels too. */
static void log_host(struct gpu_ranks *r, const struct shard_site *at)
{
    struct kernel_row row = {};
    if (!r->g->log) return;
    snprintf(row.op, sizeof row.op, "%s", at->op);
    snprintf(row.kernel, sizeof row.kernel, "over the host");
    snprintf(row.tactic, sizeof row.tactic, "%.63s", r->transport.text);
    kernel_log_add(r->g->log, &row);
}

static enum err_code sum_on_host(struct gpu_ranks *r, const struct shard_site *at, enum dtype type,
                                 const void *x, bf16 *y, struct err *err)
{
    int64_t n = at->T * at->width;
    double *sum = (double *)malloc((size_t)n * sizeof *sum + 1);
    if (!sum) return err_set(err, ERR_MEMORY, "sum over ranks|op %s|no memory on the host", at->op);
    log_host(r, at);
    enum err_code code = type == DT_F32
                             ? gpu_fetch_f32(r->g, sum, (const float *)x, n, "partial rows", err)
                             : gpu_fetch_act(r->g, sum, (const bf16 *)x, n, "partial rows", err);
    if (code == ERR_OK && shard_reduce(&r->shard, at, sum, err) == ERR_OK)
        (void)!gpu_seam_back(r->g, y, sum, n, err);
    free(sum);
    return err->code;
}

enum err_code gpu_reduce(struct gpu_ranks *r, const struct shard_site *at, const void *x, bf16 *y,
                         struct err *err)
{
    enum dtype type = gpu_partial_type(r);
    if (at->T == 0 || enter(r, "sum", at, err) != ERR_OK) return err->code;
    return on_device(r) ? sum_on_device(r, at, type, x, y, err)
                        : sum_on_host(r, at, type, x, y, err);
}

enum err_code gpu_reduce_rows(struct gpu_ranks *r, const struct shard_site *at, bf16 *x,
                              struct err *err)
{
    if (at->T == 0 || enter(r, "sum", at, err) != ERR_OK) return err->code;
    return on_device(r) ? sum_on_device(r, at, DT_BF16, x, x, err)
                        : sum_on_host(r, at, DT_BF16, x, x, err);
}

/* ---- columns ---- */

static enum err_code columns_on_device(struct gpu_ranks *r, const struct shard_site *at,
                                       enum dtype type, const void *part, void *y, struct err *err)
{
    const struct members m = members_of(r, false);
    int64_t n = at->T * at->width, size = dtype_size(type);
    struct gpu_mark mark = gpu_mark(r->g);
    void *parts = gpu_alloc(r->g, m.count * n, (size_t)size, "columns of ranks", err);
    if (parts && all_gather(r, &m, part, n * size, parts, at, err) == ERR_OK) {
        const struct ranks_columns p = {
            parts, at->T, at->width, m.count, y, r->done, number(r, "gathering", at)};
        (void)!ranks_join(r->g, type, &p, err);
    }
    gpu_release(r->g, mark);
    return err->code;
}

static enum err_code columns_on_host(struct gpu_ranks *r, const struct shard_site *at,
                                     enum dtype type, const void *part, void *y, struct err *err)
{
    int64_t n = at->T * at->width, all = n * r->shard.plan.tp;
    double *mine = (double *)malloc((size_t)n * sizeof *mine + 1);
    double *joined = (double *)malloc((size_t)all * sizeof *joined + 1);
    if (!mine || !joined)
        (void)!err_set(err, ERR_MEMORY, "gather columns|op %s|no memory on the host", at->op);
    else
        log_host(r, at);
    if (err->code == ERR_OK)
        (void)!(type == DT_F32 ? gpu_fetch_f32(r->g, mine, (const float *)part, n, "columns", err)
                               : gpu_fetch_act(r->g, mine, (const bf16 *)part, n, "columns", err));
    if (err->code == ERR_OK && shard_gather_columns(&r->shard, at, mine, joined, err) == ERR_OK)
        (void)!(type == DT_F32 ? gpu_seam_back_f32(r->g, (float *)y, joined, all, err)
                               : gpu_seam_back(r->g, (bf16 *)y, joined, all, err));
    free(mine);
    free(joined);
    return err->code;
}

enum err_code gpu_gather_columns(struct gpu_ranks *r, const struct shard_site *at, enum dtype type,
                                 const void *part, void *y, struct err *err)
{
    if (at->T == 0 || enter(r, "gathering", at, err) != ERR_OK) return err->code;
    return on_device(r) ? columns_on_device(r, at, type, part, y, err)
                        : columns_on_host(r, at, type, part, y, err);
}

enum err_code gpu_all_to_all(struct gpu_ranks *r, const void *x, int64_t bytes, void *y,
                             struct err *err)
{
    const struct members m = members_of(r, true);
    const struct shard_site at = {"all_to_all", -1, 0, 0};
    CHECK(r->transport.nccl);
    return exchange(r, &m, (const char *)x, bytes, (char *)y, &at, err);
}

/* ---- routes ---- */

/* By shard_route(), which a fault may edit. */
static enum err_code route_on_host(struct gpu_ranks *r, int64_t layer, const struct rows *rows,
                                   int64_t top_k, const int32_t *ids, int32_t *own, struct err *err)
{
    int64_t n = rows->count * top_k, E = r->shard.experts;
    int32_t *id = (int32_t *)malloc((size_t)n * sizeof *id + 1);
    if (!id)
        return err_set(err, ERR_MEMORY, "route to ranks|layer %lld|no memory on the host",
                       (long long)layer);
    if (gpu_fetch(r->g, id, ids, (size_t)n * sizeof *id, "expert ids", err) == ERR_OK) {
        shard_route(&r->shard, layer, rows, top_k, id);
        for (int64_t i = 0; i < n; i++)
            if (id[i] >= 0) id[i] = r->number[i / top_k % 2 * E + id[i]];
        (void)!gpu_send(r->g, own, id, (size_t)n * sizeof *id, "expert ids", err);
    }
    free(id);
    return err->code;
}

enum err_code gpu_route(struct gpu_ranks *r, int64_t layer, const struct rows *rows, int64_t top_k,
                        const int32_t *ids, int32_t *own, struct err *err)
{
    int64_t n = rows->count * top_k;
    if (r->shard.fault) return route_on_host(r, layer, rows, top_k, ids, own, err);
    return ranks_own(r->g, n, top_k, r->shard.experts, r->number_there, ids, own, err);
}

enum err_code gpu_agree(struct gpu_ranks *r, const char *op, int64_t layer, const void *device,
                        size_t bytes, struct err *err)
{
    char name[COLLECTIVE_NAME];
    int n = snprintf(name, sizeof name, "%s on all ranks", op);
    if (!r->agrees) return ERR_OK;
    void *host = malloc(bytes + 1);
    if (!host) return err_set(err, ERR_MEMORY, "compare ranks|op %s|no memory on the host", op);
    if (layer >= 0 && n < COLLECTIVE_NAME)
        snprintf(name + n, sizeof name - (size_t)n, ", layer %lld", (long long)layer);
    if (gpu_fetch(r->g, host, device, bytes, "what all ranks hold", err) == ERR_OK)
        (void)!collective_agree(r->shard.all, name, host, (int64_t)bytes, err);
    free(host);
    return err->code;
}
