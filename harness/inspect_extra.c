/* inspect_extra.c: tensors that the layout does not know. Some belong to parts that the reference
 * leaves out on purpose and are counted; all others are problems. */
#include "harness/inspect.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind PREFIXmodel.layers. of a name, or -1. */
static int64_t layer_of(const struct inspection *s, const char *name)
{
    char prefix[64], *end;
    int n = snprintf(prefix, sizeof prefix, "%smodel.layers.", s->config.prefix);
    if (!text_starts(name, prefix) || name[n] < '0' || name[n] > '9') return -1;
    long layer = strtol(name + n, &end, 10);
    return *end == '.' ? layer : -1;
}

/* A layer past the last is one of multi-token prediction when it has what only those have; else it
 * is a layer too many. */
static bool is_mtp(const struct inspection *s, int64_t layer)
{
    char name[128];
    if (layer < s->config.layers) return false;
    snprintf(name, sizeof name, "%smodel.layers.%lld.eh_proj.weight", s->config.prefix,
             (long long)layer);
    return ins_find(s, name) != NULL;
}

/* The kind of a known extra, or NULL. */
static const char *known_kind(const struct inspection *s, const struct ins_tensor *t)
{
    if (text_starts(t->raw, "vision_tower.")) return "vision_tower";
    if (text_starts(t->raw, "mm_projector.")) return "mm_projector";
    if (text_ends(t->name, ".rotary_emb.inv_freq")) return "rotary_inv_freq";
    return is_mtp(s, layer_of(s, t->name)) ? "multi_token_prediction" : NULL;
}

/* The wanted name that this one would be under the config's prefix, or NULL. */
static const char *under_prefix(struct inspection *s, const char *raw)
{
    static const char other[] = "language_model.";
    const char *name = s->config.prefix[0]       ? ins_text(s, "%s%s", s->config.prefix, raw)
                       : text_starts(raw, other) ? raw + strlen(other)
                                                 : "";
    return ins_absent(s, name) ? name : NULL;
}

static void report(struct inspection *s, const struct ins_tensor *t)
{
    int64_t layer = layer_of(s, t->name);
    const char *experts = strstr(t->name, ".mlp.experts."),
               *wanted = "no such tensor, as config.json says", *found = "an unknown tensor",
               *what = "extra tensor", *right = under_prefix(s, t->raw);
    int64_t expert = experts ? strtol(experts + strlen(".mlp.experts."), NULL, 10) : -1;
    if (right) {
        what = "wrong prefix";
        found = "another prefix than the others";
        wanted = ins_text(s, "%s", right);
    } else if (layer >= s->config.layers) {
        found = ins_text(s, "a tensor of layer %lld", (long long)layer);
        wanted =
            ins_text(s, "layers 0 to %lld, as config.json says", (long long)s->config.layers - 1);
    } else if (expert >= s->config.experts) {
        found = ins_text(s, "a tensor of expert %lld", (long long)expert);
        wanted =
            ins_text(s, "experts 0 to %lld, as config.json says", (long long)s->config.experts - 1);
    }
    ins_problem(s, (struct ins_problem){.what = what,
                                        .where = s->files[t->file].name,
                                        .tensor = t->raw,
                                        .found = found,
                                        .wanted = wanted});
}

void ins_check_extras(struct inspection *s)
{
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        if (t->expected >= 0) continue;
        const char *kind = known_kind(s, t);
        if (kind) {
            json_int_t n = json_integer_value(json_object_get(s->known, kind));
            if (json_object_set_new(s->known, kind, json_integer(n + 1))) s->broken = true;
            continue;
        }
        if (json_array_append_new(s->extra, ins_json(t->raw))) s->broken = true;
        report(s, t);
    }
}
