/* test_sweep.c: the reference against the naive oracle on random cases of every op, and the verb
 * that runs them. The oracle and the reference were written apart, from the contracts alone: where
 * they agree within derived bounds, a mistake must have been made twice. What it does not show:
 * that the contracts are what engines do (goldens show that). */
#include "core/ops.h"
#include "harness/case.h"
#include "harness/verb.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 12 };

/* Runs `assay op` with these words; JSON, so that nothing is printed. */
static enum err_code verb(json_t **result, struct err *err, int argc, const char *const *argv)
{
    struct args a = {0};
    char *copy[16];
    assert_in_range(argc, 0, 14);
    for (int i = 0; i < argc; i++) copy[i] = (char *)(uintptr_t)argv[i];
    copy[argc++] = (char *)(uintptr_t) "--json";
    *result = json_object();
    if (args_parse(&a, &verb_op, argc, copy, err) != ERR_OK) return err->code;
    return verb_op.run(&a, *result, err);
}

#define run_verb(result, err, ...)                                                                 \
    verb(result, err, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)),                 \
         (const char *[]){__VA_ARGS__})

static int64_t field(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void print_failures(const json_t *result)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(result, "rows"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "verdict")), "pass") == 0) continue;
        char *text = json_dumps(row, JSON_INDENT(1));
        fprintf(stderr, "%s\n", text);
        free(text);
    }
}

static void sweep_op(const char *op, const char *seed)
{
    json_t *result;
    struct err err = ERR_INIT;
    enum err_code rc = run_verb(&result, &err, op, "--sweep", "--count", "12", "--seed", seed,
                                "--on", "ref,naive");
    assert_ok(&err);
    if (rc != ERR_OK) print_failures(result);
    assert_int_equal(rc, ERR_OK);
    assert_int_equal(field(result, "passed"), CASES);
    assert_int_equal(field(result, "failed"), 0);
    assert_int_equal(field(result, "not_implemented"), 0);
    assert_true(field(result, "compared") >= CASES);
    assert_int_equal(json_array_size(json_object_get(result, "rows")), CASES);
    json_decref(result);
}

static void ref__matches_naive__for_every_op(void **state)
{
    (void)state;
    for (int i = 0; i < op_count; i++) {
        sweep_op(op_rows[i].name, "1");
        sweep_op(op_rows[i].name, "20251129");
    }
}

static void ref_alone__compares_f32_with_f64(void **state)
{
    (void)state;
    json_t *result;
    struct err err = ERR_INIT;
    enum err_code rc = run_verb(&result, &err, "--sweep", "--count", "4", "--on", "ref");
    assert_ok(&err);
    if (rc != ERR_OK) print_failures(result);
    assert_int_equal(rc, ERR_OK);
    assert_int_equal(field(result, "passed"), 4 * op_count);
    json_decref(result);
}

static void profiles_that_round__hold_between_f32_and_f64(void **state)
{
    (void)state;
    static const char *const lines[] = {"norm T=3,H=65,profile=",
                                        "rope T=3,heads=2,R=16,position=70,profile=",
                                        "linear T=3,in=65,out=17,profile=",
                                        "mla.q T=3,profile=",
                                        "mla.kv T=3,position=9,profile=",
                                        "mla.core rows=1:3,context=0:9,profile=",
                                        "mla.core rows=1:3,context=0:9,form=absorbed,profile=",
                                        "mla.output T=3,profile=",
                                        "mlp T=3,gain=3,profile=",
                                        "moe T=5,I=32,gain=3,format=int4,profile=",
                                        "eagle.fc T=3,norm=each,profile=",
                                        "eagle.layer rows=1:3,context=0:9,profile=",
                                        "eagle.layer layer=1,rows=4,qk_norm=1,profile=",
                                        "eagle.layer kind=mla,rows=4,view=tree,profile="};
    for (int p = 0; profile_name(p); p++) {
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            char line[CASE_LINE];
            json_t *result;
            struct err err = ERR_INIT;
            snprintf(line, sizeof line, "%s%s", lines[i], profile_name(p));
            enum err_code rc = run_verb(&result, &err, line, "--on", "ref");
            assert_ok(&err);
            if (rc != ERR_OK) print_failures(result);
            assert_int_equal(rc, ERR_OK);
            json_decref(result);
        }
    }
}

