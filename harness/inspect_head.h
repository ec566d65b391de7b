/* inspect_head.h: what a draft head is, and which wiring explains data best.
 *
 * With samples, the head drafts their tokens beside the target, three steps, under many settings:
 * which states it is given, in which order, with or without fc, which half of the layer's input is
 * the embedding, where the skip path starts, what is fed back. A setting is scored by the bits that
 * its draft needs for the target's own choice (the draft vocabulary's argmax of the target's
 * logits), at the one temperature that is best for this setting: an overconfident head must not
 * look worse where it is right. The trainer's own metrics (fact sheet 6.3, 6.7) stand beside it.
 * Settings are compared row by row; one is called better where the mean difference is HEAD_SURE
 * standard errors away from zero.
 *
 * Tests: tests/test_inspect_head.c */
#ifndef ASSAY_HARNESS_INSPECT_HEAD_H
#define ASSAY_HARNESS_INSPECT_HEAD_H

#include "core/head.h"
#include "harness/inspect_samples.h"

enum { HEAD_STEPS = 3 };

/* One-sided normal quantile of 1e-4 shared by about a hundred settings. */
#define HEAD_SURE 4.8

/* How a head is wired. */
struct setting {
    int64_t aux[HEAD_AUX]; /* entry ids in the order of fc's column blocks */
    int aux_count;
    int skip;     /* -1: fc; j: the state aux[j] goes in as it is */
    bool swapped; /* the layer takes [hidden | embedding] */
    bool normed;  /* norm_before_residual */
    bool fed;     /* norm_output: what is fed back is normed */
};

struct score {
    int64_t rows;
    double loss[HEAD_STEPS]; /* KL(P || Q) over the draft vocabulary, nats, mean over masked rows */
    double full_acc[HEAD_STEPS], cond_acc[HEAD_STEPS];
    double temperature, choice_bits; /* bits a choice, mean over rows and steps */
    double *row_bits;                /* [rows] mean over the row's steps */
};

/* What all trials share. */
struct trials {
    struct inspection *s;
    const struct head *head; /* with a map in target_id */
    struct samples *samples; /* looked at, with the logits of the head's ids */
    json_t *notes, *settings;
    int threads;
    struct trial {
        struct setting setting;
        struct score score;
    } * list;
    int64_t count, room;
};

/* inspect_head_metrics.c: drafts every sample under a setting. `masked`: rows count where the mask
 * of the token that the row's step takes in is 1 (speculators: index p + 1 + s); else all. */
enum err_code head_score(const struct head *h, const struct samples *w, const struct setting *set,
                         bool masked, int threads, struct score *out, struct err *err) ERR_USED;
/* inspect_head_variant.c: the head as a setting wires it; shares all but what it must copy. */
struct head_variant {
    struct head head;
    void *copies[8];
    int count;
};
enum err_code head_variant_make(struct head_variant *v, const struct head *h,
                                const struct setting *set, struct err *err) ERR_USED;
void head_variant_free(struct head_variant *v);

/* inspect_head_search.c: tries settings; fills t->list, best first in score. */
struct setting setting_of(const struct head *h);
bool setting_same(const struct setting *a, const struct setting *b);
/* The trial of a setting, made when it is new; NULL with err set. */
struct trial *trial_of(struct trials *t, const struct setting *set, struct err *err);
/* How sure it is that a needs more bits than b, in standard errors. */
double trial_sure(const struct trial *a, const struct trial *b);
/* The setting that explains the data best, without what makes no difference against the head's
 * own. */
enum err_code head_search(struct trials *t, struct setting *best, struct err *err) ERR_USED;
void trials_free(struct trials *t);
/* inspect_head_settings.c: what the search found, as problems, notes and the ranking. */
enum err_code head_report_settings(struct trials *t, const struct setting *best,
                                   struct err *err) ERR_USED;

/* inspect_head_rows.c: fc's blocks; rows of lm_head and of the embedding against the target's;
 * `id`: target ids of the draft vocabulary, or NULL. *finite: all weights are numbers. */
enum err_code head_check_rows(struct inspection *s, const struct head *h,
                              const struct model *target, const int64_t *id, int threads,
                              json_t *notes, bool *finite, struct err *err) ERR_USED;
/* How many of the rows of lm_head that are looked at lie nearest to the target's row of their id.
 */
enum err_code head_rows_agree(const struct head *h, const struct model *target, const int64_t *id,
                              int threads, int *agree, struct err *err) ERR_USED;

/* Kind `head`: naming, head_kind, assumed, tensors, missing, extra, problems, notes, settings
 * (the ranking, where there are samples), states (of the samples). A head of which something can be
 * read is described, whatever is wrong with it. */
enum err_code inspect_head(struct inspection *s, const struct samples_options *o, const char *model,
                           const char *samples, json_t *result, struct err *err) ERR_USED;

#endif
