/* pt_pickle.c: the machine's memory: objects, texts, stack, memo; see pt_pickle.h. */
#include "core/pt_pickle.h"

#include <stdlib.h>
#include <string.h>

const char *pickle_kind_name(enum pickle_kind kind)
{
    static const char *const names[PICKLE_KINDS] = {
        "None",    "a bool", "an integer", "a float",   "a text",   "a list",
        "a tuple", "a dict", "a tensor",   "a storage", "a global",
    };
    return names[kind];
}

enum err_code pickle_refuse(const struct pickle *p, struct err *err, const char *found,
                            const char *wanted)
{
    return err_set(err, ERR_INPUT, "read pickle|%s: byte %lld|%s|%s", p->path, (long long)p->at,
                   found, wanted);
}

static enum err_code no_memory(const struct pickle *p, struct err *err)
{
    return err_set(err, ERR_MEMORY, "read pickle|%s|no memory", p->path);
}

struct pickle_object *pickle_object(struct pickle *p, struct err *err)
{
    if (p->object_count == PICKLE_OBJECTS) {
        pickle_refuse(p, err, "2^20 containers and tensors", "fewer");
        return NULL;
    }
    struct pickle_object *o = calloc(1, sizeof *o);
    if (!o) {
        no_memory(p, err);
        return NULL;
    }
    o->next = p->objects;
    p->objects = o;
    p->object_count++;
    return o;
}

char *pickle_text(struct pickle *p, int64_t n, struct err *err)
{
    /* Texts of the pickle itself fit once; only bytes that are made of one text many times do not.
     */
    if (n >= 2 * p->size - p->texts_used) {
        pickle_refuse(p, err, "more text than twice the pickle's bytes", "less");
        return NULL;
    }
    char *out = p->texts + p->texts_used;
    p->texts_used += n + 1;
    out[n] = '\0';
    return out;
}

/* Room for `count` values of the array, at least doubled. */
static struct pickle_value *grown(struct pickle_value *v, int64_t *room, int64_t count)
{
    int64_t n = *room ? 2 * *room : 8;
    if (n < count) n = count;
    struct pickle_value *out = realloc(v, (size_t)n * sizeof *v);
    if (out) *room = n;
    return out;
}

enum err_code pickle_push(struct pickle *p, struct pickle_value v, struct err *err)
{
    if (p->count == PICKLE_STACK)
        return pickle_refuse(p, err, "a stack of 2^20 values", "fewer at once");
    if (p->count == p->room) {
        struct pickle_value *stack = grown(p->stack, &p->room, p->count + 1);
        if (!stack) return no_memory(p, err);
        p->stack = stack;
    }
    p->stack[p->count++] = v;
    return ERR_OK;
}

int64_t pickle_bottom(const struct pickle *p)
{
    return p->mark_count ? p->marks[p->mark_count - 1] : 0;
}

enum err_code pickle_pop(struct pickle *p, struct pickle_value *out, struct err *err)
{
    if (p->count <= pickle_bottom(p))
        return pickle_refuse(p, err, "an empty stack", "a value to take");
    *out = p->stack[--p->count];
    return ERR_OK;
}

enum err_code pickle_append(struct pickle *p, struct pickle_object *o, const struct pickle_value *v,
                            int64_t n, struct err *err)
{
    if (n > PICKLE_VALUES - p->value_count)
        return pickle_refuse(p, err, "2^22 values in lists and dicts", "fewer");
    p->value_count += n;
    if (n > o->room - o->count) {
        struct pickle_value *items = grown(o->items, &o->room, o->count + n);
        if (!items) return no_memory(p, err);
        o->items = items;
    }
    if (n) memcpy(o->items + o->count, v, (size_t)n * sizeof *v);
    o->count += n;
    return ERR_OK;
}

enum err_code pickle_note(struct pickle *p, int64_t i, struct err *err)
{
    if (p->count <= pickle_bottom(p))
        return pickle_refuse(p, err, "an empty stack", "a value to note");
    /* Numbers run from 0, so none exceeds the bytes read: a larger one would only cost memory. */
    if (i > p->at) return pickle_refuse(p, err, "a memo number beyond the pickle's bytes", "less");
    if (i >= p->memo_room) {
        int64_t was = p->memo_room, room = was;
        struct pickle_value *memo = grown(p->memo, &room, i + 1);
        if (memo) p->memo = memo;
        bool *set = realloc(p->memo_set, (size_t)room * sizeof *set);
        if (set) p->memo_set = set;
        if (!memo || !set) return no_memory(p, err);
        memset(set + was, 0, (size_t)(room - was) * sizeof *set);
        p->memo_room = room;
    }
    p->memo_puts += !p->memo_set[i];
    p->memo[i] = p->stack[p->count - 1];
    p->memo_set[i] = true;
    return ERR_OK;
}

enum err_code pickle_recall(struct pickle *p, int64_t i, struct err *err)
{
    if (i >= p->memo_room || !p->memo_set[i])
        return pickle_refuse(p, err, "a memo number that was never noted", "an earlier one");
    return pickle_push(p, p->memo[i], err);
}

enum err_code pickle_run(struct pickle *p, const char *path, const void *data, int64_t size,
                         struct arena *arena, struct pickle_value *out, struct err *err)
{
    *p = (struct pickle){.path = path, .data = data, .size = size};
    *out = (struct pickle_value){.kind = PICKLE_NONE};
    if (size > PICKLE_BYTES)
        return err_set(err, ERR_INPUT, "read pickle|%s|%lld bytes|at most %d: data lies beside it",
                       path, (long long)size, PICKLE_BYTES);
    p->texts = arena_alloc(arena, 2 * size, 1, "texts of a pickle", err);
    if (!p->texts) return err->code;
    while (!p->stopped) {
        if (pickle_step(p, err) != ERR_OK) return err->code;
    }
    if (p->count != 1 || p->mark_count || p->at != size)
        return pickle_refuse(p, err, "more than one value, or bytes behind the end", "one value");
    *out = p->stack[0];
    return ERR_OK;
}

void pickle_free(struct pickle *p)
{
    for (struct pickle_object *o = p->objects; o;) {
        struct pickle_object *next = o->next;
        free(o->items);
        free(o);
        o = next;
    }
    free(p->stack);
    free(p->memo);
    free(p->memo_set);
    *p = (struct pickle){0};
}
