/* verb.c: from a command line to an exit status. One list of verbs; each lives in verb_NAME.c. */
#include "harness/verb.h"

#include "core/file.h"
#include "core/json.h"
#include "harness/help.h"
#include "harness/library_memory.h"
#include "harness/ranks.h"
#include "harness/report.h"
#include "harness/worker.h"
#include "harness/workers.h"

#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct verb *const verbs[] = {
    &verb_forward,   &verb_diff,  &verb_op,       &verb_generate, &verb_synth,
    &verb_doctor,    &verb_cover, &verb_run,      &verb_inspect,  &verb_extract,
    &verb_fault,     &verb_bench, &verb_contract, &verb_quote,    &verb_lint,
    &verb_preflight, &verb_guard, &verb_report,   &verb_help,     NULL,
};

const struct verb *verb_at(int i)
{
    return i >= 0 && i < (int)(sizeof verbs / sizeof verbs[0]) ? verbs[i] : NULL;
}

const struct verb *verb_find(const char *name)
{
    for (int i = 0; verbs[i]; i++) {
        if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
    }
    return NULL;
}

static const char *verdict_of(enum err_code rc)
{
    return rc == ERR_OK ? "pass" : rc == ERR_DIFF ? "fail" : "error";
}

/* The exit status: of the verdict, or of the command that the verb has run. */
static int status_of(const struct verb *v, const json_t *result, enum err_code rc)
{
    const json_t *own = v->exit_field ? json_object_get(result, v->exit_field) : NULL;
    return json_integer_value(own) ? (int)json_integer_value(own) : err_exit(rc);
}

/* What every result has. */
static void complete(json_t *result, enum err_code rc, int status, const char *verb,
                     const struct err *err)
{
    json_object_set_new(result, "assay", json_string(ASSAY_VERSION));
    json_object_set_new(result, "verb", json_string(verb));
    json_object_set_new(result, "verdict", json_string(verdict_of(rc)));
    json_object_set_new(result, "exit", json_integer(status));
    if (err->code != ERR_OK) json_object_set_new(result, "error", json_err(err));
}

/* One JSON object on stdout. A result that cannot be written is not a result. */
static int print_json(json_t *result, enum err_code rc, int status, const char *verb,
                      const struct err *err)
{
    complete(result, rc, status, verb, err);
    char *text = json_dumps(result, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    if (!text) {
        fprintf(stderr,
                "assay: error: write result: JSON: no memory, or a text that is no UTF-8\n");
        return err_exit(ERR_MEMORY);
    }
    bool written = puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    if (written) return status;
    fprintf(
        stderr,
        "assay: error: write result: standard output: found an error while writing, wanted %s\n",
        "room");
    return err_exit(ERR_IO);
}

static void print_error(const struct err *err)
{
    char line[ERR_LINE];
    fprintf(stderr, "assay: %s: %s\n", err->code == ERR_DIFF ? "fail" : "error",
            err_line(err, line, sizeof line));
}

/* The verb's own run, and the reports of it. A report that cannot be written is an error of a run
 * that had none. */
static enum err_code run_reported(const struct args *a, int argc, char **argv, json_t *result,
                                  struct err *err)
{
    struct err writing = ERR_INIT;
    if (report_check(a, err) != ERR_OK) return err->code;
    json_object_set_new(result, "assay", json_string(ASSAY_VERSION));
    json_object_set_new(result, "verb", json_string(a->verb->name));
    report_origin(a->verb, argc, argv, result);
    enum err_code rc = a->verb->run(a, result, err);
    progress_end();
    complete(result, rc, status_of(a->verb, result, rc), a->verb->name, err);
    if (report_write(a, result, &writing) == ERR_OK) return rc;
    if (rc != ERR_OK && rc != ERR_DIFF) return err_note(err, "no report: %.90s", writing.found);
    *err = writing;
    return err->code;
}

/* stdout is written late: what cannot be flushed was not said. */
static int flush_text(int status)
{
    if (fflush(stdout) == 0) return status;
    fprintf(
        stderr,
        "assay: error: write result: standard output: found an error while writing, wanted %s\n",
        "room");
    return status ? status : err_exit(ERR_IO);
}

static int run_verb(const struct verb *v, int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct args a;
    json_t *result = json_object();
    enum err_code rc = args_parse(&a, v, argc, argv, &err);
    if (rc == ERR_OK && args_has(&a, "--help")) {
        help_verb(v, stdout, help_columns(STDOUT_FILENO));
        json_decref(result);
        return flush_text(0);
    }
    int status = 0;
    if (rc == ERR_OK && ranks_follow(&a, &status)) {
        json_decref(result);
        return status;
    }
    if (rc == ERR_OK) rc = run_reported(&a, argc, argv, result, &err);
    progress_end();
    status = status_of(v, result, rc);
    if (a.json) status = print_json(result, rc, status, v->name, &err);
    if (err.code != ERR_OK) print_error(&err);
    json_decref(result);
    if (!a.json) status = flush_text(status);
    workers_release();
    return status;
}

/* An interrupted run leaves no half-written file behind, and dies of the signal that it got. */
static void on_signal(int number)
{
    file_out_abandon_all();
    signal(number, SIG_DFL);
    raise(number);
}

static void handle(int number)
{
    struct sigaction old;
    /* What the parent ignores stays ignored: nohup, and jobs in the background of a script. */
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) signal(number, on_signal);
}

/* A reader that has gone and a limit on file sizes are errors of writing, as a full disk is. */
static const int ignored[] = {SIGPIPE, SIGXFSZ};
static void (*was[2])(int);

void verb_signals_restore(void)
{
    for (int i = 0; i < 2; i++) signal(ignored[i], was[i]);
}

/* A closed standard stream would give its number to the next file opened, and a message would land
 * in a dump. Stands in for it: what may not be written to, so that a result that nobody can read is
 * still an error. */
static void fill_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) exit(err_exit(ERR_IO));
    }
}

static int unknown_verb(int argc, char **argv)
{
    char known[192] = "";
    bool json = false;
    struct err err = ERR_INIT;
    json_t *result = json_object();
    for (int i = 0; verbs[i]; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", verbs[i]->name);
    }
    enum err_code rc = err_set(&err, ERR_USAGE, "verb|assay|\"%s\"|one of %s", argv[1], known);
    for (int i = 1; i < argc; i++) json |= strcmp(argv[i], "--json") == 0;
    int status = json ? print_json(result, rc, err_exit(rc), argv[1], &err) : err_exit(rc);
    print_error(&err);
    json_decref(result);
    return status;
}

/* Ops allocate and release the same panels over and over: kept in the heap, their pages are faulted
 * in once. */
static void keep_pages(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

int assay_main(int argc, char **argv)
{
    keep_pages();
    library_memory_guard(argc, argv);
    fill_standard_streams();
    /* A rank of a run of several processes: its parent gives it its words, nobody types them. */
    if (argc > 1 && strcmp(argv[1], "worker") == 0) return worker_main(argc, argv, worker_tasks);
    handle(SIGINT);
    handle(SIGTERM);
    handle(SIGHUP);
    for (int i = 0; i < 2; i++) was[i] = signal(ignored[i], SIG_IGN);
    if (argc < 2) {
        help_overview(stderr, help_columns(STDERR_FILENO));
        return err_exit(ERR_USAGE);
    }
    const bool help = strcmp(argv[1], "--help") == 0, version = strcmp(argv[1], "--version") == 0;
    const struct verb *v = help ? &verb_help : version ? &verb_version : verb_find(argv[1]);
    if (v) return run_verb(v, argc - 2, argv + 2);
    return unknown_verb(argc, argv);
}
