/* test_archive.c: members are read within bounds, and written where torch.save puts them; what is
 * written is read back by libzip, which the writer does not use. */
#include "core/archive.h"

#include "tests/fuzz/zip_wrap.h"
#include "tests/support.h"

#include <stdio.h>

static void crc32__is_that_of_zip__at_any_length_and_split(void **state)
{
    (void)state;
    struct crc32 c;
    unsigned char data[64];
    crc32_init(&c);
    assert_int_equal(crc32_of(&c, 0, "123456789", 9), 0xCBF43926u); /* the polynomial's check */
    assert_int_equal(crc32_of(&c, 0, "", 0), 0);
    assert_int_equal(crc32_of(&c, 0, "1", 1), 0x83DCEFB7u);
    for (int i = 0; i < 64; i++) data[i] = (unsigned char)(i * 37);
    for (int i = 0; i <= 64; i++) {
        uint32_t part = crc32_of(&c, 0, data, i);
        assert_int_equal(crc32_of(&c, part, data + i, 64 - i), crc32_of(&c, 0, data, 64));
    }
}

/* Reads a member of bytes in memory, or gives the error. */
static enum err_code read_one(const void *bytes, size_t size, const char *name, char *out,
                              int64_t room, struct err *err)
{
    struct archive a;
    int64_t n;
    if (archive_open(&a, "a.zip", bytes, (int64_t)size, err) == ERR_OK) {
        int64_t i = archive_find(&a, name);
        assert_true(i >= 0);
        if (archive_size(&a, i, &n, err) == ERR_OK) {
            assert_true(n <= room);
            (void)!archive_read(&a, i, out, n, err);
        }
    }
    archive_close(&a);
    return err->code;
}

static void read__gives_members__stored_or_deflated(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char zeros[4096] = {0}, out[4096];
    const struct zip_part parts[] = {
        {"a", "abc", 3, 0}, {"f/b", zeros, sizeof zeros, ZIP_CM_DEFLATE}, {"empty", "", 0, 0}};
    size_t size;
    unsigned char *bytes = zip_wrap(parts, 3, &size);
    assert_true(archive_is(bytes, (int64_t)size));
    assert_int_equal(read_one(bytes, size, "a", out, 4096, &err), ERR_OK);
    assert_memory_equal(out, "abc", 3);
    memset(out, 1, sizeof out);
    assert_int_equal(read_one(bytes, size, "f/b", out, 4096, &err), ERR_OK);
    assert_memory_equal(out, zeros, sizeof zeros);
    assert_int_equal(read_one(bytes, size, "empty", out, 0, &err), ERR_OK);
    struct archive a;
    assert_int_equal(archive_open(&a, "a.zip", bytes, (int64_t)size, &err), ERR_OK);
    assert_int_equal(archive_count(&a), 3);
    assert_string_equal(archive_name(&a, 1), "f/b");
    assert_int_equal(archive_find(&a, "b"), -1);
    archive_close(&a);
    archive_close(&a);
    free(bytes);
    assert_false(archive_is("PK", 2));
    assert_false(archive_is("PK\3\5", 4));
}

