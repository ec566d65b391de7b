/* campaign_parts.h: what the parts of a campaign share; private to campaign*.c. */
#ifndef ASSAY_HARNESS_CAMPAIGN_PARTS_H
#define ASSAY_HARNESS_CAMPAIGN_PARTS_H

#include "harness/campaign.h"
#include "harness/campaign_case.h"
#include "harness/campaign_subject.h"
#include "harness/diff.h"

enum job_kind {
    JOB_OP,
    JOB_ALONE,
    JOB_WITHOUT,
    JOB_OFF_GRID,
    JOB_PAIR,
    JOB_FILE,
    JOB_CALL,
    JOB_PROCESS,
    JOB_RANKS,
    JOB_VERIFY,
    JOB_CLEAN
};

/* How the ranks of a JOB_RANKS share the model. */
struct ranks_cut {
    int tp, ep;
    enum expert_map map;
    int redundant;
};

struct job {
    enum job_kind kind;
    int on;                      /* index of the case */
    const struct fault_row *row; /* NULL: a clean run */
    char fault[2][FAULT_TEXT];   /* what is injected; "" where there is none */
    const char *profile;
    enum subject_order order;
    uint64_t seed;
    const char *op; /* JOB_ALONE: the op */
    /* JOB_CALL: which command line; JOB_VERIFY: which way to ask; JOB_PROCESS: which of the
     * CAMPAIGN_RANKS that there are in runs of two to four, -1: one that is drawn */
    int command;
    bool draft;           /* with the case's draft head */
    struct ranks_cut cut; /* JOB_RANKS */
};

/* What one (case, profile, order) gives without a fault. */
struct base {
    int on;
    const char *profile;
    enum subject_order order;
    bool draft;
    bool made;
    struct subject subject;
    struct diff diff; /* of it, anchored */
    enum err_code verdict;
};

enum { BASES = 8, CAMPAIGN_RANKS = 2 + 3 + 4 };

struct campaign {
    const struct campaign_options *options;
    char folder[FILE_PATH]; /* of our own, below TMPDIR; goes when the campaign ends */
    struct campaign_case *cases;
    struct loaded *loaded; /* [cases] */
    int cases_count;
    struct job *jobs;
    int64_t count, room;
    struct base bases[BASES];
    int next_base;
    char checkpoint[FILE_PATH], contract[FILE_PATH]; /* what file faults are made from; "" : none */
};

/* ---- campaign_plan.c ---- */

/* Fills c->jobs; the cases are there. */
enum err_code campaign_plan(struct campaign *c, struct err *err) ERR_USED;
bool campaign_includes(const struct campaign_options *o, const char *id);
/* This op is called in this layer (-1: outside of them) of such a model. */
bool campaign_op_at(const struct config *c, const char *op, int64_t layer);

/* ---- what a job gives: a record, an object with
 *   outcome   caught, missed, inert, sub-threshold, stopped; of clean runs: green, alarm, same
 *             bits; of proofs: kept (no wrong name), misnamed; error
 *   and fault, case, profile, why, ratio, claims, named, equal (a claim that is not what was
 *   injected gives its bits), seconds. ---- */

/* campaign_op.c: JOB_OP and the proofs. NULL: no memory. */
json_t *campaign_op(struct campaign *c, const struct job *j);
/* The record of a subject, of which `first` is the first tap that its fault changed, held against
 * the reference. Also for subjects that ran otherwise. */
json_t *campaign_compare(struct campaign *c, const struct job *j, struct base *b,
                         const struct subject *s, int64_t first);
/* campaign_ranks.c: JOB_RANKS, a fault of what ranks do together, on real ranks. A record also says
 * `tp`, `ep`, the map, whether the ranks themselves found out and stopped (`by_ranks`), and whether
 * those that err are named, all of them and no other (`rank_named`; absent where the fault has no
 * key for it). A wrong rank is a wrong name. */
json_t *campaign_ranks(struct campaign *c, const struct job *j);
/* How the ranks of such a job share the model. */
struct shard_plan campaign_ranks_plan(const struct campaign *c, const struct job *j);
/* The cuts of so many ranks (0: two or four); NULL past the end. Whether a
 * case can be cut so, and the fault be injected then, is campaign_ranks_can()'s to say. */
const struct ranks_cut *campaign_ranks_cut(int ranks, enum expert_map map, int i);
bool campaign_ranks_can(const struct loaded *l, const struct ranks_cut *cut, const char *fault);
/* campaign_alone.c: JOB_ALONE. */
json_t *campaign_alone(struct campaign *c, const struct job *j);
/* campaign_verify.c: JOB_VERIFY, in campaign_verify_ways() ways. */
int campaign_verify_ways(void);
json_t *campaign_verify(struct campaign *c, const struct job *j);
/* campaign_file.c: the checkpoint that file faults are made from, and one of them. */
enum err_code campaign_file_prepare(struct campaign *c, struct err *err) ERR_USED;
json_t *campaign_file(struct campaign *c, const struct job *j);
/* campaign_env.c */
int campaign_commands(void);
/* Makes what the command lines read. ERR_DEVICE: calls cannot be made to fail here. */
enum err_code campaign_env_prepare(struct campaign *c, struct err *err) ERR_USED;
json_t *campaign_env(struct campaign *c, const struct job *j);
/* campaign_process.c: JOB_PROCESS, in real processes of this program. */
json_t *campaign_process(struct campaign *c, const struct job *j);
/* campaign_clean.c */
json_t *campaign_clean(struct campaign *c, const struct job *j);

/* ---- campaign_base.c ---- */

/* The base of a job, made when it is not there. */
struct base *campaign_base(struct campaign *c, const struct job *j, struct err *err);
void campaign_bases_free(struct campaign *c);
/* How far the faulted subject lies from the clean one where they first differ, over the bound that
 * an independent look gives: twice the profile's own error there. Below 1: within it. Expert ids:
 * gaps of `flips`, which may be NULL, over the scores' error. */
double campaign_effect(const struct base *b, const struct loaded *l, const struct subject *faulted,
                       int64_t first, const struct flips *flips);
/* How the subject of a job runs. */
struct subject_how campaign_how(const struct campaign *c, const struct job *j);
/* A file of this process in the campaign's folder. Returns buf (FILE_PATH). */
const char *campaign_path(const struct campaign *c, const char *name, char *buf);
/* diff_run() on a dump of a case. Comes back as it does. */
enum err_code campaign_diff(const struct campaign *c, const struct job *j, const char *subject,
                            bool diagnose, const char *const *without, struct diff *d,
                            struct err *err) ERR_USED;

/* ---- campaign_work.c ---- */

/* Runs job(ctx, i) for i < count, in `workers` processes, in any order. records[i] is what it gave;
 * where the process died, or hung and was killed: outcome "error", with how. A job hangs that takes
 * longer than CAMPAIGN_JOB_S seconds, or what the environment's ASSAY_CAMPAIGN_JOB_S says. */
enum { CAMPAIGN_JOB_S = 600 };
enum err_code campaign_work(int workers, int64_t count, json_t *(*job)(void *ctx, int64_t i),
                            void *ctx, const char *folder, json_t **records,
                            struct err *err) ERR_USED;

/* ---- campaign_sum.c: records to the result, and the verdict ---- */

enum err_code campaign_sum(const struct campaign *c, json_t *const *records, json_t *result,
                           struct err *err) ERR_USED;
json_t *campaign_record(const struct job *j, const struct campaign *c, const char *outcome,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
