/* shrink.c: see shrink.h. The JSON library finds what to change; the text is then edited by a small
 * scanner, so that numbers such as 1e-05 and the order of the keys stay as they were written. */
#include "harness/shrink.h"

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What SPEC may name. `with`: a key that must have the same value where there is one. */
static const struct {
    const char *name, *key, *with;
} keys[] = {
    {"layers", "num_hidden_layers", NULL},
    {"experts", "n_routed_experts", NULL},
    {"vocab", "vocab_size", NULL},
    {"hidden", "hidden_size", NULL},
    {"heads", "num_attention_heads", "num_key_value_heads"},
    {"intermediate", "intermediate_size", NULL},
    {"moe_intermediate", "moe_intermediate_size", NULL},
    {"q_lora", "q_lora_rank", NULL},
    {"kv_lora", "kv_lora_rank", NULL},
};
enum { KEYS = sizeof keys / sizeof keys[0] };
static const char *const key_list =
    "layers, experts, vocab, hidden, heads, intermediate, moe_intermediate, q_lora or kv_lora";

struct work {
    struct shrink *s;
    const char *path;
    const json_t *root, *text; /* text: text_config, or the root itself */
    int64_t wanted[KEYS];      /* 0: not named */
};

/* ---- the spec ---- */

static enum err_code read_part(struct work *w, const char *part, struct err *err)
{
    size_t length = strcspn(part, "=");
    int64_t value;
    int at = -1;
    for (int i = 0; i < KEYS; i++) {
        if (strlen(keys[i].name) == length && strncmp(keys[i].name, part, length) == 0) at = i;
    }
    if (at < 0 || part[length] != '=')
        return err_set(err, ERR_USAGE, "option|--shrink|\"%s\"|KEY=N,... with KEY one of %s", part,
                       key_list);
    if (!text_int(part + length + 1, &value) || value < 1)
        return err_set(err, ERR_USAGE, "option|--shrink|\"%s\"|a whole number of 1 or more", part);
    if (w->wanted[at])
        return err_set(err, ERR_USAGE, "option|--shrink|%s twice|once", keys[at].name);
    w->wanted[at] = value;
    return ERR_OK;
}

static enum err_code read_spec(struct work *w, const char *spec, struct err *err)
{
    char part[SHRINK_TEXT];
    for (const char *p = spec;; p++) {
        size_t length = strcspn(p, ",");
        snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1),
                 p);
        if (read_part(w, part, err) != ERR_OK) return err->code;
        p += length;
        if (!*p) return ERR_OK;
    }
}

/* ---- what changes ---- */

static enum err_code add_change(struct work *w, const char *parent, const char *key,
                                const char *from, const char *to, bool token, struct err *err)
{
    struct shrink *s = w->s;
    if (s->changes == SHRINK_CHANGES || strlen(key) >= SHRINK_TEXT || strlen(from) >= SHRINK_TEXT ||
        strlen(to) >= SHRINK_TEXT)
        return err_set(err, ERR_INPUT, "shrink config|%s: %.64s|too much to change|at most %d keys",
                       w->path, key, SHRINK_CHANGES);
    struct shrink_change *c = &s->change[s->changes++];
    *c = (struct shrink_change){.parent = parent, .token = token};
    snprintf(c->key, sizeof c->key, "%s", key);
    snprintf(c->from, sizeof c->from, "%s", from);
    snprintf(c->to, sizeof c->to, "%s", to);
    return ERR_OK;
}

/* obj[key], where it is a number equal to `old`. A copy of a size that stayed behind would
 * contradict the one that a loader reads. */
static enum err_code change_copy(struct work *w, const char *parent, const json_t *obj,
                                 const char *key, int64_t old, int64_t value, struct err *err)
{
    char from[32], to[32];
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v) || json_integer_value(v) != old || old == value) return ERR_OK;
    snprintf(from, sizeof from, "%lld", (long long)old);
    snprintf(to, sizeof to, "%lld", (long long)value);
    return add_change(w, parent, key, from, to, false, err);
}

static const char *text_parent(const struct work *w)
{
    return w->text == w->root ? "" : "text_config";
}

