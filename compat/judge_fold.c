/* judge_fold.c: findings: said once, folded under their cause, counted. */
#include "compat/judge_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The findings are kept in a list, and in a table by what they are about. */
static unsigned hash_of(enum judge_kind kind, const char *symbol, const char *file, int line)
{
    unsigned h = 2166136261u ^ (unsigned)kind ^ ((unsigned)line << 4);
    for (; *symbol; symbol++) h = (h ^ (unsigned char)*symbol) * 16777619u;
    for (; *file; file++) h = (h ^ (unsigned char)*file) * 16777619u;
    return h;
}

static int place_of(struct judge_finding *const *table, int room, enum judge_kind kind,
                    const char *symbol, const char *file, int line)
{
    int i = (int)(hash_of(kind, symbol, file, line) & (unsigned)(room - 1));
    for (; table[i]; i = (i + 1) & (room - 1)) {
        const struct judge_finding *f = table[i];
        if (f->line == line && f->kind == kind && strcmp(f->symbol, symbol) == 0 &&
            strcmp(f->file, file) == 0)
            break;
    }
    return i;
}

static bool grow(struct judge_run *r)
{
    int room = r->finding_room ? r->finding_room * 2 : 512;
    struct judge_finding **list = judge_run_take(r, room / 2, sizeof *list);
    struct judge_finding **table = judge_run_take(r, room, sizeof *table);
    if (!list || !table) return false;
    for (int i = 0; i < r->findings; i++) {
        const struct judge_finding *f = r->finding[i];
        list[i] = r->finding[i];
        table[place_of(table, room, f->kind, f->symbol, f->file, f->line)] = r->finding[i];
    }
    r->finding = list;
    r->finding_at = table;
    r->finding_room = room;
    return true;
}

/* The finding about that, or a fresh one whose symbol is NULL. */
static struct judge_finding *slot(struct judge_run *r, enum judge_kind kind, const char *symbol,
                                  const char *file, int line)
{
    if (r->findings * 2 >= r->finding_room && !grow(r)) return NULL;
    int at = place_of(r->finding_at, r->finding_room, kind, symbol, file, line);
    if (r->finding_at[at]) return r->finding_at[at];
    struct judge_finding *f = judge_run_take(r, 1, sizeof *f);
    if (!f) return NULL;
    r->finding_at[at] = r->finding[r->findings++] = f;
    return f;
}

static int rank(enum judge_verdict v)
{
    return v == JUDGE_BROKEN ? 2 : v == JUDGE_UNDECIDABLE ? 1 : 0;
}

/* A place that is looked at twice (a body that runs in two branches) keeps the graver answer. */
struct judge_finding *judge_find_say(struct frame *f, enum judge_kind kind,
                                     enum judge_verdict verdict, const char *symbol, int line,
                                     const struct api_def *provider, const char *why)
{
    struct judge_run *r = f->run;
    if (!r->report) return NULL;
    const char *file = f->module->uses->file;
    struct judge_finding *n = slot(r, kind, symbol, file, line);
    if (!n) return NULL;
    if (n->symbol && rank(n->verdict) >= rank(verdict))
        return rank(n->verdict) == rank(verdict) ? n : NULL;
    *n = (struct judge_finding){
        .kind = kind,
        .verdict = verdict,
        .severity = verdict == JUDGE_BROKEN        ? JUDGE_BREAKS_NOW
                    : verdict == JUDGE_UNDECIDABLE ? JUDGE_CANNOT_TELL
                                                   : JUDGE_NOTE,
        .symbol = symbol,
        .file = file,
        .line = line,
        .why = why,
        .provider = provider ? provider->module->file : NULL,
        .provider_line = provider ? provider->line : 0,
    };
    return n;
}

struct judge_finding *judge_find_ok(struct frame *f, enum judge_kind kind, const char *symbol,
                                    int line, const struct api_def *provider)
{
    return judge_find_say(f, kind, JUDGE_OK, symbol, line, provider, "as recorded");
}

struct judge_finding *judge_find_undecidable(struct frame *f, enum judge_kind kind,
                                             const char *symbol, int line,
                                             const struct api_def *provider, const char *why)
{
    if (f->mute > 0) return NULL;
    return judge_find_say(f, kind, JUDGE_UNDECIDABLE, symbol, line, provider, why);
}

static unsigned guard_of(enum judge_kind kind)
{
    if (kind == JUDGE_IMPORT) return GUARD_IMPORT;
    if (kind == JUDGE_CALL) return GUARD_CALL;
    return kind == JUDGE_ATTRIBUTE ? GUARD_ATTRIBUTE : 0;
}

