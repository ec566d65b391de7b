/* inspect_text.c: an inspection for people; see text.h. Problems that say the same of many tensors
 * are one line with a count; all of them are in the JSON. */
#include "reports/text.h"

#include "core/text.h"
#include "reports/fields.h"

#include <ctype.h>
#include <string.h>

static size_t size_at(const json_t *o, const char *key)
{
    return json_array_size(json_object_get(o, key));
}

/* "layers.7.mlp" -> "layers.*.mlp": tensors of the same kind in all layers and experts. */
static void kind_of(const char *name, char *out, size_t size)
{
    size_t n = 0;
    while (*name && n + 1 < size) {
        bool digit = isdigit((unsigned char)*name) != 0;
        out[n++] = digit ? '*' : *name;
        name += digit ? strspn(name, "0123456789") : 1;
    }
    out[n] = '\0';
}

/* Groups in the order of their first problem: key -> [count, index of the first]. */
static json_t *grouped(const json_t *problems)
{
    json_t *groups = json_object();
    const json_t *p;
    size_t i;
    json_array_foreach(problems, i, p)
    {
        char kind[256], key[1600];
        kind_of(text_at(p, "tensor"), kind, sizeof kind);
        if (text_at(p, "group")[0]) {
            snprintf(key, sizeof key, "%s|%s", text_at(p, "what"), text_at(p, "group"));
        } else {
            snprintf(key, sizeof key, "%s|%s|%.600s|%.600s", text_at(p, "what"), kind,
                     text_at(p, "found"), text_at(p, "wanted"));
        }
        json_t *g = json_object_get(groups, key);
        if (g) {
            json_array_set_new(g, 0, json_integer(json_integer_value(json_array_get(g, 0)) + 1));
        } else {
            json_object_set_new(groups, key, json_pack("[i, I]", 1, (json_int_t)i));
        }
    }
    return groups;
}

static void print_problem(const json_t *p, long long count, FILE *out)
{
    if (text_at(p, "remedy")[0]) {
        fprintf(out, "  %s: %s: %s: %s%s", text_at(p, "what"), text_at(p, "where"),
                text_at(p, "found"), text_at(p, "remedy"), count > 1 ? "" : "\n");
        if (count > 1) fprintf(out, " (and %lld more like it)\n", count - 1);
        return;
    }
    fprintf(out, "  %s: %s%s%s: found %s, wanted %s", text_at(p, "what"), text_at(p, "where"),
            text_at(p, "tensor")[0] ? ": " : "", text_at(p, "tensor"), text_at(p, "found"),
            text_at(p, "wanted"));
    if (count > 1) fprintf(out, " (and %lld more like it)", count - 1);
    fprintf(out, "\n");
}

static void print_problems(const json_t *r, FILE *out, int lines_max)
{
    const json_t *problems = json_object_get(r, "problems"), *g;
    json_t *groups = grouped(problems);
    const char *key;
    int shown = 0;
    long long left = 0;
    json_object_foreach(groups, key, g)
    {
        long long count = (long long)json_integer_value(json_array_get(g, 0));
        size_t first = (size_t)json_integer_value(json_array_get(g, 1));
        if (lines_max > 0 && shown >= lines_max) {
            left += count;
            continue;
        }
        print_problem(json_array_get(problems, first), count, out);
        shown++;
    }
    if (left) fprintf(out, "  ... and %lld more (--json lists all)\n", left);
    json_decref(groups);
}

static void print_groups(const json_t *r, FILE *out)
{
    const json_t *g;
    size_t i;
    char text[32];
    json_array_foreach(json_object_get(r, "groups"), i, g)
    {
        fprintf(out, "  %-20s %-8s %9lld tensors  %s\n", text_at(g, "group"), text_at(g, "dtype"),
                int_at(g, "tensors"), text_bytes((double)int_at(g, "bytes"), text, sizeof text));
    }
}

static void print_known(const json_t *r, FILE *out)
{
    const char *key;
    const json_t *v;
    json_object_foreach((json_t *)json_object_get(r, "known_extra"), key, v)
    {
        fprintf(out, "  not of the text model: %s, %lld tensors\n", key,
                (long long)json_integer_value(v));
    }
    if (int_at(r, "files_with_holes"))
        fprintf(out, "  note: %lld files are mostly holes: sized, but not filled\n",
                int_at(r, "files_with_holes"));
    if (int_at(r, "unwritten_shapes"))
        fprintf(out, "  note: %lld weight_shape tensors lie in holes and were not judged\n",
                int_at(r, "unwritten_shapes"));
}

