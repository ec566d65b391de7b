/* help.c: see help.h. */
#include "harness/help.h"

#include "harness/terminal.h"

#include <string.h>

enum { OPTION_INDENT = 29, VERB_INDENT = 18 };

static const char *const statuses[] = {
    "everything that was asked was checked, and holds",
    "a difference or a violation was found",
    "usage, or an input that cannot be used (file, flag, plan)",
    "environment: device, driver, memory, network, disk, a launcher",
    "a fault's outcome was not the expected one: the harness itself is broken",
};

const struct help_variable help_variables[] = {
    {"NO_COLOR", "set to anything: no colours, also on a terminal"},
    {"TMPDIR", "where temporary files go (default /tmp)"},
    {"SOURCE_DATE_EPOCH", "the date of recorded contracts, in seconds since 1970"},
    {"ASSAY_PYTHON", "the Python that reads Python sources (default python3)"},
    {"ASSAY_KERNEL", "portable, avx2 or avx512: the reference's inner loops; changes no bit"},
    {"ASSAY_COVER", "a folder where runs note which ops they checked, for `assay cover`"},
    {"ASSAY_GPU_SYNC", "1: wait after every launch, name the kernel that failed, fill scratch with "
                       "NaN"},
    {"ASSAY_GPU_FAIL_AT", "N: the N-th launch or call fails"},
    {"ASSAY_GPU_GRAPH", "0: decode steps are launched one by one"},
    {"ASSAY_GPU_TRANSPORT", "nccl or host: what sums over ranks go by"},
    {"ASSAY_GPU_AGREE", "1: compare what all ranks must hold alike"},
    {"ASSAY_RANK, ASSAY_WORLD", "which rank this process is, where no launcher says so"},
    {"ASSAY_RENDEZVOUS", "HOST:PORT, where the ranks that a launcher has started meet rank 0"},
    {"ASSAY_RUN",
     "a word that tells this run's ranks from another's (default: the launcher's job)"},
    {"ASSAY_TRANSPORT", "shm or tcp: what those ranks exchange by (default: shm on one host)"},
    {NULL, NULL},
};

const char *help_exit(int status)
{
    const int n = (int)(sizeof statuses / sizeof statuses[0]);
    return status >= 0 && status < n ? statuses[status] : NULL;
}

int help_columns(int fd)
{
    const int columns = terminal_columns(fd);
    return columns == 0 || columns > HELP_COLUMNS ? HELP_COLUMNS : columns;
}

void help_fill(FILE *f, const char *text, int at, int indent, int columns)
{
    bool first = true;
    for (const char *p = text + strspn(text, " \n"); *p; p += strspn(p, " \n")) {
        const int n = (int)strcspn(p, " \n");
        if (!first && at + 1 + n > columns) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            at += fputc(' ', f) == ' ';
        }
        fwrite(p, 1, (size_t)n, f);
        at += n;
        p += n;
        first = false;
    }
    fputc('\n', f);
}

void help_overview(FILE *f, int columns)
{
    help_fill(f, "assay " ASSAY_VERSION ": does a fast inference path compute what the model says?",
              0, 0, columns);
    fputc('\n', f);
    for (int i = 0; verb_at(i); i++) {
        fprintf(f, "  assay %-9s ", verb_at(i)->name);
        help_fill(f, verb_at(i)->about, VERB_INDENT, VERB_INDENT, columns);
    }
    fputc('\n', f);
    help_fill(f,
              "`assay VERB --help` lists a verb's options, `assay --version` says how this program "
              "was built. Exit status: 0 holds, 1 a difference, 2 unusable input, 3 environment, 4 "
              "a fault's outcome was not the expected one.",
              0, 0, columns);
}

const char *help_left(const struct option_row *o, char buf[HELP_LEFT])
{
    const bool apart = o->metavar && o->metavar[0] != '=';
    snprintf(buf, HELP_LEFT, "%s%s%s", o->name, apart ? " " : "", o->metavar ? o->metavar : "");
    return buf;
}

static void option(const struct option_row *o, FILE *f, int columns)
{
    /* On a narrow terminal the text stands below the option, where there is room for it. */
    const int indent = columns < 2 * OPTION_INDENT ? 8 : OPTION_INDENT;
    char left[HELP_LEFT];
    const int n = fprintf(f, "  %s", help_left(o, left));
    if (n >= indent)
        fprintf(f, "\n%*s", indent, "");
    else
        fprintf(f, "%*s", indent - n, "");
    help_fill(f, o->help, indent, indent, columns);
}

void help_verb(const struct verb *v, FILE *f, int columns)
{
    const int n = fprintf(f, "assay %s ", v->name);
    help_fill(f, v->usage, n, n, columns);
    fputc('\n', f);
    help_fill(f, v->about, 0, 0, columns);
    if (v->details) help_fill(f, v->details, 0, 0, columns);
    fputc('\n', f);
    for (const struct option_row *o = v->options; o && o->name; o++) option(o, f, columns);
    for (const struct option_row *o = options_common(); o->name; o++) option(o, f, columns);
}

static void add_options(json_t *list, const struct option_row *rows)
{
    for (const struct option_row *o = rows; o && o->name; o++) {
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s, s:b}", "name", o->name, "metavar",
                                              o->metavar, "help", o->help, "repeat", o->repeat));
    }
}

json_t *help_json(const struct verb *v)
{
    json_t *options = json_array();
    add_options(options, v->options);
    add_options(options, options_common());
    return json_pack("{s:s, s:s, s:s, s:s?, s:o}", "name", v->name, "usage", v->usage, "about",
                     v->about, "details", v->details, "options", options);
}
