/* replay.c: see replay.h. */
#include "harness/replay.h"

#include "harness/draft_hold.h"
#include "harness/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The head's steps behind the target's run, to the same dump. */
static enum err_code run_draft(struct forward_draft *d, const struct session *s,
                               const struct tokens *t, const struct anchor *anchor,
                               struct tap_sink *sink, struct err *err)
{
    if (anchor && (draft_hold_aux(anchor, &d->states, err) != ERR_OK ||
                   draft_hold_aux(anchor, &d->around, err) != ERR_OK))
        return err->code;
    return forward_draft_run(d, &s->run, t, sink, err);
}

/* assay.lengths, by which a dump knows the rows of its draft taps. The caller's. */
static char *lengths_text(const struct tokens *t)
{
    json_t *a = json_array();
    for (int64_t q = 0; q < t->sequences; q++) json_array_append_new(a, json_integer(t->length[q]));
    char *text = json_dumps(a, JSON_COMPACT);
    json_decref(a);
    return text;
}

static enum err_code run_to(const char *path, const struct loaded *l, const struct tokens *t,
                            const struct session_options *o, struct forced *forced,
                            struct anchor *anchor, struct forward_draft *draft, enum dtype reals,
                            struct err *err)
{
    struct tap *taps = NULL;
    int64_t count = 0;
    struct dump_out out = {.file = FILE_OUT_INIT};
    struct session s = {0};
    char *lengths = lengths_text(t);
    const struct st_meta meta = {"assay.lengths", lengths};
    struct tap_sink *sink = draft ? forward_draft_sink(draft, &out.sink) : &out.sink;
    if (!lengths) (void)!err_set(err, ERR_MEMORY, "reference run||no memory");
    if (err->code == ERR_OK &&
        tap_list(l->model.config, 0, l->model.config->layers, &taps, &count, err) == ERR_OK &&
        (!draft || forward_draft_taps(draft, &taps, &count, err) == ERR_OK) &&
        dump_create(&out, path, taps, count, t->count, 0, t->count, reals, &meta, draft != NULL,
                    err) == ERR_OK &&
        session_open(&s, l, o, t->sequences, t->length, err) == ERR_OK &&
        session_forward(&s, t, anchor ? anchor_sink(anchor, sink) : sink, forced, NULL, err) ==
            ERR_OK &&
        (!draft || run_draft(draft, &s, t, anchor, &out.sink, err) == ERR_OK))
        (void)!dump_commit(&out, err);
    session_close(&s);
    dump_abandon(&out);
    free(lengths);
    free(taps);
    return err->code;
}

enum err_code replay_run(const struct loaded *l, const struct tokens *t,
                         const struct session_options *o, struct forced *forced,
                         struct anchor *anchor, struct forward_draft *draft, enum dtype reals,
                         struct dump *out, struct err *err)
{
    char path[FILE_PATH];
    *out = (struct dump){0};
    if (temporary_dump(path, err) != ERR_OK) return err->code;
    if (run_to(path, l, t, o, forced, anchor, draft, reals, err) != ERR_OK)
        return err_note(err, "reference run, profile %s", o->profile.name);
    (void)!dump_open(out, path, err);
    unlink(path); /* the mapping keeps it alive */
    return err->code;
}
