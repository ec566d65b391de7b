/* api_type.c: see api_type.h. A recursive descent over the text; what does not fit the grammar is
 * kept as a text. */
#include "compat/api_type.h"

#include "core/text.h"

#include <ctype.h>
#include <string.h>

/* Behind the string literal that begins at s (a quote), or NULL where it does not end. Prefixes
 * (r, b, f) are names before it: a raw string ends at the same quote for our purpose. */
static const char *skip_quoted(const char *s)
{
    char quote = *s++;
    while (*s && *s != quote) s += *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : NULL;
}

/* As api_scan(); *closed: all brackets and quotes do. */
static const char *scan(const char *text, const char *mark, bool *closed)
{
    char open[64];
    int depth = 0;
    size_t length = strlen(mark);
    const char *found = NULL;
    *closed = false;
    for (const char *s = text; *s;) {
        if (!found && depth == 0 && length && strncmp(s, mark, length) == 0) found = s;
        if (*s == '\'' || *s == '"') {
            if (!(s = skip_quoted(s))) return NULL;
            continue;
        }
        if (strchr("([{", *s)) {
            if (depth == (int)sizeof open) return NULL;
            open[depth++] = *s == '(' ? ')' : *s == '[' ? ']' : '}';
        } else if (strchr(")]}", *s) && (depth == 0 || open[--depth] != *s)) {
            return NULL;
        }
        s++;
    }
    *closed = depth == 0;
    return *closed ? found : NULL;
}

const char *api_scan(const char *text, const char *mark)
{
    bool closed;
    return scan(text, mark, &closed);
}

bool api_balanced(const char *text)
{
    bool closed;
    (void)scan(text, "", &closed);
    return closed;
}

struct parser {
    const char *at;
    struct pool *pool;
    struct err *err;
    int depth;
    bool failed; /* not a type expression */
};

static struct api_type *node(struct parser *p, enum api_type_kind kind, const char *name,
                             size_t length)
{
    struct api_type *t = pool_take(p->pool, 1, sizeof *t, p->err);
    if (!t) return NULL;
    t->kind = kind;
    if (name && !(t->name = pool_text(p->pool, name, length, p->err))) return NULL;
    return t;
}

static void skip_spaces(struct parser *p)
{
    while (*p->at == ' ') p->at++;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

static struct api_type *parse_union(struct parser *p);

/* arg, arg, ... up to `close`. */
static bool parse_args(struct parser *p, struct api_type *t, char close)
{
    struct api_type **last = &t->arg;
    skip_spaces(p);
    while (*p->at != close) {
        struct api_type *arg = parse_union(p);
        if (!arg) return false;
        *last = arg;
        last = &arg->next;
        t->args++;
        skip_spaces(p);
        if (*p->at == ',')
            p->at++;
        else if (*p->at != close)
            return false;
        skip_spaces(p);
    }
    p->at++;
    return true;
}

/* What stands between commas and is no type: literals, calls, tuples. */
static struct api_type *parse_other(struct parser *p)
{
    const char *begin = p->at;
    int depth = 0;
    for (; *p->at; p->at++) {
        if (*p->at == '\'' || *p->at == '"') {
            const char *end = skip_quoted(p->at);
            if (!end) break;
            p->at = end - 1;
        } else if (strchr("([{", *p->at)) {
            depth++;
        } else if (strchr(")]}", *p->at) && depth-- == 0) {
            break;
        } else if (depth == 0 && (*p->at == ',' || *p->at == '|')) {
            break;
        }
    }
    const char *end = p->at;
    while (end > begin && end[-1] == ' ') end--;
    p->failed |= end == begin;
    return end == begin ? NULL : node(p, API_TYPE_OTHER, begin, (size_t)(end - begin));
}

static struct api_type *parse_name(struct parser *p)
{
    const char *begin = p->at;
    while (is_name_byte(*p->at)) p->at++;
    size_t length = (size_t)(p->at - begin);
    if (length == 4 && strncmp(begin, "None", 4) == 0) return node(p, API_TYPE_NONE, NULL, 0);
    if (*p->at && !strchr("[],| )", *p->at)) { /* a call, or "a.b + c" */
        p->at = begin;
        return parse_other(p);
    }
    struct api_type *t = node(p, API_TYPE_NAME, begin, length);
    if (!t || *p->at != '[') return t;
    p->at++;
    t->kind = API_TYPE_SUB;
    return parse_args(p, t, ']') ? t : NULL;
}

/* "(A | B)"; a tuple is no type. */
static struct api_type *parse_group(struct parser *p)
{
    const char *begin = p->at++;
    int depth = p->depth;
    struct api_type *t = parse_union(p);
    if (t && *p->at == ')') {
        p->at++;
        return t;
    }
    p->at = begin;
    p->depth = depth;
    p->failed = false;
    return p->err->code == ERR_OK ? parse_other(p) : NULL;
}

static struct api_type *parse_one(struct parser *p)
{
    skip_spaces(p);
    if (strncmp(p->at, "...", 3) == 0) {
        p->at += 3;
        return node(p, API_TYPE_ELLIPSIS, NULL, 0);
    }
    if (*p->at == '(') return parse_group(p);
    if (*p->at == '[') {
        p->at++;
        struct api_type *t = node(p, API_TYPE_LIST, NULL, 0);
        return t && parse_args(p, t, ']') ? t : NULL;
    }
    bool named = is_name_byte(*p->at) && !isdigit((unsigned char)*p->at) && *p->at != '.';
    return named ? parse_name(p) : parse_other(p);
}

/* Last part of a dotted name. */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

bool api_type_is(const struct api_type *t, const char *last)
{
    return t && t->name && t->kind != API_TYPE_OTHER && strcmp(last_part(t->name), last) == 0;
}

/* Optional, Union and the wrappers that say nothing about the value become what they stand for. */
static struct api_type *simplified(struct parser *p, struct api_type *t)
{
    static const char *const wrappers[] = {"Annotated", "Required",      "NotRequired",
                                           "Final",     "ClassVar",      "InitVar",
                                           "ReadOnly",  "SkipValidation"};
    if (t->kind != API_TYPE_SUB || t->args == 0) return t;
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        if (!api_type_is(t, wrappers[i])) continue;
        t->arg->next = NULL;
        return t->arg;
    }
    bool optional = api_type_is(t, "Optional");
    if (!optional && !api_type_is(t, "Union")) return t;
    struct api_type *none = optional ? node(p, API_TYPE_NONE, NULL, 0) : NULL;
    if (optional && !none) return NULL;
    if (optional) t->arg->next = none;
    return t;
}

