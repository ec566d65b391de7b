/* map.c: see map.h. */
#include "harness/map.h"

#include "core/file.h"
#include "core/text.h"
#include "core/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    struct arena *arena;
    struct err *err;
};

static enum err_code bad(struct reader *r, const struct yaml_node *n, const char *found,
                         const char *wanted)
{
    return yaml_bad(r->path, n, "map", found, wanted, r->err);
}

static enum err_code bad_key(struct reader *r, const struct yaml_node *n, const char *wanted)
{
    char found[96];
    snprintf(found, sizeof found, "the key \"%.60s\"", n->key ? n->key : "");
    return yaml_bad_key(r->path, n, "map", found, wanted, r->err);
}

static const char *text_of(struct reader *r, const struct yaml_node *n)
{
    if (n->kind == YAML_TEXT && n->text[0]) return n->text;
    (void)bad(r, n, yaml_kind_name(n), "a text");
    return NULL;
}

static void read_text(struct reader *r, const struct yaml_node *n, const char **out)
{
    *out = text_of(r, n);
}

static void read_bool(struct reader *r, const struct yaml_node *n, bool *out)
{
    const char *t = text_of(r, n);
    if (t && strcmp(t, "true") != 0 && strcmp(t, "false") != 0) (void)bad(r, n, t, "true or false");
    *out = t && strcmp(t, "true") == 0;
}

static void read_int(struct reader *r, const struct yaml_node *n, int64_t min, int64_t max,
                     int64_t *out)
{
    char wanted[64];
    const char *t = text_of(r, n);
    snprintf(wanted, sizeof wanted, "a whole number, %lld to %lld", (long long)min, (long long)max);
    if (t && (!text_int(t, out) || *out < min || *out > max)) (void)bad(r, n, t, wanted);
}

/* ---- stacks ---- */

enum { OPEN_END = -1 };

/* "{A..B}" or "{A..}" in a name: its place and ends. */
static bool find_range(const char *name, const char **open, const char **close, int64_t *a,
                       int64_t *b)
{
    char first[24], last[24];
    *open = strchr(name, '{');
    *close = *open ? strchr(*open, '}') : NULL;
    const char *dots = *open ? strstr(*open, "..") : NULL;
    if (!*close || !dots || dots > *close) return false;
    int n = snprintf(first, sizeof first, "%.*s", (int)(dots - *open - 1), *open + 1);
    int m = snprintf(last, sizeof last, "%.*s", (int)(*close - dots - 2), dots + 2);
    if (n >= 24 || m >= 24 || !text_int(first, a)) return false;
    if (m == 0) *b = OPEN_END;
    return m == 0 || text_int(last, b);
}

static char *keep(struct reader *r, const char *text)
{
    size_t n = strlen(text) + 1;
    char *at = arena_alloc(r->arena, (int64_t)n, 1, "map", r->err);
    if (at) memcpy(at, text, n);
    return at;
}

enum { STACK_MAX = 4096 };

/* "layers.{3..}.output": as many as fit. */
static void add_open(struct reader *r, const struct yaml_node *item, const char *open,
                     const char *close, int64_t first, struct map_rule *rule)
{
    char one[MAP_NAME];
    if (rule->open >= 0 || first < 0 || first > INT32_MAX) {
        (void)bad(r, item, item->text, "one {A..} in a stack, with A from 0 to 2147483647");
        return;
    }
    snprintf(one, sizeof one, "%.*s{N}%s", (int)(open - item->text), item->text, close + 1);
    rule->open = rule->stack_count;
    rule->open_first = first;
    rule->stack[rule->stack_count++] = keep(r, one);
}

