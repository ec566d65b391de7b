/* test_inspect_contract.c: the checkpoint contract: written whole or not at all, the same after a
 * kill, and everything that changed since is named. */
#include "harness/inspect.h"

#include "tests/cli.h"
#include "tests/images.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <fcntl.h>

static const char *at(const struct images *m, const char *name)
{
    return textf("%s/%s", m->folder, name);
}

static void recorded(const char *folder, const char *contract)
{
    setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
    json_t *r = cli_passes("inspect", folder, "--record", contract);
    assert_true(json_is_true(field(field(r, "recorded"), "done")));
    json_decref(r);
    unsetenv("SOURCE_DATE_EPOCH");
}

static size_t size_of(const json_t *r, const char *list)
{
    return json_array_size(field(field(r, "against"), list));
}

/* A run against the contract that finds this many of each. */
static json_t *differs(const char *folder, const char *contract, size_t changed, size_t appeared,
                       size_t vanished, size_t moved)
{
    json_t *r = cli_fails("inspect", folder, "--against", contract);
    assert_int_equal(size_of(r, "changed"), changed);
    assert_int_equal(size_of(r, "appeared"), appeared);
    assert_int_equal(size_of(r, "vanished"), vanished);
    assert_int_equal(size_of(r, "moved"), moved);
    return r;
}

/* ---- hashes ---- */

static void hash__is_that_of_the_bytes_in_any_parts(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    unsigned char *data = malloc(SIZE);
    char whole[INS_HASH], parts[INS_HASH], other[INS_HASH], empty[INS_HASH];
    struct ins_hasher *h = ins_hasher_new();
    assert_true(h && data);
    for (int i = 0; i < SIZE; i++) data[i] = (unsigned char)(i * 7 + i / 256);
    assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, SIZE) && ins_hasher_end(h, whole));
    assert_true(ins_hasher_begin(h) && ins_hasher_end(h, empty));
    assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, 1) &&
                ins_hasher_add(h, data + 1, 4999) && ins_hasher_add(h, data + 5000, SIZE - 5000) &&
                ins_hasher_end(h, parts));
    assert_string_equal(whole, parts);
    assert_string_not_equal(whole, empty);
    for (int i = 0; i < SIZE; i += 9973) { /* a bit, and a byte less */
        data[i] ^= 1;
        assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, SIZE) &&
                    ins_hasher_end(h, other));
        assert_string_not_equal(whole, other);
        data[i] ^= 1;
    }
    memset(data, 0, SIZE);
    assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, 32) && ins_hasher_end(h, whole));
    assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, 48) && ins_hasher_end(h, other));
    assert_string_not_equal(whole, other); /* zeros count */
    ins_hasher_free(h);
    ins_hasher_free(NULL);
    free(data);
}

/* A tensor of several reads: its last byte counts, and its hash is that of one piece. */
static void hash__reaches_the_end_of_a_large_tensor(void **state)
{
    enum { SIZE = 3 * (1 << 19) + 17 };
    unsigned char *data = malloc(SIZE);
    char hex[3][INS_HASH] = {"", "", ""}, whole[INS_HASH];
    struct ins_hasher *h = ins_hasher_new();
    assert_true(data && h);
    for (int i = 0; i < SIZE; i++) data[i] = (unsigned char)(i ^ i >> 8);
    const struct st_part parts[] = {{"big", DT_U8, 1, {SIZE}, data}, {"none", DT_U8, 1, {0}, NULL}};
    const char *path = folder_path(state, "big.safetensors");
    write_safetensors(path, parts, 2, NULL, 0);
    struct err err = ERR_INIT;
    struct inspection s;
    bool dump;
    inspection_open(&s, path);
    assert_int_equal(inspect_file(&s, &dump, &err), ERR_OK);
    struct ins_hash_job job = {&s, 2, hex, NULL, NULL};
    assert_int_equal(ins_hash_all(&job, &err), ERR_OK);
    assert_true(ins_hasher_begin(h) && ins_hasher_add(h, data, SIZE) && ins_hasher_end(h, whole));
    assert_string_equal(hex[0], whole);
    assert_int_equal(strlen(hex[1]), INS_HASH - 1);
    hex[0][0] = '\0';
    assert_int_equal(truncate(path, 1 << 19), 0); /* it shrinks while it is read */
    assert_int_equal(ins_hash_all(&job, &err), ERR_IO);
    assert_err(&err, ERR_IO, "hash", "big", "the file's end", "bytes of the tensor");
    err_clear(&err);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ins_hash_all(&job, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "hash", "big.safetensors", "No such file", NULL);
    inspection_close(&s);
    ins_hasher_free(h);
    free(data);
}

