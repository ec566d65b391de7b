/* fault.c: the seam and the parsing of fault.h; the registry is joined in fault_table.c from
 * the rows and edits of fault_FAMILY.c. */
#include "core/fault.h"

#include "core/check.h"
#include "core/eagle.h"
#include "core/fault_edits.h"
#include "core/fault_ranks.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fault_row *fault_find(const char *id)
{
    for (int i = 0; fault_at(i); i++) {
        if (strcmp(fault_at(i)->id, id) == 0) return fault_at(i);
    }
    return NULL;
}

bool fault_hosted_by(const struct fault_row *f, const char *op)
{
    for (int i = 0; i < FAULT_HOSTS && f->hosts[i]; i++) {
        if (strcmp(f->hosts[i], op) == 0 || strcmp(f->hosts[i], "any") == 0) return true;
    }
    return false;
}

static int key_index(const struct fault_row *row, const char *name, size_t length)
{
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++) {
        if (strlen(row->keys[k].name) == length && strncmp(row->keys[k].name, name, length) == 0)
            return k;
    }
    return -1;
}

double fault_value(const struct fault_use *u, const char *key)
{
    int k = key_index(u->row, key, strlen(key));
    CHECK(k >= 0);
    return u->value[k];
}

/* ---- parsing ---- */

static enum err_code unknown_key(const struct fault_row *row, const char *text, struct err *err)
{
    char known[ERR_PART] = "";
    size_t used = 0;
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name && used < sizeof known; k++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "",
                                 row->keys[k].name);
    return err_set(err, ERR_USAGE, "fault|%s|\"%s\"|KEY=VALUE with a key of: %s", row->id, text,
                   known[0] ? known : "none");
}

static bool read_value(const struct fault_key *key, const char *text, double *v)
{
    if (key->fit == FIT_OP) {
        const struct op_row *op = op_find(text);
        *v = op ? (double)(op - op_rows) : -1;
        return op != NULL;
    }
    for (int i = 0; key->fit == FIT_WORD && key->words[i]; i++) {
        *v = i;
        if (strcmp(key->words[i], text) == 0) return true;
    }
    if (key->fit == FIT_WORD || !text_double(text, v) || !isfinite(*v)) return false;
    return !key->whole || (*v == floor(*v) && *v >= 0 && *v <= 1e15);
}

static const char *wanted_of(const struct fault_key *key)
{
    if (key->fit == FIT_OP) return "the name of an op";
    if (key->fit == FIT_WORD) return key->about;
    return key->whole ? "a whole number, 0 or more" : "a number";
}

static enum err_code read_keys(struct fault_use *u, char *text, struct err *err)
{
    char *rest = NULL;
    for (char *part = strtok_r(text, ",:", &rest); part; part = strtok_r(NULL, ",:", &rest)) {
        const char *equals = strchr(part, '=');
        int k = equals ? key_index(u->row, part, (size_t)(equals - part)) : -1;
        if (k < 0) return unknown_key(u->row, part, err);
        const struct fault_key *key = &u->row->keys[k];
        if (!read_value(key, equals + 1, &u->value[k]))
            return err_set(err, ERR_USAGE, "fault|%s: %s|\"%s\"|%s", u->row->id, key->name,
                           equals + 1, wanted_of(key));
    }
    return ERR_OK;
}

/* The known id with the most leading and trailing characters in common, for messages. */
static const char *nearest(const char *id)
{
    const char *best = fault_at(0)->id;
    size_t most = 0, n = strlen(id);
    for (int i = 0; fault_at(i); i++) {
        const char *known = fault_at(i)->id;
        size_t front = 0, back = 0, m = strlen(known);
        while (front < n && front < m && id[front] == known[front]) front++;
        while (back < n - front && back < m - front && id[n - 1 - back] == known[m - 1 - back])
            back++;
        if (front + back <= most) continue;
        most = front + back;
        best = known;
    }
    return best;
}

static enum err_code unknown_fault(const char *id, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "fault|%s|no such fault, %s is the nearest|one of those of "
                   "`assay fault list`",
                   id, nearest(id));
}

static const char *const stage_things[] = {[FAULT_OP] = "an op",
                                           [FAULT_FILE] = "a file",
                                           [FAULT_CALL] = "a call",
                                           [FAULT_PROCESS] = "a process"};

enum err_code fault_use_parse(struct fault_use *u, const char *text, enum fault_stage stage,
                              struct err *err)
{
    char id[FAULT_TEXT];
    if (strlen(text) >= sizeof id)
        return err_set(err, ERR_USAGE, "fault|%.64s...|%zu bytes|fewer than %d", text, strlen(text),
                       FAULT_TEXT);
    snprintf(id, sizeof id, "%s", text);
    char *keys = strchr(id, '@');
    if (keys) *keys++ = '\0';
    *u = (struct fault_use){.row = fault_find(id)};
    if (!u->row) return unknown_fault(id, err);
    if (u->row->stage != stage)
        return err_set(err, ERR_USAGE, "fault|%s|an edit of %s|one of %s", id,
                       stage_things[u->row->stage], stage_things[stage]);
    for (int k = 0; k < FAULT_KEYS; k++) u->value[k] = u->row->keys[k].dflt;
    return keys ? read_keys(u, keys, err) : ERR_OK;
}

