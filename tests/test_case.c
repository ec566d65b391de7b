/* test_case.c: case lines are parsed strictly and printed so that they replay; the data is a pure
 * function of the line, has the size that ops expect, and is poisoned where it must not be read. */
#include "core/linear.h"
#include "core/mla.h"
#include "core/moe.h"
#include "core/router.h"
#include "harness/case_make.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void parse(struct op_case *c, const char *line)
{
    struct err err = ERR_INIT;
    if (case_parse(c, line, &err) != ERR_OK) assert_ok(&err);
}

static void make(const char *line, struct op_case *c, struct arena *a, struct case_data *d)
{
    struct err err = ERR_INIT;
    parse(c, line);
    if (case_make(c, a, d, &err) != ERR_OK) assert_ok(&err);
}

static void line__round_trips__when_default(void **state)
{
    (void)state;
    const struct case_op *op;
    int count = 0;
    for (; (op = case_op_at(count)); count++) {
        struct op_case c, again;
        char line[CASE_LINE], second[CASE_LINE];
        case_defaults(&c, op);
        parse(&again, case_print(&c, line));
        assert_string_equal(line, case_print(&again, second));
        parse(&again, op->name);
        assert_string_equal(line, case_print(&again, second));
    }
    assert_int_equal(count, 17);
}

static void line__round_trips__when_drawn(void **state)
{
    (void)state;
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        for (int64_t k = 0; k < 200; k++) {
            struct op_case c, again;
            char line[CASE_LINE], second[CASE_LINE];
            case_draw(&c, op, 5, k);
            parse(&again, case_print(&c, line));
            assert_string_equal(line, case_print(&again, second));
        }
    }
}

static void line__keeps_reals__to_the_last_bit(void **state)
{
    (void)state;
    struct op_case c, again;
    char line[CASE_LINE];
    parse(&c, "norm eps=0.1,gain=3.0000000000000004e-5");
    assert_non_null(strstr(case_print(&c, line), "eps=0.1,"));
    parse(&again, line);
    assert_true(case_get_real(&again, "eps") == 0.1);
    assert_true(case_get_real(&again, "gain") == 3.0000000000000004e-5);
    assert_true(case_get_real(&again, "gain") != 3e-5);
}

static void line__keeps_lists(void **state)
{
    (void)state;
    struct op_case c;
    char line[CASE_LINE];
    int n;
    parse(&c, "mla.core rows=1:2:3,context=0:17:4");
    const int64_t *list = case_list(&c, "context", &n);
    assert_int_equal(n, 3);
    assert_int_equal(list[1], 17);
    assert_non_null(strstr(case_print(&c, line), "context=0:17:4,rows=1:2:3,"));
    parse(&c, "mla.core rows=1*200:2:2:7*54,context=9:9:9");
    list = case_list(&c, "rows", &n);
    assert_int_equal(n, 256);
    assert_int_equal(list[199], 1);
    assert_int_equal(list[200], 2);
    assert_int_equal(list[255], 7);
    assert_non_null(strstr(case_print(&c, line), "context=9*3,rows=1*200:2:2:7*54,"));
}

