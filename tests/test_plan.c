/* test_plan.c: what a plan may say, and that everything else is refused at its line and column. */
#include "harness/plan.h"
#include "core/yaml.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena = ARENA_INIT;

static int arena_teardown(void **state)
{
    (void)state;
    arena_release(&arena, NULL);
    return 0;
}

static void parse(const char *text, struct plan *p)
{
    struct err err = ERR_INIT;
    (void)!plan_parse(text, (int64_t)strlen(text), "dir/p.yaml", &arena, p, &err);
    assert_ok(&err);
}

/* A refusal: text, place, and parts of found and wanted. */
struct refused {
    const char *text, *at, *found, *wanted;
};

static void assert_refused(const struct refused *r)
{
    struct err err = ERR_INIT;
    struct plan p;
    char where[64];
    snprintf(where, sizeof where, "p.yaml:%s", r->at);
    enum err_code rc = plan_parse(r->text, (int64_t)strlen(r->text), "p.yaml", &arena, &p, &err);
    if (rc != ERR_INPUT || strcmp(err.where, where) != 0)
        print_error("%s\ngot %s: %s, wanted %s\n", r->text, err.where, err.found, where);
    assert_err(&err, ERR_INPUT, NULL, where, r->found, r->wanted);
    assert_string_equal(err.where, where);
}

#define HEAD "assay: 1\nmodel: m\ntokens: 1,2\nsteps:\n"
#define FORWARD "  - name: a\n    forward: {on: ref}\n"

static void parse__reads_a_whole_plan(void **state)
{
    struct plan p;
    (void)state;
    parse("assay: 1\nmodel: m\ntokens: [1, 2, 3]\nsteps:\n"
          "  - name: a\n    forward: {precision: f64, prefill_chunk: 3, decode-last: 0, taps: [x, "
          "y], layers: '0:3', resume: true, tokens: 7}\n"
          "  - diff: {subject: a, truth: g, bound: 5e-5, require: [logits, 'l*'], profile_run: a}\n"
          "    if: not gpu\n"
          "    expect: {guilty: {op: moe, layer: 1}, first: {tap: t, row: 2}, exit: 1}\n"
          "  - generate: {n: 3, prompt: 2, equals: [4, 5]}\n"
          "  - op: {name: norm, sweep: true, count: 2, seed: 0, on: [ref, naive]}\n"
          "  - op: {name: norm, case: 'T=3,H=64'}\n"
          "expect: {compared_at_least: 9}\n",
          &p);
    assert_int_equal(p.steps, 5);
    assert_int_equal(p.compared_at_least, 9);
    assert_string_equal(p.folder, "dir");
    const struct plan_step *s = &p.step[0];
    assert_string_equal(s->name, "a");
    assert_int_equal(s->kind, PLAN_FORWARD);
    assert_string_equal(s->model.text, "m");
    static const char *const given[][2] = {
        {"--precision", "f64"}, {"--prefill-chunk", "3"}, {"--decode-last", "0"}, {"--taps", "x,y"},
        {"--layers", "0:3"},    {"--resume", ""},         {"--tokens", "7"}};
    assert_int_equal(s->options, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(s->option[i].row->name, given[i][0]);
        assert_string_equal(s->option[i].value.text, given[i][1]);
    }
    s = &p.step[1];
    assert_string_equal(s->name, "step-2");
    assert_int_equal(s->word[0].step, 0);
    assert_int_equal(s->word[1].step, -1);
    assert_int_equal(s->options, 4);
    assert_int_equal(s->option[3].value.step, 0);
    assert_null(s->model.text);
    assert_true(s->negated);
    assert_string_equal(s->condition, "gpu");
    assert_string_equal(s->expect.verdict, "fail");
    assert_string_equal(s->expect.guilty_op, "moe");
    assert_int_equal(s->expect.guilty_layer, 1);
    assert_int_equal(s->expect.first_row, 2);
    assert_true(s->expect.first_layer == PLAN_ANY);
    assert_string_equal(p.step[2].equals.text, "4,5");
    assert_string_equal(p.step[2].option[2].value.text, "1,2,3");
    assert_string_equal(p.step[3].option[3].value.text, "ref,naive");
    assert_string_equal(p.step[4].word[1].text, "T=3,H=64");
}

