/* waits.c: see waits.h. */
#include "tests/waits.h"

#include "core/text.h"
#include "tests/support.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGULAR "a regular file: the kernel's write to a disk"
#define OWN_PIPE "a few bytes, into a pipe that this process made empty"
#define AFTER_POLL "poll() said that something is there"
#define GIVEN_S "the time is what is left of a deadline, a minute at most"

const struct wait_row wait_rows[] = {
    {"core/file.c", "file_out_write", "write", REGULAR},
    {"core/run.c", "run_parallel", "pthread_join", "threads of this call that compute their share"},
    {"gpu/comm.cu", "gpu_comm_abort", "pthread_join", "the thread has said that it is done"},
    {"gpu/context.cu", "gpu_poll", "cudaEventSynchronize",
     "one process on one card, or ranks that add up over the host: kernels of ours alone, which "
     "wait for nobody; a rank's parent counts its silence besides. With NCCL a watch looks on"},
    {"gpu/context.cu", "gpu_poll", "cudaStreamSynchronize", "as the event's"},
    {"harness/campaign_work.c", "write_all", "write",
     "the parent reads for as long as it lives, and this process dies with it"},
    {"harness/campaign_work.c", "read_some", "read", AFTER_POLL},
    {"harness/collective_shm.c", "sleep_on", "FUTEX_WAIT", "with a time, of at most a slice"},
    {"harness/collective_tcp.c", "wait_for_news", "poll", "a slice at most"},
    {"harness/extract_journal.c", "extract_journal_add", "write", REGULAR},
    {"harness/facts_child.c", "become", "write", OWN_PIPE},
    {"harness/facts_child.c", "take", "read", AFTER_POLL},
    {"harness/facts_child.c", "read_all", "poll", GIVEN_S},
    {"harness/fault_env.c", "read_stderr", "read",
     "the pipe is non-blocking; the loop has a deadline"},
    {"harness/fault_run.c", "usable_apart", "write", OWN_PIPE},
    {"harness/fault_run.c", "usable_apart", "read",
     "the pipe is non-blocking, the child has ended"},
    {"harness/guard_log.c", "guard_log_append", "write", REGULAR},
    {"harness/guard_run.c", "tell", "write", "the pipe is non-blocking"},
    {"harness/guard_run.c", "ask_watcher", "read", AFTER_POLL},
    {"harness/guard_run.c", "become_command", "write", OWN_PIPE},
    {"harness/guard_run.c", "start_command", "read",
     "the child execs or says why not: one call of its"},
    {"harness/guard_run.c", "wait_for_command", "sigwaitinfo",
     "guard runs a command for as long as that runs; who wants less says --stall"},
    {"harness/guard_streams.c", "pass", "write", "as long as the command itself would be held up"},
    {"harness/guard_streams.c", "pass", "poll",
     "the reader of the command's output is slow: the command itself would wait for it"},
    {"harness/guard_streams.c", "pump", "poll",
     "until the command's streams close, or guard says stop: guard's end of that pipe closes with "
     "it"},
    {"harness/guard_streams.c", "pump", "read", AFTER_POLL},
    {"harness/guard_streams.c", "pump", "write", "the copy's pipe is non-blocking"},
    {"harness/guard_streams.c", "guard_streams_finish", "pthread_join",
     "stop is closed: a pump goes on with what is there, no more"},
    {"harness/guard_tree.c", "read_proc", "read", "a file of /proc"},
    {"harness/guard_watch.c", "read_events", "read", AFTER_POLL},
    {"harness/guard_watch.c", "read_stream", "read",
     "poll() said so, or guard has told of the end and closed the other end before"},
    {"harness/guard_watch.c", "watch", "poll",
     "until guard tells of the end; guard's ends of these pipes close with it"},
    {"harness/inspect_partial.c", "write_all", "write", REGULAR},
    {"harness/library_memory.c", "say", "write", "a regular file, or the stream that guard reads"},
    {"harness/load.c", "load_end", "pthread_join",
     "it waits for the bell a tick at a time, and it rang"},
    {"harness/net.c", "wait_for", "poll", GIVEN_S},
    {"harness/net.c", "connect_one", "connect", "the socket is non-blocking"},
    {"harness/net.c", "net_accept", "accept4", "the sockets that listen are non-blocking"},
    {"harness/net_lookup.c", "look_up", "getaddrinfo",
     "in a thread of its own, which is left behind when the time is over"},
    {"harness/process_fault.c", "run_out_of_memory", "write", "a file of /proc"},
    {"harness/process_fault.c", "write_all", "write",
     "a fault on purpose, in a rank that is watched"},
    {"harness/wire.c", "fill", "recvmsg", "non-blocking, or a socket with a time of a slice"},
    {"harness/wire.c", "wait_for", "poll", GIVEN_S},
    {"harness/worker_crash.c", "put", "write",
     "in a rank that dies, into a pipe that its parent drains"},
    {"harness/worker_keeper.c", "pass_stderr", "read", "the pipe is non-blocking"},
    {"harness/workers_launch.c", "take_all_in", "poll", GIVEN_S},
    {"harness/workers_launch.c", "take_all_in", "accept4", AFTER_POLL},
    {"harness/workers_launch.c", "enter", "connect", "SO_SNDTIMEO: what is left of the deadline"},
    {"harness/workers_watch.c", "drain_stderr", "read", "the pipe is non-blocking"},
    {"harness/workers_watch.c", "serve", "poll", "until the next deadline, a second at most"},
};
const int wait_count = sizeof wait_rows / sizeof wait_rows[0];

