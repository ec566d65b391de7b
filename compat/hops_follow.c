/* hops_follow.c: what becomes of a line on its way, without running any of it; see hops.h.
 *
 * A hop breaks a line when its shell cannot read it, loses a part of it, or reads other words than
 * the hop before had put together: an ssh joins its words with blanks, and the quotes are gone. */
#include "compat/hops.h"

#include <string.h>

/* Options that take a value of their own: skipped with it. */
static const char ssh_values[] = "BbcDEeFIiJLlmOoPpQRSWw";
static const char sudo_values[] = "CDghprRtTuU";
static const char docker_values[] = "euw";
static const char env_values[] = "uC";

struct follower {
    const struct hops *hops;
    struct pool *pool;
    struct hops_journey *out;
    struct err *err;
};

static void break_at(struct follower *f, int hop, const char *why, const char *found)
{
    if (f->out->breaks >= 0) return;
    f->out->breaks = hop;
    f->out->why = why;
    f->out->found = found ? found : "";
}

/* The first word after the options, those that take a value skipped with it; `count` when there is
 * none. */
static int skip_options(const char *const *word, int count, const char *values, bool settings)
{
    int i = 1;
    for (; i < count; i++) {
        const char *w = word[i];
        if (settings && w[0] != '-' && strchr(w, '=')) continue;
        if (w[0] != '-' || !w[1]) return i;
        if (strcmp(w, "--") == 0) return i + 1 < count ? i + 1 : count;
        if (w[1] == '-') {
            bool apart = !strchr(w, '=') && (strcmp(w, "--user") == 0 || strcmp(w, "--env") == 0 ||
                                             strcmp(w, "--workdir") == 0);
            i += apart ? 1 : 0;
        } else if (strchr(values, w[strlen(w) - 1])) {
            i++;
        }
    }
    return count;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_program(const char *word, const char *name)
{
    return strcmp(base_name(word), name) == 0;
}

static const char *joined(struct follower *f, const char *const *word, int n)
{
    size_t size = 1;
    for (int i = 0; i < n; i++) size += strlen(word[i]) + 1;
    char *text = pool_take(f->pool, size, 1, f->err), *at = text;
    for (int i = 0; text && i < n; i++) {
        size_t length = strlen(word[i]);
        if (i) *at++ = ' ';
        memcpy(at, word[i], length);
        at += length;
    }
    return text;
}

/* `-c TEXT` of a shell: the text, or NULL. Clusters such as -lc count. */
static const char *command_text(const char *const *word, int n)
{
    for (int i = 1; i < n && (word[i][0] == '-' || word[i][0] == '+'); i++) {
        if (word[i][1] != '-' && strchr(word[i], 'c')) {
            int at = i + 1;
            while (at < n && (strcmp(word[at], "--") == 0)) at++;
            return at < n ? word[at] : NULL;
        }
        if (strcmp(word[i], "-o") == 0 || strcmp(word[i], "+o") == 0) i++;
    }
    return NULL;
}

/* Reads `text` as shell hop `i` does; `sent` [n] are the words that an ssh joined, or NULL. */
static enum err_code arrive_shell(struct follower *f, int i, const char *text,
                                  const char *const *sent, int n)
{
    struct hop_arrival *a = &f->out->at[i];
    const struct hop *h = a->hop;
    a->text = text;
    if (shell_read(h->shell, i == 0, text, f->pool, &a->line, f->err) != ERR_OK)
        return f->err->code;
    for (int e = 0; e < a->line.events; e++) {
        const struct shell_event *ev = &a->line.event[e];
        enum shell_verdict v = shell_effect_verdict(ev->effect);
        const char *found = pool_text(f->pool, text + ev->at, (size_t)ev->length, f->err);
        if (!found) return f->err->code;
        if (v == SHELL_BREAKS) break_at(f, i, shell_effect_text(ev->effect), found);
        if (v != SHELL_UNKNOWN || f->out->unknown >= 0) continue;
        f->out->unknown = i;
        if (f->out->breaks < 0) {
            f->out->why = shell_effect_text(ev->effect);
            f->out->found = found;
        }
    }
    for (int w = 0; sent && n > 1 && w < n; w++) {
        if (w < a->line.words && strcmp(a->line.word[w], sent[w]) == 0 &&
            (w + 1 < n || a->line.words == n))
            continue;
        break_at(f, i, "other words than were sent: ssh joins them with blanks, without quotes",
                 sent[w]);
        break;
    }
    return f->err->code;
}

/* What the program before hop `i` was given; the hop itself comes from the plan. */
static void mismatch(struct follower *f, int i, const char *wanted, const char *found)
{
    const char *why = pool_format(f->pool, f->err, "no %s here", wanted);
    f->out->count = i;
    break_at(f, i, why ? why : "another program", found);
}

struct words {
    const char *const *word;
    int n;
};

/* Hop i of the plan takes `in`, words that something starts; leaves in `in` what goes on. Returns
 * how many hops it used up (ssh takes its login shell along), 0 when it ends here. */
static int pass_ssh(struct follower *f, int i, struct words *in)
{
    int host = skip_options(in->word, in->n, ssh_values, false);
    int first = host + 1;
    bool login = i + 1 < f->hops->count && f->hops->hop[i + 1].login;
    while (first < in->n && in->word[first][0] == '-' && in->word[first][1]) {
        bool value = strchr(ssh_values, in->word[first][strlen(in->word[first]) - 1]) != NULL;
        if (strcmp(in->word[first], "--") == 0) value = false;
        first += value ? 2 : 1;
    }
    f->out->at[i].line = (struct shell_line){.word = (const char **)in->word, .words = in->n};
    if (host >= in->n || first >= in->n) {
        mismatch(f, i, "command after the host", in->n ? in->word[in->n - 1] : "");
        return 0;
    }
    const char *text = joined(f, in->word + first, in->n - first);
    if (!text) return 0;
    int at = login ? i + 1 : i;
    if (!login) f->out->at[i].hop = &f->hops->hop[i];
    struct hop_arrival *a = &f->out->at[at];
    a->hop = &f->hops->hop[at];
    if (arrive_shell(f, at, text, in->word + first, in->n - first) != ERR_OK) return 0;
    *in = (struct words){a->line.word, a->line.words};
    return login ? 2 : 1;
}

static int pass_shell(struct follower *f, int i, struct words *in)
{
    const char *text = command_text(in->word, in->n);
    if (!text) {
        mismatch(f, i, "-c TEXT", in->n > 1 ? in->word[1] : in->word[0]);
        return 0;
    }
    if (arrive_shell(f, i, text, NULL, 0) != ERR_OK) return 0;
    *in = (struct words){f->out->at[i].line.word, f->out->at[i].line.words};
    return 1;
}

static int pass_program(struct follower *f, int i, const struct hop *h, struct words *in)
{
    int rest = 0;
    if (h->kind == HOP_DOCKER) {
        int verb = skip_options(in->word, in->n, "", false);
        if (verb < in->n && strcmp(in->word[verb], "exec") == 0)
            rest = verb + skip_options(in->word + verb, in->n - verb, docker_values, false) + 1;
    } else {
        rest = skip_options(in->word, in->n, h->kind == HOP_SUDO ? sudo_values : env_values, true);
    }
    f->out->at[i].line = (struct shell_line){.word = (const char **)in->word, .words = in->n};
    if (rest == 0 || rest >= in->n) {
        mismatch(f, i, h->kind == HOP_DOCKER ? "exec NAME COMMAND" : "command",
                 in->word[in->n - 1]);
        return 0;
    }
    *in = (struct words){in->word + rest, in->n - rest};
    return 1;
}

static int pass(struct follower *f, int i, struct words *in)
{
    static const char *const programs[] = {
        [HOP_SSH] = "ssh", [HOP_DOCKER] = "docker", [HOP_SUDO] = "sudo", [HOP_ENV] = "env"};
    const struct hop *h = &f->hops->hop[i];
    const char *wanted = h->kind == HOP_SHELL ? shell_name(h->shell) : programs[h->kind];
    f->out->at[i] = (struct hop_arrival){.hop = h, .text = ""};
    f->out->count = i + 1;
    if (in->n == 0 || !is_program(in->word[0], wanted)) {
        mismatch(f, i, wanted, in->n ? in->word[0] : "");
        return 0;
    }
    if (h->kind == HOP_SSH) return pass_ssh(f, i, in);
    if (h->kind == HOP_SHELL) return pass_shell(f, i, in);
    return pass_program(f, i, h, in);
}

enum err_code hops_follow(const struct hops *h, const char *line, struct pool *pool,
                          struct hops_journey *out, struct err *err)
{
    struct follower f = {.hops = h, .pool = pool, .out = out, .err = err};
    *out = (struct hops_journey){.count = 1, .breaks = -1, .unknown = -1, .why = "", .found = ""};
    out->at[0].hop = &h->hop[0];
    if (arrive_shell(&f, 0, line, NULL, 0) != ERR_OK) return err->code;
    struct words in = {out->at[0].line.word, out->at[0].line.words};
    for (int i = 1, used; i < h->count; i += used) {
        used = pass(&f, i, &in);
        if (used == 0) return err->code;
        out->count = i + used;
    }
    if (in.n == 0) break_at(&f, out->count - 1, "no command", "");
    out->word = (const char **)in.word;
    out->words = in.n;
    return err->code;
}
