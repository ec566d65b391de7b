/* api_mro.c: api_mro() and api_inherits() of api_lookup.h: the order of C3 over the classes of the
 * library; a base outside of it is a leaf. */
#include "compat/api_base.h"
#include "compat/api_reach.h"

#include <stdio.h>
#include <string.h>

enum { BASES = 24, NAME_BYTES = 256 };

/* A class of the library, or the name of one outside. */
struct node {
    const struct api_def *def;
    const char *outside;
};

/* A class's order. It is kept with the class: what many classes inherit from is ordered once. */
struct api_order {
    struct node *node;
    int count;
    bool broken;
};

/* An order while it is made. */
struct making {
    struct node node[API_MRO];
    int count;
    bool broken;
};

/* What is merged: the order of a base, or the bases themselves. */
struct list {
    const struct node *node;
    int count;
};

static bool same(struct node x, struct node y)
{
    if (x.def || y.def) return x.def == y.def;
    return strcmp(x.outside, y.outside) == 0;
}

/* "pkg.Base[int]" without what is behind the name, in buf; "" for what is no dotted name. */
static const char *base_name(const char *text, char *buf)
{
    size_t n = strcspn(text, "[");
    buf[0] = '\0';
    if (n >= NAME_BYTES || memchr(text, '(', n) || memchr(text, ' ', n)) return buf;
    snprintf(buf, NAME_BYTES, "%.*s", (int)n, text);
    return buf;
}

/* What a base's text means. Outside names keep the text of the model, brackets and all: it lives as
 * long. */
static struct node resolve(const struct api *a, const struct api_def *of, const char *text)
{
    char name[NAME_BYTES], local[2 * NAME_BYTES];
    struct api_result r;
    base_name(text, name);
    if (!name[0]) return (struct node){.outside = text};
    if (!strchr(name, '.')) { /* a plain name may still be one of the module */
        snprintf(local, sizeof local, "%s:%s", of->module->name, name);
        if (api_name(&of->module->names, name, strlen(name))) {
            api_find(a, local, &r);
            const struct api_def *c = api_class_of(&r);
            if (c) return (struct node){.def = c};
            return (struct node){.outside = r.outside ? r.outside : text};
        }
        return (struct node){.outside = text};
    }
    api_find(a, name, &r);
    const struct api_def *c = api_class_of(&r);
    if (c) return (struct node){.def = c};
    /* The outside name may lie in our buffer when nothing led anywhere. */
    bool elsewhere = r.outside && r.outside != name;
    return (struct node){.outside = elsewhere ? r.outside : text};
}

static void push(struct making *o, struct node n)
{
    for (int i = 0; i < o->count; i++) {
        if (same(o->node[i], n)) return;
    }
    if (o->count == API_MRO)
        o->broken = true;
    else
        o->node[o->count++] = n;
}

static bool in_tail(const struct list *o, int head, struct node n)
{
    for (int i = head + 1; i < o->count; i++) {
        if (same(o->node[i], n)) return true;
    }
    return false;
}

/* Merges the orders of the bases: always the first head that stands in no other tail. */
static void merge(const struct list *list, int lists, struct making *out)
{
    int head[BASES + 1] = {0};
    for (;;) {
        int best = -1, left = 0;
        for (int i = 0; i < lists; i++) {
            if (head[i] == list[i].count) continue;
            left++;
            bool blocked = false;
            for (int k = 0; k < lists; k++) {
                blocked |= in_tail(&list[k], head[k], list[i].node[head[i]]);
            }
            if (!blocked && best < 0) best = i;
        }
        if (left == 0) return;
        if (best < 0) { /* no order exists: go on as if there were one */
            out->broken = true;
            for (best = 0; head[best] == list[best].count;) best++;
        }
        struct node n = list[best].node[head[best]];
        push(out, n);
        for (int i = 0; i < lists; i++) {
            if (head[i] < list[i].count && same(list[i].node[head[i]], n)) head[i]++;
        }
    }
}

static const struct api_order *keep(const struct api *a, const struct api_def *c,
                                    const struct making *made)
{
    struct err err = ERR_INIT; /* nobody can be told; what has no order has unknown bases */
    size_t bytes = (size_t)made->count * sizeof made->node[0];
    struct api_order *o = arena_alloc(a->arena, 1, sizeof *o, "order of bases", &err);
    struct node *node = o ? arena_alloc(a->arena, 1, bytes, "order of bases", &err) : NULL;
    if (!node) return NULL;
    memcpy(node, made->node, bytes);
    *o = (struct api_order){node, made->count, made->broken};
    c->class_->order = o;
    if (a->reach) api_reach_add(a->reach, o);
    return o;
}

