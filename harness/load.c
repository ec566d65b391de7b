/* load.c: see load.h. */
#include "harness/load.h"

#include "core/text.h"
#include "harness/session.h"
#include "harness/verb.h"
#include "harness/waiting.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_SHIFT = 16, STRIPES = 64, BAR = 24 };

struct shard_file {
    const unsigned char *begin;
    int64_t size;           /* of the mapping */
    int64_t needed;         /* bytes of tensors that a run can read */
    const char *name;       /* without its folder; borrowed from the weights */
    _Atomic uint64_t *seen; /* a bit a piece */
    _Atomic int64_t read;
};

struct load {
    struct load_options options;
    uint64_t id;               /* from 1: no two watches of a process have the same */
    struct shard_file *shards; /* by address */
    int64_t count, needed_shards, needed_bytes;
    _Atomic int64_t latest; /* the shard read last */
    pthread_mutex_t lock;   /* over all that follows */
    /* The position in the layers, from load_progress(). */
    const char *stage;
    int64_t done, total;
    double now, pass_began; /* of the last look */
    bool over;              /* a second pass has begun: what is left is computing */
    /* The watching thread's own. */
    pthread_t thread;
    pthread_cond_t wake;
    bool threaded, stop;
    double began, shown, marked, rate;
    int64_t marked_bytes;
    bool bar; /* one stands on the terminal's line */
    uint64_t beats, faults;
    double moved; /* when something last came in, or nobody waited */
    int stall_lines;
    char stalled[FILE_PATH]; /* what the last line named */
    /* The file being opened; "": a watch of reading. */
    char opening[FILE_PATH];
    uint64_t openings;
};

/* What each thread read last. Threads come and go with every op: they take turns at the stripes. */
static struct stripe {
    _Alignas(64) _Atomic uint64_t beats;
    _Atomic int64_t shard;
    _Atomic long thread;
} stripes[STRIPES];

static struct load *_Atomic active;

/* ---- counting: on the reading threads ---- */

static int64_t find_shard(const struct load *l, const unsigned char *p)
{
    int64_t low = 0, high = l->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (l->shards[middle].begin <= p)
            low = middle;
        else
            high = middle - 1;
    }
    const struct shard_file *s = &l->shards[low];
    return p >= s->begin && p < s->begin + s->size ? low : -1;
}

/* Pieces are of addresses, so that a thread can tell one from its pointer alone. */
static void mark_pieces(struct shard_file *s, uintptr_t first, uintptr_t last)
{
    uintptr_t begin = (uintptr_t)s->begin, end = begin + (uintptr_t)s->size;
    for (uintptr_t piece = first >> PIECE_SHIFT; piece <= last >> PIECE_SHIFT; piece++) {
        uintptr_t i = piece - (begin >> PIECE_SHIFT);
        uint64_t bit = (uint64_t)1 << (i % 64);
        _Atomic uint64_t *word = &s->seen[i / 64];
        if (atomic_load_explicit(word, memory_order_relaxed) & bit) continue;
        if (atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit) continue;
        uintptr_t low = piece << PIECE_SHIFT, high = (piece + 1) << PIECE_SHIFT;
        low = low < begin ? begin : low;
        high = high > end ? end : high;
        atomic_fetch_add_explicit(&s->read, (int64_t)(high - low), memory_order_relaxed);
    }
}

/* The rest of note_read(), where the bytes are not in a piece that this thread met lately. Relaxed
 * throughout, and a thread writes only to its own stripe unless the shard changes: the watch is a
 * display, and must not cost the run. */
static void note_piece(struct load *l, const unsigned char *p, int64_t bytes)
{
    static atomic_int turn;
    static _Thread_local struct stripe *mine;
    static _Thread_local long thread;
    static _Thread_local int64_t at;
    if (!mine) {
        mine = &stripes[(unsigned)atomic_fetch_add(&turn, 1) % STRIPES];
        thread = (long)gettid();
    }
    if (at < 0 || at >= l->count || p < l->shards[at].begin ||
        p >= l->shards[at].begin + l->shards[at].size)
        at = find_shard(l, p);
    if (at < 0) return;
    atomic_store_explicit(&mine->thread, thread, memory_order_relaxed);
    atomic_store_explicit(&mine->shard, at, memory_order_relaxed);
    uint64_t beats = atomic_load_explicit(&mine->beats, memory_order_relaxed);
    atomic_store_explicit(&mine->beats, beats + 1, memory_order_relaxed);
    if (atomic_load_explicit(&l->latest, memory_order_relaxed) != at)
        atomic_store_explicit(&l->latest, at, memory_order_relaxed);
    mark_pieces(&l->shards[at], (uintptr_t)p, (uintptr_t)p + (uintptr_t)bytes - 1);
}

