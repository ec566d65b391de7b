/* findings.c: see findings.h. */
#include "tests/findings.h"

#include <stdio.h>
#include <string.h>

json_t *samples_inspected(const char *path, const char *model, const struct samples_options *o)
{
    const struct samples_options all = {.count = 64, .rows = 1024, .threads = 1};
    struct inspection s;
    struct err err = ERR_INIT;
    json_t *result = json_object();
    inspection_open(&s, path);
    (void)!inspect_samples(&s, o ? o : &all, model, result, &err);
    assert_ok(&err);
    inspection_close(&s);
    return result;
}

static void fail_with(const json_t *r, const char *what)
{
    json_dumpf(json_object_get(r, "problems"), stderr, JSON_INDENT(1));
    json_dumpf(json_object_get(r, "notes"), stderr, JSON_INDENT(1));
    fail_msg("%s", what);
}

static const char *remedy_of(const json_t *p)
{
    const char *remedy = json_string_value(json_object_get(p, "remedy"));
    return remedy ? remedy : field_text(p, "wanted");
}

void finds(const json_t *r, const char *what, const char *cause, const char *remedy)
{
    const json_t *p;
    size_t i;
    json_array_foreach(field(r, "problems"), i, p)
    {
        if (strcmp(field_text(p, "what"), what) == 0 && strstr(field_text(p, "found"), cause) &&
            strstr(remedy_of(p), remedy))
            return;
    }
    fail_with(r, textf("no problem '%s' with '%s' and '%s'", what, cause, remedy));
}

void problems_are(const json_t *r, size_t n)
{
    if (json_array_size(field(r, "problems")) != n) fail_with(r, textf("not %zu problems", n));
}

bool notes_hold(const json_t *r, const char *text)
{
    const json_t *n;
    size_t i;
    json_array_foreach(field(r, "notes"), i, n)
    {
        if (strstr(json_string_value(n), text)) return true;
    }
    return false;
}
