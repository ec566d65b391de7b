/* api_star.c: api_star_names() of api_lookup.h. */
#include "compat/api_lookup.h"
#include "compat/api_reach.h"

#include <stdlib.h>
#include <string.h>

struct star {
    const struct api *api;
    struct pool *pool;
    struct err *err;
    struct api_texts out;
    int room;
    bool open;
};

static void add(struct star *s, const char *name)
{
    if (s->out.count == s->room) {
        int room = s->room ? 2 * s->room : 64;
        const char **fresh = pool_take(s->pool, (size_t)room, sizeof *fresh, s->err);
        if (!fresh) return;
        if (s->out.count) memcpy(fresh, s->out.text, (size_t)s->out.count * sizeof *fresh);
        s->out.text = fresh;
        s->room = room;
    }
    s->out.text[s->out.count++] = name;
}

static void gather(struct star *s, const struct api_module *m, int depth)
{
    api_note(s->api, m);
    s->open |= m->all_unknown || m->problem || m->partial;
    if (m->has_all) {
        for (int i = 0; i < m->all.count; i++) add(s, m->all.text[i]);
        return;
    }
    for (int i = 0; i < m->names.count; i++) {
        const struct api_name *n = &m->names.name[i];
        if (n->name[0] == '_') continue;
        api_note(s->api, n);
        add(s, n->name);
    }
    for (int i = 0; i < m->stars.count; i++) {
        const char *from = m->stars.text[i];
        const struct api_module *star = api_module(s->api, from, strlen(from));
        if (star && star != m && depth < API_DEPTH)
            gather(s, star, depth + 1);
        else
            s->open = true;
    }
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

struct api_texts api_star_names(const struct api *a, const struct api_module *m, bool *open,
                                struct pool *p, struct err *err)
{
    struct star s = {.api = a, .pool = p, .err = err};
    int kept = 0;
    gather(&s, m, 0);
    *open = s.open;
    if (s.out.count > 1) qsort(s.out.text, (size_t)s.out.count, sizeof(char *), by_text);
    for (int i = 0; i < s.out.count; i++) {
        if (i == 0 || strcmp(s.out.text[i], s.out.text[kept - 1]) != 0)
            s.out.text[kept++] = s.out.text[i];
    }
    s.out.count = kept;
    return s.out;
}