static const char *const calls[] = {"poll",
                                    "ppoll",
                                    "select",
                                    "pselect",
                                    "epoll_wait",
                                    "waitpid",
                                    "waitid",
                                    "wait4",
                                    "sigwaitinfo",
                                    "sigwait",
                                    "pause",
                                    "sigsuspend",
                                    "sem_wait",
                                    "pthread_join",
                                    "pthread_cond_wait",
                                    "flock",
                                    "lockf",
                                    "read",
                                    "readv",
                                    "recv",
                                    "recvfrom",
                                    "recvmsg",
                                    "accept",
                                    "accept4",
                                    "connect",
                                    "write",
                                    "writev",
                                    "send",
                                    "sendmsg",
                                    "sendto",
                                    "popen",
                                    "pclose",
                                    "F_SETLKW",
                                    "FUTEX_WAIT",
                                    "pthread_barrier_wait",
                                    "getaddrinfo",
                                    "cudaStreamSynchronize",
                                    "cudaEventSynchronize",
                                    "cudaDeviceSynchronize",
                                    NULL};

/* ---- reading C, as far as it goes ---- */

struct source {
    const char *path;
    char *code;
};

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* code[at] begins the whole word, which is no member's name. */
static bool is_call(const char *code, size_t at, const char *word)
{
    size_t n = strlen(word), next = at + n;
    if (strncmp(code + at, word, n) != 0 || in_word(code[next])) return false;
    if (at > 0 && (in_word(code[at - 1]) || code[at - 1] == '.' || code[at - 1] == '>'))
        return false;
    if (isupper((unsigned char)word[0])) return true; /* what a call is asked for */
    while (isspace((unsigned char)code[next])) next++;
    return code[next] == '(';
}

/* What stands at the beginning of its line is a definition. */
static bool is_in_body(const char *code, size_t at)
{
    while (at > 0 && code[at - 1] != '\n') at--;
    return code[at] == ' ';
}

static bool defines(const char *code, const char *word)
{
    for (size_t i = 0; code[i]; i++) {
        if (is_call(code, i, word) && !is_in_body(code, i)) return true;
    }
    return false;
}

/* The end of the arguments that begin at the next '('. */
static size_t arguments(const char *code, size_t at, size_t *end)
{
    int depth = 0;
    while (code[at] != '(') at++;
    for (*end = at; code[*end]; (*end)++) {
        depth += (code[*end] == '(') - (code[*end] == ')');
        if (depth == 0) break;
    }
    return at + 1;
}

/* The name of the function whose body holds code[at]: what stands before the list of parameters
 * before the last '{' at the beginning of a line. */
static void function_of(const char *code, size_t at, char *name, size_t size)
{
    int depth = 0;
    name[0] = '\0';
    while (at > 0 && !(code[at] == '{' && code[at - 1] == '\n')) at--;
    while (at > 0 && code[at] != ')') at--;
    for (; at > 0; at--) {
        depth += (code[at] == ')') - (code[at] == '(');
        if (depth == 0) break;
    }
    size_t end = at;
    while (at > 0 && in_word(code[at - 1])) at--;
    snprintf(name, size, "%.*s", (int)(end - at), code + at);
}

/* ---- the rule ---- */

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

static bool is_constant(const char *s)
{
    s += strspn(s, " \n");
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n > 0 && s[n] == '\0' && strcmp(s, "NULL") != 0;
}

/* Whether its arguments alone say that it comes back. */
static bool is_bounded(const char *call, const char *code, size_t at)
{
    char text[512];
    size_t end;
    if (isupper((unsigned char)call[0])) return false;
    size_t begin = arguments(code, at, &end);
    snprintf(text, sizeof text, "%.*s", (int)(end - begin), code + begin);
    const char *last = strrchr(text, ',');
    return has(text, "WNOHANG") || has(text, "LOCK_NB") || has(text, "MSG_DONTWAIT") ||
           (strcmp(call, "poll") == 0 && last && is_constant(last + 1));
}

static const struct wait_row *find(const char *path, const char *function, const char *call)
{
    for (int i = 0; i < wait_count; i++) {
        const struct wait_row *w = &wait_rows[i];
        if (strcmp(w->path, path) == 0 && strcmp(w->function, function) == 0 &&
            strcmp(w->call, call) == 0)
            return w;
    }
    return NULL;
}

static int line_at(const char *code, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++) line += code[i] == '\n';
    return line;
}

/* Tells of every call in `code`, or where `row` is given returns whether it is among them. */
static bool look(struct tidy *t, const char *path, const char *code, const struct wait_row *row)
{
    char function[128];
    for (int k = 0; calls[k]; k++) {
        if (defines(code, calls[k])) continue;
        for (size_t i = 0; code[i]; i++) {
            if (!is_call(code, i, calls[k]) || !is_in_body(code, i) ||
                is_bounded(calls[k], code, i))
                continue;
            function_of(code, i, function, sizeof function);
            const struct wait_row *w = find(path, function, calls[k]);
            if (row && w == row) return true;
            if (!row && !w)
                tidy_complain(
                    t, path, line_at(code, i),
                    "%s() in %s() may wait forever: a deadline, or a row in tests/waits.c",
                    calls[k], function);
        }
    }
    return false;
}

void waits_file(struct tidy *t, const char *path, const char *text)
{
    if (text_starts(path, "tests/") || text_starts(path, "fixtures/")) return;
    char *code = tidy_code(text, false);
    (void)look(t, path, code, NULL);
    free(code);
}

void waits_rows(struct tidy *t, const char *root)
{
    for (int i = 0; i < wait_count; i++) {
        const struct wait_row *w = &wait_rows[i];
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", root, w->path);
        char *text = read_whole(path, NULL), *code = tidy_code(text, false);
        if (!look(t, w->path, code, w))
            tidy_complain(t, w->path, 0,
                          "%s() makes no call of %s(): its row in tests/waits.c is stale",
                          w->function, w->call);
        free(code);
        free(text);
    }
}
