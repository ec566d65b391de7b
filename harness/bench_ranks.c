/* bench_ranks.c: see bench_ranks.h. */
#include "harness/bench_ranks.h"

#include "harness/kernel_report.h"
#include "harness/shard_options.h"
#include "harness/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a rank ---- */

static json_t *row_json(const struct bench_group *group, const char *op, const struct bench_row *r,
                        const struct kernel_log *log)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:f, s:o}", "op", op, "case",
                     r->text, "on", group->name, "seconds", r->seconds, "spread", r->spread,
                     "rounds", (json_int_t)r->rounds, "bytes", r->bytes, "gbps",
                     r->bytes / r->seconds / 1e9, "busbw_gbps", r->bus / r->seconds / 1e9,
                     "kernels", kernels_json(log));
}

static enum err_code measure_all(struct worker *w, const struct bench_group *group, void *self,
                                 json_t *rows, struct err *err)
{
    const char *op;
    for (int i = 0; (op = group->op(self, i)) && err->code == ERR_OK; i++) {
        struct bench_row r;
        struct kernel_log *log = calloc(1, sizeof *log);
        worker_doing(w, op, -1, i);
        if (!log)
            err_set(err, ERR_MEMORY, "bench||no memory");
        else if (group->measure(self, i, &r, log, err) == ERR_OK)
            json_array_append_new(rows, row_json(group, op, &r, log));
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

enum err_code bench_ranks_task(struct worker *w, struct err *err)
{
    static const struct config none; /* no model is cut */
    const struct bench_group *group = gpu_bench_group();
    struct shard_plan plan;
    struct collective tensor;
    struct shard shard;
    void *self = NULL;
    if (w->bytes != (int64_t)sizeof plan)
        return err_set(err, ERR_PROCESS, "bench collectives|request|%lld bytes|a plan",
                       (long long)w->bytes);
    memcpy(&plan, w->data, sizeof plan);
    shard_of(&plan, &none, w->rank, &shard);
    if (shard_join(&shard, w->collective, &tensor, err) != ERR_OK ||
        group->open(&shard, &self, err) != ERR_OK)
        return err->code;
    json_t *rows = json_array();
    if (measure_all(w, group, self, rows, err) == ERR_OK) {
        json_t *result = json_pack("{s:s, s:O}", "transport", group->about(self), "rows", rows);
        (void)!reply_json(w, result, err);
        json_decref(result);
    }
    json_decref(rows);
    group->close(self);
    return err->code;
}

/* ---- the parent ---- */

static void print_rows(const json_t *reply)
{
    const json_t *row;
    size_t i;
    printf("%s\n", json_string_value(json_object_get(reply, "transport")));
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        double us = 1e6 * json_number_value(json_object_get(row, "seconds"));
        double spread = 50 * json_number_value(json_object_get(row, "spread"));
        printf("%-12s %-60s %11.2f us  +-%4.1f %%  %8.1f GB/s  bus %8.1f GB/s\n",
               json_string_value(json_object_get(row, "op")),
               json_string_value(json_object_get(row, "case")), us, spread,
               json_number_value(json_object_get(row, "gbps")),
               json_number_value(json_object_get(row, "busbw_gbps")));
    }
}

/* Rank 0's figures stand for all: none of them is done before the others. */
static enum err_code take_reply(const struct worker_reply *r, bool quiet, json_t *result,
                                struct err *err)
{
    json_t *reply =
        json_loadb((const char *)r->data, r->bytes > 0 ? (size_t)r->bytes - 1 : 0, 0, NULL);
    if (!json_is_object(reply))
        err_set(err, ERR_PROCESS, "bench collectives|reply of rank 0|no JSON|an object");
    else if (!quiet)
        print_rows(reply);
    if (err->code == ERR_OK) json_object_update(result, reply);
    json_decref(reply);
    return err->code;
}

enum err_code bench_ranks_plan(const struct args *a, struct shard_plan *plan, struct err *err)
{
    if (shard_options_read(a, PRECISION_F32, plan, err) != ERR_OK) return err->code;
    if (shard_world(plan) > 1) return ERR_OK;
    return err_set(err, ERR_USAGE,
                   "bench " BENCH_COLLECTIVES "|--tp, --ep|one rank|two or more: --tp 2");
}

enum err_code bench_ranks(const struct shard_plan *plan, bool quiet, json_t *result,
                          struct err *err)
{
    struct workers *workers = NULL;
    static struct worker_replies replies;
    const struct workers_options o = {.world = shard_world(plan), .quiet = quiet};
    const struct worker_request q = {
        .task = "bench.collectives", .batch = -1, .data = plan, .bytes = sizeof *plan};
    if (workers_open(&workers, &o, err) == ERR_OK) {
        if (workers_call_all(workers, &q, &replies, err) != ERR_OK)
            workers_failures_print(workers, stderr);
        else if (take_reply(&replies.of[0], quiet, result, err) == ERR_OK)
            (void)!workers_finish(workers, err);
    }
    workers_close(workers);
    return err->code;
}
