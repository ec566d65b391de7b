/* plan_preflight.c: see plan_preflight.h. */
#include "harness/plan_preflight.h"

#include "core/text.h"
#include "harness/plan_parse.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plan_preflight_init(struct plan_preflight *p)
{
    *p = (struct plan_preflight){.samples = -1,
                                 .sample_tokens = -1,
                                 .kv_tokens = -1,
                                 .dtype = DT_COUNT,
                                 .shard = shard_plan_alone(),
                                 .devices = -1,
                                 .device_memory = -1,
                                 .host_memory = -1,
                                 .load_minutes = -1,
                                 .read_bandwidth = -1,
                                 .seconds = REHEARSE_SECONDS};
}

typedef enum err_code reader(struct plan_reader *r, const struct yaml_node *n, void *out);

/* ---- values ---- */

static enum err_code read_text(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    *(const char **)out = plan_scalar(r, n);
    return r->err->code;
}

static enum err_code read_count(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    return plan_int(r, n, 1, INT64_MAX, out);
}

static enum err_code read_ranks(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    int64_t whole;
    if (plan_int(r, n, 1, COLLECTIVE_RANKS, &whole) != ERR_OK) return r->err->code;
    *(int *)out = (int)whole;
    r->plan->preflight.sharded = true;
    return ERR_OK;
}

static enum err_code read_copies(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    return plan_int(r, n, 0, INT32_MAX, out);
}

/* The index of the text in a list that ends in NULL; the list is shown where it is not in it. */
static enum err_code read_choice(struct plan_reader *r, const struct yaml_node *n,
                                 const char *const *names, int *out)
{
    char found[96], wanted[96] = "";
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    for (int i = 0; names[i]; i++) {
        size_t used = strlen(wanted);
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return ERR_OK;
        }
        snprintf(wanted + used, sizeof wanted - used, "%s%s", i ? " or " : "", names[i]);
    }
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, wanted);
}

static enum err_code read_numbering(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    static const char *const names[] = {"entry", "output", NULL};
    int at;
    if (read_choice(r, n, names, &at) != ERR_OK) return r->err->code;
    *(enum plan_numbering *)out = at ? NUMBERING_OUTPUT : NUMBERING_ENTRY;
    return ERR_OK;
}

static enum err_code read_dtype(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    static const char *const names[] = {"bf16", "f16", "f32", NULL};
    static const enum dtype dtypes[] = {DT_BF16, DT_F16, DT_F32};
    int at;
    if (read_choice(r, n, names, &at) != ERR_OK) return r->err->code;
    *(enum dtype *)out = dtypes[at];
    return ERR_OK;
}

static enum err_code read_map(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    const char *names[EXPERT_MAPS + 1];
    int at;
    for (int i = 0; i <= EXPERT_MAPS; i++) names[i] = expert_map_name(i);
    if (read_choice(r, n, names, &at) != ERR_OK) return r->err->code;
    *(enum expert_map *)out = (enum expert_map)at;
    return ERR_OK;
}

static enum err_code read_shell(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    static const char *const names[] = {"sh", "dash", "bash", "zsh", NULL};
    int at;
    if (read_choice(r, n, names, &at) != ERR_OK) return r->err->code;
    *(const char **)out = names[at];
    return ERR_OK;
}

static enum err_code read_minutes(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    char found[96];
    const char *text = plan_scalar(r, n);
    double *minutes = out;
    if (!text) return r->err->code;
    if (text_double(text, minutes) && *minutes > 0 && !isinf(*minutes)) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, "minutes above 0, as 18 or 2.5");
}

/* "1.5 GB", with `tail` behind it: powers of 1000, or of 1024 with an i. */
static bool parse_bytes(const char *text, const char *tail, double *out)
{
    static const char units[] = "KMGTP";
    char number[32];
    size_t n = strspn(text, "0123456789."), at = n;
    if (n == 0 || n >= sizeof number) return false;
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    while (text[at] == ' ') at++;
    const char *unit = text[at] ? strchr(units, text[at]) : NULL;
    at += unit ? 1 : 0;
    bool binary = unit && text[at] == 'i';
    at += binary ? 1 : 0;
    if (text[at] != 'B' || strcmp(text + at + 1, tail) != 0 || !text_double(number, out))
        return false;
    *out *= unit ? pow(binary ? 1024 : 1000, (double)(unit - units + 1)) : 1;
    return *out > 0 && !isinf(*out);
}

static enum err_code read_bytes(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    char found[96];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    if (parse_bytes(text, "", out)) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, "a size above 0 with its unit, as 141 GB or 80 GiB");
}

static enum err_code read_bandwidth(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    char found[96];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    if (parse_bytes(text, "/s", out)) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, "a rate above 0 with its unit, as 1.5 GB/s");
}

/* ---- lists ---- */

static enum err_code add_word(struct plan_reader *r, const struct yaml_node *n, const char *text,
                              const char *through, struct plan_words *out)
{
    if (!text) return r->err->code;
    if (out->count == PLAN_WORDS) return plan_bad(r, n, "too many", "at most 64");
    out->word[out->count++] = (struct plan_word){text, through, n->line};
    return ERR_OK;
}

