/* test_diff_head.c: draft taps beside a model and its head: held at the subject's own states and
 * tokens, a bug of the head is located (op, step) and named; what is right is green. */
#include "core/text.h"
#include "harness/campaign_case.h"
#include "harness/campaign_subject.h"
#include "harness/diff.h"
#include "harness/rerun.h"
#include "tests/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct beside {
    struct campaign_case c;
    struct loaded loaded;
    char dump[FILE_PATH];
};

/* Case i of seed 5: heads of Llama for odd i + 5, of DeepSeek for even ones. */
static void open_case(struct beside *b, void **state, int64_t i)
{
    struct err err = ERR_INIT;
    char folder[FILE_PATH];
    snprintf(folder, sizeof folder, "%s/case-%d", (const char *)*state, (int)i);
    snprintf(b->dump, sizeof b->dump, "%s/subject.safetensors", (const char *)*state);
    if (campaign_case_make(&b->c, i, 5, folder, &err) != ERR_OK ||
        loaded_open(&b->loaded, b->c.model, &err) != ERR_OK)
        assert_ok(&err);
}

static void close_case(struct beside *b)
{
    loaded_close(&b->loaded);
    campaign_case_close(&b->c);
}

/* The subject under a fault (NULL: none), in an order of sums that is not the reference's; only
 * taps that fit `taps` (NULL: all), or are a draft's where it ends in '+', are written. */
static void write_subject(const struct beside *b, const char *fault, const char *taps,
                          enum subject_order order)
{
    struct err err = ERR_INIT;
    struct faults faults = {0};
    struct subject s;
    const struct subject_how how = {
        .profile = "hf4", .order = order, .threads = 1, .head = b->c.head};
    char glob[64] = "";
    snprintf(glob, sizeof glob, "%.*s", taps ? (int)strcspn(taps, "+") : 0, taps ? taps : "");
    if (fault && faults_add(&faults, fault, &err) != ERR_OK) assert_ok(&err);
    if (subject_run(&s, &b->loaded, &b->c.tokens, how, &faults, &err) != ERR_OK) assert_ok(&err);
    for (int64_t i = 0; i < s.count; i++) {
        assert_true(s.given[i]);
        bool draft = taps && strchr(taps, '+') && tap_is_draft(s.taps[i].kind);
        s.given[i] = !taps || draft || text_glob(glob, s.taps[i].name);
    }
    if (subject_write(&s, &b->c.tokens, "hf4", b->dump, &err) != ERR_OK) assert_ok(&err);
    subject_free(&s);
    faults_clear(&faults);
}

static struct diff_request request(const struct beside *b)
{
    return (struct diff_request){.subject = b->dump,
                                 .model = b->c.model,
                                 .draft = b->c.head,
                                 .bound = NAN,
                                 .threads = 1,
                                 .anchor = true,
                                 .diagnose = true};
}

static enum err_code run(struct diff *d, const struct diff_request *r)
{
    struct err err = ERR_INIT;
    enum err_code rc = diff_run(d, r, &err);
    assert_ok(&err);
    return rc;
}

/* Some claim of one fault is `text`. */
static bool claimed(const struct diff *d, const char *text)
{
    char one[FAULT_TEXT];
    const struct diagnosis *g = &d->diagnosis;
    for (int64_t i = 0; i < g->claimed; i++) {
        if (g->claims[i].second < 0 && strcmp(fault_print(&g->claims[i].use[0], one), text) == 0)
            return true;
    }
    return false;
}

