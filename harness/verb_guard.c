/* verb_guard.c: `assay guard`: runs a command as it would run without, and says afterwards what it
 * has lost: exceptions that nobody saw, error lines that say nothing, children that failed, hangs.
 * The exit status is the command's own where that is not 0, and 1 where it was 0 and something was
 * lost. Test: tests/test_guard.c */
#include "core/file.h"
#include "harness/guard_contract.h"
#include "harness/guard_run.h"
#include "harness/verb.h"
#include "reports/guard_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALSO = 1024, STALL_MOST_S = 86400 };

static const struct option_row options[] = {
    {"--stall", "S", "a hang: no output and no CPU for S seconds (default: not looked for)", false},
    {"--on-stall", "report|kill", "what then: say it at the end, or end the command too", false},
    {"--also", "PKG", "look into this installed package's handlers as well (may be repeated)",
     true},
    {"--deep", NULL, "packages that are not named too, while they run (Python 3.12 and later)",
     false},
    {"--logs", "FILE", "a log that the command writes: read for error lines too (may be repeated)",
     true},
    {"--contract", "C", "hold replies against this recorded contract (or library)", false},
    {"--report", "FILE", "write the result there, and nothing on either stream", false},
    {"--log", "FILE", "the guard's own log (JSON lines), which outlives a kill", false},
    {NULL, NULL, NULL, false},
};

static enum err_code read_options(const struct args *a, struct guard_options *o, char also[ALSO],
                                  struct err *err)
{
    static const char *const choices[] = {"report", "kill", NULL};
    int choice;
    const char *text;
    *o = (struct guard_options){.command = a->command,
                                .out_fd = a->json ? STDERR_FILENO : STDOUT_FILENO,
                                .log = args_value(a, "--log")};
    if (a->command_words == 0) return err_set(err, ERR_USAGE, "guard|command|none|-- CMD...");
    if (args_double(a, "--stall", 0, STALL_MOST_S, 0, &o->stall_s, err) != ERR_OK ||
        args_choice(a, "--on-stall", choices, 0, &choice, err) != ERR_OK)
        return err->code;
    o->kill = choice == 1;
    o->deep = args_has(a, "--deep");
    also[0] = '\0';
    for (int i = 0; (text = args_value_at(a, "--also", i)); i++) {
        size_t n = strlen(also);
        if (n + strlen(text) + 2 > ALSO)
            return err_set(err, ERR_USAGE, "option|--also|%s|fewer packages", text);
        snprintf(also + n, ALSO - n, "%s%s", i ? ":" : "", text);
    }
    o->also = also;
    while ((text = args_value_at(a, "--logs", o->files))) {
        if (o->files == GUARD_FILES)
            return err_set(err, ERR_USAGE, "option|--logs|%s|%d files at most", text, GUARD_FILES);
        o->file[o->files++] = text;
    }
    return ERR_OK;
}

/* The findings as the result has them; how many were lost. */
static int record(const struct guard_outcome *out, int status, json_t *result)
{
    static const char *const inner[] = {"k", "id", "time", "lines", NULL};
    json_t *findings = json_object_get(out->seen, "findings"), *kept = json_array();
    int lost = 0, harmless = 0;
    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_t *one = json_array_get(findings, i);
        for (int k = 0; inner[k]; k++) json_object_del(one, inner[k]);
        *(json_object_get(one, "harmless") ? &harmless : &lost) += 1;
        json_array_append(kept, one);
    }
    json_object_set_new(result, "findings", kept);
    json_object_set_new(result, "lost", json_integer(lost));
    json_object_set_new(result, "harmless", json_integer(harmless));
    json_object_set_new(result, "command_exit", json_integer(status));
    json_object_set_new(result, "watched", json_boolean(out->seen != NULL));
    json_object_set_new(result, "pythons",
                        json_integer(json_integer_value(json_object_get(out->seen, "pythons"))));
    json_t *own = json_object_get(out->seen, "own");
    json_object_set_new(result, "own_errors", json_integer((json_int_t)json_array_size(own)));
    return lost;
}

/* Pythons that could not do what --deep asks: their packages were not looked into. */
static void say_shallow(const struct guard_outcome *out, json_t *result)
{
    json_t *list = json_object_get(out->seen, "shallow");
    if (json_array_size(list) == 0) return;
    json_object_set(result, "shallow", list);
    for (size_t i = 0; i < json_array_size(list); i++)
        fprintf(stderr,
                "assay: note: guard: --deep: python %s has no sys.monitoring (3.12 has), or others "
                "hold it: packages not named by --also were not looked into\n",
                json_string_value(json_array_get(list, i)));
}

/* A report that cannot be written changes nothing of what the command did. */
static void write_report(const char *path, const json_t *result, enum err_code rc, int status)
{
    struct err err = ERR_INIT;
    struct file_out f = FILE_OUT_INIT;
    char line[ERR_LINE];
    json_t *all = json_pack("{s:s, s:s, s:s, s:i}", "assay", ASSAY_VERSION, "verb", "guard",
                            "verdict", rc == ERR_OK ? "pass" : "fail", "exit", status);
    json_object_update(all, (json_t *)(uintptr_t)result);
    char *text = json_dumps(all, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    if (!text) (void)!err_set(&err, ERR_MEMORY, "guard report|%s|no memory", path);
    if (text && file_out_open(&f, path, &err) == ERR_OK &&
        file_out_write(&f, text, (int64_t)strlen(text), &err) == ERR_OK &&
        file_out_write(&f, "\n", 1, &err) == ERR_OK)
        (void)!file_out_commit(&f, &err);
    if (err.code != ERR_OK) {
        file_out_abandon(&f);
        fprintf(stderr, "assay: note: %s\n", err_line(&err, line, sizeof line));
    }
    free(text);
    json_decref(all);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct guard_options o;
    struct guard_outcome out;
    char also[ALSO];
    json_t *contract = NULL;
    if (read_options(a, &o, also, err) != ERR_OK) return err->code;
    if (args_has(a, "--contract") &&
        guard_contract_read(args_value(a, "--contract"), &contract, err) != ERR_OK)
        return err->code;
    o.contract = contract;
    enum err_code rc = guard_run(&o, &out, err);
    json_decref(contract);
    if (rc != ERR_OK) return rc;
    int status = WIFSIGNALED(out.status) ? 128 + WTERMSIG(out.status) : WEXITSTATUS(out.status);
    int lost = record(&out, status, result);
    rc = status || lost ? ERR_DIFF : ERR_OK;
    say_shallow(&out, result);
    const char *report = args_value(a, "--report");
    if (out.exec_errno)
        rc = err_set(err, ERR_INPUT, "guard|%s|%s|a command that can be run", a->command[0],
                     strerror(out.exec_errno));
    if (!out.seen && !out.exec_errno)
        fprintf(stderr, "assay: note: guard: the command ran unwatched%s%s\n",
                out.kept[0] ? "; the guard's log is " : "", out.kept);
    if (report)
        write_report(report, result, rc, status ? status : err_exit(rc));
    else if (!a->json)
        guard_text_print(stderr, result);
    guard_outcome_free(&out);
    return rc;
}

const struct verb verb_guard = {
    .name = "guard",
    .usage = "[--contract C] [--stall S] [--also PKG] [--report FILE] -- CMD...",
    .about = "run a command; a failure that is silent or says nothing becomes a loud one",
    .words_min = 0,
    .words_max = 0,
    .options = options,
    .run = run,
    .takes_command = true,
    .exit_field = "command_exit",
};
