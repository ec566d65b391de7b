/* json.c: see json.h. */
#include "core/json.h"

#include "core/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code json_parse(const char *text, int64_t size, const char *where, json_t **out,
                         struct err *err)
{
    json_error_t e;
    *out = json_loadb(text ? text : "", text ? (size_t)size : 0, JSON_REJECT_DUPLICATES, &e);
    if (*out) return ERR_OK;
    return err_set(err, ERR_INPUT, "parse JSON|%s: line %d, column %d|%s|valid JSON", where, e.line,
                   e.column, e.text);
}

enum err_code json_read(const char *path, json_t **out, struct err *err)
{
    struct file_map m;
    *out = NULL;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    enum err_code rc = json_parse((const char *)m.data, m.size, path, out, err);
    file_unmap(&m);
    return rc;
}

const char *json_kind(const json_t *v)
{
    if (!v) return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null";
    }
}

json_t *json_err(const struct err *err)
{
    json_t *chain = json_array();
    for (int i = 0; i < err->notes; i++) json_array_append_new(chain, json_any_text(err->note[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "what", json_any_text(err->what), "where",
                     json_any_text(err->where), "found", json_any_text(err->found), "wanted",
                     json_any_text(err->wanted), "chain", chain);
}

bool json_has(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return v && !json_is_null(v);
}

enum err_code json_int(const json_t *obj, const char *key, int64_t min, int64_t max,
                       const char *where, int64_t *out, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v))
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s|an integer", key, where,
                       json_kind(v));
    *out = json_integer_value(v);
    if (*out < min || *out > max)
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%lld|%lld to %lld", key, where,
                       (long long)*out, (long long)min, (long long)max);
    return ERR_OK;
}

enum err_code json_int_or(const json_t *obj, const char *key, int64_t min, int64_t max,
                          int64_t dflt, const char *where, int64_t *out, struct err *err)
{
    *out = dflt;
    return json_has(obj, key) ? json_int(obj, key, min, max, where, out, err) : ERR_OK;
}

enum err_code json_double(const json_t *obj, const char *key, const char *where, double *out,
                          struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_number(v))
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s|a number", key, where, json_kind(v));
    *out = json_number_value(v);
    if (!isfinite(*out))
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%g|a finite number", key, where, *out);
    return ERR_OK;
}

enum err_code json_double_or(const json_t *obj, const char *key, double dflt, const char *where,
                             double *out, struct err *err)
{
    *out = dflt;
    return json_has(obj, key) ? json_double(obj, key, where, out, err) : ERR_OK;
}

enum err_code json_bool_or(const json_t *obj, const char *key, bool dflt, const char *where,
                           bool *out, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    *out = dflt;
    if (!json_has(obj, key)) return ERR_OK;
    if (!json_is_boolean(v))
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s|true or false", key, where,
                       json_kind(v));
    *out = json_is_true(v);
    return ERR_OK;
}

enum err_code json_text_or(const json_t *obj, const char *key, const char *dflt, const char *where,
                           const char **out, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    *out = dflt;
    if (!json_has(obj, key)) return ERR_OK;
    if (!json_is_string(v))
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s|a string", key, where, json_kind(v));
    *out = json_string_value(v);
    return ERR_OK;
}

json_t *json_any_text(const char *text)
{
    if (!text) return json_string("");
    json_t *made = json_string(text);
    size_t n = 0;
    char *shown = made ? NULL : malloc(4 * strlen(text) + 1);
    if (!shown) return made;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        n += (size_t)snprintf(shown + n, 5, *c < 0x80 ? "%c" : "\\x%02x", *c);
    made = json_string(shown);
    free(shown);
    return made;
}
