/* test_dump.c: dumps written through the sink in chunks of rows, read back, and dumps of others. */
#include "tests/assert_array.h"
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5 };

static struct tap *taps_of_k25(int64_t end, int64_t *count)
{
    struct err err = ERR_INIT;
    struct config c;
    struct tap *taps;
    (void)!config_parse(CONFIG_K25, (int64_t)strlen(CONFIG_K25), "t", &c, &err);
    assert_ok(&err);
    (void)!tap_list(&c, 0, end, &taps, count, &err);
    assert_ok(&err);
    return taps;
}

/* The value of a cell: different for every tap, row and column, and not exact in float32. */
static double cell(int64_t tap, int64_t row, int64_t col)
{
    return (double)(tap * 1000 + row * 100 + col) + 0.1;
}

/* Gives rows of every tap to the sink in the order `order`, `chunk` at a time. */
static void write_rows(struct dump_out *d, const struct tap *taps, int64_t count,
                       const int64_t *order, int64_t chunk, struct err *err)
{
    for (int64_t first = 0; first < ROWS; first += chunk) {
        struct rows rows = {.count = ROWS - first < chunk ? ROWS - first : chunk,
                            .dump_row = order + first};
        for (int64_t t = 0; t < count; t++) {
            assert_true(d->sink.wants(d->sink.ctx, taps[t].name));
            double x[ROWS * 64];
            int32_t k[ROWS * 64];
            for (int64_t i = 0; i < rows.count * taps[t].cols; i++) {
                x[i] = cell(t, rows.dump_row[i / taps[t].cols], i % taps[t].cols);
                k[i] = (int32_t)x[i];
            }
            (void)!(taps[t].ints
                        ? d->sink.ints(d->sink.ctx, taps[t].name, &rows, taps[t].cols, k, err)
                        : d->sink.reals(d->sink.ctx, taps[t].name, &rows, taps[t].cols, x, err));
            if (err->code != ERR_OK) return;
        }
    }
}

static void check_back(const char *path, const struct tap *taps, int64_t count, enum dtype reals,
                       int64_t first, int64_t end)
{
    struct err err = ERR_INIT;
    struct dump d;
    (void)!dump_open(&d, path, &err);
    assert_ok(&err);
    assert_int_equal(d.count, count);
    assert_int_equal(d.rows, end - first);
    for (int64_t t = 0; t < count; t++) {
        const struct dump_tap *tap = dump_find(&d, taps[t].name);
        assert_non_null(tap);
        assert_ptr_equal(tap, &d.taps[t]); /* the planned order is the order of execution */
        assert_true(tap->known);
        assert_int_equal(tap->kind, taps[t].kind);
        assert_int_equal(tap->layer, taps[t].layer);
        assert_int_equal(tap->cols, taps[t].cols);
        enum dtype type = reals == DT_BF16 ? tap_dtype(taps[t].kind, reals) : reals;
        assert_int_equal(tap->tensor->dtype, taps[t].ints ? DT_I32 : type);
        double got[ROWS * 64], want[ROWS * 64];
        dtype_to_f64(tap->tensor->dtype, tap->tensor->data, tap->rows * tap->cols, got);
        for (int64_t i = 0; i < tap->rows * tap->cols; i++) {
            double x = cell(t, first + i / tap->cols, i % tap->cols);
            want[i] = taps[t].ints ? (double)(int32_t)x : dtype_round(type, x);
        }
        assert_f64_bits(got, want, tap->rows, tap->cols);
    }
    dump_close(&d);
    dump_close(&d);
}

