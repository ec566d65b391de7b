/* schema.c: see schema.h. */
#include "tests/schema.h"

#include "core/json.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const keywords[] = {"$schema", "$id",   "title", "description", "$defs",
                                       "type",    "enum",  "const", "required",    "properties",
                                       "items",   "allOf", "if",    "then",        "$ref"};

static void check_keywords(const json_t *schema, bool names)
{
    const char *key;
    const json_t *v;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        bool known = names;
        for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++)
            known |= strcmp(keywords[k], key) == 0;
        if (!known) fail_msg("the schema uses \"%s\", which is not checked", key);
        if (json_is_object(v))
            check_keywords(v, !names && (!strcmp(key, "properties") || !strcmp(key, "$defs")));
    }
    json_array_foreach(json_object_get(schema, "allOf"), i, v) check_keywords(v, false);
}

json_t *schema_read(void)
{
    struct err err = ERR_INIT;
    json_t *schema = NULL;
    (void)!json_read(ASSAY_SOURCE_DIR "/docs/schema/result.schema.json", &schema, &err);
    assert_ok(&err);
    check_keywords(schema, false);
    return schema;
}

struct walk {
    const json_t *root;
    char *why;
    size_t size;
};

static bool is_type(const json_t *v, const char *type)
{
    return strcmp(type, "object") == 0    ? json_is_object(v)
           : strcmp(type, "array") == 0   ? json_is_array(v)
           : strcmp(type, "string") == 0  ? json_is_string(v)
           : strcmp(type, "integer") == 0 ? json_is_integer(v)
           : strcmp(type, "number") == 0  ? json_is_number(v)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(v)
                                          : strcmp(type, "null") == 0 && json_is_null(v);
}

static bool says_no(const struct walk *w, const char *path, const char *what, const char *which)
{
    if (w->why) snprintf(w->why, w->size, "%s: %s %s", path, what, which);
    return false;
}

/* One of a list of types or values, or the only one. */
static bool is_one(const json_t *v, const json_t *of, bool types)
{
    const json_t *one;
    size_t i;
    if (!json_is_array(of)) return types ? is_type(v, json_string_value(of)) : json_equal(v, of);
    json_array_foreach(of, i, one)
    {
        if (types ? is_type(v, json_string_value(one)) : json_equal(v, one)) return true;
    }
    return false;
}

static bool holds(const struct walk *w, const json_t *schema, const json_t *v, const char *path);

static bool parts_hold(const struct walk *w, const json_t *s, const json_t *v, const char *path)
{
    const json_t *part, *needed;
    const char *key;
    char at[512];
    size_t i;
    json_array_foreach(json_object_get(s, "required"), i, needed)
    {
        if (json_is_object(v) && !json_object_get(v, json_string_value(needed)))
            return says_no(w, path, "lacks", json_string_value(needed));
    }
    json_object_foreach(json_object_get(s, "properties"), key, part)
    {
        snprintf(at, sizeof at, "%s.%s", path, key);
        const json_t *field = json_object_get(v, key);
        if (field && !holds(w, part, field, at)) return false;
    }
    json_array_foreach(json_is_array(v) ? v : NULL, i, part)
    {
        const json_t *items = json_object_get(s, "items");
        snprintf(at, sizeof at, "%s[%zu]", path, i);
        if (items && !holds(w, items, part, at)) return false;
    }
    return true;
}

static bool holds(const struct walk *w, const json_t *s, const json_t *v, const char *path)
{
    const json_t *type = json_object_get(s, "type"), *of = json_object_get(s, "enum"),
                 *only = json_object_get(s, "const"), *all = json_object_get(s, "allOf"), *part;
    const char *ref = json_string_value(json_object_get(s, "$ref"));
    const struct walk mute = {w->root, NULL, 0};
    size_t i;
    if (ref) {
        const json_t *def =
            json_object_get(json_object_get(w->root, "$defs"), strrchr(ref, '/') + 1);
        assert_non_null(def);
        return holds(w, def, v, path);
    }
    if (type && !is_one(v, type, true)) return says_no(w, path, "is of another type", "");
    if (of && !is_one(v, of, false)) return says_no(w, path, "is none of its values", "");
    if (only && !json_equal(v, only)) return says_no(w, path, "is not its value", "");
    if (!parts_hold(w, s, v, path)) return false;
    json_array_foreach(all, i, part)
    {
        const json_t *condition = json_object_get(part, "if");
        assert_non_null(condition);
        if (holds(&mute, condition, v, path) && !holds(w, json_object_get(part, "then"), v, path))
            return false;
    }
    return true;
}

bool schema_holds(const json_t *root, const json_t *value, char *why, size_t size)
{
    const struct walk w = {root, why, size};
    return holds(&w, root, value, "result");
}