static const struct {
    const char *fault, *op;
    int64_t step;
} faults[] = {
    {"eagle.aux_off_by_one", "eagle.fc", 0},
    {"eagle.aux_off_by_one@by=-1", "eagle.fc", 0},
    {"eagle.aux_order", "eagle.fc", 0},
    {"eagle.aux_order@order=3", "eagle.fc", 0},
    {"eagle.fc_skipped@slice=0", "eagle.fc", 0},
    {"eagle.no_shift@draft_step=0", "eagle.layer", 0},
    {"eagle.concat_swapped@draft_step=0", "eagle.layer", 0},
    {"eagle.concat_swapped@draft_step=2", "eagle.layer", 2},
    {"eagle.residual_normed@draft_step=1", "eagle.layer", 1},
    {"eagle.feedback_post_norm@draft_step=1", "eagle.layer", 1},
    {"eagle.stale_draft_kv@draft_step=1", "eagle.layer", 1},
    {"eagle.d2t_absolute@draft_step=0", "eagle.layer", 0},
    {"eagle.d2t_absolute@draft_step=1", "eagle.layer", 1},
    {"any.zero_row@op=eagle.layer,draft_step=1,row=4", "eagle.layer", 1},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static void bug_of_a_head__is_located_and_named__and_nothing_is_without_it(void **state)
{
    int64_t named[FAULTS] = {0};
    for (int64_t i = 2; i < 6; i++) {
        struct beside b;
        open_case(&b, state, i);
        for (int f = 0; f < FAULTS; f++) {
            struct diff d = {0};
            struct diff_request r = request(&b);
            write_subject(&b, faults[f].fault, NULL, ORDER_F64);
            if (run(&d, &r) == ERR_OK) { /* EAGLE-3.1, a head without d2t, an id that is clamped */
                diff_close(&d);
                continue;
            }
            assert_non_null(d.guilty.pair);
            if (strcmp(d.guilty.op, faults[f].op) != 0 || d.guilty.layer != faults[f].step)
                fail_msg("case %d, %s: guilty is %s, step %d", (int)i, faults[f].fault, d.guilty.op,
                         (int)d.guilty.layer);
            if (!claimed(&d, faults[f].fault))
                fail_msg("case %d, %s: %d claims", (int)i, faults[f].fault,
                         (int)d.diagnosis.claimed);
            named[f]++;
            /* Held at the subject's own: what came after it is right. */
            bool alone = strcmp(faults[f].op, "eagle.fc") == 0 || strstr(faults[f].fault, "d2t") ||
                         strstr(faults[f].fault, "residual");
            if (alone) assert_int_equal(d.failed, 1);
            diff_close(&d);
            if (i > 3) continue;
            char id[FAULT_TEXT];
            snprintf(id, sizeof id, "%s", faults[f].fault);
            id[strcspn(id, "@")] = '\0';
            const char *const without[] = {id, "any.stale_row", NULL};
            r.without = without;
            (void)run(&d, &r);
            assert_int_equal(d.diagnosis.claimed, 0);
            diff_close(&d);
        }
        close_case(&b);
    }
    for (int f = 0; f < FAULTS; f++) {
        if (named[f] == 0) fail_msg("%s changed nothing anywhere", faults[f].fault);
    }
}

/* draft.0.fused of a head under a fault; the caller's. */
static uint16_t *fused_under(const struct beside *b, const char *head, const char *fault,
                             int64_t *cells)
{
    struct err err = ERR_INIT;
    struct faults list = {0};
    struct subject s;
    int64_t i = 0;
    uint16_t *out = NULL;
    const struct subject_how how = {.profile = "hf4", .threads = 1, .head = head};
    if (fault && faults_add(&list, fault, &err) != ERR_OK) assert_ok(&err);
    if (subject_run(&s, &b->loaded, &b->c.tokens, how, &list, &err) != ERR_OK) assert_ok(&err);
    while (s.taps[i].kind != TAP_DRAFT_FUSED) i++;
    *cells = s.draft_rows * s.taps[i].cols;
    out = s.data[i];
    s.data[i] = NULL;
    subject_free(&s);
    faults_clear(&list);
    return out;
}

/* Off by one is the run of a head whose config says ids that are. */
static void aux_off_by_one__is_a_head_of_other_ids(void **state)
{
    struct beside b;
    open_case(&b, state, 4);
    int64_t L = b.loaded.model.config->layers, cells;
    char *text = read_whole(textf("%s/head.json", b.c.model), NULL),
         *edited = replaced(text, textf("[0, %d, %d]", (int)(L / 2), (int)(L - 1)),
                            textf("[1, %d, %d]", (int)(L / 2 + 1), (int)L));
    const char *later = textf("synth:%s?seed=5", folder_path(state, "later.json"));
    write_text(folder_path(state, "later.json"), edited);
    const struct {
        const char *fault, *head, *same;
    } pairs[] = {{"eagle.aux_off_by_one", b.c.head, later},
                 {"eagle.aux_off_by_one@by=-1", later, b.c.head}};
    for (int i = 0; i < 2; i++) {
        uint16_t *a = fused_under(&b, pairs[i].head, pairs[i].fault, &cells),
                 *same = fused_under(&b, pairs[i].same, NULL, &cells),
                 *clean = fused_under(&b, pairs[i].head, NULL, &cells);
        assert_memory_equal(a, same, (size_t)cells * sizeof *a);
        assert_memory_not_equal(a, clean, (size_t)cells * sizeof *a);
        free(a);
        free(same);
        free(clean);
    }
    free(text);
    free(edited);
    close_case(&b);
}

/* A row is one of the batch, whatever sequence it is in. */
static void row_of_a_fault__is_the_batchs(void **state)
{
    struct beside b;
    int64_t i = 2, cells;
    for (open_case(&b, state, i); b.c.tokens.sequences < 2; open_case(&b, state, ++i))
        close_case(&b);
    int64_t first = b.c.tokens.length[0], rows = b.c.tokens.count - 2;
    uint16_t *zero =
        fused_under(&b, b.c.head, textf("any.zero_row@op=eagle.fc,row=%d", (int)first), &cells);
    for (int64_t k = 0; k < cells; k++) {
        bool there = k / (cells / rows) == first - 1; /* the last token of the first has no row */
        assert_true(there ? zero[k] == 0 : zero[k] != 0);
    }
    free(zero);
    close_case(&b);
}

/* What the subject did not record comes from the reference: the op is then one of several. */
static void partial_dump__names_the_bug_too(void **state)
{
    static const struct {
        const char *taps, *fault, *first;
    } partial[] = {
        {"draft.*", "eagle.aux_order@order=1", "draft.0.fused"},
        {"draft.*.hidden", "eagle.aux_order@order=1", "draft.0.hidden"},
        {"draft.*.hidden", "eagle.residual_normed@draft_step=1", "draft.1.hidden"},
        {"draft.*.logits", "eagle.concat_swapped@draft_step=0", "draft.0.logits"},
        {"draft.*.tokens", "eagle.d2t_absolute@draft_step=0", "draft.0.tokens"},
    };
    struct beside b;
    open_case(&b, state, 2);
    for (size_t i = 0; i < sizeof partial / sizeof partial[0]; i++) {
        struct diff d = {0};
        struct diff_request r = request(&b);
        write_subject(&b, partial[i].fault, partial[i].taps, ORDER_F64);
        assert_int_equal(run(&d, &r), ERR_DIFF);
        assert_string_equal(d.guilty.pair->subject->name, partial[i].first);
        if (!claimed(&d, partial[i].fault))
            fail_msg("%s of %s: %d claims", partial[i].fault, partial[i].taps,
                     (int)d.diagnosis.claimed);
        diff_close(&d);
    }
    close_case(&b);
}

static void clean_head__is_green_and_everything_was_compared(void **state)
{
    for (int64_t i = 2; i < 7; i++) {
        struct beside b;
        open_case(&b, state, i);
        for (int order = 0; order < ORDERS; order++) {
            for (int anchor = 0; anchor < 2; anchor++) {
                struct diff d = {0};
                struct diff_request r = request(&b);
                r.anchor = r.diagnose = anchor;
                write_subject(&b, NULL, NULL, (enum subject_order)order);
                if (run(&d, &r) != ERR_OK)
                    fail_msg("case %d, order %d: %s", (int)i, order,
                             d.first < 0 ? "nothing" : d.rows.pairs[d.first].subject->name);
                assert_int_equal(d.compared, d.subject.count);
                assert_int_equal(d.rows.extra_count, 0);
                diff_close(&d);
            }
        }
        close_case(&b);
    }
}

/* A bug of the target is none of the head's: its states are the subject's where they are known. */
static void bug_of_the_target__leaves_the_head_green(void **state)
{
    struct beside b;
    struct diff d = {0};
    open_case(&b, state, 3);
    struct diff_request r = request(&b);
    r.diagnose = false;
    write_subject(&b, "any.zero_row@op=mla.core,layer=1,row=2", "layers.*.output+", ORDER_F64);
    assert_int_equal(run(&d, &r), ERR_DIFF);
    assert_string_equal(d.guilty.pair->subject->name, "layers.1.output");
    assert_int_equal(d.failed, 1);
    diff_close(&d);
    close_case(&b);
}

static void without_an_anchor__the_first_tap_is_the_bugs(void **state)
{
    struct beside b;
    struct diff d = {0};
    open_case(&b, state, 3);
    struct diff_request r = request(&b);
    r.anchor = r.diagnose = false;
    write_subject(&b, "eagle.residual_normed@draft_step=1", NULL, ORDER_F64);
    assert_int_equal(run(&d, &r), ERR_DIFF);
    assert_string_equal(d.rows.pairs[d.first].subject->name, "draft.1.hidden");
    diff_close(&d);
    close_case(&b);
}

static void verb__says_op_step_name_and_replay(void **state)
{
    struct beside b;
    open_case(&b, state, 3);
    write_subject(&b, "eagle.concat_swapped@draft_step=1", NULL, ORDER_F64);
    json_t *r = cli_fails("diff", b.dump, "--model", b.c.model, "--draft", b.c.head, "--diagnose",
                          "--threads", "1");
    const json_t *guilty = field(r, "guilty"), *first = json_array_get(field(r, "diagnosis"), 0);
    assert_string_equal(field_text(guilty, "op"), "eagle.layer");
    assert_int_equal(field_int(guilty, "layer"), -1);
    assert_int_equal(field_int(guilty, "draft_step"), 1);
    assert_string_equal(field_text(first, "fault"), "eagle.concat_swapped");
    assert_string_equal(field_text(first, "site"), "draft_step=1");
    assert_non_null(strstr(field_text(r, "replay"), "assay op eagle.layer 'H="));
    assert_non_null(strstr(field_text(r, "replay"), ",fault=eagle.concat_swapped'"));
    json_decref(r);
    struct cli text;
    cli(&text, "diff", b.dump, "--model", b.c.model, "--draft", b.c.head, "--anchor");
    assert_non_null(strstr(text.out, "guilty: op eagle.layer, draft step 1, from"));
    cli_free(&text);
    close_case(&b);
}

/* Without faults it has the bits of the comparison's run, in every kept tap. */
static void steps_run_again__have_the_runs_bits(void **state)
{
    struct beside b;
    struct diff d = {0};
    struct rerun r;
    struct rerun_taps taps;
    struct err err = ERR_INIT;
    open_case(&b, state, 4); /* two sequences, or one: whatever is drawn */
    struct diff_request q = request(&b);
    q.diagnose = false;
    write_subject(&b, "eagle.residual_normed@draft_step=1", NULL, ORDER_F64);
    assert_int_equal(run(&d, &q), ERR_DIFF);
    if (rerun_open(&r, &d, 1, &err) != ERR_OK || rerun_taps_make(&taps, &r, &err) != ERR_OK)
        assert_ok(&err);
    assert_int_equal(r.count, 3); /* hidden, logits, tokens of step 1 */
    const struct rerun_how how = {.side = RERUN_MATH, .taps = r.count};
    if (rerun_go(&r, how, &taps, &err) != ERR_OK) assert_ok(&err);
    for (int64_t i = 0; i < r.count; i++) {
        const struct dump_tap *t = dump_find(&d.math, taps.dump.taps[i].name);
        size_t cell = r.taps[i].ints ? sizeof(int32_t) : sizeof(double);
        assert_int_equal(t->tensor->count, taps.tensors[i].count);
        assert_memory_equal(t->tensor->data, taps.tensors[i].data, (size_t)t->tensor->count * cell);
    }
    rerun_taps_free(&taps);
    rerun_close(&r);
    diff_close(&d);
    close_case(&b);
}

static void head_that_cannot_be_the_subjects__is_refused(void **state)
{
    struct beside b;
    struct err err = ERR_INIT;
    struct diff d = {0};
    open_case(&b, state, 2);
    write_subject(&b, NULL, "layers.*", ORDER_F64);
    struct diff_request r = request(&b);
    assert_int_equal(diff_run(&d, &r, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "diff --draft", b.dump, "no draft tap", "draft.0.hidden");
    diff_close(&d);
    /* A dump that says which head it is of. */
    char *text = read_whole(textf("%s/head.json", b.c.model), NULL),
         *edited = replaced(text, "\"intermediate_size\": 96", "\"intermediate_size\": 64");
    const char *other = textf("synth:%s?seed=5", folder_path(state, "other.json"));
    write_text(folder_path(state, "other.json"), edited);
    free(text);
    free(edited);
    json_t *f = cli_passes("forward", b.c.model, "--tokens", "1,2,3,4", "--draft", b.c.head,
                           "--out", b.dump);
    json_decref(f);
    cli_refuses(state, ((struct refusal){2, "diff --draft", other, "a head of config", NULL}),
                "diff", b.dump, "--model", b.c.model, "--draft", other);
    cli_refuses(
        state,
        ((struct refusal){2, "arguments", "diff", "--draft without --model", "--model MODEL"}),
        "diff", b.dump, b.dump, "--draft", b.c.head);
    close_case(&b);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(bug_of_a_head__is_located_and_named__and_nothing_is_without_it),
        IN_FOLDER(aux_off_by_one__is_a_head_of_other_ids),
        IN_FOLDER(row_of_a_fault__is_the_batchs),
        IN_FOLDER(partial_dump__names_the_bug_too),
        IN_FOLDER(clean_head__is_green_and_everything_was_compared),
        IN_FOLDER(bug_of_the_target__leaves_the_head_green),
        IN_FOLDER(without_an_anchor__the_first_tap_is_the_bugs),
        IN_FOLDER(verb__says_op_step_name_and_replay),
        IN_FOLDER(steps_run_again__have_the_runs_bits),
        IN_FOLDER(head_that_cannot_be_the_subjects__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
