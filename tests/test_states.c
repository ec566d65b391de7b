/* test_states.c: states are the taps of the same name in every bit, in any batch and chunking;
 * what is not asked for is not run; layer ids are read in the numbering that is named. */
#include "harness/states.h"
#include "tests/cli.h"
#include "tests/golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- layer ids ---- */

static void ids__are_entry_ids__in_either_numbering(void **state)
{
    (void)state;
    static const struct {
        const char *list, *numbering;
        int count;
        int64_t id[4];
    } rows[] = {
        {"2,30,58,61", "entry", 4, {2, 30, 58, 61}},
        {"2,30,58,60", "output", 4, {3, 31, 59, 61}},
        {"0", "entry", 1, {0}},
        {"0", "output", 1, {1}},
        {"61", "entry", 1, {61}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct states s = {0};
        struct err err = ERR_INIT;
        (void)!states_ids(&s, rows[i].list, rows[i].numbering, 61, &err);
        assert_ok(&err);
        assert_int_equal(s.count, rows[i].count);
        for (int k = 0; k < s.count; k++) assert_int_equal(s.id[k], rows[i].id[k]);
    }
}

static void ids__are_refused__when_twice_unsorted_or_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *list, *numbering, *where, *found, *wanted;
    } rows[] = {
        {"2,2", "entry", "--layers", "2 twice", "each id once"},
        {"2,5,2", "entry", "--layers", "2 twice", "each id once"},
        {"5,2", "output", "--layers", "2 after a larger one", "ascending"},
        {"62", "entry", "--layers", "62", "0 to 61 in entry numbering: the model has 61 layers"},
        {"61", "output", "--layers", "61", "0 to 60 in output numbering: the model has 61 layers"},
        {"-1", "entry", "--layers", "-1", "0 to 61"},
        {"", "entry", "--layers", "\"\"", "layer ids such as"},
        {"1,", "entry", "--layers", "\"1,\"", "layer ids such as"},
        {"1,,2", "entry", "--layers", "\"1,,2\"", "layer ids such as"},
        {"1 ,2", "entry", "--layers", "\"1 \"", "layer ids such as"},
        {"x", "entry", "--layers", "\"x\"", "layer ids such as"},
        {"1", "input", "--numbering", "\"input\"", "entry or output"},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "entry", "--layers", "more than 16", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct states s = {0};
        struct err err = ERR_INIT;
        assert_int_equal(states_ids(&s, rows[i].list, rows[i].numbering, 61, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "option", rows[i].where, rows[i].found, rows[i].wanted);
    }
}

/* ---- the sink ---- */

struct heard {
    char names[256];
    int replaced;
};

static bool hears(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "embed") == 0 || strcmp(name, "layers.0.experts") == 0;
}

static enum err_code hear_reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                                const double *data, struct err *err)
{
    struct heard *h = ctx;
    size_t n = strlen(h->names);
    snprintf(h->names + n, sizeof h->names - n, "%s %lld %g;", name,
             (long long)(rows->count * cols), data[0]);
    return err->code;
}

static enum err_code hear_ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                               const int32_t *data, struct err *err)
{
    const double first = data[0];
    return hear_reals(ctx, name, rows, cols, &first, err);
}

static enum err_code hear_replace(void *ctx, const char *name, const struct rows *rows,
                                  int64_t cols, double *data, struct err *err)
{
    (void)name, (void)rows, (void)cols, (void)data;
    ((struct heard *)ctx)->replaced++;
    return err->code;
}

static void sink__keeps_its_rows__and_passes_on_what_the_next_one_wants(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct heard heard = {.names = ""};
    struct tap_sink next = {.wants = hears,
                            .reals = hear_reals,
                            .ints = hear_ints,
                            .replace = hear_replace,
                            .ctx = &heard};
    double data[3 * 2] = {0}, embed[4] = {1, 2, 3, 4};
    struct states s = {.id = {0}, .count = 1, .rows = 3, .hidden = 2, .data = data};
    struct states_capture keep;
    struct tap_sink *sink = states_sink(&keep, &s, &next);
    const int64_t dump_row[] = {2, 0};
    const struct rows rows = {.count = 2, .dump_row = dump_row};
    const int32_t ids[] = {7, 8};
    assert_true(sink->wants(sink->ctx, "embed"));
    assert_true(sink->wants(sink->ctx, "layers.0.experts"));
    assert_false(sink->wants(sink->ctx, "layers.0.output"));
    assert_false(sink->wants(sink->ctx, "final_norm"));
    assert_int_equal(sink->reals(sink->ctx, "embed", &rows, 2, embed, &err), ERR_OK);
    assert_int_equal(sink->ints(sink->ctx, "layers.0.experts", &rows, 1, ids, &err), ERR_OK);
    assert_int_equal(sink->replace(sink->ctx, "embed", &rows, 2, embed, &err), ERR_OK);
    static const double want[] = {3, 4, 0, 0, 1, 2};
    assert_memory_equal(data, want, sizeof want);
    assert_string_equal(heard.names, "embed 4 1;layers.0.experts 2 7;");
    assert_int_equal(heard.replaced, 1);
    assert_null(states_sink(&keep, &s, NULL)->replace);
}

