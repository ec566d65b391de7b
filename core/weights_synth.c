/* weights_synth.c: see weights_synth.h. */
#include "core/weights_synth.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Parses "seed=N&latent_gain=G" (in place). */
static enum err_code read_query(struct weights *w, char *query, struct err *err)
{
    bool seeded = false, gained = false;
    char *rest = NULL;
    for (char *part = strtok_r(query, "&", &rest); part; part = strtok_r(NULL, "&", &rest)) {
        if (!seeded && text_starts(part, "seed=") && text_u64(part + 5, &w->seed)) {
            seeded = true;
        } else if (!gained && text_starts(part, "latent_gain=") &&
                   text_double(part + 12, &w->latent_gain) && isfinite(w->latent_gain)) {
            gained = true;
        } else {
            return err_set(err, ERR_INPUT,
                           "open model|%s|\"%s\"|seed=N or latent_gain=G, each once", w->path,
                           part);
        }
    }
    if (!seeded)
        return err_set(err, ERR_INPUT, "open model|%s|no seed|synth:CONFIG.json?seed=N", w->path);
    return ERR_OK;
}

enum err_code weights_synth_spec(struct weights *w, char *config_path, struct err *err)
{
    snprintf(config_path, FILE_PATH, "%s", w->path + strlen("synth:"));
    char *query = strrchr(config_path, '?');
    if (!query)
        return err_set(err, ERR_INPUT, "open model|%s|no seed|synth:CONFIG.json?seed=N", w->path);
    *query++ = '\0';
    w->synthetic = true;
    return read_query(w, query, err);
}

enum err_code weights_synth_check(const struct weights *w, struct err *err)
{
    if (w->config.quant.kind == QUANT_FP8_BLOCK ||
        (w->config.quant.kind == QUANT_PACKED && !w->config.quant.symmetric) ||
        w->config.quant.act_order)
        return err_set(err, ERR_INPUT,
                       "open model|%s|quantisation that has no synthetic rule|symmetric "
                       "pack-quantized or none",
                       w->path);
    return ERR_OK;
}

/* Names and scales of the real tensors; the first row that matches holds. */
static const struct {
    const char *name; /* a pattern */
    double constant;  /* of the scale */
    bool per_input;   /* times sqrt(3 / in) */
    bool latent;      /* times latent_gain */
    double offset;
} rules[] = {
    {"*embed_tokens.weight", 1.7320508075688772, false, false, 0},
    {"*norm.weight", 0.25, false, false, 1},
    {"*fc_norm.?.weight", 0.25, false, false, 1},
    {"*e_score_correction_bias", 0.1, false, false, 0},
    {"*.q_a_proj.weight", 1, true, true, 0},
    {"*.kv_a_proj_with_mqa.weight", 1, true, true, 0},
    {"*.mlp.gate.weight", 2, true, false, 0},
    {"*lm_head.weight", 2, true, false, 0},
    {"*.weight", 1, true, false, 0},
};

static enum err_code real_rule(const struct weights *w, struct tensor *t, struct err *err)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!text_glob(rules[i].name, t->name)) continue;
        double scale = rules[i].constant;
        if (rules[i].per_input)
            scale = sqrt(3.0 / (double)t->shape[t->dims - 1]) * rules[i].constant;
        if (rules[i].latent) scale *= w->latent_gain;
        t->rule.kind = SYNTH_REAL;
        t->rule.scale = (float)scale;
        t->rule.offset = (float)rules[i].offset;
        t->dtype = text_ends(t->name, "e_score_correction_bias") ? DT_F32 : DT_BF16;
        return ERR_OK;
    }
    return err_set(err, ERR_INPUT,
                   "make tensor|%s|a name without a synthetic rule|a name of the checkpoint layout",
                   t->name);
}

void weights_synth_set_inputs(struct matrix *m)
{
    m->scale.rule.scale = (float)(1 / (4.6098 * sqrt((double)m->in)));
}

enum err_code weights_synth_rule(const struct weights *w, enum dtype as, struct tensor *t,
                                 struct err *err)
{
    t->rule.base = synth_base(w->seed, t->name);
    if (text_ends(t->name, ".weight_packed")) {
        t->rule.kind = SYNTH_CODES;
        t->dtype = DT_I32;
    } else if (text_ends(t->name, ".weight_scale")) {
        t->rule.kind = SYNTH_SCALE; /* its factor comes from weights_synth_set_inputs() */
        t->dtype = DT_BF16;
    } else if (real_rule(w, t, err) != ERR_OK) {
        return err->code;
    }
    if (as != DT_COUNT && as != t->dtype)
        return err_set(err, ERR_INPUT, "make tensor|%s|a rule for %s|%s", t->name,
                       dtype_name(t->dtype), dtype_name(as));
    return ERR_OK;
}
