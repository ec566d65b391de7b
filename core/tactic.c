/* tactic.c: see tactic.h. */
#include "core/tactic.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The choices that there are, and the kernels of each: an engine's, which makes them. */
static const struct choice {
    const char *what;
    const char *names[16]; /* ends with NULL */
} choices[] = {
    {"mla.prefill", {"wgmma", "mma", NULL}},
    {"mla.decode", /* of compute capability 9.0 */
     {"whole", "halves", "parts", "eighths", "spread64", "spread128", "spread256", "spread512",
      "spread1024", "spread2048", "spread4096", NULL}},
    {"linear",
     {"ring8", "whole8", "whole4", "parts8", "parts4", "cluster", "cublaslt", "any", NULL}},
    {"router", {"sum16", "block", "warp", NULL}},
    {"moe", /* of packed experts */
     {"fused", "apart8", "two8", "stream8", "stream16", "stream32", "gather", "wgmma", "mma8",
      "mma16", "mma32", "mma64", NULL}},
};

enum { CHOICES = sizeof choices / sizeof choices[0] };

static struct {
    char what[TACTIC_TEXT], name[TACTIC_TEXT];
    bool asked;
} forced[CHOICES + 1]; /* with room for one that is refused */
static int count;

static int find(const char *what)
{
    int i = 0;
    while (i < count && strcmp(forced[i].what, what) != 0) i++;
    return i;
}

/* "a, b" of a choice's kernels, or of all choices. */
static const char *names_of(const struct choice *c, char out[256])
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; c ? c->names[i] != NULL : i < CHOICES; i++)
        n += (size_t)snprintf(out + n, 256 - n, "%s%s", i ? ", " : "",
                              c ? c->names[i] : choices[i].what);
    return out;
}

static enum err_code check_name(const char *what, const char *name, struct err *err)
{
    char text[256];
    const struct choice *c = choices;
    while (c < choices + CHOICES && strcmp(c->what, what) != 0) c++;
    if (c == choices + CHOICES)
        return err_set(err, ERR_USAGE, "option --tactic|command line|\"%.64s\"|a choice: %s", what,
                       names_of(NULL, text));
    for (int i = 0; c->names[i]; i++) {
        if (strcmp(c->names[i], name) == 0) return ERR_OK;
    }
    return err_set(err, ERR_USAGE, "option --tactic|%s|\"%.64s\"|%s", what, name,
                   names_of(c, text));
}

enum err_code tactic_force(const char *text, struct err *err)
{
    const char *at = strchr(text, '=');
    size_t n = at ? (size_t)(at - text) : 0;
    if (n == 0 || n >= TACTIC_TEXT || !at[1] || strlen(at + 1) >= TACTIC_TEXT)
        return err_set(err, ERR_USAGE,
                       "option --tactic|command line|\"%.80s\"|WHAT=NAME, as mla.prefill=mma",
                       text);
    memcpy(forced[count].what, text, n);
    forced[count].what[n] = '\0';
    if (find(forced[count].what) < count)
        return err_set(err, ERR_USAGE, "option --tactic|%s|two names|one", forced[count].what);
    if (check_name(forced[count].what, at + 1, err) != ERR_OK) return err->code;
    memcpy(forced[count].name, at + 1, strlen(at + 1) + 1);
    forced[count++].asked = false;
    return ERR_OK;
}

const char *tactic_forced(const char *what)
{
    int i = find(what);
    if (i == count) return NULL;
    forced[i].asked = true;
    return forced[i].name;
}

enum err_code tactic_none(const char *what, const char *why, struct err *err)
{
    int i = find(what);
    return err_set(err, ERR_USAGE, "tactic of %s|%s|%s|another one", what,
                   i < count ? forced[i].name : "(none forced)", why);
}

enum err_code tactic_check(struct err *err)
{
    for (int i = 0; i < count; i++) {
        if (forced[i].asked) continue;
        return err_set(err, ERR_USAGE,
                       "option --tactic|%s|nothing that ran has this choice|an op "
                       "that makes it",
                       forced[i].what);
    }
    return ERR_OK;
}

void tactic_clear(void)
{
    count = 0;
}