static void sink__names_the_first_entry__that_is_not_finite(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    double data[2], clean[] = {1, 2}, dirty[] = {INFINITY, 2}, both[] = {INFINITY, NAN};
    int32_t bad[2] = {5, 5};
    struct states s = {.id = {3}, .count = 1, .rows = 2, .hidden = 1, .data = data, .bad = bad};
    struct states_capture keep;
    struct tap_sink *sink = states_sink(&keep, &s, NULL);
    const int64_t dump_row[] = {0, 1};
    const struct rows rows = {.count = 2, .dump_row = dump_row};
    const struct {
        const char *name;
        const double *data;
        bool wanted;
        int32_t bad[2];
    } steps[] = {
        {"embed", clean, true, {-1, -1}},         {"layers.0.output", dirty, true, {1, -1}},
        {"layers.1.output", both, true, {1, 2}},  {"layers.2.output", both, true, {1, 2}},
        {"layers.3.output", both, false, {1, 2}},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(sink->wants(sink->ctx, steps[i].name), steps[i].wanted);
        if (!steps[i].wanted) continue;
        assert_int_equal(sink->reals(sink->ctx, steps[i].name, &rows, 1, steps[i].data, &err),
                         ERR_OK);
        assert_memory_equal(bad, steps[i].bad, sizeof bad);
    }
    assert_true(isinf(data[0]) && isnan(data[1]));
}

/* ---- the reference behind the interface ---- */

static void make_room(struct states *s, const struct states_engine *e, int64_t rows, bool normed)
{
    s->rows = rows;
    s->hidden = e->hidden;
    s->data = calloc((size_t)(rows * s->count * e->hidden), sizeof *s->data);
    s->normed = normed ? calloc((size_t)(rows * e->hidden), sizeof *s->normed) : NULL;
    s->bad = calloc((size_t)rows, sizeof *s->bad);
    assert_non_null(s->data);
    assert_non_null(s->bad);
}

static void drop(struct states *s)
{
    free(s->data);
    free(s->normed);
    free(s->bad);
}

static void same_tap(const struct dump *d, const char *name, const double *x, int64_t stride)
{
    const struct dump_tap *t = dump_find(d, name);
    assert_non_null(t);
    for (int64_t r = 0; r < t->rows; r++)
        assert_memory_equal(x + r * stride, (const double *)t->tensor->data + r * t->cols,
                            (size_t)t->cols * sizeof *x);
}

static void engine__gives_the_taps__in_every_bit(void **state)
{
    (void)state;
    struct golden g;
    struct dump taps;
    struct states_engine e;
    struct err err = ERR_INIT;
    struct states s = {.id = {0, 3, 6}, .count = 3};
    const struct session_options o = session_defaults();
    golden_open(&g, "tiny-k25");
    golden_run(&g, NULL, &o, NULL, &taps);
    (void)!states_engine_open(&e, "ref", g.model, &o, &err);
    assert_ok(&err);
    assert_int_equal(e.act, DT_BF16);
    assert_int_equal(e.layers, 6);
    make_room(&s, &e, g.tokens.count, true);
    (void)!e.run(e.ctx, &g.tokens, &s, &err);
    assert_ok(&err);
    same_tap(&taps, "embed", s.data, 3 * s.hidden);
    same_tap(&taps, "layers.2.output", s.data + s.hidden, 3 * s.hidden);
    same_tap(&taps, "layers.5.output", s.data + 2 * s.hidden, 3 * s.hidden);
    same_tap(&taps, "final_norm", s.normed, s.hidden);
    for (int64_t r = 0; r < s.rows; r++) assert_int_equal(s.bad[r], -1);
    assert_int_equal(states_engine_loaded(&e)->model.config->layers, 6);
    drop(&s);
    states_engine_close(&e);
    assert_null(states_engine_loaded(&e));
    dump_close(&taps);
    golden_close(&g);
}

static void count_shares(void *ctx, double share)
{
    double *last = ctx;
    assert_true(share >= *last && share < 1);
    *last = share;
}