static enum err_code change_size(struct work *w, int i, struct err *err)
{
    const char *key = keys[i].key, *with = keys[i].with;
    const json_t *v = json_object_get(w->text, key);
    int64_t value = w->wanted[i], old;
    if (!json_is_integer(v))
        return err_set(err, ERR_INPUT, "option|--shrink: %s|%s of %s is %s|a model that has it",
                       keys[i].name, key, w->path, json_kind(v));
    old = json_integer_value(v);
    if (value > old)
        return err_set(err, ERR_USAGE, "option|--shrink: %s|%lld|at most the %lld of %s",
                       keys[i].name, (long long)value, (long long)old, w->path);
    if (change_copy(w, text_parent(w), w->text, key, old, value, err) != ERR_OK ||
        (with && change_copy(w, text_parent(w), w->text, with, old, value, err) != ERR_OK))
        return err->code;
    if (w->text == w->root) return ERR_OK;
    if (strcmp(key, "hidden_size") == 0 &&
        change_copy(w, "vision_config", json_object_get(w->root, "vision_config"),
                    "text_hidden_size", old, value, err) != ERR_OK)
        return err->code;
    return change_copy(w, "", w->root, key, old, value, err);
}

/* ---- token ids ---- */

/* Special ids stand at the end of a vocabulary: there they stay, in their order. */
static enum err_code move_token(const struct work *w, const char *key, int64_t id, int64_t old,
                                int64_t vocab, int64_t *out, struct err *err)
{
    *out = id < vocab ? id : id - old + vocab;
    if (id < old && *out >= 0) return ERR_OK;
    if (id >= old)
        return err_set(err, ERR_INPUT, "option|--shrink: vocab|%s %lld of %s|an id below its %lld",
                       key, (long long)id, w->path, (long long)old);
    return err_set(err, ERR_INPUT,
                   "option|--shrink: vocab|%lld, where %s %lld of %s is %lld from the end|at "
                   "least %lld",
                   (long long)vocab, key, (long long)id, w->path, (long long)(old - id),
                   (long long)(old - id));
}

/* A list of ids, or one, as text before and after. */
static enum err_code change_token(struct work *w, const char *parent, const char *key,
                                  const json_t *v, int64_t old, int64_t vocab, struct err *err)
{
    char from[SHRINK_TEXT * 2] = "", to[SHRINK_TEXT * 2] = "";
    bool list = json_is_array(v);
    size_t n = list ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = list ? json_array_get(v, i) : v;
        int64_t id;
        if (!json_is_integer(one)) return ERR_OK;
        if (move_token(w, key, json_integer_value(one), old, vocab, &id, err) != ERR_OK)
            return err->code;
        size_t f = strlen(from), t = strlen(to);
        const char *comma = i ? ", " : "";
        snprintf(from + f, sizeof from - f, "%s%lld", comma, (long long)json_integer_value(one));
        snprintf(to + t, sizeof to - t, "%s%lld", comma, (long long)id);
    }
    if (strcmp(from, to) == 0) return ERR_OK;
    if (!list) return add_change(w, parent, key, from, to, true, err);
    char from_list[sizeof from + 4], to_list[sizeof to + 4];
    snprintf(from_list, sizeof from_list, "[%s]", from);
    snprintf(to_list, sizeof to_list, "[%s]", to);
    return add_change(w, parent, key, from_list, to_list, true, err);
}

static enum err_code change_tokens(struct work *w, const char *parent, const json_t *obj,
                                   int64_t old, int64_t vocab, struct err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)obj, key, v)
    {
        bool id = text_ends(key, "_token_id") || text_ends(key, "_token_ids") ||
                  text_ends(key, "_token_index");
        if (id && change_token(w, parent, key, v, old, vocab, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* ---- what has no smaller form ---- */

/* A list with an entry a layer cannot be cut without knowing what it means. */
static enum err_code check_lists(const struct work *w, int64_t old, struct err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)w->text, key, v)
    {
        if (strstr(key, "layer") && json_is_array(v) && (int64_t)json_array_size(v) == old)
            return err_set(err, ERR_INPUT,
                           "option|--shrink: layers|%s of %s has an entry for each layer|a config "
                           "without such a list",
                           key, w->path);
    }
    return ERR_OK;
}

static enum err_code change_all(struct work *w, struct err *err)
{
    for (int i = 0; i < KEYS; i++) {
        if (!w->wanted[i]) continue;
        if (change_size(w, i, err) != ERR_OK) return err->code;
        int64_t old = json_integer_value(json_object_get(w->text, keys[i].key));
        if (old == w->wanted[i]) continue;
        if (strcmp(keys[i].name, "layers") == 0 && check_lists(w, old, err) != ERR_OK)
            return err->code;
        if (strcmp(keys[i].name, "vocab") != 0) continue;
        if (change_tokens(w, text_parent(w), w->text, old, w->wanted[i], err) != ERR_OK ||
            (w->text != w->root && change_tokens(w, "", w->root, old, w->wanted[i], err) != ERR_OK))
            return err->code;
    }
    return ERR_OK;
}

/* ---- the text ---- */

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* Past the string that begins at p. The text is known to be valid JSON, here and below. */
static const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++) {
        if (*p == '\\') p++;
    }
    return p + 1;
}

