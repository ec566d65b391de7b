/* plan.c: see plan.h. The whole of the file, and what stands beside a step's kind; the body of a
 * step is read by plan_step.c. */
#include "harness/plan.h"

#include "core/file.h"
#include "core/text.h"
#include "harness/plan_parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const struct verb *verb;
} kinds[PLAN_KINDS] = {
    [PLAN_FORWARD] = {"forward", &verb_forward},    [PLAN_DIFF] = {"diff", &verb_diff},
    [PLAN_GENERATE] = {"generate", &verb_generate}, [PLAN_OP] = {"op", &verb_op},
    [PLAN_FAULT] = {"fault", &verb_fault},
};

const struct verb *plan_verb(enum plan_kind kind)
{
    return kinds[kind].verb;
}

const char *plan_kind_name(enum plan_kind kind)
{
    return kinds[kind].name;
}

const char *plan_where(const struct plan *p, struct plan_place at, char *buf, size_t size)
{
    snprintf(buf, size, "%s:%d:%d", p->path, at.line, at.column);
    return buf;
}

struct plan_place plan_place_of(const struct yaml_node *n)
{
    return (struct plan_place){n->line, n->column};
}

enum err_code plan_bad(struct plan_reader *r, const struct yaml_node *n, const char *found,
                       const char *wanted)
{
    return yaml_bad(r->plan->path, n, "plan", found, wanted, r->err);
}

enum err_code plan_bad_key(struct plan_reader *r, const struct yaml_node *n, const char *wanted)
{
    char found[96];
    snprintf(found, sizeof found, "the key \"%.60s\"", n->key ? n->key : "");
    return yaml_bad_key(r->plan->path, n, "plan", found, wanted, r->err);
}

enum err_code plan_want(struct plan_reader *r, const struct yaml_node *n, enum yaml_kind kind)
{
    static const char *const name[] = {"a text", "a list", "a mapping"};
    static const char *const empty[] = {"nothing", "an empty list", "an empty mapping"};
    if (n->kind == kind && (kind == YAML_TEXT || n->child)) return ERR_OK;
    if (n->kind == kind) return plan_bad(r, n, empty[kind], "something in it");
    return plan_bad(r, n, yaml_kind_name(n), name[kind]);
}

const char *plan_scalar(struct plan_reader *r, const struct yaml_node *n)
{
    if (n->kind == YAML_TEXT && n->text[0]) return n->text;
    (void)plan_bad(r, n, yaml_kind_name(n), "a text");
    return NULL;
}

enum err_code plan_int(struct plan_reader *r, const struct yaml_node *n, int64_t min, int64_t max,
                       int64_t *out)
{
    char wanted[96], found[96];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    if (text_int(text, out) && *out >= min && *out <= max) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", text);
    snprintf(wanted, sizeof wanted, "a whole number, %lld to %lld", (long long)min, (long long)max);
    return plan_bad(r, n, found, wanted);
}

enum err_code plan_bool(struct plan_reader *r, const struct yaml_node *n, bool *out)
{
    char found[96];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, "true or false");
}

enum err_code plan_joined(struct plan_reader *r, const struct yaml_node *n, const char **out)
{
    size_t size = 1;
    if (n->kind != YAML_LIST) {
        *out = plan_scalar(r, n);
        return r->err->code;
    }
    if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (!plan_scalar(r, c)) return r->err->code;
        size += strlen(c->text) + 1;
    }
    char *text = arena_alloc(r->arena, (int64_t)size, 1, "plan text", r->err), *at = text;
    if (!text) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next)
        at += snprintf(at, size - (size_t)(at - text), "%s%s", c == n->child ? "" : ",", c->text);
    *out = text;
    return ERR_OK;
}

static const struct yaml_node *child_of(const struct yaml_node *map, const char *key)
{
    for (const struct yaml_node *c = map->child; c; c = c->next) {
        if (strcmp(c->key, key) == 0) return c;
    }
    return NULL;
}

