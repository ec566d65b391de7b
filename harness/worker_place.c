/* worker_place.c: the command line by which a rank is started; see worker_parts.h. */
#include "core/text.h"
#include "harness/worker_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct place_words *out, const char *name, const char *value)
{
    snprintf(out->text[out->count], PLACE_TEXT, "%s", name);
    out->word[out->count] = out->text[out->count];
    out->count++;
    out->word[out->count++] = value;
}

static void add_number(struct place_words *out, const char *name, int64_t value)
{
    snprintf(out->text[out->count + 1], PLACE_TEXT, "%lld", (long long)value);
    add(out, name, out->text[out->count + 1]);
}

/* "-1,7,8" and "node0,node1,node1". */
static void add_mesh(struct place_words *out, const struct worker_place *p)
{
    size_t n = 0, k = 0;
    for (int i = 0; i < p->world; i++) {
        n +=
            (size_t)snprintf(out->mesh + n, sizeof out->mesh - n, "%s%d", i ? "," : "", p->mesh[i]);
        k +=
            (size_t)snprintf(out->host + k, sizeof out->host - k, "%s%s", i ? "," : "", p->host[i]);
    }
    add(out, "--mesh", out->mesh);
    add(out, "--hosts", out->host);
}

static void read_mesh(struct worker_place *p, const char *text)
{
    char *end;
    for (int i = 0; i < COLLECTIVE_RANKS; i++, text = *end ? end + 1 : end)
        p->mesh[i] = (int)strtol(text, &end, 10);
    p->far = true;
}

static void read_hosts(struct worker_place *p, const char *text)
{
    for (int i = 0; i < COLLECTIVE_RANKS && *text; i++) {
        size_t n = strcspn(text, ",");
        snprintf(p->host[i], sizeof p->host[i], "%.*s", (int)n, text);
        text += n + (text[n] == ',');
    }
}

void worker_place_write(const struct worker_place *p, struct place_words *out)
{
    out->count = 0;
    add_number(out, "--rank", p->rank);
    add_number(out, "--world", p->world);
    add_number(out, "--socket", p->socket);
    add_number(out, "--board", p->board);
    add_number(out, "--shm", p->shm);
    add_number(out, "--window", p->window);
    add_number(out, "--collective-ms", (int64_t)(p->collective_s * 1000));
    add_number(out, "--parent", p->parent);
    if (p->launched) add(out, "--launched", "yes");
    if (p->far) add_mesh(out, p);
    if (p->fault) add(out, "--fault", p->fault);
    if (p->oom) add(out, "--oom", p->oom);
    out->word[out->count] = NULL;
}

enum err_code worker_place_read(struct worker_place *p, int words, char **word, struct err *err)
{
    static const char *const names[] = {"--rank", "--world",  "--socket",        "--board",
                                        "--shm",  "--window", "--collective-ms", "--parent"};
    enum { NUMBERS = sizeof names / sizeof names[0] };
    int64_t value[NUMBERS];
    bool given[NUMBERS] = {false};
    *p = (struct worker_place){0};
    for (int i = 0; i + 1 < words; i += 2) {
        int k = 0;
        while (k < NUMBERS && strcmp(names[k], word[i]) != 0) k++;
        if (k < NUMBERS && text_int(word[i + 1], &value[k])) given[k] = true;
        if (strcmp(word[i], "--launched") == 0) p->launched = true;
        if (strcmp(word[i], "--mesh") == 0) read_mesh(p, word[i + 1]);
        if (strcmp(word[i], "--hosts") == 0) read_hosts(p, word[i + 1]);
        if (strcmp(word[i], "--fault") == 0) p->fault = word[i + 1];
        if (strcmp(word[i], "--oom") == 0) p->oom = word[i + 1];
    }
    for (int k = 0; k < NUMBERS; k++) {
        if (!given[k])
            return err_set(err, ERR_USAGE, "worker|%s|not given|what `assay` gives its ranks",
                           names[k]);
    }
    p->rank = (int)value[0];
    p->world = (int)value[1];
    p->socket = (int)value[2];
    p->board = (int)value[3];
    p->shm = (int)value[4];
    p->window = value[5];
    p->collective_s = (double)value[6] / 1000;
    p->parent = (pid_t)value[7];
    if (p->world < 1 || p->world > COLLECTIVE_RANKS || p->rank < 0 || p->rank >= p->world)
        return err_set(err, ERR_USAGE, "worker|--rank|%d of %d|a rank of 1 to %d", p->rank,
                       p->world, COLLECTIVE_RANKS);
    return ERR_OK;
}
