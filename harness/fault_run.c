/* fault_run.c: see fault_run.h. */
#include "harness/fault_run.h"

#include "core/check.h"
#include "harness/campaign.h"
#include "harness/child.h"
#include "harness/plan_args.h"
#include "harness/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATTERNS = 256 };

struct asked {
    struct campaign_options options;
    const char *include[PATTERNS + 1];
    int patterns;
    struct arena arena;
    struct plan plan;
};

static enum err_code add_pattern(struct asked *k, const char *pattern, struct err *err)
{
    if (k->patterns == PATTERNS)
        return err_set(err, ERR_USAGE, "option|--fault|%d patterns|fewer", PATTERNS);
    k->include[k->patterns++] = pattern;
    return ERR_OK;
}

static enum err_code take_step(struct asked *k, const struct plan_step *s, struct err *err)
{
    int64_t seeds;
    struct args a;
    if (plan_args(&k->plan, (int)(s - k->plan.step), k->plan.folder, NULL, &k->arena, &a, err) !=
            ERR_OK ||
        args_int(&a, "--seeds", 1, INT32_MAX, 1, &seeds, err) != ERR_OK)
        return err->code;
    k->options.seeds = seeds > k->options.seeds ? seeds : k->options.seeds;
    if (!k->options.model) k->options.model = args_value(&a, "--model");
    if (!k->options.tokens) k->options.tokens = args_value(&a, "--tokens");
    if (!k->options.draft) k->options.draft = args_value(&a, "--draft");
    for (int i = 0; args_value_at(&a, "--fault", i); i++) {
        if (add_pattern(k, args_value_at(&a, "--fault", i), err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code take_plan(struct asked *k, const char *path, struct err *err)
{
    int steps = 0;
    if (plan_read(path, &k->arena, &k->plan, err) != ERR_OK) return err->code;
    for (int i = 0; i < k->plan.steps; i++) {
        if (k->plan.step[i].kind != PLAN_FAULT) continue;
        steps++;
        if (take_step(k, &k->plan.step[i], err) != ERR_OK) return err->code;
    }
    if (steps == 0)
        return err_set(err, ERR_INPUT, "plan|%s|no step of faults|- fault: {include: [...]}", path);
    return ERR_OK;
}

/* Asked in a child: a device that was opened before the campaign's own processes are forked is none
 * of theirs. A driver that does not answer is not waited for. */
static enum err_code usable_apart(const struct engine_kind *k, struct err *err)
{
    static const double patience_s = 120;
    int ends[2];
    struct err said = ERR_INIT;
    _Static_assert(sizeof said < 4096, "a pipe holds it whole");
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_sys(err, errno, "ask for engine|%s", k->name);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)!engine_usable(k, &said);
        _exit(write(ends[1], &said, sizeof said) == (ssize_t)sizeof said ? 0 : 1);
    }
    close(ends[1]);
    enum child_end end =
        child > 0 ? child_wait(child, false, clock_seconds() + patience_s, NULL) : CHILD_ENDED;
    bool answered = child > 0 && read(ends[0], &said, sizeof said) == (ssize_t)sizeof said;
    close(ends[0]);
    if (end != CHILD_ENDED) return child_late(err, "the engine's device", child, patience_s, end);
    if (!answered)
        return err_set(err, ERR_DEVICE, "ask for engine|%s|no answer|one that can run here",
                       k->name);
    if (said.code != ERR_OK) *err = said;
    return err->code;
}

static enum err_code read_engine(const struct args *a, struct campaign_options *o, struct err *err)
{
    static const char *const names[] = {"ref", "gpu", NULL};
    int at;
    if (args_choice(a, "--on", names, 0, &at, err) != ERR_OK || at == 0) return err->code;
    o->engine = gpu_engine();
    return usable_apart(o->engine, err);
}

static enum err_code read_options(const struct args *a, struct asked *k, struct err *err)
{
    int64_t seed, workers, ranks;
    struct campaign_options *o = &k->options;
    *o = (struct campaign_options){.include = k->include,
                                   .model = args_value(a, "--model"),
                                   .tokens = args_value(a, "--tokens"),
                                   .draft = args_value(a, "--draft"),
                                   .quick = args_has(a, "--quick")};
    if (args_int(a, "--seed", 0, INT32_MAX, 1, &seed, err) != ERR_OK ||
        args_int(a, "--seeds", 1, INT32_MAX, 1, &o->seeds, err) != ERR_OK ||
        args_int(a, "--clean", 0, INT32_MAX, -1, &o->clean, err) != ERR_OK ||
        args_int(a, "--threads", 1, SESSION_THREADS_MAX, session_defaults().threads, &workers,
                 err) != ERR_OK ||
        args_int(a, "--ranks", 2, 8, 0, &ranks, err) != ERR_OK ||
        args_double(a, "--bound", 0, INFINITY, NAN, &o->bound, err) != ERR_OK)
        return err->code;
    if (read_engine(a, o, err) != ERR_OK) return err->code;
    o->seed = (uint64_t)seed;
    o->workers = (int)workers;
    o->ranks = (int)ranks;
    if (ranks != 0 && ranks != 2 && ranks != 4 && ranks != 8)
        return err_set(err, ERR_USAGE,
                       "option|--ranks|%lld|2, 4 or 8: what a small model is cut over",
                       (long long)ranks);
    for (int i = 0; args_value_at(a, "--fault", i); i++) {
        if (add_pattern(k, args_value_at(a, "--fault", i), err) != ERR_OK) return err->code;
    }
    if (a->words > 1 && take_plan(k, a->word[1], err) != ERR_OK) return err->code;
    if (!o->model != !o->tokens)
        return err_set(err, ERR_USAGE, "arguments|fault run|%s alone|--model MODEL --tokens T",
                       o->model ? "--model" : "--tokens");
    if (o->draft && !o->model)
        return err_set(err, ERR_USAGE, "arguments|fault run|--draft alone|--model MODEL with it");
    return ERR_OK;
}

enum err_code fault_run(const struct args *a, json_t *result, struct err *err)
{
    struct asked *k = calloc(1, sizeof *k);
    if (!k) return err_set(err, ERR_MEMORY, "fault campaign||no memory");
    k->arena = (struct arena)ARENA_INIT;
    enum err_code rc = read_options(a, k, err);
    if (rc == ERR_OK) {
        rc = campaign_run(&k->options, result, err);
        if (!a->json && (rc == ERR_OK || rc == ERR_FAULT)) campaign_text(result);
    }
    arena_release(&k->arena, NULL);
    free(k);
    return rc;
}
