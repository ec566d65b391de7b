/* transport.h: what the ranks of a run sum over, decided from what each says about itself; every
 * rank sees the same and decides alike. Plain C for the host, so that it is tested without a
 * device: tests/test_transport.c */
#ifndef ASSAY_GPU_TRANSPORT_H
#define ASSAY_GPU_TRANSPORT_H

#include "core/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSPORT_HOST = 64, TRANSPORT_TEXT = 128 };

/* What ASSAY_GPU_TRANSPORT asks for. */
enum transport_wish { WISH_NONE, WISH_NCCL, WISH_HOST };

/* A rank about itself. */
struct rank_about {
    char host[TRANSPORT_HOST];
    char why[ERR_PART]; /* of an NCCL that cannot be opened */
    unsigned char uuid[16];
    int wish;
    int version; /* of NCCL: 22809 is 2.28.9; 0: none */
    int devices; /* that it sees */
};

struct transport {
    bool nccl;
    char text[TRANSPORT_TEXT]; /* "2 ranks by NCCL 2.28.9" */
};

static inline const char *transport_wish_name(int wish)
{
    static const char *const names[] = {"", "nccl", "host"};
    return names[wish];
}

/* ERR_USAGE for another word. */
static inline enum err_code transport_wish_read(int *wish, struct err *err)
{
    const char *said = getenv("ASSAY_GPU_TRANSPORT");
    for (*wish = WISH_NONE; *wish <= WISH_HOST; ++*wish) {
        if (strcmp(said ? said : "", transport_wish_name(*wish)) == 0) return ERR_OK;
    }
    return err_set(err, ERR_USAGE, "ASSAY_GPU_TRANSPORT|environment|\"%s\"|nccl or host", said);
}

/* "2.28.9" */
static inline const char *nccl_version_text(int version, char text[16])
{
    snprintf(text, 16, "%d.%d.%d", version / 10000 % 100, version / 100 % 100, version % 100);
    return text;
}

/* Different devices among those of the ranks. */
static inline int transport_devices(const struct rank_about *a, int ranks)
{
    int count = 0;
    for (int r = 0; r < ranks; r++) {
        bool seen = false;
        for (int q = 0; q < r; q++)
            seen = seen || (strcmp(a[q].host, a[r].host) == 0 &&
                            memcmp(a[q].uuid, a[r].uuid, sizeof a[r].uuid) == 0);
        count += !seen;
    }
    return count;
}

/* The first rank without NCCL, or -1. */
static inline int transport_bare(const struct rank_about *a, int ranks)
{
    int r = 0;
    while (r < ranks && a[r].version) r++;
    return r < ranks ? r : -1;
}

static inline enum err_code transport_alike(const struct rank_about *a, int ranks, struct err *err)
{
    char is[16], other[16];
    for (int r = 1; r < ranks; r++) {
        if (a[r].wish != a[0].wish)
            return err_set(
                err, ERR_USAGE, "ASSAY_GPU_TRANSPORT|rank %d on %s|\"%s\"|\"%s\", as rank 0", r,
                a[r].host, transport_wish_name(a[r].wish), transport_wish_name(a[0].wish));
    }
    for (int r = 1; r < ranks && a[0].wish != WISH_HOST; r++) {
        if (a[r].version && a[0].version && a[r].version != a[0].version)
            return err_set(err, ERR_DEVICE, "NCCL|rank %d on %s|version %s|%s, as rank 0 on %s", r,
                           a[r].host, nccl_version_text(a[r].version, is),
                           nccl_version_text(a[0].version, other), a[0].host);
    }
    return ERR_OK;
}

/* NCCL where each rank has a device of its own and the library, else the host. Errors: ranks that
 * do not agree; NCCL asked for where it cannot be. */
static inline enum err_code transport_choose(const struct rank_about *a, int ranks,
                                             struct transport *out, struct err *err)
{
    char version[16];
    int devices = transport_devices(a, ranks), bare = transport_bare(a, ranks);
    const char *s = devices == 1 ? "" : "s";
    if (transport_alike(a, ranks, err) != ERR_OK) return err->code;
    if (a[0].wish == WISH_NCCL && devices < ranks)
        return err_set(err, ERR_DEVICE,
                       "ranks on gpu|NCCL|%d ranks on %d device%s (%d on %s)|a device for each "
                       "rank, or ASSAY_GPU_TRANSPORT=host",
                       ranks, devices, s, a[0].devices, a[0].host);
    if (a[0].wish == WISH_NCCL && bare >= 0)
        return err_set(err, ERR_DEVICE, "open NCCL|rank %d on %s|%s|NCCL 2.18 or newer", bare,
                       a[bare].host, a[bare].why);
    out->nccl = a[0].wish != WISH_HOST && devices == ranks && bare < 0;
    if (out->nccl)
        snprintf(out->text, sizeof out->text, "%d ranks by NCCL %s", ranks,
                 nccl_version_text(a[0].version, version));
    else if (a[0].wish != WISH_HOST && devices == ranks)
        snprintf(out->text, sizeof out->text, "%d ranks, no NCCL on rank %d: sums go over the host",
                 ranks, bare);
    else
        snprintf(out->text, sizeof out->text, "%d ranks on %d device%s: sums go over the host",
                 ranks, devices, s);
    return ERR_OK;
}

#endif
