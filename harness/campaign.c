/* campaign.c: see campaign.h. */
#include "harness/campaign.h"

#include "harness/campaign_folder.h"
#include "harness/campaign_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Drawn shapes beside the fixed ones. */
enum { DRAWN_QUICK = 5, DRAWN = 10 };

static json_t *run_job(void *ctx, int64_t i)
{
    struct campaign *c = ctx;
    const struct job *j = &c->jobs[i];
    double began = clock_seconds();
    json_t *record = j->kind == JOB_FILE      ? campaign_file(c, j)
                     : j->kind == JOB_CALL    ? campaign_env(c, j)
                     : j->kind == JOB_PROCESS ? campaign_process(c, j)
                     : j->kind == JOB_CLEAN   ? campaign_clean(c, j)
                     : j->kind == JOB_ALONE   ? campaign_alone(c, j)
                     : j->kind == JOB_VERIFY  ? campaign_verify(c, j)
                     : j->kind == JOB_RANKS   ? campaign_ranks(c, j)
                                              : campaign_op(c, j);
    if (record) json_object_set_new(record, "seconds", json_real(clock_seconds() - began));
    return record;
}

/* Whether any fault that is asked for is of this stage. */
static bool has_stage(const struct campaign_options *o, enum fault_stage stage)
{
    for (int i = 0; fault_at(i); i++) {
        if (fault_at(i)->stage == stage && campaign_includes(o, fault_at(i)->id)) return true;
    }
    return false;
}

static enum err_code make_case(struct campaign *c, int64_t kind, uint64_t seed, struct err *err)
{
    char folder[FILE_PATH];
    const struct campaign_options *o = c->options;
    int i = c->cases_count++;
    snprintf(folder, sizeof folder, "%.900s/case-%d", c->folder, i);
    if ((o->model ? campaign_case_given(&c->cases[i], o->model, o->tokens, o->draft, err)
                  : campaign_case_make(&c->cases[i], kind, seed, folder, err)) != ERR_OK ||
        loaded_open(&c->loaded[i], c->cases[i].model, err) != ERR_OK)
        return err->code;
    return tokens_check(&c->cases[i].tokens, c->loaded[i].model.config->vocab, err);
}

/* One model that is given; else the fixed shapes and drawn ones, for each seed anew. A quick
 * campaign takes drawn ones alone: they are smaller, and each kind of quantisation is there. */
static enum err_code make_cases(struct campaign *c, struct err *err)
{
    const struct campaign_options *o = c->options;
    int64_t first = o->quick ? CASE_FIXED : 0, end = CASE_FIXED + (o->quick ? DRAWN_QUICK : DRAWN),
            most = o->model ? 1 : (end - first) * o->seeds;
    c->cases = calloc((size_t)most, sizeof *c->cases);
    c->loaded = calloc((size_t)most, sizeof *c->loaded);
    if (!c->cases || !c->loaded) return err_set(err, ERR_MEMORY, "fault campaign|cases|no memory");
    if (o->model) return make_case(c, 0, o->seed, err);
    for (int64_t s = 0; s < o->seeds; s++) {
        for (int64_t i = first; i < end; i++) {
            if (make_case(c, i, o->seed + (uint64_t)s, err) != ERR_OK) return err->code;
        }
    }
    return ERR_OK;
}

static enum err_code prepare_outside(struct campaign *c, struct err *err)
{
    bool files = has_stage(c->options, FAULT_FILE), calls = has_stage(c->options, FAULT_CALL);
    if (c->options->engine) return ERR_OK;
    if ((files || calls) && campaign_file_prepare(c, err) != ERR_OK) return err->code;
    return calls ? campaign_env_prepare(c, err) : ERR_OK;
}

static void close_all(struct campaign *c)
{
    campaign_bases_free(c);
    for (int i = 0; c->cases && c->loaded && i < c->cases_count; i++) {
        loaded_close(&c->loaded[i]);
        campaign_case_close(&c->cases[i]);
    }
    free(c->cases);
    free(c->loaded);
    free(c->jobs);
    campaign_folder_remove(c->folder);
}

enum err_code campaign_run(const struct campaign_options *o, json_t *result, struct err *err)
{
    struct campaign c = {.options = o};
    json_t **records = NULL;
    double began = clock_seconds();
    bool some = has_stage(o, FAULT_OP) || has_stage(o, FAULT_FILE) || has_stage(o, FAULT_CALL) ||
                has_stage(o, FAULT_PROCESS);
    if (!some)
        return err_set(err, ERR_USAGE, "option|--fault|\"%s\": no such fault|%s",
                       o->include ? o->include[0] : "", "patterns of `assay fault list`");
    if (campaign_folder_make(c.folder, err) != ERR_OK) return err->code;
    if (make_cases(&c, err) != ERR_OK || prepare_outside(&c, err) != ERR_OK ||
        campaign_plan(&c, err) != ERR_OK)
        goto done;
    records = calloc((size_t)c.count + 1, sizeof *records);
    if (!records)
        err_set(err, ERR_MEMORY, "fault campaign|records|no memory");
    else if (campaign_work(o->workers, c.count, run_job, &c, c.folder, records, err) == ERR_OK)
        (void)!campaign_sum(&c, records, result, err);
    for (int64_t i = 0; records && i < c.count; i++) json_decref(records[i]);
    free(records);
    json_object_set_new(result, "cases", json_integer(c.cases_count));
    json_object_set_new(result, "seconds", json_real(clock_seconds() - began));
done:
    close_all(&c);
    return err->code;
}
