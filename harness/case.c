/* case.c: parsing and printing of case lines; see case.h. The schemas are in case_simple.c,
 * case_mla.c, case_moe.c, case_eagle.c, case_verify.c; the buffers in case_make.c, the draws in
 * case_draw.c. */
#include "harness/case.h"

#include "core/check.h"
#include "core/fault.h"
#include "core/text.h"
#include "harness/case_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words_precision[] = {"f32", "f64", NULL};
static const char *const words_act[] = {"bf16", "f16", NULL};
static const char *const words_x[] = {"bf16", "f32", NULL};
static const char *const words_linear[] = {"own", "blas", NULL};
static const char *const words_bound[] = {"derived", "measured", NULL};

/* Common to all ops. The seed stays below 2^53: JSON readers keep it. */
/* clang-format off */
static const struct param_row common[] = {
    INT_ROW("seed", 0, 9007199254740991.0, "7", "of all hash-random data"),
    WORD_ROW("x", "bf16", words_x, "type that the inputs are exact in"),
    WORD_ROW("precision", "f32", words_precision, "of the reference"),
    {"profile", PARAM_PROFILE, 0, 0, "math", NULL, "where it rounds to act", false},
    WORD_ROW("act", "bf16", words_act, "the engine's activation type"),
    WORD_ROW("linear", "own", words_linear, "matrix products of the reference"),
    INT_ROW("threads", 1, 64, "1", "never changes a bit"),
    {"fault", PARAM_FAULT, 0, 0, "none", NULL, "ID@KEY=V:KEY=V, in every side but the first", true},
    {"bound", PARAM_WORD, 0, 0, "derived", words_bound,
     "element by element; or, for large cases, twice the truth's own error in that profile", true},
    PARAM_END,
};
/* clang-format on */

static const struct case_op *const groups[] = {case_ops_simple, case_ops_mla, case_ops_moe,
                                               case_ops_eagle, case_ops_verify};

const struct case_op *case_op_at(int i)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct case_op *op = groups[g]; op->name; op++) {
            if (i-- == 0) return op;
        }
    }
    return NULL;
}

const struct case_op *case_op_find(const char *name)
{
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        if (strcmp(op->name, name) == 0) return op;
    }
    return NULL;
}

const struct param_row *case_param(const struct case_op *op, int i)
{
    CHECK(i >= 0);
    int own = 0;
    while (op->params[own].key) own++;
    CHECK(own + (int)(sizeof common / sizeof common[0]) - 1 <= CASE_PARAMS);
    const struct param_row *row = i < own ? &op->params[i] : &common[i - own];
    return row->key ? row : NULL;
}

/* Index of a key, or -1. */
static int param_find(const struct case_op *op, const char *key)
{
    const struct param_row *row;
    for (int i = 0; (row = case_param(op, i)); i++) {
        if (strcmp(row->key, key) == 0) return i;
    }
    return -1;
}

static void words_join(const char *const *words, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = '\0';
    for (int i = 0; words[i] && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? (words[i + 1] ? ", " : " or ") : "",
                              words[i]);
}

void param_wants(const struct param_row *row, char *buf, size_t size)
{
    switch (row->kind) {
    case PARAM_INT:
        snprintf(buf, size, "a whole number from %.0f to %.0f", row->min, row->max);
        break;
    case PARAM_REAL:
        snprintf(buf, size, "a number from %g to %g", row->min, row->max);
        break;
    case PARAM_LIST:
        snprintf(buf, size,
                 "up to %d whole numbers from %.0f to %.0f joined by ':', V*N for N of them",
                 CASE_LIST, row->min, row->max);
        break;
    case PARAM_PROFILE:
        snprintf(buf, size, "a profile");
        break;
    case PARAM_FAULT:
        snprintf(buf, size, "a fault of `assay fault list` that the op hosts");
        break;
    case PARAM_WORD:
        words_join(row->words, buf, size);
        break;
    }
}

/* One item of a list: V, or V*N. */
static bool list_item(const struct param_row *row, const char *item, struct case_value *v)
{
    char first[32];
    size_t n = strcspn(item, "*");
    int64_t x, times = 1;
    memcpy(first, item, n);
    first[n] = '\0';
    if (!text_int(first, &x) || (double)x < row->min || (double)x > row->max) return false;
    if (item[n] && (!text_int(item + n + 1, &times) || times < 1)) return false;
    if (times > CASE_LIST - v->items) return false;
    while (times-- > 0) v->list[v->items++] = x;
    return true;
}

static bool list_parse(const struct param_row *row, const char *text, struct case_value *v)
{
    char item[32];
    for (v->items = 0;; text++) {
        size_t n = strcspn(text, ":");
        if (n >= sizeof item) return false;
        memcpy(item, text, n);
        item[n] = '\0';
        if (!list_item(row, item, v)) return false;
        text += n;
        if (!*text) return true;
    }
}

