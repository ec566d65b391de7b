/* envelope.c: see envelope.h. */
#include "compat/envelope.h"

#include "core/bytes.h"
#include "core/check.h"
#include "core/crc32.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char magic[4] = {'A', 'S', 'E', 'V'};

/* The fields in the order of the bytes. Numbers: an int (wide false) or an int64_t, and the values
 * that it can have. */
struct number {
    const char *name;
    size_t at;
    bool wide;
    int64_t min, max;
};

#define NARROW(field, name, min, max)                                                              \
    {                                                                                              \
        name, offsetof(struct envelope, field), false, min, max                                    \
    }
#define WIDE(field, min)                                                                           \
    {                                                                                              \
#field, offsetof(struct envelope, field), true, min, INT64_MAX                             \
    }

enum { RANKS = 1 << 20, LINES = 1 << 30 };

static const struct number numbers[] = {
    NARROW(err.code, "code", ERR_OK + 1, ERR_COUNT - 1),
    NARROW(err.rank, "the error's rank", -1, RANKS - 1),
    NARROW(rank, "rank", 0, RANKS - 1),
    NARROW(world, "world", 1, RANKS),
    NARROW(cause, "cause", -1, RANKS - 1),
    WIDE(pid, 0),
    WIDE(layer, -1),
    WIDE(batch, -1),
    WIDE(sample, -1),
    WIDE(time_ns, 0),
    WIDE(clock_ns, 0),
    NARROW(line, "line", 0, LINES),
    NARROW(err.notes, "notes", 0, ERR_NOTES),
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

_Static_assert(sizeof(enum err_code) == sizeof(int), "a code is read and written as an int");

struct text {
    const char *name;
    size_t at, size;
};

#define TEXT(field, name)                                                                          \
    {                                                                                              \
        name, offsetof(struct envelope, field), sizeof((struct envelope *)0)->field                \
    }

static const struct text texts[] = {
    TEXT(host, "host"),       TEXT(op, "op"),
    TEXT(samples, "samples"), TEXT(file, "file"),
    TEXT(err.what, "what"),   TEXT(err.where, "where"),
    TEXT(err.found, "found"), TEXT(err.wanted, "wanted"),
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

/* The i-th text, the notes after the others. */
static struct text text_at(int i)
{
    if (i < TEXTS) return texts[i];
    return (struct text){
        "note", offsetof(struct envelope, err.note) + (size_t)(i - TEXTS) * ERR_NOTE, ERR_NOTE};
}

static int64_t number_of(const struct envelope *e, const struct number *n)
{
    const char *at = (const char *)e + n->at;
    int narrow;
    int64_t wide;
    if (n->wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static void set_number(struct envelope *e, const struct number *n, int64_t value)
{
    char *at = (char *)e + n->at;
    int narrow = (int)value;
    if (n->wide)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &narrow, sizeof narrow);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void envelope_now(struct envelope *e, int rank, int world)
{
    *e = (struct envelope){.err = ERR_INIT,
                           .rank = rank,
                           .world = world,
                           .cause = -1,
                           .pid = getpid(),
                           .layer = -1,
                           .batch = -1,
                           .sample = -1,
                           .time_ns = clock_ns(CLOCK_REALTIME),
                           .clock_ns = clock_ns(CLOCK_MONOTONIC)};
    if (gethostname(e->host, sizeof e->host - 1) != 0) e->host[0] = '\0';
}

static uint32_t checksum(const unsigned char *data, size_t size)
{
    struct crc32 c;
    crc32_init(&c);
    return crc32_of(&c, 0, data, (int64_t)size);
}

size_t envelope_encode(const struct envelope *e, unsigned char *out)
{
    unsigned char *at = out + ENVELOPE_HEADER;
    for (int i = 0; i < NUMBERS; i++, at += 8)
        bytes_put(at, (uint64_t)number_of(e, &numbers[i]), 8);
    for (int i = 0; i < TEXTS + e->err.notes; i++) {
        struct text t = text_at(i);
        const char *s = (const char *)e + t.at;
        size_t n = strnlen(s, t.size - 1);
        bytes_put(at, n, 2);
        memcpy(at + 2, s, n);
        at += 2 + n;
    }
    size_t size = (size_t)(at - out), body = size - ENVELOPE_HEADER;
    CHECK(size <= ENVELOPE_MOST);
    memcpy(out, magic, sizeof magic);
    bytes_put(out + 4, ENVELOPE_VERSION, 2);
    bytes_put(out + 6, 0, 2);
    bytes_put(out + 8, body, 4);
    bytes_put(out + 12, checksum(out + ENVELOPE_HEADER, body), 4);
    return size;
}

/* ---- reading ---- */

#define READ "read an error of another process"

static enum err_code read_header(const unsigned char *p, size_t size, struct err *err)
{
    if (size == 0)
        return err_set(err, ERR_PROCESS, READ "|its bytes|none: an empty message|an error");
    if (size < ENVELOPE_HEADER)
        return err_set(err, ERR_PROCESS, READ "|its header|cut after %zu bytes|%d", size,
                       ENVELOPE_HEADER);
    if (memcmp(p, magic, sizeof magic) != 0)
        return err_set(err, ERR_PROCESS, READ "|magic|%02x %02x %02x %02x|\"ASEV\"", p[0], p[1],
                       p[2], p[3]);
    uint64_t version = bytes_get(p + 4, 2), zero = bytes_get(p + 6, 2), body = bytes_get(p + 8, 4);
    if (version != ENVELOPE_VERSION)
        return err_set(err, ERR_PROCESS, READ "|version|%d, of another build|%d", (int)version,
                       ENVELOPE_VERSION);
    if (zero != 0)
        return err_set(err, ERR_PROCESS, READ "|reserved bytes of its header|%d|0", (int)zero);
    if (body > ENVELOPE_MOST - ENVELOPE_HEADER)
        return err_set(err, ERR_PROCESS, READ "|length|%llu bytes|%d at most",
                       (unsigned long long)body, ENVELOPE_MOST - ENVELOPE_HEADER);
    if (body != size - ENVELOPE_HEADER)
        return err_set(err, ERR_PROCESS, READ "|length|%zu bytes after the header%s|%llu",
                       size - ENVELOPE_HEADER, body > size - ENVELOPE_HEADER ? " (cut)" : "",
                       (unsigned long long)body);
    uint32_t is = checksum(p + ENVELOPE_HEADER, (size_t)body),
             wanted = (uint32_t)bytes_get(p + 12, 4);
    if (is != wanted) return err_set(err, ERR_PROCESS, READ "|checksum|%08x|%08x", is, wanted);
    return ERR_OK;
}

static enum err_code read_numbers(struct envelope *e, const unsigned char **at, size_t *left,
                                  struct err *err)
{
    for (int i = 0; i < NUMBERS; i++, *at += 8, *left -= 8) {
        const struct number *n = &numbers[i];
        if (*left < 8)
            return err_set(err, ERR_PROCESS, READ "|%s|%zu bytes left|8", n->name, *left);
        int64_t value = (int64_t)bytes_get(*at, 8);
        if (value < n->min || value > n->max)
            return err_set(err, ERR_PROCESS, READ "|%s|%lld|%lld .. %lld", n->name,
                           (long long)value, (long long)n->min, (long long)n->max);
        set_number(e, n, value);
    }
    if (e->rank >= e->world)
        return err_set(err, ERR_PROCESS, READ "|rank|%d of %d|a rank of the run", e->rank,
                       e->world);
    return ERR_OK;
}

/* One printable line of UTF-8. */
static enum err_code check_text(const char *name, const char *s, size_t n, struct err *err)
{
    for (size_t i = 0; i < n;) {
        size_t bytes = text_utf8(s + i, n - i);
        unsigned char c = (unsigned char)s[i];
        if (bytes == 0)
            return err_set(err, ERR_PROCESS, READ "|%s, byte %zu|%02x, which is no UTF-8|a text",
                           name, i, c);
        if (bytes == 1 && (c < 0x20 || c == 0x7f))
            return err_set(err, ERR_PROCESS, READ "|%s, byte %zu|control character %02x|one line",
                           name, i, c);
        i += bytes;
    }
    return ERR_OK;
}

static enum err_code read_text(struct envelope *e, struct text t, const unsigned char **at,
                               size_t *left, struct err *err)
{
    size_t n = *left < 2 ? 0 : (size_t)bytes_get(*at, 2);
    if (*left < 2 || n > *left - 2)
        return err_set(err, ERR_PROCESS, READ "|%s|%zu bytes left|%zu", t.name, *left, 2 + n);
    if (n > t.size - 1)
        return err_set(err, ERR_PROCESS, READ "|%s|%zu bytes|%zu at most", t.name, n, t.size - 1);
    if (check_text(t.name, (const char *)*at + 2, n, err) != ERR_OK) return err->code;
    char *s = (char *)e + t.at;
    memcpy(s, *at + 2, n);
    s[n] = '\0';
    *at += 2 + n;
    *left -= 2 + n;
    return ERR_OK;
}

/* "A batch failed:" with nothing behind it has cost people days. */
static enum err_code check_says_something(const struct envelope *e, struct err *err)
{
    const struct err *x = &e->err;
    bool alone = !x->where[0] && !x->found[0] && !x->wanted[0] && x->notes == 0;
    if (!x->what[0])
        return err_set(err, ERR_PROCESS,
                       READ "|rank %d|an error with an empty text|what failed, and where", e->rank);
    for (int i = 0; i < x->notes; i++) {
        if (!x->note[i][0])
            return err_set(err, ERR_PROCESS, READ "|rank %d, note %d|an empty text|words", e->rank,
                           i);
    }
    if (alone && strcmp(x->what, err_sentence(x->code)) == 0)
        return err_set(err, ERR_PROCESS,
                       READ "|rank %d|\"%s\" and nothing else: its cause was lost|a cause", e->rank,
                       x->what);
    return ERR_OK;
}

enum err_code envelope_decode(struct envelope *e, const void *data, size_t size, struct err *err)
{
    struct envelope read = {.err = ERR_INIT};
    const unsigned char *at = data;
    size_t left = size;
    if (read_header(at, size, err) != ERR_OK) return err->code;
    at += ENVELOPE_HEADER;
    left -= ENVELOPE_HEADER;
    if (read_numbers(&read, &at, &left, err) != ERR_OK) return err->code;
    for (int i = 0; i < TEXTS + read.err.notes; i++) {
        if (read_text(&read, text_at(i), &at, &left, err) != ERR_OK) return err->code;
    }
    if (left > 0)
        return err_set(err, ERR_PROCESS, READ "|its end|%zu bytes after the last text|none", left);
    if (check_says_something(&read, err) != ERR_OK) return err->code;
    *e = read;
    return ERR_OK;
}

/* ---- for people ---- */

static void add(char *buf, size_t size, size_t *n, const char *text)
{
    if (*n < size) *n += (size_t)snprintf(buf + *n, size - *n, "%s", text);
}

const char *envelope_place(const struct envelope *e, char *buf, size_t size)
{
    const struct {
        const char *name;
        int64_t value;
    } places[] = {{"layer", e->layer}, {"batch", e->batch}, {"sample", e->sample}};
    char part[ENVELOPE_SAMPLES + 32];
    size_t n = (size_t)snprintf(buf, size, "rank %d of %d, pid %lld", e->rank, e->world,
                                (long long)e->pid);
    if (e->op[0]) add(buf, size, &n, ", in ");
    add(buf, size, &n, e->op);
    for (int i = 0; i < 3; i++) {
        if (places[i].value < 0) continue;
        snprintf(part, sizeof part, ", %s %lld", places[i].name, (long long)places[i].value);
        add(buf, size, &n, part);
    }
    snprintf(part, sizeof part, ", samples %s", e->samples);
    if (e->samples[0]) add(buf, size, &n, part);
    snprintf(part, sizeof part, ", %s:%d", e->file, e->line);
    if (e->file[0]) add(buf, size, &n, part);
    if (e->host[0]) add(buf, size, &n, ", host ");
    add(buf, size, &n, e->host);
    return buf;
}

enum err_code envelope_raise(const struct envelope *e, struct err *err)
{
    char place[512], when[64];
    time_t seconds = (time_t)(e->time_ns / 1000000000);
    struct tm utc;
    CHECK(err->code == ERR_OK && e->err.code != ERR_OK);
    *err = e->err;
    if (err->rank < 0) err->rank = e->rank;
    err_note(err, "%s", envelope_place(e, place, sizeof place));
    if (gmtime_r(&seconds, &utc) && strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        err_note(err, "at %s", when);
    return err->code;
}
