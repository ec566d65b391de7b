/* test_fault.c: the registry's texts, the seam, and every fault in a running model: it changes what
 * its host makes and nothing before that, and the run after it is the clean one again. What the
 * edits compute: the tests of their families, test_fault_mla.c and so on; against another engine's
 * bugs: test_fault_oracle.c. */
#include "core/fault.h"
#include "harness/op_run.h"
#include "tests/fault_bench.h"
#include "tests/golden.h"
#include "tests/support.h"
#include "tests/tap_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

static void every_row__says_all_of_itself(void **state)
{
    (void)state;
    int n = 0;
    for (; fault_at(n); n++) {
        const struct fault_row *f = fault_at(n);
        assert_non_null(strchr(f->id, '.'));
        assert_ptr_equal(fault_find(f->id), f); /* no id twice */
        assert_true(f->edit[0] && f->source[0] && f->detector[0]);
        if (f->stage != FAULT_OP) continue;
        assert_non_null(f->wrap);
        assert_non_null(f->hosts[0]);
        for (int i = 0; i < FAULT_HOSTS && f->hosts[i]; i++)
            assert_true(strcmp(f->hosts[i], "any") == 0 || op_find(f->hosts[i]));
        for (int k = 0; k < FAULT_KEYS && f->keys[k].name; k++) {
            assert_non_null(f->keys[k].about);
            assert_true((f->keys[k].fit == FIT_TRY) == (f->keys[k].tries != NULL));
        }
    }
    assert_true(n > 90);
    assert_null(fault_at(-1));
    assert_null(fault_at(n));
}

/* Texts with every key set to something that is not its default. */
static void text_of_every_row__reads_back__as_the_same_fault(void **state)
{
    (void)state;
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *f = fault_at(i);
        struct err err = ERR_INIT;
        struct faults a = {0}, b = {0};
        char text[FAULT_TEXT], again[FAULT_TEXT];
        if (f->stage != FAULT_OP) continue;
        assert_int_equal(faults_add(&a, f->id, &err), ERR_OK);
        assert_string_equal(fault_print(&a.use[0], text), f->id);
        for (int k = 0; k < FAULT_KEYS && f->keys[k].name; k++)
            a.use[0].value[k] = f->keys[k].whole || f->keys[k].fit == FIT_OP ? 3 : 1.0 / 3;
        fault_print(&a.use[0], text);
        assert_int_equal(faults_add(&b, text, &err), ERR_OK);
        assert_memory_equal(a.use[0].value, b.use[0].value, sizeof a.use[0].value);
        assert_string_equal(fault_print(&b.use[0], again), text);
        faults_clear(&a);
        faults_clear(&b);
    }
}

