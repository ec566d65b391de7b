/* verb_help.c: `assay help`: the list of verbs, one verb's options, and the pages that are made of
 * the program's own tables. */
#include "harness/help.h"
#include "harness/manual.h"
#include "harness/reference.h"

#include <unistd.h>

static const struct option_row options[] = {
    {"--man", "DIR", "write the manual pages there: assay.1 and assay-VERB.1", false},
    {"--reference", "DIR", "write the reference there: Markdown, a page for each table", false},
    {NULL, NULL, NULL, false},
};

static enum err_code show(const struct args *a, json_t *result, struct err *err)
{
    const struct verb *v = a->words ? verb_find(a->word[0]) : NULL;
    json_t *list = json_array();
    json_object_set_new(result, "verbs", list);
    if (a->words && !v)
        return err_set(err, ERR_USAGE, "help|assay|\"%.80s\"|a verb of `assay help`", a->word[0]);
    for (int i = 0; verb_at(i); i++) {
        if (!v || v == verb_at(i)) json_array_append_new(list, help_json(verb_at(i)));
    }
    if (!a->json && v) help_verb(v, stdout, help_columns(STDOUT_FILENO));
    if (!a->json && !v) help_overview(stdout, help_columns(STDOUT_FILENO));
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    const char *man = args_value(a, "--man"), *reference = args_value(a, "--reference");
    int64_t pages = 0;
    if (!man && !reference) return show(a, result, err);
    if (a->words)
        return err_set(err, ERR_USAGE, "help|--man, --reference|\"%.80s\"|no word with them",
                       a->word[0]);
    if (man && manual_write(man, &pages, err) != ERR_OK) return err->code;
    if (reference && reference_write(reference, &pages, err) != ERR_OK) return err->code;
    json_object_set_new(result, "pages", json_integer(pages));
    if (!a->json) printf("%lld pages\n", (long long)pages);
    return ERR_OK;
}

const struct verb verb_help = {
    .name = "help",
    .usage = "[VERB] | [--man DIR] [--reference DIR]",
    .about = "this list, or the options of a verb",
    .words_min = 0,
    .words_max = 1,
    .options = options,
    .run = run,
};
