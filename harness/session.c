/* session.c: see session.h. */
#include "harness/session.h"

#include "core/check.h"
#include "core/text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t memory_anonymous(void)
{
    long long anonymous = 0, shared = 0, kb;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "RssAnon: %lld kB", &kb) == 1) anonymous = kb;
        if (sscanf(line, "RssShmem: %lld kB", &kb) == 1) shared = kb;
    }
    fclose(f);
    return (anonymous + shared) * 1024;
}

enum err_code loaded_open(struct loaded *l, const char *model, struct err *err)
{
    return loaded_open_on(l, model, ref_engine(), err);
}

/* Engines without kernels of their own have no log to show. */
static enum err_code open_engine(struct loaded *l, const struct engine_kind *kind,
                                 const struct ranks_options *ranks, struct err *err)
{
    (void)!(ranks ? ranks_engine_open(&l->engine, kind, &l->model, ranks, err)
                  : engine_open(&l->engine, kind, &l->model, err));
    if (err->code != ERR_OK || !kind->device) return err->code;
    l->kernels = calloc(1, sizeof *l->kernels);
    return l->kernels ? ERR_OK : err_set(err, ERR_MEMORY, "open engine|%s|no memory", kind->name);
}

static enum err_code open_on(struct loaded *l, const char *model, const struct engine_kind *engine,
                             const struct ranks_options *ranks, struct err *err)
{
    const struct load_options options = load_defaults();
    struct load *watch = text_starts(model, "synth:") ? NULL : load_begin_opening(&options);
    load_opening(watch, model);
    *l = (struct loaded){0};
    if (weights_open(&l->weights, model, err) == ERR_OK) {
        load_opening(watch, model);
        (void)!model_bind(&l->model, &l->weights, err);
    }
    load_end(watch);
    return err->code == ERR_OK ? open_engine(l, engine, ranks, err) : err->code;
}

enum err_code loaded_open_on(struct loaded *l, const char *model, const struct engine_kind *engine,
                             struct err *err)
{
    return open_on(l, model, engine, NULL, err);
}

enum err_code loaded_open_by(struct loaded *l, const char *model, const struct session_options *o,
                             struct err *err)
{
    return open_on(l, model, o->engine, o->ranks.on ? &o->ranks : NULL, err);
}

struct kernel_log *loaded_take_kernels(struct loaded *l)
{
    struct kernel_log *log = l->kernels;
    l->kernels = NULL;
    return log;
}

void loaded_close(struct loaded *l)
{
    engine_close(&l->engine);
    free(l->kernels);
    l->kernels = NULL;
    model_release(&l->model);
    weights_close(&l->weights);
}

const char *session_precision_name(const struct session_options *o)
{
    if (!o->engine->imitates) return "bf16";
    return o->precision == PRECISION_F64 ? "f64" : "f32";
}

static int usable_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > SESSION_THREADS_MAX ? SESSION_THREADS_MAX : n;
}

struct session_options session_defaults(void)
{
    struct err err = ERR_INIT;
    struct session_options o = {.engine = ref_engine(),
                                .precision = PRECISION_F32,
                                .linear = LINEAR_OWN,
                                .threads = usable_threads(),
                                .block = 64,
                                .layer_end = -1};
    CHECK(profile_find(o.engine->profile, &o.profile, &err) == ERR_OK);
    return o;
}

/* The engine, and the profile that it runs by. */
static enum err_code read_engine(const struct args *a, struct session_options *o, struct err *err)
{
    static const char *const own[] = {"--precision", "--linear"};
    const struct engine_kind *const kinds[] = {ref_engine(), gpu_engine()};
    const char *const names[] = {kinds[0]->name, kinds[1]->name, NULL};
    const char *profile = args_value(a, "--profile");
    int at;
    if (args_choice(a, "--on", names, 0, &at, err) != ERR_OK) return err->code;
    o->engine = kinds[at];
    if (profile_find(profile ? profile : o->engine->profile, &o->profile, err) != ERR_OK ||
        o->engine->imitates)
        return err->code;
    if (strcmp(o->profile.name, o->engine->profile) != 0)
        return err_set(err, ERR_USAGE, "option|--profile with --on %s|%s|%s: it rounds as it does",
                       o->engine->name, o->profile.name, o->engine->profile);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (args_has(a, own[i]))
            return err_set(err, ERR_USAGE, "option|%s|--on %s|--on ref: it is the reference's",
                           own[i], o->engine->name);
    }
    return ERR_OK;
}

