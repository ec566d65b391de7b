/* api_facts_parts.c: see api_facts.h. */
#include "compat/api_facts.h"

#include "compat/api_fields.h"
#include "core/json.h"

#include <stdio.h>
#include <string.h>

/* False, so that it can be returned by what fills things. */
bool facts_bad(struct facts *f, const char *what, const char *found, const char *wanted)
{
    char place[ERR_PART];
    size_t n = (size_t)snprintf(place, sizeof place, "%.80s", f->origin);
    for (int i = 0; i < f->keys && n < sizeof place; i++) {
        n += (size_t)snprintf(place + n, sizeof place - n, "%s%.60s", i ? "." : ": ", f->key[i]);
    }
    err_set(f->err, ERR_INPUT, "API facts|%s|%s: %.100s|%s", place, what, found, wanted);
    return false;
}

bool facts_enter(struct facts *f, const char *key)
{
    if (f->keys == FACTS_KEYS) return facts_bad(f, "depth", "too deep", "fewer levels");
    f->key[f->keys++] = key;
    return true;
}

void facts_leave(struct facts *f)
{
    f->keys--;
}

bool facts_want(struct facts *f, const json_t *v, json_type type, const char *what)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
    };
    if (v && json_typeof(v) == type) return true;
    return facts_bad(f, what, v ? json_kind(v) : "nothing", names[type]);
}

/* Every key of the object is one of the words. */
bool facts_known_keys(struct facts *f, const json_t *object, const char *words)
{
    const char *key;
    json_t *value;
    if (!facts_want(f, object, JSON_OBJECT, "value")) return false;
    json_object_foreach((json_t *)object, key, value)
    {
        size_t n = strlen(key);
        const char *at = n ? strstr(words, key) : NULL;
        while (at && !((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])))
            at = strstr(at + 1, key);
        if (!at) return facts_bad(f, "key", key, words);
    }
    return true;
}

bool facts_name_ok(struct facts *f, const char *name)
{
    return api_is_identifier(name) || facts_bad(f, "name", name, "an identifier");
}

static void fold_spaces(char *text)
{
    char *out = text;
    for (char *s = text; *s; s++) {
        bool space = (unsigned char)*s <= ' ' || *s == 0x7f;
        if (!space)
            *out++ = *s;
        else if (out > text && out[-1] != ' ')
            *out++ = ' ';
    }
    while (out > text && out[-1] == ' ') out--;
    *out = '\0';
}

static bool one_line(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < ' ' || *s == 0x7f) return false;
    }
    return true;
}

bool facts_take_text(struct facts *f, const json_t *v, enum text_rule rule, const char **out)
{
    if (!facts_want(f, v, JSON_STRING, "value")) return false;
    size_t n = json_string_length(v);
    if (n > FACTS_TEXT) return facts_bad(f, "text", "over 65536 bytes", "a shorter one");
    char *copy = pool_text(&f->pool, json_string_value(v), n, f->err);
    if (!copy) return false;
    if (rule == TEXT_PROSE)
        fold_spaces(copy);
    else if (!one_line(copy))
        return facts_bad(f, "text", "a control character", "one line");
    if (rule == TEXT_SOURCE && !api_fits_line(copy))
        return facts_bad(f, "source text", copy, "brackets and quotes that close");
    *out = copy;
    return true;
}

/* Absent or null leaves *out as it is. */
bool facts_text_of(struct facts *f, const json_t *object, const char *key, enum text_rule rule,
                   const char **out)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v)) return true;
    if (!facts_enter(f, key)) return false;
    bool ok = facts_take_text(f, v, rule, out);
    if (ok) facts_leave(f);
    return ok;
}

bool facts_bool_of(struct facts *f, const json_t *object, const char *key, bool *out)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_boolean(v)) return facts_enter(f, key) && facts_want(f, v, JSON_TRUE, "value");
    *out = json_is_true(v);
    return true;
}

bool facts_line_of(struct facts *f, const json_t *object, int *out)
{
    const json_t *v = json_object_get(object, "line");
    if (!v) return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= FACTS_LINE)
        return facts_bad(f, "line", json_kind(v), "a line number");
    *out = (int)json_integer_value(v);
    return true;
}

bool facts_texts_of(struct facts *f, const json_t *object, const char *key, enum text_rule rule,
                    struct api_texts *out)
{
    const json_t *list = json_object_get(object, key), *v;
    size_t i;
    if (!list || json_is_null(list)) return true;
    if (!facts_enter(f, key) || !facts_want(f, list, JSON_ARRAY, "value")) return false;
    out->text = pool_take(&f->pool, json_array_size(list) + 1, sizeof *out->text, f->err);
    if (!out->text) return false;
    json_array_foreach(list, i, v)
    {
        if (json_is_null(v))
            out->text[out->count++] = "";
        else if (facts_take_text(f, v, rule, &out->text[out->count]))
            out->count++;
        else
            return false;
    }
    facts_leave(f);
    return true;
}

bool facts_objects_of(struct facts *f, const json_t *object, const char *key, size_t size,
                      facts_fill *fill, void **out, int *count)
{
    const json_t *list = json_object_get(object, key), *v;
    size_t i;
    if (!list || json_is_null(list)) return true;
    if (!facts_enter(f, key) || !facts_want(f, list, JSON_ARRAY, "value")) return false;
    unsigned char *all = *out = pool_take(&f->pool, json_array_size(list) + 1, size, f->err);
    if (!all) return false;
    json_array_foreach(list, i, v)
    {
        if (!fill(f, v, all + size * i)) return false;
    }
    *count = (int)json_array_size(list);
    facts_leave(f);
    return true;
}
