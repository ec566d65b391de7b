/* test_preflight_hops.c: the hops that a line goes through, found in the line. */
#include "harness/preflight_hops.h"
#include "tests/support.h"

#include <string.h>

struct found {
    const char *typed, *login, *line;
    const char *through; /* the hops, with ',' between */
    int breaks;          /* at this hop, or -1 */
    const char *last;    /* the last word that arrives; NULL: not looked at */
};

static const struct found lines[] = {
    {"sh", "sh", "ls -l", "sh", -1, "-l"},
    {"zsh", "bash", "ssh h ls", "zsh,ssh,bash", -1, "ls"},
    {"zsh", "bash", "/usr/bin/ssh -p 2 h 'ls a'", "zsh,ssh,bash", -1, "a"},
    {"sh", "sh", "ssh h", "sh", -1, "h"}, /* a session: nothing goes on */
    {"bash", "sh", "bash run.sh", "bash", -1, "run.sh"},
    {"bash", "sh", "bash -c 'a b'", "bash,bash", -1, "b"},
    {"sh", "bash", "ssh a ssh b ls", "sh,ssh,bash,ssh,bash", -1, "ls"},
    {"sh", "bash", "sudo env A=b ssh h 'sudo ls'", "sh,sudo,env,ssh,bash,sudo", -1, "ls"},
    {"sh", "bash", "docker exec -it box bash -lc 'x y'", "sh,docker:NAME,bash", -1, "y"},
    {"zsh", "bash", "ssh h python3 -c 'print(f\"{x}\")'", "zsh,ssh,bash", 2, NULL},
    {"zsh", "sh", "echo 'it", "zsh", 0, NULL},
};

static void hops__are_found_in_the_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const struct found *f = &lines[i];
        struct arena arena = ARENA_INIT;
        struct pool pool = {.arena = &arena};
        struct err err = ERR_INIT;
        struct hops h;
        struct hops_journey j;
        char through[256] = "";
        (void)!preflight_hops(f->line, f->typed, f->login, &pool, &h, &j, &err);
        assert_ok(&err);
        for (int k = 0; k < h.count; k++)
            snprintf(through + strlen(through), sizeof through - strlen(through), "%s%s",
                     k ? "," : "", h.hop[k].text);
        if (strcmp(through, f->through) != 0) print_error("%s\n", f->line);
        assert_string_equal(through, f->through);
        assert_int_equal(j.breaks, f->breaks);
        for (int k = 0; k < j.count; k++) assert_ptr_equal(j.at[k].hop, &h.hop[k]);
        if (f->last) assert_string_equal(j.word[j.words - 1], f->last);
        arena_release(&arena, NULL);
    }
}

/* A line that nests for ever ends at the most hops that there can be. */
static void hops__end__however_deep_the_line(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct err err = ERR_INIT;
    struct hops h;
    struct hops_journey j;
    char line[512] = "";
    for (int i = 0; i < 40; i++) snprintf(line + strlen(line), 8, "sudo ");
    snprintf(line + strlen(line), 8, "ls");
    (void)!preflight_hops(line, "sh", "sh", &pool, &h, &j, &err);
    assert_ok(&err);
    assert_true(h.count >= HOPS - 1 && h.count <= HOPS);
    arena_release(&arena, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hops__are_found_in_the_line),
        cmocka_unit_test(hops__end__however_deep_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
