/* judge_version.c: versions in the order of PEP 440 (epochs and local parts are not looked at), and
 * comparisons with the library's. Test: tests/test_judge_version.c */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 8 };

/* phase: dev -4, a -3, b -2, rc -1, final 0, post 1. */
struct version {
    long part[PARTS];
    int parts, phase;
    long number, dev; /* of the phase; dev: LONG_MAX without */
};

static const struct {
    const char *word;
    int phase;
} phases[] = {{"alpha", -3}, {"beta", -2}, {"preview", -1}, {"pre", -1}, {"rc", -1}, {"post", 1},
              {"dev", -4},   {"a", -3},    {"b", -2},       {"c", -1},   {"rev", 1}, {"r", 1}};

static bool parse_phase(struct version *v, const char **text)
{
    const char *p = *text;
    while (*p == '.' || *p == '-' || *p == '_') p++;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        if (!text_starts(p, phases[i].word)) continue;
        p += strlen(phases[i].word);
        while (*p == '.' || *p == '-' || *p == '_') p++;
        long n = *p >= '0' && *p <= '9' ? strtol(p, (char **)&p, 10) : 0;
        if (phases[i].phase == -4) v->dev = n;
        if (phases[i].phase == -4 && v->phase == 0) v->phase = -4;
        if (phases[i].phase != -4) {
            v->phase = phases[i].phase;
            v->number = n;
        }
        *text = p;
        return true;
    }
    return false;
}

static bool parse(const char *text, struct version *v)
{
    *v = (struct version){.dev = INT32_MAX};
    if (!text) return false;
    if (*text == 'v') text++;
    while (*text >= '0' && *text <= '9') {
        long n = strtol(text, (char **)&text, 10);
        if (v->parts < PARTS) v->part[v->parts++] = n;
        if (text[0] == '.' && text[1] >= '0' && text[1] <= '9')
            text++;
        else
            break;
    }
    if (v->parts == 0) return false;
    while (*text && *text != '+' && parse_phase(v, &text)) continue;
    return *text == 0 || *text == '+';
}

static int order_of(long a, long b)
{
    return (a > b) - (a < b);
}

bool judge_version_compare(const char *a, const char *b, int *order)
{
    struct version x, y;
    if (!parse(a, &x) || !parse(b, &y)) return false;
    int c = 0;
    for (int i = 0; i < PARTS && c == 0; i++) c = order_of(x.part[i], y.part[i]);
    if (c == 0) c = order_of(x.phase, y.phase);
    if (c == 0) c = order_of(x.number, y.number);
    *order = c ? c : order_of(x.dev, y.dev);
    return true;
}

int judge_version_part(const char *version, const char *name)
{
    static const char *const names[] = {"major", "minor", "micro"};
    struct version v;
    for (int i = 0; i < 3 && parse(version, &v); i++) {
        if (strcmp(name, names[i]) == 0) return (int)v.part[i];
    }
    return -1;
}

/* ---- guards ---- */

static int holds(const char *op, int order)
{
    if (strcmp(op, "==") == 0) return order == 0;
    if (strcmp(op, "!=") == 0) return order != 0;
    if (strcmp(op, "<") == 0) return order < 0;
    if (strcmp(op, "<=") == 0) return order <= 0;
    if (strcmp(op, ">") == 0) return order > 0;
    if (strcmp(op, ">=") == 0) return order >= 0;
    return -1;
}

/* A version as text; of a tuple of numbers too. */
static const char *text_of(struct frame *f, const struct value *v)
{
    if (v->kind == VALUE_VERSION || v->kind == VALUE_STR) return v->text;
    if (v->kind == VALUE_TUPLE_VERSION) return v->text;
    if (v->kind != VALUE_ITEMS || v->items == 0) return NULL;
    const char *text = "";
    for (int i = 0; i < v->items; i++) {
        if (v->item[i]->kind != VALUE_NUMBER) return NULL;
        text = judge_run_format(f->run, "%s%s%d", text, i ? "." : "", (int)v->item[i]->number);
    }
    return text;
}