static void line__is_refused__when_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *where, *found, *wanted;
    } bad[] = {
        {"", "op name", "\"\"", "one of: embed"},
        {"nrm T=1", "op name", "\"nrm\"", "one of: embed"},
        {"norm Q=1", "op norm", "unknown key \"Q\"", "one of: T H eps"},
        {"norm t=1", "op norm", "unknown key \"t\"", NULL},
        {"norm T=1,T=1", "op norm", "key \"T\" twice", "each key once"},
        {"norm T=0", "op norm: T", "\"0\"", "1 to"},
        {"norm T=1048577", "op norm: T", "\"1048577\"", "1048576"},
        {"norm T=", "op norm: T", "\"\"", "whole number"},
        {"norm T=2x", "op norm: T", "\"2x\"", NULL},
        {"norm T=+2", "op norm: T", "\"+2\"", NULL},
        {"norm T= 2", "op norm: T", "\" 2\"", NULL},
        {"norm T=2.0", "op norm: T", "\"2.0\"", NULL},
        {"norm T=99999999999999999999", "op norm: T", "\"99999999999999999999\"", NULL},
        {"norm T", "op norm", "\"T\"", "key=value"},
        {"norm =2", "op norm", "\"=2\"", "key=value"},
        {"norm T=2,", "op norm", "a comma at the end", NULL},
        {"norm T=2,,H=3", "op norm", "\"\"", "key=value"},
        {"norm eps=nan", "op norm: eps", "\"nan\"", "-1 to 1"},
        {"norm eps=inf", "op norm: eps", "\"inf\"", NULL},
        {"norm eps=1e-5f", "op norm: eps", "\"1e-5f\"", NULL},
        {"norm precision=f16", "op norm: precision", "\"f16\"", "f32 or f64"},
        {"norm profile=hft", "op norm: profile", "\"hft\"", "a profile"},
        {"norm seed=-1", "op norm: seed", "\"-1\"", NULL},
        {"linear format=INT4", "op linear: format", "\"INT4\"",
         "bf16, f16, f32, int4, int4a, int8 or fp8"},
        {"mla.core rows=", "op mla.core: rows", "\"\"", "joined by ':'"},
        {"mla.core rows=1:", "op mla.core: rows", "\"1:\"", NULL},
        {"mla.core rows=1:x", "op mla.core: rows", "\"1:x\"", NULL},
        {"mla.core rows=1:2:3:4*254", "op mla.core: rows", "1:2:3", "up to 256"},
        {"mla.core rows=1*0", "op mla.core: rows", "\"1*0\"", "V*N"},
        {"mla.core rows=1*", "op mla.core: rows", "\"1*\"", NULL},
        {"mla.core rows=*3", "op mla.core: rows", "\"*3\"", NULL},
        {"mla.core rows=1*2*3", "op mla.core: rows", "\"1*2*3\"", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct op_case c;
        struct err err = ERR_INIT;
        assert_int_equal(case_parse(&c, bad[i].line, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "case line", bad[i].where, bad[i].found, bad[i].wanted);
    }
}

static void line__is_refused__when_too_long(void **state)
{
    (void)state;
    char line[CASE_INPUT + 1];
    struct op_case c;
    struct err err = ERR_INIT;
    memset(line, 'x', CASE_INPUT);
    line[CASE_INPUT] = '\0';
    assert_int_equal(case_parse(&c, line, &err), ERR_USAGE);
    assert_err(&err, ERR_USAGE, "case line", NULL, "2048 characters", "fewer than 2048");
}

static void line__is_refused__when_it_would_be_too_long_with_every_parameter(void **state)
{
    (void)state;
    char line[CASE_INPUT] = "mla.core rows=";
    struct op_case c;
    struct err err = ERR_INIT;
    for (int i = 0; i < 250; i++) {
        size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%d", i ? ":" : "", 10000 + i);
    }
    size_t n = strlen(line);
    snprintf(line + n, sizeof line - n, ",context=");
    for (int i = 0; i < 60; i++) {
        n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%d", i ? ":" : "", 10000 + i);
    }
    assert_int_equal(case_parse(&c, line, &err), ERR_USAGE);
    assert_err(&err, ERR_USAGE, "case line", "op mla.core", "with every parameter", "fewer than");
}

static void case__is_refused__when_keys_contradict(void **state)
{
    (void)state;
    static const struct {
        const char *line, *where, *found;
    } bad[] = {
        {"mla.core context=0:1,rows=1", "context, rows", "2 and 1"},
        {"moe E=2,k=3", "k", "3 of E=2"},
        {"linear format=fp8,group=0", "group", "0"},
        {"linear format=f32,order=1", "order", "1 with format=f32"},
        {"linear format=int4,group=0,order=1", "order", "group=0"},
        {"int4 out=4,row=4", "row, n", "4 to 4"},
        {"int4 out=4,row=1,n=4", "row, n", "1 to 5"},
        {"int4 spoil=g_idx_high", "spoil", "g_idx_high"},
        {"int4 spoil=zero_shape", "spoil", "zero=0"},
        {"router k=9,E=8,forced=1", "forced", "k=9"},
        {"router groups=2,method=greedy", "groups", "2 with method=greedy"},
        {"router k=1,forced=1,spoil=forced_twice", "spoil", "k=1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct op_case c;
        struct case_data d;
        struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        parse(&c, bad[i].line);
        assert_int_equal(case_make(&c, &a, &d, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "case", bad[i].where, bad[i].found, NULL);
        assert_true(err.wanted[0]);
        arena_release(&a, NULL);
    }
}

static void case__is_refused__when_memory_is_short(void **state)
{
    (void)state;
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        struct op_case c;
        struct case_data d;
        struct arena a = {.bytes_max = 200};
        struct err err = ERR_INIT;
        case_defaults(&c, op);
        assert_int_equal(case_make(&c, &a, &d, &err), ERR_MEMORY);
        assert_true(err.found[0]);
        arena_release(&a, NULL);
    }
}

static void outputs__start_as_poison(void **state)
{
    (void)state;
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        struct op_case c;
        struct case_data d;
        struct arena a = ARENA_INIT;
        make(op->name, &c, &a, &d);
        assert_true(d.outputs > 0);
        for (int k = 0; k < d.outputs && strcmp(op->name, "rope") != 0;
             k++) { /* rope's output is its input */
            const struct case_output *o = &d.output[k];
            assert_true(o->rows * o->cols > 0);
            for (int64_t e = 0; e < o->rows * o->cols; e++) {
                if (o->dtype == DT_F64) assert_true(isnan(((const double *)o->data)[e]));
                if (o->dtype == DT_I32) assert_int_equal(((const int32_t *)o->data)[e], 2147480000);
            }
        }
        arena_release(&a, NULL);
    }
}

static void data__is_a_pure_function_of_the_line(void **state)
{
    (void)state;
    struct op_case c;
    struct case_data d[3];
    struct arena a[3] = {ARENA_INIT, ARENA_INIT, ARENA_INIT};
    make("rope T=3,heads=2,R=8,seed=5,x=f32", &c, &a[0], &d[0]);
    make("rope T=3,heads=2,R=8,seed=5,x=f32", &c, &a[1], &d[1]);
    make("rope T=3,heads=2,R=8,seed=6,x=f32", &c, &a[2], &d[2]);
    size_t bytes = 3 * 2 * 8 * sizeof(double);
    assert_memory_equal(d[0].output[0].data, d[1].output[0].data, bytes);
    assert_memory_not_equal(d[0].output[0].data, d[2].output[0].data, bytes);
    for (int i = 0; i < 3; i++) arena_release(&a[i], NULL);
}

static void inputs__are_exact_in_their_type(void **state)
{
    (void)state;
    struct op_case c;
    struct case_data d;
    struct arena a = ARENA_INIT;
    make("rope T=3,heads=2,R=8,x=bf16", &c, &a, &d);
    const double *x = d.output[0].data;
    for (int i = 0; i < 48; i++) assert_true(x[i] == dtype_round(DT_BF16, x[i]));
    arena_release(&a, NULL);
}

/* Sums of k terms must come out near 1 whatever the format, or bounds and near ties mean nothing.
 */
static void weights__have_variance_one_over_in__in_every_format(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "linear in=128,out=64,format=bf16",         "linear in=128,out=64,format=f16",
        "linear in=128,out=64,format=f32",          "linear in=128,out=64,format=int4",
        "linear in=128,out=64,format=int8",         "linear in=128,out=64,format=fp8,group=32",
        "linear in=128,out=64,format=int4,order=1", "linear in=128,out=64,format=int4,group=0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct op_case c;
        struct case_data d;
        struct arena a = ARENA_INIT;
        double row[128], square = 0;
        make(lines[i], &c, &a, &d);
        const struct linear *op = d.op;
        for (int64_t r = 0; r < 64; r++) {
            case_matrix_row(op->w, r, row);
            for (int k = 0; k < 128; k++) square += row[k] * row[k];
        }
        double share = square / 64; /* sum over a row of w^2: in * (1/in) */
        if (!(share > 0.5 && share < 2)) fprintf(stderr, "%s: %g\n", lines[i], share);
        assert_true(share > 0.5 && share < 2);
        arena_release(&a, NULL);
    }
}

