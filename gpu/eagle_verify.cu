/* eagle_verify.cu: op eagle.verify on the device: which drafts the target confirms and the token
 * after them; see eagle.cuh and core/eagle.h. Sums over a law run id after id in float64, as the
 * law's definition has them: a decision never depends on how many threads there are. Test: assay op
 * eagle.verify --sweep --on ref,gpu */
#include "gpu/eagle.cuh"

#include "gpu/ops.h"

enum { THREADS = 256, CHUNK = 1024 };

/* ---- greedy ---- */

/* The better of two candidates: larger, on a tie the lower id; a NaN is better than anything. */
__device__ static inline bool is_better(double a, int64_t i, double b, int64_t k)
{
    if (k < 0) return i >= 0;
    if (i < 0) return false;
    if (isnan(a) || isnan(b)) return isnan(a) && !isnan(b);
    return a > b || (a == b && i < k);
}

/* best[node] = argmax of its row, -1 where a NaN stands in it. One block a node. */
template <class Real>
__global__ static void __launch_bounds__(THREADS)
    argmax_kernel(int64_t V, const Real *target, int64_t *best)
{
    __shared__ double values[THREADS];
    __shared__ int64_t ids[THREADS];
    const Real *row = target + blockIdx.x * V;
    double value = 0;
    int64_t id = -1;
    for (int64_t i = threadIdx.x; i < V; i += THREADS) {
        double v = (double)row[i];
        if (!is_better(v, i, value, id)) continue;
        value = v;
        id = i;
    }
    values[threadIdx.x] = value;
    ids[threadIdx.x] = id;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        int a = (int)threadIdx.x, b = a + half;
        if (a < half && is_better(values[b], ids[b], values[a], ids[a])) {
            values[a] = values[b];
            ids[a] = ids[b];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) best[blockIdx.x] = isnan(values[0]) ? -1 : ids[0];
}

__device__ static int64_t next_child(const struct gpu_eagle_verify &op, int64_t node, int64_t after)
{
    for (int64_t i = after + 1; i < op.nodes; i++) {
        if (op.parent[i] == node) return i;
    }
    return -1;
}

__global__ static void greedy_walk(struct gpu_eagle_verify op, const int64_t *best)
{
    int64_t at = 0, accepted = 0;
    op.path[0] = 0;
    for (;;) {
        int64_t child = next_child(op, at, at);
        while (child >= 0 && op.token[child] != best[at]) child = next_child(op, at, child);
        if (child < 0) break;
        op.path[++accepted] = (int32_t)child;
        at = child;
    }
    *op.accepted = accepted;
    *op.next = best[at];
}

/* ---- sampling: one block walks ---- */

/* A law in pieces of shared memory; f(x) of every id is added by one thread in ascending order. */
template <class Value> __device__ static double ordered_sum(int64_t V, double *piece, Value f)
{
    __shared__ double total;
    double sum = 0;
    for (int64_t first = 0; first < V; first += CHUNK) {
        int64_t n = V - first < CHUNK ? V - first : CHUNK;
        for (int64_t i = threadIdx.x; i < n; i += THREADS) piece[i] = f(first + i);
        __syncthreads();
        for (int64_t i = 0; threadIdx.x == 0 && i < n; i++) sum += piece[i];
        __syncthreads();
    }
    if (threadIdx.x == 0) total = sum;
    __syncthreads();
    double all = total;
    __syncthreads();
    return all;
}

/* The first id at which the cumulative sum passes u of the whole. */
__device__ static int64_t draw_id(int64_t V, const double *law, double u, double *piece)
{
    __shared__ int64_t found;
    double goal = u * ordered_sum(V, piece, [law](int64_t x) { return law[x]; }), sum = 0;
    for (int64_t first = 0; first < V; first += CHUNK) {
        int64_t n = V - first < CHUNK ? V - first : CHUNK;
        for (int64_t i = threadIdx.x; i < n; i += THREADS) piece[i] = law[first + i];
        __syncthreads();
        if (threadIdx.x == 0) {
            int64_t i = 0;
            while (i < n && first + i < V - 1 && !(sum + piece[i] > goal)) sum += piece[i++];
            found = i < n ? first + i : -1;
        }
        __syncthreads();
        if (found >= 0) break;
    }
    return found;
}

struct sampled {
    struct gpu_eagle_verify op;
    double *law; /* [V]: what is left of the node's p */
};

__device__ static void take_law(const struct sampled &s, int64_t node)
{
    __syncthreads();
    const double *row = (const double *)s.op.target + node * s.op.V;
    for (int64_t x = threadIdx.x; x < s.op.V; x += THREADS) s.law[x] = row[x];
    __syncthreads();
}

/* max(p - q, 0) after the refusal of a drawn draft; where rounding leaves nothing, p stands. */
__device__ static void take_residual(const struct sampled &s, const double *q, double *piece)
{
    double *law = s.law;
    auto left = [law, q](int64_t x) { return law[x] > q[x] ? law[x] - q[x] : 0.0; };
    if (!(ordered_sum(s.op.V, piece, left) > 0)) return;
    for (int64_t x = threadIdx.x; x < s.op.V; x += THREADS) law[x] = left(x);
    __syncthreads();
}

