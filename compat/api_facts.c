/* api_facts.c: api_from_facts() of api.h: the extractor's JSON into the model, checked strictly.
 * The extractor reads files that anybody may have written: what it prints is not trusted either.
 *
 * Bounds: texts of FACTS_TEXT bytes on one line, nested classes FACTS_NESTED deep, lines below
 * FACTS_LINE. Types, defaults and values must close their brackets and quotes, or the contract file
 * could not be read back. */
#include "compat/api_facts.h"

#include "compat/api_fields.h"
#include "compat/api_type.h"
#include "core/json.h"

#include <string.h>

static bool fill_param(struct facts *f, const json_t *o, void *out)
{
    static const char *const kinds[] = {"pos", "any", "kw", "star", "dstar", NULL};
    struct api_param *p = out;
    const char *kind = "";
    int k = 0;
    if (!facts_known_keys(f, o, "name kind default type") ||
        !facts_text_of(f, o, "name", TEXT_LINE, &p->name) ||
        !facts_text_of(f, o, "kind", TEXT_LINE, &kind) ||
        !facts_text_of(f, o, "default", TEXT_SOURCE, &p->fallback) ||
        !facts_text_of(f, o, "type", TEXT_SOURCE, &p->type))
        return false;
    if (!p->name || !facts_name_ok(f, p->name))
        return facts_bad(f, "parameter", "no name", "a name");
    while (kinds[k] && strcmp(kinds[k], kind) != 0) k++;
    if (!kinds[k]) return facts_bad(f, "kind", kind, "pos, any, kw, star or dstar");
    p->kind = (enum api_param_kind)k;
    return true;
}

static bool fill_shape(struct facts *f, const json_t *o, void *out)
{
    struct api_shape *s = out;
    if (!facts_known_keys(f, o, "shape when line") ||
        !facts_text_of(f, o, "shape", TEXT_LINE, &s->shape) ||
        !facts_text_of(f, o, "when", TEXT_SOURCE, &s->when) || !facts_line_of(f, o, &s->line))
        return false;
    if (s->shape && s->shape[0] && !strchr(s->shape, ' ')) return true;
    return facts_bad(f, "shape", s->shape ? s->shape : "nothing", "a word");
}

static bool fill_warning(struct facts *f, const json_t *o, void *out)
{
    struct api_warning *w = out;
    if (!facts_known_keys(f, o, "text when line") ||
        !facts_text_of(f, o, "text", TEXT_PROSE, &w->text) ||
        !facts_text_of(f, o, "when", TEXT_SOURCE, &w->when) || !facts_line_of(f, o, &w->line))
        return false;
    return w->text ? true : facts_bad(f, "warning", "no text", "a text");
}

static bool fill_field(struct facts *f, const json_t *o, void *out)
{
    struct api_field *d = out;
    d->init = true;
    if (!facts_known_keys(f, o,
                          "name type line default factory init kw_only initvar classvar alias "
                          "deprecated when optional") ||
        !facts_text_of(f, o, "name", TEXT_LINE, &d->name) ||
        !facts_text_of(f, o, "type", TEXT_SOURCE, &d->type) ||
        !facts_text_of(f, o, "default", TEXT_SOURCE, &d->fallback) ||
        !facts_text_of(f, o, "alias", TEXT_LINE, &d->alias) ||
        !facts_text_of(f, o, "deprecated", TEXT_PROSE, &d->deprecated) ||
        !facts_texts_of(f, o, "when", TEXT_SOURCE, &d->when) || !facts_line_of(f, o, &d->line) ||
        !facts_bool_of(f, o, "factory", &d->factory) || !facts_bool_of(f, o, "init", &d->init) ||
        !facts_bool_of(f, o, "kw_only", &d->kw_only) ||
        !facts_bool_of(f, o, "initvar", &d->initvar) ||
        !facts_bool_of(f, o, "classvar", &d->classvar) ||
        !facts_bool_of(f, o, "optional", &d->optional))
        return false;
    if (!d->name || !facts_name_ok(f, d->name)) return facts_bad(f, "field", "no name", "a name");
    if (d->alias && !api_is_identifier(d->alias)) d->alias = NULL; /* no keyword can name it */
    return true;
}