static void write__is_read_back__in_any_order_and_chunks(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(3, &count);
    static const int64_t orders[2][ROWS] = {{0, 1, 2, 3, 4}, {3, 0, 4, 2, 1}};
    for (int64_t chunk = 1; chunk <= ROWS; chunk++) {
        static const enum dtype types[] = {DT_F32, DT_F64, DT_BF16};
        for (int o = 0; o < 3; o++) {
            struct err err = ERR_INIT;
            struct dump_out d;
            char path[FILE_PATH];
            enum dtype reals = types[o];
            snprintf(path, sizeof path, "%s", folder_path(state, "dump.safetensors"));
            (void)!dump_create(&d, path, taps, count, ROWS, 0, ROWS, reals, NULL, 0, &err);
            assert_ok(&err);
            write_rows(&d, taps, count, orders[o % 2], chunk, &err);
            assert_ok(&err);
            assert_int_equal(dump_commit(&d, &err), ERR_OK);
            dump_abandon(&d);
            check_back(path, taps, count, reals, 0, ROWS);
        }
    }
    free(taps);
}

static void write__keeps_only_the_asked_rows(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(2, &count);
    static const int64_t order[ROWS] = {4, 3, 2, 1, 0};
    struct err err = ERR_INIT;
    struct dump_out d;
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "dump.safetensors"));
    (void)!dump_create(&d, path, taps, count, ROWS, 2, 4, DT_F32, NULL, 0, &err);
    assert_ok(&err);
    assert_int_equal(d.kept, 2);
    write_rows(&d, taps, count, order, 2, &err);
    assert_ok(&err);
    assert_int_equal(dump_commit(&d, &err), ERR_OK);
    dump_abandon(&d);
    check_back(path, taps, count, DT_F32, 2, 4);
    free(taps);
}

/* Two draft taps beside a plain one of a batch of two sequences of 3 and 2 tokens; rows [first,
 * end) of the batch are kept. Draft rows are batch rows 0, 1 and 3. */
static void write_drafts(const char *path, int64_t first, int64_t end, const char *lengths)
{
    struct err err = ERR_INIT;
    struct dump_out d;
    struct tap *taps;
    int64_t n;
    char rows_text[64] = "[", *at = rows_text + 1;
    for (int64_t r = first; r < end; r++)
        at += snprintf(at, 8, "%s%lld", r > first ? "," : "", (long long)r);
    snprintf(at, 8, "]");
    const struct st_meta meta[] = {
        {"assay.tokens", "[4,5,6,7,8]"}, {"assay.rows", rows_text}, {"assay.lengths", lengths}};
    (void)!tap_list_draft(1, 2, 3, &taps, &n, &err);
    assert_ok(&err);
    struct tap all[] = {
        {.kind = TAP_EMBED, .layer = -1, .name = "embed", .cols = 2}, taps[0], taps[n - 1]};
    (void)!dump_create(&d, path, all, 3, ROWS, first, end, DT_F64, meta, lengths ? 3 : 2, &err);
    assert_ok(&err);
    static const int64_t every[ROWS] = {0, 1, 2, 3, 4}, drafts[] = {3, 1, 0};
    static const double embed[] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5};
    static const double fused[] = {3.1, 3.2, 1.1, 1.2, 0.1, 0.2};
    static const int32_t tokens[] = {33, 11, 10};
    const struct rows plain = {.count = ROWS, .dump_row = every},
                      draft = {.count = 3, .dump_row = drafts};
    (void)!d.sink.reals(d.sink.ctx, "embed", &plain, 2, embed, &err);
    (void)!d.sink.reals(d.sink.ctx, "draft.0.fused", &draft, 2, fused, &err);
    (void)!d.sink.ints(d.sink.ctx, "draft.0.tokens", &draft, 1, tokens, &err);
    assert_ok(&err);
    (void)!dump_commit(&d, &err);
    dump_abandon(&d);
    free(taps);
    assert_ok(&err);
}

