/* test_load.c: what the watch counts and says, and when it calls a disk stalled. Time is given to
 * load_tick(), and the kernel's list of threads is a folder that the test writes: nothing sleeps
 * but the one test of the real thread. */
#include "harness/load.h"
#include "harness/session.h"
#include "harness/synth.h"
#include "tests/config_texts.h"
#include "tests/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define T "language_model.model."
enum { MIB = 1 << 20, ROW = MIB / 2 };

/* A checkpoint of three shards, 1 MiB a tensor: layers 0 and 1; layer 2 and the vision tower; the
 * ends. */
struct fixture {
    void **state;
    struct weights weights;
    struct load_options options;
    struct load *load;
    char tasks[FILE_PATH * 2];
    char *said;
    size_t size, heard;
};

static void set_task(const struct fixture *f, long thread, char mode, int faults, const char *call)
{
    char text[256], name[64];
    struct err err = ERR_INIT;
    snprintf(name, sizeof name, "tasks/%ld", thread);
    assert_int_equal(file_make_folder(folder_path(f->state, name), &err), ERR_OK);
    snprintf(name, sizeof name, "tasks/%ld/stat", thread);
    snprintf(text, sizeof text, "%ld (a ) name) %c 1 2 3 0 -1 4194304 11 12 %d 13 14 15\n", thread,
             mode, faults);
    write_text(folder_path(f->state, name), text);
    snprintf(name, sizeof name, "tasks/%ld/syscall", thread);
    write_text(folder_path(f->state, name), call);
}

static void make_shards(void **state)
{
    const int64_t n = ROW;
    const struct st_part first[] = {{T "layers.0.x.weight", DT_BF16, 1, {n}, NULL},
                                    {T "layers.1.x.weight", DT_BF16, 1, {n}, NULL}},
                         second[] = {{T "layers.2.x.weight", DT_BF16, 1, {n}, NULL},
                                     {"vision_tower.x.weight", DT_BF16, 1, {n}, NULL}},
                         third[] = {{T "embed_tokens.weight", DT_BF16, 1, {n}, NULL},
                                    {T "norm.weight", DT_BF16, 1, {n}, NULL},
                                    {"language_model.lm_head.weight", DT_BF16, 1, {n}, NULL}};
    write_text(folder_path(state, "config.json"), CONFIG_K25);
    write_safetensors(folder_path(state, "model-1.safetensors"), first, 2, NULL, 0);
    write_safetensors(folder_path(state, "model-2.safetensors"), second, 2, NULL, 0);
    write_safetensors(folder_path(state, "model-3.safetensors"), third, 3, NULL, 0);
}

static void open_fixture(struct fixture *f, void **state)
{
    struct err err = ERR_INIT;
    *f = (struct fixture){.state = state, .options = load_defaults()};
    make_shards(state);
    assert_int_equal(weights_open(&f->weights, *state, &err), ERR_OK);
    f->options.tick_s = 0;
    f->options.terminal = false;
    snprintf(f->tasks, sizeof f->tasks, "%s", folder_path(state, "tasks"));
    f->options.tasks = f->tasks;
    f->options.out = open_memstream(&f->said, &f->size);
    assert_non_null(f->options.out);
    set_task(f, (long)gettid(), 'R', 0, "running\n");
}

static void begin(struct fixture *f, int64_t layer_end)
{
    f->load = load_begin(&f->weights, layer_end, &f->options);
    assert_non_null(f->load);
}

static void close_fixture(struct fixture *f)
{
    load_end(f->load);
    fclose(f->options.out);
    free(f->said);
    weights_close(&f->weights);
}

/* What was said since the last call. */
static const char *said(struct fixture *f)
{
    fflush(f->options.out);
    const char *text = f->said + f->heard;
    f->heard = f->size;
    return text;
}

static void tick(struct fixture *f, double from, double to)
{
    for (double t = from; t <= to; t++) load_tick(f->load, t);
}

/* Elements [first, first + n) are handed out. */
static void read_part(const struct fixture *f, const char *name, int64_t first, int64_t n)
{
    const struct st_tensor *s = weights_stored(&f->weights, name);
    assert_non_null(s);
    struct tensor t = {.dtype = s->dtype, .dims = 1, .shape = {s->count}, .data = s->data};
    assert_ptr_equal(tensor_elements(&t, first, n, NULL), (const uint16_t *)s->data + first);
}

/* ---- the line ---- */

/* "assay: load: SHARDS of OF shards, MB of up to MOST, ..., LEFT s left": a mapping begins at any
 * page, so that one piece of 64 KiB more or less may be counted. */
