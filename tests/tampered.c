/* tampered.c: see tampered.h. */
#include "tests/tampered.h"

#include "core/norm.h"
#include "harness/session.h"
#include "harness/states.h"
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_sample(struct tampered_sample *out, const struct sample *s)
{
    assert_true(s->rows <= TAMPERED_ROWS && s->hidden == TAMPERED_WIDTH);
    assert_int_equal(s->states, TAMPERED_STATES);
    assert_int_equal(s->dtype, DT_BF16);
    out->rows = s->rows;
    out->states = s->states;
    out->no_mask = !s->mask;
    for (int64_t p = 0; p < s->rows; p++) {
        out->token[p] = s->token[p];
        out->mask[p] = s->mask ? s->mask[p] : 1;
        for (int k = 0; k < s->states; k++)
            memcpy(out->state[k][p], (const uint16_t *)s->state[k] + p * s->stride[k],
                   sizeof out->state[k][p]);
    }
}

static const char *folder_of(enum sample_format f)
{
    return textf(FIXTURE("samples/%s"),
                 f == SAMPLE_V03 ? "speculators-v03" : sample_format_name((int)f));
}

void tampered_read(struct tampered *t, enum sample_format f)
{
    struct err err = ERR_INIT;
    struct sample_set set;
    memset(t, 0, sizeof *t);
    t->format = f;
    (void)!sample_set_open(&set, folder_of(f), &err);
    assert_ok(&err);
    for (int64_t i = 0; i < set.count; i++) {
        struct sample_file file;
        (void)!sample_open(&file, set.entries[i].path, TAMPERED_WIDTH, &err);
        assert_ok(&err);
        take_sample(&t->sample[t->count++], &file.sample);
        sample_close(&file);
    }
    sample_set_close(&set);
}

void tampered_make(struct tampered *t, int count, const int64_t *entry)
{
    tampered_make_as(t, count, entry, "math");
}

void tampered_make_as(struct tampered *t, int count, const int64_t *entry, const char *profile)
{
    enum { ROWS = 32 };
    struct err err = ERR_INIT;
    struct states_engine e;
    struct session_options o = session_defaults();
    int64_t id[TAMPERED_SAMPLES * ROWS], length[TAMPERED_SAMPLES];
    struct states s = {.count = TAMPERED_STATES, .rows = (int64_t)count * ROWS};
    memset(t, 0, sizeof *t);
    t->count = count;
    for (int64_t i = 0; i < s.rows; i++)
        id[i] = (i * i * 37 + 11 * i + 5 * (i / ROWS)) % 61 * 8 + i / ROWS;
    for (int i = 0; i < count; i++) length[i] = ROWS;
    memcpy(s.id, entry, TAMPERED_STATES * sizeof *entry);
    s.hidden = TAMPERED_WIDTH;
    s.data = malloc((size_t)(s.rows * TAMPERED_STATES * TAMPERED_WIDTH) * sizeof *s.data);
    const struct tokens tokens = {id, s.rows, length, count};
    (void)!profile_find(profile, &o.profile, &err);
    (void)!states_engine_open(&e, "ref", FIXTURE("tiny-k25"), &o, &err);
    assert_ok(&err);
    (void)!e.run(e.ctx, &tokens, &s, &err);
    assert_ok(&err);
    for (int64_t r = 0; r < s.rows; r++) {
        struct tampered_sample *out = &t->sample[r / ROWS];
        int64_t p = r % ROWS;
        out->rows = ROWS;
        out->states = TAMPERED_STATES;
        out->token[p] = id[r];
        out->mask[p] = p >= 8;
        for (int k = 0; k < TAMPERED_STATES; k++)
            dtype_from_f64(DT_BF16, s.data + (r * TAMPERED_STATES + k) * TAMPERED_WIDTH,
                           TAMPERED_WIDTH, out->state[k][p]);
    }
    states_engine_close(&e);
    free(s.data);
}

static void copy_beside(const char *from, const char *to)
{
    static const char *const names[] = {"token_freq.pt", "d2t.npy", "t2d.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = textf("%s/%s", from, names[i]);
        size_t size;
        if (!file_exists(path)) continue;
        char *bytes = read_whole(path, &size);
        write_whole(textf("%s/%s", to, names[i]), bytes, size);
        free(bytes);
    }
}

void tampered_write(const struct tampered *t, const char *folder, bool beside)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    (void)!file_make_folder(folder, &err);
    for (int i = 0; i < t->count; i++) {
        const struct tampered_sample *from = &t->sample[i];
        struct sample s = {.rows = from->rows,
                           .hidden = TAMPERED_WIDTH,
                           .states = from->states,
                           .dtype = DT_BF16,
                           .last_normed = t->format == SAMPLE_SPECFORGE,
                           .token = from->token,
                           .mask = t->format == SAMPLE_VLLM ? NULL : from->mask};
        for (int k = 0; k < s.states; k++) {
            s.state[k] = from->state[k];
            s.stride[k] = TAMPERED_WIDTH;
        }
        (void)!sample_path(t->format, folder, i, path, &err);
        (void)!sample_write(t->format, path, &s, &err);
        assert_ok(&err);
    }
    if (beside) copy_beside(folder_of(t->format), folder);
    if (t->claim) write_text(textf("%s/data_config.json", folder), t->claim);
}

void tampered_norm_last(struct tampered *t)
{
    struct err err = ERR_INIT;
    struct loaded l;
    struct arena arena = ARENA_INIT;
    struct run run = {.arena = &arena, .precision = PRECISION_F32, .threads = 1};
    double x[TAMPERED_WIDTH];
    (void)!loaded_open(&l, FIXTURE("tiny-k25"), &err);
    assert_ok(&err);
    for (int i = 0; i < t->count; i++) {
        for (int64_t p = 0; p < t->sample[i].rows; p++) {
            uint16_t *row = t->sample[i].state[TAMPERED_STATES - 1][p];
            const struct norm op = {1, TAMPERED_WIDTH, l.model.config->norm_eps,
                                    x, &l.model.norm,  x};
            dtype_to_f64(DT_BF16, row, TAMPERED_WIDTH, x);
            (void)!norm_ref(&op, &run, &err);
            assert_ok(&err);
            dtype_from_f64(DT_BF16, x, TAMPERED_WIDTH, row);
        }
    }
    arena_release(&arena, NULL);
    loaded_close(&l);
}
