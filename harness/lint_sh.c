/* lint_sh.c: the rules on commands, pipelines and lists of a shell script. See lint_sh.h. */
#include "harness/lint_sh.h"

#include <stdio.h>
#include <string.h>

void sh_report(const struct sh_place *p, enum lint_id rule, int line, const char *message)
{
    if (!message) return;
    lint_add(p->s->l, &(struct lint_finding){.rule = rule,
                                             .file = p->s->file,
                                             .line = line,
                                             .function = p->function,
                                             .message = message});
}

static const char *quoted(const struct sh_place *p, const char *text, const char *what)
{
    int n = (int)strcspn(text, "\n");
    return pool_format(p->s->l->pool, p->s->l->err, "`%.*s%s`: %s", n > 60 ? 60 : n, text,
                       n > 60 ? " ..." : "", what);
}

static void judge_command(const struct sh_place *p, const struct sh_command *c);

/* ---- pipelines ---- */

/* `2>/dev/null`, `&>/dev/null` or `>/dev/null 2>&1`. */
static bool hides_errors(const struct sh_command *c)
{
    bool out = false;
    for (int i = 0; i < c->redirects; i++) {
        const struct sh_redirect *r = &c->redirect[i];
        bool nowhere = strcmp(r->to, "/dev/null") == 0;
        if (nowhere && (r->fd == 2 || strncmp(r->op, "&>", 2) == 0)) return true;
        if (nowhere && r->op[0] == '>' && (r->fd == 1 || r->fd == -1)) out = true;
        if (out && r->fd == 2 && strcmp(r->op, ">&") == 0 && strcmp(r->to, "1") == 0) return true;
    }
    return false;
}

static bool is_quiet_kind(const struct sh_command *c)
{
    return c->kind != SH_SIMPLE || c->words == 0 || sh_is_harmless(c) || sh_tidies(c) || sh_asks(c);
}

static void judge_pipe(const struct sh_place *p, const struct sh_pipeline *pipe)
{
    if (p->s->pipefail || (p->tested && !p->kept) || pipe->negated) return;
    for (const struct sh_command *c = pipe->first; c->next; c = c->next) {
        if (is_quiet_kind(c)) continue;
        sh_report(p, LINT_PIPE, c->line, quoted(p, c->text, "its failure is lost behind the pipe"));
        return;
    }
}

/* Is there a command whose status the pipeline has, and is that status looked at? */
static void judge_hidden(const struct sh_place *p, const struct sh_pipeline *pipe, bool looked)
{
    for (const struct sh_command *c = pipe->first; c; c = c->next) {
        bool lost = c->next ? !p->s->pipefail && !p->tested : !looked && !p->s->errexit;
        if (is_quiet_kind(c) || !hides_errors(c) || !lost) continue;
        sh_report(p, LINT_STDERR, c->line,
                  quoted(p, c->text, "its errors go to /dev/null, its status nowhere"));
    }
}

static bool is_true(const struct sh_pipeline *pipe)
{
    const struct sh_command *c = pipe ? pipe->first : NULL;
    return c && c->kind == SH_SIMPLE && pipe->commands == 1 && c->words == 1 &&
           (strcmp(c->word[0].plain, "true") == 0 || strcmp(c->word[0].plain, ":") == 0);
}

/* The last command of a pipeline: what `|| true` is about. */
static const struct sh_command *last_of(const struct sh_pipeline *pipe)
{
    const struct sh_command *c = pipe->first;
    while (c->next) c = c->next;
    return c;
}

/* `a && b || true`: `head` is where the chain begins. */
static void judge_or_true(const struct sh_place *p, const struct sh_pipeline *head,
                          const struct sh_pipeline *pipe)
{
    const struct sh_command *c = last_of(pipe);
    if (pipe->after != SH_OR || !is_true(pipe->next) || p->tidies || p->tested) return;
    bool simple = c->kind == SH_SIMPLE && c->words > 0;
    if (head != pipe && head->first->kind == SH_TEST) return;
    if (!simple || sh_tidies(c) || sh_asks(c) || (sh_is_harmless(c) && pipe->commands == 1)) return;
    sh_report(p, LINT_OR_TRUE, c->line, quoted(p, c->text, "|| true"));
}

