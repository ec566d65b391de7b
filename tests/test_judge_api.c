/* test_judge_api.c: what a consumer of a few statements is told about a library of a few names.
 * Every construct in the large: tests/test_contract_pairs.c. */
#include "tests/judging.h"

#include <string.h>

/* def cut(part, depth=1); class Saw: def run(self, speed), def stop(self) */
#define SAW                                                                                        \
    FUNCTION("cut", "4", "function", TAKES("part") "," DEFAULTS("depth", "1"), "null")             \
    "," KLASS("Saw", "10",                                                                         \
              FUNCTION("run", "12", "instance", TAKES("self") "," TAKES("speed"),                  \
                       "null") "," FUNCTION("stop", "14", "instance", TAKES("self"), "null"))

static void call__is_bound_against_what_is_written(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = FROM("1", "lib", "cut") "," DO(
            "2", CALL("2", NAME("2", "cut"), NUM("2", "1"),
                      "")) "," DO("3", CALL("3", NAME("3", "cut"), NUM("3", "1"),
                                            KW("angle",
                                               NUM("3", "1")))) "," DO("4",
                                                                       CALL("4", NAME("4", "cut"),
                                                                            "", ""))};
    judging_wants(&j, &asks, 2);
    assert_int_equal(judging_at(&j, 1, "lib.cut")->verdict, JUDGE_OK);
    assert_int_equal(judging_at(&j, 2, "lib.cut")->verdict, JUDGE_OK);
    const struct judge_finding *f = judging_at(&j, 3, "lib.cut");
    assert_string_equal(f->why, "unexpected keyword argument angle");
    assert_string_equal(f->found, "(1 positional, angle=)");
    assert_string_equal(f->wanted, "(part, depth=1)");
    assert_string_equal(f->provider, "lib.py");
    assert_int_equal(f->provider_line, 4);
    assert_string_equal(judging_at(&j, 4, "lib.cut")->why, "missing required argument part");
    judging_end(&j);
}

static void name__that_is_gone_is_one_finding(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = FROM("1", "lib", "plane") "," DO("3", CALL("3", NAME("3", "plane"), "", "")) "," DO(
            "5", ATTR("5", NAME("5", "plane"), "blade"))};
    judging_wants(&j, &asks, 1);
    const struct judge_finding *f = judging_at(&j, 1, "lib.plane");
    assert_int_equal(f->alsos, 2);
    assert_int_equal(f->also[0], 3);
    assert_int_equal(f->also[1], 5);
    assert_int_equal(j.report.counts.folded, 2);
    judging_end(&j);
}

static void attribute__of_a_made_object_is_looked_up(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = IMPORT("1", "lib") "," SET(
            "2", NAME("2", "saw"),
            CALL("2", ATTR("2", NAME("2", "lib"), "Saw"), "",
                 "")) "," DO("3", CALL("3", ATTR("3", NAME("3", "saw"), "stop"), "",
                                       "")) "," DO("4",
                                                   CALL("4", ATTR("4", NAME("4", "saw"), "run"), "",
                                                        "")) "," DO("5", ATTR("5", NAME("5", "saw"),
                                                                              "teeth"))};
    judging_wants(&j, &asks, 2);
    assert_int_equal(judging_at(&j, 3, "Saw.stop")->verdict, JUDGE_OK);
    assert_int_equal(judging_at(&j, 4, "Saw.run")->kind, JUDGE_CALL);
    assert_string_equal(judging_at(&j, 5, "Saw.teeth")->why, "lib.Saw has no attribute teeth");
    judging_end(&j);
}

static void guard__of_an_import_excuses_it(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = TRY("1", FROM("2", "lib", "plane"), NAME("3", "ImportError"),
                    SET("4", NAME("4", "plane"), NUM("4", "0"))) "," FROM("5", "lib", "cut")};
    judging_wants(&j, &asks, 0);
    judging_end(&j);
    asks.body = TRY("1", FROM("2", "lib", "plane"), NAME("3", "ValueError"),
                    SET("4", NAME("4", "plane"), NUM("4", "0")));
    judging_wants(&j, &asks, 1);
    judging_end(&j);
    asks.body =
        TRY("1", FROM("2", "lib", "cut"), NAME("3", "ImportError"), FROM("4", "lib", "old_cut"));
    judging_wants(&j, &asks, 0);
    judging_end(&j);
    asks.body = TRY("1", FROM("2", "lib", "new_cut"), NAME("3", "ImportError"),
                    FROM("4", "lib", "old_cut"));
    judging_wants(&j, &asks, 1);
    assert_int_equal(judging_at(&j, 4, "lib.old_cut")->verdict, JUDGE_BROKEN);
    judging_end(&j);
}

