/* api_write.c: api_print() and api_write() of api.h: the contract file. It is made to be committed
 * and reviewed: one block a symbol at the left margin, sorted, so that a diff shows whole symbols
 * and names them; parameters as Python writes them, one a line where they do not fit on one; line
 * numbers apart from all that, in one section at the end.
 *
 *     assay: 1
 *     kind: api
 *     library: {name: vllm, version: "0.16.0", source: vllm-0.16.0.whl, sha256: 12ab...}
 *     extractor: "1"
 *     for: {name: speculators, version: ..., ...}      recorded for a consumer: what it did not
 *     problems:                                        reach is not here (modules.M.partial,
 *       - {file: pkg/bad.py, line: 3, what: ...}       CLASS.others)
 *     absent:                                          modules that were looked for
 *       pkg.gone: [pkg.here]                           where it may be now
 *     modules:
 *       pkg.mod:
 *         file: pkg/mod.py
 *         is: [package, namespace, compiled, partial, dynamic, all_unknown]     those that hold
 *         all: [...]
 *         stars: [pkg.other]
 *         lazy: {Name: pkg.mod:Name, Other: ""}        "": it is there, what it is is not known
 *         lazy_deprecated: ...                         what __getattr__ warns of
 *         lazy_notices: {Name: ...}                    of one name
 *         absent: {Name: [pkg.else:Name]}
 *     pkg.mod:function:
 *       def: ["x: int", "*", "y: str = ''"]
 *       returns: bool
 *       binding: class                                 default: instance in a class, else function
 *       is: [async, abstract, overload, setter, generator, wrapped]
 *       decorators: [...]
 *       shapes: [list if x is None, value]             what its return statements show
 *       warns: [{text: ..., when: ...}]
 *       deprecated: ...
 *       when: [TYPE_CHECKING]
 *     pkg.mod:Class:
 *       class: [pkg.Base]
 *       keywords: {frozen: "True"}
 *       decorators: [...]
 *       fields: [...]
 *       attrs: [...]
 *       others: [...]                                  names whose definitions were not recorded
 *       dynamic: setattr
 *     pkg.mod:Class.method:
 *     pkg.mod:Name:
 *       alias: pkg.other:Name
 *     pkg.mod:VALUE:
 *       value: {type: int, is: "3", call: pkg.f}
 *     lines:
 *       pkg.mod: {function: [12, 20], ...}             definition; then its shapes and warnings, or
 *                                                      its fields and attributes, in their order
 *
 * A name with several definitions holds a list of such blocks; members of the second and later of
 * them are named pkg.mod:Class@2.method. Read back by api_read.c; tests/test_api_write.c. */
#include "compat/api_emit.h"
#include "compat/api_fields.h"
#include "core/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_origin(struct api_emit *w, const char *key, const struct api_origin *o)
{
    bool first = true;
    fprintf(w->f, "%s: {", key);
    api_emit_row(w, &first, "name", o->name);
    api_emit_row(w, &first, "version", o->version);
    api_emit_row(w, &first, "source", o->source);
    api_emit_row(w, &first, "sha256", o->sha256);
    fputs("}\n", w->f);
}

struct word {
    const char *word;
    bool set;
};

static void put_words(struct api_emit *w, int indent, const struct word *words, int count)
{
    const char *text[8];
    struct api_texts t = {text, 0};
    for (int i = 0; i < count; i++) {
        if (words[i].set) t.text[t.count++] = words[i].word;
    }
    api_emit_some(w, indent, "is", &t);
}

static void put_absent(struct api_emit *w, int indent, const struct api_absent *absent, int count)
{
    if (count == 0) return;
    fprintf(w->f, "%*sabsent:\n", indent, "");
    for (int i = 0; i < count; i++) {
        api_emit_list(w, indent + 2, absent[i].name, &absent[i].now, false);
    }
}

