/* test_plan_preflight.c: what the key `preflight` of a plan may say, and that everything else is
 * refused at its line and column. */
#include "harness/plan.h"
#include "tests/support.h"

#include <stdio.h>
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

#define HEAD "assay: 1\npreflight:\n"

static void preflight__knows_nothing__where_nothing_is_said(void **state)
{
    struct plan p;
    (void)state;
    parse(HEAD "  library: vllm\n", &p);
    const struct plan_preflight *k = &p.preflight;
    assert_int_equal(k->line, 2);
    assert_string_equal(k->library, "vllm");
    assert_int_equal(k->samples, -1);
    assert_int_equal(k->dtype, DT_COUNT);
    assert_int_equal(k->numbering, NUMBERING_NONE);
    assert_int_equal(k->shard.tp, 1);
    assert_false(k->sharded);
    assert_true(k->load_minutes < 0 && k->device_memory < 0);
    assert_int_equal(k->seconds, REHEARSE_SECONDS);
}

static void preflight__reads_every_key(void **state)
{
    struct plan p;
    (void)state;
    parse(HEAD "  consumer: [a.py, b.py]\n  library: l\n  baseline: b.yaml\n  scripts: [r.sh]\n"
               "  layers: [2, 30]\n  numbering: output\n  samples: 7\n  sample_tokens: 9\n"
               "  dtype: f16\n  out: o\n  shell: zsh\n  login_shell: bash\n  tp: 2\n  ep: 3\n"
               "  expert_map: round-robin\n  redundant: 1\n  kv_tokens: 5\n"
               "  target: {devices: 6, device_memory: 141 GB, host_memory: 2TiB}\n"
               "  load_minutes: 2.5\n  read_bandwidth: 1.5 GB/s\n"
               "  commands:\n    - a b\n    - {line: c, through: 'zsh,ssh'}\n"
               "  rehearse: {run: 'x {model}', shrink: 'layers=2', seconds: 9, also: [q]}\n",
          &p);
    const struct plan_preflight *k = &p.preflight;
    assert_int_equal(k->consumer.count, 2);
    assert_string_equal(k->consumer.word[1].text, "b.py");
    assert_string_equal(k->baseline, "b.yaml");
    assert_string_equal(k->scripts.word[0].text, "r.sh");
    assert_int_equal(k->layers, 2);
    assert_int_equal(k->layer[1], 30);
    assert_int_equal(k->layers_line, 7);
    assert_int_equal(k->numbering, NUMBERING_OUTPUT);
    assert_int_equal(k->samples * 10 + k->sample_tokens, 79);
    assert_int_equal(k->dtype, DT_F16);
    assert_string_equal(k->login_shell, "bash");
    assert_int_equal(shard_world(&k->shard), 6);
    assert_int_equal(k->shard.map, EXPERT_MAP_ROUND_ROBIN);
    assert_int_equal(k->shard.redundant, 1);
    assert_true(k->sharded);
    assert_int_equal(k->devices, 6);
    assert_true(k->device_memory >= 141e9 && k->device_memory <= 141e9);
    assert_true(k->host_memory >= 2199023255552.0 && k->host_memory <= 2199023255552.0);
    assert_true(k->load_minutes >= 2.5 && k->load_minutes <= 2.5);
    assert_true(k->read_bandwidth >= 1.5e9 && k->read_bandwidth <= 1.5e9);
    assert_null(k->commands.word[0].through);
    assert_string_equal(k->commands.word[1].through, "zsh,ssh");
    assert_int_equal(k->commands.word[1].line, 25);
    assert_string_equal(k->shrink, "layers=2");
    assert_int_equal(k->seconds, 9);
    assert_string_equal(k->also.word[0].text, "q");
}

static void preflight__takes_accept_and_receivers__for_one_consumer(void **state)
{
    struct plan p;
    (void)state;
    parse(HEAD "  consumer: a.py\n  accept: x.yaml\n  receivers: ['e=T']\n", &p);
    assert_string_equal(p.preflight.accept, "x.yaml");
    assert_string_equal(p.preflight.receivers.word[0].text, "e=T");
}

