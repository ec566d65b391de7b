/* test_guard.c: what a Python program loses, `assay guard` says: one small script for each way to
 * lose it, and scripts that lose nothing. Pass-through: tests/test_guard_run.c */
#include "tests/guarding.h"
#include "tests/pythons.h"

#include <stdio.h>
#include <string.h>

/* Its handler prints only the text of an assertion that has none. */
static const char story[] = "def load(sample):\n"
                            "    assert sample != 3\n"
                            "    return sample\n"
                            "def main():\n"
                            "    api_key, ids, done = 'k-123', list(range(8)), 0\n"
                            "    for a in range(0, 8, 4):\n"
                            "        b = a + 3\n"
                            "        try:\n"
                            "            for i in ids[a:b + 1]: load(i)\n"
                            "            done += 1\n"
                            "        except Exception as e:\n"
                            "            print(f\"ERROR in batch {a}-{b}: {e}\")\n"
                            "main()\n";

struct lost {
    const char *name, *rule, *type; /* type NULL: no exception is known */
    int line;                       /* of the raise; 0: not looked at */
    const char *script;
};

static const struct lost losses[] = {
    {"bare", "swallowed", "KeyError", 2, "try:\n    {}['a']\nexcept:\n    pass\n"},
    {"base", "swallowed", "ValueError", 2,
     "try:\n    raise ValueError('x')\nexcept BaseException:\n    n = 1\n"},
    {"bytes", "swallowed", "ValueError", 2,
     "try:\n    raise ValueError('\\udc80\\0')\nexcept Exception:\n    n = '\\udc80'\n"},
    {"empty", "empty_text", "ValueError", 2,
     "try:\n    raise ValueError('')\nexcept (KeyError, Exception) as e:\n    print(str(e))\n"},
    {"log", "empty_text", "AssertionError", 3,
     "import logging\ntry:\n    assert 0\nexcept Exception as e:\n    logging.error('bad: %s', "
     "e)\n"},
    {"conditional", "swallowed", "ValueError", 3,
     "def f(again):\n  try:\n    raise ValueError(1)\n  except Exception:\n    if again: raise\n"
     "f(False)\n"},
    {"said", "error_line", "ValueError", 2,
     "try:\n    raise ValueError('disk full')\nexcept Exception as e:\n    print('ERROR:', e)\n"},
    {"thread", "thread", "ValueError", 2,
     "import threading\ndef f(): raise ValueError(1)\nt = threading.Thread(target=f)\nt.start()\n"
     "t.join()\n"},
    {"future", "future", "ValueError", 2,
     "from concurrent.futures import ThreadPoolExecutor as T\ndef f(): raise ValueError(1)\n"
     "with T(1) as t: t.submit(f)\n"},
    {"task", "task", "ValueError", 2,
     "import asyncio\nasync def f(): raise ValueError(1)\nasync def g():\n"
     "    asyncio.create_task(f())\n    await asyncio.sleep(0.01)\nasyncio.run(g())\n"},
    {"del", "unraisable", "ValueError", 2,
     "class D:\n    def __del__(self): raise ValueError(1)\nd = D()\ndel d\n"},
    {"process", "child_status", "ValueError", 2,
     "import multiprocessing as m\ndef f(): raise ValueError(1)\nif __name__ == '__main__':\n"
     "    p = m.get_context('spawn').Process(target=f)\n    p.start()\n    p.join()\n"},
    {"fork", "child_status", NULL, 0,
     "import multiprocessing as m, os\ndef f(): os._exit(3)\nif __name__ == '__main__':\n"
     "    p = m.get_context('fork').Process(target=f)\n    p.start()\n    p.join()\n"},
    {"killed", "worker_died", NULL, 0,
     "import multiprocessing as m, os, time\ndef f(x): os.kill(os.getpid(), 9)\n"
     "if __name__ == '__main__':\n    p = m.Pool(1)\n    pid = p._pool[0].pid\n"
     "    p.apply_async(f, (1,))\n"
     "    while not p._pool or p._pool[0].pid == pid: time.sleep(0.01)\n    p.terminate()\n"},
    {"carried", "pickle", "__main__.E", 5,
     "from concurrent.futures import ProcessPoolExecutor as P\nclass E(Exception):\n"
     "    def __init__(self, a, b): super().__init__(a)\ndef f():\n    raise E(1, 2)\n"
     "if __name__ == '__main__':\n  with P(1) as p:\n    try: p.submit(f).result()\n"
     "    except RuntimeError as e: print(repr(e))\n"},
    {"run", "child_status", NULL, 2, "import subprocess\nsubprocess.run(['false'])\n"},
    {"popen", "child_status", NULL, 0,
     "import subprocess\np = subprocess.Popen(['sh', '-c', 'exit 4'])\np.communicate()\n"},
    {"exit", "exit_zero", "ValueError", 3,
     "import sys\ntry:\n    raise ValueError(1)\nexcept Exception as e:\n    print(repr(e))\n"
     "    sys.exit(0)\n"},
    {"_exit", "exit_zero", "ValueError", 3,
     "import os\ntry:\n    raise ValueError(1)\nexcept Exception:\n    os._exit(0)\n"},
};

