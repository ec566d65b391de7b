/* judging.c: see judging.h. */
#include "tests/judging.h"

#include "core/json.h"
#include "core/text.h"
#include "tests/cli.h"

#include <string.h>

static void read_library(struct judging *j, const char *names, const char *version, struct api *out)
{
    const char *text =
        textf("{\"facts\":1,\"kind\":\"surface\",\"extractor\":\"1\",\"library\":{\"name\":\"lib\","
              "\"version\":\"%s\",\"source\":\"lib\",\"sha256\":\"%064d\"},\"problems\":[],"
              "\"modules\":{\"lib\":{\"file\":\"lib.py\",\"package\":false,\"all\":null,"
              "\"stars\":[],\"getattr\":null,\"names\":{%s}}}}",
              version, 0, names);
    if (api_from_facts(out, text, (int64_t)strlen(text), "lib", &j->arena, &j->err) != ERR_OK)
        assert_ok(&j->err);
}

static void read_consumer(struct judging *j, const char *body)
{
    struct pool pool = {.arena = &j->arena};
    json_t *json;
    const char *text =
        textf("{\"facts\":1,\"kind\":\"uses\",\"extractor\":\"1\",\"consumer\":{\"name\":\"app\","
              "\"version\":null,\"source\":\"app\",\"sha256\":\"\"},\"problems\":[],\"modules\":"
              "{\"app\":{\"file\":\"app.py\",\"body\":[%s]}}}",
              body);
    if (json_parse(text, (int64_t)strlen(text), "app", &json, &j->err) != ERR_OK)
        assert_ok(&j->err);
    if (uses_read(json, "app", &pool, &j->uses, &j->err) != ERR_OK) assert_ok(&j->err);
    json_decref(json);
}

enum err_code judging_run(struct judging *j, const struct judging_asks *asks)
{
    *j = (struct judging){.err = ERR_INIT};
    struct judge_hint hint = {asks->hint};
    struct judge_api_input in = {.api = &j->library,
                                 .uses = &j->uses,
                                 .hint = &hint,
                                 .hints = asks->hint != NULL,
                                 .accept = asks->accept,
                                 .accepts = asks->accept != NULL,
                                 .today = "2026-06-15"};
    read_library(j, asks->names, "2.0", &j->library);
    if (asks->baseline) {
        read_library(j, asks->baseline, "1.0", &j->baseline);
        in.baseline = &j->baseline;
    }
    read_consumer(j, asks->body);
    return judge_api(&in, &j->arena, &j->report, &j->err);
}

void judging_end(struct judging *j)
{
    arena_release(&j->arena, NULL);
}

const struct judge_finding *judging_at(const struct judging *j, int line, const char *symbol)
{
    for (int i = 0; i < j->report.findings; i++) {
        const struct judge_finding *f = &j->report.finding[i];
        if (f->line == line && text_ends(f->symbol, symbol)) return f;
    }
    fail_msg("no finding of %s at line %d", symbol, line);
    return NULL;
}

void judging_wants(struct judging *j, const struct judging_asks *asks, int broken)
{
    if (judging_run(j, asks) != ERR_OK) assert_ok(&j->err);
    if (j->report.counts.broken == broken) return;
    for (int i = 0; i < j->report.findings; i++) {
        const struct judge_finding *f = &j->report.finding[i];
        print_error("%s:%d %s %s: %s\n", f->file, f->line, judge_verdict_text(f->verdict),
                    f->symbol, f->why);
    }
    fail_msg("%d broken, wanted %d", j->report.counts.broken, broken);
}
