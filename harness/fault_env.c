/* fault_env.c: see fault_env.h. */
#include "harness/fault_env.h"

#include "core/file.h"
#include "harness/child.h"
#include "harness/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const kinds[] = {"malloc", "write",  "short_write", "fsync",
                                    "mmap",   "rename", "open"};

const char *fault_env_kind(int i)
{
    return i >= 0 && i < (int)(sizeof kinds / sizeof kinds[0]) ? kinds[i] : NULL;
}

/* Beside the program, or where an installation puts it. ASSAY_PROGRAM_FILE, for tests: another
 * program than the one that runs now. */
static enum err_code find_files(char *program, char *library, struct err *err)
{
    static const char *const places[] = {"assay_faults.so", "../libexec/assay/assay_faults.so"};
    char folder[FILE_PATH];
    const char *given = getenv("ASSAY_PROGRAM_FILE");
    ssize_t n = -1;
    if (given)
        n = snprintf(program, FILE_PATH, "%s", given);
    else
        n = readlink("/proc/self/exe", program, FILE_PATH - 1);
    if (n <= 0 || n >= FILE_PATH) return err_sys(err, errno, "find own program|/proc/self/exe");
    program[n] = '\0';
    snprintf(folder, sizeof folder, "%s", program);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (file_join(folder, places[i], library, err) != ERR_OK) return err->code;
        if (file_exists(library)) return ERR_OK;
    }
    return err_set(err, ERR_DEVICE, "inject env fault|%s|no assay_faults.so|the library beside it",
                   folder);
}

struct child {
    pid_t pid;
    int err_pipe;
};

static void set_environment(const struct fault_env *f, const char *library, const char *report)
{
    char call[32];
    snprintf(call, sizeof call, "%lld", (long long)f->call);
    setenv("LD_PRELOAD", library, 1);
    setenv("ASSAY_FAULT_KIND", f->kind, 1);
    setenv("ASSAY_FAULT_CALL", call, 1);
    setenv("ASSAY_FAULT_REPORT", report, 1);
    unsetenv("ASSAY_PROGRAM_FILE");
}

/* In the child: no way back. */
static void become(const struct fault_env *f, const char *program, const char *library,
                   const char *report, const char *const *argv, const char *out, int err_fd)
{
    const char *all[64] = {program};
    int n = 1, in = open("/dev/null", O_RDONLY),
        to = open(out ? out : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; argv[i] && n < 63; i++) all[n++] = argv[i];
    if (in < 0 || to < 0) _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_environment(f, library, report);
    execv(program, (char *const *)(uintptr_t)all);
    _exit(127);
}

/* Reads stderr until it closes or the time is up; true: it was. */
static bool read_stderr(int fd, struct fault_outcome *o, double deadline)
{
    size_t used = 0;
    for (;;) {
        char part[512];
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0) return false;
        if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (n > 0) {
            size_t room = sizeof o->message - 1 - used, take = (size_t)n < room ? (size_t)n : room;
            memcpy(o->message + used, part, take);
            used += take;
            o->message[used] = '\0';
            continue;
        }
        if (clock_seconds() > deadline) return true;
        const struct timespec pause = {.tv_nsec = 2000000};
        nanosleep(&pause, NULL);
    }
}

static void read_report(const char *path, struct fault_outcome *o)
{
    char name[32];
    long calls, failed;
    FILE *f = fopen(path, "r");
    o->calls = -1;
    if (!f) return;
    if (fscanf(f, "%31s %ld %ld", name, &calls, &failed) == 3) {
        o->calls = calls;
        o->injected = failed > 0;
    }
    fclose(f);
}

enum err_code fault_env_run(const struct fault_env *f, const char *const *argv, const char *out,
                            struct fault_outcome *o, struct err *err)
{
    char program[FILE_PATH], library[FILE_PATH], report[] = "/tmp/assay-fault-XXXXXX";
    int ends[2], status = 0;
    *o = (struct fault_outcome){.calls = -1};
    if (find_files(program, library, err) != ERR_OK) return err->code;
    int fd = mkstemp(report);
    if (fd < 0 || pipe2(ends, O_NONBLOCK) != 0)
        return err_sys(err, errno, "inject env fault|%s", report);
    close(fd);
    unlink(report);
    pid_t pid = fork();
    if (pid == 0) become(f, program, library, report, argv, out, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        const double deadline = clock_seconds() + f->limit_s;
        o->hung = read_stderr(ends[0], o, deadline);
        /* One that closes its streams and stays is no better. */
        if (child_wait(pid, true, o->hung ? 0 : deadline, &status) != CHILD_ENDED) o->hung = true;
    }
    close(ends[0]);
    if (pid < 0) return err_sys(err, errno, "start a child|%s", program);
    o->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    read_report(report, o);
    unlink(report);
    if (o->status == 127)
        return err_set(err, ERR_DEVICE, "start a child|%s|it could not be run|a program", program);
    return ERR_OK;
}

static bool one_line(const char *text)
{
    size_t n = strlen(text);
    const char *end = strchr(text, '\n');
    return n > 1 && text[0] != '\n' && (!end || end == text + n - 1);
}

enum err_code fault_env_judge(const struct fault_env *f, const struct fault_outcome *o,
                              struct err *err)
{
    char where[64];
    snprintf(where, sizeof where, "env.%s_n@call=%lld", f->kind, (long long)f->call);
    if (o->hung)
        return err_set(err, ERR_FAULT, "env fault|%s|no end after %d s|an end", where, f->limit_s);
    if (o->signal)
        return err_set(err, ERR_FAULT, "env fault|%s|ended by signal %d|exit 3 and a message",
                       where, o->signal);
    if (o->status != 0 && o->status != 3)
        return err_set(err, ERR_FAULT, "env fault|%s|exit %d: %.120s|exit 3, or 0 where it coped",
                       where, o->status, o->message);
    if (o->status != 0 && !one_line(o->message))
        return err_set(err, ERR_FAULT, "env fault|%s|stderr \"%.120s\"|one line that says what",
                       where, o->message);
    return ERR_OK;
}