static void judge_cd(const struct sh_place *p, const struct sh_pipeline *pipe, bool looked)
{
    const struct sh_command *c = pipe->first;
    if (looked || p->s->errexit || c->kind != SH_SIMPLE || c->words < 2 || pipe->commands > 1)
        return;
    const char *to = c->word[c->words - 1].plain;
    bool sure = strcmp(to, "/") == 0 || strcmp(to, "-") == 0 || strcmp(to, "..") == 0;
    bool cd = strcmp(c->word[0].plain, "cd") == 0 || strcmp(c->word[0].plain, "pushd") == 0;
    if (!cd || sure || pipe->after == SH_END || !pipe->next) return;
    sh_report(p, LINT_CD, c->line, quoted(p, c->text, "not checked"));
}

static void judge_background(const struct sh_place *p, const struct sh_pipeline *pipe);

static void judge_pipeline(const struct sh_place *p, const struct sh_pipeline *head,
                           const struct sh_pipeline *pipe)
{
    bool looked = p->tested || pipe->after == SH_AND || pipe->after == SH_OR || pipe->negated;
    struct sh_place inner = *p;
    inner.tested = looked;
    inner.returns = p->returns && !pipe->next;
    bool forgiven = pipe->after == SH_OR && is_true(pipe->next);
    judge_pipe(p, pipe);
    judge_hidden(p, pipe, inner.returns || (looked && !forgiven));
    judge_or_true(p, head, pipe);
    judge_cd(p, pipe, looked);
    if (pipe->after == SH_BACKGROUND) judge_background(p, pipe);
    for (const struct sh_command *c = pipe->first; c; c = c->next) {
        struct sh_place here = inner;
        if (c != pipe->first) here.reads = false; /* it reads the pipe */
        judge_command(&here, c);
    }
}

void sh_judge(const struct sh_place *p, const struct sh_list *list)
{
    const struct sh_pipeline *head = NULL;
    for (const struct sh_pipeline *q = list ? list->first : NULL; q; q = q->next) {
        if (!head) head = q;
        judge_pipeline(p, head, q);
        if (q->after != SH_AND && q->after != SH_OR) head = NULL;
    }
}

/* ---- commands ---- */

/* Does a list call `read` from the loop's own input? */
static bool reads_lines(const struct sh_list *test)
{
    for (const struct sh_pipeline *q = test ? test->first : NULL; q; q = q->next) {
        const struct sh_command *c = q->first;
        if (c->kind != SH_SIMPLE || c->words == 0 || strcmp(c->word[0].plain, "read") != 0)
            continue;
        bool other = false;
        for (int i = 1; i < c->words; i++) other |= strncmp(c->word[i].plain, "-u", 2) == 0;
        for (int i = 0; i < c->redirects; i++) other |= c->redirect[i].op[0] == '<';
        if (!other) return true;
    }
    return false;
}

static bool has_stdin(const struct sh_command *c)
{
    for (int i = 0; i < c->redirects; i++) {
        if (c->redirect[i].op[0] == '<' && c->redirect[i].fd <= 0) return true;
    }
    return false;
}

static bool has_option(const struct sh_command *c, const char *letters, const char *word)
{
    for (int i = 1; i < c->words; i++) {
        const char *w = c->word[i].plain;
        if (word && strcmp(w, word) == 0) return true;
        if (w[0] == '-' && w[1] && w[1] != '-' && strpbrk(w + 1, letters) && strlen(w) <= 4)
            return true;
    }
    return false;
}

/* Programs that read all of their input unless they are told not to. */
static void judge_stdin(const struct sh_place *p, const struct sh_command *c)
{
    int at;
    const char *name = sh_program(c, &at);
    if (!p->reads || has_stdin(c)) return;
    bool eats = false;
    if (strcmp(name, "ssh") == 0) eats = !has_option(c, "nf", "StdinNull=yes");
    if (strcmp(name, "ffmpeg") == 0) eats = !has_option(c, "", "-nostdin");
    if (strcmp(name, "srun") == 0 || strcmp(name, "mpirun") == 0 || strcmp(name, "mpiexec") == 0)
        eats = true;
    if (strcmp(name, "docker") == 0 || strcmp(name, "podman") == 0 || strcmp(name, "kubectl") == 0)
        eats = has_option(c, "i", "--interactive");
    if (!eats) return;
    sh_report(p, LINT_STDIN, c->line, quoted(p, c->text, "reads the input of the loop"));
}

