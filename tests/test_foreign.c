/* test_foreign.c: dumps of other engines: formats, names, stacks and layouts, each turned into the
 * taps that they are. */
#include "harness/foreign.h"
#include "tests/support.h"

#include "core/npy.h"
#include "core/pt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 3, H = 4 };

/* x[i] = first + i */
static float *ramp(float first, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = first + (float)i;
    return x;
}

static struct st_tensor floats(const float *x, int dims, const int64_t *shape)
{
    struct st_tensor t = {.name = "", .dtype = DT_F32, .dims = dims, .count = 1, .data = x};
    for (int k = 0; k < dims; k++) t.count *= t.shape[k] = shape[k];
    t.bytes = t.count * 4;
    return t;
}

static void open_ok(struct dump *d, const char *path, const char *map)
{
    struct err err = ERR_INIT;
    const struct foreign_options o = {.map = map};
    (void)!foreign_open(d, path, &o, &err);
    assert_ok(&err);
    assert_string_equal(d->file.path, path);
}

static void check_tap(const struct dump *d, const char *name, int64_t rows, int64_t cols,
                      const float *want)
{
    const struct dump_tap *t = dump_find(d, name);
    assert_non_null(t);
    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        double x;
        dtype_to_f64(t->tensor->dtype,
                     (const char *)t->tensor->data + i * dtype_size(t->tensor->dtype), 1, &x);
        assert_true(x == (double)want[i]);
    }
}

static void npy__is_named_by_its_file(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    float *x = ramp(0, T * H);
    const struct st_tensor t = floats(x, 2, (const int64_t[]){T, H});
    const char *path = folder_path(state, "layers.0.attn.npy");
    (void)!npy_write(path, &t, &err);
    assert_ok(&err);
    open_ok(&d, path, NULL);
    check_tap(&d, "layers.0.attn", T, H, x);
    dump_close(&d);
    free(x);
}

/* {"out": {"attn": [two tensors [1, T, 2, 2]]}, "step": 7} */
static void pt__joins_keys_and_drops_leading_axes(void **state)
{
    struct err err = ERR_INIT;
    struct dump d;
    float *x = ramp(0, T * H), *y = ramp(100, T * H);
    const int64_t shape[] = {1, T, 2, 2};
    const struct st_tensor a = floats(x, 4, shape), b = floats(y, 4, shape);
    struct pt_value list[] = {{.kind = PT_TENSOR, .tensor = &a}, {.kind = PT_TENSOR, .tensor = &b}};
    struct pt_value inner_key = {.kind = PT_TEXT, .text = "attn", .count = 4},
                    inner = {.kind = PT_LIST, .count = 2, .items = list};
    struct pt_value keys[] = {{.kind = PT_TEXT, .text = "out", .count = 3},
                              {.kind = PT_TEXT, .text = "step", .count = 4}};
    struct pt_value items[] = {{.kind = PT_DICT, .count = 1, .keys = &inner_key, .items = &inner},
                               {.kind = PT_INT, .whole = 7}};
    const struct pt_value root = {.kind = PT_DICT, .count = 2, .keys = keys, .items = items};
    const char *path = folder_path(state, "mine.pt"), *map = folder_path(state, "names.yaml");
    (void)!pt_write(path, &root, &err);
    assert_ok(&err);
    write_text(map, "assay-map: 1\nengine: other 2\ntaps:\n"
                    "  - {from: \"out.attn.{N}\", to: \"layers.{N}.attn\"}\n");
    open_ok(&d, path, map);
    assert_string_equal(d.engine, "other 2");
    check_tap(&d, "layers.0.attn", T, H, x);
    check_tap(&d, "layers.1.attn", T, H, y);
    assert_int_equal(d.count, 2);
    dump_close(&d);
    free(x);
    free(y);
}

static void stack__is_cut_along_its_axis(void **state)
{
    struct dump d;
    float *x = ramp(0, 2 * T * H);
    const char *path = folder_path(state, "stack.safetensors"),
               *map = folder_path(state, "names.yaml");
    const struct st_part parts[] = {
        {.name = "h", .dtype = DT_F32, .dims = 3, .shape = {2, T, H}, .data = x}};
    write_safetensors(path, parts, 1, NULL, 0);
    write_text(map, "assay-map: 1\ntaps:\n  - {from: h, stack: [embed, layers.0.output]}\n");
    open_ok(&d, path, map);
    check_tap(&d, "embed", T, H, x);
    check_tap(&d, "layers.0.output", T, H, x + T * H);
    dump_close(&d);
    /* [T, 2, H]: slices are no longer contiguous. */
    const struct st_part wide[] = {
        {.name = "h", .dtype = DT_F32, .dims = 3, .shape = {T, 2, H}, .data = x}};
    write_safetensors(path, wide, 1, NULL, 0);
    write_text(map,
               "assay-map: 1\ntaps:\n  - {from: h, axis: 1, stack: [embed, layers.0.output]}\n");
    open_ok(&d, path, map);
    float second[T * H];
    for (int t = 0; t < T; t++) memcpy(second + t * H, x + (2 * t + 1) * H, H * sizeof *x);
    check_tap(&d, "layers.0.output", T, H, second);
    dump_close(&d);
    free(x);
}