/* A comparison takes the plan's model only where it needs one. */
static void parse__gives_a_diff_the_model__when_it_must_run(void **state)
{
    (void)state;
    static const char *const with[] = {"subject: x", "subject: x, truth: y, profile: hf",
                                       "subject: x, truth: y, model: m"};
    static const char *const without[] = {"subject: x, truth: y", "subject: x, truth: y, bound: 1",
                                          "subject: x, truth: y, profile: hf, profile-run: z"};
    char text[256];
    struct plan p;
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, HEAD "  - diff: {%s}\n", with[i]);
        parse(text, &p);
        assert_string_equal(p.step[0].model.text, "m");
        snprintf(text, sizeof text, HEAD "  - diff: {%s}\n", without[i]);
        parse(text, &p);
        assert_null(p.step[0].model.text);
    }
}

static void parse__takes_a_preflight__beside_steps_or_alone(void **state)
{
    struct plan p;
    (void)state;
    parse(HEAD "  - diff: {subject: x, truth: y}\n"
               "preflight: {consumer: e.py, layers: [2, 30], samples: 10, commands: [a b]}\n",
          &p);
    assert_int_equal(p.preflight.line, 6);
    assert_int_equal(p.steps, 1);
    parse("assay: 1\npreflight: {library: vllm}\n", &p);
    assert_int_equal(p.steps, 0);
    parse(HEAD "  - diff: {subject: x, truth: y}\n", &p);
    assert_int_equal(p.preflight.line, 0);
}

static void fault__becomes_the_options_of_its_verb(void **state)
{
    struct plan p;
    (void)state;
    parse(HEAD "  - fault: {include: ['int4.*', mla.no_mscale], seeds: 3, quick: true}\n", &p);
    const struct plan_step *s = &p.step[0];
    assert_ptr_equal(plan_verb(s->kind), &verb_fault);
    assert_string_equal(s->model.text, "m");
    static const char *const wanted[][2] = {{"--fault", "int4.*"},
                                            {"--fault", "mla.no_mscale"},
                                            {"--seeds", "3"},
                                            {"--quick", ""},
                                            {"--tokens", NULL}};
    assert_int_equal(s->options, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(s->option[i].row->name, wanted[i][0]);
        if (wanted[i][1]) assert_string_equal(s->option[i].value.text, wanted[i][1]);
    }
}

static void yaml__is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct refused r[] = {
        {"", "1:1", "an empty file", "plan"},
        {"# only\n", "1:1", "no document", NULL},
        {"assay: 1\nsteps: [\n", "3:1", "without a closing", "valid YAML"},
        {"assay:\n\t- x\n", "2:1", "tab", "valid YAML"},
        {"assay: 1\nassay: 1\n", "2:1", "duplicate", NULL},
        {"assay: &x 1\n", "1:11", "an anchor", NULL},
        {"a: b\nassay: !!int 1\n", "2:14", "a tag", NULL},
        {"assay: 1\n---\nassay: 1\n", "1:8", "a second document", "one"},
        {"assay: 1\nmodel: \"a\\0b\"\n", "2:9", "a NUL byte", NULL},
        {"assay: \"\xff\"\n", "1:9", "UTF8", NULL},
        {"assay: 1\n? [a]\n: 1\n", "2:4", "no text", NULL},
        {"[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]", "1:1", "16 levels", "fewer"},
        {"%YAML 1.1\n---\nassay: 1\n", "1:1", "a directive", "none"},
        {"\xef\xbb\xbf# x\r\n%x\n", "2:1", "a directive", NULL},
    };
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) assert_refused(&r[i]);
    struct err err = ERR_INIT;
    struct yaml_node *root;
    char *big = malloc(YAML_BYTES + 1);
    assert_non_null(big);
    memset(big, ' ', YAML_BYTES + 1);
    (void)!yaml_parse(big, YAML_BYTES + 1, "big", &arena, &root, &err);
    assert_err(&err, ERR_INPUT, NULL, "big", "1048577 bytes", "at most");
    free(big);
}