/* ---- what changed ---- */

static void against__passes__when_nothing_changed(void **state)
{
    struct images m;
    images_make(&m, true, state);
    images_write(&m);
    recorded(m.folder, m.contract);
    json_t *r = cli_passes("inspect", m.folder, "--against", m.contract, "--threads", "3");
    assert_int_equal(size_of(r, "changed") + size_of(r, "moved"), 0);
    json_decref(r);
    size_t size;
    char *text = read_whole(m.contract, &size);
    json_t *whole = json_loadb(text, size, 0, NULL); /* it is JSON as a whole, too */
    assert_non_null(whole);
    assert_int_equal(json_array_size(field(whole, "weights")), 115);
    assert_int_equal(json_array_size(field(whole, "files")), 3);
    assert_string_equal(field_text(whole, "date"), "2023-11-14T22:13:20Z");
    json_decref(whole);
    free(text);
    images_free(&m);
}

static void against__names_a_flipped_bit(void **state)
{
    struct images m;
    images_make(&m, false, state);
    images_write(&m);
    recorded(m.folder, m.contract);
    m.files[1].data[m.files[1].size - 12] ^= 0x10; /* the last 8 are a weight_shape */
    images_write(&m);
    json_t *r = differs(m.folder, m.contract, 1, 0, 0, 0);
    const json_t *p = json_array_get(field(r, "problems"), 0);
    assert_int_equal(json_array_size(field(r, "problems")), 1);
    assert_string_equal(field_text(p, "what"), "changed since recorded");
    assert_string_equal(field_text(p, "where"), "model.safetensors");
    assert_non_null(strstr(field_text(p, "tensor"), "layers.2.mlp.experts.3.down_proj"));
    json_decref(r);
    images_free(&m);
}

static void against__names_swapped_shards(void **state)
{
    struct images m;
    images_make(&m, true, state);
    m.files[1].gone = true; /* no index that would show it */
    images_write(&m);
    recorded(m.folder, m.contract);
    const char *a = at(&m, m.files[2].name), *b = at(&m, m.files[3].name), *c = at(&m, "x");
    assert_int_equal(rename(a, c) | rename(b, a) | rename(c, b), 0);
    json_decref(differs(m.folder, m.contract, 0, 0, 0, 77));
    images_free(&m);
}

static void against__names_what_came_and_went(void **state)
{
    const struct st_part part = {"mm_projector.new", DT_F32, 1, {2}, NULL};
    struct images m;
    images_make(&m, true, state);
    m.files[1].gone = true;
    images_write(&m);
    recorded(m.folder, m.contract);
    write_safetensors(at(&m, "model-x.safetensors"), &part, 1, NULL, 0);
    json_decref(differs(m.folder, m.contract, 0, 1, 0, 0));
    unlink(at(&m, m.files[2].name));
    json_decref(differs(m.folder, m.contract, 0, 1, 39, 0));
    images_write(&m);
    unlink(at(&m, "model-x.safetensors"));
    json_t *header = image_header(&m.files[3]); /* another dtype of the same size */
    const char *name = "language_model.model.norm.weight";
    json_object_set_new(json_object_get(header, name), "dtype", json_string("F16"));
    image_set_header(&m.files[3], header);
    images_write(&m);
    json_t *r = differs(m.folder, m.contract, 1, 0, 0, 0);
    assert_int_equal(times_in(field(field(r, "against"), "changed"), name), 1);
    json_decref(r);
    images_free(&m);
}

/* ---- contracts that cannot be believed ---- */