/* Fits tensor_watch(). Codes and scales are read in turn, so a few pieces are kept, each with the
 * watch that it was met under. */
static void note_read(const void *data, int64_t bytes)
{
    enum { KEPT = 4 };
    static _Thread_local uint64_t kept[KEPT];
    struct load *l = atomic_load_explicit(&active, memory_order_acquire);
    uintptr_t first = (uintptr_t)data, piece = first >> PIECE_SHIFT;
    if (!l) return;
    uint64_t key = l->id << 40 | piece;
    if (kept[piece % KEPT] == key && (first + (uintptr_t)bytes - 1) >> PIECE_SHIFT == piece) return;
    kept[piece % KEPT] = key;
    note_piece(l, data, bytes);
}

/* ---- who waits: on the watching thread ---- */

static int64_t shard_of_thread(const struct load *l, const struct waiting *w)
{
    for (int i = 0; i < w->count; i++) {
        for (int k = 0; k < STRIPES; k++) {
            int64_t at = atomic_load_explicit(&stripes[k].shard, memory_order_relaxed);
            if (atomic_load_explicit(&stripes[k].thread, memory_order_relaxed) == w->thread[i] &&
                at < l->count)
                return at;
        }
    }
    return -1;
}

static void wipe_bar(struct load *l)
{
    if (l->bar) fputs("\r\x1b[K", l->options.out);
    l->bar = false;
}

/* What a waiting thread waits for; NULL: nobody waits, or for something else than a weight. */
static const char *awaited(const struct load *l, const struct waiting *w)
{
    int64_t at = shard_of_thread(l, w);
    if (l->opening[0]) return w->count > 0 ? l->opening : NULL;
    return at >= 0 ? l->shards[at].name : NULL;
}

static void look_for_stall(struct load *l, double now)
{
    struct waiting w;
    uint64_t beats = l->openings;
    for (int i = 0; i < STRIPES; i++)
        beats += atomic_load_explicit(&stripes[i].beats, memory_order_relaxed);
    waiting_read(l->options.tasks, &w);
    const char *name = awaited(l, &w);
    if (beats != l->beats || w.faults != l->faults || !name) {
        if (l->stall_lines > 0) {
            wipe_bar(l);
            fprintf(l->options.out, "assay: disk: %s goes on after %.0f s\n", l->stalled,
                    floor(now - l->moved));
        }
        l->beats = beats;
        l->faults = w.faults;
        l->moved = now;
        l->stall_lines = 0;
        return;
    }
    if (now - l->moved < l->options.stall_s * (l->stall_lines + 1)) return;
    snprintf(l->stalled, sizeof l->stalled, "%s", name);
    l->stall_lines++;
    wipe_bar(l);
    fprintf(l->options.out, "assay: disk: no byte of %s for %.0f s\n", l->stalled,
            floor(now - l->moved));
}

/* ---- the line ---- */

struct position {
    int64_t shards, bytes; /* done, read */
    char stage[32];
    int64_t done, total;
    double left; /* seconds; below 0: not known */
};

static int64_t bytes_read(const struct load *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->count; i++)
        n += atomic_load_explicit(&l->shards[i].read, memory_order_relaxed);
    return n;
}

static void take_position(struct load *l, double now, struct position *p)
{
    int64_t latest = atomic_load_explicit(&l->latest, memory_order_relaxed);
    *p = (struct position){.left = -1, .bytes = bytes_read(l)};
    for (int64_t i = 0; i < l->count; i++) {
        int64_t read = atomic_load_explicit(&l->shards[i].read, memory_order_relaxed);
        p->shards += read > 0 && (i != latest || read >= l->shards[i].needed);
    }
    if (l->stage) snprintf(p->stage, sizeof p->stage, "%s", l->stage);
    p->done = l->done;
    p->total = l->total;
    if (l->done > 0)
        p->left = (now - l->pass_began) / (double)l->done * (double)(l->total - l->done);
    if (p->left < 0 && l->rate > 0) p->left = (double)(l->needed_bytes - p->bytes) / l->rate;
}

