/* op_fixture.c: see op_fixture.h. */
#include "tests/op_fixture.h"

#include "core/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- stored cases ---- */

void fixture_open(struct fixture *f, const char *stem)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    memset(f, 0, sizeof *f);
    snprintf(path, sizeof path, "%s/fixtures/%s/cases.json", ASSAY_SOURCE_DIR, stem);
    if (json_read(path, &f->json, &err) != ERR_OK) assert_ok(&err);
    snprintf(path, sizeof path, "%s/fixtures/%s/cases.safetensors", ASSAY_SOURCE_DIR, stem);
    if (st_open(&f->file, path, &err) != ERR_OK) assert_ok(&err);
    f->cases = json_object_get(f->json, "cases");
    assert_true(json_array_size(f->cases) > 0);
}

void fixture_close(struct fixture *f)
{
    for (int i = 0; i < FIXTURE_ASKED && f->asked[i].key; i++) {
        if (!f->asked[i].met)
            fail_msg("no case of the fixture has %s %s: nothing was compared", f->asked[i].key,
                     f->asked[i].text);
    }
    arena_release(&f->arena, NULL);
    st_close(&f->file);
    json_decref(f->json);
}

int fixture_count(const struct fixture *f)
{
    return (int)json_array_size(f->cases);
}

struct fixture_case fixture_at(struct fixture *f, int i)
{
    const json_t *json = json_array_get(f->cases, (size_t)i);
    const char *name = json_string_value(json_object_get(json, "name"));
    assert_non_null(name);
    return (struct fixture_case){.fixture = f, .json = json, .name = name};
}

/* The note of a question; a new one where it is asked for the first time. */
static struct fixture_asked *note_of(struct fixture *f, const char *key, const char *text)
{
    int i = 0;
    while (i < FIXTURE_ASKED && f->asked[i].key &&
           (strcmp(f->asked[i].key, key) != 0 || strcmp(f->asked[i].text, text) != 0))
        i++;
    assert_in_range(i, 0, FIXTURE_ASKED - 1);
    if (!f->asked[i].key) f->asked[i] = (struct fixture_asked){key, text, false};
    return &f->asked[i];
}

bool case_is(const struct fixture_case *c, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(c->json, key));
    const bool is = value && strcmp(value, text) == 0;
    struct fixture_asked *note = note_of(c->fixture, key, text);
    note->met = note->met || is;
    return is;
}

int64_t case_int(const struct fixture_case *c, const char *key)
{
    struct err err = ERR_INIT;
    int64_t value = 0;
    if (json_int(c->json, key, 0, INT64_MAX, c->name, &value, &err) != ERR_OK) assert_ok(&err);
    return value;
}

double case_real(const struct fixture_case *c, const char *key)
{
    struct err err = ERR_INIT;
    double value = 0;
    if (json_double(c->json, key, c->name, &value, &err) != ERR_OK) assert_ok(&err);
    return value;
}

bool case_true(const struct fixture_case *c, const char *key)
{
    const json_t *value = json_object_get(c->json, key);
    assert_true(json_is_boolean(value));
    return json_is_true(value);
}

static const struct st_tensor *find(const struct fixture_case *c, const char *what)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s.%s", c->name, what);
    return st_find(&c->fixture->file, name);
}

bool case_has(const struct fixture_case *c, const char *what)
{
    return find(c, what) != NULL;
}

const struct st_tensor *case_stored(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = find(c, what);
    if (!t) fail_msg("fixture case %s has no tensor %s", c->name, what);
    return t;
}

static void *take(struct arena *a, int64_t n, size_t size)
{
    struct err err = ERR_INIT;
    void *p = arena_alloc(a, n, size, "test data", &err);
    assert_ok(&err);
    return p;
}

struct tensor tensor_of(const char *name, enum dtype dtype, int dims, const int64_t *shape,
                        const void *data)
{
    struct tensor t = {.dtype = dtype, .dims = dims, .data = data};
    snprintf(t.name, sizeof t.name, "%s", name);
    for (int d = 0; d < dims; d++) t.shape[d] = shape[d];
    return t;
}

struct matrix matrix_of(const char *name, enum dtype dtype, int64_t out, int64_t in,
                        const void *data)
{
    return (struct matrix){.format = MATRIX_DENSE,
                           .out = out,
                           .in = in,
                           .data = tensor_of(name, dtype, 2, (const int64_t[]){out, in}, data)};
}

struct tensor case_tensor(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    return tensor_of(t->name, t->dtype, t->dims, t->shape, t->data);
}

struct matrix case_matrix(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    assert_int_equal(t->dims, 2);
    return matrix_of(t->name, t->dtype, t->shape[0], t->shape[1], t->data);
}

double *case_f64(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    double *out = take(&c->fixture->arena, t->count, sizeof *out);
    dtype_to_f64(t->dtype, t->data, t->count, out);
    return out;
}

