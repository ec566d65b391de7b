/* worker_log.c: see worker_log.h. */
#include "harness/worker_log.h"

#include "core/text.h"

#include <string.h>

const struct harmless worker_log_harmless[LOG_HARMLESS] = {
    {"OpenBLAS warning: precompiled NUM_THREADS exceeded",
     "OpenBLAS then runs with fewer threads; no result changes"},
    {"libgomp: Affinity not supported on this configuration",
     "threads are not bound to cores; no result changes"},
    {"No protocol specified", "an X library looked for a display; nothing here needs one"},
    {NULL, NULL},
};

void worker_log_open(struct worker_log *l, int rank, FILE *out)
{
    *l = (struct worker_log){.rank = rank, .out = out};
}

/* Keeps the last whole lines that fit. */
static void keep(struct worker_log *l, const char *line, size_t n)
{
    size_t room = LOG_TAIL - 1;
    while (l->tail_bytes > 0 && l->tail_bytes + n + 1 > room) {
        char *end = memchr(l->tail, '\n', l->tail_bytes);
        size_t gone = end ? (size_t)(end - l->tail) + 1 : l->tail_bytes;
        memmove(l->tail, l->tail + gone, l->tail_bytes - gone);
        l->tail_bytes -= gone;
    }
    memcpy(l->tail + l->tail_bytes, line, n);
    l->tail_bytes += n;
    l->tail[l->tail_bytes++] = '\n';
    l->tail[l->tail_bytes] = '\0';
}

static void make_printable(char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t bytes = text_utf8(s + i, n - i);
        unsigned char c = (unsigned char)s[i];
        if (bytes == 0 || (bytes == 1 && (c < 0x20 || c == 0x7f) && c != '\t')) s[i] = '?';
        i += bytes ? bytes : 1;
    }
}

static void end_line(struct worker_log *l)
{
    size_t n = l->line_bytes;
    make_printable(l->line, n);
    l->line[n] = '\0';
    l->line_bytes = 0;
    l->cut = false;
    l->lines++;
    for (int i = 0; i < LOG_HARMLESS && worker_log_harmless[i].part; i++) {
        if (!strstr(l->line, worker_log_harmless[i].part)) continue;
        l->folded[i]++;
        return;
    }
    /* How far a load has come is no last word of a rank that died. */
    if (!text_starts(l->line, "assay: load: ")) keep(l, l->line, n);
    if (l->out) fprintf(l->out, "assay: rank %d: %s\n", l->rank, l->line);
}

void worker_log_feed(struct worker_log *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            end_line(l);
        } else if (l->line_bytes < LOG_LINE - 4) {
            l->line[l->line_bytes++] = bytes[i];
        } else if (!l->cut) {
            memcpy(l->line + l->line_bytes, "...", 3);
            l->line_bytes += 3;
            l->cut = true;
        }
    }
}

void worker_log_end(struct worker_log *l)
{
    if (l->line_bytes > 0) end_line(l);
    for (int i = 0; i < LOG_HARMLESS && worker_log_harmless[i].part; i++) {
        if (l->folded[i] == 0 || !l->out) continue;
        fprintf(l->out, "assay: rank %d: %lld lines \"%s\" left out: %s\n", l->rank,
                (long long)l->folded[i], worker_log_harmless[i].part, worker_log_harmless[i].why);
        l->folded[i] = 0;
    }
}

json_t *worker_log_json(const char *tail)
{
    json_t *lines = json_array();
    while (*tail) {
        size_t n = strcspn(tail, "\n");
        json_array_append_new(lines, json_stringn_nocheck(tail, n));
        tail += n + (tail[n] == '\n');
    }
    return lines;
}