static void draft_taps__have_the_rows_that_a_token_follows(void **state)
{
    static const struct {
        int64_t first, end, rows, place[3];
        int32_t token[3];
    } cases[] = {{0, 5, 3, {0, 1, 2}, {10, 11, 33}},
                 {1, 4, 2, {1, 2}, {11, 33}},
                 {2, 3, 0, {0}, {0}},
                 {3, 5, 1, {2}, {33}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        const char *path = folder_path(state, "draft.safetensors");
        write_drafts(path, cases[i].first, cases[i].end, "[3,2]");
        (void)!dump_open(&d, path, &err);
        assert_ok(&err);
        assert_int_equal(d.rows, cases[i].end - cases[i].first);
        assert_int_equal(d.draft_rows, cases[i].rows);
        const struct dump_tap *t = dump_find(&d, "draft.0.tokens");
        assert_int_equal(t->rows, cases[i].rows);
        if (cases[i].rows > 0) {
            assert_int_equal(d.draft_total, 3);
            assert_i64_equal(d.draft_row, cases[i].place, 1, cases[i].rows);
        }
        for (int64_t r = 0; r < cases[i].rows; r++)
            assert_int_equal(dtype_int_at(DT_I32, t->tensor->data, r), cases[i].token[r]);
        assert_string_equal(d.taps[2].name, "draft.0.tokens");
        dump_close(&d);
    }
}

static void draft_rows__are_refused__when_they_are_not_those_of_the_sequences(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    static const char *const metas[] = {"[5]", "[2,3]", "[1,1,3]"};
    static const bool good[] = {false, true, false}; /* 4, 3 and 2 rows have a token behind them */
    static const float zeros[6];
    for (size_t i = 0; i < sizeof metas / sizeof metas[0]; i++) {
        const char *path = folder_path(state, "odd.safetensors");
        const struct st_meta meta[] = {{"assay.tokens", "[4,5,6,7,8]"},
                                       {"assay.lengths", metas[i]}};
        const struct st_part part = {
            .name = "draft.0.hidden", .dtype = DT_F32, .dims = 2, .shape = {3, 2}, .data = zeros};
        write_safetensors(path, &part, 1, meta, 2);
        assert_int_equal(dump_open(&d, path, &err), good[i] ? ERR_OK : ERR_INPUT);
        if (!good[i]) assert_err(&err, ERR_INPUT, "dump metadata", "draft taps", "3 rows", NULL);
        if (good[i]) assert_int_equal(d.rows, 0);
        dump_close(&d);
        err = (struct err)ERR_INIT;
    }
}

static void draft_rows__of_a_foreign_dump__are_its_last_ones_where_it_says_so(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    static const float zeros[4];
    static const int64_t want[] = {2, 3};
    const char *path = folder_path(state, "last.safetensors");
    const struct st_part part = {
        .name = "draft.0.hidden", .dtype = DT_F32, .dims = 2, .shape = {2, 2}, .data = zeros};
    const struct st_meta meta[] = {{"tokens", "[4,5,6,7,8]"}, {"rows", "last 2"}};
    write_safetensors(path, &part, 1, meta, 2);
    (void)!dump_open(&d, path, &err);
    assert_ok(&err);
    assert_int_equal(d.draft_total, 4);
    assert_i64_equal(d.draft_row, want, 1, 2);
    dump_close(&d);
    write_safetensors(path, &part, 1, meta + 1, 1); /* known only beside a dump that has tokens */
    (void)!dump_open(&d, path, &err);
    assert_ok(&err);
    assert_int_equal(d.draft_rows, 2);
    assert_null(d.draft_row);
    dump_close(&d);
}

static void sink__wants_only_planned_taps(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(1, &count);
    struct err err = ERR_INIT;
    struct dump_out d;
    const int64_t row = 0;
    const struct rows rows = {.count = 1, .dump_row = &row};
    const double x[64] = {0};
    (void)!dump_create(&d, folder_path(state, "d"), taps, 2, 1, 0, 1, DT_F32, NULL, 0, &err);
    assert_ok(&err);
    assert_true(d.sink.wants(d.sink.ctx, "embed"));
    assert_true(d.sink.wants(d.sink.ctx, "layers.0.attn_norm"));
    assert_false(d.sink.wants(d.sink.ctx, "layers.0.q"));
    assert_int_equal(d.sink.reals(d.sink.ctx, "layers.0.q", &rows, 48, x, &err), ERR_OK);
    dump_abandon(&d);
    assert_int_equal(folder_count(*state), 0);
    free(taps);
}

static void commit__is_what_makes_the_file(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(1, &count);
    struct err err = ERR_INIT;
    struct dump_out d;
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "d"));
    (void)!dump_create(&d, path, taps, count, ROWS, 0, ROWS, DT_F32, NULL, 0, &err);
    assert_ok(&err);
    assert_false(file_exists(path));
    dump_abandon(&d);
    dump_abandon(&d);
    assert_int_equal(folder_count(*state), 0);
    free(taps);
}

