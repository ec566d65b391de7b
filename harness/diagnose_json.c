/* diagnose_json.c: a diagnosis as JSON; see diagnose.h. */
#include "harness/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

/* "layer=1,expert=3"; "" where the fault holds everywhere. */
static const char *site_of(const struct fault_use *u, char buf[FAULT_TEXT])
{
    const char *at = strchr(fault_print(u, buf), '@');
    return at ? at + 1 : "";
}

static json_t *hypothesis(const struct hypothesis *h, const struct fault_use *u, double explains)
{
    char buf[FAULT_TEXT];
    return json_pack("{s:s, s:s, s:o, s:s, s:I, s:b}", "fault", u->row->id, "site", site_of(u, buf),
                     "explains", number(explains), "op", h->op ? h->op : "", "layer",
                     (json_int_t)h->layer, "holds", h->holds);
}

/* Those that err, where the fault says which. */
static void add_ranks(const struct claim *c, json_t *to)
{
    json_t *list = json_array();
    for (int i = 0; i < c->ranks; i++) json_array_append_new(list, json_integer(c->rank[i]));
    if (c->ranks > 0) json_object_set(to, "ranks", list);
    json_decref(list);
}

static json_t *claims(const struct diagnosis *g)
{
    json_t *list = json_array();
    char buf[FAULT_TEXT];
    for (int64_t i = 0; i < g->claimed; i++) {
        const struct claim *c = &g->claims[i];
        json_t *o = hypothesis(&g->list[c->first], &c->use[0], c->explains);
        add_ranks(c, o);
        if (c->second >= 0) {
            const struct fault_use *u = &c->use[1];
            json_object_set_new(
                o, "with", json_pack("{s:s, s:s}", "fault", u->row->id, "site", site_of(u, buf)));
        }
        json_array_append_new(list, o);
    }
    return list;
}

/* What gives the same when it is injected: one text a claim, pairs joined by " + ". */
static json_t *inject(const struct diagnosis *g)
{
    json_t *list = json_array();
    char a[FAULT_TEXT], b[FAULT_TEXT], text[2 * FAULT_TEXT + 4];
    for (int64_t i = 0; i < g->claimed; i++) {
        const struct claim *c = &g->claims[i];
        snprintf(text, sizeof text, "%s%s%s", fault_print(&c->use[0], a),
                 c->second >= 0 ? " + " : "", c->second >= 0 ? fault_print(&c->use[1], b) : "");
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static json_t *shape(const struct error_shape *s)
{
    json_t *parts = json_array(), *terms = json_array();
    for (int i = 0; i < s->parts; i++) {
        const struct shape_part *p = &s->part[i];
        json_t *at = json_array();
        for (int64_t k = 0; k < p->places; k++) json_array_append_new(at, json_integer(p->at[k]));
        json_array_append_new(parts,
                              json_pack("{s:s, s:I, s:o, s:o}", "what", p->what, "of",
                                        (json_int_t)p->parts, "at", at, "share", number(p->share)));
    }
    for (int i = 0; i < s->terms; i++)
        json_array_append_new(terms, json_pack("{s:s, s:o}", "name", s->term[i].name, "factor",
                                               number(s->term[i].factor)));
    return json_pack(
        "{s:s, s:o, s:o, s:{s:o, s:o}, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:{s:s, s:o, s:o}}",
        "text", s->text, "relative", number(s->relative), "concentrates", parts, "scale", "factor",
        number(s->scale), "explains", number(s->scale_explains), "row_scale",
        number(s->row_scale_explains), "column_scale", number(s->column_scale_explains), "offset",
        number(s->offset_explains), "permutation", number(s->permutation_explains), "sum", "terms",
        terms, "explains", number(s->terms_explain), "part", "name", s->weighed.name, "factor",
        number(s->weighed.factor), "explains", number(s->weighed.explains));
}

enum err_code diagnosis_json(const struct diagnosis *g, json_t *result, struct err *err)
{
    json_t *all = json_array();
    for (int64_t i = 0; i < g->count; i++)
        json_array_append_new(all, hypothesis(&g->list[i], &g->list[i].use, g->list[i].explains));
    json_t *fields = json_pack("{s:o, s:o}", "diagnosis", claims(g), "hypotheses", all);
    if (g->made) {
        json_object_set_new(fields, "inject", inject(g));
        json_object_set_new(fields, "replay", json_string(g->replay));
        json_object_set_new(fields, "diagnosed_in", json_string(g->profile));
        json_object_set_new(fields, "runs", json_integer(g->runs));
        json_object_set_new(fields, "shape", shape(&g->shape));
    }
    if (!fields || json_object_update(result, fields) != 0)
        return err_set(err, ERR_MEMORY, "record result|diagnosis|no memory");
    json_decref(fields);
    return ERR_OK;
}
