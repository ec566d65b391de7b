/* lint_sh_parse.c: commands, pipelines and lists of a shell script. See lint_sh.h. */
#include "harness/lint_sh.h"

#include <string.h>

static struct sh_list *read_list(struct sh_reader *r, const char *const *stop);
static struct sh_command *read_command(struct sh_reader *r);

static bool is_word_end(char c)
{
    return c == '\0' || strchr(" \t\r\n;&|<>()", c);
}

/* Does that word of the language stand here? */
static bool stands(const struct sh_reader *r, const char *word)
{
    size_t n = strlen(word);
    return strncmp(r->at, word, n) == 0 && is_word_end(r->at[n]);
}

static bool stands_any(const struct sh_reader *r, const char *const *list)
{
    for (int i = 0; list && list[i]; i++) {
        if (strcmp(list[i], ")") == 0 ? *r->at == ')' : stands(r, list[i])) return true;
    }
    return false;
}

static bool take(struct sh_reader *r, const char *word)
{
    if (!stands(r, word)) return false;
    r->at += strlen(word);
    return true;
}

static void want(struct sh_reader *r, const char *word)
{
    sh_gap(r);
    if (!take(r, word) && !r->failed)
        sh_fail(r, pool_format(r->l->pool, r->l->err, "no `%s` where one is needed", word));
}

/* ---- functions ---- */

static void read_function(struct sh_reader *r, struct sh_command *c)
{
    c->kind = SH_FUNCTION;
    sh_gap(r);
    struct sh_command *body = read_command(r);
    if (r->failed || !body) return;
    struct sh_pipeline *p = sh_made(r, 1, sizeof *p);
    c->body = sh_made(r, 1, sizeof *c->body);
    if (r->failed) return;
    *p = (struct sh_pipeline){.first = body, .commands = 1, .after = SH_END};
    *c->body = (struct sh_list){.first = p, .line = body->line};
}

static void read_simple(struct sh_reader *r, struct sh_command *c)
{
    sh_simple(r, c);
    if (c->words == 1 && *r->at == '(') {
        r->at++;
        sh_blank(r);
        if (*r->at != ')')
            sh_fail(r, "a bracket that is not understood");
        else
            r->at++;
        if (!r->failed) read_function(r, c);
    }
}

/* ---- compound commands ---- */

static void read_if(struct sh_reader *r, struct sh_command *c)
{
    static const char *const then[] = {"then", NULL}, *const end[] = {"elif", "else", "fi", NULL},
                             *const fi[] = {"fi", NULL};
    c->kind = SH_IF;
    c->test = read_list(r, then);
    want(r, "then");
    c->body = read_list(r, end);
    if (r->failed) return;
    if (take(r, "elif")) {
        struct sh_pipeline *p = sh_made(r, 1, sizeof *p);
        struct sh_command *inner = sh_made(r, 1, sizeof *inner);
        c->other = sh_made(r, 1, sizeof *c->other);
        if (r->failed) return;
        inner->line = r->line;
        *p = (struct sh_pipeline){.first = inner, .commands = 1, .after = SH_END};
        *c->other = (struct sh_list){.first = p, .line = r->line};
        read_if(r, inner);
        return;
    }
    if (take(r, "else")) c->other = read_list(r, fi);
    want(r, "fi");
}

static void read_loop(struct sh_reader *r, struct sh_command *c)
{
    static const char *const start[] = {"do", NULL}, *const end[] = {"done", NULL};
    c->kind = SH_WHILE;
    c->test = read_list(r, start);
    want(r, "do");
    c->body = read_list(r, end);
    want(r, "done");
}

