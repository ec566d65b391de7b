/* main.c: an outside program that uses an installed assay: writes a dump of one tap, reads it back,
 * and exits 0 only if the file says what was put in. Not linked with anything of this tree. Run by
 * ci/test_install.sh */
#include <assay.h>

#include "core/dump.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 3, COLS = 4 };

static enum err_code write_dump(const char *path, struct err *err)
{
    struct tap tap = {.kind = TAP_EMBED, .layer = -1, .name = "embed", .cols = COLS};
    const struct st_meta meta[] = {{"assay.tokens", "[7, 8, 9]"}, {"assay.order", "[\"embed\"]"}};
    int32_t sequence[ROWS] = {0};
    int64_t position[ROWS] = {0, 1, 2}, token[ROWS] = {7, 8, 9};
    struct rows rows = {.count = ROWS,
                        .sequence = sequence,
                        .position = position,
                        .token = token,
                        .dump_row = position};
    double data[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) {
        data[i] = i + 0.5;
    }
    struct dump_out out;
    if (dump_create(&out, path, &tap, 1, ROWS, 0, ROWS, DT_F32, meta, 2, err) != ERR_OK) {
        return err->code;
    }
    enum err_code code = out.sink.reals(out.sink.ctx, "embed", &rows, COLS, data, err);
    if (code == ERR_OK) {
        code = dump_commit(&out, err);
    }
    dump_abandon(&out);
    return code;
}

static enum err_code read_dump(const char *path, struct err *err)
{
    struct dump dump;
    if (dump_open(&dump, path, err) != ERR_OK) {
        return err->code;
    }
    const struct dump_tap *tap = dump_find(&dump, "embed");
    double data[ROWS * COLS] = {0};
    if (tap == NULL || tap->rows != ROWS || tap->cols != COLS || dump.token_count != ROWS) {
        err_set(err, ERR_DIFF, "dump read back|embed|another shape|[3, 4] and 3 tokens");
    } else {
        dtype_to_f64(tap->tensor->dtype, tap->tensor->data, ROWS * COLS, data);
    }
    for (int i = 0; i < ROWS * COLS && err->code == ERR_OK; i++) {
        if (!(data[i] == i + 0.5)) {
            err_set(err, ERR_DIFF, "dump read back|embed: element %d|%g|%g", i, data[i], i + 0.5);
        }
    }
    dump_close(&dump);
    return err->code;
}

/* The short way: one call writes, one compares; a changed element must be found where it is. */
static enum err_code compare_dumps(const char *path, struct err *err)
{
    float mine[ROWS * COLS], truth[ROWS * COLS];
    char other[1024];
    for (int i = 0; i < ROWS * COLS; i++) {
        mine[i] = truth[i] = (float)i + 1;
    }
    mine[2 * COLS + 1] += 1;
    const struct assay_tap a = {"embed", DT_F32, ROWS, COLS, mine},
                           b = {"embed", DT_F32, ROWS, COLS, truth};
    struct assay_verdict v;
    snprintf(other, sizeof other, "%s.truth", path);
    if (assay_dump_write(path, &a, 1, "[7, 8, 9]", "outside", err) != ERR_OK ||
        assay_dump_write(other, &b, 1, "[7, 8, 9]", NULL, err) != ERR_OK) {
        return err->code;
    }
    enum err_code same = assay_compare(path, path, 0, &v, err);
    enum err_code differs = assay_compare(path, other, 1e-3, &v, err);
    if (same != ERR_OK || differs != ERR_DIFF || v.row != 2 || v.col != 1) {
        err_set(err, ERR_DIFF,
                "compare|embed|%d, %d at row %lld, column %lld|0, 1 at row 2, column 1", (int)same,
                (int)differs, (long long)v.row, (long long)v.col);
    }
    return err->code;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    if (argc != 2) {
        fprintf(stderr, "usage: outside FILE\n");
        return EXIT_FAILURE;
    }
    if (write_dump(argv[1], &err) != ERR_OK || read_dump(argv[1], &err) != ERR_OK ||
        compare_dumps(argv[1], &err) != ERR_OK) {
        fprintf(stderr, "outside: %s\n", err_line(&err, line, sizeof line));
        return EXIT_FAILURE;
    }
    printf("outside: wrote and read %s\n", argv[1]);
    return EXIT_SUCCESS;
}
