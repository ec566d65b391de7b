/* contract_diff.c: `contract diff A B [--for CONSUMER]`. */
#include "compat/api_diff.h"
#include "harness/contract.h"
#include "harness/contract_reach.h"

#include <stdio.h>

static json_t *place(const struct api_change *c, int side)
{
    return c->file[side] ? json_pack("{s:s, s:i}", "file", c->file[side], "line", c->line[side])
                         : json_null();
}

static json_t *change_json(const struct api_change *c)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:o, s:o}", "category",
                     api_category_name(c->category), "symbol", c->symbol, "what", c->what, "was",
                     c->was, "is", c->is, "old", place(c, 0), "new", place(c, 1));
}

static void fill_result(const struct api_diff *d, json_t *result)
{
    json_t *list = json_array(), *counts = json_object();
    for (int i = 0; i < d->changes; i++) json_array_append_new(list, change_json(&d->change[i]));
    for (int i = 0; i < API_CATEGORIES; i++)
        json_object_set_new(counts, api_category_name((enum api_category)i),
                            json_integer(d->count[i]));
    json_object_set_new(result, "changes", list);
    json_object_set_new(result, "counts", counts);
    json_object_set_new(result, "compared", json_integer(d->compared));
    json_object_set_new(result, "uncompared", json_integer(d->uncompared));
}

static void say_change(const struct api_change *c)
{
    printf("%s: %s: %s", api_category_name(c->category), c->symbol, c->what);
    if (c->was && c->is)
        printf(": %s -> %s", c->was, c->is);
    else if (c->is)
        printf(": %s", c->is);
    else if (c->was)
        printf(": was %s", c->was);
    if (c->file[0]) printf(" (%s:%d", c->file[0], c->line[0]);
    if (c->file[1]) printf("%s%s:%d", c->file[0] ? " -> " : " (", c->file[1], c->line[1]);
    puts(c->file[0] || c->file[1] ? ")" : "");
}

/* Harmless ones are counted, and shown when all are asked for. */
static void say(const struct api_diff *d, bool all)
{
    for (int i = 0; i < d->changes; i++) {
        if (all || d->change[i].category != API_HARMLESS) say_change(&d->change[i]);
    }
    printf("%d names compared, %d not comparable:", d->compared, d->uncompared);
    for (int i = 0; i < API_CATEGORIES; i++)
        printf("%s %d %s", i ? "," : "", d->count[i], api_category_name((enum api_category)i));
    puts(d->count[API_HARMLESS] && !all ? " (--all shows them)" : "");
}

static enum err_code diff(const struct args *args, struct arena *arena, json_t *result,
                          struct err *err)
{
    const char *consumer = args_value(args, "--for");
    struct api old, new, cut;
    struct api_diff d;
    struct pool pool = {.arena = arena};
    if (contract_load(args->word[1], arena, &old, err) != ERR_OK ||
        contract_load(args->word[2], arena, &new, err) != ERR_OK)
        return err->code;
    if (consumer && contract_reach(args, consumer, &old, arena, &cut, err) != ERR_OK)
        return err->code;
    if (api_diff(consumer ? &cut : &old, &new, &pool, &d, err) != ERR_OK) return err->code;
    if (d.compared == 0)
        return err_set(err, ERR_INPUT, "contract diff|%s, %s|nothing that could be compared|%s",
                       args->word[1], args->word[2], "two surfaces of one library");
    fill_result(&d, result);
    if (!args->json) say(&d, args_has(args, "--all"));
    return d.changes > d.count[API_HARMLESS] ? ERR_DIFF : ERR_OK;
}

enum err_code contract_diff(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    if (a->words != 3)
        return err_set(err, ERR_USAGE, "arguments|contract diff|%d paths|two: A B", a->words - 1);
    enum err_code rc = diff(a, &arena, result, err);
    arena_release(&arena, NULL);
    return rc;
}
