/* api_show.c: see api_show.h. */
#include "compat/api_show.h"

#include "compat/api_fields.h"
#include "compat/api_now.h"

#include <string.h>

enum { COLUMNS = 80 };

static void show_when(const struct api_def *d, int indent, FILE *out)
{
    for (int i = 0; i < d->when.count; i++)
        fprintf(out, "%*s# only under: %s\n", indent, "", d->when.text[i]);
    if (d->deprecated) fprintf(out, "%*s# deprecated: %s\n", indent, "", d->deprecated);
}

/* "NAME(a, b) -> T:" on one line where it fits, else a parameter a line. */
static void show_signature(const char *head, const struct api_params *params, const char *returns,
                           int indent, FILE *out, struct pool *p, struct err *err)
{
    struct api_texts t = api_params_texts(params, p, err);
    size_t columns = (size_t)indent + strlen(head) + (returns ? strlen(returns) + 4 : 0) + 2;
    for (int i = 0; i < t.count; i++) columns += strlen(t.text[i]) + 2;
    bool fits = columns <= COLUMNS;
    fprintf(out, "%*s%s(", indent, "", head);
    for (int i = 0; i < t.count; i++) {
        if (fits)
            fprintf(out, "%s%s", i ? ", " : "", t.text[i]);
        else
            fprintf(out, "\n%*s%s,", indent + 4, "", t.text[i]);
    }
    if (!fits) fprintf(out, "\n%*s", indent, "");
    fprintf(out, ")%s%s\n", returns ? " -> " : "", returns ? returns : "");
}

static void show_function(const struct api_def *d, int indent, FILE *out, struct pool *p,
                          struct err *err)
{
    const struct api_function *f = d->function;
    for (int i = 0; i < f->decorators.count; i++)
        fprintf(out, "%*s@%s\n", indent, "", f->decorators.text[i]);
    char *head = pool_format(p, err, "%sdef %s", f->async ? "async " : "", d->name);
    if (head) show_signature(head, &f->params, f->returns, indent, out, p, err);
    for (int i = 0; i < f->shapes; i++)
        fprintf(out, "%*s# line %d returns %s%s%s\n", indent + 4, "", f->shape[i].line,
                f->shape[i].shape, f->shape[i].when ? " if " : "",
                f->shape[i].when ? f->shape[i].when : "");
    for (int i = 0; i < f->warnings; i++)
        fprintf(out, "%*s# line %d warns: %s%s%s\n", indent + 4, "", f->warning[i].line,
                f->warning[i].text, f->warning[i].when ? " if " : "",
                f->warning[i].when ? f->warning[i].when : "");
    if (f->wrapped) fprintf(out, "%*s# a decorator may change this signature\n", indent + 4, "");
}

/* What Class(...) takes, whoever wrote it. */
static void show_constructor(const struct api *a, const struct api_def *d, int indent, FILE *out,
                             struct pool *p, struct err *err)
{
    struct api_signatures s;
    api_constructor(a, d, p, &s, err);
    for (int i = 0; i < s.sigs; i++) {
        if (s.sig[i].overload) continue;
        fprintf(out, "%*s# called as%s:\n", indent, "",
                s.sig[i].generated ? " (nobody wrote it)" : "");
        show_signature(d->name, &s.sig[i].params, NULL, indent, out, p, err);
    }
    if (s.why) fprintf(out, "%*s# %s\n", indent, "", s.why);
}

static void show_value(const struct api_def *d, int indent, FILE *out)
{
    fprintf(out, "%*s%s%s%s%s%s\n", indent, "", d->name, d->value.type ? ": " : "",
            d->value.type ? d->value.type : "", d->value.text ? " = " : "",
            d->value.text ? d->value.text : "");
}

static void show_def(const struct api *a, const struct api_def *d, int indent, FILE *out,
                     struct pool *p, struct err *err);

static void show_body(const struct api *a, const struct api_def *d, int indent, FILE *out,
                      struct pool *p, struct err *err)
{
    const struct api_class *c = d->class_;
    for (int i = 0; i < c->fields; i++) {
        const char *text = api_field_text(&c->field[i], p, err);
        if (text) fprintf(out, "%*s%s\n", indent, "", text);
    }
    for (int i = 0; i < c->members.count; i++) {
        for (int k = 0; k < c->members.name[i].defs; k++)
            show_def(a, &c->members.name[i].def[k], indent, out, p, err);
    }
    for (int i = 0; i < c->attrs; i++) {
        const char *text = api_attr_text(&c->attr[i], p, err);
        if (text) fprintf(out, "%*sself.%s\n", indent, "", text);
    }
    for (int i = 0; i < c->others.count; i++)
        fprintf(out, "%*s%s%s", i ? 0 : indent, "",
                i ? ", " : "# not recorded: ", c->others.text[i]);
    if (c->others.count) fputc('\n', out);
}