static void texts__are_refused__with_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *where, *found, *wanted;
    } bad[] = {
        {"mla.no_mscal", "mla.no_mscal", "mla.no_mscale is the nearest", "assay fault list"},
        {"int4.nibbleswap", "int4.nibbleswap", "int4.nibble_swap is the nearest", NULL},
        {"", NULL, "no such fault", NULL},
        {"mla.no_mscale@rank=2", "mla.no_mscale", "rank=2", "a key of: layer"},
        {"mla.no_mscale@layer", "mla.no_mscale", "layer", "KEY=VALUE"},
        {"mla.no_mscale@layer=x", "mla.no_mscale: layer", "x", "a whole number"},
        {"mla.no_mscale@layer=-1", "mla.no_mscale: layer", "-1", "a whole number"},
        {"mla.no_mscale@layer=1.5", "mla.no_mscale: layer", "1.5", "a whole number"},
        {"mla.score_scaled@factor=nan", "mla.score_scaled: factor", "nan", "a number"},
        {"any.nan@op=nothing", "any.nan: op", "nothing", "the name of an op"},
        {"int4.nibble_swap@matrix=side", "int4.nibble_swap: matrix", "side", "gate, up, down"},
        {"int4.nibble_swap@matrix=2", "int4.nibble_swap: matrix", "2", "gate, up, down"},
        {"int4.scales_not_cut@matrix=down", "int4.scales_not_cut", "matrix=down", "a key of"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        struct faults f = {0};
        assert_int_equal(faults_add(&f, bad[i].text, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "fault", bad[i].where, bad[i].found, bad[i].wanted);
        assert_int_equal(f.count, 0);
    }
    struct err err = ERR_INIT;
    struct faults f = {0};
    char longer[2 * FAULT_TEXT];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(faults_add(&f, longer, &err), ERR_USAGE);
    for (int i = 0; i < FAULT_ACTIVE; i++) {
        err = (struct err)ERR_INIT;
        assert_int_equal(faults_add(&f, "any.nan", &err), ERR_OK);
    }
    assert_int_equal(faults_add(&f, "any.nan", &err), ERR_USAGE);
    faults_clear(&f);
    assert_int_equal(f.count, 0);
}

static void pairs__are_joined__by_commas_or_colons(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct faults f = {0};
    assert_int_equal(faults_add(&f, "any.bit_flip@op=moe,layer=2:row=5,bit=14", &err), ERR_OK);
    assert_true(fault_value(&f.use[0], "layer") == 2 && fault_value(&f.use[0], "row") == 5);
    assert_true(fault_value(&f.use[0], "bit") == 14 && fault_value(&f.use[0], "col") == -1);
    assert_string_equal(op_rows[(int)fault_value(&f.use[0], "op")].name, "moe");
    faults_clear(&f);
}

/* ---- in a model ---- */

struct setting {
    const char *golden, *profile;
    int64_t decode_last, chunk, layer_end;
};

static const struct setting settings[] = {
    {"tiny-k25", "math", 0, 0, 3},        {"tiny-dsv3", "math", 0, 0, 3},
    {"tiny-k25", "vllm+exact", 3, 4, 3}, /* chunks, then decode steps in the absorbed form */
    {"tiny-dsv3", "vllm+exact", 3, 4, 3}, {"tiny-dsv3", "math", 0, 0, -1}, /* with the head */
};
enum { PREFILLS = 2, HEAD = 4, SETTINGS = 5, ROWS = 12, LAYER = 2 };

struct model_bench {
    struct loaded loaded;
    struct tokens tokens; /* the first ROWS of the golden's */
    struct golden golden;
    struct session_options options;
    struct tap_record clean;
};

static void model_open(struct model_bench *b, const struct setting *s)
{
    static int64_t rows = ROWS;
    struct err err = ERR_INIT;
    golden_open(&b->golden, s->golden);
    b->tokens =
        (struct tokens){.id = b->golden.tokens.id, .count = ROWS, .length = &rows, .sequences = 1};
    b->options = session_defaults();
    b->options.precision = PRECISION_F64;
    b->options.threads = 1;
    b->options.block = 4;
    b->options.layer_end = s->layer_end;
    b->options.chunk = s->chunk;
    b->options.decode_last = s->decode_last;
    (void)!profile_find(s->profile, &b->options.profile, &err);
    (void)!loaded_open(&b->loaded, b->golden.model, &err);
    assert_ok(&err);
    (void)!record_run(&b->clean, &b->loaded, &b->tokens, &b->options, NULL, NULL, &err);
    assert_ok(&err);
}

static void model_close(struct model_bench *b)
{
    record_free(&b->clean);
    loaded_close(&b->loaded);
    golden_close(&b->golden);
}

/* "ID@layer=2", "any.nan@op=mla.core,layer=2", and what a few need to have an effect. */
static const char *site_of(const struct fault_row *f, char *text)
{
    static const char *const more[][2] = {
        {"router.tie_epsilon", ",step=0.01"},
        {"mla.chunk_boundary", ",chunk=4"},
    };
    bool any = strcmp(f->hosts[0], "any") == 0;
    if (strcmp(f->hosts[0], "logits") == 0) return f->id; /* it has no layer */
    int n = snprintf(text, FAULT_TEXT, "%s@%slayer=%d", f->id, any ? "op=mla.core," : "", LAYER);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (strcmp(more[i][0], f->id) == 0)
            snprintf(text + n, (size_t)(FAULT_TEXT - n), "%s", more[i][1]);
    }
    return text;
}