/* The text of a list: runs of three and more as V*N. */
static void list_print(const struct case_value *v, char *text, size_t size)
{
    size_t used = 0;
    for (int i = 0, run; i < v->items; i += run) {
        for (run = 1; i + run < v->items && v->list[i + run] == v->list[i];) run++;
        if (run == 2) run = 1;
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ":" : "",
                                 (long long)v->list[i]);
        CHECK(used < size);
        if (run > 2) used += (size_t)snprintf(text + used, size - used, "*%d", run);
        CHECK(used < size);
    }
}

static bool value_parse(const struct param_row *row, const char *text, struct case_value *v)
{
    *v = (struct case_value){0};
    struct profile p;
    struct faults f = {0};
    struct err ignored = ERR_INIT;
    switch (row->kind) {
    case PARAM_INT:
        return text_int(text, &v->whole) && (double)v->whole >= row->min &&
               (double)v->whole <= row->max;
    case PARAM_REAL:
        return text_double(text, &v->real) && v->real >= row->min && v->real <= row->max;
    case PARAM_LIST:
        return list_parse(row, text, v);
    case PARAM_PROFILE:
        if (strlen(text) >= sizeof v->word || profile_find(text, &p, &ignored) != ERR_OK)
            return false;
        snprintf(v->word, sizeof v->word, "%s", text);
        return true;
    case PARAM_FAULT:
        if (strlen(text) >= sizeof v->word ||
            (strcmp(text, "none") != 0 && faults_add(&f, text, &ignored) != ERR_OK))
            return false;
        snprintf(v->word, sizeof v->word, "%s", text);
        return true;
    case PARAM_WORD:
        for (int i = 0; row->words[i]; i++) {
            if (strcmp(row->words[i], text) != 0) continue;
            v->whole = i;
            snprintf(v->word, sizeof v->word, "%s", text);
            return true;
        }
        return false;
    }
    return false;
}

void case_defaults(struct op_case *out, const struct case_op *op)
{
    const struct param_row *row;
    *out = (struct op_case){.op = op};
    for (int i = 0; (row = case_param(op, i)); i++) {
        bool ok = value_parse(row, row->dflt, &out->value[i]);
        CHECK(ok);
    }
}

static enum err_code unknown_key(const struct case_op *op, const char *key, struct err *err)
{
    char known[ERR_PART] = "";
    const struct param_row *row;
    size_t n = 0;
    for (int i = 0; (row = case_param(op, i)) && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? " " : "", row->key);
    return err_set(err, ERR_USAGE, "case line|op %s|unknown key \"%s\"|one of: %s", op->name, key,
                   known);
}

/* A fault says itself what is wrong with its text. */
static enum err_code fault_take(struct op_case *out, int i, const char *text, struct err *err)
{
    struct faults f = {0};
    if (strcmp(text, "none") != 0) {
        if (faults_add(&f, text, err) != ERR_OK) return err->code;
        if (!fault_hosted_by(f.use[0].row, out->op->name))
            return err_set(err, ERR_USAGE, "case line|fault %s|op %s|an op that hosts it",
                           f.use[0].row->id, out->op->name);
    }
    if (value_parse(case_param(out->op, i), text, &out->value[i])) return ERR_OK;
    return err_set(err, ERR_USAGE, "case line|fault|%zu characters|fewer than %d", strlen(text),
                   CASE_WORD);
}

/* One "key=value"; `seen` marks the keys given so far. */
static enum err_code pair_parse(struct op_case *out, const char *pair, bool *seen, struct err *err)
{
    char key[32];
    const char *name = out->op->name;
    size_t n = strcspn(pair, "=");
    if (pair[n] != '=' || n == 0 || n >= sizeof key)
        return err_set(err, ERR_USAGE, "case line|op %s|\"%.60s\"|key=value", name, pair);
    memcpy(key, pair, n);
    key[n] = '\0';
    int i = param_find(out->op, key);
    if (i < 0) return unknown_key(out->op, key, err);
    if (seen[i])
        return err_set(err, ERR_USAGE, "case line|op %s|key \"%s\" twice|each key once", name, key);
    seen[i] = true;
    const struct param_row *row = case_param(out->op, i);
    if (row->kind == PARAM_FAULT) return fault_take(out, i, pair + n + 1, err);
    if (value_parse(row, pair + n + 1, &out->value[i])) return ERR_OK;
    char wants[ERR_PART];
    param_wants(row, wants, sizeof wants);
    return err_set(err, ERR_USAGE, "case line|op %s: %s (%s)|\"%.60s\"|%s", name, key, row->help,
                   pair + n + 1, wants);
}

