/* fuzz_plan.c: any text is a plan whose references point backwards, or an error with a text and a
 * place. */
#include "core/check.h"
#include "harness/plan.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct plan *p, const struct plan_text *t, int step)
{
    CHECK(t->step >= -1 && t->step < step);
    if (t->step >= 0) CHECK(t->text && p->step[t->step].kind == PLAN_FORWARD);
}

static void check_step(const struct plan *p, int i)
{
    const struct plan_step *s = &p->step[i];
    CHECK(s->name && s->name[0] && s->at.line > 0 && s->at.column > 0);
    CHECK(s->kind >= 0 && s->kind < PLAN_KINDS);
    CHECK(s->kind != PLAN_FORWARD || s->model.text);
    CHECK(s->kind != PLAN_DIFF || (s->word[0].text && (s->word[1].text || s->model.text)));
    CHECK(!s->expect.given || s->expect.verdict);
    CHECK(s->options >= 0 && s->options <= PLAN_OPTIONS);
    for (int w = 0; w < 2; w++) check_text(p, &s->word[w], i);
    for (int k = 0; k < s->options; k++) {
        CHECK(s->option[k].row && s->option[k].value.text);
        CHECK(s->option[k].row->metavar || !s->option[k].value.text[0]);
        check_text(p, &s->option[k].value, i);
    }
    for (int k = 0; k < i; k++) CHECK(strcmp(p->step[k].name, s->name) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct plan p;
    enum err_code rc = plan_parse((const char *)data, (int64_t)size, "fuzz", &a, &p, &err);
    CHECK(rc == err.code);
    if (rc == ERR_OK) {
        CHECK((p.steps > 0 || p.preflight.line > 0) && p.steps <= PLAN_STEPS &&
              p.compared_at_least > 0);
        for (int i = 0; i < p.steps; i++) check_step(&p, i);
    } else {
        CHECK(rc != ERR_INPUT || (err.what[0] && strncmp(err.where, "fuzz", 4) == 0));
    }
    arena_release(&a, NULL);
    return 0;
}
