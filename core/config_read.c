/* config_read.c: see config_read.h. */
#include "core/config_read.h"

#include <stdio.h>
#include <string.h>

enum err_code config_read_choice(const json_t *j, const char *key, const char *const *names,
                                 int dflt, const char *where, int *out, struct err *err)
{
    const char *text;
    char known[160] = "";
    if (json_text_or(j, key, names[dflt], where, &text, err) != ERR_OK) return err->code;
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return ERR_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? " or " : "", names[i]);
    }
    return err_set(err, ERR_INPUT, "read key \"%s\"|%s|\"%s\"|%s", key, where, text, known);
}

enum err_code config_read_dtype(const json_t *j, const char *where, enum dtype *out,
                                struct err *err)
{
    static const char *const names[] = {"bfloat16", "float16", "float32", NULL};
    static const enum dtype types[] = {DT_BF16, DT_F16, DT_F32};
    const char *key = json_has(j, "dtype") ? "dtype" : "torch_dtype";
    int i = 0;
    if (config_read_choice(j, key, names, 0, where, &i, err) != ERR_OK) return err->code;
    *out = types[i];
    return ERR_OK;
}

static enum err_code read_scaling(const json_t *s, const char *where, struct config *c,
                                  struct err *err)
{
    struct rope_scaling *r = &c->scaling;
    const char *type;
    bool truncate;
    if (!json_is_object(s))
        return err_set(err, ERR_INPUT, "read key \"rope_scaling\"|%s|%s|an object or null", where,
                       json_kind(s));
    const char *key = json_has(s, "rope_type") ? "rope_type" : "type";
    if (json_text_or(s, key, "default", where, &type, err) != ERR_OK) return err->code;
    if (strcmp(type, "default") == 0) return ERR_OK;
    if (strcmp(type, "yarn") != 0)
        return err_set(err, ERR_INPUT, "read key \"rope_scaling.%s\"|%s|\"%s\"|yarn or default",
                       key, where, type);
    r->yarn = true;
    if (json_double(s, "factor", where, &r->factor, err) != ERR_OK ||
        json_double_or(s, "beta_fast", 32, where, &r->beta_fast, err) != ERR_OK ||
        json_double_or(s, "beta_slow", 1, where, &r->beta_slow, err) != ERR_OK ||
        json_double_or(s, "mscale", 0, where, &r->mscale, err) != ERR_OK ||
        json_double_or(s, "mscale_all_dim", 0, where, &r->mscale_all_dim, err) != ERR_OK ||
        json_double_or(s, "attention_factor", 0, where, &r->attention_factor, err) != ERR_OK ||
        json_bool_or(s, "truncate", true, where, &truncate, err) != ERR_OK ||
        json_int_or(s, "original_max_position_embeddings", 1, (int64_t)1 << 40, c->max_position,
                    where, &r->original_max_position, err) != ERR_OK)
        return err_note(err, "rope_scaling");
    if (!(r->factor > 0) || !(r->beta_fast > 0) || !(r->beta_slow > 0))
        return err_set(
            err, ERR_INPUT,
            "read key \"rope_scaling\"|%s|factor %g, beta_fast %g, beta_slow %g|all above 0", where,
            r->factor, r->beta_fast, r->beta_slow);
    if (!truncate || r->attention_factor < 0)
        return err_set(
            err, ERR_INPUT,
            "read key \"rope_scaling\"|%s|truncate %s, attention_factor %g|true, and 0 or "
            "more",
            where, truncate ? "true" : "false", r->attention_factor);
    return ERR_OK;
}

/* theta in effect, and that a second spelling of it beside rope_parameters agrees. */
static enum err_code check_theta(const json_t *j, const char *where, double theta, struct err *err)
{
    double other;
    if (!(theta > 1))
        return err_set(err, ERR_INPUT, "read key \"rope_theta\"|%s|%g|above 1", where, theta);
    if (json_double_or(j, "rope_theta", theta, where, &other, err) != ERR_OK) return err->code;
    if (other != theta)
        return err_set(err, ERR_INPUT,
                       "read key \"rope_theta\"|%s|%g, and %g in rope_parameters|one of them, or "
                       "both the same",
                       where, other, theta);
    return ERR_OK;
}

enum err_code config_read_rope(const json_t *j, const char *where, double theta_default,
                               struct config *c, struct err *err)
{
    /* transformers 5 writes theta and scaling together as rope_parameters. */
    const json_t *both = json_object_get(j, "rope_parameters");
    if (both && !json_is_object(both) && !json_is_null(both))
        return err_set(err, ERR_INPUT, "read key \"rope_parameters\"|%s|%s|an object or null",
                       where, json_kind(both));
    const json_t *scaling = json_is_object(both) ? both : json_object_get(j, "rope_scaling");
    const json_t *theta_at = json_is_object(both) && json_has(both, "rope_theta") ? both : j;
    c->scaling.factor = 1;
    enum err_code rc =
        theta_default == 0
            ? json_double(theta_at, "rope_theta", where, &c->rope_theta, err)
            : json_double_or(theta_at, "rope_theta", theta_default, where, &c->rope_theta, err);
    if (rc != ERR_OK || check_theta(j, where, c->rope_theta, err) != ERR_OK) return err->code;
    if (c->rope % 2)
        return err_set(err, ERR_INPUT, "read key \"qk_rope_head_dim\"|%s|%lld|an even number",
                       where, (long long)c->rope);
    if (json_bool_or(j, "rope_interleave", true, where, &c->rope_interleaved, err) != ERR_OK)
        return err->code;
    return scaling && !json_is_null(scaling) ? read_scaling(scaling, where, c, err) : ERR_OK;
}
