/* sshd.h: a real sshd on loopback for one test: keys and ports of its own, one host name for each
 * login shell, nothing of the user's ssh read or written. It runs as the user who runs the test;
 * the shell that the user does not have is put in the way of each command by ForceCommand, as sshd
 * puts the user's. Programs: ASSAY_TEST_SSHD, else sshd in the usual folders; ssh and ssh-keygen of
 * PATH. */
#ifndef ASSAY_TESTS_SSHD_H
#define ASSAY_TESTS_SSHD_H

#include "core/file.h"

#include <sys/types.h>

struct sshd {
    pid_t pid;              /* 0: none runs */
    char config[FILE_PATH]; /* for `ssh -F`; knows the names of the shells as hosts */
    const char *why;        /* none could be started */
};

/* `folder`: empty, for its files and as HOME of its sessions. `path`: their PATH. `shells`: ends
 * with NULL. True: each of them has answered as a host. */
bool sshd_start(struct sshd *s, const char *folder, const char *path, const char *const *shells);
void sshd_stop(const struct sshd *s, const char *const *shells);

#endif
