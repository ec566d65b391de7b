/* guard_fold.c: see guard_fold.h. */
#include "harness/guard_fold.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "";
}

static json_t *any_text(const char *text)
{
    json_t *plain = json_string(text);
    char clean[GUARD_LINE];
    size_t n = 0;
    if (plain) return plain;
    for (; text[n] && n + 1 < sizeof clean; n++)
        clean[n] = (char)((text[n] & 0x80) ? '?' : text[n]);
    clean[n] = '\0';
    return json_string(clean);
}

json_t *guard_fold_finding(const char *rule, const char *file, int64_t line, const char *message)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:n, s:n, s:o, s:[], s:n, s:{}, s:s, s:s, s:i}", "k",
                     "finding", "rule", rule, "file", file, "line", (json_int_t)line, "function",
                     "type", "message", any_text(message), "trace", "handler", "locals", "process",
                     "", "thread", "", "count", 1);
}

/* ---- lines ---- */

/* The exception with an empty text that came closest to the line in time and has no line yet. */
static json_t *behind_empty(const json_t *list, double time)
{
    json_t *best = NULL;
    double away = INFINITY;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        double d = fabs(json_number_value(json_object_get(one, "time")) - time);
        bool empty = strcmp(text_of(one, "rule"), "empty_text") == 0;
        json_int_t said = json_integer_value(json_object_get(one, "lines"));
        if (!empty || said >= json_integer_value(json_object_get(one, "count"))) continue;
        if (d < away) {
            away = d;
            best = one;
        }
    }
    return best;
}

/* The exception whose text stands in the line. */
static json_t *behind_text(const json_t *list, const char *line)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        const char *message = text_of(one, "message");
        if (message[0] && strstr(line, message)) return one;
    }
    return NULL;
}

/* The line is what the program said of this exception. */
static void join(json_t *finding, const struct guard_line *f)
{
    json_int_t lines = json_integer_value(json_object_get(finding, "lines"));
    if (!json_object_get(finding, "said")) json_object_set_new(finding, "said", any_text(f->text));
    json_object_set_new(finding, "lines", json_integer(lines + 1));
}

static json_t *find_exception(const struct guard_log *l, const struct guard_line *f)
{
    if (f->kind == GUARD_LINE_EMPTY) return behind_empty(l->findings, f->time);
    json_t *one = behind_text(l->findings, f->text);
    return one ? one : behind_text(l->notes, f->text);
}

static bool is_in(const json_t *list, const json_t *one)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_array_get(list, i) == one) return true;
    }
    return false;
}

static void take_line(struct guard_log *l, const struct guard_line *f, const char *name)
{
    static const char *const rules[] = {[GUARD_LINE_EMPTY] = "empty_line",
                                        [GUARD_LINE_ERROR] = "error_line",
                                        [GUARD_LINE_ATEXIT] = "atexit"};
    json_t *one = f->kind == GUARD_LINE_ATEXIT ? NULL : find_exception(l, f);
    if (one) {
        join(one, f);
        if (is_in(l->findings, one)) return;
        json_object_set_new(one, "rule", json_string(rules[f->kind]));
        json_array_append(l->findings, one);
        return;
    }
    const char *message = f->kind == GUARD_LINE_ATEXIT ? f->also : f->text;
    json_array_append_new(l->findings,
                          guard_fold_finding(rules[f->kind], name, f->number, message));
}

void guard_fold_lines(struct guard_log *l, const struct guard_lines *lines, const char *name,
                      int *others, bool ended_well)
{
    for (int i = 0; i < lines->count; i++) {
        const struct guard_line *f = &lines->found[i];
        if (f->explained || (f->kind == GUARD_LINE_ERROR && !ended_well)) continue;
        if (f->kind != GUARD_LINE_ATEXIT && *others > 0 && !find_exception(l, f)) {
            --*others;
            continue;
        }
        take_line(l, f, name);
    }
}

/* ---- processes ---- */

void guard_fold_children(struct guard_log *l)
{
    static const char *const fields[] = {"type", "trace",    "locals", "file",
                                         "line", "function", NULL};
    for (size_t i = 0; i < json_array_size(l->findings); i++) {
        json_t *one = json_array_get(l->findings, i), *child = json_object_get(one, "child");
        for (size_t k = 0; child && k < json_array_size(l->notes); k++) {
            const json_t *note = json_array_get(l->notes, k);
            if (!json_equal(child, json_object_get(note, "pid")) ||
                strcmp(text_of(note, "rule"), "worker_error") != 0)
                continue;
            for (int f = 0; fields[f]; f++)
                json_object_set(one, fields[f], json_object_get(note, fields[f]));
        }
    }
}

/* ---- harmless ---- */

/* The reason of the first pattern that fits the finding, or NULL. */
static const char *reason_of(const json_t *one, const json_t *patterns)
{
    for (size_t k = 0; k < json_array_size(patterns); k++) {
        const json_t *p = json_array_get(patterns, k);
        const char *pattern = text_of(p, "text");
        if (pattern[0] && (text_glob(pattern, text_of(one, "message")) ||
                           text_glob(pattern, text_of(one, "said"))))
            return text_of(p, "reason");
    }
    return NULL;
}

void guard_fold_harmless(struct guard_log *l, const json_t *patterns)
{
    for (size_t i = 0; i < json_array_size(l->findings); i++) {
        json_t *one = json_array_get(l->findings, i);
        const char *reason = reason_of(one, patterns);
        if (reason) json_object_set_new(one, "harmless", json_string(reason));
    }
}
