/* test_guard_given.c: code that is given to a Python by -c or on standard input is guarded as a
 * script is, and finds what it finds without a guard. */
#include "tests/guarding.h"
#include "tests/pythons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pythons pythons;

enum { WAYS = 3 };

/* Each way to give a program its code but by a file's name; `path` holds the code. */
static const char *command_of(int way, const char *program, const char *path)
{
    if (way == 0) return textf("%s -c \"$(cat %s)\" a b", program, path);
    if (way == 1) return textf("cat %s | %s - a b", path, program);
    return textf("%s - a b < %s", program, path);
}

static void guard__sees_handlers_of_code__that_is_given_by_c_or_on_stdin(void **state)
{
    const char *path = folder_path(state, "code");
    pythons_find(&pythons);
    write_text(path, "try: {}['a']\nexcept Exception: pass\n");
    for (int i = 0; i < pythons.count * WAYS; i++) {
        struct cli r;
        cli(&r, "guard", "--json", "--", "sh", "-c",
            command_of(i % WAYS, pythons.path[i / WAYS], path));
        const json_t *one = guarding_finding(&r, "swallowed");
        if (!one || r.status != 1) fail_msg("%s: %s%s", command_of(i % WAYS, "", ""), r.out, r.err);
        assert_string_equal(field_text(one, "file"), i % WAYS ? "<stdin>" : "<string>");
        assert_int_equal(field_int(one, "line"), 1);
        assert_int_equal(field_int(r.json, "own_errors"), 0);
        cli_free(&r);
    }
}

/* What such code finds around it, and how it ends. */
static const char *const codes[] = {
    "import sys\ntry: {}[1]\nexcept Exception: print(repr(sys.exc_info()[1]))\n"
    "print(sorted(globals()), sys.argv, sys.path[0], __name__, type(__loader__), "
    "sys.stdin.read())\n",
    "try: pass\nexcept Exception: pass\ndef f(): {}[1]\nf()\n",
    "import os, time\ntry: pass\nexcept Exception: pass\nos.kill(os.getpid(), 2)\ntime.sleep(9)\n",
    "import sys\ntry: pass\nexcept Exception: pass\nsys.exit(7)\n",
    "try: pass\nexcept Exception\n",
    "print(1)\nraise KeyError\n",
    "import atexit, threading, time\ntry: pass\nexcept Exception: pass\n"
    "atexit.register(lambda: print('end'))\n"
    "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n",
    "import multiprocessing as m\ndef f(x): return x + 1\ntry: pass\nexcept Exception: pass\n"
    "p = m.get_context('fork').Pool(1)\nprint(p.map(f, [1, 2]))\np.close()\np.join()\n",
};

static char *said(void **state, const char *command)
{
    size_t size;
    const char *out = folder_path(state, "said");
    guarding_shell(textf("{ %s; echo exit $?; } < /dev/null > %s 2>&1", command, out));
    return read_whole(out, &size);
}

static void assert_same(void **state, const char *command)
{
    const char *report = folder_path(state, "report");
    char *plain = said(state, textf("sh %s", command));
    char *with =
        said(state, textf("%s guard --report %s -- sh %s", ASSAY_PROGRAM, report, command));
    if (strcmp(plain, with) != 0) {
        size_t size;
        fail_msg("%s\nwithout:\n%s\nwith:\n%s", read_whole(command, &size), plain, with);
    }
    free(plain);
    free(with);
}

static void guard__leaves_such_code_as_it_is__under_each_python(void **state)
{
    char path[FILE_PATH], command[FILE_PATH];
    pythons_find(&pythons);
    snprintf(path, sizeof path, "%s", folder_path(state, "code"));
    snprintf(command, sizeof command, "%s", folder_path(state, "inner.sh"));
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
        write_text(path, codes[k]);
        for (int i = 0; i < pythons.count * WAYS; i++) {
            write_text(command, textf("%s\n", command_of(i % WAYS, pythons.path[i / WAYS], path)));
            assert_same(state, command);
        }
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__sees_handlers_of_code__that_is_given_by_c_or_on_stdin),
        FOLDER(guard__leaves_such_code_as_it_is__under_each_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