static void add_names(struct reader *r, const struct yaml_node *item, struct map_rule *rule)
{
    const char *name = text_of(r, item), *open, *close;
    int64_t a = 0, b = 0;
    if (!name) return;
    bool range = find_range(name, &open, &close, &a, &b);
    if (range && b == OPEN_END && rule->stack_count < STACK_MAX) {
        add_open(r, item, open, close, a, rule);
        return;
    }
    if (range && (a < 0 || b < a || b > INT32_MAX || b - a >= STACK_MAX)) {
        (void)bad(r, item, name, "{A..B} with 0 <= A <= B, 4096 names at most");
        return;
    }
    for (int64_t i = a; i <= b && r->err->code == ERR_OK; i++) {
        char one[MAP_NAME];
        if (range)
            snprintf(one, sizeof one, "%.*s%lld%s", (int)(open - name), name, (long long)i,
                     close + 1);
        else
            snprintf(one, sizeof one, "%s", name);
        if (rule->stack_count == STACK_MAX) {
            (void)bad(r, item, "more than 4096 names", "fewer");
            return;
        }
        rule->stack[rule->stack_count++] = keep(r, one);
    }
}

static void read_stack(struct reader *r, const struct yaml_node *n, struct map_rule *rule)
{
    if (n->kind != YAML_LIST || !n->child) {
        (void)bad(r, n, yaml_kind_name(n), "a list of tap names, {A..B} allowed");
        return;
    }
    rule->stack = arena_alloc(r->arena, STACK_MAX, sizeof *rule->stack, "map", r->err);
    for (const struct yaml_node *i = n->child; i && rule->stack; i = i->next) add_names(r, i, rule);
}

/* ---- rules ---- */

static void read_axes(struct reader *r, const struct yaml_node *n, struct map_rule *rule)
{
    unsigned seen = 0;
    if (n->kind != YAML_LIST || !n->child) {
        (void)bad(r, n, yaml_kind_name(n), "a list of axes, such as [1, 0, 2]");
        return;
    }
    for (const struct yaml_node *i = n->child; i && r->err->code == ERR_OK; i = i->next) {
        int64_t axis = 0;
        read_int(r, i, 0, MAP_AXES - 1, &axis);
        if (r->err->code != ERR_OK) return;
        if (rule->axis_count == MAP_AXES || seen & 1u << axis) {
            (void)bad(r, i, "an axis twice", "each axis once");
            return;
        }
        seen |= 1u << axis;
        rule->axes[rule->axis_count++] = (int)axis;
    }
    if (r->err->code == ERR_OK && seen != (1u << rule->axis_count) - 1)
        (void)bad(r, n, "a gap", "all axes from 0 on");
}

static void read_rope(struct reader *r, const struct yaml_node *n, struct map_rule *rule)
{
    const char *t = text_of(r, n);
    if (t && strcmp(t, "half_split") != 0 && strcmp(t, "interleaved") != 0)
        (void)bad(r, n, t, "half_split or interleaved");
    rule->half_split = t && strcmp(t, "half_split") == 0;
}

static void read_rule_key(struct reader *r, const struct yaml_node *n, struct map_rule *rule)
{
    int64_t axis = 0;
    if (strcmp(n->key, "from") == 0) {
        read_text(r, n, &rule->from);
    } else if (strcmp(n->key, "to") == 0) {
        read_text(r, n, &rule->to);
    } else if (strcmp(n->key, "skip") == 0) {
        read_bool(r, n, &rule->skip);
    } else if (strcmp(n->key, "stack") == 0) {
        read_stack(r, n, rule);
    } else if (strcmp(n->key, "axis") == 0) {
        read_int(r, n, 0, MAP_AXES - 1, &axis);
        rule->axis = (int)axis;
    } else if (strcmp(n->key, "axes") == 0) {
        read_axes(r, n, rule);
    } else if (strcmp(n->key, "shard") == 0) {
        read_int(r, n, 0, MAP_AXES - 1, &axis);
        rule->shard = (int)axis;
        rule->sharded = true;
    } else if (strcmp(n->key, "partial") == 0) {
        read_bool(r, n, &rule->partial);
    } else if (strcmp(n->key, "transpose") == 0) {
        read_bool(r, n, &rule->transpose);
    } else if (strcmp(n->key, "rope") == 0) {
        read_rope(r, n, rule);
    } else if (strcmp(n->key, "rope_first") == 0) {
        read_bool(r, n, &rule->rope_first);
    } else if (strcmp(n->key, "head_dim") == 0) {
        read_int(r, n, 1, 1 << 20, &rule->head_dim);
    } else if (strcmp(n->key, "rope_dim") == 0) {
        read_int(r, n, 2, 1 << 20, &rule->rope_dim);
    } else {
        (void)bad_key(
            r, n,
            "from, to, skip, stack, axis, axes, shard, partial, transpose, rope, rope_first, "
            "head_dim, rope_dim");
    }
}

