/* test_pt.c: files that torch.save wrote are read, and written back to the same bytes; what is no
 * plain data, and what no file can mean, is refused by its name. */
#include "core/pt.h"

#include "core/archive.h"
#include "tests/fuzz/zip_wrap.h"
#include "tests/support.h"

#include <stdio.h>

static const char *fixture(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/%s", ASSAY_SOURCE_DIR, name);
    return path;
}

static void open_fixture(struct pt_file *f, const char *name)
{
    struct err err = ERR_INIT;
    (void)!pt_open(f, fixture(name), &err);
    assert_ok(&err);
}

static const struct pt_value *get(const struct pt_value *dict, const char *key, enum pt_kind kind)
{
    const struct pt_value *v = pt_get(dict, key);
    assert_non_null(v);
    assert_int_equal(v->kind, kind);
    return v;
}

/* The tensor's type, shape text and first elements. */
static void check_tensor(const struct pt_value *v, enum dtype dtype, const char *shape, int64_t n,
                         const double *want)
{
    char text[128];
    double x[64];
    assert_int_equal(v->kind, PT_TENSOR);
    const struct st_tensor *t = v->tensor;
    assert_int_equal(t->dtype, dtype);
    assert_string_equal(st_shape_text(t->dims, t->shape, text, sizeof text), shape);
    assert_int_equal(t->bytes, t->count * dtype_size(dtype));
    assert_true(n <= t->count);
    if (dtype == DT_BOOL) {
        for (int64_t i = 0; i < n; i++) x[i] = (double)dtype_int_at(dtype, t->data, i);
    } else {
        dtype_to_f64(dtype, t->data, n, x);
    }
    if (n) assert_memory_equal(x, want, (size_t)n * sizeof *x);
}

static void open__reads_each_kind_of_value(void **state)
{
    (void)state;
    struct pt_file f;
    open_fixture(&f, "pt/plain.pt");
    const struct pt_value *r = &f.root;
    static const int64_t ints[] = {0,
                                   255,
                                   256,
                                   65535,
                                   65536,
                                   INT32_MAX,
                                   1LL << 31,
                                   1LL << 40,
                                   INT64_MAX,
                                   -1,
                                   INT32_MIN,
                                   (int64_t)INT32_MIN - 1,
                                   -(1LL << 39),
                                   -(1LL << 39) - 1,
                                   INT64_MIN};
    get(r, "none", PT_NONE);
    assert_int_equal(get(r, "true", PT_BOOL)->whole, 1);
    assert_int_equal(get(r, "false", PT_BOOL)->whole, 0);
    assert_true(get(r, "float", PT_FLOAT)->real == -1.5);
    assert_string_equal(get(r, "text", PT_TEXT)->text, "gr\xC3\xBCn");
    assert_int_equal(get(r, "text", PT_TEXT)->count, 5);
    const struct pt_value *pair = get(r, "pair", PT_TUPLE);
    assert_int_equal(pair->count, 2);
    assert_string_equal(pair->items[0].text, "a");
    const struct pt_value *list = get(r, "ints", PT_LIST);
    assert_int_equal(list->count, 15);
    for (int i = 0; i < 15; i++) assert_true(list->items[i].whole == ints[i]);
    assert_int_equal(get(r, "empty", PT_LIST)->items[2].kind, PT_DICT);
    assert_int_equal(get(get(r, "one", PT_DICT), "k", PT_INT)->whole, 1);
    check_tensor(pt_get(r, "scalar"), DT_F32, "[]", 1, (const double[]){3.5});
    check_tensor(pt_get(r, "nothing"), DT_F32, "[0, 5]", 0, NULL);
    assert_non_null(pt_get(r, "nothing")->tensor->data);
    check_tensor(pt_get(r, "hollow"), DT_F32, "[5, 0, 3]", 0, NULL);
    check_tensor(pt_get(r, "deep"), DT_F32, "[2, 3, 1, 4]", 3, (const double[]){0, 1, 2});
    static const struct {
        const char *key;
        enum dtype dtype;
    } types[] = {{"torch.float64", DT_F64},   {"torch.float32", DT_F32}, {"torch.float16", DT_F16},
                 {"torch.bfloat16", DT_BF16}, {"torch.int64", DT_I64},   {"torch.int32", DT_I32},
                 {"torch.int16", DT_I16},     {"torch.int8", DT_I8},     {"torch.uint8", DT_U8}};
    for (int i = 0; i < 9; i++)
        check_tensor(pt_get(r, types[i].key), types[i].dtype, "[2, 3]", 6,
                     (const double[]){0, 1, 2, 0, 1, 2});
    check_tensor(pt_get(r, "torch.bool"), DT_BOOL, "[2, 3]", 6, (const double[]){0, 1, 1, 0, 1, 1});
    assert_null(pt_get(r, "nowhere"));
    assert_null(pt_get(list, "nowhere"));
    pt_close(&f);
    pt_close(&f);
}

