/* hops.h: the chain that a command goes through before it runs: shells, and programs that take a
 * command along. "zsh,ssh:gpu1,bash": typed into zsh, which starts ssh, whose login shell there is
 * bash.
 *
 *   SHELL          the first hop: the line is typed into it; after ssh: the login shell, which
 *                  reads what ssh brings; anywhere else: entered as SHELL -c TEXT
 *   ssh[:HOST]     ssh HOST TEXT; joins its words with blanks for the login shell, which is the
 *                  next hop where that is a shell, else sh
 *   docker:NAME    docker exec NAME ARGV...
 *   sudo, env      sudo ARGV..., env ARGV...
 *
 * Sources: ssh(1), docker-exec(1), sudo(8), env(1). Test: tests/test_hops.c */
#ifndef ASSAY_COMPAT_HOPS_H
#define ASSAY_COMPAT_HOPS_H

#include "compat/shell.h"

enum hop_kind { HOP_SHELL, HOP_SSH, HOP_DOCKER, HOP_SUDO, HOP_ENV };

enum { HOPS = 16, HOP_NAME = 128, HOPS_ARGUMENT = 131072 }; /* Linux: bytes of one argument */

struct hop {
    enum hop_kind kind;
    enum shell shell;    /* HOP_SHELL; of HOP_SSH: its login shell */
    bool login;          /* HOP_SHELL that reads what an ssh brings */
    char name[HOP_NAME]; /* host or container; HOP_SSH without one: "HOST" */
    char text[HOP_NAME]; /* as given: "ssh:gpu1" */
};

struct hops {
    struct hop hop[HOPS];
    int count;
    bool host_missing; /* an ssh without a host: the line holds the word HOST */
};

/* ERR_USAGE: an unknown hop, a first one that is no shell, a name that begins with '-'. */
enum err_code hops_parse(const char *text, struct hops *out, struct err *err) ERR_USED;

/* The line for the first hop that makes argv[0..n) arrive. `pipes`: docker keeps the standard input
 * open. ERR_INPUT where a word on the way is longer than a program can be given. */
enum err_code hops_line(const struct hops *h, const char *const *argv, int n, bool pipes,
                        struct pool *pool, const char **out, struct err *err) ERR_USED;

/* What becomes of a line, hop by hop. */
struct hop_arrival {
    const struct hop *hop;
    const char *text;       /* a shell's: the line it reads; "" elsewhere */
    struct shell_line line; /* a shell's; words alone elsewhere */
};

struct hops_journey {
    struct hop_arrival at[HOPS];
    int count;         /* hops that were reached */
    int breaks;        /* index of the first hop that breaks it; -1: none */
    const char *why;   /* of `breaks`, or of the first unknown */
    const char *found; /* the piece of text at fault; "" where it is none */
    int unknown;       /* index of the first hop where something cannot be known; -1: none */
    const char **word; /* [words] what the program at the end gets */
    int words;
};

/* Follows `line` without running anything. */
enum err_code hops_follow(const struct hops *h, const char *line, struct pool *pool,
                          struct hops_journey *out, struct err *err) ERR_USED;

#endif
