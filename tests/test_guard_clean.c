/* test_guard_clean.c: programs that lose nothing are left alone: no finding, the same streams, the
 * same exit status. */
#include "tests/cli.h"
#include "tests/pythons.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const clean[][2] = {
    {"narrow", "for d in ({}, {'a': 1}):\n  try: d['a']\n  except KeyError: pass\n"
               "try: import no_such_thing\nexcept ImportError: pass\n"
               "try: next(iter(()))\nexcept StopIteration: pass\nprint(hasattr(1, 'x'))\n"},
    {"reraise", "def f():\n  try: {}[1]\n  except Exception as e:\n    print('oops')\n"
                "    raise RuntimeError('more') from e\ntry: f()\nexcept RuntimeError as e: "
                "print(repr(e))\n"},
    {"logged", "import logging\ntry: {}[1]\nexcept Exception: logging.exception('bad')\n"
               "try: {}[1]\nexcept Exception: logging.error('bad', exc_info=True)\n"},
    {"traced", "import sys, traceback\ntry: {}[1]\nexcept Exception:\n"
               "  print('ERROR: see below')\n  traceback.print_exc()\n"},
    {"typed", "try: {}[1]\nexcept Exception as e:\n  print(f'ERROR: {type(e).__name__}: {e}')\n"
              "try: {}[1]\nexcept Exception as e:\n  print('failed: %r' % e)\n"
              "try: assert 0\nexcept Exception as e: print(f'failed: {e!r}')\n"},
    {"retry",
     "n = 0\ndef f():\n  global n\n  n += 1\n  if n < 3: raise OSError('busy')\n  return n\n"
     "def g():\n  while True:\n    try: return f()\n    except Exception: pass\n"
     "print(g())\nn = 0\nfor i in range(5):\n  try:\n    f()\n    break\n"
     "  except Exception as e:\n    last = 'x'\n"},
    {"conditional", "def f(n):\n  for i in range(3):\n    try: [][0]\n"
                    "    except Exception:\n      if i >= n: raise\n"
                    "try: f(0)\nexcept IndexError as e: print(repr(e))\n"},
    {"kept", "errors = []\ntry: {}[1]\nexcept Exception as e: errors.append(e)\nprint(errors)\n"},
    {"futures",
     "from concurrent.futures import ThreadPoolExecutor as T\ndef f(): raise ValueError(1)\n"
     "with T(1) as t:\n  x = t.submit(f)\n  print(repr(x.exception()))\n"
     "  try: t.submit(f).result()\n  except ValueError as e: print(repr(e))\n"},
    {"children",
     "import subprocess, multiprocessing as m, os\nr = subprocess.run(['false'])\n"
     "print(r.returncode)\ntry: subprocess.run(['false'], check=True)\n"
     "except subprocess.CalledProcessError as e: print(e.returncode)\n"
     "p = subprocess.Popen(['false'])\nprint(p.wait(), subprocess.call(['false']))\n"
     "def f(): os._exit(2)\nif __name__ == '__main__':\n  p = m.Process(target=f)\n  p.start()\n"
     "  p.join()\n  print(p.exitcode)\n"},
    {"words", "print('0 errors, no failure: fine')\nprint('error rate: 0.1')\n"
              "print('ERRORS = 0')\nprint('Known failed items:\\n  none')\n"},
    {"imports", "try:\n  import no_such_thing\nexcept Exception:\n  no_such_thing = None\n"},
    {"fails", "try: pass\nexcept Exception: pass\nraise SystemExit(5)\n"},
};

