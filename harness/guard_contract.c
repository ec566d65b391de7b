/* guard_contract.c: see guard_contract.h. */
#include "harness/guard_contract.h"

#include "harness/contract.h"

#include <string.h>

/* It gives a list in one case and one thing in another. */
static bool is_either(const struct api_function *f)
{
    bool list = false, one = false;
    for (int i = 0; i < f->shapes; i++) {
        list |= strcmp(f->shape[i].shape, "list") == 0;
        one |= strcmp(f->shape[i].shape, "value") == 0 ||
               strcmp(f->shape[i].shape, "first-of-list") == 0;
    }
    return list && one;
}

static json_t *shapes_json(const struct api_function *f)
{
    json_t *list = json_array();
    for (int i = 0; i < f->shapes; i++)
        json_array_append_new(list, json_pack("[s, s?]", f->shape[i].shape, f->shape[i].when));
    return list;
}

static void take_names(const struct api_names *names, json_t *rows, json_t *returns)
{
    for (int i = 0; i < names->count; i++) {
        for (int k = 0; k < names->name[i].defs; k++) {
            const struct api_def *d = &names->name[i].def[k];
            if (d->kind == API_CLASS) take_names(&d->class_->members, rows, returns);
            if (d->kind != API_DEF || !d->path) continue;
            const char *path = strchr(d->path, ':');
            if (d->function->returns)
                json_object_set_new(returns, d->name, json_string(d->function->returns));
            if (path && is_either(d->function))
                json_array_append_new(rows,
                                      json_pack("[s, o]", path + 1, shapes_json(d->function)));
        }
    }
}

enum err_code guard_contract_read(const char *contract, json_t **out, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct api api;
    *out = NULL;
    if (contract_load(contract, &arena, &api, err) == ERR_OK) {
        json_t *modules = json_object(), *returns = json_object();
        for (int i = 0; i < api.modules; i++) {
            json_t *rows = json_array();
            take_names(&api.module[i].names, rows, returns);
            if (json_array_size(rows)) json_object_set(modules, api.module[i].name, rows);
            json_decref(rows);
        }
        *out = json_pack("{s:o, s:o, s:s?}", "modules", modules, "returns", returns, "for",
                         api.consumer.name);
    }
    arena_release(&arena, NULL);
    return err->code;
}
