/* lint_sh_words.c: the words of one command: what program it is, what a declaration hides, and what
 * becomes of words that go on to another shell. See lint_sh.h. */
#include "compat/hops.h"
#include "harness/lint_sh.h"

#include <stdio.h>
#include <string.h>

static bool among(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++) {
        if (strcmp(list[i], word) == 0) return true;
    }
    return false;
}

const char *sh_program(const struct sh_command *c, int *at)
{
    static const char *const before[] = {"sudo", "env",  "timeout", "nice",    "nohup",  "command",
                                         "exec", "time", "stdbuf",  "builtin", "ionice", NULL};
    *at = 0;
    for (int i = 0; i < c->words; i++) {
        const char *w = c->word[i].plain, *slash = strrchr(w, '/');
        bool skip = i > 0 && (w[0] == '-' || strchr(w, '=') || (w[0] >= '0' && w[0] <= '9'));
        if (skip || among(w, before)) continue;
        *at = i;
        return slash && slash[1] ? slash + 1 : w;
    }
    return "";
}

/* Programs that fail by a broken machine alone, or whose status is an answer that pipes discard. */
bool sh_is_harmless(const struct sh_command *c)
{
    static const char *const harmless[] = {
        "echo",     "printf",   "yes",      "seq",     "true",   ":",        "date",     "pwd",
        "uname",    "hostname", "whoami",   "id",      "ps",     "printenv", "set",      "export",
        "declare",  "local",    "readonly", "typeset", "shift",  "return",   "exit",     "break",
        "continue", "false",    "ls",       "sort",    "uniq",   "wc",       "head",     "tail",
        "cut",      "tr",       "sed",      "awk",     "tee",    "rev",      "basename", "dirname",
        "nproc",    "df",       "du",       "free",    "lscpu",  "sleep",    "column",   "trap",
        "eval",     "shopt",    "unset",    "umask",   "ulimit", "wait",     "logger",   "clear",
        "tput",     "env",      "getopts",  "setopt",  "read",   "history",  "jobs",     "cd",
        "pushd",    "popd",     "let",      "mktemp",  "touch",  "nl",       "fold",     NULL};
    int at;
    const char *name = sh_program(c, &at);
    if (strcmp(name, "cat") == 0) return c->words - at == 1;
    return !name[0] || among(name, harmless);
}

bool sh_tidies(const struct sh_command *c)
{
    static const char *const tidy[] = {"rm",     "rmdir", "kill",  "pkill",      "killall",
                                       "umount", "unset", "popd",  "deactivate", "unlink",
                                       "stty",   "reset", "fuser", NULL};
    static const char *const verbs[] = {"rm",     "stop",      "kill",  "down",
                                        "remove", "delete",    "prune", "disconnect",
                                        "rmi",    "uninstall", NULL};
    int at;
    const char *name = sh_program(c, &at);
    if (among(name, tidy)) return true;
    for (int i = at + 1; i < c->words && i < at + 4; i++) {
        if (among(c->word[i].plain, verbs)) return true;
    }
    return false;
}

/* Commands whose status is the answer to a question. */
bool sh_asks(const struct sh_command *c)
{
    static const char *const asks[] = {"[",    "test",  "grep",  "egrep",      "fgrep", "rg",
                                       "cmp",  "diff",  "which", "type",       "hash",  "pgrep",
                                       "read", "expr",  "let",   "mountpoint", "lsof",  "getent",
                                       "find", "pidof", "wait",  NULL};
    int at;
    if (c->words > 1 && strcmp(c->word[0].plain, "command") == 0 &&
        (strcmp(c->word[1].plain, "-v") == 0 || strcmp(c->word[1].plain, "-V") == 0))
        return true;
    return among(sh_program(c, &at), asks);
}

/* ---- declarations ---- */

/* What stands in backquotes; a backslash before ` $ \\ is theirs. */
static const char *ticked(const struct sh_place *p, const char *text)
{
    char *out = pool_text(p->s->l->pool, text, strlen(text), p->s->l->err), *to = out;
    for (const char *c = text; out && *c && *c != '`'; c++) {
        if (*c == '\\' && c[1] && strchr("`$\\", c[1])) c++;
        *to++ = *c;
    }
    if (out) *to = '\0';
    return out;
}