static void check_rule(struct reader *r, const struct yaml_node *n, struct map_rule *rule)
{
    const char *found = NULL;
    int ends = (rule->to != NULL) + rule->skip + (rule->stack != NULL);
    if (!rule->from)
        found = "no from";
    else if (ends != 1)
        found = ends ? "several of to, skip, stack" : "none of to, skip, stack";
    else if (rule->transpose && rule->axis_count)
        found = "both transpose and axes";
    else if (rule->sharded && rule->partial)
        found = "both shard and partial";
    else if ((rule->half_split || rule->rope_first) && !rule->rope_dim)
        found = "rope without rope_dim";
    else if (rule->rope_dim % 2 || (rule->head_dim && rule->rope_dim > rule->head_dim))
        found = "a rope_dim that is odd or wider than the head";
    if (found) {
        (void)bad(r, n, found, "from, and one of to, skip, stack");
        return;
    }
    if (!rule->head_dim) rule->head_dim = rule->rope_dim;
}

static void read_rules(struct reader *r, const struct yaml_node *n, struct map *m)
{
    if (n->kind != YAML_LIST || !n->child) {
        (void)bad(r, n, yaml_kind_name(n), "a list of rules");
        return;
    }
    for (const struct yaml_node *i = n->child; i; i = i->next) m->count++;
    m->rules = arena_alloc(r->arena, m->count, sizeof *m->rules, "map", r->err);
    struct map_rule *rule = m->rules;
    for (const struct yaml_node *i = n->child; i && rule && r->err->code == ERR_OK;
         i = i->next, rule++) {
        *rule = (struct map_rule){.line = i->line, .open = -1, .last = -1};
        if (i->kind != YAML_MAP) {
            (void)bad(r, i, yaml_kind_name(i), "a mapping with from and to");
            return;
        }
        for (const struct yaml_node *k = i->child; k && r->err->code == ERR_OK; k = k->next)
            read_rule_key(r, k, rule);
        if (r->err->code == ERR_OK) check_rule(r, i, rule);
    }
}

enum err_code map_parse(const char *text, int64_t size, const char *path, struct arena *a,
                        struct map *out, struct err *err)
{
    struct reader r = {path, a, err};
    struct yaml_node *root;
    const char *version = NULL;
    *out = (struct map){.path = path};
    if (yaml_parse(text, size, path, a, &root, err) != ERR_OK) return err->code;
    if (root->kind != YAML_MAP) return bad(&r, root, yaml_kind_name(root), "a mapping");
    for (const struct yaml_node *n = root->child; n && err->code == ERR_OK; n = n->next) {
        if (strcmp(n->key, "assay-map") == 0) {
            read_text(&r, n, &version);
            if (version && strcmp(version, "1") != 0) (void)bad(&r, n, version, "1");
        } else if (strcmp(n->key, "engine") == 0) {
            read_text(&r, n, &out->engine);
        } else if (strcmp(n->key, "tokens") == 0) {
            read_text(&r, n, &out->tokens);
        } else if (strcmp(n->key, "rows") == 0) {
            read_text(&r, n, &out->rows);
        } else if (strcmp(n->key, "taps") == 0) {
            read_rules(&r, n, out);
        } else {
            (void)bad_key(&r, n, "assay-map, engine, tokens, rows, taps");
        }
    }
    if (err->code == ERR_OK && !version) return bad(&r, root, "no assay-map", "assay-map: 1");
    if (err->code == ERR_OK && !out->rules) return bad(&r, root, "no taps", "a list of rules");
    return err->code;
}