static void cache__is_nan__outside_the_tokens(void **state)
{
    (void)state;
    struct op_case c;
    struct case_data d;
    struct arena a = ARENA_INIT;
    make("mla.core rows=1:2:3,context=0:7:4,block=4,L=5,R=2", &c, &a, &d);
    const struct mla_core *op = d.op;
    const struct cache *cache = op->cache;
    int64_t finite = 0, minus_one = 0, huge = 0;
    for (int64_t i = 0; i < 2 * cache->blocks * cache->block * cache->width; i++)
        finite += isfinite(cache->pool[i]) != 0;
    assert_int_equal(finite, (1 + 9 + 7) * 7);
    for (int64_t s = 0; s < 3; s++) {
        int64_t used = (cache->length[s] + 3) / 4;
        assert_true(used < cache->blocks_max);
        for (int64_t b = 0; b < cache->blocks_max; b++) {
            int32_t slot = cache->table[s * cache->blocks_max + b];
            if (b < used) assert_in_range(slot, 0, cache->blocks - 1);
            minus_one += b >= used && slot == -1;
            huge += b >= used && slot == 2147480000;
        }
    }
    assert_true(minus_one > 0 && huge > 0);
    assert_int_equal(op->rows->count, 6);
    assert_int_equal(op->rows->position[1], 7);
    assert_int_equal(op->layer, 1);
    arena_release(&a, NULL);
}

