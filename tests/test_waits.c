/* test_waits.c: nothing waits without a deadline, or it is written down why it ends. */
#include "tests/support.h"
#include "tests/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tidy *complaints(const char *path, const char *text)
{
    static struct tidy t;
    t = (struct tidy){0};
    waits_file(&t, path, text);
    return &t;
}

#define BODY(line) "static int f(int a, int (*b)(int))\n{\n    " line "\n    return 0;\n}\n"

static void wait__without_a_deadline__goes_red(void **state)
{
    static const char *const red[] = {
        BODY("poll(p, n, -1);"),
        BODY("(void)poll(p, n, a > 0 ? a : -1);"),
        BODY("x = poll(\n        p, n, left);"),
        BODY("waitpid(pid, &status, 0);"),
        BODY("while (waitid(P_ALL, 0, &i, WEXITED) < 0) continue;"),
        BODY("pthread_join(t, NULL);"),
        BODY("pthread_cond_wait(&c, &m);"),
        BODY("sem_wait (&s);"),
        BODY("flock(fd, LOCK_EX);"),
        BODY("fcntl(fd, F_SETLKW, &l);"),
        BODY("syscall(SYS_futex, p, FUTEX_WAIT, 0, NULL, NULL, 0);"),
        BODY("n = read(fd, buf, 10);"),
        BODY("recv(fd, buf, 10, 0);"),
        BODY("accept(fd, NULL, NULL);"),
        BODY("connect(fd, a, n);"),
        BODY("popen(line, \"r\");"),
        BODY("cudaDeviceSynchronize();"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof red / sizeof red[0]; i++) {
        const struct tidy *t = complaints("harness/a.c", red[i]);
        if (t->complaints != 1) fail_msg("%d complaints: %s%s", t->complaints, red[i], t->text);
        assert_non_null(strstr(t->text, "harness/a.c:3: "));
        assert_non_null(strstr(t->text, "() in f() may wait forever"));
    }
}

static void wait__that_its_arguments_bound__or_that_is_none__passes(void **state)
{
    static const char *const green[] = {
        BODY("poll(p, n, LOOK_MS);"),
        BODY("poll(p, n, 0);"),
        BODY("waitpid(pid, &status, WNOHANG);"),
        BODY("flock(fd, LOCK_EX | LOCK_NB);"),
        BODY("recvmsg(fd, &h, MSG_DONTWAIT);"),
        BODY("keys.read(1); key->read(2); fread(a, 1, 2, f); my_poll(a, b, -1);"),
        BODY("/* read(fd) */ puts(\"read(fd, 1, 2)\"); // poll(p, n, -1)"),
        BODY("return read;"),
        "#define GET(x) read(x, 1, 2)\n",
        "static int read(int fd)\n{\n    return fd;\n}\n" BODY("read(fd);"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof green / sizeof green[0]; i++) {
        const struct tidy *t = complaints("harness/a.c", green[i]);
        if (t->complaints) fail_msg("%s%s", green[i], t->text);
    }
    assert_int_equal(complaints("tests/a.c", BODY("pause();"))->complaints, 0);
}

static void wait__in_the_table__is_allowed_in_its_function_alone(void **state)
{
    const char *mine = "void load_end(struct load *l)\n{\n    pthread_join(l->thread, NULL);\n}\n";
    (void)state;
    assert_int_equal(complaints("harness/load.c", mine)->complaints, 0);
    assert_int_equal(complaints("harness/other.c", mine)->complaints, 1);
    assert_int_equal(complaints("harness/load.c", BODY("pthread_join(t, NULL);"))->complaints, 1);
    assert_int_equal(
        complaints("harness/load.c", "void load_end(int l)\n{\n    pause();\n}\n")->complaints, 1);
}

static void row__has_a_reason__and_a_call(void **state)
{
    static struct tidy t;
    (void)state;
    for (int i = 0; i < wait_count; i++) {
        assert_true(strlen(wait_rows[i].why) > 10);
        for (int k = 0; k < i; k++)
            assert_true(strcmp(wait_rows[i].path, wait_rows[k].path) != 0 ||
                        strcmp(wait_rows[i].function, wait_rows[k].function) != 0 ||
                        strcmp(wait_rows[i].call, wait_rows[k].call) != 0);
    }
    waits_rows(&t, ASSAY_SOURCE_DIR);
    if (t.complaints) fail_msg("%s", t.text);
}

/* The whole tree is tidy's (test_tidy.c). */
static void row__goes_red__where_its_call_is_gone(void **state)
{
    static struct tidy t;
    for (int i = 0; i < wait_count; i++) {
        struct err err = ERR_INIT;
        char folder[256];
        const char *path = wait_rows[i].path;
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        (void)!file_make_folder(folder_path(state, folder), &err);
        write_text(folder_path(state, path), "int x;\n");
    }
    waits_rows(&t, *state);
    assert_int_equal(t.complaints, wait_count);
    assert_non_null(strstr(t.text, "load_end() makes no call of pthread_join()"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait__without_a_deadline__goes_red),
        cmocka_unit_test(wait__that_its_arguments_bound__or_that_is_none__passes),
        cmocka_unit_test(wait__in_the_table__is_allowed_in_its_function_alone),
        cmocka_unit_test(row__has_a_reason__and_a_call),
        cmocka_unit_test_setup_teardown(row__goes_red__where_its_call_is_gone, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
