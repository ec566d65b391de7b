/* cli.c: see cli.h. */
#include "tests/cli.h"

#include "tests/config_texts.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- running ---- */

/* The program's name, the verb, --json where asked, and the rest. */
static void make_argv(const char *const *argv, bool json, const char *out[CLI_ARGS])
{
    int n = 0;
    out[n++] = ASSAY_PROGRAM;
    for (int i = 0; argv[i]; i++) {
        assert_true(n + 2 < CLI_ARGS);
        out[n++] = argv[i];
        if (i == 0 && json) out[n++] = "--json";
    }
    out[n] = NULL;
}

static pid_t start(const char *const *argv, int out, int err)
{
    const char *all[CLI_ARGS];
    make_argv(argv, false, all);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    int in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(err, STDERR_FILENO);
    if (out >= 0)
        dup2(out, STDOUT_FILENO);
    else
        close(STDOUT_FILENO);
    execv(ASSAY_PROGRAM, (char *const *)(uintptr_t)all);
    _exit(127);
}

int cli_wait(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

pid_t cli_start_mute(const char *const *argv)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(null >= 0);
    pid_t child = start(argv, -1, null);
    close(null);
    return child;
}

pid_t cli_start(const char *const *argv)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(null >= 0);
    pid_t child = start(argv, null, null);
    close(null);
    return child;
}

static char *read_stream(FILE *f)
{
    long size = 0;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, f), size);
    fclose(f);
    return text;
}

static void run_with(struct cli *r, int out_fd, FILE *out, const char *const *argv)
{
    FILE *err = tmpfile();
    assert_non_null(err);
    int status = 0;
    pid_t child = start(argv, out ? fileno(out) : out_fd, fileno(err));
    while (waitpid(child, &status, 0) < 0) assert_int_equal(errno, EINTR);
    *r = (struct cli){.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                      .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    r->out = out ? read_stream(out) : NULL;
    r->err = read_stream(err);
    r->json = r->out ? json_loads(r->out, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (r->status == 127) fail_msg("%s cannot be run", ASSAY_PROGRAM);
    if (r->status < 0 && r->err[0]) print_error("%s\n", r->err);
}

void cli_run(struct cli *r, const char *const *argv)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    run_with(r, -1, out, argv);
}

void cli_run_to(struct cli *r, const char *stdout_path, const char *const *argv)
{
    int fd = stdout_path ? open(stdout_path, O_WRONLY | O_CLOEXEC) : -1;
    assert_true(!stdout_path || fd >= 0);
    run_with(r, fd, NULL, argv);
    if (fd >= 0) close(fd);
}

void cli_free(struct cli *r)
{
    free(r->out);
    free(r->err);
    json_decref(r->json);
    *r = (struct cli){0};
}

/* ---- verdicts ---- */

__attribute__((noreturn)) static void complain(const struct cli *r, const char *const *argv,
                                               const char *why, const char *file, int line)
{
    print_error("%s: assay", why);
    for (int i = 0; argv[i]; i++) print_error(" '%s'", argv[i]);
    print_error("\n  exit %d, signal %d\n  stderr: %s\n  stdout: %.2000s\n", r->status, r->signal,
                r->err, r->out ? r->out : "");
    _fail(file, line);
    abort(); /* not reached: cmocka leaves the test */
}

static bool is(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

/* Lines of progress, which a run of over ten seconds prints, and nothing else: "assay: layer 1 of
 * 4, 0.1 a second, 30 s left", "assay: load: 0 of 1 shards, 2.5 MB of up to 7.4 MB, 0 B/s". */
static bool is_progress(const char *line)
{
    if (strncmp(line, "assay: load: ", 13) == 0) return strstr(line, "B/s") != NULL;
    return strncmp(line, "assay: ", 7) == 0 && strstr(line, " a second, ") &&
           strstr(line, " s left");
}

static bool only_progress(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)(length < 255 ? length : 255), text);
        if (!is_progress(line)) return false;
        text += length + (text[length] == '\n');
    }
    return true;
}