/* The first tap that changed is made by a host of the fault, in its layer; rotated queries show
 * where the attention uses them. */
static void assert_place(const struct fault_row *f, const char *tap)
{
    enum tap_kind kind;
    int64_t layer;
    assert_true(tap_parse(tap, &kind, &layer));
    const char *op = tap_op(kind, true);
    bool hosted = fault_hosted_by(f, op) || (fault_hosted_by(f, "rope") && kind == TAP_ATTN_CORE);
    if (kind == TAP_EXPERTS || kind == TAP_EXPERT_WEIGHTS) hosted = fault_hosted_by(f, "router");
    int64_t wanted = kind == TAP_LOGITS ? -1 : LAYER;
    if (!hosted || layer != wanted) fail_msg("%s: the first change is at %s", f->id, tap);
}

/* Whether the fault changed anything; what it changed is in its place. */
static bool inject(const struct model_bench *b, const struct fault_row *f)
{
    struct err err = ERR_INIT;
    struct faults faults = {.count_changes = true};
    struct tap_record r;
    char text[FAULT_TEXT];
    (void)!faults_add(&faults, site_of(f, text), &err);
    assert_ok(&err);
    enum err_code rc = record_run(&r, &b->loaded, &b->tokens, &b->options, &faults, NULL, &err);
    bool changed = faults.use[0].changed > 0;
    if (strcmp(f->detector, "exit status") == 0) {
        assert_int_equal(rc, ERR_INPUT);
    } else {
        int first = rc == ERR_OK ? record_first_change(&b->clean, &r) : -1;
        if (rc != ERR_OK) fail_msg("%s: %s", text, err.found);
        if (faults.use[0].calls == 0) fail_msg("%s: no call", text);
        if (changed != (first >= 0)) fail_msg("%s: counted %d, first %d", text, changed, first);
        if (first >= 0) assert_place(f, r.tap[first].name);
    }
    record_free(&r);
    faults_clear(&faults);
    return changed;
}

/* Faults that no tiny model can show: a case of one host that does. */
static const char *const cases[] = {
    "int4 zero=1,fault=int4.zero_point_minus_one",
    "int4 zero=1,fault=int4.zero_point_wraps",
    "int4 zero=1,fault=int4.zero_point_ignored",
    "linear format=fp8,group=16,fault=fp8.scale_divided",
    "linear format=fp8,group=16,out=40,fault=fp8.block_row",
    "router norm=0,fault=router.topk_norm_added",
    "router T=64,E=16,groups=4,top_groups=1,k=3,scoring=softmax,fault=router.group_mask_zero",
    "mla.kv T=3,L=32,R=8,gain=30,fault=mla.rope_key_saturates",
    "norm H=256,gain=100,fault=norm.fp16_overflow",
};

static bool shown_by_case(const struct fault_row *f)
{
    static const struct op_subject sides[] = {
        {.side = NULL, .own_precision = true, .precision = PRECISION_F64},
        {.side = NULL, .own_precision = true, .precision = PRECISION_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct op_case c;
        struct op_result r;
        struct op_subject s[2] = {sides[0], sides[1]};
        s[0].side = s[1].side = ref_side();
        (void)!case_parse(&c, cases[i], &err);
        assert_ok(&err);
        if (strcmp(case_fault(&c), f->id) != 0) continue;
        (void)!op_run_case(&c, s, 2, &r, &err);
        assert_ok(&err);
        assert_int_equal(r.verdict, OP_FAIL);
        assert_int_equal(r.fault_calls, 1);
        return r.fault_changed == 1;
    }
    return false;
}

/* Rows whose effect needs inputs of their own: the tests of their families. */
static bool shown_elsewhere(const struct fault_row *f)
{
    return strcmp(f->id, "router.max_from_minus_one") == 0 ||
           strcmp(f->id, "router.bf16_bias") == 0;
}

static void every_fault__changes_its_host_and_nothing_before__and_is_gone_after(void **state)
{
    static struct model_bench bench[SETTINGS];
    (void)state;
    for (int s = 0; s < SETTINGS; s++) model_open(&bench[s], &settings[s]);
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *f = fault_at(i);
        int changed = 0;
        struct err err = ERR_INIT;
        struct tap_record after;
        /* Those of a draft head have tests of their own: test_fault_eagle.c. */
        if (f->stage != FAULT_OP || strncmp(f->hosts[0], "eagle.", 6) == 0) continue;
        bool head = strcmp(f->hosts[0], "logits") == 0;
        bool cached = strncmp(f->id, "mla.", 4) == 0; /* decode steps differ from a prefill */
        for (int s = 0; s < HEAD && !head && (s < PREFILLS || cached || !changed); s++)
            changed += inject(&bench[s], f);
        if (head) changed = inject(&bench[HEAD], f);
        if (changed == 0 && !shown_by_case(f) && !shown_elsewhere(f))
            fail_msg("%s changed nothing anywhere", f->id);
        (void)!record_run(&after, &bench[0].loaded, &bench[0].tokens, &bench[0].options, NULL, NULL,
                          &err);
        assert_ok(&err);
        assert_int_equal(record_first_change(&bench[0].clean, &after), -1);
        record_free(&after);
    }
    for (int s = 0; s < SETTINGS; s++) model_close(&bench[s]);
}