/* [heads, T, 4] with each head [rope halves a b | nope], and its transpose. */
static void layouts__are_turned_into_the_taps(void **state)
{
    struct dump d;
    enum { HEADS = 2, D = 6, R = 4 };
    float *x = ramp(0, HEADS * T * D), want[T * HEADS * D], turned[T * H], *y = ramp(0, T * H);
    const char *path = folder_path(state, "q.safetensors"), *map = folder_path(state, "names.yaml");
    const struct st_part parts[] = {
        {.name = "q.0", .dtype = DT_F32, .dims = 3, .shape = {HEADS, T, D}, .data = x},
        {.name = "yT", .dtype = DT_F32, .dims = 2, .shape = {H, T}, .data = turned},
    };
    for (int t = 0; t < T; t++) {
        for (int h = 0; h < H; h++) turned[h * T + t] = y[t * H + h];
        for (int h = 0; h < HEADS; h++) {
            const float *from = x + (h * T + t) * D;
            float *to = want + (t * HEADS + h) * D;
            const float order[D] = {from[4], from[5], from[0], from[2], from[1], from[3]};
            memcpy(to, order, sizeof order);
        }
    }
    write_safetensors(path, parts, 2, NULL, 0);
    write_text(map, "assay-map: 1\ntaps:\n"
                    "  - {from: \"q.{N}\", to: \"layers.{N}.q\", axes: [1, 0, 2], head_dim: 6, "
                    "rope_dim: 4, rope: half_split, rope_first: true}\n"
                    "  - {from: yT, to: layers.0.attn, transpose: true}\n");
    open_ok(&d, path, map);
    check_tap(&d, "layers.0.q", T, HEADS * D, want);
    check_tap(&d, "layers.0.attn", T, H, y);
    dump_close(&d);
    free(x);
    free(y);
}

static void tokens_and_rows__come_from_the_map(void **state)
{
    struct dump d;
    float *x = ramp(0, 2 * H);
    const int32_t ids[] = {5, 6, 7};
    const char *path = folder_path(state, "t.safetensors"), *map = folder_path(state, "names.yaml");
    const struct st_part parts[] = {
        {.name = "ids", .dtype = DT_I32, .dims = 2, .shape = {1, 3}, .data = ids},
        {.name = "e", .dtype = DT_F32, .dims = 2, .shape = {2, H}, .data = x},
    };
    write_safetensors(path, parts, 2, NULL, 0);
    write_text(map, "assay-map: 1\ntokens: ids\nrows: last 2\ntaps:\n  - {from: e, to: embed}\n");
    open_ok(&d, path, map);
    assert_int_equal(d.token_count, 3);
    assert_int_equal(d.tokens[2], 7);
    assert_int_equal(d.batch_row[0], 1);
    dump_close(&d);
    free(x);
}

static void open__refuses__and_names_file_and_rule(void **state)
{
    static const struct {
        const char *map, *where, *found;
    } cases[] = {
        {"  - {from: nothing, to: embed}\n", "names.yaml", "no rule fits"},
        {"  - {from: nothing, to: embed}\n  - {from: e, skip: true}\n", "names.yaml",
         "no rule fits"},
        {"  - {from: \"*\", to: embed}\n", "embed", "two tensors"},
        {"  - {from: h, stack: [a, b, c]}\n  - {from: e, skip: true}\n", "h", "2 along axis 0"},
        {"  - {from: h, to: x, axes: [1, 0]}\n", NULL, "[2, 3, 4]"},
        {"  - {from: e, to: x, rope: half_split, rope_dim: 6}\n", NULL, "4 columns"},
    };
    float *x = ramp(0, 2 * T * H);
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "s.safetensors"));
    const struct st_part parts[] = {
        {.name = "h", .dtype = DT_F32, .dims = 3, .shape = {2, T, H}, .data = x},
        {.name = "e", .dtype = DT_F32, .dims = 2, .shape = {T, H}, .data = x},
    };
    write_safetensors(path, parts, 2, NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        char text[256];
        const char *map = folder_path(state, "names.yaml");
        snprintf(text, sizeof text, "assay-map: 1\ntaps:\n%s", cases[i].map);
        write_text(map, text);
        const struct foreign_options o = {.map = map};
        (void)!foreign_open(&d, path, &o, &err);
        assert_err(&err, ERR_INPUT, "map", cases[i].where, cases[i].found, NULL);
        dump_close(&d);
    }
    free(x);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(npy__is_named_by_its_file),
        in_folder(pt__joins_keys_and_drops_leading_axes),
        in_folder(stack__is_cut_along_its_axis),
        in_folder(layouts__are_turned_into_the_taps),
        in_folder(tokens_and_rows__come_from_the_map),
        in_folder(open__refuses__and_names_file_and_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
