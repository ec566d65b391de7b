/* fields.h: the fields of a recorded result, as the renderers ask for them. */
#ifndef ASSAY_REPORTS_FIELDS_H
#define ASSAY_REPORTS_FIELDS_H

#include <jansson.h>

/* "" where there is no such text. */
static inline const char *text_at(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* 0 where there is no such number. */
static inline long long int_at(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

#endif
