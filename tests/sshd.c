/* sshd.c: see sshd.h. */
#include "tests/sshd.h"

#include "tests/cli.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Starts a program with nothing on its streams. */
static pid_t start(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++) dup2(null, i);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return pid;
}

static int run(const char *const *argv)
{
    int status = 0;
    pid_t pid = start(argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0) continue;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

static const char *find_sshd(void)
{
    static const char *const usual[] = {"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"};
    const char *given = getenv("ASSAY_TEST_SSHD");
    if (given) return given;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (access(usual[i], X_OK) == 0) return usual[i];
    }
    return NULL;
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                 getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    if (fd >= 0) close(fd);
    return bound ? ntohs(at.sin_port) : 0;
}

static bool make_key(const char *path)
{
    const char *const argv[] = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, NULL};
    return run(argv) == 0;
}

/* Is it the last part of what the user logs in with? */
static bool logs_in_with(const char *shell)
{
    const struct passwd *me = getpwuid(geteuid());
    const char *slash = me ? strrchr(me->pw_shell, '/') : NULL;
    return slash && strcmp(slash + 1, shell) == 0;
}

static void write_configs(const struct sshd *s, const char *folder, const char *path,
                          const char *const *shells)
{
    FILE *server = fopen(textf("%s/sshd_config", folder), "w"), *client = fopen(s->config, "w");
    int port[8];
    assert_non_null(server);
    assert_non_null(client);
    fprintf(server,
            "ListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxSessions 100\n"
            "SetEnv HOME=%s PATH=%s\n",
            folder, folder, folder, path);
    for (int i = 0; shells[i]; i++) {
        port[i] = free_port();
        fprintf(server, "Port %d\n", port[i]);
        fprintf(client, "Host %s\n  HostName 127.0.0.1\n  Port %d\n", shells[i], port[i]);
    }
    for (int i = 0; shells[i]; i++) {
        if (!logs_in_with(shells[i]))
            fprintf(server,
                    "Match LocalPort %d\n  ForceCommand exec %s -c \"$SSH_ORIGINAL_COMMAND\"\n",
                    port[i], shells[i]);
    }
    /* One connection for each host, as a socket in the folder. */
    fprintf(client,
            "Host *\n  IdentityFile %s/user\n  IdentitiesOnly yes\n  BatchMode yes\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile %s/known\n  LogLevel ERROR\n"
            "  ControlMaster auto\n  ControlPath %s/%%n\n  ControlPersist 60\n",
            folder, folder, folder);
    assert_int_equal(fclose(server), 0);
    assert_int_equal(fclose(client), 0);
}

/* Started by root, it wants a folder that a machine without sshd's service does not have: it gets
 * one in a file system that nobody else sees. */
static pid_t start_server(const char *program, const char *config)
{
    const char *line = textf(
        "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec %s -D -f %s", program, config);
    const char *const apart[] = {"unshare", "--mount", "sh", "-c", line, NULL};
    const char *const plain[] = {program, "-D", "-f", config, NULL};
    return start(geteuid() == 0 && access("/run/sshd", X_OK) != 0 ? apart : plain);
}

static bool answers(const struct sshd *s, const char *host)
{
    enum { TRIES = 100 };
    const struct timespec pause_100ms = {.tv_nsec = 100000000};
    const char *const argv[] = {"ssh", "-n", "-F", s->config, host, "exit 7", NULL};
    for (int i = 0; i < TRIES && waitpid(s->pid, NULL, WNOHANG) == 0; i++) {
        if (run(argv) == 7) return true;
        nanosleep(&pause_100ms, NULL);
    }
    return false;
}

bool sshd_start(struct sshd *s, const char *folder, const char *path, const char *const *shells)
{
    enum { SOCKET_PATH = 80 };
    char server[FILE_PATH];
    const char *program = find_sshd();
    *s = (struct sshd){.why = program ? "its folder has too long a name" : "no sshd is installed"};
    if (!program || strlen(folder) > SOCKET_PATH) return false;
    snprintf(server, sizeof server, "%s/sshd_config", folder);
    snprintf(s->config, sizeof s->config, "%s/ssh_config", folder);
    s->why = "ssh-keygen makes no key";
    if (!make_key(textf("%s/host", folder)) || !make_key(textf("%s/user", folder))) return false;
    write_configs(s, folder, path, shells);
    s->why = "the sshd here does not answer";
    s->pid = start_server(program, server);
    for (int i = 0; shells[i]; i++) {
        if (s->pid > 0 && answers(s, shells[i])) continue;
        sshd_stop(s, shells);
        s->pid = 0;
        return false;
    }
    return true;
}

void sshd_stop(const struct sshd *s, const char *const *shells)
{
    for (int i = 0; shells[i]; i++) {
        const char *const argv[] = {"ssh", "-F", s->config, "-O", "exit", shells[i], NULL};
        (void)!run(argv);
    }
    if (s->pid > 0) {
        kill(s->pid, SIGTERM);
        while (waitpid(s->pid, NULL, 0) > 0) continue;
    }
}
