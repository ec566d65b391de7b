/* inspect_samples_moved.c: rows that hold another row's state, or none that the reference knows;
 * see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdio.h>

enum { SEGMENTS_SHOWN = 3 };

/* Rows [p, p + n) of a sample hold the rows from `row` on of sample `of`; of -1: no known rows. */
struct segment {
    int64_t p, n, of, row;
};

/* What all states of a sample, or one of them, have in common. */
struct moved {
    const struct looked *k;
    const struct match *m;
    char whose[32]; /* "state 2", "all states" */
};

static int64_t owner(const struct samples *w, int64_t source)
{
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (source >= k->first && source < k->first + k->rows) return i;
    }
    return -1;
}

/* Rows that are off where all others are exact are not the model's either. */
static bool is_off(const struct moved *v, int64_t p)
{
    double bound = 4 * (dtype_unit(v->k->file.sample.dtype) + MATCH_REFERENCE);
    return v->m->exact && v->m->source[p] == v->k->first + p && !(v->m->row_error[p] <= bound);
}

#define CHANCE 1.5 /* times the worst of the reference's rows: another engine flips other ones */

/* A row that is none is accused only where the others are a quarter as far off: an engine whose
 * rows all lie that far from the reference says nothing about one of them. Nor does a row that is
 * no further off than one whose experts flipped. */
static bool is_moved(const struct moved *v, int64_t p)
{
    int64_t source = v->m->source[p];
    if (source == -1) return !(v->m->row_error[p] <= fmax(4 * v->m->error, CHANCE * v->m->flips));
    return source != -2 && (source != v->k->first + p || is_off(v, p));
}

/* The row that row p holds; -1: none that is known. */
static int64_t held(const struct moved *v, int64_t p)
{
    return is_off(v, p) ? -1 : v->m->source[p];
}

static struct segment segment_at(const struct samples *w, const struct moved *v, int64_t p)
{
    int64_t source = held(v, p);
    struct segment s = {p, 1, source >= 0 ? owner(w, source) : -1, 0};
    if (s.of >= 0) s.row = source - w->looked[s.of].first;
    for (; p + s.n < v->k->rows && is_moved(v, p + s.n); s.n++) {
        int64_t next = held(v, p + s.n);
        if ((next < 0) != (s.of < 0)) break;
        if (s.of >= 0 && (next != source + s.n || owner(w, next) != s.of)) break;
    }
    return s;
}

static void describe(const struct samples *w, const struct moved *v, const struct segment *s,
                     char *out, size_t size)
{
    char rows[64], from[64];
    if (s->n == 1)
        snprintf(rows, sizeof rows, "row %lld", (long long)s->p);
    else
        snprintf(rows, sizeof rows, "rows %lld..%lld", (long long)s->p,
                 (long long)(s->p + s->n - 1));
    if (s->n == 1)
        snprintf(from, sizeof from, "row %lld", (long long)s->row);
    else
        snprintf(from, sizeof from, "rows %lld..%lld", (long long)s->row,
                 (long long)(s->row + s->n - 1));
    if (s->of < 0)
        snprintf(out, size, "%s: not what the model computes for these tokens, nor any other row",
                 rows);
    else if (&w->looked[s->of] == v->k)
        snprintf(out, size, "%s hold%s what belongs to %s", rows, s->n == 1 ? "s" : "", from);
    else
        snprintf(out, size, "%s hold%s what belongs to %s of %s", rows, s->n == 1 ? "s" : "", from,
                 w->looked[s->of].name);
}

/* What the rows have in common. */
struct sum {
    int64_t moved, unknown, foreign, segments;
    struct segment longest;
};