static void open__makes_views_contiguous(void **state)
{
    (void)state;
    struct pt_file f;
    open_fixture(&f, "pt/views.pt");
    const struct pt_value *r = &f.root, *s = get(r, "state", PT_DICT);
    check_tensor(pt_get(r, "transposed"), DT_F32, "[6, 4]", 6,
                 (const double[]){0, 6, 12, 18, 1, 7});
    check_tensor(pt_get(r, "columns"), DT_F32, "[4, 2]", 8,
                 (const double[]){2, 3, 8, 9, 14, 15, 20, 21});
    check_tensor(pt_get(r, "tail"), DT_F32, "[4]", 4, (const double[]){20, 21, 22, 23});
    check_tensor(pt_get(r, "expanded"), DT_F32, "[3, 2]", 6, (const double[]){7, 7, 7, 7, 7, 7});
    check_tensor(pt_get(r, "every"), DT_F32, "[2, 2]", 4, (const double[]){0, 3, 12, 15});
    check_tensor(pt_get(r, "long"), DT_F32, "[4]", 4, (const double[]){1, 7, 13, 19});
    check_tensor(pt_get(r, "parameter"), DT_F32, "[2]", 2, (const double[]){1, 2});
    assert_int_equal(s->count, 2); /* `_metadata` is no entry */
    assert_int_equal(get(s, "weight", PT_TENSOR)->tensor->count, 2);
    assert_string_equal(get(r, "ordered", PT_DICT)->keys[0].text, "b");
    assert_int_equal(get(r, "size", PT_TUPLE)->items[1].whole, 6);
    assert_int_equal(get(r, "bytes", PT_TEXT)->count, 4);
    assert_memory_equal(get(r, "bytes", PT_TEXT)->text, "ab\xff\0", 5);
    pt_close(&f);
}

/* ---- the bytes ---- */

/* The bytes of one file that may differ from torch's: 20 digits of the serialization id, and the
 * two places that hold its checksum. */
static void mask_id(char *bytes, size_t size)
{
    static const char name[] = "/.data/serialization_idFB";
    char *at = memmem(bytes, size, name, sizeof name - 1);
    assert_non_null(at);
    at += sizeof name - 1;
    at += 2 + (unsigned char)at[0];
    memset(at, '#', 20);
    assert_memory_equal(at + 40, "PK\7\10", 4);
    memset(at + 44, '#', 4);
    char *entry = memmem(at, size - (size_t)(at - bytes), "/.data/serialization_idPK\6\6", 27);
    assert_non_null(entry);
    while (memcmp(entry, "PK\1\2", 4) != 0) entry--;
    memset(entry + 16, '#', 4);
}

static void write__gives_the_bytes_of_torch(void **state)
{
    static const char *const files[] = {"pt/plain.pt",
                                        "pt/batch.pt",
                                        "samples/speculators-v03/data_0.pt",
                                        "samples/speculators-v03/data_1.pt",
                                        "samples/speculators-v03/token_freq.pt",
                                        "samples/specforge/rows_0-2000/data_0.ckpt",
                                        "samples/specforge/rows_0-2000/data_1.ckpt"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct err err = ERR_INIT;
        struct pt_file f;
        size_t want_size, size;
        open_fixture(&f, files[i]);
        const char *path = folder_path(state, strrchr(files[i], '/') + 1);
        assert_int_equal(pt_write(path, &f.root, &err), ERR_OK);
        pt_close(&f);
        char *want = read_whole(fixture(files[i]), &want_size), *got = read_whole(path, &size);
        assert_int_equal(size, want_size);
        mask_id(want, size);
        mask_id(got, size);
        if (memcmp(got, want, size) != 0) fail_msg("%s differs from torch's", files[i]);
        free(want);
        free(got);
        remove(path);
    }
}

