/* test_lint_sh.c: scripts read without being run: what is a command and what is not, where a script
 * that cannot be read is told, and rules in forms that their fixtures do not show. */
#include "harness/lint_sh.h"

#include "tests/cli.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

struct read {
    struct arena arena;
    struct pool pool;
    struct err err;
    struct lint lint;
};

static void judge(struct read *r, const char *text)
{
    *r = (struct read){.arena = ARENA_INIT, .err = ERR_INIT};
    r->pool.arena = &r->arena;
    r->lint.pool = &r->pool;
    r->lint.err = &r->err;
    lint_sh(&r->lint, "case.sh", text);
    lint_settle(&r->lint);
    assert_ok(&r->err);
}

static void done(struct read *r)
{
    lint_free(&r->lint);
    arena_release(&r->arena, NULL);
}

/* The rules found, in order of lines, with ' ' between; "unread" where a part was. */
static const char *rules_of(const char *text)
{
    static char out[512];
    struct read r;
    judge(&r, text);
    out[0] = '\0';
    for (int i = 0; i < r.lint.findings; i++) {
        size_t n = strlen(out);
        if (r.lint.finding[i].accepted) continue;
        snprintf(out + n, sizeof out - n, "%s%s", n ? " " : "",
                 lint_rules[r.lint.finding[i].rule].id);
    }
    if (r.lint.unreads) snprintf(out, sizeof out, "unread: %s", r.lint.unread[0].what);
    done(&r);
    return out;
}

static int commands_of(const char *text)
{
    struct read r;
    judge(&r, text);
    int n = r.lint.commands;
    if (r.lint.unreads) fail_msg("%s: %s", text, r.lint.unread[0].what);
    done(&r);
    return n;
}

static void reader__counts_commands_in_all_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int commands;
    } table[] = {
        {"", 0},
        {"# a comment with 'half a quote\n", 0},
        {"a b c\n", 1},
        {"a; b & c && d || e | f", 6},
        {"a \\\n  b\nc", 2},
        {"x=1 y='a b' a", 1},
        {"x=1", 1},
        {"x=(a 'b c' $(d))\n", 2},
        {"if a; then b; elif c; then d; else e; fi", 5},
        {"while a; do b; done < f; until c; do d; done", 4},
        {"for x in a b; do c; done; for x; do d; done; for ((i=0;i<3;i++)); do e; done", 3},
        {"case $x in a) b ;; (c|d) e;; *) f\nesac", 3},
        {"case $x in a) b ;& c) d ;;& e) f ;; esac", 3},
        {"f() { a; }\nfunction g { b; }\nfunction h() ( c )\n", 3},
        {"( a; b ) > f 2>&1", 2},
        {"{ a; b; } | c", 3},
        {"[[ $x == (a|b) && -n $y ]] && a", 2},
        {"(( x = 1 + (2 << 3) )) || a", 2},
        {"a $(b | c) \"$(d)\" `e`", 5},
        {"a $((1 + 2)) ${x:-'}'} ${y#*\"a\"}", 1},
        {"cat <<A <<-'B'\nit's (\nA\n\tand \"this\n\tB\na\n", 2},
        {"cat <<<'it is' ; a", 2},
        {"cat <<AB\nxy\nAB c\nAB\na", 2},
        {"cat <<A\n\tA\nA\nb", 2},
        {"a <(b) >(c)", 1},
        {"! a | b", 2},
        {"time a; coproc b", 2},
        {"a#b c # d\n", 1},
        {"echo $'it\\'s' \"a \\\" b\"", 1},
        {"a &>f; b >&2; c 2>&1 >/dev/null; d >|f; e 3<>f", 5},
        {"if a\nthen\n  b\nfi\n\n\nc\n", 3},
        {"a if then fi", 1},
        {"a |\n  b &&\n  c", 3},
        {"x=$(a)\n", 2},
        {"for i do a; done; for i\ndo b; done", 2},
        {"((a; b) 3>&1 | (c)) 4>f", 3},
        {"a '`b`' `c \\`d\\``", 3},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int n = commands_of(table[i].text);
        if (n != table[i].commands)
            fail_msg("%s: %d commands, wanted %d", table[i].text, n, table[i].commands);
    }
}