/* With a handler to instrument: what a main script finds, and how one ends that dies. */
static const char *const mains[][2] = {
    {"names", "import sys, inspect\ntry: pass\nexcept Exception: pass\n"
              "print(__name__, __file__, __spec__, __package__, sys.argv, sys.path[0], "
              "type(__loader__))\n"
              "print(sorted(globals()), len(sys.path_hooks), sys.modules['__main__'].__file__)\n"},
    {"shadow", "import json\ntry: {}[1]\nexcept Exception as e: print(repr(e), json.mine)\n"
               "try: 1 / 0\nexcept Exception as e: print(type(e))\n"},
    {"dies", "try: pass\nexcept Exception: pass\n\ndef f():\n  {}[1]\nf()\n"},
};

static const char *python(void)
{
    const char *given = getenv("ASSAY_PYTHON");
    return given ? given : "python3";
}

/* Both streams and the exit status of a script that nobody guards go to the file at `out`. */
static void run_plain(const char *program, const char *path, const char *out)
{
    int status;
    const char *command = textf("{ %s %s; echo exit $?; } > %s 2>&1", program, path, out);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The same script with and without guard. */
static void assert_left_alone(void **state, const char *program, const char *name,
                              const char *script)
{
    struct cli r;
    char *text;
    size_t size;
    const char *path = folder_path(state, "clean.py"), *plain = folder_path(state, "plain");
    const char *report = folder_path(state, "report");
    write_text(path, script);
    run_plain(program, path, plain);
    cli(&r, "guard", "--report", report, "--", "sh", "-c",
        textf("exec 2>&1; %s %s; echo exit $?", program, path));
    text = read_whole(plain, &size);
    if (r.status != 0 || strcmp(text, r.out) != 0 || r.err[0])
        fail_msg("%s: exit %d\nwith:\n%s\nwithout:\n%s\n%s", name, r.status, r.out, text, r.err);
    free(text);
    cli_free(&r);
    text = read_whole(report, &size);
    if (!strstr(text, "\"findings\": []") || !strstr(text, "\"own_errors\": 0") ||
        !strstr(text, "\"pythons\": "))
        fail_msg("%s: %s", name, text);
    free(text);
}

static void guard__leaves_a_program_alone__that_loses_nothing(void **state)
{
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++)
        assert_left_alone(state, python(), clean[i][0], clean[i][1]);
}

static void guard__leaves_the_main_script_as_it_is__under_each_python(void **state)
{
    static struct pythons p;
    pythons_find(&p);
    write_text(folder_path(state, "json.py"), "mine = 'a file of the name of a module'\n");
    for (int i = 0; i < p.count; i++) {
        for (size_t k = 0; k < sizeof mains / sizeof mains[0]; k++)
            assert_left_alone(state, p.path[i], mains[k][0], mains[k][1]);
    }
}

/* A sitecustomize of the user's own runs, and neither the guard's folder nor its name is seen. */
static void guard__leaves_a_sitecustomize_of_the_users_own_in_place__under_any_python(void **state)
{
    static struct pythons p[2];
    const char *before = getenv("PYTHONPATH"), *kept = before ? textf("%s", before) : NULL;
    pythons_find(&p[0]);
    pythons_find_old(&p[1]);
    write_text(folder_path(state, "sitecustomize.py"), "own = 7\n");
    setenv("PYTHONPATH", (const char *)*state, 1);
    for (int i = 0; i < p[0].count + p[1].count; i++) {
        struct cli r;
        const char *program = i < p[0].count ? p[0].path[i] : p[1].path[i - p[0].count];
        cli(&r, "guard", "--", program, "-c",
            "import sys, sitecustomize; print(sitecustomize.own); "
            "print([x for x in sys.path if 'assay_guard' in x])");
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, "7\n[]\n");
        assert_string_equal(r.err, "");
        cli_free(&r);
    }
    if (kept)
        setenv("PYTHONPATH", kept, 1);
    else
        unsetenv("PYTHONPATH");
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__leaves_a_program_alone__that_loses_nothing),
        FOLDER(guard__leaves_the_main_script_as_it_is__under_each_python),
        FOLDER(guard__leaves_a_sitecustomize_of_the_users_own_in_place__under_any_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
