/* drafted.h: a small synthetic target with a draft head, ready for rounds. For tests/test_*.c about
 * speculation. */
#ifndef ASSAY_TESTS_DRAFTED_H
#define ASSAY_TESTS_DRAFTED_H

#include "harness/speculate.h"
#include "tests/support.h"

enum { DRAFTED_IDS = 12, DRAFTED_DRAFT_IDS = 8 };
enum drafted_head { DRAFTED_NONE, DRAFTED_LLAMA, DRAFTED_MLA };

struct drafted {
    struct loaded loaded;
    struct head head;
    enum drafted_head kind;
    struct arena arena; /* the head's weights: made once, not at every step */
    struct session_options options;
    struct session session;
    struct speculate s;
};

/* Target of three layers with DRAFTED_IDS tokens; heads know DRAFTED_DRAFT_IDS of them (MLA: all).
 * Config files go to the test's folder. options: threads 1, float32, blocks of 4. */
void drafted_models(struct drafted *d, void **state, enum drafted_head kind);
/* Session of `room` tokens and speculation over it. May be called again after drafted_stop(). */
void drafted_start(struct drafted *d, const struct speculate_options *how, int64_t room);
void drafted_begin(struct drafted *d, const int64_t *prompt, int64_t count);
void drafted_round(struct drafted *d);
void drafted_stop(struct drafted *d);
void drafted_close(struct drafted *d);

struct tokens drafted_tokens(const int64_t *id, int64_t count);

#endif