static void judge_trap(const struct sh_place *p, const struct sh_command *c)
{
    bool err = false;
    if (c->words < 3 || strcmp(c->word[0].plain, "trap") != 0) return;
    for (int i = 2; i < c->words; i++) err |= strcmp(c->word[i].plain, "ERR") == 0;
    const char *what = c->word[1].plain;
    if (err && (!what[0] || strcmp(what, ":") == 0 || strcmp(what, "true") == 0))
        sh_report(p, LINT_TRAP, c->line, quoted(p, c->text, "says nothing"));
}

static bool clears_up(const char *name)
{
    return strstr(name, "clean") || strstr(name, "teardown") || strstr(name, "on_exit") ||
           strstr(name, "finish") || strstr(name, "stop") || strstr(name, "kill");
}

static void judge_simple(const struct sh_place *p, const struct sh_command *c)
{
    p->s->l->commands++;
    judge_stdin(p, c);
    judge_trap(p, c);
    sh_words(p, c);
    sh_inner(p, c);
}

static void judge_command(const struct sh_place *p, const struct sh_command *c)
{
    struct sh_place inner = *p, test = *p;
    test.tested = true;
    test.kept = false;
    inner.reads = p->reads && !has_stdin(c);
    test.reads = inner.reads;
    switch (c->kind) {
    case SH_SIMPLE:
        judge_simple(p, c);
        return;
    case SH_FUNCTION:
        inner.function = c->words ? c->word[0].plain : NULL;
        inner.tested = false;
        inner.returns = true;
        inner.tidies = inner.function && clears_up(inner.function);
        sh_judge(&inner, c->body);
        return;
    case SH_WHILE:
        sh_judge(&test, c->test);
        if (reads_lines(c->test)) inner.reads = true;
        inner.tested = false;
        inner.returns = false;
        sh_judge(&inner, c->body);
        return;
    case SH_TEST:
        p->s->l->commands++;
        return;
    default:
        sh_judge(&test, c->test);
        inner.tested = c->kind == SH_GROUP || c->kind == SH_SUBSHELL ? p->tested : false;
        sh_judge(&inner, c->body);
        sh_judge(&inner, c->other);
    }
}

/* ---- the whole script ---- */

typedef bool visit(const struct sh_command *c, const struct sh_pipeline *in, void *ctx);

/* Calls for each simple command until one says true. */
static bool any(const struct sh_list *list, visit *is, void *ctx)
{
    for (const struct sh_pipeline *q = list ? list->first : NULL; q; q = q->next) {
        for (const struct sh_command *c = q->first; c; c = c->next) {
            if (c->kind == SH_SIMPLE && is(c, q, ctx)) return true;
            if (any(c->test, is, ctx) || any(c->body, is, ctx) || any(c->other, is, ctx))
                return true;
        }
    }
    return false;
}

static bool sets_option(const struct sh_command *c, const char *name, char letter)
{
    if (c->words < 2 || strcmp(c->word[0].plain, "set") != 0) return false;
    for (int i = 1; i < c->words; i++) {
        const char *w = c->word[i].plain;
        if (strcmp(w, name) == 0 && i > 1 && c->word[i - 1].plain[0] == '-') return true;
        if (letter && w[0] == '-' && w[1] != '-' && strchr(w, letter) && strcmp(w, "-o") != 0)
            return true;
    }
    return false;
}

static bool is_errexit(const struct sh_command *c, const struct sh_pipeline *in, void *ctx)
{
    (void)in;
    (void)ctx;
    return sets_option(c, "errexit", 'e');
}

static bool is_pipefail(const struct sh_command *c, const struct sh_pipeline *in, void *ctx)
{
    bool zsh = c->words == 2 && strcmp(c->word[0].plain, "setopt") == 0 &&
               strcasecmp(c->word[1].plain, "pipefail") == 0;
    (void)in;
    (void)ctx;
    return zsh || sets_option(c, "pipefail", 0);
}