static void assert_line(const char *text, int shards, int of, double mb, double most, int left)
{
    int got_shards, got_of, got_left;
    double got_mb, got_most, rate;
    int n =
        sscanf(text, "assay: load: %d of %d shards, %lf MB of up to %lf MB, %lf kB/s, %d s left\n",
               &got_shards, &got_of, &got_mb, &got_most, &rate, &got_left);
    if (n != 6 || strchr(text, '\n') != text + strlen(text) - 1) fail_msg("not a line: %s", text);
    assert_int_equal(got_shards, shards);
    assert_int_equal(got_of, of);
    assert_true(got_most >= most - 0.06 && got_most <= most + 0.06);
    if (!(got_mb >= mb - 0.05 && got_mb <= mb + 0.2)) fail_msg("%g MB of %g: %s", got_mb, mb, text);
    if (!(got_left >= left * 0.8 && got_left <= left * 1.1)) fail_msg("%d s left: %s", left, text);
}

static void line__comes_every_ten_seconds__in_a_log(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    begin(&f, 3);
    for (int64_t i = 0; i < 64; i++) read_part(&f, T "layers.0.x.weight", i * ROW / 64, ROW / 64);
    tick(&f, 0, 9);
    assert_string_equal(said(&f), "");
    load_tick(f.load, 10);
    assert_line(said(&f), 0, 3, 1.05, 6.29, 50);
    read_part(&f, T "layers.2.x.weight", 0, ROW / 2);
    tick(&f, 11, 19);
    assert_string_equal(said(&f), "");
    load_tick(f.load, 20);
    assert_line(said(&f), 1, 3, 1.57, 6.29, 90);
    close_fixture(&f);
}

static void line__counts_only_what_the_run_needs__when_it_ends_early(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    begin(&f, 2);
    read_part(&f, T "layers.0.x.weight", 0, ROW);
    tick(&f, 0, 10);
    assert_line(said(&f), 0, 2, 1.05, 3.15, 20);
    close_fixture(&f);
}

static void bytes__count_once__whoever_reads_them(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    begin(&f, 3);
    for (int i = 0; i < 5; i++) read_part(&f, T "layers.1.x.weight", 0, ROW);
    for (int i = 0; i < 5; i++) read_part(&f, T "layers.1.x.weight", ROW / 2, ROW / 2);
    read_part(&f, T "layers.1.x.weight", 7, 0);
    tick(&f, 0, 10);
    assert_line(said(&f), 0, 3, 1.05, 6.29, 50);
    close_fixture(&f);
}

static void line__shows_the_layer__until_a_second_pass(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    begin(&f, 3);
    load_progress(f.load, "layer", 0, 3);
    load_progress(f.load, "layer", 1, 3);
    read_part(&f, T "layers.0.x.weight", 0, ROW);
    tick(&f, 0, 10);
    assert_non_null(strstr(said(&f), ", layer 1 of 3, 20 s left\n"));
    load_progress(f.load, "layer", 0, 3);
    tick(&f, 11, 40);
    assert_string_equal(said(&f), "");
    close_fixture(&f);
}

static void bar__stands_on_the_line__and_is_wiped(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    f.options.terminal = true;
    begin(&f, 3);
    load_progress(f.load, "layer", 0, 4);
    load_progress(f.load, "layer", 2, 4);
    load_tick(f.load, 1);
    assert_string_equal(said(&f), "");
    load_tick(f.load, 3);
    const char *text = said(&f);
    assert_int_equal(strncmp(text, "\rload [############............] 0/3 shards, ", 44), 0);
    assert_non_null(strstr(text, ", layer 2/4, 3 s left"));
    assert_null(strchr(text, '\n'));
    load_end(f.load);
    f.load = NULL;
    assert_string_equal(said(&f), "\r\x1b[K");
    close_fixture(&f);
}

/* ---- a stall ---- */

static void stall__is_named_after_ten_seconds__and_again(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    f.options.line_s = 1000;
    begin(&f, 3);
    read_part(&f, T "layers.2.x.weight", 0, ROW / 2);
    set_task(&f, (long)gettid(), 'D', 0, "-1 0x7ffc 0x5581\n");
    tick(&f, 100, 109);
    assert_string_equal(said(&f), "");
    load_tick(f.load, 110);
    assert_string_equal(said(&f), "assay: disk: no byte of model-2.safetensors for 10 s\n");
    tick(&f, 111, 119);
    assert_string_equal(said(&f), "");
    tick(&f, 120, 131);
    assert_string_equal(said(&f), "assay: disk: no byte of model-2.safetensors for 20 s\n"
                                  "assay: disk: no byte of model-2.safetensors for 30 s\n");
    read_part(&f, T "layers.2.x.weight", ROW / 2, ROW / 2);
    load_tick(f.load, 132);
    assert_string_equal(said(&f), "assay: disk: model-2.safetensors goes on after 32 s\n");
    tick(&f, 133, 141);
    assert_string_equal(said(&f), "");
    load_tick(f.load, 142);
    assert_string_equal(said(&f), "assay: disk: no byte of model-2.safetensors for 10 s\n");
    close_fixture(&f);
}