static void draws__are_a_function_of_seed_and_index(void **state)
{
    (void)state;
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        struct op_case a, b, other;
        char la[CASE_LINE], lb[CASE_LINE], lo[CASE_LINE];
        case_draw(&a, op, 3, 17);
        case_draw(&b, op, 3, 17);
        case_draw(&other, op, 4, 17);
        assert_string_equal(case_print(&a, la), case_print(&b, lb));
        assert_string_not_equal(la, case_print(&other, lo));
    }
}

/* How many of the first 40 draws of seed 1 hold `text`: what the default sweep reaches. */
static int holding(const char *op, const char *text)
{
    int n = 0;
    for (int64_t i = 0; i < 40; i++) {
        struct op_case c;
        char line[CASE_LINE];
        case_draw(&c, case_op_find(op), 1, i);
        n += strstr(case_print(&c, line), text) != NULL;
    }
    return n;
}

static void draws__reach_what_hurts(void **state)
{
    (void)state;
    static const struct {
        const char *op, *text;
    } must[] = {
        {"linear", " T=1,"},
        {"linear", "precision=f64"},
        {"linear", "precision=f32"},
        {"linear", "format=int4,"},
        {"linear", "format=int4a,"},
        {"linear", "format=int8,"},
        {"linear", "format=fp8,"},
        {"linear", "order=1"},
        {"linear", "linear=blas"},
        {"mla.core", "form=absorbed"},
        {"mla.core", "form=expanded"},
        {"mla.core", ":"},
        {"rope", "pairs=half"},
        {"rope", "yarn=1"},
        {"router", "ties=1"},
        {"router", "ties=2"},
        {"router", "ties=3"},
        {"router", "forced=1"},
        {"router", "groups=1,"},
        {"router", "method=group_limited"},
        {"router", "scoring=softmax"},
        {"moe", "E=1,k=1,"},
        {"int4", "bits=8"},
        {"int4", "zero=1"},
        {"int4", "order=2"},
        {"norm", "inplace=1"},
        {"norm", "w=none"},
        {"eagle.fc", "norm=before"},
        {"eagle.fc", "norm=each"},
        {"eagle.layer", "kind=mla"},
        {"eagle.layer", "kind=llama"},
        {"eagle.layer", "layer=1"},
        {"eagle.layer", "view=tree"},
        {"eagle.layer", "qk_norm=1"},
        {"eagle.layer", "residual=normed"},
        {"eagle.layer", "q_lora=0"},
        {"eagle.layer", "yarn=1"},
        {"eagle.verify", "mode=drawn"},
        {"eagle.verify", "mode=chosen"},
        {"eagle.verify", "shape=tree"},
    };
    for (size_t i = 0; i < sizeof must / sizeof must[0]; i++) {
        int n = holding(must[i].op, must[i].text);
        if (n == 0) fprintf(stderr, "no draw of %s holds %s\n", must[i].op, must[i].text);
        assert_true(n > 0);
    }
}

static void verb__fails__on_gpu_without_one(void **state)
{
    (void)state;
    json_t *result;
    struct err err = ERR_INIT;
    if (gpu_side()->available) {
        assert_true(gpu_side()->entries !=
                    NULL); /* a machine with a device: the gpu tests look at the rest */
        return;
    }
    assert_non_null(gpu_side()->why_not);
    assert_int_equal(run_verb(&result, &err, "norm", "--on", "ref,gpu"), ERR_DEVICE);
    assert_err(&err, ERR_DEVICE, "run an op", "side gpu", gpu_side()->why_not, NULL);
    assert_int_equal(err_exit(err.code), 3);
    json_decref(result);
}

