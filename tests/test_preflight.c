/* test_preflight.c: what `assay preflight` finds in a plan before the load, one planted mistake
 * for each thing that it looks at; plans without one; what each would have cost; what was not
 * checked is never green. The rehearsal: tests/test_preflight_rehearse.c */
#include "tests/preflighting.h"
#include "tests/reporting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TINY "model: " FIXTURE("tiny-k25") "\n"
#define PLAN(...) "assay: 1\n" TINY "preflight:\n" __VA_ARGS__

/* A plan's keys with one mistake, and the finding of it. */
struct planted {
    const char *keys, *rule, *severity;
    int line; /* of the plan; 0: not looked at */
    const char *message, *found, *wanted, *strikes;
};

#define LAYERS "  numbering: entry\n  layers: "

static const struct planted plants[] = {
    /* layers, of 6 */
    {"  layers: [2, 3, 5]\n", "layers.numbering", "error", 4, "without numbering",
     "entry: r_2, r_3, r_5; output: r_3, r_4, r_6", "entry or output", "never"},
    {"  layers: [2, 7]\n", "layers.numbering", "error", 4, "without numbering",
     "r_2, 7 is out of range; output: r_3, 7 is out of range", NULL, "never"},
    {LAYERS "[2, 7]\n", "layers.range", "error", 5, "7 is out of range", "by output it is nothing",
     "0 to 6 by entry", "after the load"},
    {"  numbering: output\n  layers: [2, 6]\n", "layers.range", "error", 5, "6 is out of range",
     "by entry it is r_6, the last layer's output", "0 to 5 by output", "after the load"},
    {LAYERS "[3, 2, 6]\n", "layers.order", "error", 5, "out of order", "2 behind 3", "ascend",
     "never"},
    {LAYERS "[2, 2, 6]\n", "layers.order", "error", 5, "twice", "2 behind 2", "ascend", "never"},
    {LAYERS "[2, 5]\n", "layers.target", "warning", 5, "another target", "5 by entry: r_5", "6",
     "never"},
    {"  numbering: output\n  layers: [2, 4]\n", "layers.target", "warning", 5, "another target",
     "4 by output: r_5", "5", "never"},
    {"  numbering: output\n  layers: [2, 5]\n", "layers.serving", "note", 5, "(vLLM) 3;", NULL,
     NULL, "never"},
    {LAYERS "[2, 6]\n  library: vllm\n", "layers.dropped", "note", 5,
     "gives no state of the last id", "6", NULL, "never"},
    {LAYERS "[0, 6]\n  library: vllm\n", "layers.dropped", "note", 5, "fails at layer id 0", "0",
     NULL, "after the load"},
    /* disk: 4 states of 256 bf16 are 2048 bytes a token */
    {"  samples: 1000000000000\n  sample_tokens: 100\n  out: o\n", "disk.room", "error", 3,
     "the disk is full after sample", "free in", "1000000000000 samples of 100 tokens",
     "after the load"},
    {"  samples: 1\n  out: " FIXTURE("tiny-k25/config.json") "/y\n", "disk.folder", "error", 3,
     "config.json/y cannot be made", "Not a directory", "can be written", "after the load"},
    {"  sample_tokens: 262145\n", "config.length", "error", 3, "longer than", "262145", "262144",
     "after the load"},
    /* ranks: 8 heads */
    {"  tp: 3\n  target: {devices: 3, device_memory: 1 GB}\n", "ranks.divide", "error", 3, "heads",
     "8 over --tp 3", "1, 2, 4 or 8", "at the start"},
    {"  ep: 5\n  target: {devices: 5, device_memory: 1 GB}\n", "ranks.divide", "error", 3,
     "experts", "16", NULL, "at the start"},
    {"  tp: 8\n  ep: 16\n  target: {devices: 128}\n", "ranks.divide", "error", 3, "shard plan",
     "128 ranks", "at most 64", "at the start"},
    {"  tp: 2\n  target: {devices: 2, device_memory: 1 MB}\n", "memory.device", "error", 3,
     "does not fit", "of weights", "1.0 MB", "in the load"},
    {"  kv_tokens: 1000000000\n  target: {device_memory: 1 GB}\n", "memory.device", "error", 3,
     "does not fit", "cache 960.0 GB", "1.0 GB", "after the load"},
    {"  target: {device_memory: 8 MB}\n", "memory.device", "warning", 3, "less than a tenth",
     "of weights", "8.0 MB", "after the load"},
    {"  target: {host_memory: 1 KB}\n", "memory.host", "error", 3, "too little memory", "1.0 kB",
     "largest tensor on each of 1", "in the load"},
    {"  tp: 4\n  target: {devices: 2}\n", "device.missing", "error", 3, "fewer devices",
     "2 of the target", "4", "at the start"},
    /* commands */
    {"  shell: zsh\n  login_shell: bash\n  commands:\n    - ssh h python3 -c 'print(f\"{x}\")'\n",
     "commands.break", "error", 7, "breaks at hop 3 of zsh,ssh,bash: an unquoted parenthesis", "(",
     "as they were typed", "at the start"},
    {"  commands:\n    - {line: \"ssh h 'ls a b'\", through: 'sh,sudo'}\n", "commands.break",
     "error", 5, "no sudo here", "ssh", NULL, "at the start"},
    {"  commands:\n    - {line: ls, through: 'fish'}\n", "commands.hops", "error", 5, NULL, "fish",
     NULL, "at the start"},
    {"  commands:\n    - ls \"$X\"\n", "commands.unknown", "note", 5, "cannot be followed", "$X",
     "", "at the start"},
    {"  login_shell: bash\n  commands:\n    - ssh h 'python3 -c \"print(1\"'\n", "commands.python",
     "error", 6, "is not Python", "SyntaxError", "parsed", "at the start"},
    {"  commands:\n    - python3 x.py | tee log\n", "commands.shell.pipe", "warning", 5, "pipeline",
     NULL, NULL, "after the load"},
    {"  commands:\n    - python3 x.py || true\n", "commands.shell.or-true", "error", 5, NULL, NULL,
     NULL, "after the load"},
};

