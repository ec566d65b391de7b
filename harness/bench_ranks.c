/* bench_ranks.c: see bench_ranks.h. */
#include "harness/bench_ranks.h"

#include "harness/bench_row.h"
#include "harness/shard_options.h"
#include "harness/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a rank ---- */

/* `c`: NULL, or what a row is a share of. */
static enum err_code measure_all(struct worker *w, const struct bench_group *group, void *self,
                                 const struct bench_ceilings *c, json_t *rows, struct err *err)
{
    const char *op;
    for (int i = 0; (op = group->op(self, i)) && err->code == ERR_OK; i++) {
        struct bench_row r;
        struct kernel_log *log = calloc(1, sizeof *log);
        worker_doing(w, op, -1, i);
        if (!log)
            err_set(err, ERR_MEMORY, "bench||no memory");
        else if (group->measure(self, i, &r, log, err) == ERR_OK)
            json_array_append_new(rows, bench_row_json(op, group->name, &r, c, log));
        free(log);
    }
    return err->code;
}

static enum err_code reply_json(struct worker *w, json_t *result, struct err *err)
{
    char *text = json_dumps(result, JSON_COMPACT);
    if (text)
        (void)!worker_reply(w, text, (int64_t)strlen(text) + 1, err);
    else
        err_set(err, ERR_MEMORY, "bench||no memory");
    free(text);
    return err->code;
}

static enum err_code measure(struct worker *w, const struct bench_ranks_request *q,
                             const struct bench_group *group, void *self, struct err *err)
{
    struct bench_ceilings c;
    if (q->layers && gpu_bench()->ceilings(&c, err) != ERR_OK) return err->code;
    json_t *rows = json_array();
    if (measure_all(w, group, self, q->layers ? &c : NULL, rows, err) == ERR_OK) {
        json_t *result = json_pack("{s:s, s:O}", "transport", group->about(self), "rows", rows);
        if (q->layers) {
            json_object_set_new(result, "device", json_string(c.device));
            json_object_set_new(result, "ceilings", bench_ceilings_json(&c));
        }
        (void)!reply_json(w, result, err);
        json_decref(result);
    }
    json_decref(rows);
    return err->code;
}

enum err_code bench_ranks_task(struct worker *w, struct err *err)
{
    static const struct config none; /* a layer's model is the device's own */
    struct bench_ranks_request q;
    struct collective tensor;
    struct shard shard;
    void *self = NULL;
    if (w->bytes != (int64_t)sizeof q)
        return err_set(err, ERR_PROCESS, "bench over ranks|request|%lld bytes|a plan",
                       (long long)w->bytes);
    memcpy(&q, w->data, sizeof q);
    const struct bench_group *group = q.layers ? gpu_bench_layers() : gpu_bench_group();
    shard_of(&q.plan, &none, w->rank, &shard);
    if (shard_join(&shard, w->collective, &tensor, err) != ERR_OK) return err->code;
    if (group->open(&shard, &self, err) == ERR_OK) (void)!measure(w, &q, group, self, err);
    if (self) group->close(self);
    return err->code;
}

/* ---- the parent ---- */

static enum err_code show_rows(const json_t *reply, struct bench_against *against, bool quiet,
                               struct err *err)
{
    json_t *row;
    size_t i;
    if (!quiet) printf("%s\n", json_string_value(json_object_get(reply, "transport")));
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (against && bench_against_row(against, row, err) != ERR_OK) return err->code;
        if (!quiet) bench_row_print(row, stdout);
    }
    return ERR_OK;
}

/* Rank 0's figures stand for all: none of them is done before the others. */
static enum err_code take_reply(const struct worker_reply *r, struct bench_against *against,
                                bool quiet, json_t *result, struct err *err)
{
    json_t *reply =
        json_loadb((const char *)r->data, r->bytes > 0 ? (size_t)r->bytes - 1 : 0, 0, NULL);
    if (!json_is_object(reply))
        err_set(err, ERR_PROCESS, "bench over ranks|reply of rank 0|no JSON|an object");
    else if (show_rows(reply, against, quiet, err) == ERR_OK)
        json_object_update(result, reply);
    json_decref(reply);
    return err->code;
}

enum err_code bench_ranks_plan(const struct args *a, struct shard_plan *plan, struct err *err)
{
    if (shard_options_read(a, PRECISION_F32, plan, err) != ERR_OK) return err->code;
    if (shard_world(plan) > 1) return ERR_OK;
    return err_set(err, ERR_USAGE, "bench %s|--tp, --ep|one rank|two or more: --tp 2", a->word[0]);
}

enum err_code bench_ranks(const struct bench_ranks_request *asked, struct bench_against *against,
                          bool quiet, json_t *result, struct err *err)
{
    struct workers *workers = NULL;
    static struct worker_replies replies;
    const struct workers_options o = {.world = shard_world(&asked->plan), .quiet = quiet};
    const struct worker_request q = {
        .task = "bench.collectives", .batch = -1, .data = asked, .bytes = sizeof *asked};
    if (workers_open(&workers, &o, err) == ERR_OK) {
        if (workers_call_all(workers, &q, &replies, err) != ERR_OK)
            workers_failures_print(workers, stderr);
        else if (take_reply(&replies.of[0], against, quiet, result, err) == ERR_OK)
            (void)!workers_finish(workers, err);
    }
    workers_close(workers);
    return err->code;
}
