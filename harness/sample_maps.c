/* sample_maps.c: token counts and the vocabulary maps made of them; see sample.h. */
#include "harness/sample.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code sample_write_freq(const char *path, const int64_t *count, int64_t vocab,
                                struct err *err)
{
    struct pt_value *keys = calloc((size_t)vocab + 1, sizeof *keys);
    struct pt_value *items = calloc((size_t)vocab + 1, sizeof *items);
    struct pt_value root = {.kind = PT_DICT, .keys = keys, .items = items};
    if (!keys || !items) err_set(err, ERR_MEMORY, "write token counts|%s|no memory", path);
    for (int64_t i = 0; err->code == ERR_OK && i < vocab; i++) {
        if (!count[i]) continue;
        keys[root.count] = (struct pt_value){.kind = PT_INT, .whole = i};
        items[root.count++] = (struct pt_value){.kind = PT_INT, .whole = count[i]};
    }
    if (err->code == ERR_OK) (void)!pt_write(path, &root, err);
    free(keys);
    free(items);
    return err->code;
}

struct counted {
    int64_t id, count;
};

/* The most frequent first, the lower id where counts are equal. */
static int by_count(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* d2t [draft_vocab], t2d [vocab] */
static enum err_code make_maps(const int64_t *count, int64_t vocab, int64_t draft_vocab,
                               int64_t *d2t, unsigned char *t2d, struct err *err)
{
    struct counted *c = malloc((size_t)vocab * sizeof *c);
    int64_t used = 0;
    if (!c) return err_set(err, ERR_MEMORY, "write vocabulary maps||no memory");
    for (int64_t i = 0; i < vocab; i++) c[i] = (struct counted){i, count[i]};
    qsort(c, (size_t)vocab, sizeof *c, by_count);
    for (int64_t i = 0; i < draft_vocab; i++) t2d[c[i].id] = 1;
    for (int64_t id = 0; id < vocab; id++) {
        if (t2d[id]) {
            d2t[used] = id - used;
            used++;
        }
    }
    free(c);
    return ERR_OK;
}

static enum err_code write_mapping(const char *folder, const struct st_tensor maps[2],
                                   struct err *err)
{
    char path[FILE_PATH], above[FILE_PATH];
    struct pt_value keys[2] = {{.kind = PT_TEXT, .text = "d2t", .count = 3},
                               {.kind = PT_TEXT, .text = "t2d", .count = 3}};
    struct pt_value items[2] = {{.kind = PT_TENSOR, .tensor = &maps[0]},
                                {.kind = PT_TENSOR, .tensor = &maps[1]}};
    struct pt_value root = {.kind = PT_DICT, .count = 2, .keys = keys, .items = items};
    if (file_join(folder, "vocab_mapping/vocab_mapping.pt", path, err) != ERR_OK) return err->code;
    snprintf(above, sizeof above, "%s", path);
    if (file_make_folder(dirname(above), err) != ERR_OK) return err->code;
    return pt_write(path, &root, err);
}

static enum err_code write_arrays(const char *folder, const struct st_tensor maps[2],
                                  struct err *err)
{
    char path[FILE_PATH];
    if (file_join(folder, "d2t.npy", path, err) != ERR_OK ||
        npy_write(path, &maps[0], err) != ERR_OK ||
        file_join(folder, "t2d.npy", path, err) != ERR_OK)
        return err->code;
    return npy_write(path, &maps[1], err);
}

enum err_code sample_write_maps(enum sample_format f, const char *folder, const int64_t *count,
                                int64_t vocab, int64_t draft_vocab, struct err *err)
{
    if (draft_vocab < 1 || draft_vocab > vocab)
        return err_set(err, ERR_INPUT, "write vocabulary maps|%s|draft vocabulary %lld|1 to %lld",
                       folder, (long long)draft_vocab, (long long)vocab);
    int64_t *d2t = malloc((size_t)draft_vocab * sizeof *d2t);
    unsigned char *t2d = calloc((size_t)vocab, 1);
    if (!d2t || !t2d) err_set(err, ERR_MEMORY, "write vocabulary maps|%s|no memory", folder);
    if (err->code == ERR_OK && make_maps(count, vocab, draft_vocab, d2t, t2d, err) == ERR_OK) {
        const struct st_tensor maps[2] = {{.name = "",
                                           .dtype = DT_I64,
                                           .dims = 1,
                                           .shape = {draft_vocab},
                                           .count = draft_vocab,
                                           .bytes = draft_vocab * 8,
                                           .data = d2t},
                                          {.name = "",
                                           .dtype = DT_BOOL,
                                           .dims = 1,
                                           .shape = {vocab},
                                           .count = vocab,
                                           .bytes = vocab,
                                           .data = t2d}};
        (void)!(f == SAMPLE_SPECFORGE ? write_mapping : write_arrays)(folder, maps, err);
    }
    free(d2t);
    free(t2d);
    return err->code;
}
