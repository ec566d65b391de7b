/* load.h: how far the reading of a checkpoint has come, and which shard a stalled disk holds back.
 *
 * Weights are mapped: they are read when an op asks for them, so loading and computing are one. A
 * watch counts the bytes that tensor_elements() hands out for the first time, in pieces of 64 KiB a
 * shard; whether the disk or the page cache gave them it does not know. A thread of its own looks
 * every second. It shows a bar on a terminal, else a plain line every ten seconds:
 *
 *     assay: load: 3 of 64 shards, 29.1 GB of up to 594.2 GB, 1.2 GB/s, layer 3 of 61, 470 s left
 *
 * (ASSAY_LOAD_LINE_S: other seconds between two lines, for tests.) Over ranks each has its own
 * watch, and its lines come with the rank before them.
 *
 * A shard is done once reading has gone on to another one. "Up to": experts that no token chooses
 * are never read. The time left is that of the first pass over the layers; once a second one
 * begins, the run shows its own progress and only stalls are told. A stall is ten seconds in which
 * nothing was handed out, no page came in, and a thread sat waiting for one; computing, and waiting
 * for a write, are none:
 *
 *     assay: disk: no byte of model-00004-of-000064.safetensors for 10 s
 *
 * said again every ten seconds, and once when it goes on. While the files are opened and their
 * headers read, only stalls are told; while shapes are checked, which touches the files here and
 * there, the folder stands for the shard. Test: tests/test_load.c */
#ifndef ASSAY_HARNESS_LOAD_H
#define ASSAY_HARNESS_LOAD_H

#include "core/weights.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct load_options {
    double stall_s; /* no byte for so long is a stall */
    double line_s;  /* between two lines of a log */
    double tick_s;  /* between two looks; 0: no thread, load_tick() is called */
    FILE *out;
    bool terminal;
    const char *tasks; /* where the kernel shows this process's threads: /proc/self/task */
};

struct load_options load_defaults(void);

struct load;

/* Watches the reading of w's files until load_end(). NULL, and nothing to end: a synthetic source,
 * another watch that is on, or no memory for this one, which is no reason to stop a run.
 * `layer_end`: layers from there on are not read. */
struct load *load_begin(const struct weights *w, int64_t layer_end, const struct load_options *o);
/* Watches the opening of a model by weights_open(): stalls only. NULL as above. load_opening() says
 * what is read from now on. */
struct load *load_begin_opening(const struct load_options *o);
void load_opening(struct load *l, const char *path);
/* Once no thread reads any more. `l` may be NULL. */
void load_end(struct load *l);

/* Fits run.progress, with the watch as its ctx: the position is shown in the watch's own line, and
 * from the second pass on by progress_show(). */
void load_progress(void *ctx, const char *stage, int64_t done, int64_t total);

/* One look, at `now` seconds of a clock that never goes back. */
void load_tick(struct load *l, double now);

#endif
