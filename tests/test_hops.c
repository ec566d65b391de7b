/* test_hops.c: chains of shells and carriers: what is accepted, the line that is built, and what
 * becomes of lines that people write. */
#include "compat/hops.h"

#include "tests/support.h"

#include <string.h>

static struct arena arena;
static struct pool pool = {.arena = &arena};

static struct hops chain(const char *text)
{
    struct hops h;
    struct err err = {0};
    (void)!hops_parse(text, &h, &err);
    assert_ok(&err);
    return h;
}

static void parse__refuses__what_no_line_can_go_through(void **state)
{
    static const struct {
        const char *text, *found;
    } rows[] = {
        {"fish", "fish"},
        {"bash,", NULL},
        {"", NULL},
        {"ssh:h,bash", "first"},
        {"bash,docker", "docker"},
        {"bash,ssh:", "ssh:"},
        {"bash,ssh:-v", "ssh:-v"},
        {"bash,sudo:x", "sudo:x"},
        {"bash,docker:-i", "docker:-i"},
        {"sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh,sh", "more than 16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hops h;
        struct err err = {0};
        assert_int_equal(hops_parse(rows[i].text, &h, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "hop", "--through", rows[i].found, NULL);
    }
}

static void line__enters_each_hop_its_own_way__for_every_kind(void **state)
{
    static const char *const argv[] = {"p", "a b", NULL};
    static const char *const odd[] = {"a=b", NULL}, *const dash[] = {"-x", NULL};
    static const struct {
        const char *through;
        const char *const *argv;
        const char *line;
    } rows[] = {
        {"bash", argv, "p 'a b'"},
        {"bash,sh", argv, "sh -c \"p 'a b'\""},
        {"bash,ssh:h", argv, "ssh h \"p 'a b'\""},
        {"bash,ssh:h,zsh", argv, "ssh h \"p 'a b'\""},
        {"bash,ssh:h,zsh,sh", argv, "ssh h \"sh -c \\\"p 'a b'\\\"\""},
        {"bash,docker:c", argv, "docker exec c p 'a b'"},
        {"bash,docker:c,sh", argv, "docker exec c sh -c \"p 'a b'\""},
        {"bash,sudo", argv, "sudo p 'a b'"},
        {"bash,env", odd, "env sh -c 'exec \"$@\"' sh a=b"},
        {"bash,sudo", dash, "sudo -- -x"},
        {"bash,sudo,env", argv, "sudo env p 'a b'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hops h = chain(rows[i].through);
        struct err err = {0};
        const char *line = NULL;
        int n = 0;
        while (rows[i].argv[n]) n++;
        (void)!hops_line(&h, rows[i].argv, n, false, &pool, &line, &err);
        assert_ok(&err);
        assert_string_equal(line, rows[i].line);
    }
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

static void line__is_refused__when_a_text_outgrows_an_argument(void **state)
{
    static char quotes[40000];
    const char *const argv[] = {"p", quotes, NULL};
    struct hops h = chain("bash,sh,sh,sh");
    struct err err = {0};
    const char *line = NULL;
    (void)state;
    for (size_t i = 0; i + 1 < sizeof quotes; i++) quotes[i] = i % 2 ? '\'' : '"';
    assert_int_equal(hops_line(&h, argv, 2, false, &pool, &line, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "quote", "the text for sh", "bytes", "--as-file");
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

/* Words with '|' between. */
static void words_of(const struct hops_journey *j, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < j->words && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? "|" : "", j->word[i]);
}

static void follow__names_the_first_hop_that_breaks_a_line__as_people_write_them(void **state)
{
    static const struct {
        const char *through, *line;
        int breaks, unknown;
        const char *why, *words;
    } rows[] = {
        /* the story: the quotes are the local shell's, and ssh sends bare text */
        {"zsh,ssh:h,bash", "ssh h python3 -c 'print(f\"{x}\")'", 2, -1, "parenthesis", NULL},
        {"zsh,ssh:h,bash", "ssh h echo 'a b'", 2, -1, "other words", NULL},
        {"zsh,ssh:h,bash", "ssh h \"echo 'a b'\"", -1, -1, NULL, "echo|a b"},
        {"zsh,ssh,bash", "ssh -p 22 -i key h -t -- \"echo 'a b'\"", -1, -1, NULL, "echo|a b"},
        {"bash,ssh,sh", "ssh h uptime", -1, -1, NULL, "uptime"},
        {"bash,ssh", "ssh h ls -l", -1, -1, NULL, "ls|-l"},
        {"bash,bash", "bash -c 'echo \"a b\"'", -1, -1, NULL, "echo|a b"},
        {"bash,bash", "/bin/bash -lc 'echo x'", -1, -1, NULL, "echo|x"},
        {"bash,bash", "bash -c echo", -1, -1, NULL, "echo"},
        {"bash,bash", "bash script.sh", 1, -1, "-c TEXT", NULL},
        {"bash,ssh", "scp a b", 1, -1, "ssh", NULL},
        {"bash,ssh", "ssh h", 1, -1, "command after the host", NULL},
        {"bash,sudo,sh", "sudo -u me -E A=1 sh -c 'id -u'", -1, -1, NULL, "id|-u"},
        {"bash,env", "env -i PATH=/bin A=b ls", -1, -1, NULL, "ls"},
        {"bash,docker:c,sh", "docker exec -it -e A=b c sh -c 'ls /'", -1, -1, NULL, "ls|/"},
        {"bash,docker:c", "docker run c ls", 1, -1, "exec NAME", NULL},
        {"bash,ssh,sh", "ssh h 'echo $(date)'", -1, 2, "command substitution", NULL},
        {"bash,ssh,sh", "ssh h \"echo $HOME\"", -1, 0, "variable", NULL},
        {"bash,ssh,sh", "ssh h 'grep -c \"it''s\" x'", -1, -1, NULL, "grep|-c|its|x"},
        {"zsh", "python3 -c \"print('{!r}')\"", 0, -1, "history", NULL},
        {"bash", "   ", 0, -1, "no command", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hops h = chain(rows[i].through);
        struct hops_journey j;
        struct err err = {0};
        char words[512];
        (void)!hops_follow(&h, rows[i].line, &pool, &j, &err);
        assert_ok(&err);
        words_of(&j, words, sizeof words);
        if (j.breaks != rows[i].breaks || j.unknown != rows[i].unknown ||
            (rows[i].why && !strstr(j.why, rows[i].why)) ||
            (rows[i].words && strcmp(words, rows[i].words) != 0))
            fail_msg(
                "%s: <%s>: breaks %d (wanted %d), unknown %d (wanted %d), why <%s>, words <%s>",
                rows[i].through, rows[i].line, j.breaks, rows[i].breaks, j.unknown, rows[i].unknown,
                j.why, words);
    }
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__refuses__what_no_line_can_go_through),
        cmocka_unit_test(line__enters_each_hop_its_own_way__for_every_kind),
        cmocka_unit_test(line__is_refused__when_a_text_outgrows_an_argument),
        cmocka_unit_test(follow__names_the_first_hop_that_breaks_a_line__as_people_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
