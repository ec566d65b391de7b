/* inspect_json.c: keys that stand twice in a JSON object. jansson stops at the first and does not
 * say where the object lies; this walk over the text lists them all. The text is known to be valid
 * JSON but for its duplicates. */
#include "harness/inspect.h"

#include <stdlib.h>
#include <string.h>

struct span {
    const char *at;
    size_t size;
};

/* A key, the object that it stands in, and the key of depth 1 above it (of the key itself at
 * depth 1). */
struct key {
    int64_t object;
    struct span name, above;
    int depth;
};

struct keys {
    struct key *list;
    int64_t count, room;
    bool full; /* no memory: what was found stays */
};

static void add_key(struct keys *k, struct key key)
{
    if (k->count == k->room) {
        int64_t room = k->room ? k->room * 2 : 4096;
        struct key *more = realloc(k->list, (size_t)room * sizeof *more);
        if (!more) {
            k->full = true;
            return;
        }
        k->list = more;
        k->room = room;
    }
    k->list[k->count++] = key;
}

/* The end of the string that begins behind `at`'s quote: its closing quote, or the text's end. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return at < size ? at : size;
}

static void collect(struct keys *k, const char *text, size_t size)
{
    enum { DEPTH = 64 };
    int64_t object[DEPTH] = {0}, objects = 0;
    struct span above = {text, 0};
    int depth = 0;
    for (size_t i = 0; i < size && !k->full; i++) {
        if (text[i] == '{' || text[i] == '[') {
            if (++depth >= DEPTH) return;
            object[depth] = ++objects;
        } else if (text[i] == '}' || text[i] == ']') {
            if (--depth < 0) return;
        } else if (text[i] == '"') {
            size_t end = string_end(text, size, i + 1), next = end + 1;
            while (next < size && strchr(" \t\r\n", text[next])) next++;
            struct span name = {text + i + 1, end - i - 1};
            if (next < size && text[next] == ':') {
                if (depth == 1) above = name;
                add_key(k, (struct key){object[depth], name, above, depth});
            }
            i = end;
        }
    }
}

static int by_object(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->object != y->object) return x->object < y->object ? -1 : 1;
    size_t n = x->name.size < y->name.size ? x->name.size : y->name.size;
    int order = memcmp(x->name.at, y->name.at, n);
    if (order == 0) order = (x->name.size > y->name.size) - (x->name.size < y->name.size);
    return order ? order : (x->name.at > y->name.at) - (x->name.at < y->name.at);
}

static bool same(const struct key *a, const struct key *b)
{
    return a->object == b->object && a->name.size == b->name.size &&
           memcmp(a->name.at, b->name.at, a->name.size) == 0;
}

bool ins_duplicate_keys(struct inspection *s, const char *where, const char *text, int64_t size)
{
    struct keys k = {0};
    bool found = false;
    collect(&k, text, (size_t)size);
    if (k.count) qsort(k.list, (size_t)k.count, sizeof *k.list, by_object);
    for (int64_t i = 1; i < k.count; i++) {
        const struct key *key = &k.list[i];
        if (!same(key, key - 1) || (i > 1 && same(key, key - 2))) continue;
        /* What the index maps is the tensor's name; in a header it is the key of depth 1. */
        bool mapped = key->above.size == 10 && memcmp(key->above.at, "weight_map", 10) == 0;
        const struct span *t = mapped || key->depth == 1 ? &key->name : &key->above;
        found = true;
        ins_problem(
            s,
            (struct ins_problem){
                .what = "duplicate key",
                .where = where,
                .tensor = ins_text(s, "%.*s", (int)(t->size < 700 ? t->size : 700), t->at),
                .found = ins_text(s, "\"%.*s\" more than once",
                                  (int)(key->name.size < 700 ? key->name.size : 700), key->name.at),
                .wanted = "each key once"});
    }
    free(k.list);
    return found;
}
