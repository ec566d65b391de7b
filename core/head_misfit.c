/* head_misfit.c: the list of tensors that do not fit; see head_parts.h. */
#include "core/head_parts.h"

#include <stdio.h>
#include <stdlib.h>

void head_misfit_add(struct head *h, enum head_misfit_kind kind, const char *name,
                     const char *found, const char *wanted, struct err *err)
{
    /* Room grows in powers of two: there is some only where the count is none. */
    if ((h->misfit_count & (h->misfit_count - 1)) == 0) {
        size_t room = h->misfit_count ? (size_t)h->misfit_count * 2 : 1;
        struct head_misfit *more = realloc(h->misfits, room * sizeof *more);
        if (!more) {
            (void)!err_set(err, ERR_MEMORY, "list tensors|%s|no memory", h->weights.path);
            return;
        }
        h->misfits = more;
    }
    struct head_misfit *m = &h->misfits[h->misfit_count++];
    *m = (struct head_misfit){.kind = kind};
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->found, sizeof m->found, "%s", found);
    snprintf(m->wanted, sizeof m->wanted, "%s", wanted);
}

static int one_text(const struct head_misfit *m, char *buf, size_t size)
{
    switch (m->kind) {
    case HEAD_MISSING:
        return snprintf(buf, size, "%s is missing", m->name);
    case HEAD_EXTRA:
        return snprintf(buf, size, "%s %s has no place", m->name, m->found);
    case HEAD_SHAPE:
    case HEAD_DTYPE:
        break;
    }
    return snprintf(buf, size, "%s %s, not %s", m->name, m->found, m->wanted);
}

const char *head_misfit_text(const struct head *h, char *buf, size_t size)
{
    enum { COUNT_ROOM = 32 }; /* "; and 12345 more" */
    size_t used = 0;
    int64_t i = 0;
    buf[0] = '\0';
    for (; i < h->misfit_count; i++) {
        char one[NAME_MAX_BYTES + 256];
        bool last = i + 1 == h->misfit_count;
        size_t room = size - used - (last ? 0 : COUNT_ROOM);
        int n = one_text(&h->misfits[i], one, sizeof one);
        if ((size_t)n + 2 >= room && i > 0) break;
        int wrote = snprintf(buf + used, room, "%s%s", i ? "; " : "", one);
        used += (size_t)wrote < room ? (size_t)wrote : room - 1;
    }
    if (i < h->misfit_count)
        snprintf(buf + used, size - used, "; and %lld more", (long long)(h->misfit_count - i));
    return buf;
}