static json_t *judged(const char *const *argv, int exit_wanted, const char *verdict,
                      const char *file, int line)
{
    struct cli r;
    const char *all[CLI_ARGS];
    make_argv(argv, true, all);
    cli_run(&r, all + 1);
    if (r.status != exit_wanted) complain(&r, argv, "another exit status", file, line);
    if (!only_progress(r.err)) complain(&r, argv, "a text on stderr", file, line);
    if (!json_is_object(r.json)) complain(&r, argv, "no JSON object", file, line);
    if (!is(r.json, "verdict", verdict) || !is(r.json, "verb", argv[0]) ||
        json_integer_value(json_object_get(r.json, "exit")) != exit_wanted ||
        !json_is_string(json_object_get(r.json, "assay")) || json_object_get(r.json, "error"))
        complain(&r, argv, "another verdict", file, line);
    json_t *object = json_incref(r.json);
    cli_free(&r);
    return object;
}

json_t *cli_passed(const char *const *argv, const char *file, int line)
{
    return judged(argv, 0, "pass", file, line);
}

json_t *cli_failed(const char *const *argv, const char *file, int line)
{
    return judged(argv, 1, "fail", file, line);
}

/* The line that stderr must hold, from the JSON object. NULL where a part is empty. */
static char *line_of(const json_t *error)
{
    static const char *const keys[] = {"what", "where", "found", "wanted"};
    const char *part[4];
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 4; i++) {
        part[i] = json_string_value(json_object_get(error, keys[i]));
        if (!part[i] || !part[i][0]) return NULL;
    }
    const json_t *chain = json_object_get(error, "chain");
    if (!json_is_array(chain)) return NULL;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    fprintf(f, "assay: error: %s: %s: found %s, wanted %s", part[0], part[1], part[2], part[3]);
    for (size_t i = 0; i < json_array_size(chain); i++)
        fprintf(f, "%s%s", i ? "; " : " (", json_string_value(json_array_get(chain, i)));
    fprintf(f, "%s\n", json_array_size(chain) ? ")" : "");
    fclose(f);
    return text;
}

static bool part_holds(const json_t *error, const char *key, const char *text)
{
    const char *part = json_string_value(json_object_get(error, key));
    return !text || (part && strstr(part, text));
}

void cli_refused(void **state, struct refusal w, const char *const *argv, const char *file,
                 int line)
{
    struct cli r, plain;
    const char *all[CLI_ARGS];
    uint64_t before = folder_print(*state);
    make_argv(argv, true, all);
    cli_run(&r, all + 1);
    if (r.status != w.exit) complain(&r, argv, "another exit status", file, line);
    if (!json_is_object(r.json)) complain(&r, argv, "no JSON object", file, line);
    const json_t *error = json_object_get(r.json, "error");
    if (!is(r.json, "verdict", "error") || !error ||
        json_integer_value(json_object_get(r.json, "exit")) != w.exit)
        complain(&r, argv, "no verdict \"error\"", file, line);
    char *wanted = line_of(error);
    if (!wanted) complain(&r, argv, "an error with an empty part", file, line);
    if (strcmp(wanted, r.err) != 0 || strchr(r.err, '\n') != strrchr(r.err, '\n'))
        complain(&r, argv, "stderr is not the one line of the error", file, line);
    if (!part_holds(error, "what", w.what) || !part_holds(error, "where", w.where) ||
        !part_holds(error, "found", w.found) || !part_holds(error, "wanted", w.wanted)) {
        print_error("wanted: %s | %s | %s | %s\n", w.what ? w.what : "*", w.where ? w.where : "*",
                    w.found ? w.found : "*", w.wanted ? w.wanted : "*");
        complain(&r, argv, "another error", file, line);
    }
    cli_run(&plain, argv);
    if (plain.status != w.exit || plain.out[0] || strcmp(plain.err, wanted) != 0)
        complain(&plain, argv, "without --json it says something else", file, line);
    if (folder_print(*state) != before) complain(&r, argv, "files were left", file, line);
    free(wanted);
    cli_free(&r);
    cli_free(&plain);
}