static bool is_union(const struct api_type *t)
{
    return t->kind == API_TYPE_UNION ||
           (t->kind == API_TYPE_SUB && (api_type_is(t, "Optional") || api_type_is(t, "Union")));
}

/* Appends t, or the members of t where it is a union itself, at any depth. */
static void add_member(struct api_type *all, struct api_type ***last, struct api_type *t)
{
    struct api_type *next = NULL;
    if (!is_union(t)) {
        t->next = NULL;
        **last = t;
        *last = &t->next;
        all->args++;
        return;
    }
    for (struct api_type *m = t->arg; m; m = next) {
        next = m->next;
        add_member(all, last, m);
    }
}

static struct api_type *parse_union(struct parser *p)
{
    if (++p->depth > API_TYPE_DEPTH) {
        p->failed = true;
        return NULL;
    }
    struct api_type *t = parse_one(p);
    t = t ? simplified(p, t) : NULL;
    skip_spaces(p);
    if (t && (*p->at == '|' || is_union(t))) {
        struct api_type *all = node(p, API_TYPE_UNION, NULL, 0), **last = all ? &all->arg : NULL;
        for (;;) {
            if (!all || !t) return NULL;
            add_member(all, &last, t);
            skip_spaces(p);
            if (*p->at != '|') break;
            p->at++;
            t = parse_one(p);
            t = t ? simplified(p, t) : NULL;
        }
        t = all;
    }
    p->depth--;
    return t;
}

struct api_type *api_type_parse(const char *text, struct pool *pool, struct err *err)
{
    if (!text) return NULL;
    struct parser p = {.at = text, .pool = pool, .err = err};
    struct api_type *t = parse_union(&p);
    if (t && !*p.at) return t;
    return err->code == ERR_OK ? node(&p, API_TYPE_OTHER, text, strlen(text)) : NULL;
}

static bool same_all(const struct api_type *x, const struct api_type *y);

/* Every member of a union stands in the other, in any order. */
static bool covers(const struct api_type *x, const struct api_type *y)
{
    for (const struct api_type *m = x->arg; m; m = m->next) {
        const struct api_type *k = y->arg;
        while (k && !api_type_same(m, k)) k = k->next;
        if (!k) return false;
    }
    return true;
}

bool api_type_same(const struct api_type *x, const struct api_type *y)
{
    if (x->kind != y->kind) return false;
    if (x->kind == API_TYPE_UNION) return covers(x, y) && covers(y, x);
    if (x->kind == API_TYPE_OTHER) return strcmp(x->name, y->name) == 0;
    if (x->name && strcmp(last_part(x->name), last_part(y->name)) != 0) return false;
    return same_all(x->arg, y->arg);
}

static bool same_all(const struct api_type *x, const struct api_type *y)
{
    for (; x && y; x = x->next, y = y->next) {
        if (!api_type_same(x, y)) return false;
    }
    return x == y;
}

bool api_type_narrows(const struct api_type *was, const struct api_type *is)
{
    if (was->kind != API_TYPE_UNION) return api_type_is(was, "Any");
    if (is->kind == API_TYPE_UNION) return covers(is, was);
    for (const struct api_type *k = was->arg; k; k = k->next) {
        if (api_type_same(is, k)) return true;
    }
    return false;
}

const struct api_type *api_type_arg(const struct api_type *t, int i)
{
    const struct api_type *arg = t ? t->arg : NULL;
    while (arg && i-- > 0) arg = arg->next;
    return arg;
}

bool api_type_optional(const struct api_type *t)
{
    if (!t) return false;
    if (t->kind == API_TYPE_NONE) return true;
    for (const struct api_type *m = t->kind == API_TYPE_UNION ? t->arg : NULL; m; m = m->next) {
        if (m->kind == API_TYPE_NONE) return true;
    }
    return false;
}