static void plan__is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct refused r[] = {
        {"- 1\n", "1:3", "a list", "a mapping"},
        {"model: m\nsteps: []\n", "1:1", "no key \"assay\"", "assay: 1"},
        {"assay: 2\n", "1:8", "\"2\"", "1 to 1"},
        {"assay: 1x\n", "1:8", "\"1x\"", "a whole number"},
        {"assay: 1\n", "1:1", "no key \"steps\"", NULL},
        {"assay: 1\nmodle: m\n", "2:1", "\"modle\"", "assay, model, tokens"},
        {"assay: 1\nmodel:\n", "2:1", "nothing", "a text"},
        {"assay: 1\nmodel: [a]\n", "2:9", "a list", "a text"},
        {"assay: 1\ntokens: {a: 1}\n", "2:10", "a mapping", "a text"},
        {"assay: 1\nsteps: x\n", "2:8", "a text", "a list"},
        {"assay: 1\nsteps: []\n", "2:1", "an empty list", "something"},
        {"assay: 1\nexpect: {compared: 1}\n", "2:10", "\"compared\"", "compared_at_least"},
        {"assay: 1\nexpect: {compared_at_least: 0}\n", "2:29", "\"0\"", "1 to"},
        {HEAD "  -\n", "4:1", "nothing", "a mapping"},
        {HEAD "  - name: a\n", "5:5", "without a kind", "one of forward"},
        {HEAD "  - forward:\n", "5:5", "nothing", "a mapping"},
        {HEAD "  - forward: {on: ref}\n    diff: {subject: x}\n", "6:5", "\"diff\"", "one kind"},
        {HEAD "  - forward: {on: ref}\n    fi: gpu\n", "6:5", "\"fi\"", "name, if, expect"},
        {HEAD "  - forward: {on: ref}\n    if: cuda\n", "6:9", "\"cuda\"", "gpu, ref or blas"},
        {HEAD "  - name: a/b\n    forward: {on: ref}\n", "5:11", "no file", "letters"},
        {HEAD "  - name: .a\n    forward: {on: ref}\n", "5:11", "no file", "letters"},
        {HEAD FORWARD FORWARD, "7:11", "\"a\" again, first in line 5", "of its own"},
        {HEAD "  - name: step-2\n    forward: {on: ref}\n  - forward: {on: ref}\n", "7:5",
         "\"step-2\" again", NULL},
    };
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) assert_refused(&r[i]);
}

