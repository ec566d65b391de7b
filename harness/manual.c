/* manual.c: see manual.h. */
#include "harness/manual.h"

#include "harness/build_facts.h"
#include "harness/help.h"
#include "harness/page.h"

#include <ctype.h>
#include <string.h>

/* Sentences begin lines of their own, as roff wants it: it sets the space behind them. */
static bool ends_sentence(const char *text, const char *p)
{
    const bool dots = p > text && p[-1] == '.'; /* "HOP,... [--as-file]" */
    return (*p == '.' || *p == '?') && !dots && p[1] == ' ' && p[2] && p[2] != ' ';
}

void manual_text(FILE *f, const char *text)
{
    bool start = true;
    for (const char *p = text; *p; p++) {
        if (start && (*p == '.' || *p == '\'')) fputs("\\&", f);
        start = false;
        if (*p == '\\') {
            fputs("\\e", f);
        } else if (*p == '-') {
            fputs("\\-", f);
        } else if (*p == '`') {
            fputs("\\(ga", f);
        } else if (*p == '\'') {
            fputs("\\(aq", f);
        } else if (*p == '^') {
            fputs("\\(ha", f);
        } else if (*p == '~') {
            fputs("\\(ti", f);
        } else if (isspace((unsigned char)*p)) {
            while (isspace((unsigned char)p[1])) p++;
            fputc(' ', f);
        } else {
            fputc(*p, f);
        }
        if (ends_sentence(text, p)) {
            fputc('\n', f);
            p++;
            start = true;
        }
    }
    fputc('\n', f);
}

static void heading(FILE *f, const char *title)
{
    fprintf(f, ".TH %s 1 \"%s\" \"assay %s\" \"assay\"\n", title, build_commit_date, ASSAY_VERSION);
}

static void option(FILE *f, const struct option_row *o)
{
    char left[HELP_LEFT];
    fputs(".TP\n\\fB", f);
    help_left(o, left);
    const size_t n = strlen(o->name);
    char name[HELP_LEFT];
    snprintf(name, sizeof name, "%.*s", (int)n, left);
    for (const char *p = name; *p; p++) fprintf(f, *p == '-' ? "\\-" : "%c", *p);
    fputs("\\fR", f);
    if (left[n]) {
        manual_text(f, left + n);
    } else {
        fputc('\n', f);
    }
    manual_text(f, o->help);
}

static void see_also(FILE *f, const struct verb *but)
{
    fputs(".SH SEE ALSO\n", f);
    if (but) fputs(".BR assay (1),\n", f);
    for (int i = 0; verb_at(i); i++) {
        if (verb_at(i) == but) continue;
        const bool last = !verb_at(i + 1) || (verb_at(i + 1) == but && !verb_at(i + 2));
        fprintf(f, ".BR assay\\-%s (1)%s\n", verb_at(i)->name, last ? "" : ",");
    }
}

static void exit_statuses(FILE *f)
{
    fputs(".SH EXIT STATUS\n", f);
    for (int i = 0; help_exit(i); i++) {
        fprintf(f, ".TP\n.B %d\n", i);
        manual_text(f, help_exit(i));
    }
}

static void verb_page(const void *what, FILE *f)
{
    const struct verb *v = what;
    char title[64];
    int n = snprintf(title, sizeof title, "ASSAY-%s", v->name);
    for (int i = 0; i < n; i++) title[i] = (char)toupper((unsigned char)title[i]);
    heading(f, title);
    fprintf(f, ".SH NAME\nassay\\-%s \\- ", v->name);
    manual_text(f, v->about);
    fprintf(f, ".SH SYNOPSIS\n.B assay %s\n", v->name);
    manual_text(f, v->usage);
    fputs(".SH DESCRIPTION\n", f);
    fprintf(f, ".B assay %s:\n", v->name);
    manual_text(f, v->about);
    if (v->details) {
        fputs(".PP\n", f);
        manual_text(f, v->details);
    }
    fputs(".SH OPTIONS\n", f);
    for (const struct option_row *o = v->options; o && o->name; o++) option(f, o);
    for (const struct option_row *o = options_common(); o->name; o++) option(f, o);
    if (v->exit_field) {
        fputs(".SH EXIT STATUS\nThat of the command that was run; where it is 0, as in\n"
              ".BR assay (1).\n",
              f);
    } else {
        exit_statuses(f);
    }
    see_also(f, v);
}

static void overview_page(const void *what, FILE *f)
{
    (void)what;
    heading(f, "ASSAY");
    fputs(".SH NAME\nassay \\- does a fast inference path compute what the model says?\n"
          ".SH SYNOPSIS\n.B assay\n.I VERB\n[arguments] [options]\n.br\n.B assay \\-\\-version\n"
          ".SH DESCRIPTION\n",
          f);
    manual_text(f, "assay holds an inference path of a large mixture-of-experts model against a "
                   "slow CPU reference, finds the op that is guilty, and names the bug where it "
                   "knows it. Each verb has a manual page of its own.");
    fputs(".SH VERBS\n", f);
    for (int i = 0; verb_at(i); i++) {
        fprintf(f, ".TP\n.B %s\n", verb_at(i)->name);
        manual_text(f, verb_at(i)->about);
    }
    fputs(".SH OPTIONS\nThese every verb has.\n", f);
    for (const struct option_row *o = options_common(); o->name; o++) option(f, o);
    exit_statuses(f);
    fputs(".SH ENVIRONMENT\n", f);
    for (const struct help_variable *e = help_variables; e->name; e++) {
        fprintf(f, ".TP\n.B %s\n", e->name);
        manual_text(f, e->about);
    }
    see_also(f, NULL);
}

enum err_code manual_write(const char *folder, int64_t *pages, struct err *err)
{
    char name[64];
    if (page_write(folder, "assay.1", overview_page, NULL, pages, err) != ERR_OK) return err->code;
    for (int i = 0; verb_at(i); i++) {
        snprintf(name, sizeof name, "assay-%s.1", verb_at(i)->name);
        if (page_write(folder, name, verb_page, verb_at(i), pages, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}
