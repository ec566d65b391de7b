/* inspect_result.c: an inspection as JSON; the renderers work from it. */
#include "harness/inspect.h"

#include "core/text.h"

#include <string.h>

/* What a tensor is part of, by its name; the first row that fits holds. */
static const struct {
    const char *pattern, *group;
} groups[] = {
    {"vision_tower.*", "vision"},
    {"mm_projector.*", "vision"},
    {"*.mlp.experts.*", "experts"},
    {"*.mlp.shared_experts.*", "shared experts"},
    {"*.mlp.gate.*", "router"},
    {"*norm.weight", "norms"},
    {"*.self_attn.*", "attention"},
    {"*.mlp.*", "dense MLP"},
    {"*embed_tokens.weight", "embedding and head"},
    {"*lm_head.*", "embedding and head"},
    {"*", "other"},
};

enum { GROUPS = sizeof groups / sizeof groups[0] };

static int group_of(const char *name)
{
    int g = 0;
    while (!text_glob(groups[g].pattern, name)) g++;
    for (int i = 0; i < g; i++) { /* rows of one group are counted together */
        if (strcmp(groups[i].group, groups[g].group) == 0) return i;
    }
    return g;
}

struct sum {
    int64_t tensors, bytes;
};

/* [{group, dtype, tensors, bytes}]; a single file is one group. */
static json_t *group_list(const struct inspection *s)
{
    struct sum sums[GROUPS][DT_COUNT + 1] = {0};
    json_t *list = json_array();
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        struct sum *at = &sums[s->folder ? group_of(t->name) : GROUPS - 1][t->dtype];
        at->tensors++;
        at->bytes += t->offset >= 0 ? t->bytes : 0;
    }
    for (int g = 0; g < GROUPS; g++) {
        for (int d = 0; d <= DT_COUNT; d++) {
            const struct sum *at = &sums[g][d];
            if (at->tensors == 0) continue;
            json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "group",
                                                  s->folder ? groups[g].group : "tensors", "dtype",
                                                  dtype_name((enum dtype)d), "tensors",
                                                  (json_int_t)at->tensors, "bytes",
                                                  (json_int_t)at->bytes));
        }
    }
    return list;
}

/* Files of which less is written than half their size: sized by a download or a test, not filled.
 */
static int64_t files_with_holes(const struct inspection *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->file_count; i++)
        n += s->files[i].written > 0 && s->files[i].written < s->files[i].size / 2;
    return n;
}

enum err_code inspect_json(struct inspection *s, const char *kind, json_t *result, struct err *err)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < s->tensor_count; i++)
        bytes += s->tensors[i].offset >= 0 ? s->tensors[i].bytes : 0;
    json_t *fields = json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:o, s:O, s:O, s:O, s:O, s:I, s:I}", "kind", kind, "path",
        ins_json(s->path), "tensors", (json_int_t)s->tensor_count, "bytes", (json_int_t)bytes,
        "shards", (json_int_t)s->file_count, "groups", group_list(s), "problems", s->problems,
        "missing", s->missing, "extra", s->extra, "known_extra", s->known, "files_with_holes",
        (json_int_t)files_with_holes(s), "unwritten_shapes", (json_int_t)s->unwritten);
    if (fields && s->folder) {
        json_object_set_new(fields, "model_type", json_string(s->config.model_type));
        json_object_set_new(fields, "layers", json_integer(s->config.layers));
        json_object_set_new(fields, "experts", json_integer(s->config.experts));
        json_object_set_new(fields, "config_sha256", json_string(s->config.sha256));
        json_object_set_new(fields, "index", json_boolean(s->has_index));
    }
    bool held = fields && !s->broken && json_object_update(result, fields) == 0;
    json_decref(fields);
    return held ? ERR_OK : err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
}