static bool is_version(const struct value *v)
{
    return v->kind == VALUE_VERSION || v->kind == VALUE_TUPLE_VERSION;
}

/* No python before 3.9 runs any of this. */
static int python_truth(struct frame *f, const char *op, const struct value *b)
{
    int order;
    if (!judge_version_compare("3.9", text_of(f, b), &order) || order <= 0) return -1;
    return holds(op, 1);
}

int judge_version_truth(struct frame *f, const struct value *a, const char *op,
                        const struct value *b)
{
    int order;
    if (a->kind == VALUE_OUTSIDE && strcmp(a->text, "sys.version_info") == 0)
        return python_truth(f, op, b);
    if (!is_version(a) && !is_version(b)) return -1;
    if (!judge_version_compare(text_of(f, a), text_of(f, b), &order)) return -1;
    return holds(op, order);
}

const struct value *judge_version_parse(struct frame *f, const struct value *v)
{
    if (v->kind == VALUE_VERSION) return v;
    struct version parsed;
    if (v->kind == VALUE_STR && parse(v->text, &parsed))
        return judge_value_of_kind(f->run, VALUE_VERSION, v->text);
    return &value_unknown;
}

/* ---- helpers of the consumer: def is_version(target): return Version(lib) == Version(target) ----
 */

struct search {
    const char *param;
    const char *op; /* found */
    bool flipped;
};

static bool mentions_param(const struct expr *e, const void *ctx)
{
    return e->kind == EXPR_NAME && strcmp(e->text, ctx) == 0;
}

static bool in_expr(const struct expr *e, const char *param)
{
    struct stmt s = {.kind = STMT_EXPR, .value = (struct expr *)e};
    struct block b = {.stmt = &s, .stmts = 1};
    return judge_body_mentions(&b, mentions_param, param);
}

static bool compares(const struct expr *e, const void *ctx)
{
    struct search *s = (struct search *)ctx;
    if (e->kind != EXPR_COMPARE || e->items != 1) return false;
    bool left = in_expr(e->left, s->param), right = in_expr(e->item[0], s->param);
    if (left == right) return false;
    s->op = e->op[0];
    s->flipped = left;
    return true;
}

static bool mentions_version(const struct expr *e, const void *ctx)
{
    (void)ctx;
    return (e->kind == EXPR_ATTR || e->kind == EXPR_NAME) &&
           (strcmp(e->text, "__version__") == 0 || strcmp(e->text, "version") == 0);
}

static const char *flip(const char *op)
{
    static const char *const pairs[][2] = {{"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strcmp(op, pairs[i][0]) == 0) return pairs[i][1];
    }
    return op;
}

static const char *helper_op(const struct value *callee)
{
    const struct own_function *fn =
        callee->kind == VALUE_OWN_FUNCTION ? callee->own_function : NULL;
    if (!fn || !fn->stmt || fn->stmt->params == 0) return NULL;
    int at = fn->class_ && !fn->is_static ? 1 : 0;
    if (at >= fn->stmt->params) return NULL;
    struct search s = {.param = fn->stmt->param[at].name};
    if (!judge_body_mentions(&fn->stmt->body, mentions_version, NULL) ||
        !judge_body_mentions(&fn->stmt->body, compares, &s))
        return NULL;
    return s.flipped ? flip(s.op) : s.op;
}

int judge_version_helper(struct frame *f, const struct value *callee, const struct args *a)
{
    int order;
    if (a->count != 1 || a->names > 0 || a->pos[0]->kind != VALUE_STR) return -1;
    const char *op = helper_op(callee);
    if (!op || !judge_version_compare(f->run->api->library.version, a->pos[0]->text, &order))
        return -1;
    return holds(op, order);
}
