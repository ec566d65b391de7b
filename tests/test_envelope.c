/* test_envelope.c: an error survives the way between processes whole, and every broken form of it
 * is refused with a message that says what is wrong. */
#include "compat/envelope.h"

#include "core/crc32.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct envelope sample(void)
{
    struct envelope e;
    envelope_now(&e, 2, 4);
    err_set(&e.err, ERR_INPUT, "read tensor|m.safetensors: größe|3 bytes|8");
    err_note(&e.err, "expert 17");
    err_note(&e.err, "layer 3");
    e.err.rank = 1;
    e.cause = 1;
    e.layer = 3;
    e.batch = 0;
    e.sample = 7;
    e.line = 123;
    snprintf(e.op, sizeof e.op, "moe");
    snprintf(e.samples, sizeof e.samples, "0-3");
    snprintf(e.file, sizeof e.file, "harness/x.c");
    return e;
}

static unsigned char bytes[ENVELOPE_MOST];

/* Decodes n bytes from memory of exactly that size, so that a sanitizer sees reads past the end. */
static void refused(const unsigned char *data, size_t n, const char *where, const char *found)
{
    struct err err = ERR_INIT;
    struct envelope e = sample(), untouched = e;
    unsigned char *exact = malloc(n ? n : 1);
    memcpy(exact, data, n);
    assert_int_not_equal(envelope_decode(&e, exact, n, &err), ERR_OK);
    free(exact);
    assert_err(&err, ERR_PROCESS, "read an error of another process", where, found, NULL);
    assert_true(err.wanted[0]);
    assert_memory_equal(&e, &untouched, sizeof e);
}

static void put(size_t at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) bytes[at + (size_t)i] = (unsigned char)(value >> 8 * i);
}

/* The length and the checksum as they must be for a body that was changed. */
static void seal(size_t size)
{
    struct crc32 c;
    crc32_init(&c);
    put(8, size - ENVELOPE_HEADER, 4);
    put(12, crc32_of(&c, 0, bytes + ENVELOPE_HEADER, (int64_t)(size - ENVELOPE_HEADER)), 4);
}

static void decode__gives_back_what_was_encoded(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct envelope e = sample(), back;
    memset(&back, 0, sizeof back);
    assert_int_equal(envelope_decode(&back, bytes, envelope_encode(&e, bytes), &err), ERR_OK);
    assert_int_equal(back.err.code, ERR_INPUT);
    assert_int_equal(back.err.rank, 1);
    assert_string_equal(back.err.where, "m.safetensors: größe");
    assert_int_equal(back.err.notes, 2);
    assert_string_equal(back.err.note[1], "layer 3");
    assert_int_equal(back.rank, 2);
    assert_int_equal(back.world, 4);
    assert_int_equal(back.cause, 1);
    assert_int_equal(back.pid, getpid());
    assert_int_equal(back.layer, 3);
    assert_int_equal(back.batch, 0);
    assert_int_equal(back.sample, 7);
    assert_int_equal(back.line, 123);
    assert_int_equal(back.time_ns, e.time_ns);
    assert_int_equal(back.clock_ns, e.clock_ns);
    assert_string_equal(back.host, e.host);
    assert_string_equal(back.op, "moe");
    assert_string_equal(back.samples, "0-3");
    assert_string_equal(back.file, "harness/x.c");
    assert_true(e.time_ns > 0 && e.clock_ns > 0 && e.host[0]);
}

static void encode__fits_the_longest_error(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct envelope e, back;
    char longest[2 * ERR_PART];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    envelope_now(&e, 0, 1);
    err_set(&e.err, ERR_IO, "%s|%s|%s|%s", longest, longest, longest, longest);
    for (int i = 0; i < ERR_NOTES; i++) err_note(&e.err, "%s", longest);
    memcpy(e.op, longest, sizeof e.op - 1);
    size_t n = envelope_encode(&e, bytes);
    assert_int_equal(envelope_decode(&back, bytes, n, &err), ERR_OK);
    assert_int_equal(back.err.notes, ERR_NOTES);
    assert_string_equal(back.err.wanted, e.err.wanted);
}

static void decode__refuses_every_cut(void **state)
{
    (void)state;
    struct envelope e = sample();
    size_t n = envelope_encode(&e, bytes);
    refused(bytes, 0, "its bytes", "none: an empty message");
    for (size_t i = 1; i < n; i++)
        refused(bytes, i, i < ENVELOPE_HEADER ? "its header" : "length", "cut");
    /* The same cuts, length and checksum made right: the body's own ends. */
    for (size_t i = ENVELOPE_HEADER; i < n; i++) {
        envelope_encode(&e, bytes);
        seal(i);
        refused(bytes, i, NULL, " bytes left");
    }
}

static void decode__refuses_every_flipped_bit(void **state)
{
    (void)state;
    struct envelope e = sample();
    size_t n = envelope_encode(&e, bytes);
    for (size_t i = 0; i < 8 * n; i++) {
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        refused(bytes, n, NULL, NULL);
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
}

static void decode__names_what_is_wrong_with_the_header(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
        const char *where, *found;
    } rows[] = {
        {0, 0x21212121, 4, "magic", "21 21 21 21"},
        {4, 2, 2, "version", "2, of another build"},
        {6, 9, 2, "reserved bytes", "9"},
        {8, 0xffffffff, 4, "length", "4294967295 bytes"},
        {8, 5000, 4, "length", "5000 bytes"},
        {8, 17, 4, "length", "bytes after the header"},
        {12, 1, 4, "checksum", NULL},
    };
    struct envelope e = sample();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = envelope_encode(&e, bytes);
        put(rows[i].at, rows[i].value, rows[i].bytes);
        refused(bytes, n, rows[i].where, rows[i].found);
    }
    size_t n = envelope_encode(&e, bytes);
    seal(n + 3); /* bytes behind the last text */
    refused(bytes, n + 3, "its end", "3 bytes after the last text");
}