/* ---- the head of a step: read for all steps first, so that a name can be known as a later one
 * ----
 */

static enum err_code read_name(struct plan_reader *r, const struct yaml_node *n, int i)
{
    struct plan_step *s = &r->plan->step[i];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    size_t length = strlen(text);
    bool fits = length < PLAN_NAME && (isalnum((unsigned char)text[0]) || text[0] == '_');
    for (size_t k = 0; fits && k < length; k++)
        fits = isalnum((unsigned char)text[k]) || strchr("._-", text[k]);
    if (!fits)
        return plan_bad(r, n, "a name that is no file's",
                        "letters, digits, '.', '_' and '-', fewer than 48");
    s->name = text;
    return ERR_OK;
}

static enum err_code check_unique(struct plan_reader *r, const struct yaml_node *n, int i)
{
    char found[128];
    const struct plan *p = r->plan;
    for (int k = 0; k < i; k++) {
        if (strcmp(p->step[k].name, p->step[i].name) != 0) continue;
        snprintf(found, sizeof found, "\"%s\" again, first in line %d", p->step[i].name,
                 p->step[k].at.line);
        return plan_bad(r, n, found, "a name of its own");
    }
    return ERR_OK;
}

static enum err_code read_head(struct plan_reader *r, const struct yaml_node *n, int i)
{
    static const char wanted[] = "one of forward, diff, generate, op, fault";
    struct plan_step *s = &r->plan->step[i];
    const struct yaml_node *name, *body = NULL;
    *s = (struct plan_step){.at = plan_place_of(n), .word = {{.step = -1}, {.step = -1}}};
    s->model.step = s->equals.step = -1;
    s->expect = (struct plan_expect){
        .exit = -1, .guilty_layer = PLAN_ANY, .first_layer = PLAN_ANY, .first_row = PLAN_ANY};
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (int k = 0; k < PLAN_KINDS; k++) {
        const struct yaml_node *c = child_of(n, kinds[k].name);
        if (!c) continue;
        if (body) return plan_bad_key(r, c, "one kind a step");
        body = c;
        s->kind = (enum plan_kind)k;
    }
    if (!body) return plan_bad(r, n, "a step without a kind", wanted);
    name = child_of(n, "name");
    if (name) {
        if (read_name(r, name, i) != ERR_OK) return r->err->code;
        return check_unique(r, name, i);
    }
    char *text = arena_alloc(r->arena, PLAN_NAME, 1, "plan text", r->err);
    if (!text) return r->err->code;
    snprintf(text, PLAN_NAME, "step-%d", i + 1);
    s->name = text;
    return check_unique(r, n, i);
}

static enum err_code read_condition(struct plan_reader *r, const struct yaml_node *n,
                                    struct plan_step *s)
{
    static const char *const known[] = {"gpu", "ref", "blas"};
    char found[96];
    const char *text = plan_scalar(r, n);
    if (!text) return r->err->code;
    s->negated = text_starts(text, "not ");
    s->condition = s->negated ? text + 4 : text;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], s->condition) == 0) return ERR_OK;
    }
    snprintf(found, sizeof found, "\"%.60s\"", text);
    return plan_bad(r, n, found, "gpu, ref or blas, or \"not\" and one of them");
}

static enum err_code read_step(struct plan_reader *r, const struct yaml_node *n,
                               struct plan_step *s)
{
    const struct yaml_node *expect = NULL;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(c->key, plan_kind_name(s->kind)) == 0)
            rc = plan_body(r, s, c);
        else if (strcmp(c->key, "if") == 0)
            rc = read_condition(r, c, s);
        else if (strcmp(c->key, "expect") == 0)
            expect = c;
        else if (strcmp(c->key, "name") != 0)
            rc = plan_bad_key(r, c,
                              "name, if, expect, and one of forward, diff, generate, op, "
                              "fault");
        if (rc != ERR_OK) return rc;
    }
    if (expect && plan_step_expect(r, s, expect) != ERR_OK) return r->err->code;
    return plan_step_check(r, s, n);
}