static void print_line(struct load *l, const struct position *p)
{
    char bytes[32], most[32], rate[32], bar[BAR + 1], layer[64] = "", left[32] = "";
    const char *of = l->options.terminal ? "/" : " of ";
    bool by_layer = p->total > 0 && p->done <= p->total;
    double share = by_layer ? (double)p->done / (double)p->total
                            : (double)p->bytes / (double)(l->needed_bytes + 1);
    int full = (int)(share * BAR);
    for (int i = 0; i < BAR; i++) bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    if (by_layer)
        snprintf(layer, sizeof layer, ", %s %lld%s%lld", p->stage, (long long)p->done, of,
                 (long long)p->total);
    if (p->left >= 0) snprintf(left, sizeof left, ", %.0f s left", p->left);
    fprintf(l->options.out, "%s%s%s%lld%s%lld shards, %s of up to %s, %s/s%s%s%s",
            l->options.terminal ? "\rload [" : "assay: load: ", l->options.terminal ? bar : "",
            l->options.terminal ? "] " : "", (long long)p->shards, of, (long long)l->needed_shards,
            text_bytes((double)p->bytes, bytes, sizeof bytes),
            text_bytes((double)l->needed_bytes, most, sizeof most),
            text_bytes(l->rate, rate, sizeof rate), layer, left,
            l->options.terminal ? " \x1b[K" : "\n");
    l->bar = l->options.terminal;
    fflush(l->options.out);
}

static void show(struct load *l, double now)
{
    /* Over at least two seconds, or a cache and a disk in turn make the number dance. */
    double window = l->options.terminal ? 2 : l->options.line_s;
    double pause = l->options.terminal ? 0.2 : l->options.line_s;
    struct position p;
    if (now - l->marked >= window) {
        int64_t bytes = bytes_read(l);
        l->rate = (double)(bytes - l->marked_bytes) / (now - l->marked);
        l->marked = now;
        l->marked_bytes = bytes;
    }
    if (l->over || l->opening[0] || now - l->began < fmin(2, l->options.line_s) ||
        now - l->shown < pause)
        return;
    l->shown = now;
    take_position(l, now, &p);
    print_line(l, &p);
}

void load_tick(struct load *l, double now)
{
    pthread_mutex_lock(&l->lock);
    l->now = now;
    look_for_stall(l, now);
    show(l, now);
    pthread_mutex_unlock(&l->lock);
}

void load_progress(void *ctx, const char *stage, int64_t done, int64_t total)
{
    struct load *l = ctx;
    pthread_mutex_lock(&l->lock);
    if (l->stage && done == 0) {
        wipe_bar(l);
        l->over = true;
    }
    if (!l->stage) l->pass_began = l->now;
    l->stage = stage;
    l->done = done;
    l->total = total;
    bool over = l->over;
    pthread_mutex_unlock(&l->lock);
    if (over) progress_show(NULL, stage, done, total);
}

/* ---- beginning and end ---- */

/* Between two lines of a log; tests set less. */
static double line_seconds(void)
{
    const char *text = getenv("ASSAY_LOAD_LINE_S");
    double s;
    return text && text_double(text, &s) && s > 0 ? s : 10;
}

struct load_options load_defaults(void)
{
    double line_s = line_seconds();
    return (struct load_options){.stall_s = 10,
                                 .line_s = line_s,
                                 .tick_s = line_s < 1 ? line_s : 1,
                                 .out = stderr,
                                 .terminal = isatty(STDERR_FILENO) != 0,
                                 .tasks = "/proc/self/task"};
}

static bool is_needed(const struct config *c, const char *name, int64_t layer_end)
{
    bool whole = layer_end >= c->layers;
    if (!text_starts(name, c->prefix)) return false;
    name += strlen(c->prefix);
    if (text_starts(name, "model.layers."))
        return strtoll(name + strlen("model.layers."), NULL, 10) < layer_end;
    if (text_starts(name, "model.embed_tokens")) return true;
    return whole && (text_starts(name, "model.norm") || text_starts(name, "lm_head"));
}

