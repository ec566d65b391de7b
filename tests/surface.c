/* surface.c: see surface.h. */
#include "tests/surface.h"

#include "compat/api_fields.h"

#include <stdlib.h>
#include <string.h>

static int line;

static json_t *expand_params(const char *text)
{
    static const char *const kinds[] = {"pos", "any", "kw", "star", "dstar"};
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct err err = ERR_INIT;
    const char *part[32];
    struct api_texts texts = {part, 0};
    struct api_params params;
    json_t *list = json_array();
    char *copy = strdup(text), *rest = copy, *semicolon;
    for (; *rest; rest = semicolon + 2) {
        semicolon = strstr(rest, "; ");
        if (semicolon) *semicolon = '\0';
        texts.text[texts.count++] = rest;
        if (!semicolon) break;
    }
    const char *wrong = api_params_from(&texts, &params, &pool, &err);
    if (wrong) fail_msg("%s: %s", text, wrong);
    for (int i = 0; i < params.count; i++) {
        json_t *p = json_pack("{s:s, s:s, s:s?}", "name", params.param[i].name, "kind",
                              kinds[params.param[i].kind], "type", params.param[i].type);
        if (params.param[i].fallback)
            json_object_set_new(p, "default", json_string(params.param[i].fallback));
        json_array_append_new(list, p);
    }
    arena_release(&arena, NULL);
    free(copy);
    return list;
}

static json_t *expand_fields(const json_t *texts)
{
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct err err = ERR_INIT;
    json_t *list = json_array(), *text;
    size_t i;
    json_array_foreach(texts, i, text)
    {
        struct api_field f;
        const char *wrong = api_field_from(json_string_value(text), &f, &pool, &err);
        if (wrong) fail_msg("%s: %s", json_string_value(text), wrong);
        json_t *o = json_pack("{s:s, s:s?, s:s?, s:b, s:b, s:b, s:b, s:b, s:b, s:i}", "name",
                              f.name, "type", f.type, "alias", f.alias, "factory", f.factory,
                              "init", f.init, "kw_only", f.kw_only, "initvar", f.initvar,
                              "classvar", f.classvar, "optional", f.optional, "line", ++line);
        if (f.fallback) json_object_set_new(o, "default", json_string(f.fallback));
        json_array_append_new(list, o);
    }
    arena_release(&arena, NULL);
    return list;
}

static void expand_names(json_t *names);

static void expand_def(json_t *d)
{
    const char *def = json_string_value(json_object_get(d, "def"));
    const json_t *fields = json_object_get(d, "fields");
    if (!json_object_get(d, "line")) json_object_set_new(d, "line", json_integer(++line));
    if (def) {
        json_object_set_new(d, "kind", json_string("function"));
        json_object_set_new(d, "params", expand_params(def));
        if (strncmp(def, "self", 4) == 0 && !json_object_get(d, "binding"))
            json_object_set_new(d, "binding", json_string("instance"));
        json_object_del(d, "def");
    }
    if (json_object_get(d, "bases")) json_object_set_new(d, "kind", json_string("class"));
    if (json_object_get(d, "to")) json_object_set_new(d, "kind", json_string("alias"));
    if (!json_object_get(d, "kind")) json_object_set_new(d, "kind", json_string("value"));
    if (json_is_array(fields)) json_object_set_new(d, "fields", expand_fields(fields));
    expand_names(json_object_get(d, "members"));
}

static void expand_names(json_t *names)
{
    const char *name;
    json_t *defs, *d;
    void *next;
    size_t i;
    json_object_foreach_safe(names, next, name, defs)
    {
        if (json_is_object(defs)) {
            json_t *list = json_array();
            json_array_append(list, defs);
            json_object_set_new(names, name, list);
        }
    }
    json_object_foreach(names, name, defs)
    {
        json_array_foreach(defs, i, d) expand_def(d);
    }
}

char *surface_text(const char *modules)
{
    json_error_t e;
    const char *name;
    json_t *m;
    char *text = strdup(modules);
    for (char *s = text; *s; s++) *s = *s == '\'' ? '"' : *s == '`' ? '\'' : *s;
    json_t *all = json_loads(text, 0, &e);
    if (!all) fail_msg("%s at %d: %s", e.text, e.position, text);
    line = 0;
    json_object_foreach(all, name, m)
    {
        if (!json_object_get(m, "names")) json_object_set_new(m, "names", json_object());
        if (!json_object_get(m, "file"))
            json_object_set_new(m, "file", json_sprintf("%s.py", name));
        expand_names(json_object_get(m, "names"));
    }
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:[], s:o}", "facts", 1, "kind",
                  "surface", "extractor", "1", "library", "name", "lib", "version", "1.0", "source",
                  "lib.whl", "sha256", "00ff", "problems", "modules", all);
    char *out = json_dumps(root, 0);
    assert_non_null(out);
    json_decref(root);
    free(text);
    return out;
}

struct surface *surface_make(const char *modules)
{
    struct surface *s = calloc(1, sizeof *s);
    char *text = surface_text(modules);
    assert_non_null(s);
    if (api_from_facts(&s->api, text, (int64_t)strlen(text), "test", &s->arena, &s->err) != ERR_OK)
        assert_ok(&s->err);
    free(text);
    return s;
}

void surface_free(struct surface *s)
{
    arena_release(&s->arena, NULL);
    free(s);
}

const struct api_def *surface_def(const struct surface *s, const char *path)
{
    const char *colon = strchr(path, ':');
    assert_non_null(colon);
    const struct api_module *m = api_module(&s->api, path, (size_t)(colon - path));
    if (!m) fail_msg("no module of %s", path);
    const struct api_names *names = &m->names;
    for (const char *part = colon + 1;;) {
        size_t n = strcspn(part, ".");
        const struct api_name *found = api_name(names, part, n);
        if (!found) fail_msg("no %s", path);
        if (!part[n]) return found->def;
        names = &found->def->class_->members;
        part += n + 1;
    }
}