static void assert_planted(void **state, const struct planted *w)
{
    json_t *r =
        preflighted(state, textf(PLAN("%s"), w->keys), strcmp(w->severity, "note") == 0 ? 0 : 1);
    const json_t *f = finding_of(r, w->rule);
    if (!f) fail_msg("no %s of\n%s", w->rule, w->keys);
    assert_string_equal(field_text(f, "severity"), w->severity);
    assert_holds(f, "file", "p.yaml");
    if (w->line) assert_int_equal(field_int(f, "line"), w->line);
    if (w->message) assert_holds(f, "message", w->message);
    if (w->found) assert_holds(f, "found", w->found);
    if (w->wanted) assert_holds(f, "wanted", w->wanted);
    assert_holds(f, "strikes", w->strikes);
    if (strcmp(w->rule, "commands.unknown") != 0)
        assert_true(field_text(f, "remedy")[0] || strcmp(w->rule, "layers.serving") == 0);
    json_decref(r);
}

static void preflight__finds_what_is_planted(void **state)
{
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) assert_planted(state, &plants[i]);
}

/* 1000 * (100 * ids * 256 * bytes + 1600 + 4096), as the formula says. */
static void disk__is_counted(void **state)
{
    static const struct {
        const char *keys, *need;
    } sums[] = {
        {"layers: [1, 2, 6], numbering: entry, sample_tokens: 100, dtype: f16", "need 159.3 MB"},
        {"layers: [1, 2, 6], numbering: entry, sample_tokens: 100, dtype: f32", "need 312.9 MB"},
        {"sample_tokens: 100", "4 (assumed: layers) states of 256 BF16 need 210.5 MB"},
        {"dtype: bf16", "2048 (assumed: sample_tokens) tokens, 4 (assumed: layers) states"},
    };
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        json_t *r = preflighted(
            state,
            textf("assay: 1\n" TINY "preflight: {samples: 1000, out: o, %s}\n", sums[i].keys), 0);
        assert_holds(check_of(r, "disk"), "about", sums[i].need);
        json_decref(r);
    }
}

/* ---- the checkpoint and its config ---- */

/* A checkpoint of eight shards in the test's folder, "m". */
static void make_checkpoint(void **state)
{
    json_decref(cli_passes("synth", FIXTURE("tiny-k25/config.json"), "--seed", "1", "--shards", "7",
                           "--out", folder_path(state, "m")));
}

