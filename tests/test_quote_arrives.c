/* test_quote_arrives.c: the proof by execution: random words go through real chains of the shells
 * that are installed and arrive byte for byte; and what shell_read() says of a line is what the
 * shell does with it. QUOTE_VECTORS=N sets how many (the issue's 10,000: ci/full.sh).
 *
 * ssh is the real one, to an sshd of the test's own on loopback, where one can be started (sshd.h);
 * elsewhere, and sudo and docker everywhere, are stand-ins that do with their words what the real
 * ones do: ssh joins them and hands them to the login shell, the others start them as they are. The
 * test says which. */
#include "compat/hops.h"

#include "core/synth.h"
#include "tests/cli.h"
#include "tests/outside.h"
#include "tests/sshd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MOST = 6, BYTES_MOST = 24, LINES = 400 };

struct random {
    uint64_t seed, at;
};

static uint64_t draw(struct random *r, uint64_t below)
{
    return synth_x(r->seed, (int64_t)++r->at) % below;
}

static bool installed(const char *shell)
{
    static const char *const folders[] = {"/bin", "/usr/bin", "/usr/local/bin"};
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], shell);
        if (access(path, X_OK) == 0) return true;
    }
    return false;
}

/* How many; their names, then NULL. */
static int list_installed(const char *shells[SHELLS + 1])
{
    int count = 0;
    for (int s = 0; s < SHELLS; s++) {
        if (installed(shell_name((enum shell)s))) shells[count++] = shell_name((enum shell)s);
    }
    shells[count] = NULL;
    return count;
}

/* Mostly what shells trip over. */
static void draw_word(struct random *r, char *out)
{
    static const char *const pieces[] = {
        "'", "\"",  "\\",   "$", "`",  "!",  "*",  "{a,b}", "~",  " ",    "\n",       "\t",
        "#", "=",   "$(x)", "-", "--", "%",  ";",  "&",     "|",  "<",    ">",        "(",
        ")", "[a]", "?",    "^", "a",  "Z9", "\r", "\\n",   "''", "\"\"", "\xc3\xa9", "if"};
    size_t n = 0, pieces_count = sizeof pieces / sizeof pieces[0];
    for (uint64_t left = draw(r, 9); left > 0; left--) {
        uint64_t kind = draw(r, pieces_count + 8);
        char byte[2] = {(char)(1 + draw(r, 255)), '\0'};
        const char *piece = kind < pieces_count ? pieces[kind] : byte;
        if (n + strlen(piece) >= BYTES_MOST) break;
        n += (size_t)snprintf(out + n, BYTES_MOST - n, "%s", piece);
    }
    out[n] = '\0';
}

/* ---- without running anything ---- */

static void a_line__is_read_back_as_the_words_it_was_made_of__for_every_chain(void **state)
{
    static const char *const chains[] = {"sh",
                                         "dash",
                                         "bash",
                                         "zsh",
                                         "zsh,ssh:h,bash",
                                         "bash,ssh:h",
                                         "sh,sudo,dash,env",
                                         "dash,docker:c,sh,zsh,bash",
                                         "bash,ssh:a,zsh,ssh:b,dash"};
    struct random r = {.seed = 11};
    (void)state;
    for (int i = 0; i < 4000; i++) {
        struct arena arena = ARENA_INIT;
        struct pool pool = {.arena = &arena};
        struct hops h;
        struct hops_journey j;
        struct err err = {0};
        char word[WORDS_MOST][BYTES_MOST];
        const char *argv[WORDS_MOST], *line = NULL;
        int n = 1 + (int)draw(&r, WORDS_MOST);
        for (int w = 0; w < n; w++) draw_word(&r, word[w]);
        for (int w = 0; w < n; w++) argv[w] = word[w];
        if (!argv[0][0] || strchr(argv[0], '=') || argv[0][0] == '-') argv[0] = "x";
        const char *through = chains[i % (int)(sizeof chains / sizeof chains[0])];
        (void)!hops_parse(through, &h, &err);
        (void)!hops_line(&h, argv, n, false, &pool, &line, &err);
        (void)!hops_follow(&h, line, &pool, &j, &err);
        assert_ok(&err);
        bool same = j.breaks < 0 && j.unknown < 0 && j.words == n;
        for (int w = 0; same && w < n; w++) same = strcmp(j.word[w], argv[w]) == 0;
        if (!same) fail_msg("%s: <%s>: %s %s", through, line, j.why, j.found);
        arena_release(&arena, NULL);
    }
}

/* ---- by running the shells ---- */

struct sent {
    char chain[128];
    char word[WORDS_MOST][BYTES_MOST];
    int words;
    char *line;
};

static void write_program(void **state, const char *name, const char *text)
{
    const char *path = folder_path(state, name);
    write_text(path, text);
    assert_int_equal(chmod(path, 0755), 0);
}

