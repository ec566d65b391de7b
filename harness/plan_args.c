/* plan_args.c: see plan_args.h. */
#include "harness/plan_args.h"

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

const char *plan_path(const struct plan *p, const char *text, struct arena *a, struct err *err)
{
    size_t lead = text[0] == '@' ? 1 : text_starts(text, "synth:") ? 6 : 0;
    size_t length = lead == 6 ? strcspn(text, "?") - lead : strlen(text) - lead;
    size_t size = strlen(p->folder) + strlen(text) + 2;
    if (text[lead] == '/' || length == 0) return text;
    char *out = arena_alloc(a, (int64_t)size, 1, "path", err);
    if (!out) return NULL;
    /* First without what follows the path, to see whether it is there. */
    snprintf(out, size, "%s/%.*s", p->folder, (int)length, text + lead);
    if (!file_exists(out)) return text;
    snprintf(out, size, "%.*s%s/%s", (int)lead, text, p->folder, text + lead);
    return out;
}

const char *plan_dump_path(const struct plan *p, int i, const char *folder, struct arena *a,
                           struct err *err)
{
    char *out = arena_alloc(a, FILE_PATH, 1, "path", err), name[PLAN_NAME + 16];
    snprintf(name, sizeof name, "%s.safetensors", p->step[i].name);
    return out && file_join(folder, name, out, err) == ERR_OK ? out : NULL;
}

const char *plan_dump(const struct plan *p, const struct plan_text *t, const char *folder,
                      struct arena *a, struct err *err)
{
    return t->step >= 0 ? plan_dump_path(p, t->step, folder, a, err)
                        : plan_path(p, t->text, a, err);
}

static void give(struct args *a, const char *name, const char *value)
{
    for (const struct option_row *o = a->verb->options; o->name; o++) {
        if (strcmp(o->name, name) != 0) continue;
        CHECK(a->givens < (int)(sizeof a->given / sizeof a->given[0]));
        a->given[a->givens] = o;
        a->value[a->givens++] = value;
        return;
    }
    CHECK(a->verb == NULL); /* the parser takes no other names */
}

/* Paths are told by what the verb calls its value. */
static const char *resolve(const struct plan *p, const struct plan_option *o, const char *folder,
                           struct arena *a, struct err *err)
{
    const char *m = o->row->metavar;
    if (m && strcmp(m, "DUMP") == 0) return plan_dump(p, &o->value, folder, a, err);
    if (m && (strcmp(m, "T") == 0 || strcmp(m, "MODEL") == 0 || strcmp(m, "FILE") == 0 ||
              strcmp(m, "HEAD") == 0))
        return plan_path(p, o->value.text, a, err);
    return o->value.text;
}

enum err_code plan_args(const struct plan *p, int i, const char *folder, const char *n,
                        struct arena *a, struct args *out, struct err *err)
{
    const struct plan_step *s = &p->step[i];
    *out = (struct args){.verb = plan_verb(s->kind), .json = true};
    const char *model = s->model.text ? plan_path(p, s->model.text, a, err) : NULL;
    if (s->kind == PLAN_FAULT) out->word[out->words++] = "run";
    if (s->kind == PLAN_FORWARD || s->kind == PLAN_GENERATE) out->word[out->words++] = model;
    for (int w = 0; w < 2 && s->word[w].text; w++)
        out->word[out->words++] =
            s->kind == PLAN_DIFF ? plan_dump(p, &s->word[w], folder, a, err) : s->word[w].text;
    if ((s->kind == PLAN_DIFF || s->kind == PLAN_FAULT) && model) give(out, "--model", model);
    if (s->kind == PLAN_FORWARD) give(out, "--out", plan_dump_path(p, i, folder, a, err));
    if (s->kind == PLAN_GENERATE && n) give(out, "-n", n);
    for (int k = 0; k < s->options; k++)
        give(out, s->option[k].row->name, resolve(p, &s->option[k], folder, a, err));
    return err->code;
}