static void put_module(struct api_emit *w, const struct api_module *m)
{
    const struct word words[] = {{"package", m->package},   {"namespace", m->space},
                                 {"compiled", m->compiled}, {"partial", m->partial},
                                 {"dynamic", m->dynamic},   {"all_unknown", m->all_unknown}};
    api_emit_indent(w, 2);
    api_emit_text(w->f, m->name, false);
    fputs(":\n", w->f);
    api_emit_pair(w, 4, "file", m->file);
    put_words(w, 4, words, 6);
    if (m->has_all) api_emit_list(w, 4, "all", &m->all, true);
    api_emit_some(w, 4, "stars", &m->stars);
    if (m->lazies) fputs("    lazy:\n", w->f);
    for (int i = 0; i < m->lazies; i++) {
        api_emit_pair(w, 6, m->lazy[i].name, m->lazy[i].to ? m->lazy[i].to : "");
    }
    api_emit_pair(w, 4, "lazy_deprecated", m->lazy_deprecated);
    bool first = true;
    for (int i = 0; i < m->lazies; i++) {
        if (m->lazy[i].deprecated && first) fputs("    lazy_notices:\n", w->f);
        if (m->lazy[i].deprecated) first = false;
        api_emit_pair(w, 6, m->lazy[i].name, m->lazy[i].deprecated);
    }
    put_absent(w, 4, m->absent, m->absents);
}

static void put_function(struct api_emit *w, int indent, const struct api_def *d)
{
    static const char *const bindings[] = {"function", "instance", "class",
                                           "static",   "property", "cached_property"};
    const struct api_function *f = d->function;
    const struct word words[] = {{"async", f->async},         {"abstract", f->abstract},
                                 {"overload", f->overload},   {"setter", f->setter},
                                 {"generator", f->generator}, {"wrapped", f->wrapped}};
    struct api_texts params = api_params_texts(&f->params, &w->pool, w->err);
    api_emit_list(w, indent, "def", &params, false);
    api_emit_pair(w, indent, "returns", f->returns);
    if (f->binding != (d->owner ? API_INSTANCE : API_FUNCTION))
        api_emit_pair(w, indent, "binding", bindings[f->binding]);
    put_words(w, indent, words, 6);
    api_emit_some(w, indent, "decorators", &f->decorators);
    struct api_texts shapes = {pool_take(&w->pool, (size_t)f->shapes + 1, sizeof(char *), w->err),
                               0};
    for (int i = 0; shapes.text && i < f->shapes; i++) {
        const struct api_shape *s = &f->shape[i];
        shapes.text[shapes.count++] = pool_format(&w->pool, w->err, "%s%s%s", s->shape,
                                                  s->when ? " if " : "", s->when ? s->when : "");
    }
    if (w->err->code == ERR_OK) api_emit_some(w, indent, "shapes", &shapes);
    if (f->warnings) fprintf(w->f, "%*swarns:\n", indent, "");
    for (int i = 0; i < f->warnings; i++) {
        bool first = true;
        fprintf(w->f, "%*s- {", indent + 2, "");
        api_emit_row(w, &first, "text", f->warning[i].text);
        api_emit_row(w, &first, "when", f->warning[i].when);
        fputs("}\n", w->f);
    }
}

/* A field is its text, or a mapping where more is to be said of it. */
static void put_fields(struct api_emit *w, int indent, const struct api_class *c)
{
    if (c->fields) fprintf(w->f, "%*sfields:\n", indent, "");
    for (int i = 0; i < c->fields; i++) {
        const struct api_field *f = &c->field[i];
        const char *text = api_field_text(f, &w->pool, w->err);
        if (!text) return;
        fprintf(w->f, "%*s- ", indent + 2, "");
        if (!f->deprecated && f->when.count == 0) {
            api_emit_text(w->f, text, false);
            fputc('\n', w->f);
            continue;
        }
        fputs("field: ", w->f);
        api_emit_text(w->f, text, false);
        fputc('\n', w->f);
        api_emit_pair(w, indent + 4, "deprecated", f->deprecated);
        api_emit_some(w, indent + 4, "when", &f->when);
    }
}

