/* support.c: see support.h. */
#include "tests/support.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int folder_setup(void **state)
{
    char *path = malloc(FILE_PATH);
    if (!path) return -1;
    snprintf(path, FILE_PATH, "%s/scratch-XXXXXX", ASSAY_BINARY_DIR);
    if (!mkdtemp(path)) {
        print_error("cannot make %s: %s\n", path, strerror(errno));
        free(path);
        return -1;
    }
    *state = path;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

int folder_teardown(void **state)
{
    int rc = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}

const char *folder_path(void **state, const char *name)
{
    static char path[4][FILE_PATH * 2];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", (const char *)*state, name);
    return path[turn];
}

int folder_count(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

void write_whole(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("cannot write %s: %s", path, strerror(errno));
    size_t n = size ? fwrite(data, 1, size, f) : 0;
    if (fclose(f) != 0 || n != size) fail_msg("cannot write %s", path);
}

void write_text(const char *path, const char *text)
{
    write_whole(path, text, strlen(text));
}

char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s: %s", path, strerror(errno));
    char *text = NULL;
    size_t n = 0, room = 0, got;
    do {
        if (n + 4096 >= room) text = realloc(text, room = 2 * room + 8192);
        assert_non_null(text);
        got = fread(text + n, 1, 4096, f);
        n += got;
    } while (got);
    fclose(f);
    text[n] = '\0';
    if (size) *size = n;
    return text;
}

int signal_of(void (*body)(void *ctx), void *ctx, char **text)
{
    FILE *log = tmpfile();
    assert_non_null(log);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* an expected abort leaves no core file */
        dup2(fileno(log), STDERR_FILENO);
        body(ctx);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (text) {
        rewind(log);
        *text = calloc(1, 4096);
        assert_non_null(*text);
        (*text)[fread(*text, 1, 4095, log)] = '\0';
    }
    fclose(log);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool holds(const char *part, const char *text)
{
    return !text || (text[0] ? strstr(part, text) != NULL : part[0] == '\0');
}

void support_assert_err(const struct err *err, enum err_code code, const char *what,
                        const char *where, const char *found, const char *wanted, const char *file,
                        int line)
{
    char text[ERR_LINE];
    if (err->code == code && holds(err->what, what) && holds(err->where, where) &&
        holds(err->found, found) && holds(err->wanted, wanted))
        return;
    print_error("the error is not the expected one:\n  is:  code %d, %s\n  not: code %d, %s | %s | "
                "%s | %s\n",
                (int)err->code, err->code == ERR_OK ? "(none)" : err_line(err, text, sizeof text),
                (int)code, what ? what : "*", where ? where : "*", found ? found : "*",
                wanted ? wanted : "*");
    _fail(file, line);
}

void support_assert_ok(const struct err *err, const char *file, int line)
{
    char text[ERR_LINE];
    if (err->code == ERR_OK) return;
    print_error("unexpected error: %s\n", err_line(err, text, sizeof text));
    _fail(file, line);
}

unsigned char *st_bytes(const char *header, const void *data, size_t data_bytes, size_t *size)
{
    size_t n = strlen(header);
    unsigned char *out = malloc(8 + n + data_bytes);
    assert_non_null(out);
    for (int i = 0; i < 8; i++) out[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++)
        out[8 + n + i] = data ? ((const unsigned char *)data)[i] : (unsigned char)i;
    *size = 8 + n + data_bytes;
    return out;
}

void write_safetensors(const char *path, const struct st_part *parts, int64_t count,
                       const struct st_meta *meta, int64_t metas)
{
    struct err err = ERR_INIT;
    struct st_entry *entries = calloc((size_t)count + 1, sizeof *entries);
    assert_non_null(entries);
    for (int64_t i = 0; i < count; i++) {
        entries[i] = (struct st_entry){
            .name = parts[i].name, .dtype = parts[i].dtype, .dims = parts[i].dims};
        memcpy(entries[i].shape, parts[i].shape, sizeof entries[i].shape);
    }
    char *header;
    int64_t size;
    (void)!st_plan(entries, count, meta, metas, &header, &size, &err);
    assert_ok(&err);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(header, 1, (size_t)size, f), size);
    for (int64_t i = 0; i < count; i++) {
        size_t n = (size_t)entries[i].bytes;
        void *zeros = calloc(1, n + 1);
        assert_non_null(zeros);
        if (n) assert_int_equal(fwrite(parts[i].data ? parts[i].data : zeros, 1, n, f), n);
        free(zeros);
    }
    assert_int_equal(fclose(f), 0);
    free(header);
    free(entries);
}

char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at) fail_msg("'%s' is not in the text", from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    assert_non_null(out);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}