static void edit_config(void **state, const char *from, const char *to)
{
    size_t size;
    char *text = read_whole(folder_path(state, "m/config.json"), &size);
    char *changed = replaced(text, from, to);
    write_text(folder_path(state, "m/config.json"), changed);
    free(changed);
    free(text);
}

#define MODEL "assay: 1\nmodel: m\npreflight: {load_minutes: 10}\n"

static void checkpoint__is_read_in_all_its_headers(void **state)
{
    make_checkpoint(state);
    json_t *r = preflighted(state, MODEL, 0);
    assert_holds(check_of(r, "checkpoint"), "about", "headers of 7 shards");
    json_decref(r);
    /* The sixth of seven: five sevenths and a little of the load are done by then. */
    const char *shard = folder_path(state, "m/model-00006-of-000007.safetensors");
    size_t size;
    char *bytes = read_whole(shard, &size);
    write_whole(shard, bytes, size - 4);
    r = preflighted(state, MODEL, 1);
    const json_t *f = finding_of(r, "checkpoint.shard");
    assert_non_null(f);
    assert_holds(f, "message", "model-00006-of-000007.safetensors");
    assert_holds(f, "remedy", "fetch model-00006-of-000007.safetensors again");
    assert_holds(f, "strikes", "in the load");
    double minutes = json_number_value(field(f, "minutes"));
    assert_true(minutes > 6 && minutes < 9.5);
    json_decref(r);
    remove(shard);
    json_decref(preflighted(state, MODEL, 1));
    write_whole(shard, bytes, size);
    json_decref(preflighted(state, MODEL, 0));
    free(bytes);
}

static void checkpoint__folds_problems_of_a_kind(void **state)
{
    make_checkpoint(state);
    edit_config(state, "\"moe_intermediate_size\": 96", "\"moe_intermediate_size\": 64");
    json_t *r = preflighted(state, MODEL, 1);
    const json_t *f = finding_of(r, "checkpoint.shard");
    assert_non_null(f);
    assert_holds(f, "message", "more like it)");
    assert_in_range(findings_of(r, "checkpoint.shard"), 1, 40);
    json_decref(r);
}

static void config__is_held_against_what_there_is_code_for(void **state)
{
    static const struct {
        const char *from, *to, *found, *wanted;
    } edits[] = {
        {"\"kimi_k25\"", "\"llama\"", "llama", "kimi_k25"},
        {"\"bfloat16\"", "\"int8\"", "int8", ""},
        {"\"pack-quantized\"", "\"nvfp4-pack\"", "nvfp4-pack", "pack-quantized"},
        {"\"num_bits\": 4", "\"num_bits\": 3", "3-bit", "4- or 8-bit"},
        {"\"num_experts_per_tok\": 4", "\"num_experts_per_tok\": 99", "99", "at most"},
    };
    make_checkpoint(state);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        edit_config(state, edits[i].from, edits[i].to);
        json_t *r = preflighted(state, MODEL, 1);
        const json_t *f = finding_of(r, "config.refused");
        assert_non_null(f);
        assert_holds(f, "found", edits[i].found);
        if (edits[i].wanted[0]) assert_holds(f, "wanted", edits[i].wanted);
        assert_holds(f, "file", "m/config.json");
        assert_holds(f, "strikes", "at the start");
        assert_string_equal(field_text(check_of(r, "checkpoint"), "state"), "not checked");
        json_decref(r);
        edit_config(state, edits[i].to, edits[i].from);
    }
    json_decref(preflighted(state, MODEL, 0));
}

static void model__that_is_not_there_is_red(void **state)
{
    json_t *r = preflighted(state, MODEL, 1);
    assert_non_null(finding_of(r, "config.refused"));
    json_decref(r);
    r = preflighted(state,
                    textf("assay: 1\nmodel: synth:%s?seed=1\npreflight: {samples: 1}\n",
                          FIXTURE("tiny-k25/config.json")),
                    0);
    assert_holds(check_of(r, "config"), "about", "6 layers");
    assert_string_equal(field_text(check_of(r, "checkpoint"), "state"), "not asked");
    json_decref(r);
}

/* ---- consumer, library, scripts ---- */