#define VERSION ATTR("2", NAME("2", "lib"), "__version__")
#define WITH_VERSION                                                                               \
    SAW ",\"__version__\":[{\"kind\":\"value\",\"line\":1,\"type\":null,"                          \
        "\"value\":\"'2.0'\"}]"

static void guard__of_a_version_takes_one_branch(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = WITH_VERSION,
        .body = IMPORT("1", "lib") "," IF("2", COMPARE("2", VERSION, "<", STR("2", "2.0")),
                                          DO("3", ATTR("3", NAME("3", "lib"), "old_cut")),
                                          DO("4", ATTR("4", NAME("4", "lib"), "new_cut")))};
    judging_wants(&j, &asks, 1);
    assert_int_equal(judging_at(&j, 4, "lib.new_cut")->verdict, JUDGE_BROKEN);
    judging_end(&j);
}

static void branch__that_is_not_taken_leaves_nothing_behind(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = WITH_VERSION "," KLASS("Axe", "30", ""),
        .body = IMPORT("1", "lib") "," SET(
            "2", NAME("2", "s"),
            CALL("2", ATTR("2", NAME("2", "lib"), "Saw"), "",
                 "")) "," IF("3", COMPARE("3", VERSION, "<", STR("3", "2.0")), "",
                             SET("4", NAME("4", "s"),
                                 CALL("4", ATTR("4", NAME("4", "lib"), "Axe"), "",
                                      ""))) "," DO("5", ATTR("5", NAME("5", "s"), "stop"))};
    judging_wants(&j, &asks, 1);
    assert_int_equal(judging_at(&j, 5, "Axe.stop")->verdict, JUDGE_BROKEN);
    judging_end(&j);
    asks.body =
        TRY("1", FROM("2", "lib", "cut") "," SET("2", NAME("2", "HAS"), TRUTH("2", "true")),
            NAME("3", "ImportError"),
            SET("4", NAME("4", "HAS"), TRUTH("4", "false"))) "," IF("5", NAME("5", "HAS"), "",
                                                                    FROM("6", "lib", "old_cut"));
    judging_wants(&j, &asks, 0);
    judging_end(&j);
}

static void guard__for_type_checkers_says_nothing(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {.names = SAW,
                                .body = FROM("1", "typing", "TYPE_CHECKING") "," IF(
                                    "2", NAME("2", "TYPE_CHECKING"), FROM("3", "lib", "gone"),
                                    "") "," FROM("4", "lib", "cut")};
    judging_wants(&j, &asks, 0);
    judging_end(&j);
}

static void guard__of_an_attribute_excuses_it_where_it_holds(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {.names = SAW,
                                .body = FROM("1", "lib", "Saw") "," SET(
                                    "2", NAME("2", "s"),
                                    CALL("2", NAME("2", "Saw"), "",
                                         "")) "," IF("3",
                                                     CALL("3", NAME("3", "hasattr"),
                                                          NAME("3", "s") "," STR("3", "oil"), ""),
                                                     DO("4", ATTR("4", NAME("4", "s"), "oil")),
                                                     DO("5", ATTR("5", NAME("5", "s"), "oil")))};
    judging_wants(&j, &asks, 1);
    assert_int_equal(judging_at(&j, 5, "Saw.oil")->verdict, JUDGE_BROKEN);
    judging_end(&j);
}

static void override__must_take_what_the_base_declares(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {.names = SAW,
                                .body = FROM("1", "lib", "Saw") "," CLASS(
                                    "2", "Quiet", NAME("2", "Saw"),
                                    DEF("3", "run", PARAM("me") "," PARAM("rate"), "") "," DEF(
                                        "5", "stop", PARAM("self") "," PARAM("how"),
                                        "{\"s\":\"return\",\"line\":6,\"value\":null}"))};
    judging_wants(&j, &asks, 1);
    const struct judge_finding *f = judging_at(&j, 5, "Saw.stop");
    assert_int_equal(f->kind, JUDGE_OVERRIDE);
    assert_string_equal(f->why, "the override requires how, which the library does not pass");
    assert_string_equal(f->found, "(how)");
    assert_string_equal(f->wanted, "()");
    judging_end(&j);
}