/* `wait` for one job gives its status; a server that is stopped is no job to wait for. */
static bool is_waited(const struct sh_command *c, const struct sh_pipeline *in, void *ctx)
{
    (void)in;
    (void)ctx;
    if (c->words < 2) return false;
    bool wait = strcmp(c->word[0].plain, "wait") == 0;
    return wait ||
           (strcmp(c->word[0].plain, "kill") == 0 && strchr(c->word[c->words - 1].raw, '$'));
}

static void judge_background(const struct sh_place *p, const struct sh_pipeline *pipe)
{
    const struct sh_command *c = pipe->first;
    if (any(p->s->list, is_waited, NULL)) return;
    if (c->kind == SH_SIMPLE && is_quiet_kind(c)) return;
    sh_report(p, LINT_BACKGROUND, c->line,
              quoted(p, c->text ? c->text : "( ... )", "no `wait` with its process id"));
}

struct tally {
    int fallible, line;
    const char *text;
    bool looks; /* somewhere $? is asked */
};

static bool tally_one(const struct sh_command *c, const struct sh_pipeline *in, void *ctx)
{
    struct tally *t = ctx;
    for (int i = 0; i < c->words; i++) t->looks |= strstr(c->word[i].raw, "$?") != NULL;
    for (int i = 0; i < c->assigns; i++) t->looks |= strstr(c->assign[i].raw, "$?") != NULL;
    if (is_quiet_kind(c) || in->after == SH_AND || in->after == SH_OR || in->negated) return false;
    if (!t->fallible++) {
        t->line = c->line;
        t->text = c->text;
    }
    return false;
}

/* Only what is run one after the other at the top, in loops and branches; not what is tested. */
static void tally(const struct sh_list *list, struct tally *t)
{
    const struct sh_pipeline *before = NULL;
    for (const struct sh_pipeline *q = list ? list->first : NULL; q; before = q, q = q->next) {
        bool tested = before && (before->after == SH_AND || before->after == SH_OR);
        for (const struct sh_command *c = q->first; c; c = c->next) {
            if (c->kind == SH_SIMPLE && !tested) tally_one(c, q, t);
            tally(c->body, t);
            tally(c->other, t);
        }
    }
}

static void judge_whole(const struct sh_place *p)
{
    struct tally t = {0};
    if (p->s->errexit) return;
    tally(p->s->list, &t);
    if (t.fallible < 3 || t.looks) return;
    const char *what = pool_format(p->s->l->pool, p->s->l->err,
                                   "no set -e: %d commands that can fail, from here on, are not "
                                   "looked at",
                                   t.fallible);
    sh_report(p, LINT_UNCHECKED, t.line, what);
}

static enum shell shell_of(const char *file, const char *text, bool *errexit)
{
    enum shell s = SHELL_BASH;
    size_t n = strcspn(text, "\n");
    char line[256];
    if (n >= sizeof line) n = sizeof line - 1;
    memcpy(line, text, n);
    line[n] = '\0';
    const char *dot = strrchr(file, '.');
    if (dot) (void)shell_find(dot + 1, strlen(dot + 1), &s);
    if (strncmp(line, "#!", 2) != 0) return s;
    for (char *w = strpbrk(line, "/ \t"); w; w = strpbrk(w + 1, "/ \t")) {
        (void)shell_find(w + 1, strcspn(w + 1, "/ \t"), &s);
        if (w[1] == '-' && w[2] != '-' && strchr(w + 1, 'e')) *errexit = true;
    }
    return s;
}

void lint_sh(struct lint *l, const char *file, const char *text)
{
    struct sh_script s = {.l = l, .file = file};
    struct sh_place p = {.s = &s};
    s.shell = shell_of(file, text, &s.errexit);
    l->shell++;
    s.list = sh_read(l, file, text, 1);
    if (!s.list) return;
    s.errexit |= any(s.list, is_errexit, NULL);
    s.pipefail = any(s.list, is_pipefail, NULL);
    sh_judge(&p, s.list);
    judge_whole(&p);
}