enum err_code case_parse(struct op_case *out, const char *line, struct err *err)
{
    char text[CASE_INPUT];
    bool seen[CASE_PARAMS] = {false};
    if (strlen(line) >= sizeof text)
        return err_set(err, ERR_USAGE, "case line||%zu characters|fewer than %d", strlen(line),
                       CASE_INPUT);
    snprintf(text, sizeof text, "%s", line);
    char *at = text + strcspn(text, " ");
    if (*at) *at++ = '\0';
    const struct case_op *op = case_op_find(text);
    if (!op) {
        char known[ERR_PART] = "";
        size_t n = 0;
        for (int i = 0; case_op_at(i) && n < sizeof known; i++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? " " : "",
                                  case_op_at(i)->name);
        return err_set(err, ERR_USAGE, "case line|op name|\"%.60s\"|one of: %s", text, known);
    }
    case_defaults(out, op);
    while (*at) {
        size_t n = strcspn(at, ",");
        bool more = at[n] == ',';
        at[n] = '\0';
        if (pair_parse(out, at, seen, err) != ERR_OK) return err->code;
        at += n + more;
        if (more && !*at)
            return err_set(err, ERR_USAGE,
                           "case line|op %s|a comma at the end|key=value after each comma",
                           op->name);
    }
    char printed[CASE_LINE];
    size_t length = strlen(case_print(out, printed));
    if (length >= CASE_INPUT)
        return err_set(err, ERR_USAGE,
                       "case line|op %s|%zu characters with every parameter|fewer than %d",
                       op->name, length, CASE_INPUT);
    return ERR_OK;
}

/* The shortest text that reads back as the same double. */
static int real_print(double v, char *buf, size_t size)
{
    int n = 0;
    for (int digits = 1; digits <= 17; digits++) {
        n = snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    return n;
}

const char *case_print(const struct op_case *c, char *buf)
{
    const struct param_row *row;
    size_t n = (size_t)snprintf(buf, CASE_LINE, "%s", c->op->name);
    for (int i = 0; (row = case_param(c->op, i)); i++) {
        const struct case_value *v = &c->value[i];
        char text[CASE_LINE] = "";
        if (row->quiet && strcmp(v->word, row->dflt) == 0) continue;
        switch (row->kind) {
        case PARAM_INT:
            snprintf(text, sizeof text, "%lld", (long long)v->whole);
            break;
        case PARAM_REAL:
            real_print(v->real, text, sizeof text);
            break;
        case PARAM_LIST:
            list_print(v, text, sizeof text);
            break;
        default:
            snprintf(text, sizeof text, "%s", v->word);
        }
        n += (size_t)snprintf(buf + n, CASE_LINE - n, "%c%s=%s", i ? ',' : ' ', row->key, text);
        CHECK(n < CASE_LINE);
    }
    return buf;
}

const char *case_fault(const struct op_case *c)
{
    const char *text = case_word(c, "fault");
    return strcmp(text, "none") == 0 ? NULL : text;
}

static const struct case_value *value_of(const struct op_case *c, const char *key,
                                         enum param_kind kind)
{
    int i = param_find(c->op, key);
    CHECK(i >= 0);
    enum param_kind found = case_param(c->op, i)->kind;
    bool text = found == PARAM_PROFILE || found == PARAM_FAULT;
    CHECK(found == kind || (kind == PARAM_WORD && text));
    return &c->value[i];
}

int64_t case_get_int(const struct op_case *c, const char *key)
{
    return value_of(c, key, PARAM_INT)->whole;
}

double case_get_real(const struct op_case *c, const char *key)
{
    return value_of(c, key, PARAM_REAL)->real;
}

const char *case_word(const struct op_case *c, const char *key)
{
    return value_of(c, key, PARAM_WORD)->word;
}

bool case_word_is(const struct op_case *c, const char *key, const char *word)
{
    return strcmp(case_word(c, key), word) == 0;
}

const int64_t *case_list(const struct op_case *c, const char *key, int *items)
{
    const struct case_value *v = value_of(c, key, PARAM_LIST);
    *items = v->items;
    return v->list;
}

bool case_has_key(const struct op_case *c, const char *key)
{
    return param_find(c->op, key) >= 0;
}

void case_set(struct op_case *c, const char *key, const char *text)
{
    int i = param_find(c->op, key);
    CHECK(i >= 0);
    bool ok = value_parse(case_param(c->op, i), text, &c->value[i]);
    CHECK(ok);
}

void case_set_int(struct op_case *c, const char *key, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    case_set(c, key, text);
}

void case_fit_device(struct op_case *c)
{
    case_set(c, "x", "bf16");
    case_set(c, "act", "bf16");
    case_set(c, "profile", "gpu");
}

enum err_code case_make(const struct op_case *c, struct arena *a, struct case_data *out,
                        struct err *err)
{
    *out = (struct case_data){0};
    return c->op->make(c, a, out, err);
}

enum err_code case_run(const struct op_case *c, struct arena *a, struct run *run, struct err *err)
{
    *run = (struct run){
        .arena = a,
        .precision = case_word_is(c, "precision", "f64") ? PRECISION_F64 : PRECISION_F32,
        .linear = case_word_is(c, "linear", "blas") ? LINEAR_BLAS : LINEAR_OWN,
        .act = case_word_is(c, "act", "f16") ? DT_F16 : DT_BF16,
        .threads = (int)case_get_int(c, "threads"),
    };
    return profile_find(case_word(c, "profile"), &run->profile, err);
}
