/* planted.c: see planted.h. */
#include "tests/planted.h"

#include "core/fault.h"
#include "core/text.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const char *patterns, const char *name)
{
    char text[256], *rest = NULL;
    if (!patterns) return true;
    snprintf(text, sizeof text, "%s", patterns);
    for (char *p = strtok_r(text, ",", &rest); p; p = strtok_r(NULL, ",", &rest)) {
        if (text_glob(p, name)) return true;
    }
    return false;
}

static void join(const int64_t *list, int64_t first, int64_t n, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int64_t i = first; i < n; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%lld", i > first ? "," : "",
                                 (long long)(list ? list[i] : i));
    snprintf(out + used, size - used, "]");
}

/* The float32 dump at `path` again, its real taps, but for those of `fine`, stored in a narrower
 * type. */
static void narrow(const char *path, enum dtype dtype, const char *fine)
{
    struct st_file f;
    struct err err = ERR_INIT;
    assert_int_equal(st_open(&f, path, &err), ERR_OK);
    struct st_part *parts = calloc((size_t)f.count, sizeof *parts);
    for (int64_t i = 0; i < f.count; i++) {
        const struct st_tensor *t = &f.tensors[i];
        bool real = dtype_is_float(t->dtype) && !(fine && matches(fine, t->name));
        parts[i] = (struct st_part){.name = t->name,
                                    .dtype = real ? dtype : t->dtype,
                                    .dims = 2,
                                    .shape = {t->shape[0], t->shape[1]},
                                    .data = t->data};
        if (!real) continue;
        double *values = malloc((size_t)t->count * sizeof *values);
        void *out = malloc((size_t)t->count * 8);
        dtype_to_f64(t->dtype, t->data, t->count, values);
        dtype_from_f64(dtype, values, t->count, out);
        free(values);
        parts[i].data = out;
    }
    char other[FILE_PATH];
    snprintf(other, sizeof other, "%s.narrow", path);
    write_safetensors(other, parts, f.count, f.meta, f.metas);
    for (int64_t i = 0; i < f.count; i++) {
        if (parts[i].data != f.tensors[i].data) free((void *)(uintptr_t)parts[i].data);
    }
    free(parts);
    st_close(&f);
    assert_int_equal(rename(other, path), 0);
}

static int64_t choose(const struct config *c, const struct planted *p, struct tap **taps)
{
    struct err err = ERR_INIT;
    int64_t all = 0, n = 0;
    assert_int_equal(tap_list(c, 0, c->layers, taps, &all, &err), ERR_OK);
    for (int64_t i = 0; i < all; i++) {
        if (matches(p->taps, (*taps)[i].name)) (*taps)[n++] = (*taps)[i];
    }
    return n;
}

bool planted_write(const struct planted *p, const char *path)
{
    struct loaded l = {0};
    struct session s = {0};
    struct tokens t = {0};
    struct faults faults = {0};
    struct dump_out out = {.file = FILE_OUT_INIT};
    struct tap *taps;
    struct err err = ERR_INIT;
    char tokens[4096], rows[4096];
    struct session_options o = session_defaults();
    assert_int_equal(profile_find(p->profile, &o.profile, &err), ERR_OK);
    for (int i = 0; i < 3 && p->fault[i]; i++) {
        (void)!faults_add(&faults, p->fault[i], &err);
        assert_ok(&err);
    }
    assert_int_equal(loaded_open(&l, p->model, &err), ERR_OK);
    assert_int_equal(tokens_copy(p->token, p->tokens, NULL, 1, &t, &err), ERR_OK);
    int64_t n = choose(l.model.config, p, &taps), first = p->last ? p->tokens - p->last : 0;
    join(p->token, 0, p->tokens, tokens, sizeof tokens);
    join(NULL, first, p->tokens, rows, sizeof rows);
    const struct st_meta meta[] = {{"assay.tokens", tokens},
                                   {"assay.profile", p->says ? p->says : p->profile},
                                   {"assay.rows", rows}};
    o.threads = 2;
    assert_int_equal(
        dump_create(&out, path, taps, n, p->tokens, first, p->tokens, DT_F32, meta, 3, &err),
        ERR_OK);
    assert_int_equal(session_open(&s, &l, &o, 1, t.length, &err), ERR_OK);
    s.run.faults = faults.count ? &faults : NULL;
    bool ran = session_forward(&s, &t, &out.sink, NULL, NULL, &err) == ERR_OK;
    if (!ran) printf("%s: %s: %s\n", p->fault[0], err.what, err.found);
    if (ran) assert_int_equal(dump_commit(&out, &err), ERR_OK);
    session_close(&s);
    dump_abandon(&out);
    faults_clear(&faults);
    tokens_free(&t);
    loaded_close(&l);
    free(taps);
    if (ran && p->dtype != DT_F32 && p->dtype != 0) narrow(path, p->dtype, p->fine);
    return ran;
}
