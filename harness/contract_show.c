/* contract_show.c: `contract show C.yaml|LIB [SYMBOL]`. */
#include "compat/api_show.h"
#include "harness/contract.h"

#include <stdio.h>
#include <stdlib.h>

enum { NEAR = 5 };

static json_t *places(const struct api_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->defs; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "symbol", r->def[i]->path, "file",
                                              r->def[i]->module->file, "line", r->def[i]->line));
    return list;
}

/* What a symbol is, in `text`; where it is written, in the result. */
static void show_found(const struct api *a, const struct api_result *r, FILE *text,
                       struct pool *pool, json_t *result, struct err *err)
{
    if (r->via && r->defs) fprintf(text, "re-exported by %s\n", r->via->path);
    if (r->deprecated) fprintf(text, "deprecated: %s\n", r->deprecated);
    if (r->module) api_show_module(r->module, text);
    for (int i = 0; i < r->defs; i++) api_show(a, r->def[i], text, pool, err);
    if (!r->module && r->defs == 0) fputs("it is there; what it is is not known\n", text);
    json_object_set_new(result, "found", places(r));
}

/* Why it is not there, with what may have been meant. */
static enum err_code not_found(const struct api *a, const char *name, const struct api_result *r,
                               json_t *result, struct err *err)
{
    const char *near[NEAR + API_NOW];
    char text[ERR_PART] = "a symbol of it";
    int count = 0;
    json_t *list = json_array();
    for (; count < r->nows; count++) near[count] = r->now[count];
    if (count == 0) count = api_show_near(a, name, near, NEAR);
    for (int i = 0, n = 0; i < count; i++) {
        if (n >= 0 && n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i ? ", " : "one of ", near[i]);
        json_array_append_new(list, json_string(near[i]));
    }
    json_object_set_new(result, "near", list);
    return err_set(err, ERR_INPUT, "show contract|%s|%s|%s", name,
                   r->why                    ? r->why
                   : r->found == API_OUTSIDE ? "a name outside of the library"
                                             : "no such name",
                   text);
}

static void show_summary(const struct api *a, FILE *text)
{
    fprintf(text, "%s %s", a->library.name ? a->library.name : a->library.source,
            a->library.version ? a->library.version : "(no version)");
    if (a->consumer.name) fprintf(text, " for %s", a->consumer.name);
    fprintf(text, "\n%d modules; extractor %s; sha256 %s\n", a->modules, a->extractor,
            a->library.sha256);
    for (int i = 0; i < a->modules; i++)
        fprintf(text, "    %-50s %d names\n", a->module[i].name, a->module[i].names.count);
    for (int i = 0; i < a->absents; i++) fprintf(text, "    %-50s absent\n", a->absent[i].name);
}

/* What is printed becomes `text` of the result where that is asked for. */
static enum err_code show(const struct args *args, struct arena *arena, FILE *text, json_t *result,
                          struct err *err)
{
    struct api a;
    struct api_result r;
    struct pool pool = {.arena = arena};
    const char *name = args->words > 2 ? args->word[2] : NULL;
    if (contract_load(args->word[1], arena, &a, err) != ERR_OK) return err->code;
    json_object_set_new(
        result, "library",
        json_pack("{s:s?, s:s?}", "name", a.library.name, "version", a.library.version));
    if (!name) {
        show_summary(&a, text);
        return ERR_OK;
    }
    api_find(&a, name, &r);
    if (r.found != API_FOUND) return not_found(&a, name, &r, result, err);
    show_found(&a, &r, text, &pool, result, err);
    return err->code;
}

enum err_code contract_show(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return err_set(err, ERR_MEMORY, "show contract|memory|no stream|enough memory");
    enum err_code rc = show(a, &arena, f, result, err);
    fclose(f);
    if (rc == ERR_OK && a->json) json_object_set_new(result, "text", json_string(text));
    if (rc == ERR_OK && !a->json) fputs(text, stdout);
    free(text);
    arena_release(&arena, NULL);
    return rc;
}