static void write__names_the_folder_after_the_file(void **state)
{
    static const char *const rows[][2] = {{"data_7.pt", "data_7/data.pkl"},
                                          {"a.b.c", "a.b/data.pkl"},
                                          {"plain", "plain/data.pkl"},
                                          {".pt", "archive/data.pkl"},
                                          {"gr\xC3\xBCn.pt", "archive/data.pkl"}};
    const struct pt_value none = {.kind = PT_NONE};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct archive a;
        size_t size;
        const char *path = folder_path(state, rows[i][0]);
        assert_int_equal(pt_write(path, &none, &err), ERR_OK);
        char *bytes = read_whole(path, &size);
        assert_int_equal(archive_open(&a, path, bytes, (int64_t)size, &err), ERR_OK);
        assert_string_equal(archive_name(&a, 0), rows[i][1]);
        archive_close(&a);
        free(bytes);
    }
}

static void write__is_refused__for_types_and_texts_that_torch_cannot_load(void **state)
{
    struct err err = ERR_INIT;
    const struct st_tensor t = {
        .dtype = DT_F8_E4M3, .dims = 1, .shape = {1}, .count = 1, .bytes = 1, .data = "a"};
    struct pt_value v = {.kind = PT_TENSOR, .tensor = &t};
    assert_int_equal(pt_write(folder_path(state, "a.pt"), &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write torch file", "a.pt", "F8_E4M3", "BF16");
    static const struct pt_value texts[] = {{.kind = PT_TEXT, .text = "\xff", .count = 1},
                                            {.kind = PT_TEXT, .text = "a\0b", .count = 3}};
    for (int i = 0; i < 2; i++) {
        err_clear(&err);
        assert_int_equal(pt_write(folder_path(state, "a.pt"), &texts[i], &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "write torch file", "a.pt", "NUL or not UTF-8", NULL);
    }
    assert_int_equal(folder_count(*state), 0);
}

/* ---- broken and hostile files ---- */

/* Opens an archive of this pickle and 96 bytes at data/0. */
static enum err_code open_pickle(struct pt_file *f, const char *pickle, size_t n, struct err *err)
{
    static const char storage[96] = {1, 2, 3, 4};
    const struct zip_part parts[] = {{"archive/data.pkl", pickle, n, 0},
                                     {"archive/data/0", storage, sizeof storage, 0}};
    size_t size;
    unsigned char *bytes = zip_wrap(parts, 2, &size);
    enum err_code rc = pt_open_memory(f, "a.pt", bytes, (int64_t)size, err);
    free(bytes);
    return rc;
}

static void pickle_refused(const char *pickle, size_t n, const char *found)
{
    struct err err = ERR_INIT;
    struct pt_file f;
    if (open_pickle(&f, pickle, n, &err) != ERR_INPUT) fail_msg("was read, not refused: %s", found);
    pt_close(&f);
    assert_err(&err, ERR_INPUT, NULL, "a.pt", found, NULL);
    assert_true(err.wanted[0] != '\0');
}

#define REFUSED(pickle, found) pickle_refused(pickle, sizeof(pickle) - 1, found)
#define TEXT(n, text) "X" n "\0\0\0" text
#define STORAGE(elements)                                                                          \
    "(" TEXT("\7", "storage") "ctorch\nFloatStorage\n" TEXT("\1", "0") TEXT("\3", "cpu") elements  \
        "tQ"
#define TENSOR(storage, offset, size, stride)                                                      \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset size stride "\x89"                       \
    "ccollections\nOrderedDict\n)RtR"

static void open__refuses_by_name__what_is_no_data(void **state)
{
    (void)state;
    REFUSED("\x80\2cos\nsystem\n" TEXT("\1", "a") "\x85R.", "the global os.system");
    REFUSED("\x80\2c__builtin__\neval\n.", "the global __builtin__.eval");
    REFUSED("\x80\4\x8c\2os\x8c\6system\x93.", "the global os.system");
    REFUSED("\x80\2cnumpy.core.multiarray\nscalar\n.", "numpy.core.multiarray.scalar");
    REFUSED("\x80\2ctorch._utils\n_rebuild_tensor_v3\n.", "torch._utils._rebuild_tensor_v3");
    REFUSED("\x80\2ctorch._utils\n_rebuild_tensor_v2", "end of the pickle");
    REFUSED("\x80\2ctorch\nFloatStorage\n)R.", "a call of torch.FloatStorage");
    REFUSED("\x80\2ctorch\nFloatStorage\n.", "a global as a value");
    REFUSED("\x80\2" STORAGE("K\1") ".", "a storage as a value");
    REFUSED("\x80\2K\1)R.", "a call of something");
    REFUSED("\x80\2)K\1\x93.", "a global without a name");
    REFUSED("\x80\2}}b.", "opcode BUILD on a dict with a dict");
    REFUSED("\x80\2ccollections\nOrderedDict\n)RK\1b.", "BUILD on a dict with an integer");
    REFUSED("\x80\2(cos\nsystem\no.", "the global os.system");
    REFUSED("\x80\2(ios\nsystem\n.", "opcode 0x69 INST");
    REFUSED("\x80\2ccollections\nOrderedDict\n)\x81.", "opcode 0x81 NEWOBJ");
    REFUSED("\x80\4\x8f.", "opcode 0x8f EMPTY_SET");
    REFUSED("\x80\2\x82\1.", "opcode 0x82 EXT1");
    REFUSED("\x80\2\xfe.", "opcode 0xfe");
    REFUSED("I1\n.", "opcode 0x49 INT");
    REFUSED("\x80\6N.", "a protocol above 5");
}

static void open__refuses__what_breaks_the_machine(void **state)
{
    (void)state;
    REFUSED("", "the end of the pickle");
    REFUSED("\x80\2", "the end of the pickle");
    REFUSED("\x80\2N", "the end of the pickle");
    REFUSED("\x80\2N.N", "bytes behind the end");
    REFUSED("\x80\2NN.", "more than one value");
    REFUSED("\x80\2.", "more than one value");
    REFUSED("\x80\2(N.", "more than one value");
    REFUSED("\x80\2"
            "0.",
            "an empty stack");
    REFUSED("\x80\2"
            "2.",
            "an empty stack");
    REFUSED("\x80\2q\0.", "an empty stack");
    REFUSED("\x80\2N(0.", "an empty stack"); /* below a mark lies what belongs to others */
    REFUSED("\x80\2N(R.", "an empty stack");
    REFUSED("\x80\2"
            "1.",
            "no mark");
    REFUSED("\x80\2"
            "t.",
            "no mark");
    REFUSED("\x80\2N\x86.", "too few values");
    REFUSED("\x80\2Na.", "something else");
    REFUSED("\x80\2NNNs.", "something else");
    REFUSED("\x80\2](N(NNe.", "something else");
    REFUSED("\x80\2}(Nu.", "a key without a value");
    REFUSED("\x80\2(Nd.", "a key without a value");
    REFUSED("\x80\2h\1.", "a memo number that was never noted");
    REFUSED("\x80\2Nr\xff\xff\xff\x7f.", "a memo number beyond");
    REFUSED("\x80\2X\5\0\0\0abc.", "the end of the pickle");
    REFUSED("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "a.",
            "a length of 2^63");
    REFUSED("\x80\2\x8a\11\0\0\0\0\0\0\0\0\1.", "more than 64 bits");
    REFUSED("\x80\2"
            "c_codecs\nencode\n" TEXT("\2", "\xC4\x80") TEXT("\6", "latin1") "\x86R.",
            "bytes beyond latin1");
    REFUSED("\x80\2"
            "c_codecs\nencode\n" TEXT("\1", "\xC3") TEXT("\6", "latin1") "\x86R.",
            "bytes beyond latin1");
    REFUSED("\x80\2"
            "c_codecs\nencode\n" TEXT("\1", "a") TEXT("\5", "utf-8") "\x86R.",
            "bytes of other arguments");
    REFUSED("\x80\2ctorch\nSize\n]\x85R.", "of other arguments");
    REFUSED("\x80\2ccollections\nOrderedDict\nN\x85R.", "an OrderedDict of other arguments");
    REFUSED("\x80\2ccollections\nOrderedDict\n](Ne\x85R.", "an OrderedDict of other arguments");
}

static void open__refuses__values_without_an_end(void **state)
{
    (void)state;
    char pickle[400] = "\x80\2";
    size_t n = 2;
    REFUSED("\x80\2]q\0h\0a.", "values nested 64 deep"); /* a list that holds itself */
    REFUSED("\x80\2}(K\1NK\1Nu.", "key 1 twice");
    REFUSED("\x80\2}(" TEXT("\1", "a") "N" TEXT("\1", "a") "Nu.", "key a twice");
    REFUSED("\x80\2})Ns.", "neither text nor int");
    for (int i = 0; i < 64; i++) pickle[n++] = ']';
    for (int i = 0; i < 63; i++) pickle[n++] = 'a';
    pickle[n++] = '.';
    struct err err = ERR_INIT;
    struct pt_file f;
    assert_int_equal(open_pickle(&f, pickle, n, &err), ERR_OK);
    pt_close(&f);
    n = 2;
    for (int i = 0; i < 65; i++) pickle[n++] = ']';
    for (int i = 0; i < 64; i++) pickle[n++] = 'a';
    pickle[n++] = '.';
    pickle_refused(pickle, n, "values nested 64 deep");
    /* Thirty lists, each holding the one before three times. */
    memcpy(pickle, "\x80\2]q\0000", 6);
    n = 6;
    for (char i = 0; i < 30; i++) {
        const char level[] = {']', 'q', (char)(i + 1), '(', 'h', i, 'h', i, 'h', i, 'e', '0'};
        memcpy(pickle + n, level, sizeof level);
        n += sizeof level;
    }
    memcpy(pickle + n, "h\x1e.", 3);
    pickle_refused(pickle, n + 3, "hold each other many times");
}

/* Nearly endless stacks, marks, containers: each stops at its own limit. */
static void open__refuses__more_than_its_limits(void **state)
{
    (void)state;
    static const struct {
        const char *first, *then, *found;
        size_t times;
    } rows[] = {
        {"", "N", "a stack of 2^20 values", (1 << 20) + 1},
        {"", "(", "1024 marks", 1025},
        {"]", ")0", "2^20 containers", 1 << 20},
        {"", "N", "33554442 bytes", (32 << 20) + 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t first = strlen(rows[i].first), then = strlen(rows[i].then);
        size_t n = 2 + first + then * rows[i].times;
        char *pickle = malloc(n);
        assert_non_null(pickle);
        memcpy(pickle, "\x80\2", 2);
        memcpy(pickle + 2, rows[i].first, first);
        for (size_t k = 0; k < rows[i].times; k++)
            memcpy(pickle + 2 + first + k * then, rows[i].then, then);
        pickle_refused(pickle, n, rows[i].found);
        free(pickle);
    }
}

/* Bytes made of one text, over and over; and more values than any vocabulary has. */
static void open__refuses__small_pickles_of_large_things(void **state)
{
    (void)state;
    static const char head[] = "\x80\2"
                               "c_codecs\nencode\nq\0" TEXT("\6", "latin1") "q\1";
    static const char call[] = "h\0h\2h\1\x86R0";
    char bytes[1024];
    size_t n = sizeof head - 1;
    memcpy(bytes, head, n);
    memcpy(bytes + n, "X\310\0\0\0", 5);
    memset(bytes + n + 5, 'a', 200);
    memcpy(bytes + n + 205, "q\2", 2);
    n += 207;
    for (int i = 0; i < 20; i++, n += sizeof call - 1) memcpy(bytes + n, call, sizeof call - 1);
    pickle_refused(bytes, n, "more text than twice");
    const size_t batch = (1 << 20) - 8;
    char *pickle = malloc(3 + 5 * (batch + 2));
    assert_non_null(pickle);
    memcpy(pickle, "\x80\2]", 3);
    for (n = 3; n < 3 + 5 * (batch + 2); n += batch + 2) {
        pickle[n] = '(';
        memset(pickle + n + 1, 'N', batch);
        pickle[n + 1 + batch] = 'e';
    }
    pickle_refused(pickle, n, "2^22 values");
    free(pickle);
}

static void open__refuses__tensors_outside_their_storage(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct pt_file f;
    static const char whole[] =
        "\x80\2" TENSOR(STORAGE("K\30"), "K\1", "K\2K\3\x86", "K\1K\2\x86") ".";
    assert_int_equal(open_pickle(&f, whole, sizeof whole - 1, &err), ERR_OK);
    assert_int_equal(f.root.tensor->count, 6);
    pt_close(&f);
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\23", "K\2K\3\x86", "K\1K\2\x86") ".",
            "reaches outside its storage");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\31", "K\0\x85", "K\1\x85") ".",
            "reaches outside its storage");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "\x8a\10\0\0\0\0\0\0\0\x7f\x85",
                            "\x8a\10\0\0\0\0\0\0\0\x7f\x85") ".",
            "reaches outside its storage");
    REFUSED("\x80\2" TENSOR(STORAGE("K\31"), "K\0", "K\2\x85", "K\1\x85") ".", "96 bytes");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85") ".",
            "size or stride of another form");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "K\2\x85", "K\1K\1\x86") ".",
            "size or stride of another form");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                            "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t") ".",
            "size or stride of another form");
    REFUSED("\x80\2" TENSOR("N", "K\0", "K\2\x85", "K\1\x85") ".", "a tensor of other arguments");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "J\xff\xff\xff\xff", "K\2\x85", "K\1\x85") ".",
            "a tensor of other arguments");
    /* 2^62 elements of one byte each, all the same one; then 2^40. */
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86",
                            "K\0K\0\x86") ".",
            "2^60 elements");
    REFUSED("\x80\2" TENSOR(STORAGE("K\30"), "K\0", "J\0\0\20\0J\0\0\20\0\x86", "K\0K\0\x86") ".",
            "views of 4398046511104 bytes");
    REFUSED("\x80\2(" TEXT("\1", "s") "NNNNtQ.", "a persistent id of another form");
    REFUSED("\x80\2" STORAGE("J\xff\xff\xff\xff") ".", "a persistent id of another form");
    REFUSED("\x80\2ctorch._utils\n_rebuild_parameter\nN\x85R.", "of other arguments");
}