/* ---- folders and fixtures ---- */

static uint64_t prints;

static uint64_t fnv(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}

static int add_print(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    uint64_t h = fnv(0xCBF29CE484222325u, path, strlen(path));
    if (type == FTW_F && S_ISREG(st->st_mode)) {
        size_t size;
        char *text = read_whole(path, &size);
        h = fnv(h, text, size);
        free(text);
    }
    prints += h;
    return 0;
}

uint64_t folder_print(const char *path)
{
    prints = 0;
    assert_int_equal(nftw(path, add_print, 16, FTW_PHYS), 0);
    return prints;
}

const char *textf(const char *format, ...)
{
    static char *text[1024];
    static int turn;
    size_t size = 0;
    va_list list;
    turn = (turn + 1) % (int)(sizeof text / sizeof text[0]);
    free(text[turn]);
    FILE *f = open_memstream(&text[turn], &size);
    assert_non_null(f);
    va_start(list, format);
    assert_true(vfprintf(f, format, list) >= 0);
    va_end(list);
    fclose(f);
    return text[turn];
}

json_t *fixture_golden(const char *name)
{
    json_error_t e;
    json_t *v = json_load_file(textf("%s/fixtures/%s/golden.json", ASSAY_SOURCE_DIR, name), 0, &e);
    if (!v) fail_msg("golden.json of %s: %s", name, e.text);
    return v;
}

const char *fixture_synth(const char *name)
{
    json_t *g = fixture_golden(name);
    const char *spec =
        textf("synth:%s/fixtures/%s/config.json?seed=%lld&latent_gain=%g", ASSAY_SOURCE_DIR, name,
              (long long)field_int(g, "seed"), json_number_value(field(g, "latent_gain")));
    json_decref(g);
    return spec;
}

const char *joined(const json_t *array, size_t n)
{
    static char *text;
    size_t size = 0;
    free(text);
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (size_t i = 0; i < n && i < json_array_size(array); i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)json_integer_value(json_array_get(array, i)));
    fclose(f);
    return text;
}

const json_t *field(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!v) fail_msg("no field \"%s\"", key);
    return v;
}

int64_t field_int(const json_t *object, const char *key)
{
    const json_t *v = field(object, key);
    if (!json_is_integer(v)) fail_msg("field \"%s\" is no integer", key);
    return json_integer_value(v);
}

const char *field_text(const json_t *object, const char *key)
{
    const json_t *v = field(object, key);
    if (!json_is_string(v)) fail_msg("field \"%s\" is no text", key);
    return json_string_value(v);
}

const json_t *named(const json_t *array, const char *name)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (is(json_array_get(array, i), "name", name)) return json_array_get(array, i);
    }
    fail_msg("nothing of the name %s", name);
    return NULL;
}

int times_in(const json_t *array, const char *text)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *s = json_string_value(json_array_get(array, i));
        n += s && strcmp(s, text) == 0;
    }
    return n;
}

const char *small_model(void **state, const char *name)
{
    const char *config = textf("%s/%s.json", (const char *)*state, name);
    const char *folder = textf("%s/%s", (const char *)*state, name);
    write_text(config, CONFIG_K25);
    json_decref(cli_passes("synth", config, "--seed", "5", "--out", folder));
    return folder;
}

/* ---- files ---- */