static void read__is_refused__when_bytes_and_checksum_disagree(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char out[64];
    const struct zip_part part = {"a", "some text of a member", 21, 0};
    size_t size;
    unsigned char *bytes = zip_wrap(&part, 1, &size);
    unsigned char *text = memmem(bytes, size, "some text", 9);
    assert_non_null(text);
    text[3] ^= 1;
    assert_int_equal(read_one(bytes, size, "a", out, 64, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read zip archive", "a.zip: a", "CRC error", "21 bytes");
    free(bytes);
}

static void open__is_refused__at_every_length_but_the_whole(void **state)
{
    (void)state;
    const struct zip_part parts[] = {{"a", "abc", 3, 0}, {"b", "defg", 4, 0}};
    size_t size;
    unsigned char *bytes = zip_wrap(parts, 2, &size);
    for (size_t n = 0; n < size; n++) {
        struct err err = ERR_INIT;
        struct archive a;
        char *part = malloc(n + 1); /* its own block, so that a read past it shows */
        assert_non_null(part);
        memcpy(part, bytes, n);
        assert_int_equal(archive_open(&a, "a.zip", part, (int64_t)n, &err), ERR_INPUT);
        archive_close(&a);
        assert_err(&err, ERR_INPUT, "read zip archive", "a.zip", NULL, "archive");
        free(part);
    }
    free(bytes);
}

static void size__is_refused__past_the_bound_and_in_other_packings(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    size_t size, room = (size_t)ARCHIVE_EXPAND + (1 << 20);
    char *zeros = calloc(room, 1);
    assert_non_null(zeros);
    const struct zip_part bomb = {"a", zeros, room, ZIP_CM_DEFLATE};
    unsigned char *bytes = zip_wrap(&bomb, 1, &size);
    assert_true(size < room / 100);
    assert_int_equal(read_one(bytes, size, "a", NULL, 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read zip archive", "a.zip: a", "68157440 bytes", "64 MiB");
    free(bytes);
    free(zeros);
    if (!zip_compression_method_supported(ZIP_CM_BZIP2, 1)) return;
    err_clear(&err);
    const struct zip_part packed = {"a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 36, ZIP_CM_BZIP2};
    bytes = zip_wrap(&packed, 1, &size);
    assert_int_equal(read_one(bytes, size, "a", NULL, 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read zip archive", "a.zip: a", "compression 12",
               "stored or deflated");
    free(bytes);
}

/* The bound is on all members together: one read many times comes to an end. */
static void read__counts_what_was_read_before(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct archive a;
    size_t size, room = (size_t)ARCHIVE_EXPAND / 2 + 4096;
    char *zeros = calloc(room, 1);
    assert_non_null(zeros);
    const struct zip_part half = {"a", zeros, room, ZIP_CM_DEFLATE};
    unsigned char *bytes = zip_wrap(&half, 1, &size);
    int64_t n;
    assert_int_equal(archive_open(&a, "a.zip", bytes, (int64_t)size, &err), ERR_OK);
    assert_int_equal(archive_size(&a, 0, &n, &err), ERR_OK);
    assert_int_equal(archive_read(&a, 0, zeros, n, &err), ERR_OK);
    assert_int_equal(archive_size(&a, 0, &n, &err), ERR_OK);
    assert_int_equal(archive_read(&a, 0, zeros, n, &err), ERR_OK);
    assert_int_equal(archive_size(&a, 0, &n, &err), ERR_INPUT);
    archive_close(&a);
    free(bytes);
    free(zeros);
}

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static void write__is_read_by_libzip__with_data_at_multiples_of_64(void **state)
{
    struct err err = ERR_INIT;
    struct archive_out out;
    const char *path = folder_path(state, "a.zip");
    char data[300], name[96];
    size_t size;
    memset(data, 'd', sizeof data);
    assert_int_equal(archive_out_open(&out, path, &err), ERR_OK);
    for (int i = 0; i < 70; i++) { /* each start modulo 64 */
        snprintf(name, sizeof name, "f/%.*s", i + 1, data);
        assert_int_equal(archive_out_add(&out, name, data, i, &err), ERR_OK);
    }
    assert_int_equal(archive_out_commit(&out, &err), ERR_OK);
    archive_out_close(&out);
    unsigned char *bytes = (unsigned char *)read_whole(path, &size);
    for (int i = 0; i < 70; i++) {
        char got[80];
        snprintf(name, sizeof name, "f/%.*s", i + 1, data);
        assert_int_equal(read_one(bytes, size, name, got, 80, &err), ERR_OK);
        assert_memory_equal(got, data, i);
    }
    int64_t at = 0;
    for (int i = 0; i < 70; i++) {
        assert_int_equal(little(bytes + at, 4), 0x04034b50);
        int64_t start =
            at + 30 + (int64_t)little(bytes + at + 26, 2) + (int64_t)little(bytes + at + 28, 2);
        assert_int_equal(start % 64, 0);
        at = start + i + (i ? 16 : 0);
    }
    free(bytes);
}

/* Past 4 GiB without writing them: the place alone is moved there. */
static void write__takes_zip64_fields__past_4_gib(void **state)
{
    struct err err = ERR_INIT;
    struct archive_out out;
    const char *path = folder_path(state, "a.zip");
    const int64_t far = 5LL << 30;
    size_t size;
    assert_int_equal(archive_out_open(&out, path, &err), ERR_OK);
    out.file.bytes = far;
    assert_int_equal(archive_out_add(&out, "f/a", "abc", 3, &err), ERR_OK);
    assert_int_equal(archive_out_commit(&out, &err), ERR_OK);
    archive_out_close(&out);
    unsigned char *b = (unsigned char *)read_whole(path, &size);
    int extra = (int)little(b + 28, 2), data = 33 + extra;
    assert_int_equal(little(b + 33, 2), 1); /* the zip64 field: where the member begins */
    assert_int_equal(little(b + 35, 2), 8);
    assert_int_equal(little(b + 37, 8), far);
    assert_memory_equal(b + 45, "FB", 2);
    assert_int_equal((far + data) % 64, 0);
    assert_memory_equal(b + data, "abcPK\7\10", 7);
    assert_int_equal(little(b + data + 11, 8), 3); /* sizes of eight bytes each */
    assert_int_equal(little(b + data + 19, 8), 3);
    const unsigned char *entry = b + data + 27;
    assert_memory_equal(entry, "PK\1\2", 4);
    assert_int_equal(little(entry + 20, 4), 3);
    assert_int_equal(little(entry + 42, 4), 0xFFFFFFFF);
    assert_int_equal(little(entry + 46 + 3 + 4, 8), far);
    const unsigned char *end = b + size - 22;
    assert_memory_equal(end, "PK\5\6", 4);
    assert_int_equal(little(end + 16, 4), 0xFFFFFFFF);
    free(b);
}

static void write__leaves_nothing__when_not_committed(void **state)
{
    struct err err = ERR_INIT;
    struct archive_out out;
    assert_int_equal(archive_out_open(&out, folder_path(state, "a.zip"), &err), ERR_OK);
    assert_int_equal(archive_out_add(&out, "f/a", "abc", 3, &err), ERR_OK);
    archive_out_close(&out);
    assert_int_equal(folder_count(*state), 0);
    assert_int_equal(archive_out_open(&out, folder_path(state, "none/a.zip"), &err), ERR_INPUT);
    archive_out_close(&out);
    assert_err(&err, ERR_INPUT, "write", "none/a.zip", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32__is_that_of_zip__at_any_length_and_split),
        cmocka_unit_test(read__gives_members__stored_or_deflated),
        cmocka_unit_test(read__is_refused__when_bytes_and_checksum_disagree),
        cmocka_unit_test(open__is_refused__at_every_length_but_the_whole),
        cmocka_unit_test(size__is_refused__past_the_bound_and_in_other_packings),
        cmocka_unit_test(read__counts_what_was_read_before),
        cmocka_unit_test_setup_teardown(write__is_read_by_libzip__with_data_at_multiples_of_64,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(write__takes_zip64_fields__past_4_gib, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(write__leaves_nothing__when_not_committed, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
