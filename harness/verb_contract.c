/* verb_contract.c: `assay contract`: its words, and which options each takes; the work is in
 * contract_WORD.c. */
#include "harness/contract.h"
#include "harness/report.h"

#include <string.h>

static const struct option_row options[] = {
    {"--out", "C.yaml", "record: the contract to write (needed)", false},
    {"--for", "CONSUMER", "record, diff: only what this consumer reaches", false},
    {"--also", "SYMBOL", "record: this symbol too (may be repeated)", true},
    {"--against", "C.yaml|LIB", "check: the library, as a contract or itself (needed)", false},
    {"--receiver", "[SCOPE:]NAME=TYPE",
     "record, check, diff: the type of a name that the source does not show (may be repeated)",
     true},
    {"--baseline", "C0.yaml|LIB", "check: what the consumer is known to work with", false},
    {"--accept", "FILE", "check: findings accepted, with reason and expiry", false},
    {"--all", NULL, "check, diff: show all lines of text", false},
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

static const struct word {
    const char *name;
    const char *options; /* those it takes, parted by blanks */
    int words_min;       /* itself among them */
    enum err_code (*run)(const struct args *a, json_t *result, struct err *err);
} words[] = {
    {"record", "--out --for --also --receiver", 2, contract_record},
    {"check", "--against --receiver --baseline --accept --all --report", 2, contract_check},
    {"diff", "--for --receiver --all", 3, contract_diff},
    {"show", "", 2, contract_show},
};

/* `name` is one of the options of the word, or of every verb. */
static bool takes(const struct word *w, const char *name)
{
    size_t n = strlen(name);
    const struct option_row *o = options;
    while (o->name && strcmp(o->name, name) != 0) o++;
    if (!o->name) return true;
    for (const char *at = strstr(w->options, name); at; at = strstr(at + 1, name)) {
        if (at[n] == ' ' || at[n] == '\0') return true;
    }
    return false;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    const struct word *w = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].name, a->word[0]) == 0) w = &words[i];
    }
    if (!w)
        return err_set(err, ERR_USAGE, "arguments|contract|\"%s\"|record, check, diff or show",
                       a->word[0]);
    for (int i = 0; i < a->givens; i++) {
        if (!takes(w, a->given[i]->name))
            return err_set(err, ERR_USAGE, "option|%s|given to contract %s|an option of it",
                           a->given[i]->name, w->name);
    }
    if (a->words < w->words_min ||
        (w->run != contract_diff && w->run != contract_show && a->words > 2))
        return err_set(err, ERR_USAGE, "arguments|contract %s|%d words|%d", w->name, a->words - 1,
                       w->words_min - 1);
    json_object_set_new(result, "word", json_string(w->name));
    return w->run(a, result, err);
}

const struct verb verb_contract = {
    .name = "contract",
    .usage = "record LIB --out C.yaml [--for CONSUMER] | check CONSUMER --against C.yaml|LIB\n"
             "               | diff A B [--for CONSUMER] | show C.yaml|LIB [SYMBOL]",
    .about = "record what a Python library offers, check who uses it, import neither",
    .words_min = 1,
    .words_max = 3,
    .options = options,
    .run = run,
};
