/* shard_ranks.c: see shard_ranks.h. */
#include "tests/shard_ranks.h"

#include "core/fault_shard.h"
#include "harness/collective_shm.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WINDOW = 1 << 16, DEADLINE_S = 60 };

/* What the ranks write and the test reads. */
struct shared {
    struct err err[COLLECTIVE_RANKS];
    int64_t edits[COLLECTIVE_RANKS];
    atomic_int ended[COLLECTIVE_RANKS];
    struct recorded tap[RECORD_TAPS]; /* data: meaningless */
    int taps;
    int64_t rows, vocab_values; /* doubles of one rank's last logits */
    double values[];            /* world * vocab_values, then the taps one after another */
};

static bool wants(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return true;
}

static double *tap_room(struct shared *s, const char *name, int64_t cols, bool ints, int world)
{
    double *at = s->values + world * s->vocab_values;
    for (int i = 0; i < s->taps; i++) {
        if (strcmp(s->tap[i].name, name) == 0) return at;
        at += s->tap[i].rows * s->tap[i].cols;
    }
    struct recorded *t = &s->tap[s->taps++];
    *t = (struct recorded){.rows = s->rows, .cols = cols, .ints = ints};
    snprintf(t->name, sizeof t->name, "%s", name);
    return at;
}

struct sink {
    struct shared *shared;
    int world, rank;
};

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    struct sink *s = ctx;
    if (s->rank != 0) return err_set(err, ERR_DIFF, "sink|rank %d|asked|rank 0 alone", s->rank);
    double *to = tap_room(s->shared, name, cols, false, s->world);
    for (int64_t i = 0; i < rows->count; i++)
        memcpy(to + rows->dump_row[i] * cols, data + i * cols, (size_t)cols * sizeof *to);
    return ERR_OK;
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    struct sink *s = ctx;
    if (s->rank != 0) return err_set(err, ERR_DIFF, "sink|rank %d|asked|rank 0 alone", s->rank);
    double *to = tap_room(s->shared, name, cols, true, s->world);
    for (int64_t i = 0; i < rows->count * cols; i++)
        to[rows->dump_row[i / cols] * cols + i % cols] = data[i];
    return ERR_OK;
}

static enum err_code replace(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                             double *data, struct err *err)
{
    const struct sink *s = ctx;
    if (s->rank != 0) return err_set(err, ERR_DIFF, "sink|rank %d|asked|rank 0 alone", s->rank);
    bool q = strcmp(name, "layers.0.q") == 0, attn = strcmp(name, "layers.0.attn") == 0;
    for (int64_t i = 0; (q || attn) && i < rows->count * cols; i++)
        data[i] = q ? 2 * data[i] : data[i] + 1;
    return ERR_OK;
}

static enum err_code run_part(const struct shard_run *r, struct shared *shared,
                              struct collective *all, struct err *err)
{
    struct shard s;
    struct shard_model part;
    struct shard_fault fault;
    struct collective tensor;
    struct session session;
    struct loaded l = *r->loaded;
    struct sink ctx = {shared, all->world, all->rank};
    struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = &ctx};
    struct tokens tokens = *r->tokens;
    if (r->replace) sink.replace = replace;
    shard_of(&r->plan, l.model.config, all->rank, &s);
    s.replicas_agree = r->replicas_agree;
    if (r->fault) {
        if (shard_fault_parse(&fault, r->fault, &r->plan, err) != ERR_OK) return err->code;
        s.fault = &fault;
    }
    if (shard_join(&s, all, &tensor, err) != ERR_OK ||
        shard_model_open(&part, &r->loaded->model, &s, err) != ERR_OK)
        return err->code;
    l.model = part.model;
    struct shard_run mine = *r;
    if (r->differ) r->differ(all->rank, &mine, &tokens);
    if (session_open(&session, &l, &mine.options, tokens.sequences, tokens.length, err) == ERR_OK) {
        session.run.progress = NULL;
        (void)!session_forward(&session, &tokens, &sink, NULL,
                               shared->values + all->rank * shared->vocab_values, err);
    }
    session_close(&session);
    shard_model_close(&part);
    if (r->fault) shared->edits[all->rank] = fault.edits;
    return err->code;
}

