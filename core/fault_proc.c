/* fault_proc.c: faults of a rank among several processes. Rows alone: they are made to happen in
 * harness/process_fault.c. Test: tests/test_process_fault.c
 *
 * Keys: rank, the one that fails; call, the n-th request of the workers, from 0; step, how often
 * the rank has said what it does in that call (worker_doing) before it fails. */
#include "core/fault_edits.h"

#define KEY_RANK KEY_SITE("rank", "rank; the last one where not given")
#define KEY_CALL KEY_SITE("call", "which request, from 0; the first where not given")
#define KEY_STEP_OF KEY_SITE("step", "how many steps of the call are done first")
#define KEY_NUMBER(key, d, text)                                                                   \
    {                                                                                              \
        .name = key, .whole = true, .dflt = d, .fit = FIT_LINEAR, .about = text                    \
    }
/* The detector: how the parent of the ranks must call it. */
#define CALLED(words) .stage = FAULT_PROCESS, .detector = "workers: " words
#define IN_A_STEP(...) .keys = {KEY_RANK, KEY_CALL, KEY_STEP_OF, __VA_ARGS__}
#define IN_THE_REPLY .keys = {KEY_RANK, KEY_CALL}

const struct fault_row fault_rows_proc[] = {
    {.id = "proc.worker_exit_0",
     CALLED("ended by itself"),
     .keys = {KEY_RANK, KEY_CALL, KEY_STEP_OF},
     .edit = "a rank ends with status 0 and without a reply",
     .source = "B005, B006"},
    {.id = "proc.worker_exit_n",
     CALLED("ended by itself"),
     IN_A_STEP(KEY_NUMBER("status", 3, "exit status")),
     .edit = "a rank ends with a status that is not 0",
     .source = "B005"},
    {.id = "proc.worker_signal",
     CALLED("was ended by a signal"),
     IN_A_STEP(KEY_NUMBER("signal", 11, "signal")),
     .edit = "a rank ends by a signal",
     .source = "B006, B007"},
    {.id = "proc.oom",
     CALLED("was killed because memory ran out"),
     .keys = {KEY_RANK, KEY_CALL, KEY_STEP_OF},
     .edit = "the kernel kills a rank because memory ran out",
     .source = "our own"},
    {.id = "proc.hang",
     CALLED("hangs"),
     .keys = {KEY_RANK, KEY_CALL, KEY_STEP_OF},
     .edit = "a rank lives and does nothing any more",
     .source = "B003, B011"},
    {.id = "proc.nccl_abort",
     CALLED("failed with an error"),
     .keys = {KEY_RANK, KEY_CALL, KEY_STEP_OF},
     .edit = "a rank drops out of a collective that the others are in: it aborts its communicator",
     .source = "B009"},
    {.id = "proc.late_reply",
     CALLED("replied after the deadline"),
     .keys = {KEY_RANK, KEY_CALL, KEY_NUMBER("ms", 1000, "how late, in milliseconds")},
     .edit = "a rank replies after the deadline",
     .source = "B001"},
    {.id = "proc.not_reading",
     CALLED("does not take its request"),
     IN_THE_REPLY,
     .edit = "a rank does not take its request, and the pipe fills up",
     .source = "B001"},
    {.id = "proc.empty_reply",
     CALLED("sent an empty message"),
     IN_THE_REPLY,
     .edit = "a reply of no bytes",
     .source = "our own"},
    {.id = "proc.wrong_rank_reply",
     CALLED("replied in another rank's name"),
     IN_THE_REPLY,
     .edit = "a reply in the next rank's name",
     .source = "our own"},
    {.id = "proc.wrong_call_reply",
     CALLED("replied to another request"),
     IN_THE_REPLY,
     .edit = "a reply to another request",
     .source = "our own"},
    {.id = "proc.reply_unwrapped",
     CALLED("sent what cannot be read"),
     IN_THE_REPLY,
     .edit = "a reply's bytes without the frame around them",
     .source = "eagle3 notes 3.4"},
    {.id = "proc.truncated_reply",
     CALLED("sent what cannot be read"),
     IN_THE_REPLY,
     .edit = "half of a reply, then the end",
     .source = "our own"},
    {.id = "proc.garbled_reply",
     CALLED("sent what cannot be read"),
     IN_THE_REPLY,
     .edit = "a bit of a reply",
     .source = "our own"},
    {.id = "proc.empty_message",
     CALLED("sent an empty message"),
     IN_THE_REPLY,
     .edit = "an error whose text is empty",
     .source = "B001, B017"},
    {.id = "proc.cause_lost",
     CALLED("sent an empty message"),
     IN_THE_REPLY,
     .edit = "an error that says that something failed, and no more",
     .source = "B002, B012"},
    {.id = "proc.garbled_error",
     CALLED("sent what cannot be read"),
     IN_THE_REPLY,
     .edit = "a bit of an error's envelope",
     .source = "our own"},
    {0},
};