/* Runs a script under guard; the result object is r->json. */
static void guarded(void **state, struct cli *r, const char *program, const char *name,
                    const char *script)
{
    const char *path = folder_path(state, name);
    write_text(path, script);
    cli(r, "guard", "--json", "--", program, path);
    if (!r->json) fail_msg("%s: no JSON: %s", name, r->out);
}

static void assert_lost(void **state, const char *program, const struct lost *l)
{
    struct cli r;
    guarded(state, &r, program, textf("%s.py", l->name), l->script);
    const json_t *one = guarding_finding(&r, l->rule);
    if (!one || json_array_size(field(r.json, "findings")) != 1 || r.status != 1)
        fail_msg("%s: exit %d: %s\n%s", l->name, r.status, r.out, r.err);
    if (l->type) {
        assert_string_equal(field_text(one, "type"), l->type);
        assert_non_null(strstr(field_text(one, "file"), l->name));
        assert_true(json_array_size(field(one, "trace")) >= 2);
    }
    if (l->line) assert_int_equal(field_int(one, "line"), l->line);
    assert_int_equal(field_int(r.json, "command_exit"), 0);
    assert_int_equal(field_int(r.json, "own_errors"), 0);
    cli_free(&r);
}

static void guard__names_what_was_lost__in_each_way_to_lose_it(void **state)
{
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++)
        assert_lost(state, guarding_python(), &losses[i]);
}

static void guard__names_the_assertion_behind_the_empty_line__under_each_python(void **state)
{
    static struct pythons p;
    pythons_find(&p);
    assert_true(p.count > 0);
    for (int i = 0; i < p.count; i++) {
        struct cli r;
        guarded(state, &r, p.path[i], "story.py", story);
        assert_int_equal(r.status, 1);
        assert_string_equal(r.err, "ERROR in batch 0-3: \n");
        assert_int_equal(json_array_size(field(r.json, "findings")), 1);
        const json_t *one = guarding_finding(&r, "empty_text");
        assert_non_null(one);
        assert_string_equal(field_text(one, "type"), "AssertionError");
        assert_int_equal(field_int(one, "line"), 2);
        assert_string_equal(field_text(one, "function"), "load");
        assert_int_equal(field_int(field(one, "handler"), "line"), 11);
        assert_string_equal(field_text(one, "said"), "ERROR in batch 0-3: ");
        const json_t *locals = field(field(one, "locals"), "main (story.py:4)");
        assert_string_equal(field_text(locals, "a"), "0");
        assert_string_equal(field_text(locals, "b"), "3");
        assert_string_equal(field_text(locals, "api_key"), "<hidden>");
        assert_string_equal(field_text(field(field(one, "locals"), "load (story.py:1)"), "sample"),
                            "3");
        cli_free(&r);
    }
}

static void guard__says_it_on_one_screen__in_words(void **state)
{
    struct cli r;
    const char *path = folder_path(state, "story.py");
    write_text(path, story);
    cli(&r, "guard", "--", guarding_python(), path);
    assert_int_equal(r.status, 1);
    assert_string_equal(r.out, "ERROR in batch 0-3: \n");
    assert_true(strncmp(r.err, "assay guard: FAIL: 1 lost", 25) == 0);
    assert_non_null(strstr(r.err, "AssertionError: caught, and reported with an empty text"));
    assert_non_null(strstr(r.err, "story.py:2 in load"));
    assert_non_null(strstr(r.err, "b = 3"));
    cli_free(&r);
}

static void guard__counts_what_happens_again(void **state)
{
    struct cli r;
    guarded(state, &r, guarding_python(), "often.py",
            "for i in range(1000):\n  try:\n    [][i]\n  except Exception:\n    pass\n");
    assert_int_equal(json_array_size(field(r.json, "findings")), 1);
    assert_int_equal(field_int(guarding_finding(&r, "swallowed"), "count"), 1000);
    cli_free(&r);
}

static void guard__shows_the_chain_of_causes(void **state)
{
    struct cli r;
    guarded(state, &r, guarding_python(), "chain.py",
            "def f():\n  try:\n    {}['deep']\n  except KeyError as e:\n"
            "    raise ValueError('top') from e\ntry: f()\nexcept Exception: pass\n");
    const json_t *trace = field(guarding_finding(&r, "swallowed"), "trace");
    assert_int_equal(times_in(trace, "KeyError: 'deep'"), 1);
    assert_int_equal(times_in(trace, "ValueError: top"), 1);
    cli_free(&r);
}