static int by_address(const void *a, const void *b)
{
    const struct shard_file *s = a, *t = b;
    return (s->begin > t->begin) - (s->begin < t->begin);
}

static bool make_shards(struct load *l, const struct weights *w, int64_t layer_end)
{
    l->shards = calloc((size_t)w->file_count, sizeof *l->shards);
    for (; l->shards && l->count < w->file_count; l->count++) {
        const struct st_file *f = &w->files[l->count];
        struct shard_file *s = &l->shards[l->count];
        const char *slash = strrchr(f->path, '/');
        int64_t words = ((f->map.size >> PIECE_SHIFT) + 2 + 63) / 64;
        s->begin = f->map.data;
        s->size = f->map.size;
        s->name = slash ? slash + 1 : f->path;
        s->seen = calloc((size_t)words, sizeof *s->seen);
        if (!s->seen) return false;
        for (int64_t i = 0; i < f->count; i++) {
            if (is_needed(&w->config, f->tensors[i].name, layer_end))
                s->needed += f->tensors[i].bytes;
        }
        l->needed_bytes += s->needed;
        l->needed_shards += s->needed > 0;
    }
    if (l->shards) qsort(l->shards, (size_t)l->count, sizeof *l->shards, by_address);
    return l->shards && l->count > 0;
}

static void release(struct load *l)
{
    for (int64_t i = 0; l->shards && i < l->count; i++) free(l->shards[i].seen);
    free(l->shards);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *watch(void *arg)
{
    struct load *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        double until = clock_seconds() + l->options.tick_s;
        const struct timespec t = {(time_t)until, (long)((until - floor(until)) * 1e9)};
        if (pthread_cond_timedwait(&l->wake, &l->lock, &t) == 0 || l->stop) continue;
        pthread_mutex_unlock(&l->lock);
        load_tick(l, clock_seconds());
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Signals are the main thread's. */
static void start_thread(struct load *l)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    l->threaded = pthread_create(&l->thread, NULL, watch, l) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* A watch without shards. */
static struct load *make(const struct load_options *o)
{
    static atomic_int ids;
    struct load *l = calloc(1, sizeof *l);
    pthread_condattr_t attr;
    if (!l) return NULL;
    l->options = *o;
    l->latest = -1;
    l->id = (uint64_t)atomic_fetch_add(&ids, 1) + 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &attr);
    pthread_condattr_destroy(&attr);
    l->began = l->shown = l->marked = l->moved = l->now = o->tick_s > 0 ? clock_seconds() : 0;
    return l;
}

/* Makes it the one that is told; the caller's again, and released, where there is one already. */
static struct load *activate(struct load *l)
{
    struct load *none = NULL;
    if (!atomic_compare_exchange_strong(&active, &none, l)) {
        release(l);
        return NULL;
    }
    for (int i = 0; i < STRIPES; i++) atomic_store(&stripes[i].thread, 0); /* an older watch's */
    if (l->options.tick_s > 0) start_thread(l);
    return l;
}

struct load *load_begin(const struct weights *w, int64_t layer_end, const struct load_options *o)
{
    struct load *l = w->synthetic ? NULL : make(o);
    if (l && !make_shards(l, w, layer_end)) {
        release(l);
        return NULL;
    }
    if (!l || !activate(l)) return NULL;
    tensor_watch(note_read);
    return l;
}

void load_opening(struct load *l, const char *path)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    snprintf(l->opening, sizeof l->opening, "%s", path);
    l->openings++;
    pthread_mutex_unlock(&l->lock);
}

/* Fits weights_watch(). */
static void note_opening(const char *path)
{
    load_opening(atomic_load(&active), path);
}

struct load *load_begin_opening(const struct load_options *o)
{
    struct load *l = make(o);
    if (!l) return NULL;
    snprintf(l->opening, sizeof l->opening, "the model");
    if (!activate(l)) return NULL;
    weights_watch(note_opening);
    return l;
}

void load_end(struct load *l)
{
    if (!l) return;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_signal(&l->wake);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    tensor_watch(NULL);
    weights_watch(NULL);
    atomic_store(&active, NULL);
    wipe_bar(l);
    release(l);
}
