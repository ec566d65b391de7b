/* plan_judge.c: the outcome of a step against its `expect`; see plan_run.h. */
#include "harness/plan_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void add(char *buf, size_t size, const char *format,
                                                      ...)
{
    size_t n = strlen(buf);
    va_list list;
    va_start(list, format);
    vsnprintf(buf + n, size - n, format, list);
    va_end(list);
}

static void add_place(char *buf, size_t size, const char *label, const char *tap, const char *op,
                      int64_t layer, int64_t row)
{
    if (!tap && !op && layer == PLAN_ANY && row == PLAN_ANY) return;
    add(buf, size, ", %s", label);
    if (tap) add(buf, size, " %s", tap);
    if (op) add(buf, size, " %s", op);
    if (layer != PLAN_ANY) add(buf, size, " layer %lld", (long long)layer);
    if (row != PLAN_ANY) add(buf, size, " row %lld", (long long)row);
}

const char *plan_expect_text(const struct plan_expect *x, char *buf, size_t size)
{
    snprintf(buf, size, "%s", x->verdict ? x->verdict : "pass");
    if (x->exit >= 0) add(buf, size, " with exit %d", x->exit);
    add_place(buf, size, "guilty", NULL, x->guilty_op, x->guilty_layer, PLAN_ANY);
    add_place(buf, size, "first", x->first_tap, x->first_op, x->first_layer, x->first_row);
    if (x->diagnosis) add(buf, size, ", diagnosis %s", x->diagnosis);
    return buf;
}

/* One place of the result against the parts that were asked about. */
static bool place_holds(const json_t *at, const char *what, const char *tap, const char *op,
                        int64_t layer, int64_t row, char why[PLAN_WHY])
{
    const struct {
        const char *key, *text;
        int64_t whole;
    } parts[] = {
        {"tap", tap, PLAN_ANY}, {"op", op, PLAN_ANY}, {"layer", NULL, layer}, {"row", NULL, row}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *v = json_object_get(at, parts[i].key);
        const char *text = json_string_value(v);
        if (parts[i].text && (!text || strcmp(text, parts[i].text) != 0)) {
            snprintf(why, PLAN_WHY, "%s %s is %s, not %s", what, parts[i].key,
                     text ? text : "not said", parts[i].text);
            return false;
        }
        if (parts[i].whole == PLAN_ANY) continue;
        if (!json_is_integer(v) || json_integer_value(v) != parts[i].whole) {
            snprintf(why, PLAN_WHY, "%s %s is %lld, not %lld", what, parts[i].key,
                     json_is_integer(v) ? (long long)json_integer_value(v) : -1,
                     (long long)parts[i].whole);
            return false;
        }
    }
    return true;
}

static bool guilty_holds(const struct plan_expect *x, const json_t *result, char why[PLAN_WHY],
                         char note[PLAN_WHY])
{
    const json_t *guilty = json_object_get(result, "guilty");
    if (!x->guilty_op && x->guilty_layer == PLAN_ANY) return true;
    if (!json_is_object(guilty)) {
        guilty = json_object_get(result, "first");
        snprintf(note, PLAN_WHY,
                 "guilty was checked against the first divergence: the diff was not anchored");
    }
    return place_holds(guilty, "guilty", NULL, x->guilty_op, x->guilty_layer, PLAN_ANY, why);
}

static bool diagnosis_holds(const char *wanted, const json_t *result, char why[PLAN_WHY])
{
    const json_t *list = json_object_get(result, "diagnosis"), *one;
    size_t i;
    if (!wanted) return true;
    json_array_foreach(list, i, one)
    {
        const char *fault = json_string_value(json_object_get(one, "fault"));
        if (fault && strcmp(fault, wanted) == 0) return true;
    }
    snprintf(why, PLAN_WHY, "diagnosis: %zu claimed, none of them %s", json_array_size(list),
             wanted);
    return false;
}

bool plan_as_expected(const struct plan_expect *x, const struct plan_outcome *o, char why[PLAN_WHY],
                      char note[PLAN_WHY])
{
    const char *wanted = x->verdict ? x->verdict : "pass";
    why[0] = note[0] = '\0';
    if (strcmp(wanted, o->verdict) != 0) {
        if (x->given) snprintf(why, PLAN_WHY, "%s, expected %s", o->verdict, wanted);
        return false;
    }
    if (x->exit >= 0 && x->exit != o->exit) {
        snprintf(why, PLAN_WHY, "exit %d, expected %d", o->exit, x->exit);
        return false;
    }
    return guilty_holds(x, o->result, why, note) &&
           place_holds(json_object_get(o->result, "first"), "first", x->first_tap, x->first_op,
                       x->first_layer, x->first_row, why) &&
           diagnosis_holds(x->diagnosis, o->result, why);
}