static void read_for(struct sh_reader *r, struct sh_command *c)
{
    static const char *const end[] = {"done", NULL}, *const brace[] = {"}", NULL};
    struct sh_word w;
    c->kind = SH_FOR;
    sh_blank(r);
    if (strncmp(r->at, "((", 2) == 0) {
        r->at += 2;
        sh_skip_to(r, '(', ')');
        if (*r->at == ')') r->at++;
    } else {
        sh_word(r, &w); /* its name; words follow `in` alone */
        sh_gap(r);
        bool words = take(r, "in");
        for (sh_blank(r); words && sh_word(r, &w); sh_blank(r)) continue;
    }
    sh_blank(r);
    if (*r->at == ';') r->at++;
    sh_gap(r);
    bool braces = take(r, "{");
    if (!braces) want(r, "do");
    c->body = read_list(r, braces ? brace : end);
    want(r, braces ? "}" : "done");
}

static void read_case(struct sh_reader *r, struct sh_command *c)
{
    static const char *const end[] = {";;", ";&", ";;&", "esac", NULL};
    struct sh_word w;
    struct sh_pipeline **tail;
    c->kind = SH_CASE;
    c->body = sh_made(r, 1, sizeof *c->body);
    if (r->failed) return;
    tail = &c->body->first;
    sh_blank(r);
    sh_word(r, &w);
    want(r, "in");
    for (sh_gap(r); !r->failed && !take(r, "esac"); sh_gap(r)) {
        if (*r->at == '(') r->at++;
        for (sh_blank(r); sh_word(r, &w) || *r->at == '|'; sh_blank(r))
            if (*r->at == '|') r->at++;
        if (*r->at != ')') {
            sh_fail(r, "a branch of case that is not understood");
            return;
        }
        r->at++;
        struct sh_pipeline *p = sh_made(r, 1, sizeof *p);
        struct sh_command *group = sh_made(r, 1, sizeof *group);
        if (r->failed) return;
        *group = (struct sh_command){.kind = SH_GROUP, .line = r->line};
        group->body = read_list(r, end);
        *p = (struct sh_pipeline){.first = group, .commands = 1, .after = SH_THEN};
        *tail = p;
        tail = &p->next;
        while (*r->at == ';' || *r->at == '&') r->at++;
    }
}

static void read_bracket_test(struct sh_reader *r, struct sh_command *c, const char *close)
{
    const char *start = r->at;
    c->kind = SH_TEST;
    if (close[0] == ')') {
        r->at += 2;
        sh_skip_to(r, '(', ')');
        if (*r->at == ')') r->at++;
    } else {
        struct sh_word w;
        while (*r->at && !r->failed && !stands(r, close)) {
            if (!sh_word(r, &w) && *r->at) {
                if (*r->at == '\n')
                    sh_newline(r);
                else
                    r->at++;
            }
            sh_blank(r);
        }
        if (!take(r, close)) sh_fail(r, "a test that does not end");
    }
    c->text = pool_text(r->l->pool, start, (size_t)(r->at - start), r->l->err);
}

/* `((` is arithmetic where `))` ends it; else it is two subshells, and nothing was read. */
static bool read_arithmetic(struct sh_reader *r, struct sh_command *c)
{
    const struct sh_reader before = *r;
    int unreads = r->l->unreads;
    r->at += 2;
    sh_skip_to(r, '(', ')');
    if (!r->failed && *r->at == ')') {
        r->at++;
        c->kind = SH_TEST;
        c->text = pool_text(r->l->pool, before.at, (size_t)(r->at - before.at), r->l->err);
        return true;
    }
    *r = before;
    r->l->unreads = unreads;
    return false;
}

