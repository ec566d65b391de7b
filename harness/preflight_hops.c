/* preflight_hops.c: see preflight_hops.h. The line is followed as far as the hops that are known
 * go; what it comes to there names the next one. */
#include "harness/preflight_hops.h"

#include <stdio.h>
#include <string.h>

enum { THROUGH = 512 };

/* The text of the hop that starts with this word; "" where it is none. */
static void hop_of(const char *word, const char *login, char out[64])
{
    static const char *const plain[] = {"sudo", "env", "sh", "dash", "bash", "zsh"};
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    out[0] = '\0';
    if (strcmp(name, "ssh") == 0) snprintf(out, 64, "ssh,%s", login);
    if (strcmp(name, "docker") == 0) snprintf(out, 64, "docker:NAME");
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(name, plain[i]) == 0) snprintf(out, 64, "%s", name);
    }
}

enum err_code preflight_hops(const char *line, const char *typed, const char *login,
                             struct pool *pool, struct hops *out, struct hops_journey *journey,
                             struct err *err)
{
    char through[THROUGH], longer[THROUGH + 64], hop[64];
    snprintf(through, sizeof through, "%s", typed);
    if (hops_parse(through, out, err) != ERR_OK ||
        hops_follow(out, line, pool, journey, err) != ERR_OK)
        return err->code;
    while (journey->breaks < 0 && journey->words > 0 && out->count + 2 <= HOPS) {
        struct hops more;
        struct hops_journey next;
        hop_of(journey->word[0], login, hop);
        snprintf(longer, sizeof longer, "%s,%s", through, hop);
        if (!hop[0] || strlen(longer) >= sizeof through) break;
        if (hops_parse(longer, &more, err) != ERR_OK ||
            hops_follow(&more, line, pool, &next, err) != ERR_OK)
            return err->code;
        /* A program that passes no command on is no hop: a shell that runs a file, a bare env. */
        if (next.count <= out->count) break;
        memcpy(through, longer, strlen(longer) + 1);
        *out = more;
        *journey = next;
    }
    for (int i = 0; i < journey->count; i++) journey->at[i].hop = &out->hop[i];
    return ERR_OK;
}
