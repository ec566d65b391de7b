/* lint.c: see lint.h: the list of findings and the comments that accept them. */
#include "harness/lint.h"

#include "core/json.h"
#include "core/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more in a list, or NULL. */
static void *more(struct lint *l, void *list, int count, int *room, size_t size)
{
    if (l->err->code != ERR_OK) return NULL;
    if (count < *room) return list;
    int wider = *room ? 2 * *room : 64;
    void *grown = realloc(list, (size_t)wider * size);
    if (!grown) {
        err_set(l->err, ERR_MEMORY, "lint|findings|no memory for %d|room", wider);
        return NULL;
    }
    *room = wider;
    return grown;
}

void lint_add(struct lint *l, const struct lint_finding *f)
{
    void *list = more(l, l->finding, l->findings, &l->finding_room, sizeof *l->finding);
    if (!list) return;
    l->finding = list;
    l->finding[l->findings++] = *f;
}

void lint_comment(struct lint *l, const char *file, int line, const char *text)
{
    void *list = more(l, l->comment, l->comments, &l->comment_room, sizeof *l->comment);
    if (!list) return;
    l->comment = list;
    l->comment[l->comments++] = (struct lint_comment){.file = file, .line = line, .text = text};
}

void lint_unread(struct lint *l, const char *file, int line, const char *what)
{
    void *list = more(l, l->unread, l->unreads, &l->unread_room, sizeof *l->unread);
    if (!list) return;
    l->unread = list;
    l->unread[l->unreads++] = (struct lint_unread){.file = file, .line = line, .what = what};
}

/* ---- comments ---- */

static size_t first_word(const char *text)
{
    size_t n = 0;
    while (text[n] && !isspace((unsigned char)text[n])) n++;
    return n;
}

/* The rule that a comment names, LINT_RULES where it names none. */
static int rule_of(const char *text)
{
    size_t n = first_word(text);
    for (int i = 0; i < LINT_RULES; i++) {
        if (strlen(lint_rules[i].id) == n && memcmp(lint_rules[i].id, text, n) == 0) return i;
    }
    return LINT_RULES;
}

/* A comment with a word before a dot that begins a rule of ours is meant for us; others speak to
 * `contract check`, which shares the form. */
static bool meant_for_lint(const char *text)
{
    size_t n = first_word(text);
    const char *dot = memchr(text, '.', n);
    for (int i = 0; dot && i < LINT_RULES; i++) {
        if (strncmp(lint_rules[i].id, text, (size_t)(dot - text) + 1) == 0) return true;
    }
    return false;
}

static const char *reason_of(const char *text)
{
    const char *reason = text + first_word(text);
    while (isspace((unsigned char)*reason)) reason++;
    return reason;
}

static bool accepts(const struct lint_comment *c, const struct lint_finding *f)
{
    return (c->line == f->line || c->line + 1 == f->line) && strcmp(c->file, f->file) == 0 &&
           rule_of(c->text) == (int)f->rule && reason_of(c->text)[0];
}

static void complain(struct lint *l, const struct lint_comment *c)
{
    const char *message = NULL;
    if (!meant_for_lint(c->text)) return;
    if (rule_of(c->text) == LINT_RULES)
        message =
            pool_format(l->pool, l->err, "ignore[%s]: there is no rule of that name", c->text);
    else if (!reason_of(c->text)[0])
        message = pool_format(l->pool, l->err, "ignore[%s]: no reason is given", c->text);
    else if (!c->used)
        message =
            pool_format(l->pool, l->err, "ignore[%s]: there is no such finding here", c->text);
    if (!message) return;
    lint_add(l, &(struct lint_finding){
                    .rule = LINT_SUPPRESS, .file = c->file, .line = c->line, .message = message});
}

static int by_place(const void *a, const void *b)
{
    const struct lint_finding *x = a, *y = b;
    int file = strcmp(x->file, y->file);
    if (file) return file;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    return (int)x->rule - (int)y->rule;
}

void lint_settle(struct lint *l)
{
    for (int i = 0; i < l->comments; i++) {
        struct lint_comment *c = &l->comment[i];
        for (int k = 0; k < l->findings; k++) {
            struct lint_finding *f = &l->finding[k];
            if (f->accepted || !accepts(c, f)) continue;
            f->accepted = reason_of(c->text);
            c->used = true;
        }
    }
    for (int i = 0; i < l->comments; i++) complain(l, &l->comment[i]);
    if (l->findings) qsort(l->finding, (size_t)l->findings, sizeof *l->finding, by_place);
}

static bool counts(const struct lint_finding *f)
{
    return !f->accepted && lint_rules[f->rule].severity != LINT_NOTE;
}

int lint_open(const struct lint *l)
{
    int n = 0;
    for (int i = 0; i < l->findings; i++) n += counts(&l->finding[i]);
    return n;
}

/* ---- JSON ---- */

static json_t *finding_json(const struct lint_finding *f)
{
    static const char *const severities[] = {"note", "warning", "error"};
    const struct lint_rule *rule = &lint_rules[f->rule];
    json_t *o = json_pack("{s:s, s:s, s:o, s:i, s:o, s:o, s:o, s:s, s:s, s:[]}", "rule", rule->id,
                          "severity", severities[rule->severity], "file", json_any_text(f->file),
                          "line", f->line, "function", json_any_text(f->function), "type",
                          json_any_text(f->type), "message", json_any_text(f->message), "why",
                          rule->why, "remedy", rule->remedy, "trace");
    if (f->accepted) json_object_set_new(o, "accepted", json_any_text(f->accepted));
    return o;
}

void lint_json(const struct lint *l, json_t *result)
{
    json_t *findings = json_array(), *unread = json_array();
    int accepted = 0, notes = 0;
    for (int i = 0; i < l->findings; i++) {
        const struct lint_finding *f = &l->finding[i];
        accepted += f->accepted != NULL;
        notes += !f->accepted && lint_rules[f->rule].severity == LINT_NOTE;
        json_array_append_new(findings, finding_json(f));
    }
    for (int i = 0; i < l->unreads; i++) {
        const struct lint_unread *u = &l->unread[i];
        json_array_append_new(unread, json_pack("{s:o, s:i, s:o}", "file", json_any_text(u->file),
                                                "line", u->line, "what", json_any_text(u->what)));
    }
    json_object_set_new(result, "findings", findings);
    json_object_set_new(result, "counts",
                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "open", lint_open(l),
                                  "accepted", accepted, "notes", notes, "python", l->python,
                                  "shell", l->shell, "handlers", l->handlers, "calls", l->calls,
                                  "commands", l->commands));
    json_object_set_new(result, "unread", unread);
}

void lint_free(struct lint *l)
{
    free(l->finding);
    free(l->comment);
    free(l->unread);
    l->finding = NULL;
    l->comment = NULL;
    l->unread = NULL;
}