#define STORY FIXTURE("story/consumer.py")
#define VLLM ASSAY_SOURCE_DIR "/compat/api/vllm-"

static void contract__is_held_against_the_consumer(void **state)
{
    json_t *r = preflighted(state,
                            "assay: 1\npreflight:\n  load_minutes: 18\n  consumer: " STORY
                            "\n  library: " VLLM "0.16.0.yaml\n",
                            1);
    static const int lines[] = {11, 15, 21};
    assert_int_equal(findings_of(r, "contract.call"), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *f = json_array_get(field(r, "findings"), i);
        assert_int_equal(field_int(f, "line"), lines[i]);
        assert_holds(f, "file", "story/consumer.py");
        assert_true(json_number_value(field(f, "minutes")) >= 18);
    }
    assert_holds(finding_of(r, "contract.result"), "verdict", "undecidable");
    assert_int_equal(field_int(field(r, "counts"), "undecidable"), 2);
    assert_true(json_number_value(field(r, "minutes")) >= 54);
    json_decref(r);
    /* The module of line 4 has moved: an import at the top of a file fails before any load. */
    r = preflighted(state,
                    "assay: 1\npreflight:\n  load_minutes: 18\n  consumer: " STORY
                    "\n  library: " VLLM "0.33.0.yaml\n",
                    1);
    const json_t *f = finding_of(r, "contract.import");
    assert_non_null(f);
    assert_int_equal(field_int(f, "line"), 4);
    assert_holds(f, "strikes", "at the start");
    json_decref(r);
    /* Against the release that it was written for, nothing breaks. */
    r = preflighted(
        state, "assay: 1\npreflight:\n  consumer: " STORY "\n  library: " VLLM "0.11.0.yaml\n", 0);
    json_decref(r);
}

static void contract__costs_the_load__of_an_import_inside(void **state)
{
    write_text(
        folder_path(state, "c.py"),
        "def f():\n    from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups\n");
    json_t *r = preflighted(
        state, "assay: 1\npreflight:\n  consumer: c.py\n  library: " VLLM "0.33.0.yaml\n", 1);
    const json_t *f = finding_of(r, "contract.import");
    assert_non_null(f);
    assert_holds(f, "strikes", "after the load");
    json_decref(r);
}

static void contract__takes_baseline_accept_and_receivers(void **state)
{
    write_text(folder_path(state, "a.yaml"),
               "accept:\n  - {symbol: '*SchedulerConfig', reason: patched by us}\n");
    json_t *r = preflighted(state,
                            "assay: 1\npreflight:\n  accept: a.yaml\n  baseline: " VLLM
                            "0.11.0.yaml\n  consumer: " STORY "\n  library: " VLLM "0.16.0.yaml\n",
                            1);
    assert_int_equal(findings_of(r, "contract.call") >= 2, 1);
    const json_t *one;
    size_t i;
    bool warned = false;
    json_array_foreach(field(r, "findings"), i, one)
    {
        assert_int_not_equal(field_int(one, "line"), 11);
        warned |= strcmp(field_text(one, "severity"), "warning") == 0;
    }
    assert_true(warned); /* what only a baseline tells */
    json_decref(r);
    r = preflighted(state,
                    "assay: 1\npreflight:\n  receivers: ['x=vllm.no.Such']\n  consumer: " STORY
                    "\n  library: " VLLM "0.16.0.yaml\n",
                    1);
    assert_holds(finding_of(r, "contract.consumer"), "found", "vllm.no.Such");
    json_decref(r);
}

static void contract__is_red__where_there_is_nothing_to_hold(void **state)
{
    write_text(folder_path(state, "c.py"), "print(1)\n");
    json_t *r = preflighted(
        state, "assay: 1\npreflight:\n  consumer: c.py\n  library: " VLLM "0.16.0.yaml\n", 1);
    assert_holds(finding_of(r, "contract.consumer"), "remedy", "scripts");
    json_decref(r);
    r = preflighted(state, "assay: 1\npreflight: {consumer: c.py, library: no.yaml}\n", 1);
    assert_non_null(finding_of(r, "contract.library"));
    json_decref(r);
}

