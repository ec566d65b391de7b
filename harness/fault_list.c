/* fault_list.c: see fault_list.h. */
#include "harness/fault_list.h"

#include "core/fault.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const stages[] = {"op", "file", "call", "process"};
static const char *const fits[] = {"site", "op", "tries", "word", "linear"};

static json_t *key_json(const struct fault_key *k)
{
    json_t *out = json_pack("{s:s, s:s, s:s, s:b}", "key", k->name, "about", k->about, "fit",
                            fits[k->fit], "whole", k->whole);
    json_object_set_new(out, "default", json_real(k->dflt));
    if (!k->tries) return out;
    json_t *tries = json_array();
    for (const double *v = k->tries; !isnan(*v); v++) json_array_append_new(tries, json_real(*v));
    json_object_set_new(out, "tries", tries);
    return out;
}

static json_t *row_json(const struct fault_row *f)
{
    json_t *hosts = json_array(), *keys = json_array();
    for (int i = 0; i < FAULT_HOSTS && f->hosts[i]; i++)
        json_array_append_new(hosts, json_string(f->hosts[i]));
    for (int i = 0; i < FAULT_KEYS && f->keys[i].name; i++)
        json_array_append_new(keys, key_json(&f->keys[i]));
    json_t *row = json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:o}", "id", f->id, "stage",
                            stages[f->stage], "hosts", hosts, "edit", f->edit, "source", f->source,
                            "detector", f->detector, "keys", keys);
    if (f->same_as) json_object_set_new(row, "same_as", json_string(f->same_as));
    return row;
}

static void row_text(const struct fault_row *f)
{
    printf("%s\n    %s\n    ", f->id, f->edit);
    for (int i = 0; i < FAULT_HOSTS && f->hosts[i]; i++)
        printf("%s%s", i ? ", " : "hosts: ", f->hosts[i]);
    printf("%scaught by: %s; seen in: %s\n", f->hosts[0] ? "; " : "", f->detector, f->source);
    for (int i = 0; i < FAULT_KEYS && f->keys[i].name; i++) {
        const struct fault_key *k = &f->keys[i];
        printf("    %-8s %s", k->name, k->about);
        if (k->dflt >= 0) printf(" (%g)", k->dflt);
        printf("\n");
    }
    if (f->same_as) printf("    same output as others: %s\n", f->same_as);
}

enum err_code fault_list(const struct args *a, json_t *result, struct err *err)
{
    const char *op = args_value(a, "--op");
    json_t *faults = json_array();
    json_object_set_new(result, "faults", faults);
    if (op && !op_find(op))
        return err_set(err, ERR_USAGE, "option|--op|\"%s\"|an op of `assay op --list`", op);
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *f = fault_at(i);
        if (op && !fault_hosted_by(f, op)) continue;
        json_array_append_new(faults, row_json(f));
        if (!a->json) row_text(f);
    }
    json_object_set_new(result, "count", json_integer((json_int_t)json_array_size(faults)));
    if (!a->json) printf("%zu faults\n", json_array_size(faults));
    return ERR_OK;
}