static const char *skip_value(const char *p)
{
    int depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    } while (depth > 0 || !strchr(",]} \t\r\n", *p));
    return p;
}

static const struct shrink_change *find_change(const struct shrink *s, const char *parent,
                                               const char *key, size_t length)
{
    for (int i = 0; i < s->changes; i++) {
        const struct shrink_change *c = &s->change[i];
        if (strcmp(c->parent, parent) == 0 && strlen(c->key) == length &&
            strncmp(c->key, key, length) == 0)
            return c;
    }
    return NULL;
}

static bool is_key(const char *key, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(key, name, length) == 0;
}

/* Writes the object at p with its changes; returns what follows it. `done` counts them. */
static const char *write_object(const struct shrink *s, const char *parent, const char *p, FILE *f,
                                int *done)
{
    const char *from = p;
    for (p = skip_space(p + 1); *p != '}'; p = skip_space(p)) {
        const char *key = p + 1;
        p = skip_string(p);
        size_t length = (size_t)(p - 1 - key);
        p = skip_space(skip_space(p) + 1);
        const char *inner = parent[0]                              ? NULL
                            : is_key(key, length, "text_config")   ? "text_config"
                            : is_key(key, length, "vision_config") ? "vision_config"
                                                                   : NULL;
        const struct shrink_change *c = find_change(s, parent, key, length);
        if (c || (inner && *p == '{')) fwrite(from, 1, (size_t)(p - from), f);
        if (c) {
            fputs(c->to, f);
            (*done)++;
            from = p = skip_value(p);
        } else if (inner && *p == '{') {
            from = p = write_object(s, inner, p, f, done);
        } else {
            p = skip_value(p);
        }
        p = skip_space(p);
        if (*p == ',') p++;
    }
    fwrite(from, 1, (size_t)(p + 1 - from), f);
    return p + 1;
}

static enum err_code write_text(struct work *w, const char *text, int64_t size, struct err *err)
{
    size_t written = 0;
    int done = 0;
    char *copy = malloc((size_t)size + 1);
    FILE *f = copy ? open_memstream(&w->s->text, &written) : NULL;
    if (f) {
        memcpy(copy, text, (size_t)size);
        copy[size] = '\0';
        const char *begin = skip_space(copy);
        fputs(write_object(w->s, "", begin, f, &done), f);
    }
    bool failed = !f || fclose(f) != 0;
    free(copy);
    if (failed) return err_set(err, ERR_MEMORY, "shrink config|%s|no memory", w->path);
    w->s->size = (int64_t)written;
    if (done != w->s->changes)
        return err_set(err, ERR_INPUT,
                       "shrink config|%s|%d of %d keys in plain letters|all of them", w->path, done,
                       w->s->changes);
    return ERR_OK;
}

/* The result is read as any config is, which is where experts, groups and heads are checked. */
static enum err_code check_result(struct work *w, const char *spec, struct err *err)
{
    char where[FILE_PATH + SHRINK_TEXT];
    struct shrink *s = w->s;
    snprintf(where, sizeof where, "%s after --shrink %s", w->path, spec);
    if (config_parse(s->text, s->size, where, &s->config, err) != ERR_OK) return err->code;
    const struct config *c = &s->config;
    if (c->first_dense > c->layers)
        return err_set(err, ERR_INPUT, "option|--shrink: layers|%lld|at least the %lld of %s",
                       (long long)c->layers, (long long)c->first_dense, "first_k_dense_replace");
    return ERR_OK;
}

enum err_code shrink_make(struct shrink *s, const char *spec, const char *text, int64_t size,
                          const char *path, struct err *err)
{
    struct work w = {.s = s, .path = path};
    json_t *root = NULL;
    *s = (struct shrink){0};
    if (read_spec(&w, spec, err) != ERR_OK || json_parse(text, size, path, &root, err) != ERR_OK)
        return err->code;
    const json_t *inner = json_object_get(root, "text_config");
    w.root = root;
    w.text = json_is_object(inner) ? inner : root;
    if (change_all(&w, err) == ERR_OK && write_text(&w, text, size, err) == ERR_OK)
        (void)!check_result(&w, spec, err);
    json_decref(root);
    return err->code;
}

void shrink_free(struct shrink *s)
{
    free(s->text);
    *s = (struct shrink){0};
}
