/* api_read_def.c: the symbols of a contract file; see api_read.c. */
#include "compat/api_fields.h"
#include "compat/api_read.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NESTED = 8 };

static bool read_params(struct api_reader *r, const struct yaml_node *n, struct api_function *f)
{
    struct api_texts texts = {0};
    if (!api_read_texts(r, n, &texts)) return false;
    const char *wrong = api_params_from(&texts, &f->params, &r->pool, r->err);
    if (r->err->code != ERR_OK) return false;
    return !wrong || api_read_bad_key(r, n, "contract parameters", wrong, "what a def can have");
}

static bool read_shapes(struct api_reader *r, const struct yaml_node *n, struct api_function *f)
{
    struct api_texts texts = {0};
    if (!api_read_texts(r, n, &texts)) return false;
    f->shape = pool_take(&r->pool, (size_t)texts.count + 1, sizeof *f->shape, r->err);
    for (int i = 0; f->shape && i < texts.count; i++) {
        const char *text = texts.text[i], *blank = strchr(text, ' ');
        bool bad = !text[0] || (blank && (strncmp(blank, " if ", 4) != 0 || blank == text ||
                                          !api_fits_line(blank + 4)));
        if (bad) return api_read_bad_key(r, n, "contract shape", text, "SHAPE or SHAPE if COND");
        f->shape[i].shape =
            blank ? pool_text(&r->pool, text, (size_t)(blank - text), r->err) : text;
        f->shape[i].when = blank ? blank + 4 : NULL;
        f->shapes++;
    }
    return r->err->code == ERR_OK;
}

static bool read_warning(struct api_reader *r, const struct yaml_node *n, struct api_warning *w)
{
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        bool text = strcmp(c->key, "text") == 0;
        if (!text && strcmp(c->key, "when") != 0)
            return api_read_bad_key(r, c, "contract warning", c->key, "text or when");
        if (!api_read_text(r, c, text ? &w->text : &w->when)) return false;
    }
    return w->text ? true : api_read_bad(r, n, "contract warning", "no text", "text");
}

static bool read_warnings(struct api_reader *r, const struct yaml_node *n, struct api_function *f)
{
    if (n->kind != YAML_LIST)
        return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a list");
    f->warning = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof *f->warning, r->err);
    for (const struct yaml_node *c = n->child; c && f->warning; c = c->next) {
        if (!read_warning(r, c, &f->warning[f->warnings++])) return false;
    }
    return f->warning != NULL;
}

static bool read_binding(struct api_reader *r, const struct yaml_node *n, struct api_function *f)
{
    static const char *const bindings[] = {"function", "instance",        "class", "static",
                                           "property", "cached_property", NULL};
    const char *text;
    int i = 0;
    if (!api_read_text(r, n, &text)) return false;
    while (bindings[i] && strcmp(bindings[i], text) != 0) i++;
    if (!bindings[i]) return api_read_bad(r, n, "contract binding", text, "class, static, ...");
    f->binding = (enum api_binding)i;
    return true;
}

/* True where the key is one of a function; *ok: it was right. */
static bool function_key(struct api_reader *r, const struct yaml_node *n, struct api_function *f,
                         bool *ok)
{
    static const char *const words[] = {"async",     "abstract", "overload", "setter",
                                        "generator", "wrapped",  NULL};
    bool *flag[] = {&f->async, &f->abstract, &f->overload, &f->setter, &f->generator, &f->wrapped};
    if (strcmp(n->key, "def") == 0)
        *ok = read_params(r, n, f);
    else if (strcmp(n->key, "returns") == 0)
        *ok = api_read_text(r, n, &f->returns);
    else if (strcmp(n->key, "binding") == 0)
        *ok = read_binding(r, n, f);
    else if (strcmp(n->key, "is") == 0)
        *ok = api_read_words(r, n, words, flag);
    else if (strcmp(n->key, "decorators") == 0)
        *ok = api_read_texts(r, n, &f->decorators);
    else if (strcmp(n->key, "shapes") == 0)
        *ok = read_shapes(r, n, f);
    else if (strcmp(n->key, "warns") == 0)
        *ok = read_warnings(r, n, f);
    else
        return false;
    return true;
}

/* A text, or {field: text, deprecated: ..., when: [...]}. */
static bool read_field(struct api_reader *r, const struct yaml_node *n, struct api_field *f)
{
    const char *text = n->kind == YAML_TEXT ? n->text : NULL, *deprecated = NULL;
    struct api_texts when = {0};
    for (const struct yaml_node *c = n->kind == YAML_MAP ? n->child : NULL; c; c = c->next) {
        bool ok;
        if (strcmp(c->key, "field") == 0)
            ok = api_read_text(r, c, &text);
        else if (strcmp(c->key, "deprecated") == 0)
            ok = api_read_text(r, c, &deprecated);
        else if (strcmp(c->key, "when") == 0)
            ok = api_read_texts(r, c, &when);
        else
            ok = api_read_bad_key(r, c, "contract field", c->key, "field, deprecated or when");
        if (!ok) return false;
    }
    if (!text) return api_read_bad(r, n, "contract field", yaml_kind_name(n), "a text");
    const char *wrong = api_field_from(text, f, &r->pool, r->err);
    f->deprecated = deprecated;
    f->when = when;
    if (r->err->code != ERR_OK) return false;
    return !wrong || api_read_bad(r, n, "contract field", wrong, "NAME: TYPE = DEFAULT # words");
}