static void make_stand_ins(void **state)
{
    write_program(state, "ssh", "#!/bin/sh\nlogin=$1\nshift\nexec \"$login\" -c \"$*\"\n");
    write_program(state, "docker", "#!/bin/sh\nshift 2\nexec \"$@\"\n");
    write_program(state, "sudo", "#!/bin/sh\n[ \"$1\" = -- ] && shift\nexec \"$@\"\n");
    write_program(state, "show",
                  "#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done\nprintf '\\001\\0'\n");
}

/* The real ssh in place of the stand-in, or says why not. */
static void make_ssh(void **state, struct sshd *server, const char *const *shells)
{
    char folder[FILE_PATH];
    struct err err = ERR_INIT;
    snprintf(folder, sizeof folder, "%s", folder_path(state, "s"));
    assert_int_equal(file_make_folder(folder, &err), ERR_OK);
    if (!sshd_start(server, folder, textf("%s:/usr/local/bin:/usr/bin:/bin", (const char *)*state),
                    shells)) {
        print_message("ssh: a stand-in: %s\n", server->why);
        return;
    }
    const char *real = NULL;
    for (const char *const *at = (const char *const[]){"/usr/bin/ssh", "/usr/local/bin/ssh", NULL};
         *at && !real; at++)
        real = access(*at, X_OK) == 0 ? *at : NULL;
    assert_non_null(real);
    /* -n: the lines to come stand on its standard input. */
    write_program(state, "ssh",
                  textf("#!/bin/sh\nexec %s -n -F %s \"$@\"\n", real, server->config));
    print_message("ssh: the real one, to an sshd on loopback\n");
}

static long through_ssh(const struct sent *sent, long count)
{
    long n = 0;
    for (long i = 0; i < count; i++) n += strstr(sent[i].chain, ",ssh") != NULL;
    return n;
}

/* A random chain of installed shells and stand-ins; the host of an ssh is its login shell. */
static void draw_chain(struct random *r, char out[128])
{
    const char *shells[SHELLS + 1];
    uint64_t count = (uint64_t)list_installed(shells);
    int n = snprintf(out, 128, "%s", shells[draw(r, count)]);
    for (uint64_t left = draw(r, 4); left > 0; left--) {
        const char *shell = shells[draw(r, count)];
        static const char *const forms[] = {",ssh:%s,%s", ",%s",   ",sudo,%s", ",docker:c,%s",
                                            ",env,%s",    ",sudo", ",env"};
        uint64_t form = draw(r, sizeof forms / sizeof forms[0]);
        if (form == 0)
            n += snprintf(out + n, 128 - (size_t)n, ",ssh:%s,%s", shell, shell);
        else if (form >= 5)
            n += snprintf(out + n, 128 - (size_t)n, "%s", forms[form]);
        else
            n += snprintf(out + n, 128 - (size_t)n, "%.*s%s", (int)(strlen(forms[form]) - 2),
                          forms[form], shell);
    }
}

static long vectors_wanted(void)
{
    const char *text = getenv("QUOTE_VECTORS");
    return text ? strtol(text, NULL, 10) : LINES;
}

/* Runs a shell on a file of lines; what they print, as one block. The caller's. */
static char *output_of(void **state, const char *command, size_t *size)
{
    char line[1024];
    const char *out = folder_path(state, "out");
    snprintf(line, sizeof line, "PATH=%s:$PATH %s > %s 2>%s.err", (const char *)*state, command,
             out, out);
    assert_int_equal(outside_sh(line), 0);
    return read_whole(out, size);
}

/* All lines for one first shell run as one script of it: one start instead of hundreds. */
static void run_batch(void **state, const char *shell, const char *options, struct sent *sent,
                      long count, const char *before)
{
    size_t size, at = 0;
    char command[256];
    const char *script = folder_path(state, "script");
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fputs(before, f);
    for (long i = 0; i < count; i++) {
        if (strncmp(sent[i].chain, shell, strlen(shell)) == 0 &&
            strchr(",", sent[i].chain[strlen(shell)]))
            fprintf(f, "%s\n", sent[i].line);
    }
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof command, "%s %s < %s", shell, options, script);
    char *out = output_of(state, command, &size);
    for (long i = 0; i < count; i++) {
        struct sent *s = &sent[i];
        if (strncmp(s->chain, shell, strlen(shell)) != 0 || !strchr(",", s->chain[strlen(shell)]))
            continue;
        for (int w = 0; w <= s->words; w++) {
            const char *wanted = w < s->words ? s->word[w] : "\001";
            if (at >= size || strcmp(out + at, wanted) != 0)
                fail_msg("%s: line <%s>: word %d is <%s>, wanted <%s>", s->chain, s->line, w,
                         at < size ? out + at : "(nothing)", wanted);
            at += strlen(out + at) + 1;
        }
    }
    free(out);
}

