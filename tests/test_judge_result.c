/* test_judge_result.c: what comes back: overrides whose base says that a value does, and replies
 * that are a list only without an argument. */
#include "tests/judging.h"
#include "tests/cli.h"

#define RAISE(l) "{\"s\":\"raise\",\"line\":" l ",\"value\":" NAME(l, "NotImplementedError") "}"
#define RETURN(l, v) "{\"s\":\"return\",\"line\":" l ",\"value\":" v "}"
#define PASS(l) "{\"s\":\"pass\",\"line\":" l "}"
#define BREAK(l) "{\"s\":\"break\",\"line\":" l "}"
#define WHILE(l, test, body)                                                                       \
    "{\"s\":\"while\",\"line\":" l ",\"test\":" test ",\"body\":[" body "],\"else\":[]}"
#define WITH(l, item, body)                                                                        \
    "{\"s\":\"with\",\"line\":" l ",\"items\":[[" item ",null]],\"body\":[" body                   \
    "],\"async\":false}"
#define ASSERT(l, test) "{\"s\":\"assert\",\"line\":" l ",\"test\":" test "}"
#define SAY DO("3", CALL("3", NAME("3", "print"), "", ""))
#define CLOSED NAME("4", "closed")

/* class Scale: def weigh(self) -> float */
#define SCALE KLASS("Scale", "10", FUNCTION("weigh", "12", "instance", TAKES("self"), "\"float\""))

struct body {
    const char *text;
    int broken;
};

static const struct body bodies[] = {
    {SAY, 1},
    {SAY "," RETURN("4", NUM("4", "1")), 0},
    {SAY "," RETURN("4", "null"), 1},
    {SAY "," RETURN("4", NUM("4", "null")), 1},
    {SAY "," RAISE("4"), 0},
    {IF("4", CLOSED, RAISE("5"), "") "," RAISE("6"), 0},
    {IF("4", CLOSED, RAISE("5"), RAISE("6")), 0},
    {IF("4", CLOSED, RAISE("5"), SAY), 1},
    {IF("4", CLOSED, RETURN("5", "null"), "") "," RAISE("6"), 1},
    {WHILE("4", TRUTH("4", "true"), SAY), 0},
    {WHILE("4", TRUTH("4", "true"), IF("5", CLOSED, BREAK("6"), "")), 1},
    {WHILE("4", CLOSED, SAY), 1},
    {TRY("4", RAISE("5"), NAME("6", "KeyError"), RAISE("7")), 0},
    {TRY("4", RAISE("5"), NAME("6", "KeyError"), PASS("7")), 1},
    {WITH("4", CLOSED, RAISE("5")), 0},
    {SAY "," ASSERT("4", TRUTH("4", "false")), 0},
    {SAY "," ASSERT("4", TRUTH("4", "true")), 1},
    {DEF("4", "later", "", RAISE("5")) "," SAY, 1},
};

static void override__that_never_returns_is_not_one_that_returns_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct judging j;
        struct judging_asks asks = {.names = SCALE,
                                    .body = textf(FROM("1", "lib", "Scale") "," CLASS(
                                                      "2", "Dumb", NAME("2", "Scale"),
                                                      DEF("3", "weigh", PARAM("self"), "%s")),
                                                  bodies[i].text)};
        print_message("body %zu\n", i);
        judging_wants(&j, &asks, bodies[i].broken);
        if (bodies[i].broken)
            assert_string_equal(judging_at(&j, 3, "Scale.weigh")->why,
                                "returns nothing where the base says float");
        judging_end(&j);
    }
}

/* def ask(part, only=None): a list of replies, or the single one where only is given. */
#define ASK(returns)                                                                               \
    "\"ask\":[{\"kind\":\"function\",\"line\":4,\"params\":[" TAKES("part") "," DEFAULTS(          \
        "only", "None") "],\"returns\":" returns                                                   \
                        ",\"decorators\":[],\"async\":false,\"binding\":\"function\","             \
                        "\"shapes\":[{\"shape\":\"first-of-list\",\"when\":\"only is not None\","  \
                        "\"line\":5},{\"shape\":\"list\",\"when\":\"only is None\",\"line\":5}]}]"
#define ONE CALL("2", NAME("2", "ask"), STR("2", "x"), KW("only", NUM("2", "0")))
#define ALL CALL("2", NAME("2", "ask"), STR("2", "x"), "")
#define SUB(l, v, i) "{\"e\":\"sub\",\"line\":" l ",\"value\":" v ",\"index\":" i "}"

struct reply {
    const char *value, *index;
    bool baseline;
    enum judge_verdict verdict;
};

/* Only a place in what was a list is proof: by a variable it may be a key, and the reply a dict. */
static const struct reply replies[] = {
    {ONE, NUM("3", "0"), true, JUDGE_BROKEN},
    {ONE, NUM("3", "0"), false, JUDGE_UNDECIDABLE},
    {ONE, NAME("3", "key"), true, JUDGE_UNDECIDABLE},
    {ONE, STR("3", "key"), true, JUDGE_OK},
    {ALL, NUM("3", "0"), true, JUDGE_OK},
};

static enum judge_verdict worst_at(const struct judging *j, int line)
{
    enum judge_verdict worst = JUDGE_OK;
    for (int i = 0; i < j->report.findings; i++) {
        const struct judge_finding *f = &j->report.finding[i];
        if (f->line == line && f->kind == JUDGE_RESULT && f->verdict != JUDGE_OK)
            worst = f->verdict;
    }
    return worst;
}

static void reply__that_was_a_list_is_broken_where_a_place_in_it_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        const struct reply *r = &replies[i];
        struct judging j;
        struct judging_asks asks = {
            .names = ASK("null"),
            .baseline = r->baseline ? ASK("\"list[typing.Any]\"") : NULL,
            .body = textf(FROM("1", "lib", "ask") ",%s",
                          textf(SET("2", NAME("2", "reply"),
                                    "%s") "," DO("3", SUB("3", NAME("3", "reply"), "%s")),
                                r->value, r->index))};
        judging_wants(&j, &asks, r->verdict == JUDGE_BROKEN);
        assert_int_equal(worst_at(&j, 3), r->verdict);
        judging_end(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(override__that_never_returns_is_not_one_that_returns_nothing),
        cmocka_unit_test(reply__that_was_a_list_is_broken_where_a_place_in_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
