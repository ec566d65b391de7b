/* guard_text.c: see guard_text.h. */
#include "reports/guard_text.h"

#include "reports/fields.h"
#include "reports/text.h"

#include <stdint.h>
#include <string.h>

enum { FINDINGS = 6, TRACE = 8, LOCALS = 8, PROCESSES = 6, STACK = 4 };

/* What a rule means, the gravest first. */
static const char *const rules[][2] = {
    {"hang", "hung"},
    {"worker_died", "a process died"},
    {"empty_text", "caught, and reported with an empty text"},
    {"swallowed", "caught, and not reported"},
    {"finally", "lost where a finally is left by return, break or continue"},
    {"contract", "a reply breaks the contract"},
    {"exit_zero", "caught, and the process ended with 0"},
    {"empty_line", "announced, and not said"},
    {"error_line", "said in a line, without a trace, and the exit status is 0"},
    {"thread", "ended a thread"},
    {"future", "stayed in a future that nobody read"},
    {"task", "ended a task that nobody awaited"},
    {"unraisable", "was raised where nobody can catch it"},
    {"atexit", "was raised at the end of the process"},
    {"pickle", "does not arrive from its process as it was"},
    {"child_status", "a process failed"},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static void print_locals(FILE *f, const json_t *frames)
{
    const char *where, *name;
    json_t *names, *value;
    int shown = 0;
    json_object_foreach((json_t *)(uintptr_t)frames, where, names)
    {
        json_object_foreach(names, name, value)
        {
            if (shown++ < LOCALS)
                fprintf(f, "    %s = %.100s    in %s\n", name, json_string_value(value), where);
        }
    }
}

/* What each process of a hang was at, innermost first. */
static void print_processes(FILE *f, const json_t *processes)
{
    for (size_t i = 0; i < json_array_size(processes) && i < PROCESSES; i++) {
        const json_t *p = json_array_get(processes, i), *stack = json_object_get(p, "stack");
        fprintf(f, "    process %lld, %s%s%s: %.100s\n", int_at(p, "pid"), text_at(p, "state"),
                text_at(p, "waits_in")[0] ? " in " : "", text_at(p, "waits_in"),
                text_at(p, "command"));
        for (size_t k = 0; k < json_array_size(stack) && k < STACK; k++)
            fprintf(f, "      %.160s\n", json_string_value(json_array_get(stack, k)));
    }
}

static void print_trace(FILE *f, const json_t *trace)
{
    size_t n = json_array_size(trace);
    for (size_t i = n > TRACE ? n - TRACE : 0; i < n; i++)
        fprintf(f, "      %.160s\n", json_string_value(json_array_get(trace, i)));
}

static void print_one(FILE *f, const json_t *one, const char *means)
{
    const json_t *handler = json_object_get(one, "handler");
    const json_t *processes = json_object_get(one, "processes");
    const char *type = text_at(one, "type"), *message = text_at(one, "message");
    fprintf(f, "  %s%s%.200s: %s", type[0] ? type : "", type[0] && message[0] ? ": " : "", message,
            means);
    if (int_at(one, "count") > 1) fprintf(f, ", %lld times", int_at(one, "count"));
    fprintf(f, "\n");
    if (text_at(one, "harmless")[0]) fprintf(f, "    harmless: %s\n", text_at(one, "harmless"));
    if (int_at(one, "line") > 0)
        fprintf(f, "    %s %s:%lld %s%s\n", type[0] ? "raised at" : "at", text_at(one, "file"),
                int_at(one, "line"), text_at(one, "function")[0] ? "in " : "",
                text_at(one, "function"));
    if (json_is_object(handler))
        fprintf(f, "    handled at %s:%lld\n", text_at(handler, "file"), int_at(handler, "line"));
    if (text_at(one, "said")[0])
        fprintf(f, "    the output says only: %.200s\n", text_at(one, "said"));
    if (processes)
        print_processes(f, processes);
    else
        print_trace(f, json_object_get(one, "trace"));
    print_locals(f, json_object_get(one, "locals"));
}

static int print_rule(FILE *f, const json_t *findings, int rule, int shown)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *one = json_array_get(findings, i);
        if (strcmp(text_at(one, "rule"), rules[rule][0]) != 0) continue;
        if (shown < FINDINGS) print_one(f, one, rules[rule][1]);
        shown++;
    }
    return shown;
}

static void print_rest(const json_t *result, FILE *f, struct text_view view)
{
    const json_t *findings = json_object_get(result, "findings");
    long long lost = int_at(result, "lost"), harmless = int_at(result, "harmless");
    int shown = 0;
    (void)view;
    fprintf(f, ": %s: %lld lost", lost ? "FAIL" : "pass", lost);
    if (harmless) fprintf(f, ", %lld harmless", harmless);
    fprintf(f, "; the command's exit status is %lld\n", int_at(result, "command_exit"));
    for (int i = 0; i < RULES; i++) shown = print_rule(f, findings, i, shown);
    if (shown > FINDINGS)
        fprintf(f, "  and %d more; --json or --report FILE has all of them\n", shown - FINDINGS);
}

/* Texts of errors and values of variables come from anywhere: text_show() escapes them. */
void guard_text_print(FILE *f, const json_t *result)
{
    if (json_array_size(json_object_get(result, "findings")) == 0) return;
    text_show(result, f, (struct text_view){0}, "assay guard", print_rest);
}