static void put_class(struct api_emit *w, int indent, const struct api_class *c)
{
    struct api_texts attrs = {pool_take(&w->pool, (size_t)c->attrs + 1, sizeof(char *), w->err), 0};
    for (int i = 0; attrs.text && i < c->attrs; i++) {
        attrs.text[i] = api_attr_text(&c->attr[i], &w->pool, w->err);
        attrs.count += attrs.text[i] != NULL;
    }
    if (w->err->code != ERR_OK) return;
    api_emit_list(w, indent, "class", &c->bases, false);
    if (c->keywords) fprintf(w->f, "%*skeywords:\n", indent, "");
    for (int i = 0; i < c->keywords; i++) {
        api_emit_indent(w, indent + 2);
        api_emit_text(w->f, c->keyword[i].name, false);
        fputs(": ", w->f);
        api_emit_text(w->f, c->keyword[i].value, false);
        fputc('\n', w->f);
    }
    api_emit_some(w, indent, "decorators", &c->decorators);
    put_fields(w, indent, c);
    if (attrs.count) fprintf(w->f, "%*sattrs:\n", indent, "");
    for (int i = 0; i < attrs.count; i++) {
        fprintf(w->f, "%*s- ", indent + 2, "");
        api_emit_text(w->f, attrs.text[i], false);
        fputc('\n', w->f);
    }
    if (c->partial) api_emit_list(w, indent, "others", &c->others, true);
    api_emit_pair(w, indent, "dynamic", c->dynamic);
}

static void put_value(struct api_emit *w, int indent, const struct api_def *d)
{
    bool first = true;
    fprintf(w->f, "%*svalue: {", indent, "");
    api_emit_row(w, &first, "type", d->value.type);
    api_emit_row(w, &first, "is", d->value.text);
    api_emit_row(w, &first, "call", d->value.call);
    fputs("}\n", w->f);
}

static void put_def(struct api_emit *w, int indent, const struct api_def *d)
{
    if (d->kind == API_DEF) put_function(w, indent, d);
    if (d->kind == API_CLASS) put_class(w, indent, d->class_);
    if (d->kind == API_ALIAS) api_emit_pair(w, indent, "alias", d->to);
    if (d->kind == API_VALUE) put_value(w, indent, d);
    api_emit_pair(w, indent, "deprecated", d->deprecated);
    api_emit_some(w, indent, "when", &d->when);
}

/* The blocks of a name and of all that is inside of it. `prefix`: "pkg.mod:" or "pkg.mod:Class.".
 */
static void put_name(struct api_emit *w, const char *prefix, const struct api_name *n)
{
    char *key = pool_format(&w->pool, w->err, "%s%s", prefix, n->name);
    if (!key) return;
    api_emit_text(w->f, key, false);
    fputs(":\n", w->f);
    for (int i = 0; i < n->defs; i++) {
        if (n->defs > 1) fputs("  -\n", w->f);
        put_def(w, n->defs > 1 ? 4 : 2, &n->def[i]);
    }
    for (int i = 0; i < n->defs; i++) {
        if (n->def[i].kind != API_CLASS) continue;
        char *inner = i ? pool_format(&w->pool, w->err, "%s@%d.", key, i + 1)
                        : pool_format(&w->pool, w->err, "%s.", key);
        const struct api_names *members = &n->def[i].class_->members;
        for (int k = 0; inner && k < members->count; k++) put_name(w, inner, &members->name[k]);
    }
}

static void put_numbers(struct api_emit *w, const struct api_def *d, bool *first)
{
    fprintf(w->f, "%s%d", *first ? "" : ", ", d->line);
    *first = false;
    for (int i = 0; d->kind == API_DEF && i < d->function->shapes; i++)
        fprintf(w->f, ", %d", d->function->shape[i].line);
    for (int i = 0; d->kind == API_DEF && i < d->function->warnings; i++)
        fprintf(w->f, ", %d", d->function->warning[i].line);
    for (int i = 0; d->kind == API_CLASS && i < d->class_->fields; i++)
        fprintf(w->f, ", %d", d->class_->field[i].line);
    for (int i = 0; d->kind == API_CLASS && i < d->class_->attrs; i++)
        fprintf(w->f, ", %d", d->class_->attr[i].line);
}

