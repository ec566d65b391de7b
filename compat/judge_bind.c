/* judge_bind.c: do these arguments fit these parameters? Python's own rule: positional ones from
 * the left, then keywords by name, then defaults. An argument list with `*x` or `**x` of something
 * unknown may hold more than is seen: what is surely too much is bad, what may be supplied by it is
 * unsure. Test: tests/test_judge_bind.c */
#include "compat/judge_parts.h"

#include "core/check.h"

#include <stdio.h>
#include <string.h>

enum { LIST_TEXT = 480 };

static bool takes_position(const struct api_param *p)
{
    return p->kind == API_POS || p->kind == API_ANY;
}

static int find_kind(const struct api_params *p, enum api_param_kind kind)
{
    for (int i = 0; i < p->count; i++) {
        if (p->param[i].kind == kind) return i;
    }
    return -1;
}

static int bad(struct bound *out, enum bind_problem problem, const char *name)
{
    if (out->status == BIND_BAD) return 0;
    out->status = BIND_BAD;
    out->problem = problem;
    out->name = name;
    return 0;
}

static void bind_positions(const struct api_params *p, const struct args *a, bool *given,
                           struct bound *out)
{
    int next = 0, most = 0;
    bool rest = find_kind(p, API_STAR) >= 0;
    for (int i = 0; i < p->count; i++) most += takes_position(&p->param[i]);
    for (int i = 0; i < a->count; i++) {
        while (next < p->count && !takes_position(&p->param[next])) next++;
        int to = next < p->count ? next++ : -1;
        if (i < BIND_PARAMS) out->to[i] = to;
        if (to >= 0) given[to] = true;
        if (to >= 0 || rest) continue;
        out->found = a->count;
        out->most = most;
        bad(out, BIND_TOO_MANY, NULL);
        return;
    }
}

static void bind_names(const struct api_params *p, const struct args *a, bool ignores_extra,
                       bool *given, struct bound *out)
{
    bool rest = find_kind(p, API_DSTAR) >= 0;
    for (int i = 0; i < a->names; i++) {
        int to = -1;
        for (int j = 0; j < p->count && to < 0; j++) {
            bool named = p->param[j].kind == API_ANY || p->param[j].kind == API_KW;
            if (named && strcmp(p->param[j].name, a->name[i]) == 0) to = j;
        }
        if (to < 0 && !rest && !ignores_extra) bad(out, BIND_UNEXPECTED, a->name[i]);
        if (to >= 0 && given[to]) bad(out, BIND_TWICE, a->name[i]);
        if (to >= 0) given[to] = true;
    }
}

static void bind_missing(const struct api_params *p, const struct args *a, const bool *given,
                         struct bound *out)
{
    const char *first = NULL, *unsure = NULL;
    for (int i = 0; i < p->count; i++) {
        const struct api_param *q = &p->param[i];
        if (given[i] || q->fallback || q->kind == API_STAR || q->kind == API_DSTAR) continue;
        bool may = (a->star && takes_position(q)) || (a->dstar && q->kind != API_POS);
        if (may && !unsure) unsure = q->name;
        if (may) continue;
        if (!first) first = q->name;
        out->misses++;
    }
    if (first) bad(out, BIND_MISSING, first);
    if (out->status == BIND_OK && unsure) {
        out->status = BIND_UNSURE;
        out->problem = BIND_MISSING;
        out->name = unsure;
    }
}

void judge_bind_args(const struct api_params *p, const struct args *a, bool ignores_extra,
                     struct bound *out)
{
    bool given[BIND_PARAMS] = {0};
    *out = (struct bound){.status = BIND_OK};
    for (int i = 0; i < BIND_PARAMS; i++) out->to[i] = -1;
    if (p->count > BIND_PARAMS) {
        out->status = BIND_UNSURE;
        return;
    }
    bind_positions(p, a, given, out);
    bind_names(p, a, ignores_extra, given, out);
    bind_missing(p, a, given, out);
}

/* ---- both sides as text ---- */

static size_t add(char *buf, size_t n, const char *sep, const char *text, const char *more)
{
    int w = snprintf(buf + n, LIST_TEXT - n, "%s%s%s", n > 1 ? sep : "", text, more);
    return w < 0 || n + (size_t)w >= LIST_TEXT ? LIST_TEXT - 1 : n + (size_t)w;
}

static const char *close_list(struct judge_run *r, char *buf, size_t n)
{
    if (n >= LIST_TEXT - 5) n = LIST_TEXT - 5;
    snprintf(buf + n, LIST_TEXT - n, "%s", n == LIST_TEXT - 5 ? "...)" : ")");
    return judge_run_format(r, "%s", buf);
}

const char *judge_params_text(struct judge_run *r, const struct api_params *p)
{
    char buf[LIST_TEXT] = "(";
    size_t n = 1;
    enum api_param_kind before = API_ANY;
    for (int i = 0; i < p->count; i++) {
        const struct api_param *q = &p->param[i];
        if (before == API_POS && q->kind != API_POS) n = add(buf, n, ", ", "/", "");
        if (q->kind == API_KW && before != API_KW && before != API_STAR)
            n = add(buf, n, ", ", "*", "");
        if (q->kind == API_STAR)
            n = add(buf, n, ", ", "*", q->name);
        else if (q->kind == API_DSTAR)
            n = add(buf, n, ", ", "**", q->name);
        else
            n = add(buf, n, ", ", q->name, q->fallback ? "=" : "");
        if (q->fallback && q->kind != API_STAR && q->kind != API_DSTAR)
            n = add(buf, n, "", strlen(q->fallback) < 24 ? q->fallback : "...", "");
        before = q->kind;
    }
    if (before == API_POS) n = add(buf, n, ", ", "/", "");
    return close_list(r, buf, n);
}

const char *judge_args_text(struct judge_run *r, const struct args *a)
{
    char buf[LIST_TEXT] = "(", count[32];
    size_t n = 1;
    snprintf(count, sizeof count, "%d positional", a->count);
    if (a->count > 0) n = add(buf, n, ", ", count, "");
    if (a->star) n = add(buf, n, ", ", "*...", "");
    for (int i = 0; i < a->names; i++) n = add(buf, n, ", ", a->name[i], "=");
    if (a->dstar) n = add(buf, n, ", ", "**...", "");
    return close_list(r, buf, n);
}