static const struct {
    const char *text, *at, *found, *wanted;
} refusals[] = {
    {"  x: 1\n", "3:3", "\"x\"", "consumer, library"},
    {"  - x\n", "3:5", "a list", "a mapping"},
    {"  consumer: {a: b}\n", "3:14", "a mapping", "a text"},
    {"  consumer: []\n", "3:3", "an empty list", "something"},
    {"  consumer: [a, b]\n  accept: x\n", "3:3", "several consumers", "one"},
    {"  library: [a]\n", "3:13", "a list", "a text"},
    {"  scripts: x\n", "3:12", "a text", "a list"},
    {"  layers: [a]\n", "3:12", "\"a\"", "whole number"},
    {"  layers: [-1]\n", "3:12", "\"-1\"", "whole number, 0"},
    {"  layers: 2\n", "3:11", "a text", "a list"},
    {"  numbering: both\n", "3:14", "\"both\"", "entry or output"},
    {"  samples: 0\n", "3:12", "\"0\"", "whole number, 1"},
    {"  samples: -1\n", "3:12", "\"-1\"", "whole number"},
    {"  sample_tokens: 1e3\n", "3:18", "\"1e3\"", "whole number"},
    {"  dtype: fp8\n", "3:10", "\"fp8\"", "bf16 or f16 or f32"},
    {"  commands: x\n", "3:13", "a text", "a list"},
    {"  commands: [{through: zsh}]\n", "3:15", "no key \"line\"", "typed"},
    {"  commands: [{line: a, via: zsh}]\n", "3:24", "\"via\"", "line or through"},
    {"  shell: fish\n", "3:10", "\"fish\"", "sh or dash or bash or zsh"},
    {"  tp: 0\n", "3:7", "\"0\"", "1 to"},
    {"  tp: 65\n", "3:7", "\"65\"", "1 to 64"},
    {"  expert_map: x\n", "3:15", "\"x\"", "contiguous"},
    {"  target: {gpus: 8}\n", "3:12", "\"gpus\"", "devices"},
    {"  target: {device_memory: 141}\n", "3:27", "\"141\"", "unit"},
    {"  target: {device_memory: 0 GB}\n", "3:27", "\"0 GB\"", "above 0"},
    {"  target: {device_memory: 1 GBit}\n", "3:27", "\"1 GBit\"", "unit"},
    {"  target: {device_memory: 1.2.3 GB}\n", "3:27", "\"1.2.3 GB\"", "unit"},
    {"  load_minutes: 0\n", "3:17", "\"0\"", "above 0"},
    {"  load_minutes: nan\n", "3:17", "\"nan\"", "above 0"},
    {"  load_minutes: inf\n", "3:17", "\"inf\"", "above 0"},
    {"  read_bandwidth: 1 GB\n", "3:19", "\"1 GB\"", "1.5 GB/s"},
    {"  rehearse: {seconds: 3}\n", "3:14", "no key \"run\"", "{model}"},
    {"  rehearse: {run: x}\n", "3:14", "no {model}", "stands"},
    {"  rehearse: {run: [], seconds: 3}\n", "3:14", "an empty list", "something"},
    {"  rehearse: {run: '{model}', seconds: 0}\n", "3:39", "\"0\"", "1 to 86400"},
    {"  rehearse: {run: '{model}', x: 0}\n", "3:30", "\"x\"", "run, shrink"},
};

static void preflight__is_refused_at_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char text[512], where[64];
        struct err err = ERR_INIT;
        struct plan p;
        snprintf(text, sizeof text, HEAD "%s", refusals[i].text);
        snprintf(where, sizeof where, "p.yaml:%s", refusals[i].at);
        (void)!plan_parse(text, (int64_t)strlen(text), "p.yaml", &arena, &p, &err);
        if (strcmp(err.where, where) != 0) print_error("%s%s\n", refusals[i].text, err.where);
        assert_err(&err, ERR_INPUT, "plan", where, refusals[i].found, refusals[i].wanted);
        assert_string_equal(err.where, where);
    }
}

static void preflight__refuses_too_many(void **state)
{
    char text[4096] = HEAD "  scripts: [a";
    struct err err = ERR_INIT;
    struct plan p;
    (void)state;
    for (int i = 0; i < PLAN_WORDS; i++) snprintf(text + strlen(text), 8, ", a");
    snprintf(text + strlen(text), 8, "]\n");
    (void)!plan_parse(text, (int64_t)strlen(text), "p.yaml", &arena, &p, &err);
    assert_err(&err, ERR_INPUT, "plan", "p.yaml:3:", "too many", "at most 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preflight__knows_nothing__where_nothing_is_said),
        cmocka_unit_test(preflight__reads_every_key),
        cmocka_unit_test(preflight__takes_accept_and_receivers__for_one_consumer),
        cmocka_unit_test(preflight__is_refused_at_its_place),
        cmocka_unit_test(preflight__refuses_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, arena_teardown);
}