/* What stands in $( ); `at` is behind its bracket. NULL where it does not end. */
static const char *bracketed(const struct sh_place *p, const char *at)
{
    struct sh_reader r = {.l = p->s->l, .file = p->s->file, .at = at};
    int before = p->s->l->unreads;
    sh_skip_to(&r, '(', ')');
    p->s->l->unreads = before;
    return r.failed ? NULL : pool_text(p->s->l->pool, at, (size_t)(r.at - at - 1), p->s->l->err);
}

/* The text within the first $( ) or backquotes of a word, NULL where there is none. */
static const char *inner_text(const struct sh_place *p, const char *raw, int *line)
{
    bool quotes = false;
    for (const char *c = raw; *c; c++) {
        if (*c == '\n') ++*line;
        if (*c == '"') quotes = !quotes;
        if (*c == '\'' && !quotes) {
            for (c++; *c && *c != '\''; c++) *line += *c == '\n';
            if (!*c) return NULL;
        } else if (*c == '\\' && c[1]) {
            c++;
        } else if (c[0] == '$' && c[1] == '(' && c[2] != '(') {
            return bracketed(p, c + 2);
        } else if (*c == '`') {
            return ticked(p, c + 1);
        }
    }
    return NULL;
}

static bool fallible_inside(const struct sh_place *p, const char *text)
{
    struct sh_list *list = sh_read(p->s->l, p->s->file, text, 1);
    const struct sh_pipeline *q = list ? list->first : NULL;
    if (!q || !q->first || q->after == SH_OR) return false;
    const struct sh_command *c = q->first;
    while (c->next) c = c->next;
    return c->kind != SH_SIMPLE || (c->words > 0 && !sh_is_harmless(c));
}

static void judge_declare(const struct sh_place *p, const struct sh_command *c)
{
    static const char *const words[] = {"local", "export", "declare", "readonly", "typeset", NULL};
    if (c->words < 2 || !among(c->word[0].plain, words)) return;
    for (int i = 1; i < c->words; i++) {
        int line = c->word[i].line;
        const char *text =
            strchr(c->word[i].raw, '=') ? inner_text(p, c->word[i].raw, &line) : NULL;
        if (!text || !fallible_inside(p, text)) continue;
        const char *name = c->word[i].plain;
        sh_report(p, LINT_DECLARE, c->word[i].line,
                  pool_format(p->s->l->pool, p->s->l->err,
                              "`%s %.*s=$(%.*s ...)`: the status of the command is lost",
                              c->word[0].plain, (int)strcspn(name, "="), name,
                              (int)strcspn(text, " \t\n"), text));
        return;
    }
}

/* ---- scripts within words ---- */

void sh_inner(const struct sh_place *p, const struct sh_command *c)
{
    struct sh_place inner = *p;
    inner.kept = !p->tested;
    inner.tested = true; /* its status goes on to the assignment or the command around it */
    for (int i = 0; i < c->words + c->assigns; i++) {
        const struct sh_word *w = i < c->words ? &c->word[i] : &c->assign[i - c->words];
        int line = w->line;
        const char *text = inner_text(p, w->raw, &line);
        if (text && p->s->l->err->code == ERR_OK)
            sh_judge(&inner, sh_read(p->s->l, p->s->file, text, line));
    }
}

/* ---- words that go on ---- */

static bool is_operator(const char *word)
{
    return word[0] && strspn(word, ";|&<>()!{}") == strlen(word);
}

static bool sends_operators(const struct sh_command *c)
{
    for (int i = 1; i < c->words; i++) {
        if (is_operator(c->word[i].plain)) return true;
    }
    return false;
}

/* A shell that is given its script as a word: `bash -c TEXT`. */
static const char *shell_with_text(const char *const *word, int n)
{
    enum shell s;
    const char *slash = n > 1 ? strrchr(word[0], '/') : NULL;
    const char *name = n > 1 ? (slash ? slash + 1 : word[0]) : "";
    if (n < 3 || !shell_find(name, strlen(name), &s)) return NULL;
    return word[1][0] == '-' && word[1][1] != '-' && strchr(word[1], 'c') ? shell_name(s) : NULL;
}

