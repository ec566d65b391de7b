/* case_verify.c: cases of op eagle.verify: schema, data, draw. See case.h.
 *
 * A node's token is the target's best one where `agree` of 100 says so, else any; siblings differ.
 * Probabilities are the softmax of hash-random logits in double, some of them made 0. */
#include "core/eagle.h"
#include "harness/case_make.h"

#include <math.h>

static const char *const words_shape[] = {"chain", "tree", NULL};
static const char *const words_mode[] = {"greedy", "chosen", "drawn", NULL};
static const char *const words_verify_spoil[] = {"none", "parent", "token", "sibling", "nan",
                                                 "sum",  "coin",   "drawn", NULL};

/* clang-format off */
static const struct param_row verify_params[] = {
    INT_ROW("nodes", 0, 4096, "5", "of the tree, its root included"),
    INT_ROW("V", 0, 1 << 20, "11", "tokens"),
    WORD_ROW("shape", "chain", words_shape, "of the drafts"),
    WORD_ROW("mode", "greedy", words_mode, "greedy; sampling of chosen drafts, or of drawn ones"),
    INT_ROW("agree", 0, 100, "70", "drafts of a hundred that are the target's best token"),
    PARAM_GAIN("of the logits; large ones make sharp laws"),
    WORD_ROW("spoil", "none", words_verify_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

/* Rows of logits to laws; every fifth entry but the row's best becomes 0. */
static void make_laws(double *x, int64_t rows, int64_t V)
{
    for (int64_t r = 0; r < rows; r++) {
        double *p = x + r * V, best = -INFINITY, sum = 0;
        for (int64_t i = 0; i < V; i++) best = p[i] > best ? p[i] : best;
        for (int64_t i = 0; i < V; i++) {
            bool zero = (i + r) % 5 == 4 && p[i] < best;
            p[i] = zero ? 0 : exp(p[i] - best);
            sum += p[i];
        }
        for (int64_t i = 0; i < V; i++) p[i] /= sum;
    }
}

static bool taken(const int32_t *parent, const int64_t *token, int64_t node, int64_t id)
{
    for (int64_t j = 1; j < node; j++) {
        if (parent[j] == parent[node] && token[j] == id) return true;
    }
    return false;
}

static int64_t siblings(const int32_t *parent, int64_t node, int32_t of)
{
    int64_t n = 0;
    for (int64_t j = 1; j < node; j++) n += parent[j] == of;
    return n;
}

/* `law`: what the parents' rows of the tokens' choice are; tokens must have weight in it. */
static void make_drafts(const struct make *m, const struct eagle_verify *op, const double *law,
                        int32_t *parent, int64_t *token)
{
    uint64_t base = synth_base(m->seed, "drafts");
    bool tree = case_word_is(m->c, "shape", "tree");
    parent[0] = -1;
    token[0] = 0;
    for (int64_t i = 1; i < op->nodes; i++) {
        uint64_t u = synth_x(base, 2 * i), v = synth_x(base, 2 * i + 1);
        parent[i] = (int32_t)(tree ? (int64_t)(u % (uint64_t)i) : i - 1);
        if (siblings(parent, i, parent[i]) >= op->V) parent[i] = (int32_t)(i - 1);
        const double *row = op->target + parent[i] * op->V;
        int64_t id = (int64_t)(v % (uint64_t)op->V);
        if ((int64_t)(u >> 40) % 100 < case_get_int(m->c, "agree")) {
            for (int64_t k = id = 0; k < op->V; k++) id = row[k] > row[id] ? k : id;
        }
        while (taken(parent, token, i, id) || (law && !(law[i * op->V + id] > 0)))
            id = (id + 1) % op->V;
        token[i] = id;
    }
}

static void spoil(const struct op_case *c, struct eagle_verify *op, int32_t *parent, int64_t *token,
                  double *target, double *coin)
{
    int64_t last = op->nodes - 1;
    if (case_word_is(c, "spoil", "parent")) parent[last] = (int32_t)last;
    if (case_word_is(c, "spoil", "token")) token[last] = op->V;
    if (case_word_is(c, "spoil", "sibling")) {
        parent[last] = parent[last - 1];
        token[last] = token[last - 1];
    }
    if (case_word_is(c, "spoil", "nan")) target[last * op->V] = NAN;
    if (case_word_is(c, "spoil", "sum")) target[last * op->V] += 0.5;
    if (case_word_is(c, "spoil", "coin")) coin[last] = 1;
}

static enum err_code verify_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                 struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t n = case_get_int(c, "nodes"), V = case_get_int(c, "V");
    double scale = 3 * case_get_real(c, "gain");
    bool drawn = case_word_is(c, "mode", "drawn"), greedy = case_word_is(c, "mode", "greedy");
    if (!case_word_is(c, "spoil", "none") && n < 3)
        return err_set(err, ERR_USAGE, "case|nodes|%lld, with spoil|3 or more", (long long)n);
    struct eagle_verify *op = make_zeroed(&m, 1, sizeof *op, "case");
    int32_t *parent = make_zeroed(&m, n + 1, sizeof *parent, "tree");
    int64_t *token = make_zeroed(&m, n + 1, sizeof *token, "tree");
    double *target = make_values(&m, "target", n * V, scale), *coin = make_values(&m, "coin", n, 1);
    double *draft = make_values(&m, "draft", n * V, scale), *draw = make_values(&m, "draw", n, 1);
    int32_t *path = make_output_of(&m, out, "path", DT_I32, 1, n);
    int64_t *accepted = make_output_of(&m, out, "accepted", DT_I64, 1, 1);
    int64_t *next = make_output_of(&m, out, "next", DT_I64, 1, 1);
    if (!op || !parent || !token || !target || !coin || !draft || !draw || !path || !accepted ||
        !next)
        return err->code;
    for (int64_t i = 0; i < n; i++) {
        coin[i] = (coin[i] + 1) / 2;
        draw[i] = (draw[i] + 1) / 2;
        if (coin[i] >= 1) coin[i] = 0;
        if (draw[i] >= 1) draw[i] = 0;
    }
    if (!greedy) make_laws(target, n, V);
    make_laws(draft, n, V);
    *op = (struct eagle_verify){.nodes = n,
                                .V = V,
                                .parent = parent,
                                .token = token,
                                .target = target,
                                .draft = drawn ? draft : NULL,
                                .greedy = greedy,
                                .coin = greedy ? NULL : coin,
                                .draw = greedy ? NULL : draw,
                                .path = path,
                                .accepted = accepted,
                                .next = next};
    if (n > 0 && V > 0) make_drafts(&m, op, op->draft, parent, token);
    if (case_word_is(c, "spoil", "drawn")) draft[(n - 1) * V + token[n - 1]] = 0;
    spoil(c, op, parent, token, target, coin);
    out->op = op;
    return ERR_OK;
}

static void verify_draw(struct op_case *c, struct draw *d)
{
    case_set_int(c, "nodes", draw_size(d, 65));
    case_set_int(c, "V", draw_size(d, 129));
    case_set(c, "mode", draw_word(d, words_mode));
    if (!case_word_is(c, "mode", "drawn")) case_set(c, "shape", draw_word(d, words_shape));
    case_set_int(c, "agree", draw_one_in(d, 3) ? 100 : draw_int(d, 0, 100));
    draw_real(c, d, "gain", -1, 0);
}

const struct case_op case_ops_verify[] = {
    {"eagle.verify", verify_params, verify_make, verify_draw},
    {0},
};