static void consumer__is_a_folder_too__and_findings_lie_in_it(void **state)
{
    struct err err = ERR_INIT;
    (void)!file_make_folder(folder_path(state, "pkg/deep"), &err);
    write_text(folder_path(state, "pkg/__init__.py"), "");
    write_text(folder_path(state, "pkg/deep/__init__.py"),
               "from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups\n"
               "try:\n    get_kv_cache_config_from_groups(1, 2)\nexcept Exception:\n    pass\n");
    json_t *r = preflighted(
        state, "assay: 1\npreflight:\n  consumer: pkg\n  library: " VLLM "0.33.0.yaml\n", 1);
    const json_t *f = finding_of(r, "contract.import");
    assert_non_null(f);
    assert_holds(f, "file", "pkg/deep/__init__.py");
    assert_true(file_exists(field_text(f, "file")));
    assert_holds(f, "strikes", "at the start");
    f = finding_of(r, "lint.handler.swallow");
    assert_non_null(f);
    assert_true(file_exists(field_text(f, "file")));
    json_decref(r);
}

static void lint__reads_consumer_and_scripts(void **state)
{
    write_text(folder_path(state, "c.py"), "def f(g):\n    try:\n        g()\n"
                                           "    except Exception as e:\n"
                                           "        print(f\"ERROR in batch: {e}\")\n");
    write_text(folder_path(state, "r.sh"), "set -eu\npython3 c.py || true\n");
    json_t *r = preflighted(state, "assay: 1\npreflight: {consumer: c.py, scripts: [r.sh]}\n", 1);
    assert_int_equal(field_int(finding_of(r, "lint.handler.message"), "line"), 4);
    assert_int_equal(field_int(finding_of(r, "lint.shell.or-true"), "line"), 2);
    assert_holds(check_of(r, "lint"), "about", "1 Python and 1 shell files");
    json_decref(r);
    write_text(folder_path(state, "r.sh"),
               "set -eu\npython3 c.py || true # assay: ignore[shell.or-true it is a test]\n");
    write_text(folder_path(state, "c.py"), "def f(\n");
    r = preflighted(state, "assay: 1\npreflight: {consumer: c.py, scripts: [r.sh, no.sh]}\n", 1);
    assert_null(finding_of(r, "lint.shell.or-true"));
    assert_holds(finding_of(r, "lint.unread"), "file", "c.py");
    assert_non_null(finding_of(r, "lint.script")); /* no.sh */
    json_decref(r);
}

/* ---- what it would have cost, what was not checked, the page ---- */

static void load__is_what_the_plan_says__else_bytes_over_bandwidth(void **state)
{
    static const struct {
        const char *key, *from;
        double least, most;
    } says[] = {
        {"load_minutes: 18", "load_minutes of the plan", 18, 18},
        {"read_bandwidth: 1 MB/s", "read_bandwidth of the plan", 0.05, 0.5},
        {"samples: 1", "assumed", 0.00005, 0.0005},
    };
    for (int i = 0; i < 3; i++) {
        json_t *r =
            preflighted(state, textf("assay: 1\n" TINY "preflight: {%s}\n", says[i].key), 0);
        const json_t *load = field(r, "load");
        double minutes = json_number_value(field(load, "minutes"));
        assert_true(minutes >= says[i].least && minutes <= says[i].most);
        assert_holds(load, "from", says[i].from);
        json_decref(r);
    }
    json_t *r = preflighted(state, "assay: 1\npreflight: {commands: [ls]}\n", 0);
    assert_true(json_is_null(field(field(r, "load"), "minutes")));
    json_decref(r);
}

static void findings__stand_worst_first(void **state)
{
    json_t *r = preflighted(state,
                            PLAN("  load_minutes: 18\n  tp: 3\n  numbering: output\n"
                                 "  layers: [2, 3]\n  samples: 1000000000000\n  out: o\n"
                                 "  commands: [ls | cat, 'ls $x']\n"
                                 "  target: {devices: 3}\n"),
                            1);
    const char *last = "";
    double minutes = 1e9;
    const json_t *one;
    size_t i;
    static const char *const ranks[] = {"error", "warning", "note"};
    int rank = 0;
    json_array_foreach(field(r, "findings"), i, one)
    {
        const char *severity = field_text(one, "severity");
        if (strcmp(severity, last) != 0) minutes = 1e9;
        int now = 0;
        while (strcmp(ranks[now], severity) != 0) now++;
        assert_true(now >= rank);
        rank = now;
        double m = json_number_value(field(one, "minutes"));
        if (!json_object_get(one, "verdict")) assert_true(m <= minutes);
        minutes = m;
        last = severity;
    }
    assert_string_equal(field_text(json_array_get(field(r, "findings"), 0), "rule"), "disk.room");
    json_decref(r);
}