/* "wraps": a word where the signature is not what is written. */
static bool fill_function(struct facts *f, const json_t *o, struct api_function *d)
{
    static const char *const bindings[] = {"function", "instance",        "class", "static",
                                           "property", "cached_property", NULL};
    const char *binding = "function", *wraps = NULL;
    int b = 0;
    if (!facts_texts_of(f, o, "decorators", TEXT_SOURCE, &d->decorators) ||
        !facts_objects_of(f, o, "params", sizeof *d->params.param, fill_param,
                          (void **)&d->params.param, &d->params.count) ||
        !facts_objects_of(f, o, "shapes", sizeof *d->shape, fill_shape, (void **)&d->shape,
                          &d->shapes) ||
        !facts_objects_of(f, o, "warnings", sizeof *d->warning, fill_warning, (void **)&d->warning,
                          &d->warnings) ||
        !facts_text_of(f, o, "returns", TEXT_SOURCE, &d->returns) ||
        !facts_text_of(f, o, "binding", TEXT_LINE, &binding) ||
        !facts_text_of(f, o, "wraps", TEXT_LINE, &wraps) ||
        !facts_bool_of(f, o, "async", &d->async) || !facts_bool_of(f, o, "setter", &d->setter) ||
        !facts_bool_of(f, o, "overload", &d->overload) ||
        !facts_bool_of(f, o, "abstract", &d->abstract) ||
        !facts_bool_of(f, o, "generator", &d->generator))
        return false;
    while (bindings[b] && strcmp(bindings[b], binding) != 0) b++;
    if (!bindings[b])
        return facts_bad(f, "binding", binding, "function, instance, class, static, ...");
    d->binding = (enum api_binding)b;
    d->wrapped = wraps != NULL;
    return api_params_ordered(&d->params)
               ? true
               : facts_bad(f, "params", "an order that no def has", "another");
}

static bool fill_names(struct facts *f, const json_t *o, int nested, struct api_names *out);

/* A dotted name; what else is called is not looked for. */
static bool is_callee(const char *text)
{
    return text[0] && !strchr(text, ' ') && strcmp(text, "-") != 0 && api_balanced(text);
}

static bool fill_attrs(struct facts *f, const json_t *o, struct api_class *c)
{
    const json_t *all = json_object_get(o, "attrs");
    const char *key;
    json_t *v;
    if (!all || json_is_null(all)) return true;
    if (!facts_enter(f, "attrs") || !facts_want(f, all, JSON_OBJECT, "value")) return false;
    c->attr = pool_take(&f->pool, json_object_size(all) + 1, sizeof *c->attr, f->err);
    if (!c->attr) return false;
    json_object_foreach((json_t *)all, key, v)
    {
        struct api_attr *d = &c->attr[c->attrs];
        const char *call = NULL;
        if (!api_is_identifier(key))
            continue; /* setattr(self, "a-b", ...): no source can name it */
        if (!facts_enter(f, key) || !facts_known_keys(f, v, "line type value in call calls") ||
            !facts_text_of(f, v, "type", TEXT_SOURCE, &d->type) ||
            !facts_text_of(f, v, "value", TEXT_SOURCE, &d->value) ||
            !facts_text_of(f, v, "in", TEXT_LINE, &d->method) ||
            !facts_text_of(f, v, "call", TEXT_LINE, &call) ||
            !facts_texts_of(f, v, "calls", TEXT_LINE, &d->calls) ||
            !facts_line_of(f, v, &d->line) ||
            !(d->name = pool_text(&f->pool, key, strlen(key), f->err)))
            return false;
        if (d->method && !api_is_identifier(d->method)) d->method = NULL;
        for (int i = 0; i < d->calls.count; i++) {
            if (!is_callee(d->calls.text[i])) d->calls.text[i] = "";
        }
        if (call && is_callee(call) && d->calls.count == 0) {
            if (!(d->calls.text = pool_take(&f->pool, 1, sizeof call, f->err))) return false;
            d->calls.text[d->calls.count++] = call;
        }
        facts_leave(f);
        c->attrs++;
    }
    facts_leave(f);
    return true;
}

