/* verb_quote.c: `assay quote`: the line that makes a command arrive intact through shells, ssh and
 * the like; or, for a line that somebody has, what would arrive at each hop. Nothing is run.
 * Test: tests/test_verb_quote.c; that it is true: tests/test_quote_arrives.c */
#include "compat/hops.h"
#include "core/json.h"
#include "harness/quote_file.h"
#include "harness/verb.h"

#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {"--through", "HOP,...",
     "first the shell that the line is typed into; then sh, dash, bash, zsh, ssh:HOST, "
     "docker:NAME, "
     "sudo, env",
     false},
    {"--check", "LINE", "say what would arrive of this line, and the first hop that breaks it",
     false},
    {"--as-file", NULL, "write a file, copy it, check that it arrived whole, run it", false},
    {NULL, NULL, NULL, false},
};

static json_t *words_json(const char *const *word, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_any_text(word[i]));
    return list;
}

/* ---- what would arrive ---- */

static json_t *events_json(const struct hop_arrival *a)
{
    json_t *list = json_array();
    for (int i = 0; i < a->line.events; i++) {
        const struct shell_event *e = &a->line.event[i];
        static const char *const verdicts[] = {"done here", "unknown", "breaks"};
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "what",
                                              shell_effect_text(e->effect), "verdict",
                                              verdicts[shell_effect_verdict(e->effect)], "at",
                                              e->at, "length", e->length));
    }
    return list;
}

static void record_journey(const struct hops *h, const struct hops_journey *j, json_t *result)
{
    json_t *hops = json_array();
    for (int i = 0; i < j->count; i++) {
        const struct hop_arrival *a = &j->at[i];
        json_array_append_new(hops, json_pack("{s:s, s:o, s:o, s:o}", "hop", a->hop->text, "text",
                                              json_any_text(a->text), "argv",
                                              words_json(a->line.word, a->line.words), "events",
                                              events_json(a)));
    }
    json_object_set_new(result, "hops", hops);
    json_object_set_new(result, "argv", words_json(j->word, j->words));
    json_object_set_new(result, "undecidable", json_boolean(j->unknown >= 0));
    json_object_set_new(result, "breaks",
                        j->breaks < 0 ? json_null()
                                      : json_pack("{s:i, s:s, s:s, s:o}", "index", j->breaks, "hop",
                                                  h->hop[j->breaks].text, "why", j->why, "found",
                                                  json_any_text(j->found)));
}

static void print_words(const char *const *word, int n)
{
    for (int i = 0; i < n; i++) printf("    [%d] %s\n", i, word[i]);
}

static void print_journey(const struct hops *h, const struct hops_journey *j)
{
    for (int i = 0; i < j->count; i++) {
        const struct hop_arrival *a = &j->at[i];
        printf("hop %d, %s%s:\n", i + 1, a->hop->text, i ? "" : ", where the line is typed");
        print_words(a->line.word, a->line.words);
        for (int e = 0; e < a->line.events; e++) {
            const struct shell_event *ev = &a->line.event[e];
            printf("    %s: %.*s\n", shell_effect_text(ev->effect), ev->length, a->text + ev->at);
        }
    }
    if (j->breaks >= 0)
        printf("BREAKS at hop %d, %s: %s%s%s\n", j->breaks + 1, h->hop[j->breaks].text, j->why,
               j->found[0] ? ": " : "", j->found);
    else if (j->unknown >= 0)
        printf("UNDECIDABLE at hop %d, %s: %s: %s\n", j->unknown + 1, h->hop[j->unknown].text,
               j->why, j->found);
    else
        printf("arrives: %d words\n", j->words);
}

static enum err_code check(const struct args *a, const struct hops *h, struct pool *pool,
                           json_t *result, struct err *err)
{
    struct hops_journey j;
    if (hops_follow(h, args_value(a, "--check"), pool, &j, err) != ERR_OK) return err->code;
    record_journey(h, &j, result);
    if (!a->json) print_journey(h, &j);
    return j.breaks >= 0 || j.unknown >= 0 ? ERR_DIFF : ERR_OK;
}

/* ---- a line, or a file ---- */

static enum err_code build(const struct args *a, const struct hops *h, struct pool *pool,
                           json_t *result, struct err *err)
{
    const char *line = NULL;
    if (args_has(a, "--as-file"))
        return quote_file(h, (const char *const *)a->command, a->command_words, pool, !a->json,
                          result, err);
    if (hops_line(h, (const char *const *)a->command, a->command_words, false, pool, &line, err) !=
        ERR_OK)
        return err->code;
    json_object_set_new(result, "line", json_any_text(line));
    json_object_set_new(result, "bytes", json_integer((json_int_t)strlen(line)));
    if (!a->json) puts(line);
    if (h->host_missing && !a->json)
        fputs("assay: note: HOST stands for the host: ssh:NAME in --through names it\n", stderr);
    return ERR_OK;
}

static enum err_code usable(const struct args *a, struct err *err)
{
    bool check_line = args_has(a, "--check");
    if (!args_has(a, "--through"))
        return err_set(err, ERR_USAGE, "quote|--through|none|the hops, as zsh,ssh:HOST,bash");
    if (check_line && (a->command || args_has(a, "--as-file")))
        return err_set(err, ERR_USAGE, "quote|--check|a command too|a line or a command, not both");
    if (!check_line && a->command_words == 0)
        return err_set(err, ERR_USAGE, "quote|command|none|-- ARGV..., or --check LINE");
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct hops h;
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    if (usable(a, err) != ERR_OK || hops_parse(args_value(a, "--through"), &h, err) != ERR_OK)
        return err->code;
    enum err_code rc = args_has(a, "--check") ? check(a, &h, &pool, result, err)
                                              : build(a, &h, &pool, result, err);
    arena_release(&arena, NULL);
    return rc;
}

const struct verb verb_quote = {
    .name = "quote",
    .usage = "--through HOP,... [--as-file] -- ARGV...  |  --through HOP,... --check 'LINE'",
    .about = "the line that arrives intact through shells and ssh, or what would arrive of one",
    .words_min = 0,
    .words_max = 0,
    .options = options,
    .run = run,
    .takes_command = true,
};
