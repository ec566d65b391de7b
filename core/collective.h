/* collective.h: what several ranks do together: sum, gather, broadcast, wait. One contract, joined
 * with an implementation ("side") by whoever starts the ranks: harness/collective_shm.c for ranks
 * of one host, harness/collective_tcp.c for those of several, both plain and slow; a device's own
 * later. Code that is cut over ranks takes a
 * `struct collective` and knows no more.
 *
 * Every member of the group makes the same calls in the same order: same kind, same sizes, same
 * dtype, same root, same `name`. The sides check that: a rank that is in another call is an error
 * on every member that names both calls, never a hang or a wrong sum.
 *
 * `name` says what the call is for ("layers.3.attn"); it stands in every message and in the report
 * of a rank that waits. At most COLLECTIVE_NAME - 1 bytes count.
 *
 * No call waits longer than c->deadline_s. Errors, all ERR_PROCESS and all with err->rank set to
 * the rank that is to blame where one is known: a member did not arrive in time (the message names
 * the rank and what it was last doing); a member ended, or failed and will not come (the message
 * names it: this error is then a consequence, not a cause); members in different calls. After an
 * error the group is not to be used again until whoever started the ranks has begun the next call
 * of the workers.
 *
 * Data are host memory. Test: tests/test_collective.c */
#ifndef ASSAY_CORE_COLLECTIVE_H
#define ASSAY_CORE_COLLECTIVE_H

#include "core/dtype.h"
#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Environment of a rank, set by faults: it drops out of its next collective, on the host or its
 * device. */
#define COLLECTIVE_ABORT "ASSAY_COLLECTIVE_ABORT"

enum { COLLECTIVE_RANKS = 64, COLLECTIVE_NAME = 48, COLLECTIVE_CHANNELS = 3 };

enum collective_kind {
    COLLECTIVE_BARRIER,
    COLLECTIVE_ALL_REDUCE_SUM,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_KINDS
};

/* One call, as a side gets it: checked, and more than one member. */
struct collective_call {
    enum collective_kind kind;
    const char *name;
    double *sum;         /* all_reduce_sum: in and out */
    int64_t n;           /* all_reduce_sum: values */
    enum dtype dtype;    /* all_reduce_sum */
    const void *part;    /* all_gather: this member's */
    void *all;           /* all_gather: the parts of all, in the group's order */
    void *data;          /* broadcast: read at the root, written elsewhere */
    const int64_t *size; /* [world] bytes of every member's part. broadcast: size[root] alone */
    int root;            /* broadcast: place in the group */
};

struct collective;

struct collective_side {
    const char *name; /* "shm" */
    enum err_code (*run)(struct collective *c, const struct collective_call *call, struct err *err);
    /* Fills in out->state for a group of some ranks of `whole`; NULL: no groups. The other fields
     * are set already. */
    enum err_code (*group)(struct collective *out, const struct collective *whole, struct err *err);
    /* collective_watch(); NULL: nobody is told, and no member is known to fail. */
    enum err_code (*watch)(struct collective *c, const char *what, struct err *err);
};

struct collective {
    const struct collective_side *side; /* NULL: one rank alone */
    void *state;                        /* the side's */
    int rank;                           /* this process's place in the group, 0 .. world - 1 */
    int world;                          /* members of the group, at least 1 */
    int member[COLLECTIVE_RANKS]; /* [world] their ranks in the whole run: the order of every sum */
    int channel;                  /* 0: all ranks; see collective_group() */
    double deadline_s;            /* of each call */
    int64_t calls;                /* made so far */
};

/* A rank alone: every call is a copy, and sums round as stated. Needs no free. */
void collective_self(struct collective *c);

/* A group of some ranks of `whole` (a collective of all ranks): member[members] are ranks of the
 * whole run, this process's among them. Disjoint groups may share a channel (1 ..
 * COLLECTIVE_CHANNELS - 1): all tensor-parallel groups one, all expert-parallel groups another; a
 * process is in one group of a channel at most. Local: no rank waits. Errors (ERR_INPUT): a rank
 * twice, out of range, this process's missing, channel out of range. */
enum err_code collective_group(struct collective *out, const struct collective *whole, int channel,
                               const int *member, int members, struct err *err) ERR_USED;

/* x[0..n) = the sum of the members' x, in the group's order, rounded at every step:
 *     s = round(x_0);  s = round(s + round(x_r)) for r = 1 .. world - 1
 * with round = dtype_round(dtype, .) and dtype DT_F64 (no rounding), DT_F32 or DT_BF16. Each
 * addition is a float64 one that is rounded afterwards. Every member holds the same bits. With one
 * member: round(x_0). NaN and infinities come out as IEEE 754 says. */
enum err_code collective_all_reduce_sum(struct collective *c, const char *name, double *x,
                                        int64_t n, enum dtype dtype, struct err *err) ERR_USED;

/* all[r * bytes ..] = part of member r. Same `bytes` on every member; `part` may be its own place
 * in `all`, else they do not overlap. */
enum err_code collective_all_gather(struct collective *c, const char *name, const void *part,
                                    int64_t bytes, void *all, struct err *err) ERR_USED;
/* The same with parts of different sizes, one after the other: bytes[world], which every member
 * gives alike. */
enum err_code collective_all_gather_parts(struct collective *c, const char *name, const void *part,
                                          const int64_t *bytes, void *all,
                                          struct err *err) ERR_USED;

/* data[0..bytes) = those of member `root` (its place in the group). */
enum err_code collective_broadcast(struct collective *c, const char *name, void *data,
                                   int64_t bytes, int root, struct err *err) ERR_USED;

/* Comes back when every member has come. */
enum err_code collective_barrier(struct collective *c, const char *name, struct err *err) ERR_USED;

/* Whether every member holds the same bytes: for what is replicated and for decisions that each
 * rank takes on its own. ERR_DIFF names the first member that differs from member 0, and err->rank
 * is it. Compares 64-bit hashes: a difference is missed once in 2^64. */
enum err_code collective_agree(struct collective *c, const char *name, const void *data,
                               int64_t bytes, struct err *err) ERR_USED;

/* While this member waits for the others elsewhere than in a call of these, on its device: tells
 * whoever started the ranks that it lives, and what it waits in. `what` NULL: the wait is over.
 * ERR_PROCESS where a member has failed and will not come. Call it every 0.1 s or so; it never
 * waits, and no other member takes part. */
enum err_code collective_watch(struct collective *c, const char *what, struct err *err) ERR_USED;

/* "all_reduce_sum". */
const char *collective_kind_name(enum collective_kind kind);

#ifdef __cplusplus
}
#endif
#endif
