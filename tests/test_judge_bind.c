/* test_judge_bind.c: arguments against parameters, case by case; what Python itself answers. */
#include "compat/judge_parts.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

/* "a, b=, /, *, c, *r, **k": '=' behind a name: it has a default. */
static struct api_params params(const char *text, struct api_param *room, char *names)
{
    struct api_params p = {.param = room};
    bool keyword_only = false;
    snprintf(names, 64, "%s", text);
    char *rest = names;
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        while (*word == ' ') word++;
        if (!*word) continue;
        if (strcmp(word, "/") == 0) {
            for (int i = 0; i < p.count; i++) room[i].kind = API_POS;
            continue;
        }
        if (strcmp(word, "*") == 0) {
            keyword_only = true;
            continue;
        }
        struct api_param *q = &room[p.count++];
        *q = (struct api_param){.name = word, .kind = keyword_only ? API_KW : API_ANY};
        if (word[0] == '*') q->kind = word[1] == '*' ? API_DSTAR : API_STAR;
        if (q->kind == API_STAR) keyword_only = true;
        q->name = word + strspn(word, "*");
        char *equals = strchr(word, '=');
        if (equals) {
            *equals = 0;
            q->fallback = "0";
        }
    }
    return p;
}

static const struct {
    const char *params;
    int count;
    const char *names[4];
    bool star, dstar, ignores;
    enum bind_status status;
    enum bind_problem problem;
    const char *name;
} cases[] = {
    {"", 0, {0}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a", 1, {0}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a", 0, {"a"}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a", 0, {0}, 0, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"a=", 0, {0}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a", 2, {0}, 0, 0, 0, BIND_BAD, BIND_TOO_MANY, NULL},
    {"a", 1, {"a"}, 0, 0, 0, BIND_BAD, BIND_TWICE, "a"},
    {"a", 1, {"b"}, 0, 0, 0, BIND_BAD, BIND_UNEXPECTED, "b"},
    {"a", 1, {"b"}, 0, 0, 1, BIND_OK, BIND_NONE, NULL},
    {"a, **k", 1, {"b"}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a, *r", 3, {0}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a, /", 0, {"a"}, 0, 0, 0, BIND_BAD, BIND_UNEXPECTED, "a"},
    {"a, /, **k", 1, {"a"}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a, /, **k", 0, {"a"}, 0, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"*, a", 1, {0}, 0, 0, 0, BIND_BAD, BIND_TOO_MANY, NULL},
    {"*, a", 0, {"a"}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"*, a", 0, {0}, 0, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"*r, a", 2, {0}, 0, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"a, b", 1, {"b"}, 0, 0, 0, BIND_OK, BIND_NONE, NULL},
    {"a, b", 0, {"b"}, 0, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"a, b", 0, {0}, 1, 0, 0, BIND_UNSURE, BIND_MISSING, "a"},
    {"a, b", 0, {0}, 0, 1, 0, BIND_UNSURE, BIND_MISSING, "a"},
    {"a, /", 0, {0}, 0, 1, 0, BIND_BAD, BIND_MISSING, "a"},
    {"*, a", 0, {0}, 1, 0, 0, BIND_BAD, BIND_MISSING, "a"},
    {"a", 0, {"b"}, 0, 1, 0, BIND_BAD, BIND_UNEXPECTED, "b"},
    {"a", 2, {0}, 1, 1, 0, BIND_BAD, BIND_TOO_MANY, NULL},
    {"a=, b=", 2, {0}, 1, 1, 0, BIND_OK, BIND_NONE, NULL},
    {"a", 1, {"x", "a"}, 0, 0, 0, BIND_BAD, BIND_UNEXPECTED, "x"},
};

static void arguments__bind_as_in_python(void **state)
{
    (void)state;
    static const struct value *const values[4] = {&value_unknown, &value_unknown, &value_unknown,
                                                  &value_unknown};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_param room[8];
        char names[64];
        struct api_params p = params(cases[i].params, room, names);
        struct args a = {.pos = (const struct value **)values,
                         .count = cases[i].count,
                         .name = (const char **)cases[i].names,
                         .value = (const struct value **)values,
                         .star = cases[i].star,
                         .dstar = cases[i].dstar};
        while (a.names < 4 && cases[i].names[a.names]) a.names++;
        struct bound b;
        judge_bind_args(&p, &a, cases[i].ignores, &b);
        bool same = b.status == cases[i].status && b.problem == cases[i].problem &&
                    !b.name == !cases[i].name && (!b.name || !strcmp(b.name, cases[i].name));
        if (!same)
            fail_msg("case %zu (%s): status %d, problem %d, name %s", i, cases[i].params, b.status,
                     b.problem, b.name ? b.name : "none");
    }
}

static void positions__go_to_parameters_from_the_left(void **state)
{
    (void)state;
    struct api_param room[8];
    char names[64];
    struct api_params p = params("a, *, k=, c=", room, names), q = params("a, b, *r", room, names);
    static const struct value *const values[4] = {&value_unknown, &value_unknown, &value_unknown,
                                                  &value_unknown};
    struct args a = {.pos = (const struct value **)values, .count = 4};
    struct bound b;
    judge_bind_args(&q, &a, false, &b);
    assert_int_equal(b.status, BIND_OK);
    assert_int_equal(b.to[0], 0);
    assert_int_equal(b.to[1], 1);
    assert_int_equal(b.to[2], -1);
    assert_int_equal(p.count, 3);
    a.count = 3;
    q.count = 2;
    judge_bind_args(&q, &a, false, &b);
    assert_int_equal(b.found, 3);
    assert_int_equal(b.most, 2);
}

static void missing__are_counted(void **state)
{
    (void)state;
    struct api_param room[8];
    char names[64];
    struct api_params p = params("a, b, *, c, d=", room, names);
    struct args a = {0};
    struct bound b;
    judge_bind_args(&p, &a, false, &b);
    assert_int_equal(b.misses, 3);
    assert_string_equal(b.name, "a");
}

static void texts__show_both_sides(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct err err = ERR_INIT;
    struct judge_run run = {.pool = &pool, .err = &err};
    struct api_param room[8];
    char names[64];
    struct api_params p = params("a, /, b=, *r, c, **k", room, names);
    assert_string_equal(judge_params_text(&run, &p), "(a, /, b=0, *r, c, **k)");
    p = params("*, c", room, names);
    assert_string_equal(judge_params_text(&run, &p), "(*, c)");
    const char *given[] = {"x"};
    struct args a = {.count = 2, .name = given, .names = 1, .star = true, .dstar = true};
    assert_string_equal(judge_args_text(&run, &a), "(2 positional, *..., x=, **...)");
    arena_release(&arena, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments__bind_as_in_python),
        cmocka_unit_test(positions__go_to_parameters_from_the_left),
        cmocka_unit_test(missing__are_counted),
        cmocka_unit_test(texts__show_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