void st_edit_read(struct st_edit *e, const char *path)
{
    size_t size;
    unsigned char *all = (unsigned char *)read_whole(path, &size);
    uint64_t n = 0;
    assert_true(size >= 8);
    for (int i = 7; i >= 0; i--) n = n << 8 | all[i];
    assert_true(n <= size - 8);
    e->header = json_loadb((const char *)all + 8, (size_t)n, 0, NULL);
    assert_non_null(e->header);
    e->size = size - 8 - (size_t)n;
    e->data = malloc(e->size + 1);
    assert_non_null(e->data);
    memcpy(e->data, all + 8 + n, e->size);
    free(all);
}

void st_edit_write(const struct st_edit *e, const char *path)
{
    size_t size;
    char *header = json_dumps(e->header, JSON_COMPACT);
    assert_non_null(header);
    unsigned char *all = st_bytes(header, e->data, e->size, &size);
    write_whole(path, all, size);
    free(all);
    free(header);
}

void st_edit_free(struct st_edit *e)
{
    json_decref(e->header);
    free(e->data);
    *e = (struct st_edit){0};
}

unsigned char *st_edit_data(struct st_edit *e, const char *name)
{
    const json_t *off = field(field(e->header, name), "data_offsets");
    return e->data + json_integer_value(json_array_get(off, 0));
}

void st_edit_add(struct st_edit *e, const char *name, enum dtype dtype, int64_t rows, int64_t cols)
{
    size_t n = (size_t)(rows * cols * dtype_size(dtype));
    json_t *v = json_pack("{s:s, s:[I, I], s:[I, I]}", "dtype", dtype_name(dtype), "shape",
                          (json_int_t)rows, (json_int_t)cols, "data_offsets", (json_int_t)e->size,
                          (json_int_t)(e->size + n));
    assert_non_null(v);
    assert_int_equal(json_object_set_new(e->header, name, v), 0);
    e->data = realloc(e->data, e->size + n + 1);
    assert_non_null(e->data);
    memset(e->data + e->size, 0, n);
    e->size += n;
}

static void open_both(struct st_file *a, struct st_file *b, const char *path, const char *other)
{
    struct err err = ERR_INIT;
    (void)!st_open(a, path, &err);
    (void)!st_open(b, other, &err);
    assert_ok(&err);
    assert_true(a->count > 0);
}

void assert_same_tensors(const char *path, const char *other, bool tail)
{
    struct st_file a, b;
    open_both(&a, &b, path, other);
    if (!tail) assert_int_equal(a.count, b.count);
    for (int64_t i = 0; i < a.count; i++) {
        const struct st_tensor *s = &a.tensors[i], *t = st_find(&b, s->name);
        if (!t) fail_msg("no %s in the other file", s->name);
        assert_int_equal(s->dtype, t->dtype);
        if (!tail) assert_int_equal(s->bytes, t->bytes);
        assert_true(s->bytes > 0 && s->bytes <= t->bytes);
        if (memcmp(s->data, (const char *)t->data + t->bytes - s->bytes, (size_t)s->bytes))
            fail_msg("%s differs", s->name);
    }
    st_close(&a);
    st_close(&b);
}

double largest_relative(const char *path, const char *other)
{
    struct st_file a, b;
    double worst = 0;
    open_both(&a, &b, path, other);
    for (int64_t i = 0; i < a.count; i++) {
        const struct st_tensor *s = &a.tensors[i], *t = st_find(&b, s->name);
        assert_non_null(t);
        assert_int_equal(s->bytes, t->bytes);
        double diff = 0, size = 0;
        for (int64_t k = 0; k < s->count; k++) {
            double x, y;
            dtype_to_f64(s->dtype, (const char *)s->data + k * dtype_size(s->dtype), 1, &x);
            dtype_to_f64(t->dtype, (const char *)t->data + k * dtype_size(t->dtype), 1, &y);
            diff += (x - y) * (x - y);
            size += y * y;
        }
        double rel = sqrt(diff / size);
        if (!(rel <= worst)) worst = rel;
    }
    st_close(&a);
    st_close(&b);
    return worst;
}