static void layers__are_told_in_both_numberings(void **state)
{
    json_t *r = preflighted(state, PLAN("  numbering: entry\n  layers: [0, 3, 6]\n"), 0);
    static const struct {
        int id, entry, output; /* -1: null */
        const char *means;     /* by entry */
    } wanted[] = {
        {0, 0, 1, "the embedding"}, {3, 3, 4, "between layers 2 and 3"}, {6, 6, -1, "last"}};
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(field(r, "layers"), i);
        const json_t *entry = field(one, "entry"), *output = field(one, "output");
        assert_int_equal(field_int(one, "id"), wanted[i].id);
        assert_int_equal(field_int(entry, "state"), wanted[i].entry);
        assert_holds(entry, "means", wanted[i].means);
        if (wanted[i].output >= 0)
            assert_int_equal(field_int(output, "state"), wanted[i].output);
        else
            assert_true(json_is_null(field(output, "state")));
    }
    json_decref(r);
}

static void not_checked__is_never_green(void **state)
{
    setenv("ASSAY_PYTHON", "/no/such/python", 1);
    json_t *r = preflighted(state,
                            "assay: 1\n" TINY "preflight:\n  consumer: " STORY "\n  library: " VLLM
                            "0.16.0.yaml\n  commands: [\"python3 -c 1\", ls]\n  samples: 1\n"
                            "  out: o\n",
                            3);
    assert_int_equal(field_int(field(r, "counts"), "not_checked"), 3);
    assert_string_equal(field_text(check_of(r, "contract"), "state"), "not checked");
    assert_string_equal(field_text(check_of(r, "lint"), "state"), "not checked");
    assert_string_equal(field_text(check_of(r, "commands"), "state"), "not checked");
    /* What needs no Python was looked at all the same. */
    assert_string_equal(field_text(check_of(r, "checkpoint"), "state"), "checked");
    assert_string_equal(field_text(check_of(r, "disk"), "state"), "checked");
    assert_holds(field(r, "error"), "found", "not checked");
    for (size_t i = 0; i < 3; i++) {
        const json_t *gap = json_array_get(field(r, "not_checked"), i);
        assert_holds(gap, "why", "/no/such/python");
        assert_holds(gap, "remedy", "ASSAY_PYTHON");
    }
    json_decref(r);
    /* With something that is wrong, the verdict is that, and the rest is still said. */
    r = preflighted(state,
                    "assay: 1\npreflight:\n  commands: [\"python3 -c 1\", \"ls 'x\"]\n"
                    "  shell: bash\n",
                    1);
    assert_int_equal(field_int(field(r, "counts"), "not_checked"), 1);
    json_decref(r);
    unsetenv("ASSAY_PYTHON");
    r = preflighted(state, "assay: 1\npreflight: {layers: [1], numbering: entry}\n", 3);
    assert_string_equal(field_text(check_of(r, "layers"), "state"), "not checked");
    json_decref(r);
    json_decref(preflighted(state, "assay: 1\npreflight: {samples: 1}\n", 2));
}

/* The words that ssh was to send are known: the line that sends them is the remedy. */
static void command__that_breaks_is_mended(void **state)
{
    json_t *r = preflighted(state,
                            "assay: 1\npreflight:\n  shell: zsh\n  login_shell: bash\n  commands:\n"
                            "    - ssh gpu1 python3 -c 'print(f\"{x!r}\")'\n"
                            "    - ssh -p 2 gpu1 python3 -c 'print(1)'\n",
                            1);
    const json_t *f = json_array_get(field(r, "findings"), 0);
    assert_string_equal(field_text(f, "remedy"),
                        "type ssh gpu1 'python3 -c '\\''print(f\"{x!r}\")'\\'''");
    assert_holds(json_array_get(field(r, "findings"), 1), "remedy", "assay quote --through");
    json_decref(r);
}