static void row_key__is_a_row_of_the_batch__whatever_the_steps(void **state)
{
    struct model_bench b;
    struct err err = ERR_INIT;
    struct faults faults = {0};
    struct tap_record r;
    (void)state;
    model_open(&b, &settings[2]); /* chunks of 4, then one row a step */
    (void)!faults_add(&faults, "any.zero_row@op=mla.output,layer=2,row=10", &err);
    assert_ok(&err);
    (void)!record_run(&r, &b.loaded, &b.tokens, &b.options, &faults, NULL, &err);
    assert_ok(&err);
    const struct recorded *clean = record_find(&b.clean, "layers.2.attn");
    const struct recorded *got = record_find(&r, "layers.2.attn");
    for (int64_t i = 0; i < clean->rows * clean->cols; i++) {
        double want = i / clean->cols == 10 ? 0 : ((const double *)clean->data)[i];
        assert_true(((const double *)got->data)[i] == want);
    }
    record_free(&r);
    faults_clear(&faults);
    model_close(&b);
}

/* Every allocation of every fault fails once, on the first host's default case. */
static void memory__that_runs_short__is_an_error_and_no_more(void **state)
{
    (void)state;
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *f = fault_at(i);
        if (f->stage != FAULT_OP) continue;
        struct fault_bench b;
        struct arena arena = ARENA_INIT;
        const char *op = strcmp(f->hosts[0], "any") == 0 ? "norm" : f->hosts[0];
        char line[64];
        int failed = 0;
        snprintf(line, sizeof line, "%s%s", op,
                 strcmp(op, "moe") == 0 ? " format=int4,k=8,group=8" : "");
        bench_open(&b, line);
        b.run.arena = &arena;
        for (arena.bytes_max = 1; failed < 100000; arena.bytes_max += 1 + arena.bytes_max / 16) {
            struct err err = ERR_INIT;
            enum err_code rc = bench_try(f->id, op, b.data.op, &b.run, &err);
            if (arena.bytes != 0 || (rc != ERR_OK && rc != ERR_MEMORY))
                fail_msg("%s: status %d, %zu bytes left", f->id, rc, arena.bytes);
            if (rc == ERR_OK) break;
            failed++;
        }
        assert_true(failed < 100000);
        arena_release(&arena, NULL);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row__says_all_of_itself),
        cmocka_unit_test(text_of_every_row__reads_back__as_the_same_fault),
        cmocka_unit_test(texts__are_refused__with_what_is_wrong),
        cmocka_unit_test(pairs__are_joined__by_commas_or_colons),
        cmocka_unit_test(memory__that_runs_short__is_an_error_and_no_more),
        cmocka_unit_test(row_key__is_a_row_of_the_batch__whatever_the_steps),
        cmocka_unit_test(every_fault__changes_its_host_and_nothing_before__and_is_gone_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