/* A word that comes with quotes of its own, for the shell that is to read it. */
static bool quoted_twice(const char *word)
{
    size_t n = strlen(word);
    return n > 1 && (word[0] == '\'' || word[0] == '"') && word[n - 1] == word[0];
}

/* The break that counts: what a script's own shell reads was read by us, and comments and second
 * lines within a text are meant. */
static bool truly_breaks(const struct hops_journey *j)
{
    if (j->breaks < 1) return false;
    if (strncmp(j->why, "other words", 11) == 0) return !quoted_twice(j->found);
    if (strcmp(j->why, shell_effect_text(SHELL_UNFINISHED)) == 0) return true;
    return strcmp(j->why, shell_effect_text(SHELL_SYNTAX)) == 0 &&
           !strchr(j->at[j->breaks].text, '\n');
}

static bool follow(const struct sh_place *p, const struct sh_command *c, const char *plan,
                   const char *line, struct hops_journey *j)
{
    struct hops h;
    struct err *err = p->s->l->err;
    if (err->code != ERR_OK || hops_parse(plan, &h, err) != ERR_OK) return false;
    if (hops_follow(&h, line, p->s->l->pool, j, err) != ERR_OK) return false;
    if (!truly_breaks(j)) return false;
    sh_report(p, LINT_WORDS, c->line,
              pool_format(p->s->l->pool, err, "breaks at hop %d, %s: %.100s: `%.60s`",
                          j->breaks + 1, j->at[j->breaks].hop->text, j->why, j->found));
    return true;
}

/* The command's own words as one line again, without its redirections. */
static const char *own_line(const struct sh_place *p, const struct sh_command *c, int from)
{
    size_t size = 1;
    for (int i = from; i < c->words; i++) size += strlen(c->word[i].raw) + 1;
    char *text = pool_take(p->s->l->pool, size, 1, p->s->l->err), *at = text;
    for (int i = from; text && i < c->words; i++) {
        size_t n = strlen(c->word[i].raw);
        if (i > from) *at++ = ' ';
        memcpy(at, c->word[i].raw, n);
        at += n;
    }
    return text;
}

/* History is for those who type: a script's shell has none. */
static const char *first_hop(const struct sh_place *p, const char *line)
{
    return strchr(line, '!') ? "dash" : shell_name(p->s->shell);
}

static void judge_ssh(const struct sh_place *p, const struct sh_command *c, const char *line)
{
    char plan[64];
    struct hops_journey j;
    snprintf(plan, sizeof plan, "%s,ssh", first_hop(p, line));
    if (sends_operators(c) || follow(p, c, plan, line, &j) || p->s->l->err->code != ERR_OK) return;
    if (j.breaks >= 0) return;
    const char *shell = shell_with_text(j.word, j.words);
    if (!shell) return;
    snprintf(plan, sizeof plan, "%s,ssh,sh,%s", first_hop(p, line), shell);
    (void)follow(p, c, plan, line, &j);
}

static void judge_shell(const struct sh_place *p, const struct sh_command *c, int at,
                        const char *line)
{
    char plan[64];
    const char *word[3];
    struct hops_journey j;
    for (int i = 0; i < 3; i++) word[i] = at + i < c->words ? c->word[at + i].plain : "";
    const char *shell = shell_with_text(word, c->words - at < 3 ? c->words - at : 3);
    if (!shell) return;
    snprintf(plan, sizeof plan, "%s,%s", first_hop(p, line), shell);
    if (follow(p, c, plan, line, &j)) return;
    if (c->words - at > 3 && !strchr(c->word[at + 2].plain, '$') &&
        !strpbrk(c->word[at + 2].plain, " \t\n"))
        sh_report(p, LINT_WORDS, c->line,
                  pool_format(p->s->l->pool, p->s->l->err,
                              "`%s -c %.40s` runs that one word; `%.60s` is only its $0", shell,
                              c->word[at + 2].raw, c->word[at + 3].raw));
}

void sh_words(const struct sh_place *p, const struct sh_command *c)
{
    int at;
    const char *name = sh_program(c, &at);
    judge_declare(p, c);
    if (c->words - at < 3) return;
    const char *line = own_line(p, c, at);
    if (!line) return;
    if (strcmp(name, "ssh") == 0)
        judge_ssh(p, c, line);
    else
        judge_shell(p, c, at, line);
}