static bool fill_keywords(struct facts *f, const json_t *o, struct api_class *c)
{
    const json_t *all = json_object_get(o, "keywords");
    const char *key;
    json_t *v;
    if (!all || json_is_null(all)) return true;
    if (!facts_enter(f, "keywords") || !facts_want(f, all, JSON_OBJECT, "value")) return false;
    c->keyword = pool_take(&f->pool, json_object_size(all) + 1, sizeof *c->keyword, f->err);
    if (!c->keyword) return false;
    json_object_foreach((json_t *)all, key, v)
    {
        struct api_keyword *k = &c->keyword[c->keywords++];
        if (strcmp(key, "**") != 0 && !facts_name_ok(f, key)) return false;
        if (!(k->name = pool_text(&f->pool, key, strlen(key), f->err)) ||
            !facts_take_text(f, v, TEXT_SOURCE, &k->value))
            return false;
    }
    facts_leave(f);
    return true;
}

static bool fill_class(struct facts *f, const json_t *o, int nested, struct api_class *c)
{
    const json_t *members = json_object_get(o, "members");
    if (nested > FACTS_NESTED) return facts_bad(f, "class", "nested too deep", "at most 8 levels");
    if (!facts_texts_of(f, o, "bases", TEXT_SOURCE, &c->bases) ||
        !facts_texts_of(f, o, "decorators", TEXT_SOURCE, &c->decorators) ||
        !fill_keywords(f, o, c) ||
        !facts_objects_of(f, o, "fields", sizeof *c->field, fill_field, (void **)&c->field,
                          &c->fields) ||
        !fill_attrs(f, o, c) || !facts_text_of(f, o, "dynamic", TEXT_LINE, &c->dynamic))
        return false;
    if (!members || json_is_null(members)) return true;
    if (!facts_enter(f, "members") || !fill_names(f, members, nested + 1, &c->members))
        return false;
    facts_leave(f);
    return true;
}

static bool fill_value(struct facts *f, const json_t *o, struct api_def *d)
{
    return facts_text_of(f, o, "type", TEXT_SOURCE, &d->value.type) &&
           facts_text_of(f, o, "value", TEXT_SOURCE, &d->value.text) &&
           facts_text_of(f, o, "call", TEXT_LINE, &d->value.call);
}

static bool fill_alias(struct facts *f, const json_t *o, struct api_def *d)
{
    if (!facts_text_of(f, o, "to", TEXT_LINE, &d->to)) return false;
    if (!d->to || !d->to[0] || strpbrk(d->to, " \""))
        return facts_bad(f, "to", d->to ? d->to : "nothing", "a module, or module:Name");
    return true;
}

#define DEF_KEYS "kind line when deprecated "

static bool fill_def(struct facts *f, const json_t *o, int nested, struct api_def *d)
{
    static const struct {
        const char *kind, *keys;
    } kinds[] = {
        [API_DEF] = {"function", DEF_KEYS "params returns decorators async binding setter overload "
                                          "abstract shapes wraps generator warnings"},
        [API_CLASS] = {"class", DEF_KEYS "bases keywords decorators fields members attrs dynamic"},
        [API_ALIAS] = {"alias", DEF_KEYS "to"},
        [API_VALUE] = {"value", DEF_KEYS "type value call"},
    };
    const char *kind = json_string_value(json_object_get(o, "kind"));
    int k = 0;
    if (!facts_want(f, o, JSON_OBJECT, "definition")) return false;
    while (kind && k <= API_VALUE && strcmp(kinds[k].kind, kind) != 0) k++;
    if (!kind || k > API_VALUE)
        return facts_bad(f, "kind", kind ? kind : "nothing", "function, class, alias or value");
    d->kind = (enum api_kind)k;
    if (!facts_known_keys(f, o, kinds[k].keys) || !facts_line_of(f, o, &d->line) ||
        !facts_texts_of(f, o, "when", TEXT_SOURCE, &d->when) ||
        !facts_text_of(f, o, "deprecated", TEXT_PROSE, &d->deprecated))
        return false;
    if (d->kind == API_ALIAS) return fill_alias(f, o, d);
    if (d->kind == API_VALUE) return fill_value(f, o, d);
    if (d->kind == API_CLASS) {
        d->class_ = pool_take(&f->pool, 1, sizeof *d->class_, f->err);
        return d->class_ && fill_class(f, o, nested, d->class_);
    }
    d->function = pool_take(&f->pool, 1, sizeof *d->function, f->err);
    return d->function && fill_function(f, o, d->function);
}