static void stall__wipes_the_bar__on_a_terminal(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    f.options.terminal = true;
    begin(&f, 3);
    read_part(&f, T "norm.weight", 0, ROW);
    set_task(&f, (long)gettid(), 'D', 0, "");
    tick(&f, 0, 9);
    (void)said(&f);
    load_tick(f.load, 10);
    assert_int_equal(
        strncmp(said(&f), "\r\x1b[Kassay: disk: no byte of model-3.safetensors for 10 s\n", 57), 0);
    close_fixture(&f);
}

/* Every way in which time may pass without a stall. */
static void stall__is_not_claimed__when_the_disk_is_not_the_cause(void **state)
{
    struct fixture f;
    long self = (long)gettid();
    open_fixture(&f, state);
    f.options.line_s = 1000;
    begin(&f, 3);
    set_task(&f, self, 'D', 0, "-1 0x7ffc 0x5581\n");
    tick(&f, 0, 30); /* nothing of the checkpoint was read yet */
    assert_string_equal(said(&f), "");
    read_part(&f, T "layers.0.x.weight", 0, ROW);
    set_task(&f, self, 'R', 0, "running\n"); /* computing */
    tick(&f, 31, 60);
    set_task(&f, self, 'S', 0, "-1 0x7ffc 0x5581\n"); /* waiting for another thread */
    tick(&f, 61, 90);
    set_task(&f, self, 'D', 0, "74 0x3 0x7ffc\n"); /* fsync of a dump */
    tick(&f, 91, 120);
    assert_string_equal(said(&f), "");
    for (int i = 0; i < 30; i++) { /* slow, but pages come in */
        set_task(&f, self, 'D', i + 1, "-1 0x7ffc 0x5581\n");
        load_tick(f.load, 121 + i);
    }
    for (int i = 0; i < 30; i++) { /* slow, but pieces are asked for */
        read_part(&f, T "layers.1.x.weight", i * (ROW / 64), ROW / 64);
        load_tick(f.load, 151 + i);
    }
    set_task(&f, self, 'R', 30, "running\n");
    set_task(&f, 1, 'D', 0, "-1 0x7ffc 0x5581\n"); /* a thread that never read a weight */
    tick(&f, 181, 210);
    assert_string_equal(said(&f), "");
    set_task(&f, self, 'D', 30, "-1 0x7ffc 0x5581\n"); /* and the test would have heard one */
    tick(&f, 211, 222);
    assert_string_equal(said(&f), "assay: disk: no byte of model-1.safetensors for 10 s\n");
    close_fixture(&f);
}

static void *read_on_thread(void *arg)
{
    struct fixture *f = arg;
    read_part(f, T "embed_tokens.weight", 0, ROW);
    set_task(f, (long)gettid(), 'D', 0, "-1 0x7ffc 0x5581\n");
    return NULL;
}

static void stall__names_the_shard_of_the_thread_that_waits(void **state)
{
    struct fixture f;
    pthread_t thread;
    open_fixture(&f, state);
    f.options.line_s = 1000;
    begin(&f, 3);
    assert_int_equal(pthread_create(&thread, NULL, read_on_thread, &f), 0);
    pthread_join(thread, NULL);
    read_part(&f, T "layers.0.x.weight", 0, ROW); /* later, but this thread computes */
    tick(&f, 0, 10);
    assert_string_equal(said(&f), "assay: disk: no byte of model-3.safetensors for 10 s\n");
    close_fixture(&f);
}

/* Also before there are weights to read: the header of a shard may be what does not come. */
static void stall__names_the_file__while_the_model_is_opened(void **state)
{
    struct fixture f;
    struct err err = ERR_INIT;
    struct weights again;
    open_fixture(&f, state);
    f.load = load_begin_opening(&f.options);
    assert_non_null(f.load);
    assert_int_equal(weights_open(&again, *state, &err), ERR_OK);
    set_task(&f, (long)gettid(), 'D', 0, "-1 0x7ffc 0x5581\n");
    tick(&f, 0, 10);
    const char *text = said(&f);
    assert_int_equal(strncmp(text, "assay: disk: no byte of ", 24), 0);
    assert_non_null(strstr(text, "/model-3.safetensors for 10 s\n"));
    load_opening(f.load, "folder");
    load_tick(f.load, 11);
    assert_non_null(strstr(said(&f), "/model-3.safetensors goes on after 11 s\n"));
    tick(&f, 12, 21);
    assert_string_equal(said(&f), "assay: disk: no byte of folder for 10 s\n");
    set_task(&f, (long)gettid(), 'R', 0, "running\n");
    tick(&f, 22, 60);
    assert_string_equal(said(&f), "assay: disk: folder goes on after 11 s\n");
    weights_close(&again);
    close_fixture(&f);
}