static struct sum add_up(const struct samples *w, const struct moved *v, char *text, size_t size)
{
    struct sum t = {0};
    size_t used = 0;
    text[0] = '\0';
    for (int64_t p = 0; p < v->k->rows; p++) {
        if (!is_moved(v, p)) continue;
        struct segment s = segment_at(w, v, p);
        if (t.segments++ < SEGMENTS_SHOWN && used < size) {
            char one[256];
            describe(w, v, &s, one, sizeof one);
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "", one);
        }
        t.moved += s.n;
        t.unknown += s.of < 0 ? s.n : 0;
        t.foreign += s.of >= 0 && &w->looked[s.of] != v->k ? s.n : 0;
        if (s.n > t.longest.n) t.longest = s;
        p += s.n - 1;
    }
    if (t.segments > SEGMENTS_SHOWN && used < size)
        snprintf(text + used, size - used, "; and %lld more",
                 (long long)(t.segments - SEGMENTS_SHOWN));
    return t;
}

static void report_shift(struct samples *w, const struct moved *v, const struct segment *s)
{
    int64_t by = s->row - s->p;
    samples_problem(
        w, "rows shifted against tokens", v->k->name,
        ins_text(w->s, "%s: row p holds what belongs to token p%+lld (rows %lld..%lld)", v->whose,
                 (long long)by, (long long)s->p, (long long)(s->p + s->n - 1)),
        ins_text(w->s,
                 "move the states by %lld row%s: state p must be the one of token p, the "
                 "trainer shifts by itself",
                 (long long)(by < 0 ? -by : by), by == 1 || by == -1 ? "" : "s"));
}

static void report(struct samples *w, const struct moved *v)
{
    char text[700];
    struct sum t = add_up(w, v, text, sizeof text);
    if (t.moved == 0) return;
    bool most = 2 * t.longest.n > v->k->rows && t.longest.of >= 0;
    if (most && &w->looked[t.longest.of] == v->k) {
        report_shift(w, v, &t.longest);
    } else if (2 * t.foreign > v->k->rows || (t.foreign > 1 && t.foreign == t.moved)) {
        samples_problem(w, "samples mixed up", v->k->name, ins_text(w->s, "%s: %s", v->whose, text),
                        "extract again one by one: a batch was cut in another order than its "
                        "requests");
    } else if (t.unknown == t.moved) {
        samples_problem(w, "wrong rows", v->k->name, ins_text(w->s, "%s: %s", v->whose, text),
                        "extract the sample again: those rows are stale or were overwritten");
    } else if (t.moved == 1) {
        samples_problem(w, "stale row", v->k->name, ins_text(w->s, "%s: %s", v->whose, text),
                        "extract the sample again: a row was not written anew");
    } else {
        samples_problem(w, "rows permuted", v->k->name, ins_text(w->s, "%s: %s", v->whose, text),
                        "extract the sample again: rows were stored in another order than tokens");
    }
}

static bool settled(const struct match *m)
{
    return m->kind == MATCH_CLEAR || m->kind == MATCH_UNCLEAR;
}

/* All settled states have the same rows wrong. */
static bool alike(const struct looked *k, int states)
{
    for (int i = 1; i < states; i++) {
        const struct moved a = {k, &k->match[0], ""}, b = {k, &k->match[i], ""};
        if (!settled(a.m) || !settled(b.m)) return false;
        for (int64_t p = 0; p < k->rows; p++) {
            if (is_moved(&a, p) != is_moved(&b, p) ||
                (is_moved(&a, p) && held(&a, p) != held(&b, p)))
                return false;
        }
    }
    return states > 1;
}

/* Where whole states are unknown already, single rows of the others say no more. */
static bool has_unknown(const struct looked *k, int states)
{
    for (int i = 0; i < states; i++) {
        if (!settled(&k->match[i])) return true;
    }
    return false;
}

static bool mostly_moved(const struct moved *v)
{
    int64_t n = 0;
    for (int64_t p = 0; p < v->k->rows; p++) n += is_moved(v, p);
    return 2 * n > v->k->rows;
}

void samples_report_rows(struct samples *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        int states = k->rows > 0 ? k->file.sample.states : 0;
        struct moved v = {k, &k->match[0], "all states"};
        if (states > 0 && alike(k, states)) {
            report(w, &v);
            continue;
        }
        for (int n = 0; n < states; n++) {
            v.m = &k->match[n];
            snprintf(v.whose, sizeof v.whose, "state %d", n);
            if (settled(v.m) && !(has_unknown(k, states) && mostly_moved(&v))) report(w, &v);
        }
    }
}