static void step__is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct refused r[] = {
        {HEAD "  - forward: {onn: ref}\n", "5:15", "\"onn\"", "model, tokens, on"},
        {HEAD "  - forward: {out: x}\n", "5:15", "\"out\"", NULL},
        {HEAD "  - forward: {on: cpu}\n", "5:19", "\"cpu\"", "ref or gpu"},
        {HEAD "  - forward: {on: re}\n", "5:19", "\"re\"", "ref or gpu"},
        {HEAD "  - forward: {threads: 0}\n", "5:24", "\"0\"", "1 to 256"},
        {HEAD "  - forward: {threads: 2x}\n", "5:24", "\"2x\"", "1 to 256"},
        {HEAD "  - forward: {threads: [2]}\n", "5:25", "a list", "a text"},
        {HEAD "  - forward: {precision: f16}\n", "5:26", "\"f16\"", "f32 or f64"},
        {HEAD "  - forward: {profile: hx}\n", "5:24", "\"hx\"", "math"},
        {HEAD "  - forward: {profile: tpu+exact}\n", "5:24", "tpu+exact", "math"},
        {HEAD "  - forward: {layers: 3}\n", "5:23", "\"3\"", "A:B"},
        {HEAD "  - forward: {resume: yes}\n", "5:23", "\"yes\"", "true or false"},
        {HEAD "  - forward: {block-size: 3, block_size: 4}\n", "5:30", "\"block_size\"", "once"},
        {HEAD "  - forward: {taps: []}\n", "5:15", "an empty list", NULL},
        {"assay: 1\ntokens: 1\nsteps:\n  - forward: {on: ref}\n", "4:5", "no model", "MODEL"},
        {"assay: 1\nmodel: m\nsteps:\n  - generate: {n: 1}\n", "4:5", "no tokens", "tokens: T"},
        {HEAD "  - generate: {n: 0}\n", "5:19", "\"0\"", "1 to"},
        {HEAD "  - generate: {equals: 3}\n", "5:24", "\"3\"", "@golden.json"},
        {HEAD "  - generate: {equals: '@'}\n", "5:25", "\"@\"", "@golden.json"},
        {HEAD "  - generate: {equals: [1, -2]}\n", "5:28", "\"-2\"", "whole number"},
        {HEAD "  - op: {count: 3}\n", "5:5", "no name", "sweep: true"},
        {HEAD "  - op: {name: nrom}\n", "5:5", "nrom", "norm"},
        {HEAD "  - op: {name: norm T=x}\n", "5:5", "T", NULL},
        {HEAD "  - op: {name: norm T=3, sweep: true}\n", "5:5", "T=3", "alone"},
        {HEAD "  - op: {name: norm, case: T=3, sweep: true}\n", "5:5", "case and sweep", NULL},
        {HEAD "  - op: {case: T=3}\n", "5:5", "no name", NULL},
        {HEAD "  - op: {name: norm, count: 3}\n", "5:5", "without sweep", NULL},
        {HEAD "  - op: {sweep: true, seed: -1}\n", "5:29", "\"-1\"", "0 to"},
        {HEAD "  - op: {sweep: true, list: true}\n", "5:23", "\"list\"", "name, case"},
        {HEAD "  - op: {sweep: true, model: m}\n", "5:23", "\"model\"", "name, case"},
        {HEAD "  - fault: {include: []}\n", "5:13", "an empty list", NULL},
        {HEAD "  - fault: {seeds: 0}\n", "5:20", "\"0\"", "1 to"},
        {HEAD "  - fault: {op: moe}\n", "5:13", "\"op\"", "include, seed"},
        {HEAD "  - fault: {fault: [x]}\n", "5:13", "\"fault\"", "include, seed"},
        {HEAD "  - fault: {include: x}\n", "5:22", NULL, "a list"},
    };
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) assert_refused(&r[i]);
}

static void diff__is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct refused r[] = {
        {HEAD "  - diff: {truth: y}\n", "5:5", "no subject", NULL},
        {"assay: 1\nsteps:\n  - diff: {subject: x}\n", "3:5", "no truth and no model", NULL},
        {"assay: 1\nsteps:\n  - diff: {subject: x, truth: y, profile: hf}\n", "3:5",
         "no model for profile", NULL},
        {HEAD "  - diff: {subject: x, truth: y, bound: -1}\n", "5:41", "\"-1\"", "0 or more"},
        {HEAD "  - diff: {subject: x, truth: y, bound: nan}\n", "5:41", "\"nan\"", "0 or more"},
        {HEAD "  - diff: {subject: x, truth: y, bound: inf}\n", "5:41", "\"inf\"", "0 or more"},
        {HEAD "  - diff: {subject: [x], truth: y}\n", "5:22", "a list", "a text"},
        {HEAD "  - diff: {subject: x, truth: y, anchor: 1}\n", "5:42", "\"1\"", "true or false"},
        {HEAD "  - diff: {subject: x, truth: y, out: z}\n", "5:34", "\"out\"", "subject, truth"},
        {HEAD "  - name: b\n    diff: {subject: b, truth: y}\n", "6:21", "the step itself", NULL},
        {HEAD "  - diff: {subject: a, truth: y}\n" FORWARD, "5:21",
         "the later step \"a\" of line 6", "a step above"},
        {HEAD "  - name: b\n    diff: {subject: x, truth: y}\n  - diff: {subject: b, truth: y}\n",
         "7:21", "the step \"b\" of line 5", "a forward"},
        {HEAD "  - forward: {experts: a}\n" FORWARD, "5:24", "the later step", NULL},
        {HEAD FORWARD "  - diff: {subject: x, truth: a, bless: true}\n", "7:5", "no path", NULL},
        {HEAD "  - diff: {subject: x, truth: /y, bless: true}\n", "5:5", "\"/y\"", "relative"},
        {HEAD "  - diff: {subject: x, truth: a/../../y, bless: true}\n", "5:5", "..", "relative"},
        {HEAD "  - diff: {subject: x, truth: y, bless: true}\n    expect: {verdict: fail}\n", "5:5",
         "bless and expect", NULL},
    };
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) assert_refused(&r[i]);
}

