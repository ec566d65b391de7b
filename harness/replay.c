/* replay.c: see replay.h. */
#include "harness/replay.h"

#include "harness/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum err_code run_to(const char *path, const struct loaded *l, const struct tokens *t,
                            const struct session_options *o, struct forced *forced,
                            struct anchor *anchor, enum dtype reals, struct err *err)
{
    struct tap *taps = NULL;
    int64_t count = 0;
    struct dump_out out = {.file = FILE_OUT_INIT};
    struct session s = {0};
    if (tap_list(l->model.config, 0, l->model.config->layers, &taps, &count, err) == ERR_OK &&
        dump_create(&out, path, taps, count, t->count, 0, t->count, reals, NULL, 0, err) ==
            ERR_OK &&
        session_open(&s, l, o, t->sequences, t->length, err) == ERR_OK &&
        session_forward(&s, t, anchor ? anchor_sink(anchor, &out.sink) : &out.sink, forced, NULL,
                        err) == ERR_OK)
        (void)!dump_commit(&out, err);
    session_close(&s);
    dump_abandon(&out);
    free(taps);
    return err->code;
}

enum err_code replay_run(const struct loaded *l, const struct tokens *t,
                         const struct session_options *o, struct forced *forced,
                         struct anchor *anchor, enum dtype reals, struct dump *out, struct err *err)
{
    char path[FILE_PATH];
    *out = (struct dump){0};
    if (temporary_dump(path, err) != ERR_OK) return err->code;
    if (run_to(path, l, t, o, forced, anchor, reals, err) != ERR_OK)
        return err_note(err, "reference run, profile %s", o->profile.name);
    (void)!dump_open(out, path, err);
    unlink(path); /* the mapping keeps it alive */
    return err->code;
}
