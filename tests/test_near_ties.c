/* test_near_ties.c: routers whose experts, or whole groups, are nearly equal: every choice of a
 * bf16 engine among them is a near tie, and none may be red; what is certified must be one that its
 * own distance, computed here in double, allows; a wrong choice must be red. */
#include "harness/campaign_case.h"
#include "harness/campaign_subject.h"
#include "harness/diff.h"
#include "tests/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { K25 = 0, DSV3 = 1, EXPERTS_MOST = 64 };

static void row_values(struct st_edit *e, const char *name, int64_t row, int64_t cols, float *out)
{
    const uint16_t *w = (const uint16_t *)(const void *)st_edit_data(e, name);
    for (int64_t c = 0; c < cols; c++) out[c] = bf16_to_f32(w[row * cols + c]);
}

/* Row r of every router is row r % period times 1 + delta (r / period), in float32, and has its
 * bias: with period 1 all experts are nearly equal, with that of a group all groups are. */
static void make_equal(const char *model, const struct config *c, int64_t period, double delta)
{
    struct st_edit e;
    const char *path = textf("%s/model.safetensors", model);
    float *row = malloc((size_t)c->hidden * sizeof *row);
    assert_non_null(row);
    st_edit_read(&e, path);
    for (int64_t layer = c->first_dense; layer < c->layers; layer++) {
        const char *name = textf("%smodel.layers.%d.mlp.gate.weight", c->prefix, (int)layer);
        const char *bias =
            textf("%smodel.layers.%d.mlp.gate.e_score_correction_bias", c->prefix, (int)layer);
        json_t *was = json_incref((json_t *)(uintptr_t)field(e.header, name));
        const char *old = textf("was.%d", (int)layer); /* extra tensors are nobody's business */
        json_object_set_new(e.header, old, was);
        st_edit_add(&e, name, DT_F32, c->experts, c->hidden);
        for (int64_t r = 0; r < c->experts; r++) {
            row_values(&e, old, r % period, c->hidden, row);
            float *to = (float *)(void *)st_edit_data(&e, name) + r * c->hidden;
            for (int64_t k = 0; k < c->hidden; k++)
                to[k] = (float)(row[k] * (1 + delta * (double)(r / period)));
            float *b = (float *)(void *)st_edit_data(&e, bias);
            b[r] = b[r % period];
        }
    }
    assert_int_equal(unlink(path), 0);
    st_edit_write(&e, path);
    st_edit_free(&e);
    free(row);
}

/* ---- the same in double, on its own ---- */

/* Keys of one row of a router from its logits (sigmoid, plus bias). */
static void keys_of(const struct dump *d, const struct model *m, int64_t layer, int64_t row,
                    double *key)
{
    const struct dump_tap *t = dump_find(d, textf("layers.%d.router_logits", (int)layer));
    const struct tensor *bias = &m->layers[layer].bias;
    float room[EXPERTS_MOST];
    double stored[EXPERTS_MOST];
    assert_non_null(t);
    dtype_to_f64(bias->dtype, tensor_elements(bias, 0, t->cols, room), t->cols, stored);
    dtype_to_f64(t->tensor->dtype,
                 (const char *)t->tensor->data + row * t->cols * dtype_size(t->tensor->dtype),
                 t->cols, key);
    for (int64_t e = 0; e < t->cols; e++) key[e] = 1 / (1 + exp(-key[e])) + stored[e];
}

static bool holds(const int32_t *ids, int64_t n, int64_t e)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] == e) return true;
    }
    return false;
}

static double two_best(const double *key, int64_t first, int64_t n)
{
    double best = -INFINITY, second = -INFINITY;
    for (int64_t e = first; e < first + n; e++) {
        if (key[e] > best) {
            second = best;
            best = key[e];
        } else if (key[e] > second) {
            second = key[e];
        }
    }
    return best + second;
}

/* How far each key must move for this set to be a choice that the keys allow, at least: the best
 * rejected over the worst chosen, among the groups that hold the set, and half the difference of
 * the group scores where a group without any of them has more. */