enum err_code session_options_read(const struct args *a, struct session_options *o, struct err *err)
{
    static const char *const precisions[] = {"f32", "f64", NULL};
    static const char *const linears[] = {"own", "blas", NULL};
    int precision, linear;
    int64_t threads;
    *o = session_defaults();
    if (read_engine(a, o, err) != ERR_OK ||
        args_choice(a, "--precision", precisions, 0, &precision, err) != ERR_OK ||
        args_choice(a, "--linear", linears, 0, &linear, err) != ERR_OK ||
        args_int(a, "--threads", 1, SESSION_THREADS_MAX, o->threads, &threads, err) != ERR_OK ||
        args_int(a, "--block-size", 1, 1 << 20, o->block, &o->block, err) != ERR_OK ||
        args_int(a, "--prefill-chunk", 1, INT32_MAX, 0, &o->chunk, err) != ERR_OK ||
        args_int(a, "--decode-last", 0, INT32_MAX, 0, &o->decode_last, err) != ERR_OK)
        return err->code;
    o->precision = precision ? PRECISION_F64 : PRECISION_F32;
    if (ranks_options_read(a, o->precision, &o->ranks, err) != ERR_OK) return err->code;
    o->linear = linear ? LINEAR_BLAS : LINEAR_OWN;
    o->threads = (int)threads;
    return ERR_OK;
}

enum err_code session_open(struct session *s, const struct loaded *l,
                           const struct session_options *o, int64_t sequences,
                           const int64_t *lengths_max, struct err *err)
{
    const struct config *c = l->model.config;
    *s = (struct session){
        .loaded = l, .options = *o, .arena = ARENA_INIT, .base_bytes = memory_anonymous()};
    s->run = (struct run){.arena = &s->arena,
                          .profile = o->profile,
                          .precision = o->precision,
                          .linear = o->linear,
                          .act = c->dtype,
                          .threads = o->threads,
                          .kernels = l->kernels,
                          .progress = progress_show};
    const struct load_options watch = load_defaults();
    /* Over ranks nothing is read here: they watch their own reading. */
    if (!ranks_is(&l->engine)) s->load = load_begin(l->model.weights, session_layers(s), &watch);
    if (s->load) {
        s->run.progress = load_progress;
        s->run.progress_ctx = s->load;
    }
    /* A block longer than any sequence would only be memory: blocks are whole. */
    int64_t block = o->block, longest = 1;
    for (int64_t q = 0; q < sequences; q++)
        longest = lengths_max[q] > longest ? lengths_max[q] : longest;
    if (block > longest) block = longest;
    /* Blocks are dealt out shuffled: nothing may lean on neighbours in the pool. */
    const struct cache_sizes sizes = {.layers = session_layers(s),
                                      .sequences = sequences,
                                      .lengths_max = lengths_max,
                                      .block = block,
                                      .width = c->kv_lora + c->rope,
                                      .seed = 1};
    return engine_cache_open(&l->engine, &s->cache, &s->arena, &sizes, err);
}

int64_t session_layers(const struct session *s)
{
    return s->options.layer_end >= 0 ? s->options.layer_end : s->loaded->model.config->layers;
}

void session_close(struct session *s)
{
    if (s->loaded) engine_cache_close(&s->loaded->engine, &s->cache);
    load_end(s->load);
    arena_release(&s->arena, NULL);
    *s = (struct session){0};
}

int64_t session_peak_bytes(const struct session *s)
{
    int64_t now = memory_anonymous(), bound = s->base_bytes + (int64_t)s->arena.bytes_peak;
    int64_t ranks = s->loaded ? ranks_peak_bytes(&s->loaded->engine) : 0;
    return ranks + (now > bound ? now : bound);
}

/* Rows of one step, growable within one batch. */
struct step_rows {
    struct rows rows;
    int32_t *sequence;
    int64_t *position, *token, *dump_row;
};

static enum err_code rows_make(struct step_rows *r, struct arena *arena, int64_t room,
                               struct err *err)
{
    r->sequence = arena_alloc(arena, room, sizeof *r->sequence, "rows of a step", err);
    r->position = arena_alloc(arena, room, sizeof *r->position, "rows of a step", err);
    r->token = arena_alloc(arena, room, sizeof *r->token, "rows of a step", err);
    r->dump_row = arena_alloc(arena, room, sizeof *r->dump_row, "rows of a step", err);
    r->rows = (struct rows){.sequence = r->sequence,
                            .position = r->position,
                            .token = r->token,
                            .dump_row = r->dump_row};
    return err->code;
}

