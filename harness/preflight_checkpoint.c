/* preflight_checkpoint.c: the headers of all shards, their index and the names, types and shapes
 * that the config wants: what a loader dies of after it has read what lies before. */
#include "core/file.h"
#include "core/text.h"
#include "harness/inspect.h"
#include "harness/preflight.h"
#include "reports/fields.h"

#include <string.h>

/* Bytes of the shards up to this one's end over those of all: what is read when its header is
 * found wrong is what lies before it, and of a file that is cut short itself too. 0 where the
 * problem lies in no shard. */
static double share_of(const struct inspection *s, const char *where)
{
    double before = 0, all = 0;
    bool met = false;
    for (int64_t i = 0; i < s->file_count; i++) all += (double)s->files[i].size;
    for (int64_t i = 0; i < s->file_count && !met; i++) {
        met = strstr(where, s->files[i].name) != NULL;
        if (!met) before += (double)s->files[i].size;
    }
    return met && all > 0 ? before / all : 0;
}

/* Problems of one kind in one place are one finding. */
static json_t *kind_of(const json_t *problem)
{
    const char *group = text_at(problem, "group");
    return json_sprintf("%s|%s", text_at(problem, "what"),
                        group[0] ? group : text_at(problem, "where"));
}

static void add_problem(struct preflight *p, const struct inspection *s, const json_t *problem,
                        long long count)
{
    const char *where = text_at(problem, "where"), *tensor = text_at(problem, "tensor"),
               *remedy = text_at(problem, "remedy");
    const char *more = count > 1 ? preflight_text(p, " (and %lld more like it)", count - 1) : "";
    if (!more) return;
    preflight_add(
        p, (struct preflight_finding){
               .rule = "shard",
               .file = p->model,
               .symbol = preflight_text(p, "%s%s%s", where, tensor[0] ? ": " : "", tensor),
               .message = preflight_text(p, "%s: %s%s%s%s", text_at(problem, "what"), where,
                                         tensor[0] ? ": " : "", tensor, more),
               .found = preflight_text(p, "%s", text_at(problem, "found")),
               .wanted = preflight_text(p, "%s", text_at(problem, "wanted")),
               .remedy = remedy[0] ? preflight_text(p, "%s", remedy)
                                   : preflight_text(p, "fetch %s again; assay inspect %s lists all",
                                                    where[0] ? where : "the checkpoint", p->model),
               .strikes = PREFLIGHT_IN_LOAD,
               .share = share_of(s, where)});
}

static void add_problems(struct preflight *p, const struct inspection *s)
{
    json_t *counts = json_object(), *problem;
    size_t i;
    json_array_foreach(s->problems, i, problem)
    {
        json_t *kind = kind_of(problem);
        json_t *old = json_object_get(counts, json_string_value(kind));
        json_object_set_new(counts, json_string_value(kind),
                            json_integer(json_integer_value(old) + 1));
        json_decref(kind);
    }
    json_array_foreach(s->problems, i, problem)
    {
        json_t *kind = kind_of(problem);
        json_t *count = json_object_get(counts, json_string_value(kind));
        if (count) add_problem(p, s, problem, (long long)json_integer_value(count));
        json_object_del(counts, json_string_value(kind));
        json_decref(kind);
    }
    json_decref(counts);
}

static void measure(struct preflight *p, const struct inspection *s)
{
    char bytes[32];
    for (int64_t i = 0; i < s->file_count; i++) p->bytes += s->files[i].size;
    for (int64_t i = 0; i < s->tensor_count; i++) {
        if (s->tensors[i].bytes > p->largest_tensor) p->largest_tensor = s->tensors[i].bytes;
    }
    p->shards = s->file_count;
    preflight_about(p, "%lld tensors in the headers of %lld shards, %s", (long long)s->tensor_count,
                    (long long)s->file_count, text_bytes((double)p->bytes, bytes, sizeof bytes));
}

void preflight_checkpoint(struct preflight *p)
{
    struct inspection s;
    struct err e = ERR_INIT;
    if (!p->model || text_starts(p->model, "synth:")) {
        preflight_not_asked(p, p->model ? "the model is made as it is read: it has no files"
                                        : "the plan names no model");
        return;
    }
    if (!p->configured) {
        preflight_not_checked(p, "its config.json cannot be read", "see the finding of config");
        return;
    }
    inspection_open(&s, p->model);
    if (inspect_folder(&s, &e) == ERR_OK) {
        measure(p, &s);
        add_problems(p, &s);
    }
    if (s.broken && e.code == ERR_OK)
        (void)!err_set(&e, ERR_MEMORY, "preflight|%s|no memory", p->model);
    preflight_refused(p,
                      (struct preflight_finding){.rule = "none",
                                                 .file = p->model,
                                                 .remedy = "fetch the checkpoint",
                                                 .strikes = PREFLIGHT_AT_START},
                      &e);
    inspection_close(&s);
}
