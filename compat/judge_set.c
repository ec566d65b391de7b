/* judge_set.c: attributes that the consumer itself puts on objects. A class of the library that has
 * no such attribute proves nothing then. */
#include "compat/judge_parts.h"

#include <string.h>

void judge_set_note(struct judge_run *r, const struct value *object, const char *name)
{
    bool typed = object->kind == VALUE_OBJECT || object->kind == VALUE_CLASS;
    if (!typed && object->kind != VALUE_UNKNOWN && object->kind != VALUE_UNION) return;
    struct set_name fresh = {.name = name, .class_ = typed ? object->class_ : NULL};
    for (int i = 0; i < r->sets; i++) {
        if (r->set[i].class_ == fresh.class_ && strcmp(r->set[i].name, name) == 0) return;
    }
    if (r->sets == r->set_room) {
        int room = r->set_room ? r->set_room * 2 : 64;
        struct set_name *more = judge_run_take(r, room, sizeof *more);
        if (!more) return;
        if (r->sets > 0) memcpy(more, r->set, (size_t)r->sets * sizeof *more);
        r->set = more;
        r->set_room = room;
    }
    r->set[r->sets++] = fresh;
}

static bool related(struct judge_run *r, const struct api_def *a, const struct api_def *b)
{
    return !a || api_inherits(r->api, a, b->path) || api_inherits(r->api, b, a->path);
}

void judge_replaced_note(struct judge_run *r, const char *dotted)
{
    for (int i = 0; i < r->replaceds; i++) {
        if (strcmp(r->replaced[i], dotted) == 0) return;
    }
    const char **more = judge_run_take(r, r->replaceds + 1, sizeof *more);
    if (!more) return;
    if (r->replaceds > 0) memcpy(more, r->replaced, (size_t)r->replaceds * sizeof *more);
    more[r->replaceds++] = dotted;
    r->replaced = more;
}

bool judge_replaced_path(struct judge_run *r, const char *dotted)
{
    for (int i = 0; i < r->replaceds; i++) {
        size_t n = strlen(r->replaced[i]);
        if (strncmp(r->replaced[i], dotted, n) == 0 && (!dotted[n] || dotted[n] == '.'))
            return true;
    }
    return false;
}

bool judge_is_replaced(struct judge_run *r, const struct api_def *d)
{
    return r->replaceds > 0 && judge_replaced_path(r, judge_path_dotted(r, d->path));
}

bool judge_set_somewhere(struct judge_run *r, const struct api_def *c, const char *name)
{
    for (int i = 0; i < r->sets; i++) {
        if (strcmp(r->set[i].name, name) == 0 && related(r, r->set[i].class_, c)) return true;
    }
    for (int i = 0; i < r->in->uses->defs; i++) { /* an own subclass may be what the object is */
        struct own_class *own = r->class_of[i];
        const struct api_def *base = own ? judge_own_lib_base(r, own) : NULL;
        if (!base || !api_inherits(r->api, base, c->path)) continue;
        if (judge_slot_find(own->attr, name) || judge_own_member(r, own, name, NULL)) return true;
    }
    return false;
}

static unsigned hash_of(const char *text)
{
    unsigned h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* The place of a name in a table of a power of two, or a free one. */
static int place_of(const char **table, int room, const char *name)
{
    int i = (int)(hash_of(name) & (unsigned)(room - 1));
    while (table[i] && strcmp(table[i], name) != 0) i = (i + 1) & (room - 1);
    return i;
}

void judge_called_note(struct judge_run *r, const char *name)
{
    if (r->calleds * 2 >= r->called_room) {
        int room = r->called_room ? r->called_room * 2 : 256;
        const char **more = judge_run_take(r, room, sizeof *more);
        if (!more) return;
        for (int i = 0; i < r->called_room; i++) {
            if (r->called[i]) more[place_of(more, room, r->called[i])] = r->called[i];
        }
        r->called = more;
        r->called_room = room;
    }
    int at = place_of(r->called, r->called_room, name);
    r->calleds += !r->called[at];
    r->called[at] = name;
}

bool judge_called_by_name(struct judge_run *r, const char *name)
{
    return r->called && r->called[place_of(r->called, r->called_room, name)];
}