static void plan__needs_its_key(void **state)
{
    write_text(folder_path(state, "p.yaml"), "assay: 1\nsteps:\n  - op: {name: norm}\n");
    cli_refuses(state, ((struct refusal){2, "preflight", "p.yaml", "no key \"preflight\"", NULL}),
                "preflight", folder_path(state, "p.yaml"));
    write_text(folder_path(state, "p.yaml"), "assay: 1\npreflight: {samples: 1}\n");
    cli_refuses(state, ((struct refusal){2, "--rehearse", "p.yaml", "no key \"rehearse\"", NULL}),
                "preflight", folder_path(state, "p.yaml"), "--rehearse");
}

static void page__says_all_of_it(void **state)
{
    static const char *const wanted[] = {"FAIL: ",
                                         "2 errors",
                                         "a load: 18.0 min (load_minutes of the plan)",
                                         "the errors, met one by one: at least 18.0 min",
                                         "layers.range",
                                         "18.0 min",
                                         "found   7 by entry",
                                         "18.0 min  after the load  layers.range",
                                         "commands.break",
                                         "looked at",
                                         "not asked",
                                         "disk"};
    struct cli r;
    write_text(folder_path(state, "p.yaml"),
               PLAN("  load_minutes: 18\n  numbering: entry\n  layers: [2, 7]\n"
                    "  commands: [\"ls 'x\"]\n  shell: bash\n"));
    cli(&r, "preflight", folder_path(state, "p.yaml"));
    assert_int_equal(r.status, 1);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!strstr(r.out, wanted[i])) fail_msg("no \"%s\" in\n%s", wanted[i], r.out);
    }
    assert_true(strstr(r.out, "layers.range") < strstr(r.out, "commands.break"));
    assert_null(strstr(r.out, "NOT CHECKED"));
    cli_free(&r);
}

static void report__takes_every_format(void **state)
{
    static const char *const formats[] = {"junit", "sarif", "html", "text"};
    static const char *const wanted[] = {"assay.preflight", "preflight/layers.range",
                                         "layers.range", "layers.range"};
    struct cli r;
    write_text(folder_path(state, "p.yaml"), PLAN("  load_minutes: 18\n  numbering: entry\n"
                                                  "  layers: [2, 7]\n  tp: 2\n"
                                                  "  target: {devices: 2}\n"));
    for (int i = 0; i < 4; i++) {
        const char *file = folder_path(state, formats[i]);
        cli(&r, "preflight", folder_path(state, "p.yaml"), "--report",
            textf("%s=%s", formats[i], file));
        assert_int_equal(r.status, 1);
        cli_free(&r);
        size_t size;
        char *text = read_whole(file, &size);
        if (!strstr(text, wanted[i])) fail_msg("%s: no %s", formats[i], wanted[i]);
        /* device_memory is not given: the memory of a rank could not be judged. */
        if (!strstr(text, i == 3 ? "NOT CHECKED" : "not checked") && i != 1)
            fail_msg("%s: what was not checked is not said", formats[i]);
        if (i == 1) assert_non_null(strstr(text, "preflight/not-checked"));
        if (i == 0) assert_non_null(strstr(text, "costs 18.0 min"));
        if (i == 0) assert_xml(text);
        free(text);
    }
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(preflight__finds_what_is_planted),
        TEST(disk__is_counted),
        TEST(checkpoint__is_read_in_all_its_headers),
        TEST(checkpoint__folds_problems_of_a_kind),
        TEST(config__is_held_against_what_there_is_code_for),
        TEST(model__that_is_not_there_is_red),
        TEST(contract__is_held_against_the_consumer),
        TEST(contract__costs_the_load__of_an_import_inside),
        TEST(contract__takes_baseline_accept_and_receivers),
        TEST(contract__is_red__where_there_is_nothing_to_hold),
        TEST(consumer__is_a_folder_too__and_findings_lie_in_it),
        TEST(lint__reads_consumer_and_scripts),
        TEST(load__is_what_the_plan_says__else_bytes_over_bandwidth),
        TEST(findings__stand_worst_first),
        TEST(layers__are_told_in_both_numberings),
        TEST(not_checked__is_never_green),
        TEST(command__that_breaks_is_mended),
        TEST(plan__needs_its_key),
        TEST(page__says_all_of_it),
        TEST(report__takes_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