static enum err_code read_list(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (add_word(r, c, plan_scalar(r, c), NULL, out) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

static enum err_code read_one_or_list(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    return n->kind == YAML_LIST ? read_list(r, n, out)
                                : add_word(r, n, plan_scalar(r, n), NULL, out);
}

/* {line, through} */
static enum err_code read_hopping(struct plan_reader *r, const struct yaml_node *n,
                                  struct plan_words *out)
{
    const char *line = NULL, *through = NULL;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        const char **to = strcmp(c->key, "line") == 0      ? &line
                          : strcmp(c->key, "through") == 0 ? &through
                                                           : NULL;
        if (!to) return plan_bad_key(r, c, "line or through");
        if (read_text(r, c, to) != ERR_OK) return r->err->code;
    }
    if (!line) return plan_bad(r, n, "no key \"line\"", "line: what is typed");
    return add_word(r, n, line, through, out);
}

static enum err_code read_commands(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        enum err_code rc = c->kind == YAML_MAP ? read_hopping(r, c, out)
                                               : add_word(r, c, plan_scalar(r, c), NULL, out);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static enum err_code read_layers(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    struct plan_preflight *p = &r->plan->preflight;
    int64_t *layer = out;
    if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
    p->layers_line = n->line;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (p->layers == PLAN_LAYERS) return plan_bad(r, c, "too many layers", "at most 64");
        if (plan_int(r, c, 0, INT32_MAX, &layer[p->layers++]) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

/* ---- the mappings ---- */

struct key {
    const char *name;
    reader *read;
    size_t at; /* in struct plan_preflight */
};

#define AT(field) offsetof(struct plan_preflight, field)

/* Reads `n` by a table that ends in a NULL name; an unknown key shows the table. */
static enum err_code read_table(struct plan_reader *r, const struct yaml_node *n,
                                const struct key *keys)
{
    char wanted[ERR_PART] = "";
    for (int i = 0; keys[i].name; i++) {
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s%s", i ? ", " : "", keys[i].name);
    }
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        const struct key *k = keys;
        while (k->name && strcmp(k->name, c->key) != 0) k++;
        if (!k->name) return plan_bad_key(r, c, wanted);
        if (k->read(r, c, (char *)&r->plan->preflight + k->at) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

static enum err_code read_target(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    static const struct key keys[] = {{"devices", read_count, AT(devices)},
                                      {"device_memory", read_bytes, AT(device_memory)},
                                      {"host_memory", read_bytes, AT(host_memory)},
                                      {NULL, NULL, 0}};
    (void)out;
    return read_table(r, n, keys);
}

static enum err_code read_seconds(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    return plan_int(r, n, 1, 86400, out);
}

static enum err_code read_rehearse(struct plan_reader *r, const struct yaml_node *n, void *out)
{
    static const struct key keys[] = {{"run", read_one_or_list, AT(run)},
                                      {"shrink", read_text, AT(shrink)},
                                      {"seconds", read_seconds, AT(seconds)},
                                      {"also", read_list, AT(also)},
                                      {NULL, NULL, 0}};
    (void)out;
    if (read_table(r, n, keys) != ERR_OK) return r->err->code;
    const struct plan_words *run = &r->plan->preflight.run;
    if (run->count == 0) return plan_bad(r, n, "no key \"run\"", "run: a command with {model}");
    for (int i = 0; i < run->count; i++) {
        if (strstr(run->word[i].text, "{model}")) return ERR_OK;
    }
    return plan_bad(r, n, "no {model} in any command of run",
                    "{model} where the path of the checkpoint stands");
}

enum err_code plan_preflight(struct plan_reader *r, const struct yaml_node *n)
{
    static const struct key keys[] = {
        {"consumer", read_one_or_list, AT(consumer)},
        {"library", read_text, AT(library)},
        {"baseline", read_text, AT(baseline)},
        {"receivers", read_list, AT(receivers)},
        {"accept", read_text, AT(accept)},
        {"scripts", read_list, AT(scripts)},
        {"layers", read_layers, AT(layer)},
        {"numbering", read_numbering, AT(numbering)},
        {"samples", read_count, AT(samples)},
        {"sample_tokens", read_count, AT(sample_tokens)},
        {"dtype", read_dtype, AT(dtype)},
        {"out", read_text, AT(out)},
        {"commands", read_commands, AT(commands)},
        {"shell", read_shell, AT(shell)},
        {"login_shell", read_shell, AT(login_shell)},
        {"tp", read_ranks, AT(shard.tp)},
        {"ep", read_ranks, AT(shard.ep)},
        {"expert_map", read_map, AT(shard.map)},
        {"redundant", read_copies, AT(shard.redundant)},
        {"kv_tokens", read_count, AT(kv_tokens)},
        {"target", read_target, 0},
        {"load_minutes", read_minutes, AT(load_minutes)},
        {"read_bandwidth", read_bandwidth, AT(read_bandwidth)},
        {"rehearse", read_rehearse, 0},
        {NULL, NULL, 0},
    };
    const struct plan_preflight *p = &r->plan->preflight;
    r->plan->preflight.line = n->key_line;
    if (read_table(r, n, keys) != ERR_OK) return r->err->code;
    /* A row that fits nothing is refused, and would fit nothing of the others. */
    if (p->consumer.count > 1 && (p->accept || p->receivers.count > 0))
        return plan_bad(r, n, "accept or receivers for several consumers", "one consumer");
    return ERR_OK;
}