static void guard__looks_into_installed_packages__only_when_told(void **state)
{
    struct cli r;
    const char *site = folder_path(state, "site-packages"), *script = folder_path(state, "m.py");
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(site, &err), ERR_OK);
    write_text(textf("%s/boat.py", site), "def f():\n  try: {}[1]\n  except Exception: pass\n");
    write_text(script,
               textf("import sys\nsys.path.insert(0, '%s')\nimport boat\nboat.f()\n", site));
    cli(&r, "guard", "--json", "--", guarding_python(), script);
    assert_int_equal(r.status, 0);
    cli_free(&r);
    cli(&r, "guard", "--json", "--also", "oar", "--also", "boat", "--", guarding_python(), script);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(field_text(guarding_finding(&r, "swallowed"), "file"), "boat.py"));
    cli_free(&r);
}

/* A package that nobody names: a handler that swallows, one after a narrow one, retries that
 * succeed, raise and are spent; and what is fine. */
static const char boat[] = "def quiet():\n  try: {}[1]\n  except Exception: pass\n"
                           "def typed():\n  try: [][1]\n  except KeyError: pass\n"
                           "  except (OSError, Exception): n = 0\n"
                           "def again(n):\n  for i in range(3):\n    try:\n"
                           "      if i < n: raise OSError(1)\n"
                           "      return i\n    except Exception:\n      if i == 2:\n"
                           "        raise\n"
                           "def spent():\n  for i in range(3):\n    try:\n      raise OSError(2)\n"
                           "      return i\n    except Exception:\n      pass\n"
                           "def fine():\n  try: {}[1]\n  except KeyError: pass\n"
                           "  except Exception: pass\n  try: {}[1]\n"
                           "  except Exception as e: print(repr(e))\n"
                           "  try:\n    try: {}[1]\n    finally: n = 1\n"
                           "  except BaseException as e: print(type(e))\n";

static void assert_deep(void **state, const char *program, int version, const char *script)
{
    static const int lines[] = {2, 5, 19}; /* of the raise */
    struct cli r;
    (void)state;
    cli(&r, "guard", "--json", "--deep", "--", program, script);
    const json_t *list = field(r.json, "findings");
    assert_int_equal(field_int(r.json, "own_errors"), 0);
    if (version < 312) {
        assert_int_equal(json_array_size(list), 0);
        assert_int_equal(json_array_size(field(r.json, "shallow")), 1);
        assert_non_null(strstr(r.err, "has no sys.monitoring"));
    } else {
        if (json_array_size(list) != 3) fail_msg("%s: %s", program, r.out);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(field_int(json_array_get(list, i), "line"), lines[i]);
        assert_int_equal(field_int(json_array_get(list, 2), "count"), 3);
        assert_null(json_object_get(r.json, "shallow"));
    }
    cli_free(&r);
}

static void guard__sees_handlers_of_all_packages__when_deep(void **state)
{
    static struct pythons p;
    char script[FILE_PATH];
    const char *site = folder_path(state, "site-packages");
    struct err err = ERR_INIT;
    snprintf(script, sizeof script, "%s", folder_path(state, "m.py"));
    assert_int_equal(file_make_folder(site, &err), ERR_OK);
    write_text(textf("%s/boat.py", site), boat);
    write_text(script, textf("import sys\nsys.path.insert(0, '%s')\nimport boat\nboat.quiet()\n"
                             "boat.typed()\nfor n in 0, 1, 2: boat.again(n)\n"
                             "try: boat.again(3)\nexcept OSError as e: print(repr(e))\n"
                             "boat.spent()\nboat.fine()\n",
                             site));
    pythons_find(&p);
    for (int i = 0; i < p.count; i++) assert_deep(state, p.path[i], p.version[i], script);
}

static void guard__sees_modules_and_packages_run_by_name(void **state)
{
    struct cli r;
    write_text(folder_path(state, "shore.py"), "try: {}[1]\nexcept Exception: pass\n");
    cli(&r, "guard", "--json", "--", "sh", "-c",
        textf("cd %s && exec %s -m shore", (const char *)*state, guarding_python()));
    assert_int_equal(r.status, 1);
    assert_non_null(guarding_finding(&r, "swallowed"));
    cli_free(&r);
}

static void guard__marks_what_is_known_to_be_harmless__and_passes(void **state)
{
    struct cli r;
    guarded(state, &r, guarding_python(), "harmless.py",
            "try:\n    import triton_kernels.x; triton_kernels.y()\nexcept Exception: pass\n");
    assert_int_equal(r.status, 0);
    assert_int_equal(field_int(r.json, "harmless"), 1);
    assert_non_null(strstr(field_text(guarding_finding(&r, "swallowed"), "harmless"), "Marlin"));
    cli_free(&r);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__names_what_was_lost__in_each_way_to_lose_it),
        FOLDER(guard__names_the_assertion_behind_the_empty_line__under_each_python),
        FOLDER(guard__says_it_on_one_screen__in_words),
        FOLDER(guard__counts_what_happens_again),
        FOLDER(guard__shows_the_chain_of_causes),
        FOLDER(guard__looks_into_installed_packages__only_when_told),
        FOLDER(guard__sees_handlers_of_all_packages__when_deep),
        FOLDER(guard__sees_modules_and_packages_run_by_name),
        FOLDER(guard__marks_what_is_known_to_be_harmless__and_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
