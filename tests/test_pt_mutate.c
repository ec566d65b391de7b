/* test_pt_mutate.c: a torch file that was cut anywhere, or changed in any byte, is refused or gives
 * values that can be walked to their end; the pickle inside it as well, behind checksums that hold.
 */
#include "core/archive.h"
#include "core/pt.h"

#include "tests/fuzz/zip_wrap.h"
#include "tests/support.h"

#include <stdio.h>

/* Every byte that the values name is read. */
static uint64_t walk(const struct pt_value *v)
{
    uint64_t sum = (uint64_t)v->kind + (uint64_t)v->whole;
    for (int64_t i = 0; v->kind == PT_TEXT && i <= v->count; i++) sum += (uint64_t)v->text[i];
    for (int64_t i = 0; v->kind == PT_TENSOR && i < v->tensor->bytes; i++)
        sum += ((const unsigned char *)v->tensor->data)[i];
    bool holds = v->kind == PT_LIST || v->kind == PT_TUPLE || v->kind == PT_DICT;
    for (int64_t i = 0; holds && i < v->count; i++) {
        sum += walk(&v->items[i]);
        if (v->kind == PT_DICT) sum += walk(&v->keys[i]);
    }
    return sum;
}

/* True where it was read. */
static bool open_and_walk(const void *bytes, size_t size)
{
    struct err err = ERR_INIT;
    struct pt_file f;
    static volatile uint64_t sum;
    void *copy = malloc(size + !size); /* its own block, so that a read past it shows */
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    enum err_code rc = pt_open_memory(&f, "a.pt", copy, (int64_t)size, &err);
    free(copy);
    assert_int_equal(rc, err.code);
    if (rc == ERR_OK) {
        sum += walk(&f.root);
    } else {
        assert_int_equal(rc, ERR_INPUT);
        assert_true(err.what[0] && err.where[0] && err.found[0] && err.wanted[0]);
    }
    pt_close(&f);
    return rc == ERR_OK;
}

static char *fixture(const char *name, size_t *size)
{
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/pt/%s", ASSAY_SOURCE_DIR, name);
    return read_whole(path, size);
}

/* The pickle of a fixture, and its storages as parts of an archive that is made again. */
struct taken {
    char *bytes;
    struct archive archive;
    struct zip_part parts[32];
    int count;
};

static void take_apart(struct taken *t, const char *name)
{
    struct err err = ERR_INIT;
    size_t size;
    t->bytes = fixture(name, &size);
    t->count = 0;
    assert_int_equal(archive_open(&t->archive, name, t->bytes, (int64_t)size, &err), ERR_OK);
    for (int64_t i = 0; i < archive_count(&t->archive); i++) {
        int64_t n = 0;
        assert_int_equal(archive_size(&t->archive, i, &n, &err), ERR_OK);
        char *data = malloc((size_t)n + 1);
        assert_non_null(data);
        assert_int_equal(archive_read(&t->archive, i, data, n, &err), ERR_OK);
        t->parts[t->count++] = (struct zip_part){archive_name(&t->archive, i), data, (size_t)n, 0};
    }
}

static void put_back(struct taken *t)
{
    for (int i = 0; i < t->count; i++) free((void *)(uintptr_t)t->parts[i].data);
    archive_close(&t->archive);
    free(t->bytes);
}

/* The archive with this pickle. */
static bool open_with(struct taken *t, const char *pickle, size_t n)
{
    size_t size;
    struct zip_part kept = t->parts[0];
    t->parts[0].data = pickle;
    t->parts[0].size = n;
    unsigned char *bytes = zip_wrap(t->parts, t->count, &size);
    t->parts[0] = kept;
    bool read = open_and_walk(bytes, size);
    free(bytes);
    return read;
}

static void open__refuses__every_file_that_was_cut(void **state)
{
    (void)state;
    size_t size;
    char *bytes = fixture("views.pt", &size);
    assert_true(open_and_walk(bytes, size));
    for (size_t n = 0; n < size; n++) assert_false(open_and_walk(bytes, n));
    free(bytes);
}

static void open__refuses__every_pickle_that_was_cut(void **state)
{
    (void)state;
    struct taken t;
    take_apart(&t, "views.pt");
    assert_true(open_with(&t, t.parts[0].data, t.parts[0].size));
    for (size_t n = 0; n < t.parts[0].size; n++) assert_false(open_with(&t, t.parts[0].data, n));
    put_back(&t);
}

static void open__bears_a_change_of_any_byte(void **state)
{
    (void)state;
    size_t size, read = 0;
    char *bytes = fixture("views.pt", &size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (char)(1 << i % 8);
        read += open_and_walk(bytes, size);
        bytes[i] ^= (char)(1 << i % 8);
    }
    /* What may change unseen: padding and dates. Data, names and sizes are under checksums. */
    assert_true(read < size / 2);
    free(bytes);
}

/* A small generator of its own: the same changes in every run. */
static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void open__bears_ten_thousand_changed_pickles(void **state)
{
    (void)state;
    static const char *const files[] = {"views.pt", "plain.pt"};
    uint64_t seed = 1;
    int read = 0;
    for (int f = 0; f < 2; f++) {
        struct taken t;
        take_apart(&t, files[f]);
        size_t n = t.parts[0].size;
        char *pickle = malloc(n);
        assert_non_null(pickle);
        for (int i = 0; i < 5000; i++) {
            memcpy(pickle, t.parts[0].data, n);
            for (uint32_t k = 0, changes = 1 + next(&seed) % 3; k < changes; k++) {
                size_t at = next(&seed) % n, from = next(&seed) % n;
                /* Another byte, or one of the pickle's own: an opcode or a number that fits. */
                pickle[at] = next(&seed) % 2 ? (char)next(&seed) : pickle[from];
            }
            read += open_with(&t, pickle, n);
        }
        free(pickle);
        put_back(&t);
    }
    assert_true(read > 100 && read < 9900); /* both ways are taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__refuses__every_file_that_was_cut),
        cmocka_unit_test(open__refuses__every_pickle_that_was_cut),
        cmocka_unit_test(open__bears_a_change_of_any_byte),
        cmocka_unit_test(open__bears_ten_thousand_changed_pickles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
