/* campaign_weights.c: see campaign_weights.h. */
#include "harness/campaign_weights.h"

#include "core/file.h"
#include "core/layout.h"
#include "core/safetensors.h"
#include "core/text.h"
#include "core/weights_synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* e4m3 values reach 448; uniform codes without NaN have an RMS of about this. */
#define E4M3_RMS 117.0

static enum dtype stored_as(const struct layout_tensor *t)
{
    switch (t->kind) {
    case LAYOUT_CODES:
    case LAYOUT_PAIR:
        return DT_I32;
    case LAYOUT_FP8:
        return DT_F8_E4M3;
    case LAYOUT_BLOCK:
        return DT_F32;
    case LAYOUT_REAL:
    case LAYOUT_SCALE:
        break;
    }
    return text_ends(t->name, "e_score_correction_bias") ? DT_F32 : DT_BF16;
}

static void fill_fp8(uint64_t base, int64_t n, unsigned char *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = (unsigned char)(synth_x(base, i) >> 56);
        if ((out[i] & 0x7f) == 0x7f) out[i] = (unsigned char)(out[i] & 0x80); /* NaN: a zero */
    }
}

/* `n` elements of tensor t. */
static enum err_code fill(const struct weights *w, const struct layout_tensor *t, int64_t n,
                          void *out, struct err *err)
{
    struct tensor one = {.dims = t->dims, .shape = {t->shape[0], t->shape[1]}};
    uint64_t base = synth_base(w->seed, t->name);
    struct synth_rule rule = {.base = base};
    snprintf(one.name, sizeof one.name, "%s", t->name);
    switch (t->kind) {
    case LAYOUT_PAIR:
        rule = (struct synth_rule){.kind = SYNTH_SHAPE, .out = t->out, .in = t->in};
        break;
    case LAYOUT_CODES: /* zero points too: any code is one */
        rule.kind = SYNTH_CODES;
        break;
    case LAYOUT_FP8:
        fill_fp8(base, n, out);
        return ERR_OK;
    case LAYOUT_BLOCK:
        rule.kind = SYNTH_SCALE;
        rule.scale = (float)(1 / (E4M3_RMS * sqrt((double)t->in)));
        break;
    case LAYOUT_SCALE:
        rule.kind = SYNTH_SCALE;
        rule.scale = (float)(1 / (4.6098 * sqrt((double)t->in)));
        break;
    case LAYOUT_REAL:
        if (weights_synth_rule(w, DT_COUNT, &one, err) != ERR_OK) return err->code;
        rule = one.rule;
        break;
    }
    synth_fill(&rule, stored_as(t), 0, n, out);
    return ERR_OK;
}

static enum err_code write_data(const struct weights *w, const struct layout *l,
                                const struct st_entry *entries, const char *path, const char *head,
                                int64_t head_bytes, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    int64_t most = 1;
    for (int64_t i = 0; i < l->count; i++) most = entries[i].bytes > most ? entries[i].bytes : most;
    void *buffer = malloc((size_t)most);
    if (!buffer) err_set(err, ERR_MEMORY, "write checkpoint|%s|no memory", path);
    if (buffer && file_out_open(&f, path, err) == ERR_OK)
        (void)!file_out_write(&f, head, head_bytes, err);
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        int64_t n = entries[i].bytes / dtype_size(entries[i].dtype);
        if (fill(w, &l->tensors[i], n, buffer, err) == ERR_OK)
            (void)!file_out_write(&f, buffer, entries[i].bytes, err);
    }
    if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(buffer);
    return err->code;
}

enum err_code campaign_weights(const char *folder, uint64_t seed, struct err *err)
{
    char path[FILE_PATH];
    struct weights w = {.seed = seed, .latent_gain = 1};
    struct layout l = {0};
    struct st_entry *entries = NULL;
    char *head = NULL;
    int64_t head_bytes = 0;
    const struct layout_choice choice = {.weight_shapes = true};
    if (file_join(folder, "config.json", path, err) != ERR_OK ||
        config_read(path, &w.config, err) != ERR_OK ||
        layout_make(&l, &w.config, &choice, err) != ERR_OK)
        goto done;
    entries = calloc((size_t)l.count + 1, sizeof *entries);
    if (!entries) {
        err_set(err, ERR_MEMORY, "write checkpoint|%s|no memory", folder);
        goto done;
    }
    for (int64_t i = 0; i < l.count; i++) {
        const struct layout_tensor *t = &l.tensors[i];
        entries[i] = (struct st_entry){.name = t->name,
                                       .dtype = stored_as(t),
                                       .dims = t->dims,
                                       .shape = {t->shape[0], t->shape[1]}};
    }
    if (file_join(folder, "model.safetensors", path, err) == ERR_OK &&
        st_plan(entries, l.count, NULL, 0, &head, &head_bytes, err) == ERR_OK)
        (void)!write_data(&w, &l, entries, path, head, head_bytes, err);
done:
    free(head);
    free(entries);
    layout_free(&l);
    return err->code;
}