static double distance(const struct config *c, const double *key, const int32_t *ids)
{
    int64_t size = c->experts / c->groups;
    double worst = INFINITY, rejected = -INFINITY, least_group = INFINITY, best_left = -INFINITY;
    int64_t used = 0;
    for (int64_t g = 0; g < c->groups; g++) {
        bool in = false;
        for (int64_t e = g * size; e < (g + 1) * size; e++) in |= holds(ids, c->top_k, e);
        double score = two_best(key, g * size, size);
        used += in;
        if (in && score < least_group) least_group = score;
        if (!in && score > best_left) best_left = score;
        for (int64_t e = g * size; e < (g + 1) * size; e++) {
            bool chosen = holds(ids, c->top_k, e);
            if (chosen && key[e] < worst) worst = key[e];
            if (in && !chosen && key[e] > rejected) rejected = key[e];
        }
    }
    double by_expert = rejected > worst ? rejected - worst : 0;
    /* Groups that are kept may hold none of the set: only more groups than are kept say for sure.
     */
    double by_group =
        used == c->top_groups && best_left > least_group ? (best_left - least_group) / 2 : 0;
    return by_expert > by_group ? by_expert : by_group;
}

static double furthest(const double *a, const double *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* No certified flip needs more than what the profile and the subject are off, at most three times
 * the profile's largest error anywhere in that layer. */
static void check_certified(const struct diff *d)
{
    const struct model *m = &d->loaded.model;
    const struct config *c = m->config;
    for (int64_t i = 0; i < d->flips.count; i++) {
        const struct flip *f = &d->flips.list[i];
        double math[EXPERTS_MOST], profile[EXPERTS_MOST], most = 0;
        if (!f->certified) continue;
        for (int64_t row = 0; row < d->math.rows; row++) {
            keys_of(&d->math, m, f->layer, row, math);
            keys_of(&d->profile_run, m, f->layer, row, profile);
            most = fmax(most, furthest(math, profile, c->experts));
        }
        keys_of(&d->math, m, f->layer, f->row, math);
        double needed = distance(c, math, f->subject);
        if (!(needed <= 3 * most + 1e-6))
            fail_msg("layer %d row %d: certified, and needs %g of %g", (int)f->layer, (int)f->row,
                     needed, most);
    }
}

/* ---- runs ---- */

struct stress {
    struct campaign_case c;
    struct loaded loaded;
    char path[FILE_PATH];
};

static void open_stress(struct stress *s, void **state, int kind, int64_t period, double delta)
{
    struct err err = ERR_INIT;
    struct config c;
    const char *folder = textf("%s/%d-%d-%g", (const char *)*state, kind, (int)period, delta);
    (void)!campaign_case_make(&s->c, kind, 3, folder, &err);
    assert_ok(&err);
    (void)!config_read(textf("%s/config.json", folder), &c, &err);
    assert_ok(&err);
    make_equal(folder, &c, period == 0 ? c.experts / c.groups : period, delta);
    (void)!loaded_open(&s->loaded, folder, &err);
    assert_ok(&err);
    snprintf(s->path, sizeof s->path, "%s/subject.safetensors", folder);
}

static void close_stress(struct stress *s)
{
    loaded_close(&s->loaded);
    campaign_case_close(&s->c);
}

static void write_subject(struct stress *s, const char *profile, enum subject_order order)
{
    struct subject subject;
    struct err err = ERR_INIT;
    (void)!subject_run(&subject, &s->loaded, &s->c.tokens,
                       (struct subject_how){.profile = profile, .order = order, .threads = 1}, NULL,
                       &err);
    assert_ok(&err);
    (void)!subject_write(&subject, &s->c.tokens, profile, s->path, &err);
    assert_ok(&err);
    subject_free(&subject);
}

static enum err_code compare(struct stress *s, bool anchor, struct diff *d)
{
    struct err err = ERR_INIT;
    const struct diff_request r = {
        .subject = s->path, .model = s->c.model, .bound = NAN, .threads = 1, .anchor = anchor};
    enum err_code rc = diff_run(d, &r, &err);
    if (rc != ERR_DIFF) assert_ok(&err);
    return rc;
}

static void ties__are_certified__and_rightly(void **state)
{
    static const double deltas[] = {1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 0};
    static const struct {
        int kind;
        int64_t period; /* 0: a group's size */
    } rows[] = {{K25, 1}, {K25, 4}, {DSV3, 0}, {DSV3, 1}};
    static const char *const profiles[] = {"hf4", "vllm", "sgl"};
    int64_t flips = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int k = 0; k < 6; k++) {
            struct stress s;
            struct diff d;
            open_stress(&s, state, rows[i].kind, rows[i].period, deltas[k]);
            write_subject(&s, profiles[k % 3], k % 2 ? ORDER_F64 : ORDER_BLAS);
            for (int anchor = 0; anchor < 2; anchor++) {
                if (compare(&s, anchor, &d) != ERR_OK)
                    fail_msg("delta %g, kind %d, period %d: red at %s: %s", deltas[k], rows[i].kind,
                             (int)rows[i].period,
                             d.first >= 0 ? d.rows.pairs[d.first].subject->name : "nothing",
                             d.first >= 0 ? d.taps[d.first].why : "");
                assert_int_equal(d.flips.certified, d.flips.count);
                check_certified(&d);
                flips += d.flips.count;
                diff_close(&d);
            }
            close_stress(&s);
        }
    }
    assert_true(flips > 100); /* or nothing was put to the test */
}