static void read_kind(struct sh_reader *r, struct sh_command *c)
{
    static const char *const brace[] = {"}", NULL}, *const bracket[] = {")", NULL};
    if (strncmp(r->at, "((", 2) == 0 && read_arithmetic(r, c)) return;
    if (*r->at == '(') {
        r->at++;
        c->kind = SH_SUBSHELL;
        c->body = read_list(r, bracket);
        if (*r->at == ')')
            r->at++;
        else
            sh_fail(r, "a bracket that does not end");
    } else if (take(r, "{")) {
        c->kind = SH_GROUP;
        c->body = read_list(r, brace);
        want(r, "}");
    } else if (stands(r, "[[")) {
        read_bracket_test(r, c, "]]");
    } else if (take(r, "if")) {
        read_if(r, c);
    } else if (take(r, "while") || take(r, "until")) {
        read_loop(r, c);
    } else if (take(r, "for") || take(r, "select")) {
        read_for(r, c);
    } else if (take(r, "case")) {
        read_case(r, c);
    } else if (take(r, "function")) {
        sh_blank(r);
        c->word = sh_made(r, 1, sizeof *c->word);
        if (r->failed || !sh_word(r, c->word)) return;
        c->words = 1;
        sh_blank(r);
        if (r->at[0] == '(' && r->at[1] == ')') r->at += 2;
        read_function(r, c);
    } else {
        read_simple(r, c);
    }
}

static struct sh_command *read_command(struct sh_reader *r)
{
    struct sh_command *c = sh_made(r, 1, sizeof *c);
    if (r->failed) return NULL;
    if (++r->depth > SH_DEPTH) sh_fail(r, "commands nested too deeply");
    c->line = r->line;
    if (!r->failed) read_kind(r, c);
    r->depth--;
    if (!r->failed && c->kind != SH_SIMPLE && c->kind != SH_FUNCTION) sh_redirects(r, c);
    return r->failed ? NULL : c;
}

/* ---- pipelines and lists ---- */

static enum sh_next read_operator(struct sh_reader *r)
{
    sh_blank(r);
    if (strncmp(r->at, "&&", 2) == 0 || strncmp(r->at, "||", 2) == 0) {
        enum sh_next next = *r->at == '&' ? SH_AND : SH_OR;
        r->at += 2;
        sh_gap(r);
        return next;
    }
    if (*r->at == '&') {
        r->at++;
        return SH_BACKGROUND;
    }
    if (*r->at == ';' && r->at[1] != ';' && r->at[1] != '&') {
        r->at++;
        return SH_THEN;
    }
    return *r->at == '\n' ? SH_THEN : SH_END;
}

static struct sh_pipeline *read_pipeline(struct sh_reader *r)
{
    struct sh_pipeline *p = sh_made(r, 1, sizeof *p);
    if (r->failed) return NULL;
    if (take(r, "time")) sh_blank(r);
    while (take(r, "!")) {
        p->negated = !p->negated;
        sh_blank(r);
    }
    struct sh_command **tail = &p->first;
    for (;;) {
        struct sh_command *c = read_command(r);
        if (!c) return NULL;
        *tail = c;
        tail = &c->next;
        p->commands++;
        sh_blank(r);
        if (*r->at != '|' || r->at[1] == '|') break;
        r->at += r->at[1] == '&' ? 2 : 1;
        sh_gap(r);
    }
    p->after = read_operator(r);
    return p;
}

static bool at_case_end(const struct sh_reader *r, const char *const *stop)
{
    return stop && stop[0][0] == ';' && r->at[0] == ';' && (r->at[1] == ';' || r->at[1] == '&');
}

static struct sh_list *read_list(struct sh_reader *r, const char *const *stop)
{
    struct sh_list *list = sh_made(r, 1, sizeof *list);
    if (r->failed) return NULL;
    list->line = r->line;
    struct sh_pipeline **tail = &list->first;
    for (sh_gap(r); *r->at && !r->failed; sh_gap(r)) {
        if (stands_any(r, stop) || at_case_end(r, stop)) break;
        struct sh_pipeline *p = read_pipeline(r);
        if (!p) break;
        *tail = p;
        tail = &p->next;
    }
    return list;
}

struct sh_list *sh_read(struct lint *l, const char *file, const char *text, int line)
{
    struct sh_reader r = {.l = l, .file = file, .at = text, .line = line};
    struct sh_list *list = read_list(&r, NULL);
    if (!r.failed && *r.at) sh_fail(&r, "a part that is not understood");
    return list;
}
