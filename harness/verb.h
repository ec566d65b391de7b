/* verb.h: what a verb is, and how it gets its arguments and gives its result. One file per verb:
 * verb_NAME.c. */
#ifndef ASSAY_HARNESS_VERB_H
#define ASSAY_HARNESS_VERB_H

#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One option. `metavar` NULL: a flag; "=...": a value only behind '=', or none. `repeat`: may be
 * given more than once. */
struct option_row {
    const char *name; /* with its dashes: "--tokens" */
    const char *metavar;
    const char *help;
    bool repeat;
};

struct args {
    const struct verb *verb;
    bool json;            /* --json: one object on stdout, nothing else there */
    const char *word[16]; /* positional arguments */
    int words;
    const struct option_row *given[64];
    const char *value[64]; /* of given[i]; "" for a flag */
    int givens;
    char *const *command; /* what stands after "--", of a verb that takes a command; its bytes are
                             anything, it ends with NULL. NULL: there is no "--" */
    int command_words;
};

struct verb {
    const char *name;
    const char *usage;   /* after the name: "MODEL --tokens T ..." */
    const char *about;   /* one line: what it does, without a full stop */
    const char *details; /* more sentences for --help and the manual page, or NULL */
    int words_min, words_max;
    const struct option_row
        *options; /* ends with a NULL name; --help and --json are common to all */
    /* Fills `result` with the verb's JSON fields; prints its text on stdout unless a->json. Returns
     * ERR_OK (pass), ERR_DIFF (fail; err may stay without further text) or an error. */
    enum err_code (*run)(const struct args *a, json_t *result, struct err *err);
    bool takes_command;     /* "-- CMD..." at the end */
    const char *exit_field; /* NULL, or a number of the result which, where it is not 0, is the exit
                               status */
};

extern const struct verb verb_forward, verb_diff, verb_op, verb_generate, verb_synth, verb_doctor,
    verb_cover, verb_run, verb_inspect, verb_extract, verb_fault, verb_bench, verb_contract,
    verb_quote, verb_lint, verb_guard, verb_report, verb_help, verb_preflight;
/* `assay --version`: an option to look at, a verb to run. */
extern const struct verb verb_version;
/* The verbs as the program lists them; NULL past the end, or no such verb. */
const struct verb *verb_at(int i);
const struct verb *verb_find(const char *name);
/* The options that every verb has; ends with a NULL name. */
const struct option_row *options_common(void);

/* Value of an option, or NULL (a flag: "" when given). */
const char *args_value(const struct args *a, const char *name);
/* The i-th value of a repeated option, or NULL. */
const char *args_value_at(const struct args *a, const char *name, int i);
bool args_has(const struct args *a, const char *name);
/* Whole number in [min, max], or the default when absent. */
enum err_code args_int(const struct args *a, const char *name, int64_t min, int64_t max,
                       int64_t dflt, int64_t *out, struct err *err) ERR_USED;
enum err_code args_double(const struct args *a, const char *name, double min, double max,
                          double dflt, double *out, struct err *err) ERR_USED;
/* Index of the value in a NULL-terminated list, or the default when absent. */
enum err_code args_choice(const struct args *a, const char *name, const char *const *choices,
                          int dflt, int *out, struct err *err) ERR_USED;

/* Parses what follows the verb. Unknown options, missing values, too many words: ERR_USAGE. */
enum err_code args_parse(struct args *a, const struct verb *v, int argc, char **argv,
                         struct err *err) ERR_USED;

/* Runs the program: argv as main() gets it; returns the exit status. In the library, so that tests
 * can call it. */
int assay_main(int argc, char **argv);

/* In a child that becomes another program: signals that this one ignores as they were before. */
void verb_signals_restore(void);

/* Progress on stderr for anything over two seconds: a bar with rate and time left on a terminal, a
 * plain line every ten seconds otherwise. Fits run.progress; ctx unused. progress_end() wipes the
 * bar. */
void progress_show(void *ctx, const char *stage, int64_t done, int64_t total);
/* The same for runs that know more than how many are done. */
struct progress {
    const char *stage;
    int64_t done, total;
    double share;   /* of all the work, 0 to 1 */
    double elapsed; /* seconds that it took */
    const char *rate;
};
void progress_report(const struct progress *p);
void progress_end(void);

#endif