static enum err_code read_steps(struct plan_reader *r, const struct yaml_node *n)
{
    struct plan *p = r->plan;
    int count = 0, i = 0;
    if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) count++;
    if (count > PLAN_STEPS) return plan_bad(r, n, "too many steps", "at most 256");
    p->step = arena_alloc(r->arena, count, sizeof *p->step, "plan steps", r->err);
    if (!p->step) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next, i++) {
        if (read_head(r, c, i) != ERR_OK) return r->err->code;
    }
    p->steps = count;
    for (const struct yaml_node *c = n->child; c; c = c->next, r->done++) {
        if (read_step(r, c, &p->step[r->done]) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

/* ---- the whole ---- */

static enum err_code read_expect(struct plan_reader *r, const struct yaml_node *n)
{
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (strcmp(c->key, "compared_at_least") != 0)
            return plan_bad_key(r, c, "compared_at_least");
        if (plan_int(r, c, 1, INT32_MAX, &r->plan->compared_at_least) != ERR_OK)
            return r->err->code;
    }
    return ERR_OK;
}

static enum err_code read_root(struct plan_reader *r, const struct yaml_node *root)
{
    const struct yaml_node *steps = NULL;
    int64_t schema = 0;
    if (plan_want(r, root, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = root->child; c; c = c->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(c->key, "assay") == 0) {
            rc = plan_int(r, c, 1, 1, &schema);
        } else if (strcmp(c->key, "model") == 0) {
            r->model = (struct plan_text){plan_scalar(r, c), -1, plan_place_of(c)};
        } else if (strcmp(c->key, "tokens") == 0) {
            r->tokens = (struct plan_text){NULL, -1, plan_place_of(c)};
            rc = plan_joined(r, c, &r->tokens.text);
        } else if (strcmp(c->key, "steps") == 0) {
            steps = c;
        } else if (strcmp(c->key, "expect") == 0) {
            rc = read_expect(r, c);
        } else if (strcmp(c->key, "preflight") == 0) {
            rc = plan_preflight(r, c);
        } else {
            rc = plan_bad_key(r, c, "assay, model, tokens, steps, expect or preflight");
        }
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code;
    }
    r->plan->model = r->model;
    if (!schema) return plan_bad(r, root, "no key \"assay\"", "assay: 1");
    if (!steps && !r->plan->preflight.line)
        return plan_bad(r, root, "no key \"steps\"", "a list of steps");
    return steps ? read_steps(r, steps) : ERR_OK;
}

enum err_code plan_parse(const char *text, int64_t size, const char *path, struct arena *a,
                         struct plan *out, struct err *err)
{
    struct yaml_node *root;
    struct plan_reader r = {
        .plan = out, .arena = a, .err = err, .model = {.step = -1}, .tokens = {.step = -1}};
    *out = (struct plan){.compared_at_least = 1};
    plan_preflight_init(&out->preflight);
    if (strlen(path) >= sizeof out->path)
        return err_set(err, ERR_INPUT, "plan|%s|%zu bytes|a shorter path", path, strlen(path));
    snprintf(out->path, sizeof out->path, "%s", path);
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    snprintf(out->folder, sizeof out->folder, "%.*s", length ? (int)length : 1,
             length ? path : ".");
    if (yaml_parse(text, size, path, a, &root, err) != ERR_OK) return err->code;
    return read_root(&r, root);
}

enum err_code plan_read(const char *path, struct arena *a, struct plan *out, struct err *err)
{
    struct file_map file;
    *out = (struct plan){0};
    if (file_map(path, &file, err) != ERR_OK) return err_note(err, "the plan");
    (void)!plan_parse((const char *)file.data, file.size, path, a, out, err);
    file_unmap(&file);
    return err->code;
}