enum err_code map_read(const char *path, struct arena *a, struct map *out, struct err *err)
{
    struct file_map m;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    (void)!map_parse(m.data ? (const char *)m.data : "", m.size, path, a, out, err);
    file_unmap(&m);
    return err->code;
}

/* ---- names ---- */

/* `text`, of n bytes, as a whole fits the pattern of m bytes. */
static bool part_fits(const char *pattern, size_t m, const char *text, size_t n)
{
    char p[MAP_NAME], t[MAP_NAME];
    if (m >= MAP_NAME || n >= MAP_NAME) return false;
    snprintf(p, sizeof p, "%.*s", (int)m, pattern);
    snprintf(t, sizeof t, "%.*s", (int)n, text);
    return text_glob(p, t);
}

/* `name` fits `from`, whose hole ("{N}", "{last}") is a whole number in it, the first that does; *n
 * receives it, -1: none. */
static bool fits_hole(const char *from, const char *hole, const char *name, int64_t *n)
{
    const char *at = strstr(from, hole);
    *n = -1;
    for (size_t i = 0, digits; at && name[i]; i += digits ? digits : 1) {
        digits = strspn(name + i, "0123456789");
        if (digits == 0 || digits > 9 || !part_fits(from, (size_t)(at - from), name, i) ||
            !text_glob(at + strlen(hole), name + i + digits))
            continue;
        *n = strtoll(name + i, NULL, 10);
        return true;
    }
    return false;
}

static bool fits(const struct map_rule *rule, const char *name, int64_t *n)
{
    if (strstr(rule->from, "{last}"))
        return fits_hole(rule->from, "{last}", name, n) && *n == rule->last;
    if (strstr(rule->from, "{N}")) return fits_hole(rule->from, "{N}", name, n);
    *n = -1;
    return text_glob(rule->from, name);
}

void map_learn(struct map *m, const char *name)
{
    int64_t n;
    for (int64_t i = 0; i < m->count; i++) {
        struct map_rule *rule = &m->rules[i];
        if (fits_hole(rule->from, "{last}", name, &n) && n > 0 && n > rule->last) rule->last = n;
    }
}

/* `to` with {N}, {N+k} or {N-k} filled in. */
static bool fill(const char *to, int64_t n, char *out)
{
    const char *hole = strstr(to, "{N"), *end = hole ? strchr(hole, '}') : NULL;
    int length;
    if (!hole || !end) {
        length = snprintf(out, MAP_NAME, "%s", to);
    } else {
        long long more = end == hole + 2 ? 0 : strtoll(hole + 2, NULL, 10);
        if (n < 0 || __builtin_add_overflow(more, n, &more) || more < 0) return false;
        length = snprintf(out, MAP_NAME, "%.*s%lld%s", (int)(hole - to), to, more, end + 1);
    }
    return length >= 0 && length < MAP_NAME;
}

bool map_stack_name(const struct map_rule *rule, int64_t n, int64_t i, char out[MAP_NAME])
{
    const int64_t more = n - rule->stack_count; /* slices beyond one a name */
    if (rule->open < 0 ? more != 0 : more < -1) return false;
    if (rule->open < 0 || i < rule->open)
        return snprintf(out, MAP_NAME, "%s", rule->stack[i]) < MAP_NAME;
    if (i > rule->open + more)
        return snprintf(out, MAP_NAME, "%s", rule->stack[i - more]) < MAP_NAME;
    return fill(rule->stack[rule->open], rule->open_first + i - rule->open, out);
}

bool map_find(const struct map *m, const char *name, const struct map_rule **rule, char *to)
{
    int64_t n;
    *rule = NULL;
    for (int64_t i = 0; i < m->count; i++) {
        if (!fits(&m->rules[i], name, &n)) continue;
        *rule = &m->rules[i];
        return !m->rules[i].to || fill(m->rules[i].to, n, to);
    }
    return snprintf(to, MAP_NAME, "%s", name) < MAP_NAME;
}