static void archive_refused(const struct zip_part *parts, int count, const char *found,
                            const char *wanted)
{
    struct err err = ERR_INIT;
    struct pt_file f;
    size_t size;
    unsigned char *bytes = zip_wrap(parts, count, &size);
    assert_int_equal(pt_open_memory(&f, "a.pt", bytes, (int64_t)size, &err), ERR_INPUT);
    free(bytes);
    assert_err(&err, ERR_INPUT, "read torch file", "a.pt", found, wanted);
}

static void open__refuses__archives_of_others(void **state)
{
    (void)state;
    static const char tensor[] = "\x80\2" TENSOR(STORAGE("K\30"), "K\0", "K\2\x85", "K\1\x85") ".";
    const struct zip_part rows[][2] = {
        {{"data.pkl", "\x80\2N.", 4, 0}, {"a", "", 0, 0}},
        {{"f/model.pkl", "\x80\2N.", 4, 0}, {"a", "", 0, 0}},
        {{"f/data.pkl", "\x80\2N.", 4, 0}, {"f/byteorder", "big", 3, 0}},
        {{"f/data.pkl", tensor, sizeof tensor - 1, 0}, {"f/data/1", "", 0, 0}},
    };
    archive_refused(rows[0], 2, "first member data.pkl", "FOLDER/data.pkl");
    struct err err = ERR_INIT;
    struct pt_file f;
    assert_int_equal(
        pt_open_memory(&f, "a.pt", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22, &err),
        ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read torch file", "a.pt", "first member missing", NULL);
    archive_refused(rows[1], 2, "no member f/data.pkl", "torch.save");
    archive_refused(rows[2], 2, "big", "little");
    archive_refused(rows[3], 2, "no such member", "the storage");
}

static void open__says_what_it_is_instead(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *found;
    } rows[] = {{"\x80\2\x8a\nl\xfc\x9c"
                 "F\xf9 j\xa8P\x19.",
                 14, "before 1.6"},
                {"\x1f\x8b\x08", 3, "a gzip file"},
                {"text", 4, "no zip archive"},
                {"", 0, "no zip archive"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct pt_file f;
        const char *path = folder_path(state, "a.pt");
        write_whole(path, rows[i].bytes, rows[i].size);
        assert_int_equal(pt_open(&f, path, &err), ERR_INPUT);
        pt_close(&f);
        assert_err(&err, ERR_INPUT, "read torch file", "a.pt", rows[i].found, "zip archive");
    }
    struct err err = ERR_INIT;
    struct pt_file f;
    assert_int_equal(pt_open(&f, folder_path(state, "none.pt"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "none.pt", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__reads_each_kind_of_value),
        cmocka_unit_test(open__makes_views_contiguous),
        cmocka_unit_test_setup_teardown(write__gives_the_bytes_of_torch, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(write__names_the_folder_after_the_file, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(
            write__is_refused__for_types_and_texts_that_torch_cannot_load, folder_setup,
            folder_teardown),
        cmocka_unit_test(open__refuses_by_name__what_is_no_data),
        cmocka_unit_test(open__refuses__what_breaks_the_machine),
        cmocka_unit_test(open__refuses__values_without_an_end),
        cmocka_unit_test(open__refuses__more_than_its_limits),
        cmocka_unit_test(open__refuses__small_pickles_of_large_things),
        cmocka_unit_test(open__refuses__tensors_outside_their_storage),
        cmocka_unit_test(open__refuses__archives_of_others),
        cmocka_unit_test_setup_teardown(open__says_what_it_is_instead, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
