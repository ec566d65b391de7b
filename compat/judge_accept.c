/* judge_accept.c: findings that somebody looked at and lives with, each with a reason and, where it
 * is meant for a while, a last day. A row that matches nothing is an error; one past its day no
 * longer counts, and says so. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <ctype.h>
#include <string.h>

static bool is_date(const char *t)
{
    for (int i = 0; i < 10; i++) {
        bool dash = i == 4 || i == 7;
        if (dash ? t[i] != '-' : !isdigit((unsigned char)t[i])) return false;
    }
    return t[10] == 0;
}

/* "REASON until 2027-01-01" */
static void read_inline(struct judge_run *r, const struct uses_module *m,
                        const struct uses_accept *a, struct judge_accept *out)
{
    const char *until = strstr(a->text, " until ");
    *out = (struct judge_accept){.file = m->file,
                                 .line = a->line,
                                 .reason = a->text,
                                 .place = judge_run_format(r, "%s:%d", m->file, a->line)};
    if (!until || !is_date(until + 7)) return;
    out->until = until + 7;
    out->reason = judge_run_format(r, "%.*s", (int)(until - a->text), a->text);
}

/* "handler.swallow why": of `assay lint`, whose rules have two words with a dot between. */
static bool is_lint(const char *text)
{
    static const char *const letters = "abcdefghijklmnopqrstuvwxyz_";
    size_t first = strspn(text, letters), second = 0;
    if (first > 0 && text[first] == '.') second = strspn(text + first + 1, letters);
    char end = second > 0 ? text[first + 1 + second] : 'x';
    return end == ' ' || end == 0;
}

static bool on_line(const struct judge_finding *f, int line)
{
    if (f->line == line) return true;
    for (int i = 0; i < f->alsos; i++) {
        if (f->also[i] == line) return true;
    }
    return false;
}

static bool matches(const struct judge_accept *a, const struct judge_finding *f)
{
    if (f->severity == JUDGE_NOTE) return false;
    if (a->line > 0 && !on_line(f, a->line)) return false;
    if (a->file && !text_glob(a->file, f->file)) return false;
    return !a->symbol || text_glob(a->symbol, f->symbol);
}

static void apply(struct judge_run *r, struct judge_accept *a, struct judge_report *out)
{
    bool over = a->until && r->in->today && strcmp(r->in->today, a->until) > 0;
    for (int i = 0; i < out->findings; i++) {
        struct judge_finding *f = &out->finding[i];
        if (f->accepted || !matches(a, f)) continue;
        a->hit = true;
        if (over)
            f->why = judge_run_format(r, "%s (accepted until %s: that is over)", f->why, a->until);
        else
            f->accepted = a->reason;
    }
}

static enum err_code check(struct judge_run *r, const struct judge_accept *a)
{
    if (!a->reason[0])
        return err_set(r->err, ERR_INPUT, "accepted finding|%s|no reason|a reason", a->place);
    if (!a->hit)
        return err_set(r->err, ERR_INPUT,
                       "accepted finding|%s|no finding that it fits|a finding, or no such row",
                       a->place);
    return ERR_OK;
}

enum err_code judge_accept_apply(struct judge_run *r, struct judge_report *out)
{
    for (int i = 0; i < r->in->accepts; i++) apply(r, &r->in->accept[i], out);
    for (int i = 0; i < r->in->uses->modules; i++) {
        const struct uses_module *m = &r->in->uses->module[i];
        for (const struct uses_accept *u = m->accept; u; u = u->next) {
            struct judge_accept a;
            if (is_lint(u->text)) continue;
            read_inline(r, m, u, &a);
            apply(r, &a, out);
            if (check(r, &a) != ERR_OK) return r->err->code;
        }
    }
    for (int i = 0; i < r->in->accepts; i++) {
        if (check(r, &r->in->accept[i]) != ERR_OK) return r->err->code;
    }
    return r->err->code;
}
