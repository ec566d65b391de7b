/* contract_reach.c: see contract_reach.h. What a consumer reaches is what its judge asks for. */
#include "harness/contract_reach.h"

#include "compat/api_prune.h"
#include "compat/judge_api.h"
#include "harness/facts.h"

#include <stdlib.h>
#include <string.h>

enum { HINTS = 64 };

struct job {
    const struct args *args;
    struct arena *arena;
    struct api *library;
    struct api_reach reach;
    struct api_origin consumer;
    struct judge_hint hint[HINTS];
    int hints;
};

/* The consumer's tree, and who it is. */
static enum err_code read_consumer(struct job *j, const char *path, struct uses *out,
                                   struct err *err)
{
    struct pool pool = {.arena = j->arena};
    json_t *facts;
    if (facts_read("uses", path, &facts, err) != ERR_OK) return err->code;
    enum err_code rc = uses_read(facts, path, &pool, out, err);
    json_decref(facts);
    const char *slash = strrchr(path, '/');
    j->consumer = (struct api_origin){.name = out->name ? out->name
                                              : slash   ? slash + 1
                                                        : path,
                                      .version = out->version,
                                      .source = out->source ? out->source : path,
                                      .sha256 = out->sha256 ? out->sha256 : ""};
    return rc;
}

/* Lets the judge ask all that it would ask; what it says is thrown away. */
static enum err_code ask(struct job *j, const char *path, struct err *err)
{
    struct uses uses = {0};
    struct judge_report report = {0};
    if (read_consumer(j, path, &uses, err) != ERR_OK) return err->code;
    struct judge_api_input in = {
        .api = j->library, .uses = &uses, .hint = j->hint, .hints = j->hints, .gather = true};
    return judge_api(&in, j->arena, &report, err);
}

static enum err_code reach_all(struct job *j, const char *consumer, struct err *err)
{
    const char *name;
    api_reach_begin(&j->reach, j->arena);
    j->library->reach = &j->reach;
    for (const char *text; (text = args_value_at(j->args, "--receiver", j->hints));) {
        if (j->hints == HINTS)
            return err_set(err, ERR_USAGE, "option|--receiver|more than %d|fewer", HINTS);
        j->hint[j->hints++] = (struct judge_hint){text};
    }
    if (consumer && ask(j, consumer, err) != ERR_OK) return err->code;
    for (int i = 0; (name = args_value_at(j->args, "--also", i)); i++) {
        if (api_reach_name(j->library, name, err) != ERR_OK) return err->code;
    }
    api_reach_close(j->library, err);
    return err->code;
}

static enum err_code cut(struct job *j, const char *consumer, struct api *out, struct err *err)
{
    if (j->library->consumer.name)
        return err_set(err, ERR_INPUT, "record contract|%s|recorded for %s|a whole library",
                       j->library->library.name ? j->library->library.name : "library",
                       j->library->consumer.name);
    if (reach_all(j, consumer, err) != ERR_OK) return err->code;
    if (!consumer)
        j->consumer = (struct api_origin){
            .name = "--also", .source = "names asked for by hand", .sha256 = ""};
    if (api_prune(j->library, &j->consumer, j->arena, out, err) != ERR_OK) return err->code;
    if (out->modules + out->absents == 0)
        return err_set(err, ERR_INPUT, "record contract|%s|nothing of %s is used|something to hold",
                       j->consumer.name,
                       j->library->library.name ? j->library->library.name : "the library");
    return ERR_OK;
}

enum err_code contract_reach(const struct args *args, const char *consumer, struct api *library,
                             struct arena *arena, struct api *out, struct err *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j) return err_set(err, ERR_MEMORY, "record contract|memory|none|enough");
    j->args = args;
    j->arena = arena;
    j->library = library;
    enum err_code rc = cut(j, consumer, out, err);
    library->reach = NULL;
    free(j);
    return rc;
}
