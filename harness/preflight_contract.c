/* preflight_contract.c: the plan's consumer against the library that it calls: what `contract
 * check` finds, and when a run would have met it. */
#include "compat/judge_api.h"
#include "core/file.h"
#include "core/text.h"
#include "harness/contract.h"
#include "harness/contract_accept.h"
#include "harness/facts.h"
#include "harness/preflight.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct contract_job {
    struct preflight *p;
    struct api library, baseline;
    struct judge_hint hint[PLAN_WORDS];
    struct judge_api_input in;
    char today[16];
    int checked, broken, undecidable;
};

/* The statement is inside something (a function, a class, a branch): it is not met before that
 * runs. A source that cannot be read tells nothing. */
static bool is_nested(const char *path, int line)
{
    struct err none = ERR_INIT;
    struct file_map map;
    bool nested = true;
    if (file_is_folder(path) || file_map(path, &map, &none) != ERR_OK) return true;
    const char *at = (const char *)map.data, *end = at + map.size;
    for (int n = 1; at && at < end && n < line; n++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (at && at < end) nested = isspace((unsigned char)*at) != 0;
    file_unmap(&map);
    return nested;
}

/* Where the file of a finding lies: it is given from the consumer's root. What lies in an archive
 * has no path of its own. */
static const char *source_of(struct contract_job *j, const char *consumer, const char *file)
{
    return file_is_folder(consumer)     ? preflight_text(j->p, "%s/%s", consumer, file)
           : text_ends(consumer, ".py") ? consumer
                                        : file;
}

static const char *message_of(struct contract_job *j, const struct judge_finding *f)
{
    char buf[64];
    if (f->severity == JUDGE_CANNOT_TELL) return preflight_text(j->p, "cannot tell: %s", f->why);
    const char *severity = judge_severity_text(f, buf, sizeof buf);
    const bool said = text_starts(f->why, severity);
    return preflight_text(j->p, "%s%s%s", said ? "" : severity, said ? "" : ": ", f->why);
}

static void add_finding(struct contract_job *j, const char *consumer, const struct judge_finding *f)
{
    /* A changed default or type is undecidable too, but worth a look: it has a severity. */
    const bool broken = f->verdict == JUDGE_BROKEN, unknown = f->severity == JUDGE_CANNOT_TELL;
    if (f->accepted || (!broken && !unknown && f->severity == JUDGE_NOTE)) return;
    const char *file = source_of(j, consumer, f->file);
    const bool early = f->kind == JUDGE_IMPORT && file && !is_nested(file, f->line);
    const char *lines =
                   f->alsos > 0 ? preflight_text(j->p, " (and in %d more lines)", f->alsos) : "",
               *said = message_of(j, f);
    if (!said || !lines) return;
    preflight_add(j->p, (struct preflight_finding){
                            .rule = judge_kind_text(f->kind),
                            .severity = broken    ? PREFLIGHT_ERROR
                                        : unknown ? PREFLIGHT_NOTE
                                                  : PREFLIGHT_WARNING,
                            .undecidable = unknown,
                            .file = file,
                            .line = f->line,
                            .symbol = f->symbol,
                            .message = preflight_text(j->p, "%s%s", said, lines),
                            .found = f->found,
                            .wanted = f->wanted,
                            .remedy = f->remedy,
                            .strikes = early ? PREFLIGHT_AT_START : PREFLIGHT_AFTER_LOAD});
}

/* What of an installed package could not be read; of sources here, lint says so. */
static void add_unread(struct contract_job *j, const char *consumer, const struct uses *uses)
{
    if (uses->problems == 0 || file_exists(consumer)) return;
    preflight_not_checked(j->p,
                          preflight_text(j->p, "%d files of %s cannot be read, %s first: %s",
                                         uses->problems, consumer, uses->problem[0].file,
                                         uses->problem[0].what),
                          "give its source as the consumer");
}

static void check_consumer(struct contract_job *j, const struct plan_word *w)
{
    struct err e = ERR_INIT;
    struct uses uses = {0};
    struct judge_report report = {0};
    json_t *facts = NULL;
    const char *path = preflight_path(j->p, w->text);
    if (facts_read("uses", path, &facts, &e) == ERR_OK &&
        uses_read(facts, path, &j->p->pool, &uses, &e) == ERR_OK) {
        j->in.uses = &uses;
        (void)!judge_api(&j->in, j->p->arena, &report, &e);
    }
    json_decref(facts);
    for (int i = 0; e.code == ERR_OK && i < report.findings; i++)
        add_finding(j, path, &report.finding[i]);
    if (e.code == ERR_OK) add_unread(j, path, &uses);
    j->checked += report.counts.checked;
    j->broken += report.counts.broken;
    j->undecidable += report.counts.undecidable;
    preflight_refused(
        j->p,
        (struct preflight_finding){.rule = "consumer",
                                   .file = preflight_plan(j->p),
                                   .line = w->line,
                                   .remedy = "mend the path; what does not call the library "
                                             "belongs under scripts",
                                   .strikes = PREFLIGHT_AT_START},
        &e);
}

static enum err_code load(struct contract_job *j, struct err *err)
{
    struct preflight *p = j->p;
    const struct plan_preflight *k = p->keys;
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day)) strftime(j->today, sizeof j->today, "%Y-%m-%d", &day);
    for (int i = 0; i < k->receivers.count; i++)
        j->hint[i] = (struct judge_hint){k->receivers.word[i].text};
    j->in = (struct judge_api_input){
        .api = &j->library, .hint = j->hint, .hints = k->receivers.count, .today = j->today};
    if (contract_load(preflight_path(p, k->library), p->arena, &j->library, err) != ERR_OK)
        return err->code;
    if (k->baseline) {
        j->in.baseline = &j->baseline;
        if (contract_load(preflight_path(p, k->baseline), p->arena, &j->baseline, err) != ERR_OK)
            return err->code;
    }
    if (!k->accept) return ERR_OK;
    return contract_accept_read(preflight_path(p, k->accept), p->arena, &j->in.accept,
                                &j->in.accepts, err);
}

static void check_all(struct contract_job *j)
{
    struct preflight *p = j->p;
    struct err e = ERR_INIT;
    if (load(j, &e) != ERR_OK) {
        preflight_refused(p,
                          (struct preflight_finding){.rule = "library",
                                                     .file = preflight_plan(p),
                                                     .line = p->keys->line,
                                                     .remedy = "assay contract record LIB --out "
                                                               "C.yaml, where the library is",
                                                     .strikes = PREFLIGHT_AT_START},
                          &e);
        return;
    }
    preflight_about(p, "nothing");
    const int gaps = p->gaps;
    for (int i = 0; i < p->keys->consumer.count; i++) check_consumer(j, &p->keys->consumer.word[i]);
    if (p->gaps > gaps) return;
    preflight_about(p, "%d uses of %s %s: %d break, %d cannot be told", j->checked,
                    j->library.library.name ? j->library.library.name : p->keys->library,
                    j->library.library.version ? j->library.library.version : "", j->broken,
                    j->undecidable);
}

void preflight_contract(struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    if (k->consumer.count == 0 || !k->library) {
        preflight_not_asked(p, k->library ? "the plan names no consumer"
                                          : "the plan names no library");
        return;
    }
    struct contract_job *j = calloc(1, sizeof *j);
    if (!j) {
        (void)!err_set(p->err, ERR_MEMORY, "preflight|contract|no memory");
        return;
    }
    j->p = p;
    check_all(j);
    free(j);
}
