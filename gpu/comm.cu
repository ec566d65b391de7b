/* comm.cu: see comm.cuh. */
#include "gpu/comm.cuh"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NAP_S 20e-6
#define LOOK_S 0.05 /* how often the starter of the ranks hears of a wait */
#define END_S 5.0   /* for an end in peace, which takes no time */
#define ABORT_S 0.4 /* for one in which other ranks are gone: what failed is to be said soon */

double gpu_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void)
{
    const struct timespec t = {0, (long)(NAP_S * 1e9)};
    nanosleep(&t, NULL);
}

/* ---- what is said ---- */

static enum err_code say_failed(const struct gpu_comm *c, int code, const char *doing,
                                struct err *err)
{
    const char *last = c->nccl->ncclGetLastError(c->comm);
    return err_set(err, code == NCCL_REMOTE ? ERR_PROCESS : ERR_DEVICE,
                   "%s|rank %d of %d|NCCL: %s%s%s|success", doing, c->host->member[c->host->rank],
                   c->host->world, c->nccl->ncclGetErrorString(code), last && last[0] ? ": " : "",
                   last && last[0] ? last : "");
}

/* ---- waiting for the host's side of a call ---- */

static int state_of(const struct gpu_comm *c)
{
    int state = NCCL_OK, code = c->nccl->ncclCommGetAsyncError(c->comm, &state);
    return code != NCCL_OK ? code : state;
}

static enum err_code settle(struct gpu_comm *c, const char *doing, struct err *err)
{
    double begun = gpu_clock(), told = begun;
    for (int state; (state = state_of(c)) != NCCL_OK;) {
        double now = gpu_clock();
        if (state != NCCL_IN_PROGRESS) return say_failed(c, state, doing, err);
        if (now - begun > c->host->deadline_s)
            return err_set(err, ERR_PROCESS, "%s|rank %d of %d|not done in %g s|all ranks in it",
                           doing, c->host->member[c->host->rank], c->host->world,
                           c->host->deadline_s);
        if (now - told > LOOK_S) {
            told = now;
            if (collective_watch(c->host, doing, err) != ERR_OK) return err->code;
        }
        nap();
    }
    return told > begun ? collective_watch(c->host, NULL, err) : ERR_OK;
}

enum err_code gpu_comm_call(struct gpu_comm *c, int code, const char *doing, struct err *err)
{
    if (code != NCCL_OK && code != NCCL_IN_PROGRESS) return say_failed(c, code, doing, err);
    return settle(c, doing, err);
}

enum err_code gpu_comm_look(struct gpu_comm *c, const char *doing, struct err *err)
{
    int state = c->comm ? state_of(c) : NCCL_OK;
    if (state == NCCL_OK || state == NCCL_IN_PROGRESS) return ERR_OK;
    return say_failed(c, state, doing, err);
}

enum err_code gpu_comm_open(struct gpu_comm *c, const struct nccl *nccl, struct collective *host,
                            struct err *err)
{
    struct nccl_id id = {};
    struct nccl_config config = nccl_config_here();
    *c = (struct gpu_comm){nccl, NULL, host};
    int code = host->rank == 0 ? nccl->ncclGetUniqueId(&id) : NCCL_OK;
    if (code != NCCL_OK) return say_failed(c, code, "ncclGetUniqueId", err);
    if (collective_broadcast(host, "NCCL id", &id, sizeof id, 0, err) != ERR_OK) return err->code;
    code = nccl->ncclCommInitRankConfig(&c->comm, host->world, id, host->rank, &config);
    if (!c->comm) return say_failed(c, code, "ncclCommInitRankConfig", err);
    if (gpu_comm_call(c, code, "ncclCommInitRankConfig", err) != ERR_OK) gpu_comm_abort(c);
    return err->code;
}

/* ---- the end ---- */

struct ending {
    const struct nccl *nccl;
    struct nccl_comm *comm;
    bool done; /* read and written as atomics */
};

static void *end(void *ctx)
{
    struct ending *e = (struct ending *)ctx;
    (void)e->nccl->ncclCommAbort(e->comm);
    __atomic_store_n(&e->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* An abort joins threads of the library: it gets one of its own, which may outlive the wait. */
void gpu_comm_abort(struct gpu_comm *c)
{
    pthread_t thread;
    struct ending *e = c->comm ? (struct ending *)calloc(1, sizeof *e) : NULL;
    if (!e) return;
    e->nccl = c->nccl;
    e->comm = c->comm;
    c->comm = NULL;
    if (pthread_create(&thread, NULL, end, e) != 0) return;
    bool done = false;
    for (double until = gpu_clock() + ABORT_S; !done && gpu_clock() < until;) {
        nap();
        done = __atomic_load_n(&e->done, __ATOMIC_ACQUIRE);
    }
    if (done) {
        pthread_join(thread, NULL);
        free(e);
    } else {
        pthread_detach(thread); /* and what it still reads stays */
    }
}

void gpu_comm_close(struct gpu_comm *c)
{
    if (!c->comm) return;
    int code = c->nccl->ncclCommFinalize(c->comm);
    double until = gpu_clock() + END_S;
    while ((code == NCCL_OK || code == NCCL_IN_PROGRESS) && gpu_clock() < until) {
        code = state_of(c);
        if (code == NCCL_OK) break;
        nap();
    }
    if (code == NCCL_OK) {
        (void)c->nccl->ncclCommDestroy(c->comm);
        c->comm = NULL;
    } else {
        gpu_comm_abort(c);
    }
}