/* Drafts drawn from q: one child a node. Returns the nodes accepted; *at is where the path ends. */
__device__ static int64_t walk_drawn(const struct sampled &s, double *piece, int64_t *at)
{
    int64_t accepted = 0;
    take_law(s, 0);
    while (*at + 1 < s.op.nodes) {
        int64_t child = *at + 1, x = s.op.token[child];
        const double *q = s.op.draft + child * s.op.V;
        if (!(s.op.coin[child] * q[x] < s.law[x])) {
            __syncthreads();
            take_residual(s, q, piece);
            break;
        }
        *at = child;
        if (threadIdx.x == 0) s.op.path[accepted + 1] = (int32_t)child;
        accepted++;
        take_law(s, child);
    }
    return accepted;
}

/* Deterministic drafts: what a refused child leaves is p without it. */
__device__ static int64_t walk_chosen(const struct sampled &s, double *piece, int64_t *at)
{
    const double *law = s.law;
    int64_t accepted = 0, child = next_child(s.op, 0, 0);
    take_law(s, 0);
    while (child >= 0) {
        double p = law[s.op.token[child]];
        double whole = ordered_sum(s.op.V, piece, [law](int64_t x) { return law[x]; });
        if (s.op.coin[child] * whole < p) {
            *at = child;
            if (threadIdx.x == 0) s.op.path[accepted + 1] = (int32_t)child;
            accepted++;
            take_law(s, child);
            child = next_child(s.op, child, child);
            continue;
        }
        if (threadIdx.x == 0) s.law[s.op.token[child]] = 0;
        __syncthreads();
        child = next_child(s.op, *at, child);
    }
    return accepted;
}

__global__ static void __launch_bounds__(THREADS) sample_walk(struct sampled s)
{
    __shared__ double piece[CHUNK];
    int64_t at = 0;
    int64_t accepted = s.op.draft ? walk_drawn(s, piece, &at) : walk_chosen(s, piece, &at);
    int64_t next = draw_id(s.op.V, s.law, s.op.draw[at], piece);
    if (threadIdx.x != 0) return;
    s.op.path[0] = 0;
    *s.op.accepted = accepted;
    *s.op.next = next;
}

static enum err_code launch_greedy(struct gpu *g, const struct gpu_eagle_verify *op,
                                   struct err *err)
{
    dim3 grid((unsigned)op->nodes), block(THREADS);
    int64_t *best = gpu_new<int64_t>(g, op->nodes, "best tokens", err);
    if (!best) return err->code;
    if ((op->type == DT_F32
             ? GPU_LAUNCH(g, err, "argmax", "float32", grid, block, 0, argmax_kernel<float>, op->V,
                          (const float *)op->target, best)
             : GPU_LAUNCH(g, err, "argmax", "float64", grid, block, 0, argmax_kernel<double>, op->V,
                          (const double *)op->target, best)) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "verify_greedy", "", dim3(1), dim3(1), 0, greedy_walk, *op, best);
}

enum err_code gpu_eagle_verify(struct gpu *g, const struct gpu_eagle_verify *op, struct err *err)
{
    struct gpu_mark m = gpu_mark(g);
    struct sampled s = {*op, NULL};
    if (op->greedy) {
        (void)!launch_greedy(g, op, err);
    } else {
        s.law = gpu_new<double>(g, op->V, "a node's law", err);
        if (s.law)
            (void)!GPU_LAUNCH(g, err, "verify_sample", op->draft ? "drawn" : "chosen", dim3(1),
                              dim3(THREADS), 0, sample_walk, s);
    }
    gpu_release(g, m);
    return err->code;
}

/* ---- adapter ---- */

/* n numbers of the host on the device, or NULL: there are none, or an error. */
template <class T>
static T *send_all(struct gpu *g, const T *x, int64_t n, const char *what, struct err *err)
{
    if (!x || err->code != ERR_OK) return NULL;
    T *device = gpu_new<T>(g, n, what, err);
    if (!device || gpu_send(g, device, x, (size_t)n * sizeof *x, what, err) != ERR_OK) return NULL;
    return device;
}

enum err_code eagle_verify_gpu(const struct eagle_verify *op, struct run *run, struct err *err)
{
    if (eagle_verify_check(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("eagle.verify", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_eagle_verify own = {};
    own.nodes = op->nodes;
    own.V = op->V;
    own.type = DT_F64;
    own.greedy = op->greedy;
    own.parent = send_all(g, op->parent, op->nodes, "parents", err);
    own.token = send_all(g, op->token, op->nodes, "drafts", err);
    own.target = send_all(g, op->target, op->nodes * op->V, "target rows", err);
    own.draft = op->greedy ? NULL : send_all(g, op->draft, op->nodes * op->V, "draft laws", err);
    own.coin = op->greedy ? NULL : send_all(g, op->coin, op->nodes, "coins", err);
    own.draw = op->greedy ? NULL : send_all(g, op->draw, op->nodes, "draws", err);
    own.path = gpu_new<int32_t>(g, op->nodes, "path", err);
    own.accepted = gpu_new<int64_t>(g, 2, "choice", err);
    own.next = own.accepted ? own.accepted + 1 : NULL;
    int64_t choice[2];
    if (err->code == ERR_OK && gpu_eagle_verify(g, &own, err) == ERR_OK &&
        gpu_fetch(g, choice, own.accepted, sizeof choice, "choice", err) == ERR_OK &&
        gpu_fetch(g, op->path, own.path, (size_t)(choice[0] + 1) * sizeof *op->path, "path", err) ==
            ERR_OK) {
        *op->accepted = choice[0];
        *op->next = choice[1];
    }
    return gpu_leave(g, m, err);
}