static void rows_add(struct step_rows *r, int64_t sequence, int64_t position, int64_t token,
                     int64_t dump_row)
{
    int64_t i = r->rows.count++;
    r->sequence[i] = (int32_t)sequence;
    r->position[i] = position;
    r->token[i] = token;
    r->dump_row[i] = dump_row;
}

static enum err_code run_step(struct session *s, const struct step_rows *r, bool decode,
                              struct tap_sink *sink, struct forced *forced, double *logits,
                              struct err *err)
{
    struct step step = {.model = &s->loaded->model,
                        .cache = &s->cache,
                        .rows = &r->rows,
                        .layer_end = session_layers(s),
                        .decode = decode,
                        .sink = sink,
                        .forced = forced ? forced_give : NULL,
                        .forced_ctx = forced,
                        .logits = logits};
    if (s->resume) {
        step.after_layer = resume_after_layer;
        step.after_layer_ctx = s->resume;
        step.layer_first = s->resume->next;
        step.x = s->resume->x;
        step.sum = s->resume->sum;
    }
    return engine_step(&s->loaded->engine, &step, &s->run, err);
}

/* Takes the next rows of every sequence: up to `most` each, up to its prefill end (or its last
 * token). */
static void next_rows(const struct session *s, const struct tokens *t, int64_t most, bool decode,
                      struct step_rows *r)
{
    int64_t begin = 0;
    r->rows.count = 0;
    for (int64_t q = 0; q < t->sequences; begin += t->length[q++]) {
        int64_t last =
            s->options.decode_last < t->length[q] ? s->options.decode_last : t->length[q];
        int64_t end = decode ? t->length[q] : t->length[q] - last;
        int64_t at = s->cache.length[q];
        for (int64_t n = 0; n < most && at + n < end; n++)
            rows_add(r, q, at + n, t->id[begin + at + n], begin + at + n);
    }
}

static void keep_last(const struct session *s, const struct tokens *t, const struct step_rows *r,
                      const double *logits, double *last)
{
    int64_t V = s->loaded->model.config->vocab;
    for (int64_t i = 0; i < r->rows.count; i++) {
        int64_t q = r->sequence[i];
        if (r->position[i] == t->length[q] - 1)
            memcpy(last + q * V, logits + i * V, (size_t)V * sizeof *last);
    }
}

enum err_code session_forward(struct session *s, const struct tokens *t, struct tap_sink *sink,
                              struct forced *forced, double *last, struct err *err)
{
    CHECK(t->sequences == s->cache.sequences);
    struct arena_block *mark = arena_mark(&s->arena);
    struct step_rows r;
    if (tokens_check(t, s->loaded->model.config->vocab, err) != ERR_OK ||
        rows_make(&r, &s->arena, t->count, err) != ERR_OK)
        goto done;
    for (int decode = 0; decode < 2; decode++) {
        int64_t most = decode ? 1 : s->options.chunk ? s->options.chunk : t->count;
        for (next_rows(s, t, most, decode, &r); r.rows.count > 0;
             next_rows(s, t, most, decode, &r)) {
            struct arena_block *step_mark = arena_mark(&s->arena);
            double *logits = NULL;
            if (last)
                logits = arena_alloc(&s->arena, r.rows.count * s->loaded->model.config->vocab,
                                     sizeof *logits, "logits", err);
            if (err->code != ERR_OK || run_step(s, &r, decode, sink, forced, logits, err) != ERR_OK)
                goto done;
            if (last) keep_last(s, t, &r, logits, last);
            arena_release(&s->arena, step_mark);
        }
    }
done:
    arena_release(&s->arena, mark);
    return err->code;
}

enum err_code session_decode(struct session *s, const int64_t *token, double *logits,
                             struct err *err)
{
    struct arena_block *mark = arena_mark(&s->arena);
    int64_t V = s->loaded->model.config->vocab;
    struct step_rows r;
    double *y = arena_alloc(&s->arena, s->cache.sequences * V, sizeof *y, "logits", err);
    if (y && rows_make(&r, &s->arena, s->cache.sequences, err) == ERR_OK) {
        for (int64_t q = 0; q < s->cache.sequences; q++) {
            if (token[q] >= 0) rows_add(&r, q, s->cache.length[q], token[q], q);
        }
        if (r.rows.count > 0 && run_step(s, &r, true, NULL, NULL, y, err) == ERR_OK) {
            for (int64_t i = 0; i < r.rows.count; i++)
                memcpy(logits + r.sequence[i] * V, y + i * V, (size_t)V * sizeof *y);
        }
    }
    arena_release(&s->arena, mark);
    return err->code;
}
