/* api.c: see api.h. The model's own part: names by binary search, and what a finished model holds
 * besides what was read. */
#include "compat/api.h"

#include <stdlib.h>
#include <string.h>

/* Order of `name` against the text of `length` bytes at `key`. */
static int compare_key(const char *name, const char *key, size_t length)
{
    int order = strncmp(name, key, length);
    return order ? order : name[length] != '\0';
}

struct api_module *api_module(const struct api *a, const char *name, size_t length)
{
    int low = 0, high = a->modules;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = compare_key(a->module[middle].name, name, length);
        if (order == 0) return &a->module[middle];
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

struct api_name *api_name(const struct api_names *names, const char *name, size_t length)
{
    int low = 0, high = names->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = compare_key(names->name[middle].name, name, length);
        if (order == 0) return &names->name[middle];
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

struct api_attr *api_attr(const struct api_class *c, const char *name)
{
    for (int i = 0; i < c->attrs; i++) {
        if (strcmp(c->attr[i].name, name) == 0) return &c->attr[i];
    }
    return NULL;
}

struct api_field *api_field(const struct api_class *c, const char *name)
{
    for (int i = c->fields - 1; i >= 0; i--) { /* a later annotation is the one that counts */
        if (strcmp(c->field[i].name, name) == 0) return &c->field[i];
    }
    return NULL;
}

const struct api_absent *api_absent(const struct api_absent *absent, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(absent[i].name, name) == 0) return &absent[i];
    }
    return NULL;
}

bool api_texts_have(const struct api_texts *t, const char *text)
{
    for (int i = 0; i < t->count; i++) {
        if (strcmp(t->text[i], text) == 0) return true;
    }
    return false;
}

static int by_module(const void *x, const void *y)
{
    return strcmp(((const struct api_module *)x)->name, ((const struct api_module *)y)->name);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct api_name *)x)->name, ((const struct api_name *)y)->name);
}

static int by_attr(const void *x, const void *y)
{
    return strcmp(((const struct api_attr *)x)->name, ((const struct api_attr *)y)->name);
}

static int by_absent(const void *x, const void *y)
{
    return strcmp(((const struct api_absent *)x)->name, ((const struct api_absent *)y)->name);
}

static int by_lazy(const void *x, const void *y)
{
    return strcmp(((const struct api_lazy *)x)->name, ((const struct api_lazy *)y)->name);
}

static void sort(void *base, int count, size_t size, int (*by)(const void *, const void *))
{
    if (count > 1) qsort(base, (size_t)count, size, by);
}

struct finish {
    struct pool pool;
    struct api_module *module;
    struct err *err;
};

static enum err_code finish_names(struct finish *f, struct api_names *names, struct api_def *owner);

/* Attributes keep one entry a name: the extractor gives one, a hostile file is refused. */
static enum err_code finish_class(struct finish *f, struct api_def *d)
{
    struct api_class *c = d->class_;
    sort(c->attr, c->attrs, sizeof *c->attr, by_attr);
    for (int i = 1; i < c->attrs; i++) {
        if (strcmp(c->attr[i - 1].name, c->attr[i].name) == 0)
            return err_set(f->err, ERR_INPUT, "API surface|%s|attribute %s twice|once", d->path,
                           c->attr[i].name);
    }
    return finish_names(f, &c->members, d);
}

static enum err_code finish_def(struct finish *f, const struct api_name *name, struct api_def *d,
                                struct api_def *owner)
{
    d->name = name->name;
    d->module = f->module;
    d->owner = owner;
    d->path = pool_format(&f->pool, f->err, "%s%c%s", owner ? owner->path : f->module->name,
                          owner ? '.' : ':', name->name);
    if (!d->path) return f->err->code;
    return d->kind == API_CLASS ? finish_class(f, d) : ERR_OK;
}

static enum err_code finish_names(struct finish *f, struct api_names *names, struct api_def *owner)
{
    sort(names->name, names->count, sizeof *names->name, by_name);
    for (int i = 0; i < names->count; i++) {
        struct api_name *n = &names->name[i];
        if (i > 0 && strcmp(names->name[i - 1].name, n->name) == 0)
            return err_set(f->err, ERR_INPUT, "API surface|%s|name %s twice|once",
                           owner ? owner->path : f->module->name, n->name);
        for (int k = 0; k < n->defs; k++) {
            if (finish_def(f, n, &n->def[k], owner) != ERR_OK) return f->err->code;
        }
    }
    return ERR_OK;
}

/* The problem of a module's own file, so that a lookup need not search. */
static void attach_problems(struct api *a)
{
    for (int i = 0; i < a->problems; i++) {
        for (int m = 0; m < a->modules; m++) {
            if (!a->module[m].problem && strcmp(a->module[m].file, a->problem[i].file) == 0)
                a->module[m].problem = a->problem[i].what;
        }
    }
}

enum err_code api_finish(struct api *a, struct err *err)
{
    struct finish f = {.pool = {.arena = a->arena}, .err = err};
    sort(a->module, a->modules, sizeof *a->module, by_module);
    sort(a->absent, a->absents, sizeof *a->absent, by_absent);
    for (int i = 0; i < a->modules; i++) {
        struct api_module *m = f.module = &a->module[i];
        if (i > 0 && strcmp(a->module[i - 1].name, m->name) == 0)
            return err_set(err, ERR_INPUT, "API surface|%s|a module twice|once", m->name);
        sort(m->lazy, m->lazies, sizeof *m->lazy, by_lazy);
        sort(m->absent, m->absents, sizeof *m->absent, by_absent);
        if (finish_names(&f, &m->names, NULL) != ERR_OK) return err->code;
    }
    attach_problems(a);
    return ERR_OK;
}