static void show_class(const struct api *a, const struct api_def *d, int indent, FILE *out,
                       struct pool *p, struct err *err)
{
    const struct api_class *c = d->class_;
    for (int i = 0; i < c->decorators.count; i++)
        fprintf(out, "%*s@%s\n", indent, "", c->decorators.text[i]);
    fprintf(out, "%*sclass %s", indent, "", d->name);
    for (int i = 0; i < c->bases.count; i++) fprintf(out, "%s%s", i ? ", " : "(", c->bases.text[i]);
    for (int i = 0; i < c->keywords; i++)
        fprintf(out, "%s%s=%s", i || c->bases.count ? ", " : "(", c->keyword[i].name,
                c->keyword[i].value);
    fputs(c->bases.count || c->keywords ? ")\n" : "\n", out);
    if (!d->owner) show_constructor(a, d, indent + 4, out, p, err);
    show_body(a, d, indent + 4, out, p, err);
}

static void show_def(const struct api *a, const struct api_def *d, int indent, FILE *out,
                     struct pool *p, struct err *err)
{
    show_when(d, indent, out);
    if (d->kind == API_DEF) show_function(d, indent, out, p, err);
    if (d->kind == API_CLASS) show_class(a, d, indent, out, p, err);
    if (d->kind == API_VALUE) show_value(d, indent, out);
    if (d->kind == API_ALIAS) fprintf(out, "%*s%s = %s\n", indent, "", d->name, d->to);
}

void api_show(const struct api *a, const struct api_def *d, FILE *out, struct pool *p,
              struct err *err)
{
    char place[512];
    fprintf(out, "%s  (%s)\n", d->path, api_place(d, place, sizeof place));
    show_def(a, d, 0, out, p, err);
}

static const char *kind_word(const struct api_def *d)
{
    static const char *const words[] = {
        [API_DEF] = "def", [API_CLASS] = "class", [API_ALIAS] = "alias", [API_VALUE] = "value"};
    return words[d->kind];
}

void api_show_module(const struct api_module *m, FILE *out)
{
    fprintf(out, "%s  (%s)%s\n", m->name, m->file, m->partial ? ", recorded in part" : "");
    for (int i = 0; i < m->names.count; i++) {
        const struct api_def *d = m->names.name[i].def;
        fprintf(out, "    %-6s %s%s%s\n", kind_word(d), d->name, d->kind == API_ALIAS ? " = " : "",
                d->kind == API_ALIAS ? d->to : "");
    }
    for (int i = 0; i < m->lazies; i++)
        fprintf(out, "    %-6s %s = %s\n", "lazy", m->lazy[i].name,
                m->lazy[i].to ? m->lazy[i].to : "?");
    for (int i = 0; i < m->absents; i++) fprintf(out, "    %-6s %s\n", "absent", m->absent[i].name);
}

/* Names at every depth. Exact last names stand before those that are only alike. */
static void add_near(struct api_best *best, const struct api_names *names, const char *wanted)
{
    for (int i = 0; i < names->count; i++) {
        const struct api_name *n = &names->name[i];
        double alike = api_alike(wanted, n->name) + (strcmp(wanted, n->name) == 0);
        if (n->def->kind == API_ALIAS) alike -= 0.2; /* where it is defined says more */
        if (100 * alike >= API_ALIKE_MIN_PERCENT + 20) api_best_add(best, n->def->path, alike);
        for (int k = 0; k < n->defs; k++) {
            if (n->def[k].kind == API_CLASS) add_near(best, &n->def[k].class_->members, wanted);
        }
    }
}

int api_show_near(const struct api *a, const char *name, const char **out, int most)
{
    double score[16];
    struct api_best best = {.text = out, .score = score, .most = most < 16 ? most : 16};
    const char *last = name + strlen(name);
    while (last > name && last[-1] != '.' && last[-1] != ':') last--;
    for (int i = 0; i < a->modules; i++) add_near(&best, &a->module[i].names, last);
    return best.count;
}