static bool fill_name(struct facts *f, const json_t *defs, int nested, struct api_name *n)
{
    const json_t *v;
    size_t i;
    if (!facts_name_ok(f, n->name) || !facts_want(f, defs, JSON_ARRAY, "definitions")) return false;
    if (json_array_size(defs) == 0)
        return facts_bad(f, "definitions", "an empty list", "at least one");
    n->def = pool_take(&f->pool, json_array_size(defs), sizeof *n->def, f->err);
    if (!n->def) return false;
    json_array_foreach(defs, i, v)
    {
        if (!fill_def(f, v, nested, &n->def[n->defs++])) return false;
    }
    return true;
}

static bool fill_names(struct facts *f, const json_t *o, int nested, struct api_names *out)
{
    const char *key;
    json_t *v;
    if (!facts_want(f, o, JSON_OBJECT, "names")) return false;
    out->name = pool_take(&f->pool, json_object_size(o) + 1, sizeof *out->name, f->err);
    if (!out->name) return false;
    json_object_foreach((json_t *)o, key, v)
    {
        struct api_name *n = &out->name[out->count++];
        if (!facts_enter(f, key) || !(n->name = pool_text(&f->pool, key, strlen(key), f->err)) ||
            !fill_name(f, v, nested, n))
            return false;
        facts_leave(f);
    }
    return true;
}

static bool fill_lazy(struct facts *f, const json_t *o, struct api_module *m)
{
    const json_t *lazy = json_object_get(o, "getattr"), *names = json_object_get(lazy, "names"),
                 *notices = json_object_get(lazy, "notices");
    const char *key;
    json_t *v;
    if (!lazy || json_is_null(lazy)) return true;
    if (!facts_enter(f, "getattr") || !facts_known_keys(f, lazy, "names any deprecated notices") ||
        !facts_bool_of(f, lazy, "any", &m->dynamic) ||
        !facts_text_of(f, lazy, "deprecated", TEXT_PROSE, &m->lazy_deprecated))
        return false;
    if (names && !json_is_null(names) && !facts_want(f, names, JSON_OBJECT, "names")) return false;
    m->lazy = pool_take(&f->pool, json_object_size(names) + 1, sizeof *m->lazy, f->err);
    if (!m->lazy) return false;
    json_object_foreach((json_t *)names, key, v)
    {
        struct api_lazy *n = &m->lazy[m->lazies];
        if (!api_is_identifier(key)) continue; /* a table may hold anything */
        if (json_is_object(notices) && !facts_text_of(f, notices, key, TEXT_PROSE, &n->deprecated))
            return false;
        if (!notices) n->deprecated = m->lazy_deprecated;
        if (!(n->name = pool_text(&f->pool, key, strlen(key), f->err)) ||
            !facts_text_of(f, names, key, TEXT_LINE, &n->to))
            return false;
        m->lazies++;
    }
    facts_leave(f);
    return true;
}

static bool fill_module(struct facts *f, const json_t *o, const char *name, struct api_module *m)
{
    const json_t *all = json_object_get(o, "all");
    m->has_all = json_is_array(all);
    if (!api_is_module_name(name)) return facts_bad(f, "module", name, "a dotted name");
    if (!facts_known_keys(
            f, o,
            "file package namespace compiled stub dynamic all all_unknown stars getattr names") ||
        !(m->name = pool_text(&f->pool, name, strlen(name), f->err)) ||
        !facts_text_of(f, o, "file", TEXT_LINE, &m->file) ||
        !facts_bool_of(f, o, "package", &m->package) ||
        !facts_bool_of(f, o, "all_unknown", &m->all_unknown) ||
        !facts_bool_of(f, o, "compiled", &m->compiled) ||
        !facts_bool_of(f, o, "namespace", &m->space) ||
        !facts_bool_of(f, o, "dynamic", &m->dynamic) ||
        !facts_texts_of(f, o, "all", TEXT_LINE, &m->all) ||
        !facts_texts_of(f, o, "stars", TEXT_LINE, &m->stars) || !fill_lazy(f, o, m))
        return false;
    if (!m->file) return facts_bad(f, "file", "nothing", "a path in the library");
    if (!facts_enter(f, "names") || !fill_names(f, json_object_get(o, "names"), 0, &m->names))
        return false;
    facts_leave(f);
    return true;
}

