/* foreign_dims.c: see foreign_dims.h. */
#include "harness/foreign_dims.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *where, *text, *at, *end; /* end: of the axes, before '#' */
    const struct dims_groups *groups;
    int axis, axes;
};

static enum err_code refuse(const struct reader *r, const char *found, const char *wanted,
                            struct err *err)
{
    return err_set(err, ERR_INPUT, "read dims|%s|\"%.80s\": %s|%s", r->where, r->text, found,
                   wanted);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A word into out[room]; false where there is none or it is longer. */
static bool take_word(struct reader *r, char *out, size_t room)
{
    size_t n = 0;
    while (r->at < r->end && is_word(*r->at) && n + 1 < room) out[n++] = *r->at++;
    out[n] = '\0';
    return n > 0 && (r->at == r->end || !is_word(*r->at));
}

static bool take(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* Ranks of a group, or 0 for a name that is none. */
static int ranks_of(const struct dims_groups *g, const char *name)
{
    const struct {
        const char *name;
        int ranks;
    } all[] = {{"tp", g->tp}, {"cp", g->cp}, {"ep", g->ep}, {"sp", g->sp}, {"recompute_pseudo", 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0) return all[i].ranks;
    }
    return 0;
}

/* "tp", "tp:sharded", "cp:zigzag+partial" */
static enum err_code read_group(struct reader *r, struct err *err)
{
    char name[24], how[24] = "";
    bool plain = true;
    if (!take_word(r, name, sizeof name)) return refuse(r, "no group", "[tp]", err);
    const int ranks = ranks_of(r->groups, name);
    if (ranks == 0) return refuse(r, name, "tp, cp, ep or sp", err);
    for (bool more = take(r, ':'); more; more = take(r, '+')) {
        if (!take_word(r, how, sizeof how)) return refuse(r, "no qualifier", "name:qualifier", err);
        if (strcmp(how, "zigzag") == 0 || strcmp(how, "partial") == 0)
            plain = false;
        else if (strcmp(how, "natural") != 0 && strcmp(how, "sharded") != 0)
            return refuse(r, how, "natural, zigzag, partial or sharded", err);
    }
    if (ranks == 1) return ERR_OK;
    if (!plain)
        return refuse(r, how, "parts in the order of the ranks: no other can be joined", err);
    if (strcmp(name, "tp") != 0) return refuse(r, name, "tp: no other group can be joined", err);
    if (r->axis >= 0) return refuse(r, "two axes cut", "one", err);
    r->axis = r->axes;
    return ERR_OK;
}

static enum err_code read_axis(struct reader *r, struct err *err)
{
    char name[64];
    if (take(r, '(')) {
        while (take_word(r, name, sizeof name) && take(r, '*')) continue;
        if (!take(r, ')')) return refuse(r, "a ( without )", "(name*name)", err);
    } else if (!take_word(r, name, sizeof name)) {
        return refuse(r, "no axis", "a name, (name*name) or 1", err);
    }
    if (!take(r, '[')) return ERR_OK;
    do {
        while (take(r, ' ')) continue;
        if (read_group(r, err) != ERR_OK) return err->code;
    } while (take(r, ','));
    return take(r, ']') ? ERR_OK : refuse(r, "a [ without ]", "name[tp]", err);
}

enum err_code dims_parse(const char *text, const struct dims_groups *g, const char *where,
                         int *axis, int *axes, struct err *err)
{
    const char *hash = strchr(text, '#');
    struct reader r = {.where = where,
                       .text = text,
                       .at = text,
                       .end = hash ? hash : text + strlen(text),
                       .groups = g,
                       .axis = -1};
    *axis = -1;
    *axes = 0;
    while (take(&r, ' ')) continue;
    while (r.at < r.end) {
        if (read_axis(&r, err) != ERR_OK) return err->code;
        r.axes++;
        if (r.at < r.end && *r.at != ' ')
            return refuse(&r, "an axis without an end", "a space", err);
        while (take(&r, ' ')) continue;
    }
    if (r.axes == 0) return refuse(&r, "no axis", "a name each", err);
    *axis = r.axis;
    *axes = r.axes;
    return ERR_OK;
}