static void receiver__is_told_or_not_known(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = FROM("1", "lib", "cut") "," DEF(
            "2", "work", PARAM("saw"),
            DO("3", CALL("3", ATTR("3", NAME("3", "saw"), "turn"), "", "")))};
    judging_wants(&j, &asks, 0);
    judging_end(&j);
    asks.hint = "work:saw=lib.Saw";
    judging_wants(&j, &asks, 1);
    assert_int_equal(judging_at(&j, 3, "Saw.turn")->verdict, JUDGE_BROKEN);
    judging_end(&j);
}

static void receiver__that_fits_nothing_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *hint, *found;
    } bad[] = {{"rest:saw=lib.Saw", "used nowhere"},
               {"saw=lib.Axe", "lib.Axe"},
               {"saw", "saw"},
               {"=lib.Saw", "=lib.Saw"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct judging j;
        struct judging_asks asks = {
            .names = SAW,
            .hint = bad[i].hint,
            .body = FROM("1", "lib", "cut") "," DEF("2", "work", PARAM("saw"),
                                                    DO("3", ATTR("3", NAME("3", "saw"), "turn")))};
        assert_int_equal(judging_run(&j, &asks), ERR_USAGE);
        assert_err(&j.err, ERR_USAGE, "arguments", "--receiver", bad[i].found, NULL);
        judging_end(&j);
    }
}

static void nothing_used__is_an_error(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {.names = SAW, .body = IMPORT("1", "json")};
    assert_int_equal(judging_run(&j, &asks), ERR_INPUT);
    assert_err(&j.err, ERR_INPUT, "contract check", "app", "nothing of lib is used", NULL);
    judging_end(&j);
}

/* ---- against the contract before ---- */

#define CUT(params) FUNCTION("cut", "4", "function", params, "null")

static void baseline__shows_what_changed(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .baseline = CUT(TAKES("part") "," DEFAULTS("depth", "1") "," DEFAULTS("angle", "0")),
        .names = CUT(TAKES("part") "," DEFAULTS("speed", "9") "," DEFAULTS("depth", "2")),
        .body = FROM("1", "lib", "cut") "," DO(
            "2",
            CALL("2", NAME("2", "cut"), NUM("2", "1"),
                 "")) "," DO("3",
                             CALL("3", NAME("3", "cut"), NUM("3", "1") "," NUM("3", "2"),
                                  "")) "," DO("4",
                                              CALL("4", NAME("4", "cut"), NUM("4", "1"),
                                                   KW("angle",
                                                      NUM("4",
                                                          "1")))) "," DO("5",
                                                                         CALL("5", NAME("5", "cut"),
                                                                              NUM("5", "1"),
                                                                              KW("depth",
                                                                                 NUM("5", "1"))))};
    judging_wants(&j, &asks, 2);
    assert_int_equal(judging_at(&j, 5, "lib.cut")->verdict, JUDGE_OK);
    const struct judge_finding *f = judging_at(&j, 2, "lib.cut");
    assert_int_equal(f->verdict, JUDGE_UNDECIDABLE);
    assert_int_equal(f->severity, JUDGE_DEFAULT);
    assert_string_equal(f->why, "default changed under an omitted argument: depth: 1 -> 2");
    f = judging_at(&j, 3, "lib.cut");
    assert_int_equal(f->severity, JUDGE_SHIFTS);
    assert_string_equal(f->why, "positional argument 2 goes to speed, it was depth in 1.0");
    assert_string_equal(f->remedy, "pass depth by keyword");
    f = judging_at(&j, 4, "lib.cut");
    assert_int_equal(f->severity, JUDGE_BREAKS_NOW);
    assert_string_equal(f->remedy, "parameter angle removed: 1.0 has it, 2.0 has not; drop angle");
    assert_int_equal(j.report.counts.warned, 1);
    judging_end(&j);
}

/* ---- accepted findings ---- */

#define GONE FROM("1", "lib", "cut") "," FROM("2", "lib", "plane")

static void accepted__is_counted_apart(void **state)
{
    (void)state;
    struct judging j;
    struct judge_accept row = {.symbol = "lib.pl*", .reason = "soon", .place = "a.yaml:2"};
    struct judging_asks asks = {.names = SAW, .body = GONE, .accept = &row};
    judging_wants(&j, &asks, 0);
    assert_int_equal(j.report.counts.accepted, 1);
    assert_string_equal(judging_at(&j, 2, "lib.plane")->accepted, "soon");
    judging_end(&j);
}