/* What was never given would read back as zeros. */
static void commit__is_an_error__when_a_planned_tap_lacks_rows(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(1, &count);
    for (int64_t given = 0; given < 2; given++) {
        struct err err = ERR_INIT;
        struct dump_out d;
        const int64_t at[2] = {0, 1};
        const struct rows rows = {.count = given, .dump_row = at};
        const double x[64] = {0};
        (void)!dump_create(&d, folder_path(state, "d"), taps, 1, 2, 0, 2, DT_F32, NULL, 0, &err);
        assert_int_equal(d.sink.reals(d.sink.ctx, "embed", &rows, 64, x, &err), ERR_OK);
        assert_int_equal(dump_commit(&d, &err), ERR_IO);
        assert_err(&err, ERR_IO, "write dump", "/d: tap embed", given ? "1 rows" : "0 rows", "2");
        dump_abandon(&d);
        assert_int_equal(folder_count(*state), 0);
    }
    free(taps);
}

static void create__is_an_error__when_the_target_cannot_be(void **state)
{
    int64_t count;
    struct tap *taps = taps_of_k25(1, &count);
    struct err err = ERR_INIT;
    struct dump_out d;
    assert_int_equal(
        dump_create(&d, folder_path(state, "none/d"), taps, count, 1, 0, 1, DT_F32, NULL, 0, &err),
        ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write", "none/d", "No such file", NULL);
    dump_abandon(&d);
    err_clear(&err);
    assert_int_equal(dump_create(&d, *state, taps, count, 1, 0, 1, DT_F32, NULL, 0, &err),
                     ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write", *state, "a folder", NULL);
    dump_abandon(&d);
    err_clear(&err);
    assert_int_equal(dump_create(&d, "/dev/full", taps, count, 1, 0, 1, DT_F32, NULL, 0, &err),
                     ERR_IO);
    assert_err(&err, ERR_IO, "write", "/dev/full", "No space left", NULL);
    dump_abandon(&d);
    free(taps);
}

static const struct st_meta full_meta[] = {
    {"assay.version", "0.1.0"},
    {"assay.engine", "ref"},
    {"assay.profile", "math"},
    {"assay.tokens", "[7, 8, 9]"},
    {"assay.lengths", "[2, 1]"},
    {"assay.rows", "[0, 2]"},
    {"assay.order", "[\"logits\", \"embed\", \"layers.9.q\"]"}};

static const float some[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void open__reads_the_metadata(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    const struct st_part parts[] = {{"embed", DT_F32, 2, {2, 2}, some},
                                    {"logits", DT_BF16, 2, {2, 3}, some},
                                    {"input_ids", DT_I64, 1, {3}, NULL}};
    write_safetensors(folder_path(state, "d"), parts, 3, full_meta, 7);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_string_equal(d.engine, "ref");
    assert_string_equal(d.profile, "math");
    assert_int_equal(d.count, 2);
    assert_int_equal(d.rows, 2);
    assert_i64_equal(d.tokens, ((const int64_t[]){7, 8, 9}), 1, d.token_count);
    assert_int_equal(d.token_count, 3);
    assert_int_equal(d.sequences, 2);
    assert_i64_equal(d.lengths, ((const int64_t[]){2, 1}), 1, 2);
    assert_i64_equal(d.batch_row, ((const int64_t[]){0, 2}), 1, 2);
    assert_int_equal(d.promised_count, 3);
    assert_string_equal(d.promised[2], "layers.9.q");
    assert_string_equal(d.taps[0].name,
                        "logits"); /* the order that the file says, not that of the model */
    assert_string_equal(d.taps[1].name, "embed");
    assert_null(dump_find(&d, "layers.9.q"));
    assert_null(dump_find(&d, "input_ids"));
    dump_close(&d);
}

static void open__orders_foreign_dumps_as_the_model_runs(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    static const char *const names[] = {
        "zz.unknown",      "logits",     "layers.10.q", "final_norm",
        "layers.2.output", "layers.2.q", "aa.unknown",  "embed"};
    static const char *const want[] = {"embed",      "layers.2.q", "layers.2.output", "layers.10.q",
                                       "final_norm", "logits",     "aa.unknown",      "zz.unknown"};
    struct st_part parts[8];
    for (int i = 0; i < 8; i++) parts[i] = (struct st_part){names[i], DT_F32, 2, {2, 1}, some};
    const struct st_meta meta[] = {{"engine", "transformers"}, {"tokens", "[4, 5]"}};
    write_safetensors(folder_path(state, "d"), parts, 8, meta, 2);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_string_equal(d.engine, "transformers");
    assert_string_equal(d.profile, "");
    for (int i = 0; i < 8; i++) {
        assert_string_equal(d.taps[i].name, want[i]);
        assert_int_equal(d.taps[i].known, i < 6);
        if (i) assert_true(d.taps[i - 1].order <= d.taps[i].order);
    }
    assert_null(d.promised);
    assert_null(d.lengths);
    assert_i64_equal(d.batch_row, ((const int64_t[]){0, 1}), 1, 2);
    dump_close(&d);
}

static void open__places_the_last_rows__when_the_file_says_so(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    const struct st_part part = {"embed", DT_F32, 2, {2, 2}, some};
    const struct st_meta meta[] = {{"rows", "last 2"}, {"tokens", "[1, 2, 3, 4, 5]"}};
    write_safetensors(folder_path(state, "d"), &part, 1, meta, 2);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_i64_equal(d.batch_row, ((const int64_t[]){3, 4}), 1, 2);
    dump_close(&d);
    write_safetensors(folder_path(state, "d"), &part, 1, meta, 1);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_null(d.batch_row); /* without tokens nobody knows how long the batch was */
    dump_close(&d);
}

static void open__takes_vectors_no_rows_and_rows_that_disagree(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    const struct st_part parts[] = {{"embed", DT_F32, 1, {4}, some},
                                    {"logits", DT_F32, 2, {2, 2}, some}};
    write_safetensors(folder_path(state, "d"), parts, 1, NULL, 0);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_int_equal(d.rows, 4);
    assert_int_equal(d.taps[0].cols, 1);
    assert_null(d.tokens);
    assert_null(d.batch_row);
    dump_close(&d);
    write_safetensors(folder_path(state, "d"), parts, 2, NULL, 0);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_int_equal(d.rows, -1);
    dump_close(&d);
    const struct st_part empty = {"embed", DT_F32, 2, {0, 3}, NULL};
    write_safetensors(folder_path(state, "d"), &empty, 1, NULL, 0);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_int_equal(d.rows, 0);
    dump_close(&d);
    write_safetensors(folder_path(state, "d"), NULL, 0, NULL, 0);
    (void)!dump_open(&d, folder_path(state, "d"), &err);
    assert_ok(&err);
    assert_int_equal(d.count, 0);
    dump_close(&d);
}

static void open__refuses_broken_metadata(void **state)
{
    static const struct {
        struct st_meta meta[2];
        const char *what, *where, *found;
    } rows[] = {
        {{{"assay.tokens", "[1, 2"}, {"k", ""}}, "parse JSON", "metadata assay.tokens", NULL},
        {{{"assay.tokens", "{}"}, {"k", ""}}, "dump metadata", "assay.tokens", "an object"},
        {{{"assay.tokens", "[1, \"2\"]"}, {"k", ""}},
         "dump metadata",
         "assay.tokens: entry 1",
         "a string"},
        {{{"tokens", "[1.5, 2]"}, {"k", ""}}, "dump metadata", "tokens: entry 0", "a fraction"},
        {{{"tokens", "[1, 2, 3]"}, {"k", ""}}, "dump metadata", "tokens", "3"},
        {{{"tokens", "[1, 2, 3]"}, {"rows", "last 1"}}, "dump metadata", "tokens", "3"},
        {{{"assay.rows", "[0]"}, {"k", ""}}, "dump metadata", "assay.rows", "1 entries"},
        {{{"assay.rows", "[0, -1]"}, {"k", ""}}, "dump metadata", "assay.rows[1]", "-1"},
        {{{"assay.rows", "[2, 2]"}, {"k", ""}}, "dump metadata", "assay.rows[1]", "2 after 2"},
        {{{"assay.rows", "[3, 0]"}, {"k", ""}}, "dump metadata", "assay.rows[1]", "0 after 3"},
        {{{"assay.rows", "[0, 3]"}, {"tokens", "[1, 2, 3]"}},
         "dump metadata",
         "assay.rows[1]",
         "3"},
        {{{"assay.lengths", "[2, -1]"}, {"k", ""}}, "dump metadata", "assay.lengths[1]", "-1"},
        {{{"assay.lengths", "[1]"}, {"tokens", "[1, 2]"}},
         "dump metadata",
         "assay.lengths",
         "1 tokens"},
        {{{"assay.lengths", "[9223372036854775807, 1]"}, {"k", ""}},
         "dump metadata",
         "assay.lengths[1]",
         "1"},
        {{{"assay.lengths", "\"2\""}, {"k", ""}}, "parse JSON", "assay.lengths", NULL},
        {{{"assay.order", "[1]"}, {"k", ""}}, "dump metadata", "assay.order[0]", "an integer"},
        {{{"assay.order", "{\"a\": 1}"}, {"k", ""}}, "dump metadata", "assay.order", "an object"},
        {{{"assay.order", "["}, {"k", ""}}, "parse JSON", NULL, NULL},
    };
    const struct st_part part = {"embed", DT_F32, 2, {2, 2}, some};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        write_safetensors(folder_path(state, "d"), &part, 1, rows[i].meta, 2);
        assert_int_equal(dump_open(&d, folder_path(state, "d"), &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, rows[i].what, rows[i].where, rows[i].found, NULL);
        dump_close(&d);
    }
}

static void open__refuses_what_is_no_matrix_of_numbers(void **state)
{
    const struct st_part parts[] = {{"s", DT_F32, 0, {0}, some}, {"c", DT_C64, 1, {2}, NULL}};
    for (int i = 0; i < 2; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        write_safetensors(folder_path(state, "d"), &parts[i], 1, NULL, 0);
        assert_int_equal(dump_open(&d, folder_path(state, "d"), &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "read dump", parts[i].name, i ? "C64 [2]" : "F32 []",
                   "a matrix of numbers");
        dump_close(&d);
    }
    struct err err = ERR_INIT;
    struct dump d;
    assert_int_equal(dump_open(&d, folder_path(state, "none"), &err), ERR_INPUT);
    dump_close(&d);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(write__is_read_back__in_any_order_and_chunks),
        in_folder(write__keeps_only_the_asked_rows),
        in_folder(draft_taps__have_the_rows_that_a_token_follows),
        in_folder(draft_rows__are_refused__when_they_are_not_those_of_the_sequences),
        in_folder(draft_rows__of_a_foreign_dump__are_its_last_ones_where_it_says_so),
        in_folder(sink__wants_only_planned_taps),
        in_folder(commit__is_what_makes_the_file),
        in_folder(commit__is_an_error__when_a_planned_tap_lacks_rows),
        in_folder(create__is_an_error__when_the_target_cannot_be),
        in_folder(open__reads_the_metadata),
        in_folder(open__orders_foreign_dumps_as_the_model_runs),
        in_folder(open__places_the_last_rows__when_the_file_says_so),
        in_folder(open__takes_vectors_no_rows_and_rows_that_disagree),
        in_folder(open__refuses_broken_metadata),
        in_folder(open__refuses_what_is_no_matrix_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
