/* reference.c: see reference.h. */
#include "harness/reference.h"

#include "core/fault.h"
#include "core/profile.h"
#include "core/tap.h"
#include "harness/case.h"
#include "harness/help.h"
#include "harness/judge.h"
#include "harness/lint.h"
#include "harness/page.h"

#include <string.h>

/* A cell of a table, or a paragraph: what Markdown would read as markup is escaped. */
static void words(FILE *f, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (strchr("|<*_`\\[", *p)) fputc('\\', f);
        fputc(*p == '\n' ? ' ' : *p, f);
    }
}

static void opening(FILE *f, const char *title, const char *about)
{
    fprintf(f, "# %s\n\n%s\n\n", title, about);
    fputs("Made by `assay help --reference docs/reference` of the program's own tables; a test "
          "holds it against them.\n",
          f);
}

static void option_row(FILE *f, const struct option_row *o)
{
    char left[HELP_LEFT];
    fprintf(f, "| `");
    for (const char *p = help_left(o, left); *p; p++) {
        if (*p == '|') fputc('\\', f);
        fputc(*p, f);
    }
    fputs("` | ", f);
    words(f, o->help);
    fputs(" |\n", f);
}

static void verbs_page(const void *what, FILE *f)
{
    (void)what;
    opening(f, "Verbs and options", "What `assay VERB --help` and the manual pages say.");
    for (int i = 0; verb_at(i); i++) {
        const struct verb *v = verb_at(i);
        fprintf(f, "\n## %s\n\n    assay %s ", v->name, v->name);
        help_fill(f, v->usage, 0, 10, HELP_COLUMNS);
        fputc('\n', f);
        words(f, v->about);
        fputs(".", f);
        if (v->details) fputc(' ', f), words(f, v->details);
        fputs("\n\n| option | |\n|---|---|\n", f);
        for (const struct option_row *o = v->options; o && o->name; o++) option_row(f, o);
    }
    fputs("\n## Every verb\n\n| option | |\n|---|---|\n", f);
    for (const struct option_row *o = options_common(); o->name; o++) option_row(f, o);
    fputs("\n## Environment\n\n| variable | |\n|---|---|\n", f);
    for (const struct help_variable *e = help_variables; e->name; e++) {
        fprintf(f, "| `%s` | ", e->name);
        words(f, e->about);
        fputs(" |\n", f);
    }
}

static void exits_page(const void *what, FILE *f)
{
    (void)what;
    opening(f, "Exit statuses",
            "Of every verb; `guard` ends with the command's own where that is not 0.");
    fputs("\n| exit | meaning |\n|---|---|\n", f);
    for (int i = 0; help_exit(i); i++) fprintf(f, "| %d | %s |\n", i, help_exit(i));
    fputs("\n| error | exit |\n|---|---|\n", f);
    for (int i = 1; i < ERR_COUNT; i++)
        fprintf(f, "| %s | %d |\n", err_sentence((enum err_code)i), err_exit((enum err_code)i));
}

static void taps_page(const void *what, FILE *f)
{
    (void)what;
    opening(f, "Taps",
            "The named tensors of a dump, in execution order; `N` is a layer, `S` a step of a "
            "draft head.");
    fputs("\nT rows, H hidden width, h heads, P and R a head's columns without and with rope, L "
          "the latent width, V a "
          "head's value columns (of `logits`: the vocabulary), E experts, k chosen of them; D the "
          "rows with a token "
          "behind them in their sequence, Vd the draft vocabulary.\n\n| tap | shape | type | op "
          "|\n|---|---|---|---|\n",
          f);
    for (int k = 0; k < TAP_KINDS; k++) {
        const enum tap_kind kind = (enum tap_kind)k;
        const char *dense = tap_op(kind, false), *moe = tap_op(kind, true);
        char name[TAP_NAME];
        tap_format(kind, 0, name);
        char *digit = strchr(name, '0');
        if (digit && kind != TAP_DRAFT_FUSED) *digit = tap_is_draft(kind) ? 'S' : 'N';
        fprintf(f, "| %s | %s | %s | %s%s%s |\n", name, tap_shape(kind),
                tap_is_ints(kind) ? "int32" : "real", dense,
                strcmp(dense, moe) ? ", with experts " : "", strcmp(dense, moe) ? moe : "");
    }
}

static void profiles_page(const void *what, FILE *f)
{
    (void)what;
    struct profile p[8];
    struct err err = ERR_INIT;
    int n = 0;
    while (n < 8 && profile_name(n) && profile_find(profile_name(n), &p[n], &err) == ERR_OK) n++;
    opening(f, "Profiles",
            "Where each engine rounds to its activation type. `NAME+exact` keeps the conventions "
            "of NAME and rounds nowhere.");
    fputs("\n| profile | what | held against dumps of that engine |\n|---|---|---|\n", f);
    for (int i = 0; i < n; i++)
        fprintf(f, "| %s | %s | %s |\n", p[i].name, p[i].about, p[i].verified ? "yes" : "no");
    fputs("\n| a value is rounded at |", f);
    for (int i = 0; i < n; i++) fprintf(f, " %s |", p[i].name);
    fputs("\n|---|", f);
    for (int i = 0; i < n; i++) fputs("---|", f);
    for (int r = 0; profile_point((enum round_point)r); r++) {
        fputs("\n| ", f);
        words(f, profile_point((enum round_point)r));
        fputs(" |", f);
        for (int i = 0; i < n; i++) fputs(p[i].rounds[r] ? " x |" : "  |", f);
    }
    fputc('\n', f);
}