static void put_lines(struct api_emit *w, const char *prefix, const struct api_name *n)
{
    char *key = pool_format(&w->pool, w->err, "%s%s", prefix, n->name);
    bool first = true;
    if (!key) return;
    api_emit_indent(w, 4);
    api_emit_text(w->f, key, false);
    fputs(": [", w->f);
    for (int i = 0; i < n->defs; i++) put_numbers(w, &n->def[i], &first);
    fputs("]\n", w->f);
    for (int i = 0; i < n->defs; i++) {
        if (n->def[i].kind != API_CLASS) continue;
        char *inner = i ? pool_format(&w->pool, w->err, "%s@%d.", key, i + 1)
                        : pool_format(&w->pool, w->err, "%s.", key);
        const struct api_names *members = &n->def[i].class_->members;
        for (int k = 0; inner && k < members->count; k++) put_lines(w, inner, &members->name[k]);
    }
}

static void put_header(struct api_emit *w, const struct api *a)
{
    fputs("assay: 1\nkind: api\n", w->f);
    put_origin(w, "library", &a->library);
    api_emit_pair(w, 0, "extractor", a->extractor);
    if (a->consumer.name) put_origin(w, "for", &a->consumer);
    if (a->problems) fputs("problems:\n", w->f);
    for (int i = 0; i < a->problems; i++) {
        bool first = true;
        fputs("  - {", w->f);
        api_emit_row(w, &first, "file", a->problem[i].file);
        fprintf(w->f, ", line: %d", a->problem[i].line);
        api_emit_row(w, &first, "what", a->problem[i].what);
        fputs("}\n", w->f);
    }
    put_absent(w, 0, a->absent, a->absents);
}

static void put_all(struct api_emit *w, const struct api *a)
{
    put_header(w, a);
    fputs("modules:\n", w->f);
    for (int i = 0; i < a->modules; i++) put_module(w, &a->module[i]);
    for (int i = 0; i < a->modules; i++) {
        const struct api_module *m = &a->module[i];
        char *prefix = pool_format(&w->pool, w->err, "%s:", m->name);
        for (int k = 0; prefix && k < m->names.count; k++) put_name(w, prefix, &m->names.name[k]);
    }
    fputs("lines:\n", w->f);
    for (int i = 0; i < a->modules; i++) {
        const struct api_module *m = &a->module[i];
        if (m->names.count == 0) continue;
        api_emit_indent(w, 2);
        api_emit_text(w->f, m->name, false);
        fputs(":\n", w->f);
        for (int k = 0; k < m->names.count; k++) put_lines(w, "", &m->names.name[k]);
    }
}

enum err_code api_print(const struct api *a, char **text, int64_t *size, struct err *err)
{
    struct arena arena = ARENA_INIT;
    size_t bytes = 0;
    struct api_emit w = {.pool = {.arena = &arena}, .err = err};
    *text = NULL;
    *size = 0;
    w.f = open_memstream(text, &bytes);
    if (!w.f) return err_set(err, ERR_MEMORY, "write contract|memory|no stream|enough memory");
    put_all(&w, a);
    bool failed = ferror(w.f) != 0;
    if (fclose(w.f) != 0 || failed)
        err_set(err, ERR_MEMORY, "write contract|memory|no room for the text|enough memory");
    arena_release(&arena, NULL);
    *size = (int64_t)bytes;
    if (err->code == ERR_OK) return ERR_OK;
    free(*text);
    *text = NULL;
    return err->code;
}

enum err_code api_write(const struct api *a, const char *path, struct err *err)
{
    struct file_out out = FILE_OUT_INIT;
    char *text;
    int64_t size;
    if (api_print(a, &text, &size, err) != ERR_OK) return err->code;
    if (file_out_open(&out, path, err) == ERR_OK && file_out_write(&out, text, size, err) == ERR_OK)
        (void)!file_out_commit(&out, err);
    file_out_abandon(&out);
    free(text);
    return err->code;
}