static void make_vector(struct random *r, struct sent *s)
{
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct hops h;
    struct err err = {0};
    const char *argv[WORDS_MOST + 1] = {"show"}, *line = NULL;
    draw_chain(r, s->chain);
    s->words = 1 + (int)draw(r, WORDS_MOST - 1);
    for (int w = 0; w < s->words; w++) {
        draw_word(r, s->word[w]);
        argv[w + 1] = s->word[w];
    }
    (void)!hops_parse(s->chain, &h, &err);
    (void)!hops_line(&h, argv, s->words + 1, false, &pool, &line, &err);
    assert_ok(&err);
    s->line = strdup(line);
    assert_non_null(s->line);
    arena_release(&arena, NULL);
}

static void words__arrive_byte_for_byte__through_real_shells(void **state)
{
    long count = vectors_wanted();
    struct sent *sent = calloc((size_t)count, sizeof *sent);
    struct random r = {.seed = 20261130};
    const char *shells[SHELLS + 1];
    struct sshd server;
    assert_non_null(sent);
    assert_true(count > 0);
    make_stand_ins(state);
    list_installed(shells);
    make_ssh(state, &server, shells);
    for (long i = 0; i < count; i++) make_vector(&r, &sent[i]);
    for (int s = 0; s < SHELLS; s++) {
        const char *shell = shell_name((enum shell)s);
        if (installed(shell))
            run_batch(state, shell, s == SHELL_ZSH ? "-f" : "", sent, count, "");
        else
            print_message("%s is not installed: no line went through it\n", shell);
    }
    print_message("%ld lines, %ld of them through ssh\n", count, through_ssh(sent, count));
    /* A prompt's history marks, as a person has them. */
    run_batch(state, "bash", "--norc", sent, count, "set -o history -o histexpand\n");
    if (server.pid) sshd_stop(&server, shells);
    for (long i = 0; i < count; i++) free(sent[i].line);
    free(sent);
}

/* ---- a line, read and run ---- */

static void draw_pieces(struct random *r, char *out)
{
    static const char *const pieces[] = {
        "'a b'", "\"c\\\"d\"", "\\'",  "e",   " ",   "\\ ", "=",  "''",      "\"\\\\\"", "-x",
        "\\\\",  "\"'\"",      "'\"'", "\\n", "f#g", "{}",  "a]", "\"\\n\"", "%",        "^"};
    size_t n = 0;
    for (uint64_t left = 1 + draw(r, 10); left > 0; left--)
        n += (size_t)snprintf(out + n, 16, "%s", pieces[draw(r, sizeof pieces / sizeof pieces[0])]);
}

/* A line in which this shell sees words alone. */
static void draw_line(struct random *r, enum shell shell, char *out)
{
    for (bool plain = false; !plain;) {
        struct arena arena = ARENA_INIT;
        struct pool pool = {.arena = &arena};
        struct shell_line read;
        struct err err = {0};
        draw_pieces(r, out);
        (void)!shell_read(shell, false, out, &pool, &read, &err);
        assert_ok(&err);
        plain = read.events == 0;
        arena_release(&arena, NULL);
    }
}

static void a_line__is_read_as_the_shell_reads_it__for_random_lines(void **state)
{
    struct random r = {.seed = 7};
    make_stand_ins(state);
    for (int s = 0; s < SHELLS; s++) {
        const char *shell = shell_name((enum shell)s), *script = folder_path(state, "script");
        if (!installed(shell)) continue;
        static char line[LINES][256];
        size_t size, at = 0;
        FILE *f = fopen(script, "w");
        assert_non_null(f);
        for (int i = 0; i < LINES; i++) {
            draw_line(&r, (enum shell)s, line[i]);
            fprintf(f, "show %s\n", line[i]);
        }
        assert_int_equal(fclose(f), 0);
        char command[256];
        snprintf(command, sizeof command, "%s %s < %s", shell, s == SHELL_ZSH ? "-f" : "", script);
        char *out = output_of(state, command, &size);
        for (int i = 0; i < LINES; i++) {
            struct arena arena = ARENA_INIT;
            struct pool pool = {.arena = &arena};
            struct shell_line read;
            struct err err = {0};
            (void)!shell_read((enum shell)s, false, line[i], &pool, &read, &err);
            assert_ok(&err);
            for (int w = 0; w <= read.words; w++) {
                const char *mine = w < read.words ? read.word[w] : "\001";
                if (at >= size || strcmp(out + at, mine) != 0)
                    fail_msg("%s: line <%s>: word %d is <%s>, read as <%s>", shell, line[i], w,
                             at < size ? out + at : "(nothing)", mine);
                at += strlen(out + at) + 1;
            }
            arena_release(&arena, NULL);
        }
        free(out);
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line__is_read_back_as_the_words_it_was_made_of__for_every_chain),
        FOLDER(words__arrive_byte_for_byte__through_real_shells),
        FOLDER(a_line__is_read_as_the_shell_reads_it__for_random_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