float *case_f32(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    float *out = take(&c->fixture->arena, t->count, sizeof *out);
    dtype_to_f32(t->dtype, t->data, t->count, out);
    return out;
}

int32_t *case_i32(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    int32_t *out = take(&c->fixture->arena, t->count, sizeof *out);
    for (int64_t i = 0; i < t->count; i++) out[i] = (int32_t)dtype_int_at(t->dtype, t->data, i);
    return out;
}

int64_t *case_i64(const struct fixture_case *c, const char *what)
{
    const struct st_tensor *t = case_stored(c, what);
    int64_t *out = take(&c->fixture->arena, t->count, sizeof *out);
    for (int64_t i = 0; i < t->count; i++) out[i] = dtype_int_at(t->dtype, t->data, i);
    return out;
}

/* ---- made inputs ---- */

double *space(struct arena *a, int64_t n)
{
    double *out = take(a, n, sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = NAN;
    return out;
}

double *random_f64(struct arena *a, uint64_t seed, const char *name, int64_t n, double scale)
{
    double *out = take(a, n, sizeof *out);
    uint64_t base = synth_base(seed, name);
    for (int64_t i = 0; i < n; i++) out[i] = (double)(float)(synth_u(base, i) * scale);
    return out;
}

static void *random_elements(struct arena *a, uint64_t seed, const char *name, enum dtype t,
                             int64_t n, double scale)
{
    double *values = random_f64(a, seed, name, n, scale);
    void *data = take(a, n, (size_t)dtype_size(t));
    dtype_from_f64(t, values, n, data);
    return data;
}

struct tensor random_vector(struct arena *a, uint64_t seed, const char *name, enum dtype t,
                            int64_t n, double scale)
{
    return tensor_of(name, t, 1, &n, random_elements(a, seed, name, t, n, scale));
}

struct matrix random_matrix(struct arena *a, uint64_t seed, const char *name, enum dtype t,
                            int64_t out, int64_t in, double scale)
{
    return matrix_of(name, t, out, in, random_elements(a, seed, name, t, out * in, scale));
}

int64_t random_int(uint64_t seed, const char *name, int64_t i, int64_t low, int64_t high)
{
    return low + (int64_t)(synth_x(synth_base(seed, name), i) % (uint64_t)(high - low + 1));
}

double *matrix_values(struct arena *a, const struct matrix *m)
{
    assert_int_equal(m->format, MATRIX_DENSE);
    double *out = take(a, m->out * m->in, sizeof *out);
    dtype_to_f64(m->data.dtype, m->data.data, m->out * m->in, out);
    return out;
}

struct run op_run(struct arena *a, const char *profile, enum precision precision)
{
    struct err err = ERR_INIT;
    struct run run = {
        .arena = a, .precision = precision, .linear = LINEAR_OWN, .act = DT_BF16, .threads = 1};
    if (profile_find(profile, &run.profile, &err) != ERR_OK) assert_ok(&err);
    return run;
}

/* ---- judgements ---- */

void op_assert_share(const double *got, const double *want, int64_t rows, int64_t cols,
                     double share, const char *file, int line)
{
    int64_t equal = 0, first = -1, n = rows * cols;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i])
            equal++;
        else if (first < 0)
            first = i;
    }
    if (n > 0 && (double)equal >= share * (double)n) return;
    if (first >= 0)
        print_error("first that differs: [%" PRId64 "][%" PRId64 "] is %.9g, wanted %.9g\n",
                    first / cols, first % cols, got[first], want[first]);
    print_error("%" PRId64 " of %" PRId64 " cells are equal, wanted a share of %.6f\n", equal, n,
                share);
    _fail(file, line);
}

void op_assert_within(const double *got, const double *want, const double *bound, int64_t rows,
                      int64_t cols, const char *file, int line)
{
    if (rows * cols <= 0) {
        print_error("nothing was compared\n");
        _fail(file, line);
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        if (fabs(got[i] - want[i]) <= bound[i]) continue;
        print_error("[%" PRId64 "][%" PRId64
                    "] is %.17g, wanted %.17g within %.3g; the difference is %.3g\n",
                    i / cols, i % cols, got[i], want[i], bound[i], got[i] - want[i]);
        _fail(file, line);
    }
}

void op_assert_refused(enum err_code code, struct err *err, const char *text, const char *file,
                       int line)
{
    char buf[ERR_LINE];
    err_line(err, buf, sizeof buf);
    bool whole =
        err->what[0] && err->found[0] && err->wanted[0]; /* a size that is wrong has no place */
    if (code != ERR_INPUT || err->code != ERR_INPUT || !whole || !strstr(buf, text)) {
        print_error(
            "wanted an input error with what, found, wanted that says \"%s\"; code %d, text: %s\n",
            text, (int)code, buf);
        _fail(file, line);
    }
    err_clear(err);
}
