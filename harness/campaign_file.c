/* campaign_file.c: file faults: a checkpoint with one thing wrong, and what `inspect` says; see
 * campaign_parts.h. */
#include "harness/campaign_folder.h"
#include "harness/campaign_parts.h"
#include "harness/fault_file.h"
#include "harness/inspect.h"
#include "harness/synth.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS = 3 };

enum err_code campaign_file_prepare(struct campaign *c, struct err *err)
{
    char base[FILE_PATH], config[FILE_PATH];
    struct campaign_case shape;
    struct synth_result made = {0};
    struct inspection s;
    json_t *result = json_object();
    if (file_join(c->folder, "shape", base, err) != ERR_OK ||
        campaign_case_make(&shape, 0, c->options->seed, base, err) != ERR_OK ||
        file_join(base, "config.json", config, err) != ERR_OK ||
        file_join(c->folder, "checkpoint", c->checkpoint, err) != ERR_OK ||
        file_join(c->folder, "contract.json", c->contract, err) != ERR_OK) {
        json_decref(result);
        return err->code;
    }
    /* The shape of K2.5 in small, experts in INT4: every kind of tensor is there. */
    const struct synth_request q = {.config = config,
                                    .folder = c->checkpoint,
                                    .seed = c->options->seed,
                                    .shards = SHARDS,
                                    .shrink = "layers=3,experts=8"};
    if (synth_checkpoint(&q, &made, err) == ERR_OK) {
        inspection_open(&s, c->checkpoint);
        if (inspect_folder(&s, err) == ERR_OK) (void)!ins_record(&s, c->contract, 1, result, err);
        inspection_close(&s);
    }
    synth_result_free(&made);
    campaign_case_close(&shape);
    json_decref(result);
    return err->code;
}

/* What an inspection says, as one text; *red: it found something. The caller's. */
static char *inspected(const char *folder, const char *contract, bool *red)
{
    struct inspection s;
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    json_t *result = json_object(), *said = json_object();
    inspection_open(&s, folder);
    enum err_code rc = inspect_folder(&s, &e);
    if (rc == ERR_OK && contract) rc = ins_against(&s, contract, 1, result, &e);
    json_object_set(said, "problems", s.problems);
    json_object_set(said, "missing", s.missing);
    json_object_set(said, "extra", s.extra);
    if (rc != ERR_OK)
        json_object_set_new(said, "error", json_string(err_line(&e, line, sizeof line)));
    *red = rc != ERR_OK || json_array_size(s.problems) > 0;
    char *text = json_dumps(said, JSON_COMPACT);
    inspection_close(&s);
    json_decref(result);
    json_decref(said);
    return text;
}

static json_t *judge(const struct campaign *c, const struct job *j, const struct fault_file *f,
                     const char *folder)
{
    bool red;
    const char *by = "inspect";
    char *text = inspected(folder, NULL, &red);
    if (!red) { /* nothing but what was recorded can tell */
        free(text);
        by = "inspect --against";
        text = inspected(folder, c->contract, &red);
    }
    bool named = text && ((f->tensor[0] && strstr(text, f->tensor)) || strstr(text, f->file));
    const char *wanted = f->tensor[0] ? f->tensor : f->file;
    bool late = strcmp(by, j->row->detector) != 0 && strcmp(j->row->detector, "inspect") == 0;
    json_t *record =
        campaign_record(j, c, red && named && !late ? "caught" : "missed", "%s: %s: %s", by,
                        !red     ? "green"
                        : !named ? "the place is not named"
                        : late   ? "only by what was recorded"
                                 : "named",
                        wanted);
    free(text);
    return record;
}

json_t *campaign_file(struct campaign *c, const struct job *j)
{
    char folder[FILE_PATH], line[ERR_LINE];
    struct fault_file f;
    struct err e = ERR_INIT;
    bool inert;
    json_t *record;
    campaign_path(c, "checkpoint", folder);
    if (fault_file_inject(j->row, j->seed, c->checkpoint, folder, &f, &inert, &e) != ERR_OK)
        record = campaign_record(j, c, "error", "%s", err_line(&e, line, sizeof line));
    else if (inert)
        record = campaign_record(j, c, "inert", "cannot occur here");
    else
        record = judge(c, j, &f, folder);
    campaign_folder_remove(folder);
    return record;
}