static void contract__that_was_edited_is_refused(void **state)
{
    static const struct {
        const char *from, *to, *what, *found;
    } rows[] = {
        {"\"contract\": \"checkpoint\"", "\"contract\": \"plan\"", "read contract", "plan"},
        {"\"version\": 1", "\"version\": 2", "read key \"version\"", "2"},
        {INS_HASH_NAME, "crc32", "read contract", "crc32"},
        {"\"tensors\": 115", "\"tensors\": 114", "read contract", "115 tensors"},
        {"\"tensors\": 115", "\"tensors\": true", "read key \"tensors\"", "true"},
        {"\n]}\n", "\n", "read contract", "no end"},
        {"\"hash\": \"", "\"hash\": \"0", "read contract", "hash \"0gmac"},
        {"down_proj.weight\", \"dtype\": \"BF16\"", "down_proj.weight\", \"dtype\": \"F32\"",
         "read contract", "total"},
        {"language_model.lm_head", "zzz", "read contract", "do not ascend"},
        {"\"dtype\": \"BF16\"", "\"dtype\": 3", "read contract", "no name, dtype"},
        {"\"shape\": [", "\"shape\": 1, \"s\": [", "read contract", "no shape"},
        {"\"header_sha256\"", "\"header\"", "read contract", "header_sha256"},
        {"\n\"weights\": [", "\n\"other\": [", "read contract", "another form"},
        {"\"files\": [", "\"files\": [}", "read contract", "another form"},
        {"{\"name\"", "{name", "parse JSON", NULL},
        {"{\"assay\"", "[\"assay\"", "parse JSON", NULL},
    };
    struct images m;
    images_make(&m, false, state);
    images_write(&m);
    recorded(m.folder, m.contract);
    char *good = read_whole(m.contract, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = replaced(good, rows[i].from, rows[i].to);
        write_text(m.contract, text);
        const struct refusal refusal = {2, rows[i].what, NULL, rows[i].found, NULL};
        cli_refuses(state, refusal, "inspect", m.folder, "--against", m.contract);
        free(text);
    }
    write_text(m.contract, "");
    cli_refuses(state, ((struct refusal){2, "read contract", NULL, "0 tensors", NULL}), "inspect",
                m.folder, "--against", m.contract);
    free(good);
    images_free(&m);
}

/* ---- writing ---- */

static void record__of_what_cannot_be_read_writes_nothing(void **state)
{
    struct images m;
    images_make(&m, true, state);
    m.files[3].size -= 5;
    images_write(&m);
    json_t *r = cli_fails("inspect", m.folder, "--record", m.contract);
    assert_true(json_is_false(field(field(r, "recorded"), "done")));
    assert_non_null(strstr(field_text(field(r, "recorded"), "why"), "1 tensors cannot"));
    json_decref(r);
    m.files[3].size = 3;
    images_write(&m);
    r = cli_fails("inspect", m.folder, "--record", m.contract);
    assert_non_null(strstr(field_text(field(r, "recorded"), "why"), m.files[3].name));
    json_decref(r);
    assert_false(file_exists(m.contract));
    assert_false(file_exists(textf("%s.partial", m.contract)));
    images_free(&m);
}

/* Other problems do not stop it: the contract counts them. */
static void record__of_an_odd_checkpoint_is_made_and_red(void **state)
{
    struct images m;
    images_make(&m, false, state);
    char *text = replaced((const char *)m.files[0].data, "\"vocab_size\": 48", "\"vocab_size\": 9");
    image_set(&m.files[0], "config.json", text, strlen(text));
    free(text);
    images_write(&m);
    json_decref(cli_fails("inspect", m.folder, "--record", m.contract));
    text = read_whole(m.contract, NULL);
    assert_non_null(strstr(text, "\"problems\": 2"));
    free(text);
    images_free(&m);
}

static void record__says_when_it_cannot_write(void **state)
{
    struct images m;
    images_make(&m, false, state);
    images_write(&m);
    cli_refuses(state, ((struct refusal){3, "write", "/dev/full", "No space", NULL}), "inspect",
                m.folder, "--record", "/dev/full");
    cli_refuses(state, ((struct refusal){2, "write", NULL, "No such file", NULL}), "inspect",
                m.folder, "--record", folder_path(state, "none/x.json"));
    cli_refuses(state, ((struct refusal){2, "write", NULL, "a folder", NULL}), "inspect", m.folder,
                "--record", m.folder);
    assert_int_equal(folder_count(m.folder), 2);
    images_free(&m);
}

/* ---- a killed run ---- */

struct killed {
    const struct images *m;
    int tensors;
};

/* What a run does that is killed after some tensors and in the middle of a line. */
static void record_and_die(void *ctx)
{
    const struct killed *k = ctx;
    struct err err = ERR_INIT;
    struct inspection s;
    struct ins_partial p;
    struct ins_contract c = {.date = "2023-11-14T22:13:20Z"};
    inspection_open(&s, k->m->folder);
    assert_int_equal(inspect_folder(&s, &err), ERR_OK);
    char(*hash)[INS_HASH] = calloc((size_t)s.tensor_count + 1, sizeof *hash);
    struct ins_hash_job job = {&s, 1, hash, NULL, NULL};
    assert_int_equal(ins_hash_all(&job, &err), ERR_OK);
    char(*none)[INS_HASH] = calloc((size_t)s.tensor_count + 1, sizeof *none);
    assert_int_equal(ins_partial_open(&p, &s, k->m->contract, none, &c, &err), ERR_OK);
    for (int64_t i = 0; i < k->tensors; i++)
        assert_int_equal(ins_partial_add(&p, i, hash[i], &err), ERR_OK);
    assert_int_equal(write(p.fd, hash[k->tensors], 20), 20);
    raise(SIGKILL);
}

