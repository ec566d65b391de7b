/* inspect_prefix.c: a whole checkpoint under another prefix ("model.layers.0..." where the config
 * wants "language_model.model.layers.0...") is one problem, not one for each tensor: the names are
 * compared without it then. The files and the index are looked at apart: they may differ. */
#include "harness/inspect.h"

#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { PREFIXES = 16, PREFIX = 128 };

struct votes {
    char prefix[PREFIXES][PREFIX];
    int64_t count[PREFIXES];
    int used;
};

/* What stands in front of "layers.N." of a text tensor. */
static void vote(struct votes *v, const char *name)
{
    char prefix[PREFIX];
    const char *at = strstr(name, "layers.");
    if (!at || !isdigit((unsigned char)at[7]) || text_starts(name, "vision_tower.") ||
        text_starts(name, "mm_projector.") || at - name >= PREFIX)
        return;
    snprintf(prefix, sizeof prefix, "%.*s", (int)(at - name), name);
    for (int i = 0; i < v->used; i++) {
        if (strcmp(v->prefix[i], prefix) != 0) continue;
        v->count[i]++;
        return;
    }
    if (v->used == PREFIXES) return;
    snprintf(v->prefix[v->used], PREFIX, "%s", prefix);
    v->count[v->used++] = 1;
}

static const char *winner(const struct votes *v)
{
    int best = -1;
    for (int i = 0; i < v->used; i++) {
        if (best < 0 || v->count[i] > v->count[best]) best = i;
    }
    return best < 0 ? NULL : v->prefix[best];
}

static bool starts_part(const char *name)
{
    return text_starts(name, "layers.") || text_starts(name, "embed_tokens.") ||
           text_starts(name, "norm.");
}

/* The name under the config's prefix, or NULL where it is that already, or no text tensor. The head
 * stands outside of "model.". */
static const char *moved(struct inspection *s, const char *name, const char *found,
                         const char *wanted)
{
    const char *head = strstr(name, "lm_head."), *to = NULL;
    if (text_starts(name, found) && starts_part(name + strlen(found)))
        to = ins_text(s, "%s%s", wanted, name + strlen(found));
    else if (head && (head == name || head[-1] == '.'))
        to = ins_text(s, "%s%s", s->config.prefix, head);
    return to && strcmp(to, name) != 0 ? to : NULL;
}

static void report(struct inspection *s, const char *where, const char *found, const char *wanted,
                   int64_t count)
{
    ins_problem(s,
                (struct ins_problem){.what = "wrong prefix",
                                     .where = where,
                                     .tensor = ins_text(s, "%slayers.*", found),
                                     .found = ins_text(s, "\"%s\" before the names of %lld tensors",
                                                       found, (long long)count),
                                     .wanted = ins_text(s, "\"%s\", as config.json says", wanted)});
}

static int64_t rename_tensors(struct inspection *s, const char *found, const char *wanted)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const char *name = moved(s, s->tensors[i].raw, found, wanted);
        if (!name) continue;
        s->tensors[i].name = ins_keep(s, name);
        n++;
    }
    return n;
}

static int64_t rename_entries(struct inspection *s, const char *found, const char *wanted)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->entry_count; i++) {
        const char *name = moved(s, s->entries[i].raw, found, wanted);
        if (!name) continue;
        s->entries[i].name = ins_keep(s, name);
        n++;
    }
    return n;
}

void ins_fix_prefix(struct inspection *s)
{
    char wanted[PREFIX];
    struct votes files = {0}, index = {0};
    snprintf(wanted, sizeof wanted, "%smodel.", s->config.prefix);
    for (int64_t i = 0; i < s->tensor_count; i++) vote(&files, s->tensors[i].raw);
    for (int64_t i = 0; i < s->entry_count; i++) vote(&index, s->entries[i].raw);
    const char *in_files = winner(&files), *in_index = winner(&index);
    if (in_files && strcmp(in_files, wanted) != 0)
        report(s, "*.safetensors", in_files, wanted, rename_tensors(s, in_files, wanted));
    if (in_index && strcmp(in_index, wanted) != 0)
        report(s, "model.safetensors.index.json", in_index, wanted,
               rename_entries(s, in_index, wanted));
}