static void bounds_page(const void *what, FILE *f)
{
    (void)what;
    opening(
        f, "Bounds",
        "Each bound in a report says which of these it is, with its figures. How they come about: "
        "[bounds](../explanation/bounds.md).");
    fputs("\nAll are judged as `if (!(x <= bound)) fail`, so that NaN fails.\n", f);
    for (int k = BOUND_USER; k < BOUND_KINDS; k++) {
        fprintf(f, "\n**%s**: ", judge_kind_name((enum bound_kind)k));
        words(f, judge_kind_about((enum bound_kind)k));
        fputs(".\n", f);
    }
}

static void fault_row(FILE *f, const struct fault_row *r)
{
    fprintf(f, "| `%s` | ", r->id);
    words(f, r->edit);
    fputs(" | ", f);
    for (int i = 0; i < FAULT_HOSTS && r->hosts[i]; i++)
        fprintf(f, "%s%s", i ? ", " : "", r->hosts[i]);
    fputs(" | ", f);
    for (int i = 0; i < FAULT_KEYS && r->keys[i].name; i++)
        fprintf(f, "%s%s", i ? ", " : "", r->keys[i].name);
    fputs(" | ", f);
    words(f, r->detector);
    fputs(" | ", f);
    words(f, r->source);
    fputs(" |\n", f);
}

static void faults_page(const void *what, FILE *f)
{
    static const char *const stages[] = {"Of an op", "Of a file", "Of a system call",
                                         "Of a process"};
    (void)what;
    opening(f, "Faults",
            "`assay fault list` says the same with the meaning of every key. `ID@KEY=V,KEY=V` "
            "narrows one to a site, "
            "or sets its parameter.");
    for (int s = FAULT_OP; s <= FAULT_PROCESS; s++) {
        fprintf(f,
                "\n## %s\n\n| fault | what it changes | hosts | keys | caught by | seen in "
                "|\n|---|---|---|---|---|---|\n",
                stages[s]);
        for (int i = 0; fault_at(i); i++) {
            if ((int)fault_at(i)->stage == s) fault_row(f, fault_at(i));
        }
    }
}

static void ops_page(const void *what, FILE *f)
{
    (void)what;
    const struct case_op *op;
    opening(
        f, "Ops and their cases",
        "`assay op NAME 'KEY=VALUE,...'` runs one; keys that are not given have their default.");
    for (int i = 0; (op = case_op_at(i)); i++) {
        const struct param_row *row;
        fprintf(f, "\n## %s\n\n| key | default | | takes |\n|---|---|---|---|\n", op->name);
        for (int k = 0; (row = case_param(op, k)); k++) {
            char wants[256];
            param_wants(row, wants, sizeof wants);
            fprintf(f, "| %s | %s | ", row->key, row->dflt);
            words(f, row->help);
            fputs(" | ", f);
            words(f, wants);
            fputs(" |\n", f);
        }
    }
}

static void lint_page(const void *what, FILE *f)
{
    static const char *const severities[] = {
        [LINT_NOTE] = "note", [LINT_WARNING] = "warning", [LINT_ERROR] = "error"};
    (void)what;
    opening(f, "Rules of `assay lint`",
            "A note does not change the verdict. `# assay: ignore[RULE reason]` on the line of a "
            "finding "
            "or the one before accepts it.");
    fputs("\n| rule | severity | why | remedy |\n|---|---|---|---|\n", f);
    for (int i = 0; i < LINT_RULES; i++) {
        const struct lint_rule *r = &lint_rules[i];
        fprintf(f, "| `%s` | %s | ", r->id, severities[r->severity]);
        words(f, r->why);
        fputs(" | ", f);
        words(f, r->remedy);
        fputs(" |\n", f);
    }
}

static const struct {
    const char *name;
    page_renderer *render;
} pages[] = {
    {"verbs.md", verbs_page},       {"exit-codes.md", exits_page}, {"taps.md", taps_page},
    {"profiles.md", profiles_page}, {"bounds.md", bounds_page},    {"faults.md", faults_page},
    {"ops.md", ops_page},           {"lint-rules.md", lint_page},
};

const char *reference_page(int i)
{
    return i >= 0 && i < (int)(sizeof pages / sizeof pages[0]) ? pages[i].name : NULL;
}

enum err_code reference_write(const char *folder, int64_t *count, struct err *err)
{
    for (int i = 0; reference_page(i); i++) {
        if (page_write(folder, pages[i].name, pages[i].render, NULL, count, err) != ERR_OK)
            return err->code;
    }
    return ERR_OK;
}
