/* guard_log.c: see guard_log.h. */
#include "harness/guard_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void guard_log_append(const char *path, const json_t *record, int sync)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_ENSURE_ASCII);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    size_t n = text ? strlen(text) : 0;
    if (fd >= 0 && text) {
        text[n] = '\n'; /* in place of the NUL, which nobody reads any more */
        if (write(fd, text, n + 1) == (ssize_t)n + 1 && sync) (void)!fsync(fd);
    }
    if (fd >= 0) close(fd);
    free(text);
}

static json_t *by_id(const json_t *list, const json_t *id)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *one = json_array_get(list, i);
        if (json_equal(json_object_get(one, "id"), id)) return one;
    }
    return NULL;
}

static void add_once(json_t *list, json_t *one)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_equal(json_array_get(list, i), one)) return;
    }
    if (one) json_array_append(list, one);
}

static void take(struct guard_log *l, json_t *record)
{
    const char *kind = json_string_value(json_object_get(record, "k"));
    if (!kind) {
        l->broken++;
    } else if (strcmp(kind, "finding") == 0) {
        json_array_append(l->findings, record);
    } else if (strcmp(kind, "note") == 0) {
        json_array_append(l->notes, record);
    } else if (strcmp(kind, "stacks") == 0) {
        json_array_append(l->stacks, record);
    } else if (strcmp(kind, "own") == 0) {
        json_array_append(l->own, record);
    } else if (strcmp(kind, "shallow") == 0) {
        add_once(l->shallow, json_object_get(record, "python"));
    } else if (strcmp(kind, "hello") == 0) {
        l->pythons++;
    } else if (strcmp(kind, "count") == 0) {
        json_t *one = by_id(l->findings, json_object_get(record, "id"));
        if (!one) one = by_id(l->notes, json_object_get(record, "id"));
        if (one) json_object_set(one, "count", json_object_get(record, "count"));
    }
}

/* What was withdrawn as often as it was seen was not lost. */
static void drop_empty(json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *count = json_object_get(json_array_get(list, i), "count");
        if (count && json_integer_value(count) <= 0) json_array_remove(list, i);
    }
}

enum err_code guard_log_read(struct guard_log *l, const char *path, long from, struct err *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    *l = (struct guard_log){
        json_array(), json_array(), json_array(), json_array(), json_array(), 0, 0};
    if (!l->findings || !l->notes || !l->stacks || !l->own || !l->shallow)
        return err_set(err, ERR_MEMORY, "guard|%s|no memory", path);
    FILE *f = fopen(path, "re");
    if (!f) return ERR_OK;
    (void)!fseek(f, from, SEEK_SET);
    while ((n = getline(&line, &room, f)) > 0) {
        json_t *record = json_loadb(line, (size_t)n, 0, NULL);
        take(l, record);
        json_decref(record);
    }
    free(line);
    fclose(f);
    drop_empty(l->findings);
    drop_empty(l->notes);
    return ERR_OK;
}

void guard_log_free(struct guard_log *l)
{
    json_decref(l->findings);
    json_decref(l->notes);
    json_decref(l->stacks);
    json_decref(l->own);
    json_decref(l->shallow);
    *l = (struct guard_log){0};
}