static void accepted__counts_until_its_day(void **state)
{
    (void)state;
    struct judging j;
    struct judge_accept row = {
        .symbol = "*", .reason = "soon", .place = "a.yaml:2", .until = "2026-06-15"};
    struct judging_asks asks = {.names = SAW, .body = GONE, .accept = &row};
    judging_wants(&j, &asks, 0);
    judging_end(&j);
    row.until = "2026-06-14";
    judging_wants(&j, &asks, 1);
    assert_non_null(strstr(judging_at(&j, 2, "lib.plane")->why, "until 2026-06-14: that is over"));
    judging_end(&j);
}

static void accepted__that_fits_nothing_is_an_error(void **state)
{
    (void)state;
    struct judging j;
    struct judge_accept row = {.symbol = "lib.cut", .reason = "soon", .place = "a.yaml:2"};
    struct judging_asks asks = {.names = SAW, .body = GONE, .accept = &row};
    assert_int_equal(judging_run(&j, &asks), ERR_INPUT);
    assert_err(&j.err, ERR_INPUT, "accepted finding", "a.yaml:2", "no finding", NULL);
    judging_end(&j);
    row = (struct judge_accept){.symbol = "*", .reason = "", .place = "a.yaml:3"};
    assert_int_equal(judging_run(&j, &asks), ERR_INPUT);
    assert_err(&j.err, ERR_INPUT, "accepted finding", "a.yaml:3", "no reason", NULL);
    judging_end(&j);
}

static void accepted__in_the_line_itself(void **state)
{
    (void)state;
    struct judging j;
    struct judging_asks asks = {
        .names = SAW,
        .body = FROM("1", "lib", "cut") ","
                                        "{\"s\":\"from\",\"line\":2,\"module\":\"lib\",\"level\":0,"
                                        "\"names\":[[\"plane\","
                                        "null,2]],\"suppress\":\"ticket 4 until 2026-07-01\"}"};
    judging_wants(&j, &asks, 0);
    assert_string_equal(judging_at(&j, 2, "lib.plane")->accepted, "ticket 4");
    judging_end(&j);
    asks.body = "{\"s\":\"from\",\"line\":2,\"module\":\"lib\",\"level\":0,\"names\":[[\"cut\","
                "null,2]],\"suppress\":\"handler.swallow of lint\"}";
    judging_wants(&j, &asks, 0);
    judging_end(&j);
    asks.body = "{\"s\":\"from\",\"line\":2,\"module\":\"lib\",\"level\":0,\"names\":[[\"cut\","
                "null,2]],\"suppress\":\"no need\"}";
    assert_int_equal(judging_run(&j, &asks), ERR_INPUT);
    assert_err(&j.err, ERR_INPUT, "accepted finding", "app.py:2", "no finding", NULL);
    judging_end(&j);
}

static void severity__has_a_text(void **state)
{
    (void)state;
    char buf[64];
    struct judge_finding f = {.severity = JUDGE_DEPRECATED, .until = "3.1"};
    assert_string_equal(judge_severity_text(&f, buf, sizeof buf), "deprecated until 3.1");
    f.until = NULL;
    assert_string_equal(judge_severity_text(&f, buf, sizeof buf), "deprecated");
    f.severity = JUDGE_SHIFTS;
    assert_string_equal(judge_severity_text(&f, buf, sizeof buf), "shifts silently");
    assert_string_equal(judge_verdict_text(JUDGE_UNDECIDABLE), "undecidable");
    assert_string_equal(judge_kind_text(JUDGE_RESULT), "result");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call__is_bound_against_what_is_written),
        cmocka_unit_test(name__that_is_gone_is_one_finding),
        cmocka_unit_test(attribute__of_a_made_object_is_looked_up),
        cmocka_unit_test(guard__of_an_import_excuses_it),
        cmocka_unit_test(guard__of_a_version_takes_one_branch),
        cmocka_unit_test(branch__that_is_not_taken_leaves_nothing_behind),
        cmocka_unit_test(guard__for_type_checkers_says_nothing),
        cmocka_unit_test(guard__of_an_attribute_excuses_it_where_it_holds),
        cmocka_unit_test(override__must_take_what_the_base_declares),
        cmocka_unit_test(receiver__is_told_or_not_known),
        cmocka_unit_test(receiver__that_fits_nothing_is_an_error),
        cmocka_unit_test(nothing_used__is_an_error),
        cmocka_unit_test(baseline__shows_what_changed),
        cmocka_unit_test(accepted__is_counted_apart),
        cmocka_unit_test(accepted__counts_until_its_day),
        cmocka_unit_test(accepted__that_fits_nothing_is_an_error),
        cmocka_unit_test(accepted__in_the_line_itself),
        cmocka_unit_test(severity__has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