#define DIFF HEAD "  - diff: {subject: x, truth: y}\n    expect: "

static void expect__is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct refused r[] = {
        {DIFF "\n", "6:5", "nothing", "a mapping"},
        {DIFF "{}\n", "6:5", "an empty mapping", NULL},
        {DIFF "{verdit: fail}\n", "6:14", "\"verdit\"", "verdict, guilty"},
        {DIFF "{verdict: red}\n", "6:23", "\"red\"", "pass, fail or error"},
        {DIFF "{exit: 5}\n", "6:20", "\"5\"", "0 to 4"},
        {DIFF "{exit: 1, verdict: pass}\n", "6:14", "contradicts", NULL},
        {DIFF "{verdict: pass, first: {row: 1}}\n", "6:14", "without a failure", NULL},
        {DIFF "{exit: 2, guilty: {op: moe}}\n", "6:14", "without a failure", NULL},
        {DIFF "{guilty: {op: meo}}\n", "6:27", "\"meo\"", "name of an op"},
        {DIFF "{guilty: {row: 1}}\n", "6:23", "\"row\"", "op or layer"},
        {DIFF "{guilty: {}}\n", "6:14", "an empty mapping", NULL},
        {DIFF "{first: {column: 1}}\n", "6:22", "\"column\"", "tap, op"},
        {DIFF "{first: {row: -1}}\n", "6:27", "\"-1\"", "whole number"},
        {DIFF "{first: {layer: one}}\n", "6:29", "\"one\"", "whole number"},
        {DIFF "{diagnosis: int4.nibble_swap}\n", "5:5", "without diagnose", "diagnose: true"},
        {HEAD "  - op: {sweep: true}\n    expect: {first: {row: 1}}\n", "6:14", "guilty",
         "in a diff"},
    };
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) assert_refused(&r[i]);
}

static void parse__stops__at_limits(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct plan p;
    size_t size = 64 + 300 * 32;
    char *text = calloc(1, size), path[2000];
    assert_non_null(text);
    size_t n = (size_t)snprintf(text, size, HEAD);
    for (int i = 0; i < 257; i++)
        n += (size_t)snprintf(text + n, size - n, "  - forward: {on: ref}\n");
    struct refused r = {text, "5:5", "too many steps", "256"};
    assert_refused(&r);
    free(text);
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    (void)!plan_parse("assay: 1\n", 9, path, &arena, &p, &err);
    assert_err(&err, ERR_INPUT, NULL, NULL, "1999 bytes", "shorter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(parse__reads_a_whole_plan, arena_teardown),
        cmocka_unit_test_teardown(parse__gives_a_diff_the_model__when_it_must_run, arena_teardown),
        cmocka_unit_test_teardown(parse__takes_a_preflight__beside_steps_or_alone, arena_teardown),
        cmocka_unit_test_teardown(fault__becomes_the_options_of_its_verb, arena_teardown),
        cmocka_unit_test_teardown(yaml__is_refused_at_its_place, arena_teardown),
        cmocka_unit_test_teardown(plan__is_refused_at_its_place, arena_teardown),
        cmocka_unit_test_teardown(step__is_refused_at_its_place, arena_teardown),
        cmocka_unit_test_teardown(diff__is_refused_at_its_place, arena_teardown),
        cmocka_unit_test_teardown(expect__is_refused_at_its_place, arena_teardown),
        cmocka_unit_test_teardown(parse__stops__at_limits, arena_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