static bool read_fields(struct api_reader *r, const struct yaml_node *n, struct api_class *c)
{
    if (n->kind != YAML_LIST)
        return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a list");
    c->field = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof *c->field, r->err);
    for (const struct yaml_node *i = n->child; i && c->field; i = i->next) {
        if (!read_field(r, i, &c->field[c->fields++])) return false;
    }
    return c->field != NULL;
}

static bool read_attrs(struct api_reader *r, const struct yaml_node *n, struct api_class *c)
{
    struct api_texts texts = {0};
    if (!api_read_texts(r, n, &texts)) return false;
    c->attr = pool_take(&r->pool, (size_t)texts.count + 1, sizeof *c->attr, r->err);
    for (int i = 0; c->attr && i < texts.count; i++) {
        const char *wrong = api_attr_from(texts.text[i], &c->attr[c->attrs++], &r->pool, r->err);
        if (r->err->code != ERR_OK) return false;
        if (wrong)
            return api_read_bad_key(r, n, "contract attribute", wrong,
                                    "NAME: TYPE = VALUE # in METHOD calls NAME");
    }
    return c->attr != NULL;
}

static bool read_keywords(struct api_reader *r, const struct yaml_node *n, struct api_class *c)
{
    if (!api_read_map(r, n)) return false;
    c->keyword = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof *c->keyword, r->err);
    for (const struct yaml_node *k = n->child; k && c->keyword; k = k->next) {
        c->keyword[c->keywords].name = k->key;
        if (!api_read_text(r, k, &c->keyword[c->keywords++].value)) return false;
    }
    return c->keyword != NULL;
}

static bool class_key(struct api_reader *r, const struct yaml_node *n, struct api_class *c,
                      bool *ok)
{
    if (strcmp(n->key, "class") == 0)
        *ok = api_read_texts(r, n, &c->bases);
    else if (strcmp(n->key, "keywords") == 0)
        *ok = read_keywords(r, n, c);
    else if (strcmp(n->key, "decorators") == 0)
        *ok = api_read_texts(r, n, &c->decorators);
    else if (strcmp(n->key, "fields") == 0)
        *ok = read_fields(r, n, c);
    else if (strcmp(n->key, "attrs") == 0)
        *ok = read_attrs(r, n, c);
    else if (strcmp(n->key, "others") == 0)
        *ok = c->partial = api_read_texts(r, n, &c->others);
    else if (strcmp(n->key, "dynamic") == 0)
        *ok = api_read_text(r, n, &c->dynamic);
    else
        return false;
    return true;
}

static bool value_key(struct api_reader *r, const struct yaml_node *n, struct api_def *d, bool *ok)
{
    if (strcmp(n->key, "value") != 0) return false;
    *ok = api_read_map(r, n);
    for (const struct yaml_node *c = *ok ? n->child : NULL; c && *ok; c = c->next) {
        const char **to = strcmp(c->key, "type") == 0   ? &d->value.type
                          : strcmp(c->key, "is") == 0   ? &d->value.text
                          : strcmp(c->key, "call") == 0 ? &d->value.call
                                                        : NULL;
        *ok = to ? api_read_text(r, c, to)
                 : api_read_bad_key(r, c, "contract value", c->key, "type, is or call");
    }
    return true;
}

/* The kind by its key, and room for what the kind holds. */
static bool begin_def(struct api_reader *r, const struct yaml_node *n, bool in_class,
                      struct api_def *d)
{
    static const char *const keys[] = {
        [API_DEF] = "def", [API_CLASS] = "class", [API_ALIAS] = "alias", [API_VALUE] = "value"};
    int kinds = 0;
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        for (int k = 0; k <= API_VALUE; k++) {
            if (strcmp(c->key, keys[k]) != 0) continue;
            d->kind = (enum api_kind)k;
            kinds++;
        }
    }
    if (kinds != 1)
        return api_read_bad_key(r, n, "contract symbol", kinds ? "two kinds" : "no kind",
                                "one of def, class, alias, value");
    if (d->kind == API_DEF) d->function = pool_take(&r->pool, 1, sizeof *d->function, r->err);
    if (d->kind == API_DEF && d->function)
        d->function->binding = in_class ? API_INSTANCE : API_FUNCTION;
    if (d->kind == API_CLASS) d->class_ = pool_take(&r->pool, 1, sizeof *d->class_, r->err);
    return r->err->code == ERR_OK;
}

