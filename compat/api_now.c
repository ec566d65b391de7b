/* api_now.c: see api_now.h. */
#include "compat/api_now.h"

#include <ctype.h>
#include <string.h>

enum { WORDS = 12, NAME_BYTES = 96 };

struct words {
    const char *at[WORDS];
    size_t length[WORDS];
    int count;
};

/* snake_case and CamelCase into words. */
static struct words split(const char *name)
{
    struct words w = {0};
    for (const char *s = name; *s && w.count < WORDS;) {
        while (*s == '_') s++;
        const char *begin = s;
        while (*s && *s != '_' &&
               (s == begin || !isupper((unsigned char)*s) || isupper((unsigned char)s[-1])))
            s++;
        if (s == begin) break;
        w.at[w.count] = begin;
        w.length[w.count++] = (size_t)(s - begin);
    }
    return w;
}

/* 1: the same word; 0.7: one begins the other and is no stub of it. */
static double word_score(const char *x, size_t xs, const char *y, size_t ys)
{
    size_t shorter = xs < ys ? xs : ys;
    if (strncasecmp(x, y, shorter) != 0) return 0;
    return xs == ys ? 1 : shorter >= 4 ? 0.7 : 0;
}

static double by_words(const char *x, const char *y)
{
    struct words a = split(x), b = split(y);
    bool taken[WORDS] = {false};
    double sum = 0;
    for (int i = 0; i < a.count; i++) {
        double best = 0;
        int at = -1;
        for (int k = 0; k < b.count; k++) {
            double s = taken[k] ? 0 : word_score(a.at[i], a.length[i], b.at[k], b.length[k]);
            if (s > best) at = k;
            if (s > best) best = s;
        }
        if (at >= 0) taken[at] = true;
        sum += best;
    }
    return a.count + b.count ? 2 * sum / (a.count + b.count) : 0;
}

/* 1 minus the edit distance over the longer length. */
static double by_edits(const char *x, const char *y)
{
    int row[NAME_BYTES + 1];
    int n = (int)strlen(x), m = (int)strlen(y);
    if (n == 0 || m == 0 || n > NAME_BYTES || m > NAME_BYTES) return 0;
    for (int k = 0; k <= m; k++) row[k] = k;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int k = 1; k <= m; k++) {
            int best = diagonal + (x[i - 1] != y[k - 1]);
            if (row[k] + 1 < best) best = row[k] + 1;
            if (row[k - 1] + 1 < best) best = row[k - 1] + 1;
            diagonal = row[k];
            row[k] = best;
        }
    }
    return 1 - (double)row[m] / (n > m ? n : m);
}

double api_alike(const char *x, const char *y)
{
    double words = by_words(x, y), edits = by_edits(x, y);
    return words > edits ? words : edits;
}

void api_best_add(struct api_best *b, const char *text, double score)
{
    int at = b->count;
    for (int i = 0; i < b->count; i++) {
        if (strcmp(b->text[i], text) == 0) return;
    }
    while (at > 0 && (b->score[at - 1] < score ||
                      (!(b->score[at - 1] > score) && strcmp(text, b->text[at - 1]) < 0)))
        at--;
    if (at == b->most) return;
    if (b->count < b->most) b->count++;
    for (int i = b->count - 1; i > at; i--) {
        b->text[i] = b->text[i - 1];
        b->score[i] = b->score[i - 1];
    }
    b->text[at] = text;
    b->score[at] = score;
}

/* Equal dotted parts, from the end. ':' counts as a dot. */
static int common_tail(const char *x, const char *y)
{
    const char *i = x + strlen(x), *k = y + strlen(y);
    int parts = 0;
    for (;;) {
        const char *xe = i, *ye = k;
        while (i > x && i[-1] != '.' && i[-1] != ':') i--;
        while (k > y && k[-1] != '.' && k[-1] != ':') k--;
        if (xe - i != ye - k || strncmp(i, k, (size_t)(xe - i)) != 0) return parts;
        parts++;
        if (i == x || k == y) return parts;
        i--;
        k--;
    }
}

/* Parts of `wanted` before its last one that `candidate` has too, the root aside. */
static int common_parts(const char *candidate, const char *wanted)
{
    int parts = 0;
    const char *w = wanted + strcspn(wanted, ".:");
    while (*w) {
        const char *begin = ++w;
        w += strcspn(w, ".:");
        size_t n = (size_t)(w - begin);
        if (!*w) break;
        for (const char *c = candidate; c; c = strpbrk(c, ".:")) {
            if (c != candidate) c++;
            if (strcspn(c, ".:") == n && strncmp(c, begin, n) == 0) {
                parts++;
                break;
            }
        }
    }
    return parts;
}

static int dots(const char *name)
{
    int n = 0;
    for (; *name; name++) n += *name == '.';
    return n;
}

static bool is_defined_here(const struct api_name *n)
{
    for (int i = 0; i < n->defs; i++) {
        if (n->def[i].kind != API_ALIAS) return true;
    }
    return false;
}

static double agreement(const char *candidate, const char *wanted)
{
    return 100 * common_tail(candidate, wanted) + 60 * common_parts(candidate, wanted);
}

int api_moved(const struct api *a, const char *wanted, const char **out, int most)
{
    double score[16];
    struct api_best best = {.text = out, .score = score, .most = most < 16 ? most : 16};
    const char *dot = strrchr(wanted, '.'), *colon = strrchr(wanted, ':');
    const char *last = dot > colon ? dot : colon;
    last = last ? last + 1 : wanted;
    for (int i = 0; i < a->modules; i++) {
        const struct api_module *m = &a->module[i];
        const struct api_name *n = api_name(&m->names, last, strlen(last));
        /* More agreement first, then definitions, then what lies less deep. */
        if (n && strcmp(n->def->path, wanted) != 0)
            api_best_add(&best, n->def->path,
                         agreement(n->def->path, wanted) + 50 * is_defined_here(n) - dots(m->name));
        if (common_tail(m->name, wanted) > 0 && strcmp(m->name, wanted) != 0)
            api_best_add(&best, m->name, agreement(m->name, wanted) - dots(m->name));
    }
    return best.count;
}