static void reader__says_where_it_stops(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a 'b", "a \"b", "a $(b",      "a `b",      "( a",  "{ a;", "if a; then b", "while a; b",
        "a )",  "done",  "a <<END\nb", "case x in", "[[ a", "a >",  "f( { a; }"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct read r;
        judge(&r, bad[i]);
        if (r.lint.unreads == 0 && strcmp(bad[i], "done") != 0)
            fail_msg("%s: read without a word", bad[i]);
        done(&r);
    }
    struct read r;
    judge(&r, "a\nb\nc 'd\ne\n");
    assert_int_equal(r.lint.unread[0].line, 3);
    done(&r);
}

static void reader__survives_deep_nesting(void **state)
{
    (void)state;
    static char text[1 << 17];
    static const char *const opens[] = {"(", "$(", "{ ", "if ", "a \"$(", "${"};
    for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
        size_t n = 0;
        while (n + 16 < sizeof text) n += (size_t)snprintf(text + n, 16, "%s", opens[i]);
        struct read r;
        judge(&r, text);
        assert_true(r.lint.unreads > 0);
        done(&r);
    }
}

static void rules__look_at_options_and_places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rules;
    } table[] = {
        {"set -euo pipefail\nmake | tee log", ""},
        {"set -e -o pipefail\nmake | tee log", ""},
        {"#!/bin/bash -e\nmake | tee log", "shell.pipe"},
        {"#!/bin/zsh\nset -e\nsetopt pipefail\nmake | tee log", ""},
        {"set -e\nif make | grep -q x; then a; fi", ""},
        {"set -e\ncat | tee log", ""},
        {"set -e\ncat f | tee log", "shell.pipe"},
        {"set -e\n(make || true)", "shell.or-true"},
        {"set -e\nx=$(make || true)", ""},
        {"set -e\nif make || true; then a; fi", ""},
        {"cd a && make", ""},
        {"f() { cd a; make; }; f", "shell.cd"},
        {"f() {\n make\n cd a\n}", ""},
        {"make &", "shell.background"},
        {"make & wait $!", ""},
        {"serve & server=$!\nask\nkill $server", ""},
        {"set -e\nlocal x=$(a || b)", ""},
        {"set -e\nlocal x=$(a | b)", "shell.pipe shell.declare"},
        {"set -e\nlocal x='$(a)'", ""},
        {"set -e\nexport PATH=$PATH:$(pwd)", ""},
        {"a\nb\nc", "shell.unchecked"},
        {"a\nb\necho $?\nc", ""},
        {"a\nrm b\necho c", ""},
        {"set -e\ntrap : ERR", "shell.trap"},
        {"set -e\nwhile read x; do ssh h a; done", "shell.stdin"},
        {"set -e\ncat l | while read x; do ssh h a; done", "shell.pipe shell.stdin"},
        {"set -e\nwhile read x; do for y in a; do ssh h a; done; done", "shell.stdin"},
        {"set -e\nwhile a; do ssh h a; done", ""},
        {"set -e\nwhile read x; do docker exec -i b c; docker exec b c; done", "shell.stdin"},
        {"set -e\nssh h a '&&' b", ""},
        {"set -e\nssh h \"echo it's\"", "shell.words"},
        {"set -e\nssh -o X=y h 'a b' c", "shell.words"},
        {"set -e\nssh h \"bash -c 'echo (a)'\"", "shell.words"},
        {"set -e\nssh h \"a $x\"", ""},
        {"set -e\nsudo bash -c 'echo \"a'", "shell.words"},
        {"set -e\nbash -c 'echo wow!'", ""},
        {"set -e\nssh h \"echo a!b 'c\"", "shell.words"},
        {"set -e\nmake || true # assay: ignore[shell.or-true meant]", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *rules = rules_of(table[i].text);
        if (strcmp(rules, table[i].rules) != 0)
            fail_msg("%s: found \"%s\", wanted \"%s\"", table[i].text, rules, table[i].rules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader__counts_commands_in_all_forms),
        cmocka_unit_test(reader__says_where_it_stops),
        cmocka_unit_test(reader__survives_deep_nesting),
        cmocka_unit_test(rules__look_at_options_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
