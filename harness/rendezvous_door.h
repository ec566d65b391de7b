/* rendezvous_door.h: rank 0 at its door: whoever comes says who he is, all at once; private to
 * rendezvous*.c. */
#ifndef ASSAY_HARNESS_RENDEZVOUS_DOOR_H
#define ASSAY_HARNESS_RENDEZVOUS_DOOR_H

#include "harness/rendezvous.h"

enum { GREETING_WORD = 64, GREETING_TEXT = 512 };

/* What a rank says when it comes. Words without spaces. */
struct greeting {
    int world;
    char version[GREETING_WORD], commit[GREETING_WORD];
    struct rendezvous_rank about;
    char run[GREETING_WORD];
};

/* Its text; returns its length. */
int64_t greeting_write(const struct greeting *g, char text[GREETING_TEXT]);
/* False: it is none. */
bool greeting_read(struct greeting *g, const void *data, int64_t bytes);

/* Lets the other ranks in until all are there. `own`: what rank 0 would say. */
enum err_code rendezvous_door(struct rendezvous *r, int fd, const struct greeting *own,
                              double wait_s, struct err *err) ERR_USED;

#endif