/* ---- beginning and end ---- */

static void watch__looks_by_itself__every_tick(void **state)
{
    struct fixture f;
    open_fixture(&f, state);
    FILE *out = fopen(folder_path(state, "said"), "w");
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0);
    struct load_options o = f.options;
    o.out = out;
    o.tick_s = 0.005;
    o.stall_s = 0.02;
    f.load = load_begin(&f.weights, 3, &o);
    assert_non_null(f.load);
    read_part(&f, T "layers.0.x.weight", 0, ROW);
    set_task(&f, (long)gettid(), 'D', 0, "-1 0x7ffc 0x5581\n");
    bool found = false;
    for (int i = 0; i < 1000 && !found; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        char *text = read_whole(folder_path(state, "said"), NULL);
        found = strstr(text, "assay: disk: no byte of model-1.safetensors for 0 s\n") != NULL;
        free(text);
    }
    assert_true(found);
    load_end(f.load);
    f.load = NULL;
    fclose(out);
    close_fixture(&f);
}

static void watch__is_one_at_a_time__and_of_files_only(void **state)
{
    struct fixture f;
    struct err err = ERR_INIT;
    struct weights made;
    char spec[FILE_PATH * 2 + 32];
    open_fixture(&f, state);
    begin(&f, 3);
    assert_null(load_begin(&f.weights, 3, &f.options));
    load_end(f.load);
    begin(&f, 3);
    load_end(f.load);
    snprintf(spec, sizeof spec, "synth:%s?seed=1", folder_path(state, "config.json"));
    assert_int_equal(weights_open(&made, spec, &err), ERR_OK);
    assert_null(load_begin(&made, 3, &f.options));
    weights_close(&made);
    f.load = NULL;
    load_end(NULL);
    read_part(&f, T "norm.weight", 0, ROW); /* nobody listens any more */
    close_fixture(&f);
}

/* A run from files is watched, one of made weights is not; the bits are the same. */
static void session__is_watched__when_its_checkpoint_is_real(void **state)
{
    struct err err = ERR_INIT;
    struct synth_result made;
    char spec[FILE_PATH * 2 + 32], folder[FILE_PATH * 2], config[FILE_PATH * 2];
    double logits[2][48];
    int64_t id[] = {1, 2, 3}, length[] = {3};
    struct tokens tokens = {.sequences = 1, .count = 3, .id = id, .length = length};
    snprintf(config, sizeof config, "%s", folder_path(state, "c.json"));
    snprintf(folder, sizeof folder, "%s", folder_path(state, "m"));
    snprintf(spec, sizeof spec, "synth:%s?seed=9", config);
    write_text(config, CONFIG_K25);
    const struct synth_request q = {.config = config, .folder = folder, .seed = 9, .shards = 3};
    (void)!synth_checkpoint(&q, &made, &err);
    assert_ok(&err);
    synth_result_free(&made);
    for (int i = 0; i < 2; i++) {
        struct loaded l;
        struct session s;
        const struct session_options o = session_defaults();
        (void)!loaded_open(&l, i ? spec : folder, &err);
        (void)!session_open(&s, &l, &o, 1, length, &err);
        assert_ok(&err);
        assert_true(i ? s.load == NULL : s.load != NULL);
        (void)!session_forward(&s, &tokens, NULL, NULL, logits[i], &err);
        assert_ok(&err);
        session_close(&s);
        loaded_close(&l);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(line__comes_every_ten_seconds__in_a_log),
        TEST(line__counts_only_what_the_run_needs__when_it_ends_early),
        TEST(bytes__count_once__whoever_reads_them),
        TEST(line__shows_the_layer__until_a_second_pass),
        TEST(bar__stands_on_the_line__and_is_wiped),
        TEST(stall__is_named_after_ten_seconds__and_again),
        TEST(stall__wipes_the_bar__on_a_terminal),
        TEST(stall__is_not_claimed__when_the_disk_is_not_the_cause),
        TEST(stall__names_the_shard_of_the_thread_that_waits),
        TEST(stall__names_the_file__while_the_model_is_opened),
        TEST(watch__looks_by_itself__every_tick),
        TEST(watch__is_one_at_a_time__and_of_files_only),
        TEST(session__is_watched__when_its_checkpoint_is_real),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