static void be_rank(const struct shard_run *r, struct shared *shared, int fd, int rank, int world)
{
    struct collective_shm shm;
    struct collective all;
    struct err *err = &shared->err[rank];
    alarm(2 * DEADLINE_S);
    if (collective_shm_attach(&shm, dup(fd), rank, world, WINDOW, err) == ERR_OK) {
        collective_shm_open(&all, &shm, DEADLINE_S);
        collective_shm_join(&shm, 0);
        if (run_part(r, shared, &all, err) != ERR_OK) collective_shm_stop(&shm, 0, rank);
    }
    atomic_store(&shared->ended[rank], 1);
    _exit(0);
}

/* Takes the taps out of the shared memory. */
static void keep_taps(const struct shared *s, int world, struct tap_record *out)
{
    const double *from = s->values + world * s->vocab_values;
    *out = (struct tap_record){.rows = s->rows, .count = s->taps};
    for (int i = 0; i < s->taps; i++) {
        struct recorded *t = &out->tap[i];
        int64_t n = s->tap[i].rows * s->tap[i].cols;
        *t = s->tap[i];
        t->data = calloc((size_t)n, sizeof(double));
        assert_non_null(t->data);
        for (int64_t k = 0; k < n && t->ints; k++) ((int32_t *)t->data)[k] = (int32_t)from[k];
        if (!t->ints) memcpy(t->data, from, (size_t)n * sizeof(double));
        from += n;
    }
}

void shard_ranks_run(const struct shard_run *r, struct shard_outcome *out)
{
    const struct config *c = r->loaded->model.config;
    int world = shard_world(&r->plan);
    int64_t a_row = c->layers * (12 * c->hidden + 3 * c->heads * (config_qk(c) + c->v_head) +
                                 c->kv_lora + c->rope + c->experts + 2 * c->top_k) +
                    2 * c->hidden + c->vocab;
    int64_t last = r->tokens->sequences * c->vocab;
    struct collective_shm starter;
    struct err err = ERR_INIT;
    *out = (struct shard_outcome){0};
    out->bytes =
        sizeof(struct shared) + (size_t)(world * last + a_row * r->tokens->count) * sizeof(double);
    struct shared *s = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(s != MAP_FAILED);
    out->memory = s;
    s->rows = r->tokens->count;
    s->vocab_values = last;
    for (int i = 0; i < world; i++) s->err[i] = (struct err)ERR_INIT;
    (void)!collective_shm_make(&starter, world, WINDOW, &err);
    assert_ok(&err);
    fflush(NULL);
    for (int i = 0; i < world; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) be_rank(r, s, starter.segment.fd, i, world);
    }
    for (int i = 0; i < world; i++) assert_true(wait(NULL) > 0);
    collective_shm_free(&starter);
    for (int i = 0; i < world; i++) {
        if (!atomic_load(&s->ended[i])) fail_msg("rank %d ended without a word", i);
        out->err[i] = s->err[i];
        out->edits[i] = s->edits[i];
        out->last[i] = s->values + i * last;
    }
    keep_taps(s, world, &out->taps);
}

void shard_ranks_free(struct shard_outcome *out)
{
    record_free(&out->taps);
    munmap(out->memory, out->bytes);
}

void shard_ranks_ok(const struct shard_run *run, const struct shard_outcome *out)
{
    for (int i = 0; i < shard_world(&run->plan); i++) assert_ok(&out->err[i]);
}

void shard_model_text(struct loaded *l, void **folder, const char *config, int seed)
{
    char spec[FILE_PATH];
    struct err err = ERR_INIT;
    write_text(folder_path(folder, "config.json"), config);
    int n =
        snprintf(spec, sizeof spec, "synth:%s?seed=%d", folder_path(folder, "config.json"), seed);
    assert_true(n > 0 && n < (int)sizeof spec);
    (void)!loaded_open(l, spec, &err);
    assert_ok(&err);
}

double shard_ranks_distance(const struct tap_record *cut, const struct tap_record *whole)
{
    double worst = 0;
    assert_int_equal(cut->count, whole->count);
    for (int i = 0; i < cut->count; i++) {
        const struct recorded *a = &cut->tap[i], *b = &whole->tap[i];
        assert_string_equal(a->name, b->name);
        assert_true(a->rows == b->rows && a->cols == b->cols && a->ints == b->ints);
        if (a->ints) {
            assert_memory_equal(a->data, b->data, (size_t)(a->rows * a->cols) * sizeof(int32_t));
            continue;
        }
        double d = record_relative(a, b->data);
        if (!(d <= worst)) worst = d;
        if (isnan(worst)) break;
    }
    return worst;
}
