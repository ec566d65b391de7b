/* test_head_map.c: a head's vocabulary map: what is refused, that the loose reader keeps it, and
 * the drafted ids of a synthetic head. */
#include "tests/heads.h"

#include "core/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens the head both ways: refused with this line, and kept by the loose reader. */
static void refused(void **state, const struct heads *parts, const char *config, const char *found,
                    const char *wanted)
{
    struct err err = ERR_INIT;
    struct head h;
    heads_write(state, parts, config);
    if (head_open(&h, *state, NULL, &err) == ERR_OK) fail_msg("taken, not %s", found);
    assert_err(&err, ERR_INPUT, "draft vocabulary", *state, found, wanted);
    head_close(&h);
    err_clear(&err);
    (void)!head_open_loose(&h, *state, NULL, &err);
    assert_ok(&err);
    assert_null(h.target_id);
    assert_int_equal(h.mapped, h.d2t != NULL);
    head_close(&h);
}

struct map_row {
    int64_t d2t[HEADS_VD];
    const char *found, *wanted;
};

static void d2t__is_refused__when_it_is_no_map(void **state)
{
    static const struct map_row rows[] = {
        {{-1, 2, 3, 6, 14, 14}, "offset -1", "0 + offset inside 0..19"},
        {{2, 2, 3, 6, 14, 15}, "offset 15", "5 + offset inside 0..19"},
        {{2, 2, 3, 6, 14, INT64_MAX}, "offset 9223372036854775807", "inside 0..19"},
        {{2, 2, 3, 6, 14, INT64_MIN}, "offset -9223372036854775808", "inside 0..19"},
        {{2, 1, 3, 6, 14, 14}, "target id 2 after 2", "ascending target ids"},
        {{6, 2, 3, 6, 14, 14}, "target id 3 after 6", "offsets: id - index"},
        /* The ids themselves, as if they were no offsets. */
        {{2, 3, 5, 9, 15, 14}, "target id 19 after 19", "ascending"},
        /* Zeros are the identity: the first six ids, which t2d does not mark. */
        {{0, 0, 0, 0, 0, 0}, "0", "1, as d2t says"},
        {{2, 2, 3, 6, 13, 14}, "0", "1, as d2t says"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct heads parts;
        heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
        heads_part(&parts, "d2t")->data = rows[i].d2t;
        refused(state, &parts, HEADS_LLAMA, rows[i].found, rows[i].wanted);
    }
}

static void t2d__is_refused__when_it_marks_other_ids(void **state)
{
    static const struct {
        int64_t id;
        unsigned char value;
        const char *found, *wanted;
    } rows[] = {{0, 1, "1", "0, as d2t says"},
                {2, 0, "0", "1, as d2t says"},
                {19, 0, "0", "1, as d2t says"},
                {17, 1, "1", "0, as d2t says"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char marks[HEADS_V] = {[2] = 1, [3] = 1, [5] = 1, [9] = 1, [18] = 1, [19] = 1};
        struct heads parts;
        heads_make(&parts, HEAD_SAFEAI, HEAD_LLAMA, 1);
        marks[rows[i].id] = rows[i].value;
        heads_part(&parts, "t2d")->data = marks;
        refused(state, &parts, HEADS_FLAT, rows[i].found, rows[i].wanted);
    }
}

static void a_map__is_refused__of_another_form(void **state)
{
    struct heads parts;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_part(&parts, "d2t")->shape[0] = 5;
    refused(state, &parts, HEADS_LLAMA, "[5] I64", "[6] I64 or I32, as draft_vocab_size says");
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_part(&parts, "d2t")->dtype = DT_F32;
    refused(state, &parts, HEADS_LLAMA, "[6] F32", "[6] I64 or I32");
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    *heads_part(&parts, "d2t") = (struct st_part){"d2t", DT_I64, 2, {1, 6}, NULL};
    refused(state, &parts, HEADS_LLAMA, "[1, 6] I64", "[6] I64");
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_part(&parts, "t2d")->shape[0] = 19;
    refused(state, &parts, HEADS_LLAMA, "[19] BOOL", "[20] BOOL or U8, as vocab_size says");
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    *heads_part(&parts, "t2d") = (struct st_part){"t2d", DT_I64, 1, {20}, NULL};
    refused(state, &parts, HEADS_LLAMA, "[20] I64", "BOOL or U8");
}

static void a_smaller_vocabulary__needs_its_map(void **state)
{
    struct heads parts;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_drop(&parts, "d2t");
    refused(state, &parts, HEADS_LLAMA, "no d2t", "draft_vocab_size 6 is below vocab_size 20");
    heads_drop(&parts, "t2d");
    refused(state, &parts, HEADS_LLAMA, "no d2t", "draft_vocab_size 6 is below vocab_size 20");
}

static void two_maps__are_one_too_many(void **state)
{
    struct err err = ERR_INIT;
    struct head h;
    struct heads parts;
    heads_make(&parts, HEAD_VLLM, HEAD_LLAMA, 1);
    heads_add(&parts, "d2t", 0, HEADS_VD)->dtype = DT_I64;
    heads_write(state, &parts, HEADS_FLAT);
    assert_int_equal(head_open_loose(&h, *state, NULL, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "draft vocabulary", *state, "d2t and draft_id_to_target_id", "one");
    head_close(&h);
}

static void a_map_of_int32__is_read(void **state)
{
    static const int32_t offsets[HEADS_VD] = {0, 0, 0, 1, 1, 14};
    static const int64_t ids[HEADS_VD] = {0, 1, 2, 4, 5, 19};
    struct err err = ERR_INIT;
    struct head h;
    struct heads parts;
    heads_make(&parts, HEAD_MODELOPT, HEAD_LLAMA, 1);
    heads_part(&parts, "d2t")->dtype = DT_I32;
    heads_part(&parts, "d2t")->data = offsets;
    heads_write(state, &parts, HEADS_MODELOPT);
    (void)!head_open(&h, *state, NULL, &err);
    assert_ok(&err);
    assert_memory_equal(h.target_id, ids, sizeof ids);
    head_close(&h);
}

/* A full vocabulary may carry a map all the same: it must be the identity. */
static void a_full_vocabulary__has_the_identity(void **state)
{
    static int64_t zeros[HEADS_V], one[HEADS_V] = {[HEADS_V - 1] = 1};
    unsigned char marks[HEADS_V];
    char *text = heads_edited(HEADS_LLAMA, "'draft_vocab_size': 6 -> 'draft_vocab_size': 20");
    struct err err = ERR_INIT;
    struct head h;
    struct heads parts;
    memset(marks, 1, sizeof marks);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_part(&parts, "lm_head.weight")->shape[0] = HEADS_V;
    heads_part(&parts, "d2t")->shape[0] = HEADS_V;
    heads_part(&parts, "d2t")->data = zeros;
    heads_part(&parts, "t2d")->data = marks;
    heads_write(state, &parts, text);
    (void)!head_open(&h, *state, NULL, &err);
    assert_ok(&err);
    assert_true(h.mapped);
    for (int64_t i = 0; i < HEADS_V; i++) assert_int_equal(h.target_id[i], i);
    head_close(&h);
    heads_part(&parts, "d2t")->data = one;
    refused(state, &parts, text, "offset 1", "19 + offset inside 0..19");
    heads_drop(&parts, "d2t");
    marks[7] = 0;
    refused(state, &parts, text, "0", "1, as a full draft vocabulary says");
    free(text);
}

/* The loose reader is loose about the map alone. */
static void the_loose_reader__refuses_everything_else(void **state)
{
    struct err err = ERR_INIT;
    struct head h;
    struct heads parts;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_drop(&parts, "fc.weight");
    heads_write(state, &parts, HEADS_LLAMA);
    assert_int_equal(head_open_loose(&h, *state, NULL, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "head tensors", *state, "fc.weight is missing", NULL);
    head_close(&h);
}

/* The ids with the smallest x of the name d2t, by counting instead of sorting. */
static void a_synthetic_map__takes_the_smallest_hashes(void **state)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        char spec[FILE_PATH + 32], *text = heads_json(HEADS_LLAMA);
        struct err err = ERR_INIT;
        struct head h;
        int64_t at = 0;
        write_text(folder_path(state, "config.json"), text);
        snprintf(spec, sizeof spec, "synth:%s?seed=%llu", folder_path(state, "config.json"),
                 (unsigned long long)seed);
        (void)!head_open(&h, spec, NULL, &err);
        assert_ok(&err);
        for (int64_t id = 0; id < HEADS_V; id++) {
            int64_t smaller = 0;
            for (int64_t k = 0; k < HEADS_V; k++)
                smaller +=
                    synth_x(synth_base(seed, "d2t"), k) < synth_x(synth_base(seed, "d2t"), id);
            if (smaller < HEADS_VD) assert_int_equal(h.target_id[at++], id);
        }
        assert_int_equal(at, HEADS_VD);
        head_close(&h);
        free(text);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(d2t__is_refused__when_it_is_no_map),
        IN_FOLDER(t2d__is_refused__when_it_marks_other_ids),
        IN_FOLDER(a_map__is_refused__of_another_form),
        IN_FOLDER(a_smaller_vocabulary__needs_its_map),
        IN_FOLDER(two_maps__are_one_too_many),
        IN_FOLDER(a_map_of_int32__is_read),
        IN_FOLDER(a_full_vocabulary__has_the_identity),
        IN_FOLDER(the_loose_reader__refuses_everything_else),
        IN_FOLDER(a_synthetic_map__takes_the_smallest_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
