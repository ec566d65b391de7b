/* api_read_lines.c: the line numbers of a contract file; see api_read.c. They are kept apart from
 * the symbols and must be as many as those have parts, in the order in which they are written. */
#include "compat/api_read.h"
#include "core/text.h"

#include <string.h>

/* Takes numbers off a list. */
struct numbers {
    struct api_reader *r;
    const struct yaml_node *list, *next;
};

static bool take(struct numbers *n, int *out)
{
    int64_t line;
    const struct yaml_node *c = n->next;
    if (!c)
        return api_read_bad_key(n->r, n->list, "contract lines", "too few", "one for each part");
    if (c->kind != YAML_TEXT || !text_int(c->text, &line) || line < 0 || line > API_LINE_MAX)
        return api_read_bad(n->r, c, "contract line", c->kind == YAML_TEXT ? c->text : "no text",
                            "a line number");
    *out = (int)line;
    n->next = c->next;
    return true;
}

static bool lines_of_def(struct numbers *n, struct api_def *d)
{
    if (!take(n, &d->line)) return false;
    for (int i = 0; d->kind == API_DEF && i < d->function->shapes; i++) {
        if (!take(n, &d->function->shape[i].line)) return false;
    }
    for (int i = 0; d->kind == API_DEF && i < d->function->warnings; i++) {
        if (!take(n, &d->function->warning[i].line)) return false;
    }
    for (int i = 0; d->kind == API_CLASS && i < d->class_->fields; i++) {
        if (!take(n, &d->class_->field[i].line)) return false;
    }
    for (int i = 0; d->kind == API_CLASS && i < d->class_->attrs; i++) {
        if (!take(n, &d->class_->attr[i].line)) return false;
    }
    return true;
}

/* Rows in the order of the symbols: *row is the one that should be next. */
static bool lines_of_names(struct api_reader *r, const struct yaml_node *module,
                           const struct yaml_node **row, const struct api_names *names,
                           const char *prefix)
{
    for (int i = 0; i < names->count; i++) {
        struct api_name *name = &names->name[i];
        const char *key = pool_format(&r->pool, r->err, "%s%s", prefix, name->name);
        const struct yaml_node *at = *row;
        if (!key) return false;
        if (!at || strcmp(at->key, key) != 0)
            return api_read_bad_key(r, at ? at : module, "contract lines",
                                    at ? at->key : "no more rows", key);
        if (at->kind != YAML_LIST)
            return api_read_bad_key(r, at, "contract lines", yaml_kind_name(at), "a list");
        struct numbers n = {r, at, at->child};
        for (int d = 0; d < name->defs; d++) {
            if (!lines_of_def(&n, &name->def[d])) return false;
        }
        if (n.next)
            return api_read_bad(r, n.next, "contract lines", "too many", "one for each part");
        *row = at->next;
        for (int d = 0; d < name->defs; d++) {
            if (name->def[d].kind != API_CLASS) continue;
            const char *inner = d ? pool_format(&r->pool, r->err, "%s@%d.", key, d + 1)
                                  : pool_format(&r->pool, r->err, "%s.", key);
            if (!inner || !lines_of_names(r, module, row, &name->def[d].class_->members, inner))
                return false;
        }
    }
    return true;
}

bool api_read_lines(struct api_reader *r, struct api *out)
{
    const struct yaml_node *module = r->lines->child;
    for (int i = 0; i < out->modules; i++) {
        struct api_module *m = &out->module[i];
        if (m->names.count == 0) continue;
        if (!module || strcmp(module->key, m->name) != 0)
            return api_read_bad_key(r, module ? module : r->lines, "contract lines",
                                    module ? module->key : "no more modules", m->name);
        if (!api_read_map(r, module)) return false;
        const struct yaml_node *row = module->child;
        if (!lines_of_names(r, module, &row, &m->names, "")) return false;
        if (row)
            return api_read_bad_key(r, row, "contract lines", row->key, "no row without a symbol");
        module = module->next;
    }
    if (!module) return true;
    return api_read_bad_key(r, module, "contract lines", module->key, "a module with symbols");
}