static void ties__repeat_rows_and_bias(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int64_t twin[8];
    } ties[] = {
        {"router E=8,H=16,ties=1", {0, 0, 2, 2, 4, 4, 6, 6}},
        {"router E=8,H=16,groups=4,ties=2", {0, 1, 0, 1, 4, 5, 4, 5}},
        {"router E=8,H=16,ties=3", {0, 0, 0, 0, 0, 0, 0, 0}},
        {"router E=8,H=16,ties=0", {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++) {
        struct op_case c;
        struct case_data d;
        struct arena a = ARENA_INIT;
        double row[16], twin[16];
        make(ties[i].line, &c, &a, &d);
        const struct router *op = d.op;
        for (int64_t e = 0; e < 8; e++) {
            assert_int_equal(case_router_twin(&c, e), ties[i].twin[e]);
            case_matrix_row(op->w, e, row);
            case_matrix_row(op->w, ties[i].twin[e], twin);
            assert_memory_equal(row, twin, sizeof row);
            assert_true(case_tensor_value(op->bias, e) ==
                        case_tensor_value(op->bias, ties[i].twin[e]));
        }
        arena_release(&a, NULL);
    }
}

static void moe__routes_ascending_ids__and_makes_chosen_experts_only(void **state)
{
    (void)state;
    struct op_case c;
    struct case_data d;
    struct arena a = ARENA_INIT;
    make("moe T=3,E=64,k=5", &c, &a, &d);
    const struct moe *op = d.op;
    bool used[64] = {false};
    for (int t = 0; t < 3; t++) {
        for (int j = 0; j < 5; j++) {
            int32_t id = op->ids[t * 5 + j];
            assert_in_range(id, j ? op->ids[t * 5 + j - 1] + 1 : 0, 63);
            used[id] = true;
        }
    }
    for (int64_t e = 0; e < 64; e++) {
        struct expert expert;
        struct err err = ERR_INIT;
        assert_int_equal(op->expert(op->ctx, e, &expert, &err), used[e] ? ERR_OK : ERR_INPUT);
    }
    arena_release(&a, NULL);
}

/* The lists that ci/gpu.sh runs where there is a device. */
static void lists_of_the_device__hold_cases_that_can_be_made(void **state)
{
    (void)state;
    static const char *const lists[] = {"/fixtures/gpu/cases.txt", "/fixtures/gpu/sanitizer.txt",
                                        "/fixtures/gpu/tactics.txt"};
    for (int i = 0; i < 3; i++) {
        char path[512], line[CASE_INPUT];
        int cases = 0;
        snprintf(path, sizeof path, "%s%s", ASSAY_SOURCE_DIR, lists[i]);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) {
            struct op_case c;
            line[strcspn(line, "\n")] = '\0';
            if (!line[0] || line[0] == '#') continue;
            char *at = line;
            if (i == 2) at = strchr(strchr(line, ' ') + 1, ' ') + 1; /* CARDS TACTIC CASE */
            parse(&c, at);
            assert_true(case_word_is(&c, "profile", "gpu"));
            cases++;
        }
        fclose(f);
        assert_true(cases > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line__round_trips__when_default),
        cmocka_unit_test(line__round_trips__when_drawn),
        cmocka_unit_test(line__keeps_reals__to_the_last_bit),
        cmocka_unit_test(line__keeps_lists),
        cmocka_unit_test(line__is_refused__when_wrong),
        cmocka_unit_test(line__is_refused__when_too_long),
        cmocka_unit_test(lists_of_the_device__hold_cases_that_can_be_made),
        cmocka_unit_test(line__is_refused__when_it_would_be_too_long_with_every_parameter),
        cmocka_unit_test(case__is_refused__when_keys_contradict),
        cmocka_unit_test(case__is_refused__when_memory_is_short),
        cmocka_unit_test(outputs__start_as_poison),
        cmocka_unit_test(data__is_a_pure_function_of_the_line),
        cmocka_unit_test(inputs__are_exact_in_their_type),
        cmocka_unit_test(weights__have_variance_one_over_in__in_every_format),
        cmocka_unit_test(cache__is_nan__outside_the_tokens),
        cmocka_unit_test(ties__repeat_rows_and_bias),
        cmocka_unit_test(moe__routes_ascending_ids__and_makes_chosen_experts_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