static void decode__checks_the_range_of_every_number(void **state)
{
    (void)state;
    static const struct {
        int number; /* its place among the numbers */
        int64_t value;
        const char *where;
    } rows[] = {
        {0, 0, "code"},     {0, ERR_COUNT, "code"}, {0, 1LL << 40, "code"}, {1, -2, "rank"},
        {2, -1, "rank"},    {2, 4, "rank"},         {3, 0, "world"},        {4, -2, "cause"},
        {5, -1, "pid"},     {6, -2, "layer"},       {7, -2, "batch"},       {8, -9, "sample"},
        {9, -1, "time_ns"}, {10, -1, "clock_ns"},   {11, -1, "line"},       {12, 9, "notes"},
        {12, -1, "notes"},
    };
    struct envelope e = sample();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = envelope_encode(&e, bytes);
        put(ENVELOPE_HEADER + 8 * (size_t)rows[i].number, (uint64_t)rows[i].value, 8);
        seal(n);
        refused(bytes, n, rows[i].where, NULL);
    }
}

static void decode__refuses_texts_that_say_nothing(void **state)
{
    (void)state;
    struct envelope e = sample();
    e.err.what[0] = '\0';
    refused(bytes, envelope_encode(&e, bytes), "rank 2", "an error with an empty text");
    e = sample();
    e.err.note[1][0] = '\0';
    refused(bytes, envelope_encode(&e, bytes), "rank 2, note 1", "an empty text");
    envelope_now(&e, 0, 4);
    err_set(&e.err, ERR_IO, "%s", err_sentence(ERR_IO));
    refused(bytes, envelope_encode(&e, bytes), "rank 0", "its cause was lost");
}

/* One word is enough: another text than the code's, or anything beside it. */
static void decode__takes_texts_that_say_something(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct envelope e, got;
        struct err err = ERR_INIT;
        envelope_now(&e, 0, 4);
        err_set(&e.err, ERR_IO,
                i == 0   ? "the disk is full"
                : i == 1 ? "%s|a.bin"
                : i == 2 ? "%s||nothing"
                : i == 3 ? "%s|||room"
                         : "%s",
                err_sentence(ERR_IO));
        if (i == 4) (void)!err_note(&e.err, "layer 3");
        (void)!envelope_decode(&got, bytes, envelope_encode(&e, bytes), &err);
        assert_ok(&err);
        assert_string_equal(got.err.what, e.err.what);
    }
}

static void decode__refuses_texts_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found;
    } rows[] = {
        {"a\xff", "ff, which is no UTF-8"},
        {"a\xc3", "c3, which is no UTF-8"},
        {"a\xed\xa0\x80", "ed"},
        {"a\xc0\xaf", "c0"},
        {"a\nb", "control character 0a"},
        {"a\x7f", "control character 7f"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct envelope e = sample();
        snprintf(e.err.found, sizeof e.err.found, "%s", rows[i].text);
        refused(bytes, envelope_encode(&e, bytes), "found, byte 1", rows[i].found);
        e = sample();
        snprintf(e.host, sizeof e.host, "%s", rows[i].text);
        refused(bytes, envelope_encode(&e, bytes), "host, byte 1", rows[i].found);
    }
    /* A text longer than its field: the host's length is the first after the numbers. */
    struct envelope e = sample();
    size_t n = envelope_encode(&e, bytes);
    put(ENVELOPE_HEADER + 13 * 8, ENVELOPE_HOST, 2);
    seal(n);
    refused(bytes, n, "host", "64 bytes");
}

static void raise__keeps_the_error_and_adds_the_place(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct envelope e = sample();
    e.err.rank = -1;
    e.time_ns = 1700000000LL * 1000000000;
    assert_int_equal(envelope_raise(&e, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read tensor", "m.safetensors", "3 bytes", "8");
    assert_int_equal(err.rank, 2);
    assert_int_equal(err.notes, 4);
    assert_non_null(strstr(err.note[2], "rank 2 of 4, pid "));
    assert_non_null(strstr(err.note[2], "in moe, layer 3, batch 0, sample 7, samples 0-3, "
                                        "harness/x.c:123"));
    assert_string_equal(err.note[3], "at 2023-11-14T22:13:20Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode__gives_back_what_was_encoded),
        cmocka_unit_test(encode__fits_the_longest_error),
        cmocka_unit_test(decode__refuses_every_cut),
        cmocka_unit_test(decode__refuses_every_flipped_bit),
        cmocka_unit_test(decode__names_what_is_wrong_with_the_header),
        cmocka_unit_test(decode__checks_the_range_of_every_number),
        cmocka_unit_test(decode__refuses_texts_that_say_nothing),
        cmocka_unit_test(decode__takes_texts_that_say_something),
        cmocka_unit_test(decode__refuses_texts_that_are_none),
        cmocka_unit_test(raise__keeps_the_error_and_adds_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