static bool fill_problem(struct facts *f, const json_t *o, void *out)
{
    struct api_problem *p = out;
    const json_t *line = json_object_get(o, "line");
    if (!facts_known_keys(f, o, "file line what") ||
        !facts_text_of(f, o, "file", TEXT_PROSE, &p->file) ||
        !facts_text_of(f, o, "what", TEXT_PROSE, &p->what) ||
        (line && !json_is_null(line) && !facts_line_of(f, o, &p->line)))
        return false;
    return p->file && p->what ? true
                              : facts_bad(f, "problem", "a part is missing", "file and what");
}

static bool fill_library(struct facts *f, const json_t *root, struct api *out)
{
    const json_t *o = json_object_get(root, "library");
    struct api_origin *l = &out->library;
    if (!facts_enter(f, "library") || !facts_known_keys(f, o, "name version source sha256") ||
        !facts_text_of(f, o, "name", TEXT_LINE, &l->name) ||
        !facts_text_of(f, o, "version", TEXT_LINE, &l->version) ||
        !facts_text_of(f, o, "source", TEXT_LINE, &l->source) ||
        !facts_text_of(f, o, "sha256", TEXT_LINE, &l->sha256))
        return false;
    if (!l->source || !l->sha256)
        return facts_bad(f, "library", "a part is missing", "source, sha256");
    facts_leave(f);
    return facts_text_of(f, root, "extractor", TEXT_LINE, &out->extractor) &&
           (out->extractor || facts_bad(f, "extractor", "nothing", "its version"));
}

static bool fill_root(struct facts *f, const json_t *root, struct api *out)
{
    const json_t *all = json_object_get(root, "modules");
    const char *key, *kind = json_string_value(json_object_get(root, "kind"));
    json_t *v;
    if (!facts_known_keys(f, root, "facts kind extractor library problems modules")) return false;
    if (json_integer_value(json_object_get(root, "facts")) != 1)
        return facts_bad(f, "facts", "another version", "1");
    if (!kind || strcmp(kind, "surface") != 0)
        return facts_bad(f, "kind", kind ? kind : "nothing", "surface");
    if (!fill_library(f, root, out) ||
        !facts_objects_of(f, root, "problems", sizeof *out->problem, fill_problem,
                          (void **)&out->problem, &out->problems))
        return false;
    if (!facts_enter(f, "modules") || !facts_want(f, all, JSON_OBJECT, "value")) return false;
    out->module = pool_take(&f->pool, json_object_size(all) + 1, sizeof *out->module, f->err);
    if (!out->module) return false;
    json_object_foreach((json_t *)all, key, v)
    {
        if (!facts_enter(f, key) || !fill_module(f, v, key, &out->module[out->modules++]))
            return false;
        facts_leave(f);
    }
    return true;
}

enum err_code api_from_json(struct api *out, const json_t *root, const char *origin,
                            struct arena *a, struct err *err)
{
    struct facts f = {.pool = {.arena = a}, .err = err, .origin = origin};
    *out = (struct api){.arena = a};
    return fill_root(&f, root, out) ? api_finish(out, err) : err->code;
}

enum err_code api_from_facts(struct api *out, const char *text, int64_t size, const char *origin,
                             struct arena *a, struct err *err)
{
    json_t *root;
    if (json_parse(text, size, origin, &root, err) != ERR_OK) return err->code;
    enum err_code rc = api_from_json(out, root, origin, a, err);
    json_decref(root);
    return rc;
}
