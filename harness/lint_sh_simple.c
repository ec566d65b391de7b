/* lint_sh_simple.c: simple commands of a shell script: assignments, words and redirections. See
 * lint_sh.h. */
#include "harness/lint_sh.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 512 };

void *sh_made(struct sh_reader *r, size_t count, size_t size)
{
    void *p = count ? pool_take(r->l->pool, count, size, r->l->err) : NULL;
    if (count && !p) r->failed = true;
    return p;
}

/* ---- redirections ---- */

static void note_document(struct sh_reader *r, const struct sh_word *w, bool strip)
{
    if (r->heres == SH_HERE) {
        sh_fail(r, "many here-documents in one line");
        return;
    }
    r->here[r->heres].end = w->plain;
    r->here[r->heres++].strip = strip;
}

static bool at_redirect(const struct sh_reader *r)
{
    const char *c = r->at;
    while (isdigit((unsigned char)*c)) c++;
    if (*c == '<' || *c == '>') return c[1] != '(' || c > r->at;
    return r->at[0] == '&' && r->at[1] == '>';
}

static void read_redirect(struct sh_reader *r, struct sh_redirect *out)
{
    static const char *const ops[] = {"<<<", "<<-", "&>>", "<<", ">>", "<&", ">&",
                                      "&>",  ">|",  "<>",  "<",  ">",  NULL};
    struct sh_word w;
    *out = (struct sh_redirect){.fd = -1, .to = ""};
    if (isdigit((unsigned char)*r->at)) out->fd = (int)strtol(r->at, NULL, 10);
    while (isdigit((unsigned char)*r->at)) r->at++;
    int i = 0;
    while (ops[i] && strncmp(r->at, ops[i], strlen(ops[i])) != 0) i++;
    if (!ops[i]) return;
    memcpy(out->op, ops[i], strlen(ops[i]) + 1);
    r->at += strlen(ops[i]);
    sh_blank(r);
    if (!sh_word(r, &w)) {
        sh_fail(r, "a redirection to nothing");
        return;
    }
    out->to = w.plain;
    if (strcmp(out->op, "<<") == 0 || strcmp(out->op, "<<-") == 0)
        note_document(r, &w, out->op[2] == '-');
}

void sh_redirects(struct sh_reader *r, struct sh_command *c)
{
    struct sh_redirect list[16];
    int n = 0;
    for (sh_blank(r); at_redirect(r) && !r->failed && n < 16; sh_blank(r))
        read_redirect(r, &list[n++]);
    c->redirect = sh_made(r, (size_t)n, sizeof *list);
    if (c->redirect) memcpy(c->redirect, list, (size_t)n * sizeof *list);
    c->redirects = c->redirect ? n : 0;
}

/* ---- simple commands ---- */

static bool is_assignment(const char *raw)
{
    const char *c = raw;
    if (!isalpha((unsigned char)*c) && *c != '_') return false;
    while (isalnum((unsigned char)*c) || *c == '_') c++;
    if (*c == '[') c += strcspn(c, "]") + (strchr(c, ']') ? 1 : 0);
    if (*c == '+') c++;
    return *c == '=';
}

struct parts {
    struct sh_word word[WORDS], assign[32];
    struct sh_redirect redirect[16];
    int words, assigns, redirects;
};

static void read_parts(struct sh_reader *r, struct parts *p)
{
    struct sh_word w;
    for (sh_blank(r); *r->at && !r->failed; sh_blank(r)) {
        if (p->words == WORDS || p->assigns == 32 || p->redirects == 16) {
            sh_fail(r, "a command of very many words");
        } else if (at_redirect(r)) {
            read_redirect(r, &p->redirect[p->redirects++]);
        } else if (!sh_word(r, &w)) {
            return;
        } else if (p->words == 0 && is_assignment(w.raw)) {
            p->assign[p->assigns++] = w;
        } else {
            p->word[p->words++] = w;
        }
    }
}

static void keep_parts(struct sh_reader *r, struct sh_command *c, const struct parts *p)
{
    c->word = sh_made(r, (size_t)p->words, sizeof *c->word);
    c->assign = sh_made(r, (size_t)p->assigns, sizeof *c->assign);
    c->redirect = sh_made(r, (size_t)p->redirects, sizeof *c->redirect);
    if (r->failed) return;
    if (p->words) memcpy(c->word, p->word, (size_t)p->words * sizeof *c->word);
    if (p->assigns) memcpy(c->assign, p->assign, (size_t)p->assigns * sizeof *c->assign);
    if (p->redirects) memcpy(c->redirect, p->redirect, (size_t)p->redirects * sizeof *c->redirect);
    c->words = p->words;
    c->assigns = p->assigns;
    c->redirects = p->redirects;
}

void sh_simple(struct sh_reader *r, struct sh_command *c)
{
    struct parts *p = calloc(1, sizeof *p);
    if (!p) {
        r->failed = true;
        err_set(r->l->err, ERR_MEMORY, "lint|%s|no memory|more", r->file);
        return;
    }
    const char *start = r->at;
    read_parts(r, p);
    keep_parts(r, c, p);
    const char *end = r->at;
    while (end > start && isspace((unsigned char)end[-1])) end--;
    c->text = pool_text(r->l->pool, start, (size_t)(end - start), r->l->err);
    free(p);
    if (c->words == 0 && c->assigns == 0 && c->redirects == 0 && !r->failed)
        sh_fail(r, "a part that is no command");
}