enum err_code faults_add(struct faults *f, const char *text, struct err *err)
{
    struct fault_use u;
    if (f->count == FAULT_ACTIVE)
        return err_set(err, ERR_USAGE, "fault|%s|%d faults at once|at most %d", text, f->count + 1,
                       FAULT_ACTIVE);
    if (fault_use_parse(&u, text, FAULT_OP, err) != ERR_OK) return err->code;
    f->use[f->count++] = u;
    return ERR_OK;
}

void faults_clear(struct faults *f)
{
    for (int i = 0; i < f->count; i++) {
        struct fault_use *u = &f->use[i];
        if (u->memory && u->row->forget)
            u->row->forget(u->memory);
        else
            free(u->memory);
    }
    *f = (struct faults){0};
}

const char *fault_print(const struct fault_use *u, char *buf)
{
    int n = snprintf(buf, FAULT_TEXT, "%s", u->row->id);
    char mark = '@';
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name && n < FAULT_TEXT; k++) {
        if (u->value[k] == u->row->keys[k].dflt) continue;
        const struct fault_key *key = &u->row->keys[k];
        if (key->fit == FIT_OP || key->fit == FIT_WORD)
            n += snprintf(buf + n, (size_t)(FAULT_TEXT - n), "%c%s=%s", mark, key->name,
                          key->fit == FIT_OP ? op_rows[(int)u->value[k]].name
                                             : key->words[(int)u->value[k]]);
        else
            n += snprintf(buf + n, (size_t)(FAULT_TEXT - n), "%c%s=%.17g", mark, key->name,
                          u->value[k]);
        mark = ',';
    }
    return buf;
}

/* ---- the seam ---- */

static bool at_site(struct fault_use *u, const struct fault_place *p)
{
    int64_t call = -1;
    if (!fault_hosted_by(u->row, p->op)) return false;
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
        const struct fault_key *key = &u->row->keys[k];
        if (u->value[k] < 0) continue;
        if (key->fit == FIT_OP && strcmp(op_rows[(int)u->value[k]].name, p->op) != 0) return false;
        if (strcmp(key->name, "layer") == 0 && (int64_t)u->value[k] != p->layer) return false;
        if (strcmp(key->name, "draft_step") == 0 && !(p->draft && p->draft->number == u->value[k]))
            return false;
        if (strcmp(key->name, "call") == 0) call = (int64_t)u->value[k];
    }
    int64_t now = u->seen++;
    return call < 0 || call == now;
}

static enum err_code wrap(struct fault_call *c, const void *arg, struct run *run, struct err *err)
{
    return fault_ranks_apply(c) ? fault_ranks_wrap(c, arg, run, err)
                                : c->use->row->wrap(c, arg, run, err);
}

static enum err_code counted(struct fault_call *c, const void *arg, struct run *run,
                             struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct fault_bits clean;
    if (fault_bits_clean(&clean, c, arg, run, err) == ERR_OK && wrap(c, arg, run, err) == ERR_OK)
        c->use->changed += fault_bits_differ(&clean);
    arena_release(run->arena, mark);
    return err->code;
}

enum err_code fault_next(struct fault_call *c, const void *arg, struct run *run, struct err *err)
{
    /* A wrap may go on more than once: the place in the list is the callee's. */
    struct fault_call inner = *c;
    while (inner.next < c->faults->count) {
        inner.use = &c->faults->use[inner.next++];
        if (!at_site(inner.use, c->place)) continue;
        inner.use->calls++;
        return c->faults->count_changes ? counted(&inner, arg, run, err)
                                        : wrap(&inner, arg, run, err);
    }
    return fault_other(c, c->place->op, arg, run, err);
}

enum err_code fault_other(struct fault_call *c, const char *op, const void *arg, struct run *run,
                          struct err *err)
{
    op_function *f = op_side_find(c->place->side, op);
    if (!f)
        return err_set(err, ERR_DEVICE, "run op|%s on %s|not implemented|an op of this side", op,
                       c->place->side->name);
    return f(arg, run, err);
}

int64_t fault_target_id(struct faults *f, const struct draft_step *s, int64_t draft_id)
{
    const struct fault_place place = {.op = "eagle.layer", .layer = -1, .draft = s};
    int64_t right = s->head->target_id[draft_id], id = right;
    for (int i = 0; i < f->count; i++) {
        struct fault_use *u = &f->use[i];
        if (!u->row->target_id || !at_site(u, &place)) continue;
        id = u->row->target_id(s->head, draft_id);
        u->calls++;
        u->changed += id != right;
    }
    return id;
}

static void tell(const struct fault_place *place, struct faults *f, const void *arg, bool after)
{
    for (int i = 0; i < f->count; i++) {
        struct fault_use *u = &f->use[i];
        if (u->row->watch && fault_hosted_by(u->row, place->op))
            u->row->watch(u, place, arg, after);
    }
}

enum err_code fault_call(const struct fault_place *place, const void *arg, struct run *run,
                         struct err *err)
{
    struct fault_call c = {.place = place, .faults = run->faults};
    tell(place, run->faults, arg, false);
    if (fault_next(&c, arg, run, err) == ERR_OK) tell(place, run->faults, arg, true);
    return err->code;
}