/* The order that is kept, where its making was noted too, if notes are taken. */
static const struct api_order *kept(const struct api *a, const struct api_def *c)
{
    const struct api_order *o = c->class_->order;
    return o && (!a->reach || api_reached(a->reach, o)) ? o : NULL;
}

/* For bases that go on without end, in a circle or past API_MRO: each class once, near ones first.
 */
static void flatten(const struct api *a, const struct api_def *c, struct making *out)
{
    push(out, (struct node){.def = c});
    for (int i = 0; i < out->count; i++) {
        const struct api_def *d = out->node[i].def;
        if (!d) continue;
        api_note(a, d);
        for (int k = 0; k < d->class_->bases.count; k++)
            push(out, resolve(a, d, d->class_->bases.text[k]));
    }
    out->broken = true;
}

/* NULL: more than API_MRO levels of bases, or no memory. Nothing is kept of such a class unless it
 * is the first, so that what is known of a class depends on nobody who asked before. */
static const struct api_order *linearize(const struct api *a, const struct api_def *c, int depth)
{
    const struct api_texts *bases = &c->class_->bases;
    struct node direct[BASES];
    struct list list[BASES + 1];
    struct making out = {.broken = bases->count > BASES};
    const struct api_order *known = kept(a, c);
    if (known || depth == API_MRO) return known;
    api_note(a, c);
    push(&out, (struct node){.def = c});
    int lists = out.broken ? 0 : bases->count;
    for (int i = 0; i < lists; i++) {
        direct[i] = resolve(a, c, bases->text[i]);
        list[i] = (struct list){&direct[i], 1};
        if (!direct[i].def) continue;
        const struct api_order *o = linearize(a, direct[i].def, depth + 1);
        if (!o) return NULL;
        list[i] = (struct list){o->node, o->count};
        out.broken |= o->broken;
    }
    list[lists] = (struct list){direct, lists};
    merge(list, lists + 1, &out);
    return keep(a, c, &out);
}

static void read_order(const struct api_order *o, struct api_mro *out)
{
    for (int i = 0; i < o->count; i++) {
        char name[NAME_BYTES];
        if (o->node[i].def) {
            out->class_[out->classes++] = o->node[i].def;
            continue;
        }
        const char *text = o->node[i].outside;
        const struct api_base *known = api_base_of(base_name(text, name));
        out->outside[out->outsides++] = text;
        out->traits |= known ? known->traits : API_TRAIT_UNKNOWN;
        if (!known && !out->unknown) out->unknown = text;
    }
}

void api_mro(const struct api *a, const struct api_def *c, struct api_mro *out)
{
    struct making flat = {.broken = false};
    const struct api_order *o = linearize(a, c, 0);
    if (!o) {
        flatten(a, c, &flat);
        o = keep(a, c, &flat);
    }
    const struct api_order unkept = {flat.node, flat.count, true};
    if (!o) o = &unkept;
    *out = (struct api_mro){.broken = o->broken};
    read_order(o, out);
    if (!out->broken) return;
    out->traits |= API_TRAIT_UNKNOWN;
    if (!out->unknown) out->unknown = "bases in no order that C3 allows";
}

bool api_inherits(const struct api *a, const struct api_def *c, const char *base)
{
    struct api_mro m;
    char name[NAME_BYTES];
    api_mro(a, c, &m);
    for (int i = 0; i < m.classes; i++) {
        if (strcmp(m.class_[i]->path, base) == 0) return true;
    }
    for (int i = 0; i < m.outsides; i++) {
        if (strcmp(base_name(m.outside[i], name), base) == 0) return true;
    }
    return false;
}

int api_subclasses(const struct api *a, const struct api_def *c, const struct api_def **out,
                   int most)
{
    struct api quiet = *a; /* looking through all classes reaches none of them */
    int count = 0;
    quiet.reach = NULL;
    for (int i = 0; i < a->modules; i++) {
        const struct api_names *names = &a->module[i].names;
        for (int k = 0; k < names->count; k++) {
            for (int d = 0; d < names->name[k].defs && count < most; d++) {
                const struct api_def *s = &names->name[k].def[d];
                if (s->kind == API_CLASS && s != c && s->class_->bases.count > 0 &&
                    api_inherits(&quiet, s, c->path))
                    out[count++] = s;
            }
        }
    }
    return count;
}