static int64_t resumed(const struct images *m)
{
    json_t *r = cli_passes("inspect", m->folder, "--record", m->contract);
    int64_t n = field_int(field(r, "recorded"), "resumed");
    json_decref(r);
    return n;
}

static void record__goes_on_after_kill_9__to_the_same_file(void **state)
{
    struct images m;
    images_make(&m, true, state);
    images_write(&m);
    recorded(m.folder, m.contract);
    size_t size;
    char *once = read_whole(m.contract, &size);
    assert_int_equal(unlink(m.contract), 0);
    const char *partial = textf("%s.partial", m.contract);
    for (int n = 0; n <= 115; n += 23) {
        struct killed k = {&m, n < 115 ? n : 114};
        assert_int_equal(signal_of(record_and_die, &k, NULL), SIGKILL);
        assert_true(file_exists(partial));
        assert_false(file_exists(m.contract));
        assert_int_equal(resumed(&m), k.tensors);
        char *again = read_whole(m.contract, NULL);
        assert_string_equal(again, once); /* the date of the first start, too */
        assert_false(file_exists(partial));
        free(again);
        assert_int_equal(unlink(m.contract), 0);
    }
    free(once);
    images_free(&m);
}

static void record__does_not_go_on__with_other_files(void **state)
{
    struct images m;
    images_make(&m, true, state);
    images_write(&m);
    struct killed k = {&m, 50};
    const char *partial = textf("%s.partial", m.contract);
    assert_int_equal(signal_of(record_and_die, &k, NULL), SIGKILL);
    m.files[2].data[8 + image_header_size(&m.files[2])] ^= 1;
    images_write(&m); /* same size and header, another time */
    assert_int_equal(resumed(&m), 0);
    write_text(partial, "something else\n");
    assert_int_equal(resumed(&m), 0);
    json_decref(cli_passes("inspect", m.folder, "--against", m.contract));
    images_free(&m);
}

static void record__is_made_by_one_run_at_a_time(void **state)
{
    struct images m;
    images_make(&m, false, state);
    images_write(&m);
    const char *partial = textf("%s.partial", m.contract);
    int fd = open(partial, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    cli_refuses(state, ((struct refusal){2, "record", ".partial", "another run", "one at a time"}),
                "inspect", m.folder, "--record", m.contract);
    close(fd);
    assert_int_equal(resumed(&m), 0);
    images_free(&m);
}

static void text__says_what_was_written_and_what_changed(void **state)
{
    struct images m;
    struct cli r;
    images_make(&m, false, state);
    images_write(&m);
    cli(&r, "inspect", m.folder, "--record", m.contract);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, textf("recorded in %s: total ", m.contract)));
    cli_free(&r);
    m.files[1].data[m.files[1].size - 12] ^= 1;
    images_write(&m);
    cli(&r, "inspect", m.folder, "--against", m.contract);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, ": 1 changed, 0 appeared, 0 vanished, 0 moved"));
    assert_non_null(strstr(r.out, "changed since recorded: model.safetensors: "));
    cli_free(&r);
    m.files[1].size--;
    images_write(&m);
    cli(&r, "inspect", m.folder, "--record", m.contract);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "truncated file: model.safetensors: "));
    assert_non_null(strstr(r.out, "not recorded: the bytes of 1 tensors cannot be had"));
    cli_free(&r);
    images_free(&m);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(hash__is_that_of_the_bytes_in_any_parts),
        TEST(hash__reaches_the_end_of_a_large_tensor),
        TEST(against__passes__when_nothing_changed),
        TEST(against__names_a_flipped_bit),
        TEST(against__names_swapped_shards),
        TEST(against__names_what_came_and_went),
        TEST(contract__that_was_edited_is_refused),
        TEST(record__of_what_cannot_be_read_writes_nothing),
        TEST(record__of_an_odd_checkpoint_is_made_and_red),
        TEST(record__says_when_it_cannot_write),
        TEST(record__goes_on_after_kill_9__to_the_same_file),
        TEST(record__does_not_go_on__with_other_files),
        TEST(record__is_made_by_one_run_at_a_time),
        TEST(text__says_what_was_written_and_what_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
