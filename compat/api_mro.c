/* api_mro.c: api_mro() and api_inherits() of api_lookup.h: the order of C3 over the classes of the
 * library; a base outside of it is a leaf. */
#include "compat/api_base.h"
#include "compat/api_reach.h"
#include "compat/api_type.h"

#include <stdio.h>
#include <string.h>

enum { BASES = 24, NAME_BYTES = 256 };

/* A class of the library, or the name of one outside. */
struct node {
    const struct api_def *def;
    const char *outside;
};

struct order {
    struct node node[API_MRO];
    int count;
};

struct walk {
    const struct api *api;
    bool broken;
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

static void push(struct walk *w, struct order *o, struct node n)
{
    for (int i = 0; i < o->count; i++) {
        if (same(o->node[i], n)) return;
    }
    if (o->count == API_MRO)
        w->broken = true;
    else
        o->node[o->count++] = n;
}

static bool in_tail(const struct order *o, int head, struct node n)
{
    for (int i = head + 1; i < o->count; i++) {
        if (same(o->node[i], n)) return true;
    }
    return false;
}

/* Merges the orders of the bases: always the first head that stands in no other tail. */
static void merge(struct walk *w, struct order *list, int lists, struct order *out)
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
            w->broken = true;
            for (best = 0; head[best] == list[best].count;) best++;
        }
        struct node n = list[best].node[head[best]];
        push(w, out, n);
        for (int i = 0; i < lists; i++) {
            if (head[i] < list[i].count && same(list[i].node[head[i]], n)) head[i]++;
        }
    }
}

static void linearize(struct walk *w, const struct api_def *c, int depth, struct order *out)
{
    const struct api_texts *bases = &c->class_->bases;
    struct order list[BASES + 1];
    int lists = 0;
    api_note(w->api, c);
    out->count = 0;
    push(w, out, (struct node){.def = c});
    if (depth > API_DEPTH || bases->count > BASES) {
        w->broken = true;
        return;
    }
    struct order direct = {.count = 0};
    for (int i = 0; i < bases->count; i++) {
        struct node n = resolve(w->api, c, bases->text[i]);
        if (n.def) {
            linearize(w, n.def, depth + 1, &list[lists++]);
        } else {
            list[lists].node[0] = n;
            list[lists++].count = 1;
        }
        direct.node[direct.count++] = n;
    }
    list[lists++] = direct;
    merge(w, list, lists, out);
}

void api_mro(const struct api *a, const struct api_def *c, struct api_mro *out)
{
    struct walk w = {.api = a};
    struct order o;
    linearize(&w, c, 0, &o);
    *out = (struct api_mro){.broken = w.broken};
    for (int i = 0; i < o.count; i++) {
        char name[NAME_BYTES];
        if (o.node[i].def) {
            out->class_[out->classes++] = o.node[i].def;
            continue;
        }
        const char *text = o.node[i].outside;
        const struct api_base *known = api_base_of(base_name(text, name));
        out->outside[out->outsides++] = text;
        out->traits |= known ? known->traits : API_TRAIT_UNKNOWN;
        if (!known && !out->unknown) out->unknown = text;
    }
    if (w.broken) out->traits |= API_TRAIT_UNKNOWN;
    if (w.broken && !out->unknown) out->unknown = "bases in no order that C3 allows";
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
