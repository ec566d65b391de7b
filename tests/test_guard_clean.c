/* test_guard_clean.c: programs that lose nothing are left alone: no finding, the same streams, the
 * same exit status. */
#include "tests/guarding.h"
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

/* The same script with and without guard. */
static void assert_left_alone(void **state, const char *program, const char *script)
{
    const char *path = folder_path(state, "clean.py");
    write_text(path, script);
    guarding_left_alone(state, program, path);
}

static void guard__leaves_a_program_alone__that_loses_nothing(void **state)
{
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++)
        assert_left_alone(state, guarding_python(), clean[i][1]);
}

static void guard__leaves_the_main_script_as_it_is__under_each_python(void **state)
{
    static struct pythons p;
    pythons_find(&p);
    write_text(folder_path(state, "json.py"), "mine = 'a file of the name of a module'\n");
    for (int i = 0; i < p.count; i++) {
        for (size_t k = 0; k < sizeof mains / sizeof mains[0]; k++)
            assert_left_alone(state, p.path[i], mains[k][1]);
    }
}

/* Its log is gone, it cannot be written, its own code is broken: the program goes on as without. */
static void guard__changes_nothing__where_it_fails_itself(void **state)
{
    static const char *const scripts[] = {
        "import os\nos.unlink(os.environ['ASSAY_GUARD_LOG'])\n",
        "import os\np = os.environ['ASSAY_GUARD_LOG']\nos.unlink(p)\nos.mkdir(p)\n",
        "import sys\nsys.modules['assay_guard.record'].Fold = None\n"
        "sys.modules['assay_guard.log']._append = None\n",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct cli r;
        const char *path = folder_path(state, "broken.py");
        write_text(path, textf("%stry: {}[1]\nexcept Exception: pass\nprint('goes on')\n"
                               "raise SystemExit(5)\n",
                               scripts[i]));
        cli(&r, "guard", "--report", folder_path(state, "report"), "--", guarding_python(), path);
        assert_int_equal(r.status, 5);
        assert_string_equal(r.out, "goes on\n");
        assert_string_equal(r.err, "");
        cli_free(&r);
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
        FOLDER(guard__changes_nothing__where_it_fails_itself),
        FOLDER(guard__leaves_a_sitecustomize_of_the_users_own_in_place__under_any_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
