/* hops.c: the chain, and the line that survives it; see hops.h. Following a line: hops_follow.c */
#include "compat/hops.h"

#include <stdlib.h>
#include <string.h>

static enum err_code parse_hop(const char *text, size_t length, struct hop *h, struct err *err)
{
    static const struct {
        const char *word;
        enum hop_kind kind;
    } rows[] = {{"ssh", HOP_SSH}, {"docker", HOP_DOCKER}, {"sudo", HOP_SUDO}, {"env", HOP_ENV}};
    size_t word = 0;
    while (word < length && text[word] != ':') word++;
    size_t name = word < length ? length - word - 1 : 0;
    if (length >= HOP_NAME)
        return err_set(err, ERR_USAGE, "hop|--through|%zu bytes|at most %d", length, HOP_NAME - 1);
    memcpy(h->text, text, length);
    if (word == length && shell_find(text, length, &h->shell)) return ERR_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].word) != word || strncmp(rows[i].word, text, word) != 0) continue;
        bool named = rows[i].kind == HOP_SSH || rows[i].kind == HOP_DOCKER;
        bool must = rows[i].kind == HOP_DOCKER;
        h->kind = rows[i].kind;
        h->shell = SHELL_SH;
        memcpy(h->name, text + length - name, name);
        if ((word < length && (!named || name == 0)) || (must && name == 0) || h->name[0] == '-')
            return err_set(err, ERR_USAGE, "hop|--through|\"%s\"|%s%s", h->text, rows[i].word,
                           !named                    ? ""
                           : rows[i].kind == HOP_SSH ? ":HOST, or ssh alone"
                                                     : ":NAME");
        return ERR_OK;
    }
    return err_set(err, ERR_USAGE,
                   "hop|--through|\"%s\"|sh, dash, bash, zsh, ssh:HOST, docker:NAME, sudo or env",
                   h->text);
}

enum err_code hops_parse(const char *text, struct hops *out, struct err *err)
{
    *out = (struct hops){0};
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (out->count == HOPS)
            return err_set(err, ERR_USAGE, "hop|--through|more than %d|at most %d", HOPS, HOPS);
        struct hop *h = &out->hop[out->count];
        if (parse_hop(at, length, h, err) != ERR_OK) return err->code;
        struct hop *before = out->count ? h - 1 : NULL;
        if (!before && h->kind != HOP_SHELL)
            return err_set(err, ERR_USAGE,
                           "hop|--through|\"%s\" first|the shell that the line is typed into",
                           h->text);
        h->login = before && before->kind == HOP_SSH && h->kind == HOP_SHELL;
        if (h->login) before->shell = h->shell;
        if (h->kind == HOP_SSH && !h->name[0]) {
            memcpy(h->name, "HOST", sizeof "HOST");
            out->host_missing = true;
        }
        out->count++;
        at += length;
        if (!*at) return ERR_OK;
    }
}

/* ---- the line ---- */

/* A command on its way in: words that a program is started with. */
struct command {
    const char **word;
    int words;
};

struct builder {
    bool pipes;
    struct pool *pool;
    struct err *err;
};

static const char *text_of(const struct builder *b, enum shell s, bool typed,
                           const struct command *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        err_set(b->err, ERR_MEMORY, "quote||no memory");
        return NULL;
    }
    shell_write(f, s, typed, c->word, c->words);
    const char *kept = NULL;
    if (fclose(f) != 0)
        err_set(b->err, ERR_MEMORY, "quote||no memory");
    else if (size >= HOPS_ARGUMENT && !typed)
        err_set(b->err, ERR_INPUT,
                "quote|the text for %s|%zu bytes|at most %d in one argument: --as-file writes a "
                "file instead",
                shell_name(s), size, HOPS_ARGUMENT - 1);
    else
        kept = pool_text(b->pool, text, size, b->err);
    free(text);
    return kept;
}

/* front[0..n) and then c. */
static enum err_code prepend(const struct builder *b, const char *const *front, int n,
                             struct command *c)
{
    const char **word = pool_take(b->pool, (size_t)(n + c->words) + 1, sizeof *word, b->err);
    if (!word) return b->err->code;
    memcpy(word, front, (size_t)n * sizeof *word);
    if (c->words) memcpy(word + n, c->word, (size_t)c->words * sizeof *word);
    *c = (struct command){word, n + c->words};
    return ERR_OK;
}

/* sudo and env take words with '=' for settings, and words with '-' for options, until they meet a
 * command. */
static enum err_code protect(const struct builder *b, struct command *c)
{
    static const char *const by_shell[] = {"sh", "-c", "exec \"$@\"", "sh"};
    static const char *const end[] = {"--"};
    if (strchr(c->word[0], '=')) return prepend(b, by_shell, 4, c);
    return c->word[0][0] == '-' ? prepend(b, end, 1, c) : ERR_OK;
}

static enum err_code enter_shell(const struct builder *b, const struct hop *h, struct command *c)
{
    const char *text = text_of(b, h->shell, false, c);
    const char *const words[] = {shell_name(h->shell), "-c", text};
    c->words = 0;
    return text ? prepend(b, words, 3, c) : b->err->code;
}

static enum err_code enter_ssh(const struct builder *b, const struct hop *h, struct command *c)
{
    const char *text = text_of(b, h->shell, false, c);
    const char *const words[] = {"ssh", h->name, text};
    c->words = 0;
    return text ? prepend(b, words, 3, c) : b->err->code;
}

static enum err_code enter(const struct builder *b, const struct hop *h, struct command *c)
{
    const char *const docker[] = {"docker", "exec", b->pipes ? "-i" : h->name, h->name};
    const char *const word = h->kind == HOP_SUDO ? "sudo" : "env";
    switch (h->kind) {
    case HOP_SHELL:
        return h->login ? ERR_OK : enter_shell(b, h, c); /* a login shell: its ssh wrote the text */
    case HOP_SSH:
        return enter_ssh(b, h, c);
    case HOP_DOCKER:
        return prepend(b, docker, b->pipes ? 4 : 3, c);
    default:
        if (protect(b, c) != ERR_OK) return b->err->code;
        return prepend(b, &word, 1, c);
    }
}

enum err_code hops_line(const struct hops *h, const char *const *argv, int n, bool pipes,
                        struct pool *pool, const char **out, struct err *err)
{
    const struct builder b = {.pipes = pipes, .pool = pool, .err = err};
    struct command c = {.words = 0};
    if (prepend(&b, argv, n, &c) != ERR_OK) return err->code;
    for (int i = h->count - 1; i > 0; i--) {
        if (enter(&b, &h->hop[i], &c) != ERR_OK) return err->code;
    }
    *out = text_of(&b, h->hop[0].shell, true, &c);
    return err->code;
}
