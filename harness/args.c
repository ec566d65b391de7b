/* args.c: the command line; see verb.h. Unknown words and options are errors. */
#include "harness/verb.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct option_row common[] = {
    {"--json", NULL, "one JSON object on stdout, nothing else there", false},
    {"--help", NULL, "this text", false},
    {NULL, NULL, NULL, false},
};

const struct option_row *options_common(void)
{
    return common;
}

static const struct option_row *find_option(const struct verb *v, const char *name, size_t length)
{
    const struct option_row *const lists[] = {v->options, common};
    for (int l = 0; l < 2; l++) {
        for (const struct option_row *o = lists[l]; o && o->name; o++) {
            if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
        }
    }
    return NULL;
}

static enum err_code add_option(struct args *a, int argc, char **argv, int *i, struct err *err)
{
    const char *word = argv[*i];
    size_t length = strcspn(word, "=");
    const struct option_row *o = find_option(a->verb, word, length);
    if (!o)
        return err_set(err, ERR_USAGE, "option|%s|%.*s|an option of this verb (--help lists them)",
                       a->verb->name, (int)length, word);
    if (a->givens == (int)(sizeof a->given / sizeof a->given[0]))
        return err_set(err, ERR_USAGE, "option|%s|more than %d options|fewer", a->verb->name,
                       a->givens);
    if (!o->repeat && args_has(a, o->name))
        return err_set(err, ERR_USAGE, "option|%s|%s twice|once", a->verb->name, o->name);
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    if (!o->metavar && value)
        return err_set(err, ERR_USAGE, "option|%s|%s|%s without a value", a->verb->name, word,
                       o->name);
    if (o->metavar && !value && o->metavar[0] != '=') {
        if (*i + 1 >= argc)
            return err_set(err, ERR_USAGE, "option|%s|%s at the end|%s %s", a->verb->name, o->name,
                           o->name, o->metavar);
        if (text_starts(argv[*i + 1],
                        "--")) /* a forgotten value must not swallow the next option */
            return err_set(err, ERR_USAGE, "option|%s|%s before %s|%s %s, or %s=%s", a->verb->name,
                           o->name, argv[*i + 1], o->name, o->metavar, o->name, o->metavar);
        value = argv[++*i];
    }
    a->given[a->givens] = o;
    a->value[a->givens++] = value ? value : "";
    return ERR_OK;
}

/* Cuts a command off the end; returns how many arguments stand before its "--". */
static int take_command(struct args *a, int argc, char **argv)
{
    for (int i = 0; a->verb->takes_command && i < argc; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        a->command = argv + i + 1;
        a->command_words = argc - i - 1;
        return i;
    }
    return argc;
}

enum err_code args_parse(struct args *a, const struct verb *v, int argc, char **argv,
                         struct err *err)
{
    bool only_words = false;
    *a = (struct args){.verb = v};
    argc = take_command(a, argc, argv);
    /* Before anything can be refused: an error is an object on stdout too. */
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        a->json |= strcmp(argv[i], "--json") == 0;
    for (int i = 0; i < argc; i++) { /* results repeat words, and are JSON */
        json_t *text = json_string(argv[i]);
        if (!text)
            return err_set(err, ERR_USAGE, "arguments|%s|\"%s\"|words that are UTF-8 text", v->name,
                           argv[i]);
        json_decref(text);
    }
    for (int i = 0; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && text_starts(argv[i], "--")) {
            if (add_option(a, argc, argv, &i, err) != ERR_OK) return err->code;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            if (add_option(a, argc, argv, &i, err) != ERR_OK) return err->code;
        } else if (a->words == v->words_max) {
            return err_set(err, ERR_USAGE, "arguments|%s|\"%s\" after %d words|%s %s", v->name,
                           argv[i], a->words, v->name, v->usage);
        } else {
            a->word[a->words++] = argv[i];
        }
    }
    if (a->words < v->words_min && !args_has(a, "--help") && !args_has(a, "--list"))
        return err_set(err, ERR_USAGE, "arguments|%s|%d words|%s %s", v->name, a->words, v->name,
                       v->usage);
    return ERR_OK;
}

const char *args_value_at(const struct args *a, const char *name, int at)
{
    for (int i = 0; i < a->givens; i++) {
        if (strcmp(a->given[i]->name, name) == 0 && at-- == 0) return a->value[i];
    }
    return NULL;
}

const char *args_value(const struct args *a, const char *name)
{
    return args_value_at(a, name, 0);
}

bool args_has(const struct args *a, const char *name)
{
    return args_value(a, name) != NULL;
}

enum err_code args_int(const struct args *a, const char *name, int64_t min, int64_t max,
                       int64_t dflt, int64_t *out, struct err *err)
{
    const char *text = args_value(a, name);
    *out = dflt;
    if (!text) return ERR_OK;
    if (!text_int(text, out) || *out < min || *out > max)
        return err_set(err, ERR_USAGE, "option|%s|\"%s\"|a whole number, %lld to %lld", name, text,
                       (long long)min, (long long)max);
    return ERR_OK;
}

enum err_code args_double(const struct args *a, const char *name, double min, double max,
                          double dflt, double *out, struct err *err)
{
    const char *text = args_value(a, name);
    *out = dflt;
    if (!text) return ERR_OK;
    if (!text_double(text, out) || !(*out >= min) || !(*out <= max) || isinf(*out))
        return err_set(err, ERR_USAGE, "option|%s|\"%s\"|a number, %g to %g", name, text, min, max);
    return ERR_OK;
}

enum err_code args_choice(const struct args *a, const char *name, const char *const *choices,
                          int dflt, int *out, struct err *err)
{
    const char *text = args_value(a, name);
    char known[160] = "";
    *out = dflt;
    if (!text) return ERR_OK;
    for (int i = 0; choices[i]; i++) {
        size_t n = strlen(known);
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return ERR_OK;
        }
        snprintf(known + n, sizeof known - n, "%s%s", i ? " or " : "", choices[i]);
    }
    return err_set(err, ERR_USAGE, "option|%s|\"%s\"|%s", name, text, known);
}