static void engine__gives_each_row_its_bits__in_any_batch_and_chunking(void **state)
{
    (void)state;
    struct golden g;
    struct err err = ERR_INIT;
    static const int64_t chunks[] = {0, 1, 5, 16};
    int64_t lengths[] = {5, 1, 17, 9}, rows = 32;
    struct states one = {.id = {1, 3}, .count = 2}, all = one;
    golden_open(&g, "tiny-dsv3");
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct states_engine e;
        struct session_options o = session_defaults();
        double last = 0;
        o.chunk = chunks[i];
        (void)!states_engine_open(&e, "ref", g.model, &o, &err);
        assert_ok(&err);
        if (i == 0) {
            make_room(&one, &e, rows, false);
            make_room(&all, &e, rows, false);
        }
        int64_t begin = 0;
        for (int q = 0; i == 0 && q < 4; begin += lengths[q++]) {
            struct states part = one;
            struct tokens t = {g.tokens.id + begin, lengths[q], &lengths[q], 1};
            part.data += begin * 2 * e.hidden;
            part.bad += begin;
            part.rows = lengths[q];
            (void)!e.run(e.ctx, &t, &part, &err);
            assert_ok(&err);
        }
        const struct tokens batch = {g.tokens.id, rows, lengths, 4};
        all.progress = count_shares;
        all.progress_ctx = &last;
        (void)!e.run(e.ctx, &batch, &all, &err);
        assert_ok(&err);
        assert_true(last > 0.5);
        assert_memory_equal(all.data, one.data, (size_t)(rows * 2 * e.hidden) * sizeof *all.data);
        memset(all.data, 0, (size_t)(rows * 2 * e.hidden) * sizeof *all.data);
        states_engine_close(&e);
    }
    drop(&one);
    drop(&all);
    golden_close(&g);
}

/* A NaN in a weight stops the run only where that weight is used. */
static void engine__does_not_run__what_is_not_asked_for(void **state)
{
    static const uint16_t nan = 0x7FC0;
    static const struct {
        const char *tensor;
        int64_t last;
        enum err_code code;
    } rows[] = {
        {SMALL_LAYER(2) "input_layernorm.weight", 2, ERR_OK},
        {SMALL_LAYER(2) "input_layernorm.weight", 3, ERR_INPUT},
        {"language_model.model.norm.weight", 3, ERR_OK},
        {"language_model.lm_head.weight", 3, ERR_OK},
    };
    const char *model = small_model(state, "m");
    const char *path = textf("%s/model.safetensors", model);
    int64_t ids[] = {1, 2}, length = 2;
    const struct tokens t = {ids, 2, &length, 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct st_edit edit;
        struct states_engine e;
        struct err err = ERR_INIT;
        struct states s = {.id = {rows[i].last}, .count = 1};
        const struct session_options o = session_defaults();
        st_edit_read(&edit, path);
        uint16_t was;
        memcpy(&was, st_edit_data(&edit, rows[i].tensor), sizeof was);
        memcpy(st_edit_data(&edit, rows[i].tensor), &nan, sizeof nan);
        st_edit_write(&edit, path);
        (void)!states_engine_open(&e, "ref", model, &o, &err);
        assert_ok(&err);
        make_room(&s, &e, 2, false);
        assert_int_equal(e.run(e.ctx, &t, &s, &err), rows[i].code);
        if (rows[i].code != ERR_OK)
            assert_err(&err, ERR_INPUT, "read tensor", "input_layernorm", "NaN", "finite");
        drop(&s);
        states_engine_close(&e);
        memcpy(st_edit_data(&edit, rows[i].tensor), &was, sizeof was);
        st_edit_write(&edit, path);
        st_edit_free(&edit);
    }
}

static void engine__is_refused__when_there_is_no_device_or_no_model(void **state)
{
    (void)state;
    struct states_engine e;
    struct err err = ERR_INIT;
    const struct session_options o = session_defaults();
    assert_int_equal(states_engine_open(&e, "gpu", "nowhere", &o, &err), ERR_DEVICE);
    assert_err(&err, ERR_DEVICE, "run", "--on gpu", NULL, "a CUDA device");
    states_engine_close(&e);
    err_clear(&err);
    assert_int_equal(states_engine_open(&e, "ref", "nowhere", &o, &err), ERR_INPUT);
    states_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids__are_entry_ids__in_either_numbering),
        cmocka_unit_test(ids__are_refused__when_twice_unsorted_or_out_of_range),
        cmocka_unit_test(sink__keeps_its_rows__and_passes_on_what_the_next_one_wants),
        cmocka_unit_test(sink__names_the_first_entry__that_is_not_finite),
        cmocka_unit_test(engine__gives_the_taps__in_every_bit),
        cmocka_unit_test(engine__gives_each_row_its_bits__in_any_batch_and_chunking),
        cmocka_unit_test_setup_teardown(engine__does_not_run__what_is_not_asked_for, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(engine__is_refused__when_there_is_no_device_or_no_model),
    };
    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