/* One chosen expert replaced by one that is `far` below it: never certified. */
static void wrong_choice__among_ties__is_red(void **state)
{
    struct stress s;
    struct diff d;
    struct st_edit e;
    open_stress(&s, state, K25, 8, 1e-6);
    write_subject(&s, "hf4", ORDER_F64);
    assert_int_equal(compare(&s, true, &d), ERR_OK);
    const struct config *c = s.loaded.model.config;
    double key[EXPERTS_MOST];
    int worst = 0;
    keys_of(&d.math, &d.loaded.model, 3, 2, key);
    for (int i = 1; i < c->experts; i++) worst = key[i] < key[worst] ? i : worst;
    diff_close(&d);
    st_edit_read(&e, s.path);
    int32_t *ids = (int32_t *)(void *)st_edit_data(&e, "layers.3.experts") + 2 * c->top_k;
    bool low = false;
    for (int i = 0; i < c->top_k; i++) low |= ids[i] == worst;
    assert_false(low);
    ids[worst > ids[0] ? c->top_k - 1 : 0] = worst;
    st_edit_write(&e, s.path);
    st_edit_free(&e);
    assert_int_equal(compare(&s, true, &d), ERR_DIFF);
    assert_string_equal(d.rows.pairs[d.first].subject->name, "layers.3.experts");
    assert_true(d.flips.certified < d.flips.count);
    check_certified(&d);
    diff_close(&d);
    close_stress(&s);
}

/* What the two groups would give that were furthest from being kept: right in itself, and never
 * certified. */
static void wrong_groups__are_red(void **state)
{
    struct stress s;
    struct diff d;
    struct st_edit e;
    open_stress(&s, state, DSV3, 32, 1e-6); /* as many rows as experts: nothing is made equal */
    write_subject(&s, "hf4", ORDER_F64);
    assert_int_equal(compare(&s, true, &d), ERR_OK);
    const struct config *c = s.loaded.model.config;
    int64_t size = c->experts / c->groups, worst = 0, second = -1;
    double key[EXPERTS_MOST], score[EXPERTS_MOST];
    keys_of(&d.math, &d.loaded.model, 3, 2, key);
    for (int64_t g = 0; g < c->groups; g++) score[g] = two_best(key, g * size, size);
    for (int64_t g = 1; g < c->groups; g++) worst = score[g] < score[worst] ? g : worst;
    for (int64_t g = 0; g < c->groups; g++) {
        if (g != worst && (second < 0 || score[g] < score[second])) second = g;
    }
    diff_close(&d);
    st_edit_read(&e, s.path);
    int32_t *ids = (int32_t *)(void *)st_edit_data(&e, "layers.3.experts") + 2 * c->top_k;
    int64_t n = 0;
    for (int64_t x = 0; x < c->experts; x++) { /* the set that those two groups would give */
        int64_t better = 0;
        if (x / size != worst && x / size != second) continue;
        for (int64_t y = 0; y < c->experts; y++)
            better += (y / size == worst || y / size == second) && key[y] > key[x];
        if (better < c->top_k) ids[n++] = (int32_t)x;
    }
    assert_int_equal(n, c->top_k);
    st_edit_write(&e, s.path);
    st_edit_free(&e);
    assert_int_equal(compare(&s, true, &d), ERR_DIFF);
    assert_string_equal(d.rows.pairs[d.first].subject->name, "layers.3.experts");
    check_certified(&d);
    diff_close(&d);
    close_stress(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ties__are_certified__and_rightly, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_choice__among_ties__is_red, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_groups__are_red, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
