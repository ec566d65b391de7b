/* heads.c: see heads.h. */
#include "tests/heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *heads_json(const char *text)
{
    char *out = strdup(text);
    assert_non_null(out);
    for (char *p = out; *p; p++) {
        if (*p == '\'') *p = '"';
    }
    return out;
}

char *heads_edited(const char *text, const char *edits)
{
    char *out = strdup(text), *all = strdup(edits ? edits : ""), *rest = NULL;
    assert_true(out && all);
    for (char *line = strtok_r(all, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *arrow = strstr(line, " -> ");
        if (!arrow) fail_msg("'%s' has no arrow", line);
        *arrow = '\0';
        char *next = replaced(out, line, arrow + 4);
        free(out);
        out = next;
    }
    free(all);
    return out;
}

struct st_part *heads_add(struct heads *h, const char *name, int64_t out, int64_t in)
{
    assert_true(h->count < HEADS_PARTS);
    struct st_part *p = &h->parts[h->count];
    snprintf(h->names[h->count], sizeof h->names[0], "%s", name);
    *p = (struct st_part){h->names[h->count], DT_BF16, out ? 2 : 1, {out ? out : in, in}, NULL};
    h->count++;
    return p;
}

struct st_part *heads_part(struct heads *h, const char *name)
{
    for (int64_t i = 0; i < h->count; i++) {
        if (strcmp(h->names[i], name) == 0) return &h->parts[i];
    }
    fail_msg("the head has no %s", name);
    return NULL;
}

void heads_drop(struct heads *h, const char *name)
{
    int64_t at = heads_part(h, name) - h->parts;
    h->count--;
    for (int64_t i = at; i < h->count; i++) {
        h->parts[i] = h->parts[i + 1];
        memcpy(h->names[i], h->names[i + 1], sizeof h->names[i]);
        h->parts[i].name = h->names[i];
    }
}

static void add_in(struct heads *h, const char *prefix, const char *name, int64_t out, int64_t in)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    heads_add(h, full, out, in);
}

static void add_llama(struct heads *h, const char *prefix, int64_t in)
{
    add_in(h, prefix, "self_attn.q_proj", HEADS_HEADS * HEADS_HD, in);
    add_in(h, prefix, "self_attn.k_proj", HEADS_KV * HEADS_HD, in);
    add_in(h, prefix, "self_attn.v_proj", HEADS_KV * HEADS_HD, in);
    add_in(h, prefix, "self_attn.o_proj", HEADS_H, HEADS_HEADS * HEADS_HD);
}

static void add_mla(struct heads *h, const char *prefix, int64_t in)
{
    add_in(h, prefix, "self_attn.q_a_proj", HEADS_LORA, in);
    add_in(h, prefix, "self_attn.q_a_layernorm", 0, HEADS_LORA);
    add_in(h, prefix, "self_attn.q_b_proj", HEADS_HEADS * (HEADS_NOPE + HEADS_ROPE), HEADS_LORA);
    add_in(h, prefix, "self_attn.kv_a_proj_with_mqa", HEADS_KV_LORA + HEADS_ROPE, in);
    add_in(h, prefix, "self_attn.kv_a_layernorm", 0, HEADS_KV_LORA);
    add_in(h, prefix, "self_attn.kv_b_proj", HEADS_HEADS * (HEADS_NOPE + HEADS_VH), HEADS_KV_LORA);
    add_in(h, prefix, "self_attn.o_proj", HEADS_H, HEADS_HEADS * HEADS_VH);
}

static void add_layer(struct heads *h, const char *prefix, enum head_kind kind, bool first,
                      const char *norm)
{
    int64_t in = first ? 2 * HEADS_H : HEADS_H;
    add_in(h, prefix, norm, 0, HEADS_H);
    if (first) add_in(h, prefix, "hidden_norm", 0, HEADS_H);
    add_in(h, prefix, "post_attention_layernorm", 0, HEADS_H);
    if (kind == HEAD_MLA)
        add_mla(h, prefix, in);
    else
        add_llama(h, prefix, in);
    add_in(h, prefix, "mlp.gate_proj", HEADS_I, HEADS_H);
    add_in(h, prefix, "mlp.up_proj", HEADS_I, HEADS_H);
    add_in(h, prefix, "mlp.down_proj", HEADS_H, HEADS_I);
}

/* Target ids 2, 3, 5, 9, 18, 19 as offsets. */
static const int64_t offsets[HEADS_VD] = {2, 2, 3, 6, 14, 14};
static const unsigned char marks[HEADS_V] = {
    [2] = 1, [3] = 1, [5] = 1, [9] = 1, [18] = 1, [19] = 1};

static void add_map(struct heads *h, enum head_naming naming)
{
    struct st_part *d2t =
        heads_add(h, naming == HEAD_VLLM ? "draft_id_to_target_id" : "d2t", 0, HEADS_VD);
    d2t->dtype = DT_I64;
    d2t->data = offsets;
    if (naming == HEAD_VLLM || naming == HEAD_MODELOPT) return;
    struct st_part *t2d = heads_add(h, "t2d", 0, HEADS_V);
    t2d->dtype = DT_BOOL;
    t2d->data = marks;
}

void heads_make(struct heads *h, enum head_naming naming, enum head_kind kind, int layers)
{
    static const char *const first[] = {"layers.0.", "midlayer.", "model.layers.0.", "midlayer."};
    static const char *const further[] = {"layers.%d.", "additional_layers.%d.", "model.layers.%d.",
                                          "additional_layers.%d."};
    bool sglang = naming == HEAD_SAFEAI || naming == HEAD_MODELOPT;
    const char *model = naming == HEAD_VLLM ? "model." : "";
    memset(h, 0, sizeof *h);
    add_layer(h, first[naming], kind, true, "input_layernorm");
    for (int k = 1; k < layers; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", sglang ? k - 1 : k);
        char *prefix = replaced(further[naming], "%d", number);
        add_layer(h, prefix, kind, false, sglang ? "hidden_norm" : "input_layernorm");
        free(prefix);
    }
    add_in(h, model, "fc", HEADS_H, 3 * HEADS_H);
    add_in(h, model, "norm", 0, HEADS_H);
    add_in(h, "", "lm_head", HEADS_VD, HEADS_H);
    add_map(h, naming);
}

void heads_write(void **state, const struct heads *h, const char *config)
{
    char *text = heads_json(config);
    write_text(folder_path(state, "config.json"), text);
    write_safetensors(folder_path(state, "model.safetensors"), h->parts, h->count, NULL, 0);
    free(text);
}

void heads_target_open(void **state, struct heads_target *t, const char *edits)
{
    struct err err = ERR_INIT;
    char spec[FILE_PATH + 16];
    char *edited = heads_edited(HEADS_TARGET, edits), *text = heads_json(edited);
    write_text(folder_path(state, "target.json"), text);
    snprintf(spec, sizeof spec, "synth:%s?seed=1", folder_path(state, "target.json"));
    (void)!(weights_open(&t->weights, spec, &err) || model_bind(&t->model, &t->weights, &err));
    assert_ok(&err);
    free(edited);
    free(text);
}

void heads_target_close(struct heads_target *t)
{
    model_release(&t->model);
    weights_close(&t->weights);
}
