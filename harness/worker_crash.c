/* worker_crash.c: what a rank says when a signal kills it; see worker_parts.h. Nothing in the
 * handler allocates: backtrace() is called once beforehand, which loads what it needs. */
#include "harness/worker_parts.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 32, STACK = 1 << 16 };

static struct board *crash_board;
static int crash_rank;
static char crash_stack[STACK];

static const struct {
    int number;
    const char *name;
} signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"}, {SIGFPE, "SIGFPE"},
               {SIGABRT, "SIGABRT"}, {SIGTERM, "SIGTERM"}, {SIGSYS, "SIGSYS"}};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static void on_crash(int number)
{
    void *frame[FRAMES];
    board_ending(crash_board, crash_rank);
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i].number != number) continue;
        put("ended by ");
        put(signals[i].name);
        put("; backtrace, innermost first:\n");
    }
    backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

static void on_exit_of_rank(void)
{
    board_ending(crash_board, crash_rank);
}

void worker_crash_install(struct board *board, int rank)
{
    void *frame[1];
    (void)backtrace(frame, 1);
    crash_board = board;
    crash_rank = rank;
    atexit(on_exit_of_rank);
    sigaltstack(&(stack_t){.ss_sp = crash_stack, .ss_size = sizeof crash_stack}, NULL);
    struct sigaction act = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i].number, &act, NULL);
}