static bool read_def(struct api_reader *r, const struct yaml_node *n, bool in_class,
                     struct api_def *d)
{
    if (!begin_def(r, n, in_class, d)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        bool ok = true, taken = true;
        if (strcmp(c->key, "deprecated") == 0)
            ok = api_read_text(r, c, &d->deprecated);
        else if (strcmp(c->key, "when") == 0)
            ok = api_read_texts(r, c, &d->when);
        else if (d->kind == API_DEF)
            taken = function_key(r, c, d->function, &ok);
        else if (d->kind == API_CLASS)
            taken = class_key(r, c, d->class_, &ok);
        else if (d->kind == API_VALUE)
            taken = value_key(r, c, d, &ok);
        else if ((taken = strcmp(c->key, "alias") == 0))
            ok = api_read_text(r, c, &d->to);
        if (!taken) return api_read_bad_key(r, c, "contract symbol", c->key, "a key of this kind");
        if (!ok) return false;
    }
    if (d->kind == API_ALIAS && (!d->to[0] || strchr(d->to, ' ')))
        return api_read_bad_key(r, n, "contract alias", d->to, "a module, or module:Name");
    return true;
}

static bool read_name(struct api_reader *r, const struct yaml_node *n, bool in_class,
                      struct api_name *out)
{
    bool list = n->kind == YAML_LIST;
    int count = list ? api_read_count(n) : 1;
    if (list && count < 2)
        return api_read_bad_key(r, n, "contract symbol", "a list of one", "two definitions");
    out->def = pool_take(&r->pool, (size_t)count, sizeof *out->def, r->err);
    if (!out->def) return false;
    if (!list) return read_def(r, n, in_class, &out->def[out->defs++]);
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (!read_def(r, c, in_class, &out->def[out->defs++])) return false;
    }
    return true;
}

/* The names that "Class.Inner@2.method" belongs to, and its own last part. NULL: an outer class is
 * not there. */
static struct api_names *container(struct api_names *names, const char *path, const char **last)
{
    for (;;) {
        size_t n = strcspn(path, ".@");
        int64_t which = 1;
        char number[12];
        if (!path[n]) {
            *last = path;
            return names;
        }
        const struct api_name *outer = api_name(names, path, n);
        path += n;
        if (*path == '@') {
            size_t digits = strcspn(++path, ".");
            snprintf(number, sizeof number, "%.*s", (int)(digits < 11 ? digits : 11), path);
            if (!text_int(number, &which) || which < 2) return NULL;
            path += digits;
        }
        if (*path != '.' || !outer || which > outer->defs) return NULL;
        struct api_def *d = &outer->def[which - 1];
        if (d->kind != API_CLASS) return NULL;
        names = &d->class_->members;
        path++;
    }
}

static int depth_of(const char *key)
{
    int depth = 0;
    for (const char *s = strchr(key, ':'); *s; s++) depth += *s == '.';
    return depth;
}

/* Where a symbol goes: its module's names, or those of its class. */
static struct api_names *place_of(struct api_reader *r, const struct yaml_node *n, struct api *out,
                                  const char **last)
{
    const char *colon = strchr(n->key, ':');
    struct api_module *m = api_module(out, n->key, (size_t)(colon - n->key));
    if (!m) {
        api_read_bad_key(r, n, "contract symbol", "a module that is not under modules", "one");
        return NULL;
    }
    struct api_names *names = container(&m->names, colon + 1, last);
    if (!names)
        api_read_bad_key(r, n, "contract symbol", "a member of no class here", "its class");
    else if (!api_is_identifier(*last))
        api_read_bad_key(r, n, "contract symbol", *last, "an identifier");
    return r->err->code == ERR_OK ? names : NULL;
}

/* The symbols of one depth: those around them are there by now. Names are counted, then filled in;
 * they come in ascending order. */
static bool read_depth(struct api_reader *r, const struct yaml_node **node, int count, int depth,
                       struct api *out)
{
    const char *last;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            if (depth_of(node[i]->key) != depth) continue;
            struct api_names *names = place_of(r, node[i], out, &last);
            if (!names) return false;
            if (pass == 0) {
                names->room++;
                continue;
            }
            if (!names->name)
                names->name = pool_take(&r->pool, (size_t)names->room, sizeof *names->name, r->err);
            if (!names->name) return false;
            struct api_name *name = &names->name[names->count++];
            name->name = last;
            if (!read_name(r, node[i], depth > 0, name)) return false;
        }
    }
    return true;
}

bool api_read_symbols(struct api_reader *r, const struct yaml_node **node, int count,
                      struct api *out)
{
    for (int i = 0; i < count; i++) {
        if (depth_of(node[i]->key) > NESTED)
            return api_read_bad_key(r, node[i], "contract symbol", "nested too deep",
                                    "at most 8 levels");
    }
    for (int depth = 0; depth <= NESTED; depth++) {
        if (!read_depth(r, node, count, depth, out)) return false;
    }
    return true;
}