static void verb__refuses__bad_words(void **state)
{
    (void)state;
    static const struct {
        const char *argv[6];
        int argc;
        const char *found;
    } bad[] = {
        {{"norm", "--on", "ref,cpu"}, 3, "\"cpu\""},
        {{"norm", "--on", "ref,ref"}, 3, "\"ref\" twice"},
        {{"norm", "--on", ""}, 3, "\"\""},
        {{"norm", "--on", "ref,"}, 3, "\"\""},
        {{"norm", "T=1", "--sweep"}, 3, "a case line beside it"},
        {{"norms", "--sweep"}, 2, "\"norms\""},
        {{"norm", "--count", "3"}, 3, "no --sweep"},
        {{"norm", "--sweep", "--count", "0"}, 4, NULL},
        {{"norm", "T=x"}, 2, "\"x\""},
        {{"--on", "ref"}, 2, "no name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *result;
        struct err err = ERR_INIT;
        assert_int_equal(verb(&result, &err, bad[i].argc, bad[i].argv), ERR_USAGE);
        assert_err(&err, ERR_USAGE, NULL, NULL, bad[i].found, NULL);
        json_decref(result);
    }
}

static void verb__gives_the_ops_own_message__for_one_case(void **state)
{
    (void)state;
    json_t *result;
    struct err err = ERR_INIT;
    assert_int_equal(run_verb(&result, &err, "norm", "eps=-1"), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "norm", NULL, "eps = -1", "0 or more");
    json_decref(result);
}

static void verb__reports_rows(void **state)
{
    (void)state;
    json_t *result;
    struct err err = ERR_INIT;
    assert_int_equal(run_verb(&result, &err, "mla.kv", "T=3,R=4,L=5", "--on", "naive,ref"), ERR_OK);
    const json_t *row = json_array_get(json_object_get(result, "rows"), 0);
    struct op_case c;
    assert_int_equal(case_parse(&c, json_string_value(json_object_get(row, "case")), &err), ERR_OK);
    assert_int_equal(case_get_int(&c, "L"), 5);
    const json_t *outputs = json_object_get(row, "outputs");
    assert_int_equal(json_array_size(outputs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(outputs, i);
        assert_string_equal(json_string_value(json_object_get(o, "name")), i ? "k_rope" : "latent");
        assert_string_equal(json_string_value(json_object_get(o, "on")), "ref");
        double bound = json_real_value(json_object_get(o, "bound")),
               rel = json_real_value(json_object_get(o, "rel_rms"));
        assert_true(bound > 0 && bound < 1e-4);
        assert_true(rel >= 0 && rel < 1e-5);
        assert_true(json_is_real(json_object_get(o, "max_abs")));
        assert_true(strlen(json_string_value(json_object_get(o, "bound_from"))) > 20);
        assert_true(field(json_object_get(o, "worst"), "row") >= 0);
    }
    assert_int_equal(field(result, "compared"), 3 * 5 + 3 * 4);
    json_decref(result);
}

static void verb__lists_every_op_with_its_parameters(void **state)
{
    (void)state;
    json_t *result;
    struct err err = ERR_INIT;
    assert_int_equal(run_verb(&result, &err, "--list"), ERR_OK);
    const json_t *ops = json_object_get(result, "ops");
    assert_int_equal(json_array_size(ops), op_count);
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        assert_non_null(op_find(json_string_value(json_object_get(op, "name"))));
        assert_true(json_array_size(json_object_get(op, "params")) > 7);
    }
    json_decref(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref__matches_naive__for_every_op),
        cmocka_unit_test(ref_alone__compares_f32_with_f64),
        cmocka_unit_test(profiles_that_round__hold_between_f32_and_f64),
        cmocka_unit_test(draws__are_a_function_of_seed_and_index),
        cmocka_unit_test(draws__reach_what_hurts),
        cmocka_unit_test(verb__fails__on_gpu_without_one),
        cmocka_unit_test(verb__refuses__bad_words),
        cmocka_unit_test(verb__gives_the_ops_own_message__for_one_case),
        cmocka_unit_test(verb__reports_rows),
        cmocka_unit_test(verb__lists_every_op_with_its_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
