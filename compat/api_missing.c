/* api_missing.c: a name that nothing makes: is that proven, and where may it be now; see
 * api_find.h.
 */
#include "compat/api_find.h"
#include "compat/api_now.h"
#include "compat/api_reach.h"

#include <stdio.h>
#include <string.h>

static void not_known(struct api_result *out, enum api_found found, const char *why)
{
    out->found = found;
    out->why = why;
}

/* Where it is now: what a contract recorded, else a search. */
static void fill_now(const struct api *a, const struct api_absent *known, const char *wanted,
                     struct api_result *out)
{
    if (known) {
        for (int i = 0; i < known->now.count && i < API_NOW; i++) {
            out->now[out->nows++] = known->now.text[i];
        }
    } else if (!a->consumer.name) {
        out->nows = api_moved(a, wanted, out->now, API_NOW / 2);
    }
}

/* Near names of a module, behind what was found already. */
static void add_near(const struct api *a, const struct api_module *m, const char *name,
                     struct api_result *out)
{
    double score[API_NOW];
    struct api_best best = {.text = out->now + out->nows, .score = score, .most = 3};
    for (int i = 0; !a->consumer.name && i < m->names.count; i++) {
        double alike = api_alike(name, m->names.name[i].name);
        if (100 * alike >= API_ALIKE_MIN_PERCENT)
            api_best_add(&best, m->names.name[i].def->path, alike);
    }
    out->nows += best.count;
}

/* The path `of`, below the folder that was read, is that of the module file `wanted`: whole, below
 * other folders, or without the package, where that is the folder. */
static bool is_file(const char *of, const char *wanted)
{
    size_t n = strlen(of), tail = strlen(wanted);
    const char *below = strchr(wanted, '/');
    if (below && strcmp(of, below + 1) == 0) return true;
    return n >= tail && strcmp(of + n - tail, wanted) == 0 &&
           (n == tail || of[n - tail - 1] == '/');
}

/* The file of the module `name` (and `part` below it, if any) is among those that could not be
 * read. */
static bool is_problem(const struct api *a, const char *name, size_t length, const char *part)
{
    char stem[512], file[2][544];
    snprintf(stem, sizeof stem, "%.*s%s%s", (int)length, name, part ? "." : "", part ? part : "");
    for (char *s = stem; *s; s++) *s = *s == '.' ? '/' : *s;
    snprintf(file[0], sizeof file[0], "%s.py", stem);
    snprintf(file[1], sizeof file[1], "%s/__init__.py", stem);
    for (int i = 0; i < a->problems; i++) {
        for (int k = 0; k < 2; k++) {
            if (is_file(a->problem[i].file, file[k])) return true;
        }
    }
    return false;
}

/* Nothing in the module makes the name: why, and where it may be. `name` is a whole text. */
void api_explain_missing(const struct api *a, const struct api_module *m, const char *name,
                         bool open, struct api_result *out)
{
    const struct api_absent *known = api_absent(m->absent, m->absents, name);
    char wanted[512];
    if (m->compiled) {
        not_known(out, API_UNKNOWN, "a compiled module: its source is not Python");
    } else if (m->dynamic) {
        not_known(out, API_UNKNOWN, "the module's __getattr__ may make any name");
    } else if (m->problem || is_problem(a, m->name, strlen(m->name), NULL) ||
               is_problem(a, m->name, strlen(m->name), name)) {
        not_known(out, API_UNKNOWN, "a file that could not be read may have it");
    } else if (open) {
        not_known(out, API_UNKNOWN, "a star import leads where nothing was recorded");
    } else if (m->partial && !known) {
        not_known(out, API_UNRECORDED, "nobody asked for it when the contract was recorded");
    } else {
        out->found = API_ABSENT;
        out->holder = m->name;
        snprintf(wanted, sizeof wanted, "%s:%s", m->name, name);
        fill_now(a, known, wanted, out);
        if (!known) add_near(a, m, name, out);
    }
}

/* No module of the library has this name. */
void api_missing_module(const struct api *a, const char *name, struct api_result *out)
{
    const struct api_absent *known = api_absent(a->absent, a->absents, name);
    out->missing = name;
    bool unread = false;
    for (size_t n = strcspn(name, ".:");; n += 1 + strcspn(name + n + 1, ".:")) {
        unread |= is_problem(a, name, n, NULL);
        if (name[n] != '.') break;
    }
    if (unread) {
        not_known(out, API_UNKNOWN, "a file that could not be read may have it");
    } else if (a->consumer.name && !known) {
        not_known(out, API_UNRECORDED, "nobody asked for it when the contract was recorded");
    } else {
        out->found = API_ABSENT;
        out->holder = a->library.name;
        fill_now(a, known, name, out);
    }
    if (out->found == API_ABSENT) api_note_miss(a, NULL, name, out->now, out->nows);
}

/* A package on the way is gone: the whole name says more than its first missing part. */
void api_refine_now(const struct api *a, const char *name, struct api_result *out)
{
    const char *now[API_NOW];
    int nows = 0;
    if (a->consumer.name) {
        const struct api_absent *known = api_absent(a->absent, a->absents, name);
        for (; known && nows < known->now.count && nows < API_NOW; nows++)
            now[nows] = known->now.text[nows];
    } else {
        nows = api_moved(a, name, now, API_NOW);
        api_note_miss(a, NULL, name, now, nows);
    }
    if (nows > 0) memcpy(out->now, now, sizeof now);
    if (nows > 0) out->nows = nows;
}