struct judge_finding *judge_find_broken(struct frame *f, enum judge_kind kind, const char *symbol,
                                        int line, const struct api_def *provider, const char *why)
{
    if (f->guards & guard_of(kind)) {
        f->raised = true;
        return NULL;
    }
    if (f->mute > 0) return NULL;
    if (f->unsure > 0)
        return judge_find_undecidable(
            f, kind, symbol, line, provider,
            judge_run_format(f->run, "%s; whether this branch is taken is not known", why));
    return judge_find_say(f, kind, JUDGE_BROKEN, symbol, line, provider, why);
}

void judge_find_deprecated(struct frame *f, enum judge_kind kind, const char *symbol, int line,
                           const struct api_def *d, const char *text)
{
    struct judge_finding *n =
        f->mute ? NULL : judge_find_say(f, kind, JUDGE_OK, symbol, line, d, text);
    if (!n || n->severity != JUDGE_NOTE) return;
    n->severity = JUDGE_DEPRECATED;
    n->why = text;
    for (const char *p = text; *p; p++) {
        size_t digits = strspn(p, "0123456789"), all = strspn(p, "0123456789.");
        if (digits == 0) continue;
        if (all > digits + 1) {
            while (p[all - 1] == '.') all--;
            n->until = judge_run_format(f->run, "%.*s", (int)all, p);
            return;
        }
        p += all - 1;
    }
}

/* ---- cascades ---- */

const struct value *judge_value_broken(struct judge_run *r, struct judge_finding *cause)
{
    if (!cause) return &value_unknown;
    return judge_value_make(r, (struct value){.kind = VALUE_BROKEN, .cause = cause});
}

void judge_find_fold(struct frame *f, struct judge_finding *cause, int line)
{
    struct judge_run *r = f->run;
    if (!r->report || !cause || f->mute || line == cause->line) return;
    if (strcmp(cause->file, f->module->uses->file) != 0) return;
    for (int i = 0; i < cause->alsos; i++) {
        if (cause->also[i] == line) return;
    }
    if (cause->alsos == cause->also_room) {
        int room = cause->also_room ? cause->also_room * 2 : 8;
        int *more = judge_run_take(r, room, sizeof *more);
        if (!more) return;
        if (cause->alsos > 0) memcpy(more, cause->also, (size_t)cause->alsos * sizeof *more);
        cause->also = more;
        cause->also_room = room;
    }
    cause->also[cause->alsos++] = line;
    r->folded++;
}

/* ---- the end ---- */

static int by_place(const void *a, const void *b)
{
    const struct judge_finding *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    if (c == 0) c = (x->line > y->line) - (x->line < y->line);
    if (c == 0) c = strcmp(x->symbol, y->symbol);
    return c ? c : (int)x->kind - (int)y->kind;
}

enum err_code judge_find_finish(struct judge_run *r, struct judge_report *out)
{
    *out = (struct judge_report){.findings = r->findings};
    out->finding = judge_run_take(r, r->findings, sizeof *out->finding);
    if (!judge_run_ok(r)) return r->err->code;
    for (int i = 0; i < r->findings; i++) out->finding[i] = *r->finding[i];
    if (r->findings > 1) qsort(out->finding, (size_t)r->findings, sizeof *out->finding, by_place);
    if (judge_accept_apply(r, out) != ERR_OK) return r->err->code;
    struct judge_counts *c = &out->counts;
    c->folded = r->folded;
    for (int i = 0; i < out->findings; i++) {
        const struct judge_finding *f = &out->finding[i];
        c->checked++;
        if (f->accepted) {
            c->accepted++;
            continue;
        }
        c->ok += f->verdict == JUDGE_OK;
        c->broken += f->verdict == JUDGE_BROKEN;
        c->undecidable += f->verdict == JUDGE_UNDECIDABLE;
        c->warned += f->severity == JUDGE_DEPRECATED || f->severity == JUDGE_DEFAULT ||
                     f->severity == JUDGE_TYPE;
    }
    return ERR_OK;
}

const char *judge_severity_text(const struct judge_finding *f, char *buf, size_t size)
{
    static const char *const text[] = {
        [JUDGE_NOTE] = "none",
        [JUDGE_BREAKS_NOW] = "breaks now",
        [JUDGE_SHIFTS] = "shifts silently",
        [JUDGE_DEFAULT] = "default changed",
        [JUDGE_TYPE] = "type changed",
        [JUDGE_DEPRECATED] = "deprecated",
        [JUDGE_CANNOT_TELL] = "cannot tell",
    };
    if (f->severity != JUDGE_DEPRECATED || !f->until) return text[f->severity];
    snprintf(buf, size, "deprecated until %s", f->until);
    return buf;
}

const char *judge_verdict_text(enum judge_verdict v)
{
    return v == JUDGE_OK ? "ok" : v == JUDGE_BROKEN ? "broken" : "undecidable";
}

const char *judge_kind_text(enum judge_kind k)
{
    static const char *const text[] = {"import",   "call",  "attribute", "override",
                                       "abstract", "patch", "named",     "result"};
    return text[k];
}