static void print_dump(const json_t *r, FILE *out)
{
    if (!json_object_get(r, "taps")) return;
    fprintf(out, "  %zu taps, %lld rows, %lld tokens, %lld sequences; engine %s, profile %s\n",
            size_at(r, "taps"), int_at(r, "rows"), int_at(r, "token_count"), int_at(r, "sequences"),
            text_at(r, "engine")[0] ? text_at(r, "engine") : "unknown",
            text_at(r, "profile")[0] ? text_at(r, "profile") : "unknown");
    const json_t *order = json_object_get(r, "order");
    size_t n = json_array_size(order);
    if (n) {
        fprintf(out, "  from %s to %s, by %s\n", json_string_value(json_array_get(order, 0)),
                json_string_value(json_array_get(order, n - 1)), text_at(r, "order_from"));
    }
}

/* "entry 3, output of layer 2, no norm" */
static void print_entry(const json_t *o, FILE *out)
{
    long long entry = int_at(o, "entry");
    if (!json_is_integer(json_object_get(o, "entry"))) {
        fprintf(out, "no entry of the model");
        return;
    }
    fprintf(out, "entry %lld", entry);
    if (entry > 0) fprintf(out, ", output of layer %lld", entry - 1);
    if (strcmp(text_at(o, "norm"), "final") == 0) fprintf(out, ", after the final norm");
}

static double real_at(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print_states(const json_t *r, FILE *out)
{
    const json_t *state;
    size_t i;
    if (text_at(r, "format")[0])
        fprintf(out, "  %s: %lld samples, %lld looked at, %lld of %lld rows recomputed\n",
                text_at(r, "format"), int_at(r, "samples"), int_at(r, "looked_at"),
                int_at(r, "recomputed_rows"), int_at(r, "rows"));
    json_array_foreach(json_object_get(r, "states"), i, state)
    {
        const json_t *next = json_object_get(state, "next_best");
        fprintf(out, "  state %lld: ", int_at(state, "stored"));
        print_entry(state, out);
        fprintf(out, ", error %.2g", real_at(state, "error"));
        if (json_is_object(next)) {
            fprintf(out, "; next best ");
            print_entry(next, out);
            fprintf(out, ", %.2g", real_at(next, "error"));
        }
        fprintf(out, "\n");
    }
}

static void print_numbers(const json_t *list, const char *format, FILE *out)
{
    const json_t *x;
    size_t i;
    json_array_foreach(list, i, x)
    {
        if (i) fputc(' ', out);
        fprintf(out, format, json_number_value(x));
    }
}

static void print_settings(const json_t *r, FILE *out)
{
    enum { SHOWN = 5 };
    const json_t *s;
    size_t i;
    json_array_foreach(json_object_get(r, "settings"), i, s)
    {
        if (i >= SHOWN) break;
        fprintf(out, "  %2zu. %-44s %.3f bits a choice; KL ", i + 1, text_at(s, "setting"),
                real_at(s, "choice_bits"));
        print_numbers(json_object_get(s, "bits"), "%.3f", out);
        fprintf(out, " bits; right ");
        print_numbers(json_object_get(s, "cond_acc"), "%.3f", out);
        fprintf(out, "\n");
    }
    json_array_foreach(json_object_get(r, "notes"), i, s)
    {
        fprintf(out, "  note: %s\n", json_string_value(s));
    }
}

static void print_contract(const json_t *r, FILE *out)
{
    const json_t *record = json_object_get(r, "recorded"), *against = json_object_get(r, "against");
    if (json_is_true(json_object_get(record, "done")))
        fprintf(out, "recorded in %s: total %s%s\n", text_at(record, "file"),
                text_at(record, "total"),
                size_at(r, "problems") ? ", with the problems above" : "");
    if (json_is_false(json_object_get(record, "done")))
        fprintf(out, "not recorded: %s\n", text_at(record, "why"));
    if (against)
        fprintf(out,
                "against %s of %s: %zu changed, %zu appeared, %zu vanished, %zu moved to another "
                "file\n",
                text_at(against, "contract"), text_at(against, "date"), size_at(against, "changed"),
                size_at(against, "appeared"), size_at(against, "vanished"),
                size_at(against, "moved"));
}

static void print_rest(const json_t *r, FILE *out, struct text_view view)
{
    char text[32];
    size_t problems = size_at(r, "problems");
    fprintf(out, ": %s, %lld tensors, %s in %lld file%s", text_at(r, "kind"), int_at(r, "tensors"),
            text_bytes((double)int_at(r, "bytes"), text, sizeof text), int_at(r, "shards"),
            int_at(r, "shards") == 1 ? "" : "s");
    if (text_at(r, "model_type")[0])
        fprintf(out, "; %s, %lld layers, %lld experts", text_at(r, "model_type"),
                int_at(r, "layers"), int_at(r, "experts"));
    fprintf(out, "; %zu problem%s\n", problems, problems == 1 ? "" : "s");
    print_dump(r, out);
    print_states(r, out);
    print_settings(r, out);
    print_groups(r, out);
    print_known(r, out);
    print_problems(r, out, view.most);
    print_contract(r, out);
}

void report_inspect_text(const json_t *r, FILE *out, struct text_view view)
{
    text_show(r, out, view, size_at(r, "problems") > 0 ? "FAIL" : "PASS", print_rest);
}
