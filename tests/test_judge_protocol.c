/* test_judge_protocol.c: what Python does by itself with a thing of a library, of a few lines each:
 * decorators, `with`, `for`, items of an enum, bases, exceptions, classes that cannot be made.
 * Against the source and against a contract of it that holds only what the consumer reaches. The
 * extractor is a Python program. */
#include "tests/contract_expect.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINES = 3 };

struct row {
    const char *library, *consumer;
    int line[LINES];  /* that are broken, in order; 0 at the end */
    const char *why;  /* of the first of them */
    const char *was;  /* the library that the consumer is known to fit, or NULL */
    bool undecidable; /* and not broken */
};

static const struct row rows[] = {
    /* A decorator is called with what it stands over. */
    {.library = "def trace(*, name):\n    return lambda fn: fn\n",
     .consumer = "from bell import trace\n@trace\ndef f(): pass\n@trace\nclass K: pass\n"
                 "@trace(name='x')\ndef g(): pass\n",
     .line = {2, 4},
     .why = "1 positional arguments where at most 0 are taken"},
    {.library =
         "class T:\n    def on(self, name, fn): return fn\n    def off(self, fn): return fn\n",
     .consumer = "from bell import T\nt = T()\n@t.on\ndef f(): pass\n@t.off\ndef g(): pass\n",
     .line = {3},
     .why = "missing required argument fn"},
    {.library = "class trace:\n    def __init__(self, fn, level): pass\n",
     .consumer = "from bell import trace\nclass K:\n    @trace\n    def f(self): pass\n",
     .line = {3},
     .why = "missing required argument level"},
    {.library = "def trace(name, *, level=0):\n    return lambda fn: fn\n",
     .consumer = "from bell import trace\n@trace\ndef f(): pass\n",
     .was = "def trace(fn):\n    return fn\n",
     .line = {2},
     .why = "positional argument 1 goes to name, it was fn in the baseline"},
    {.library = "def trace(func): return func\n",
     .consumer = "from bell import trace\n@trace\ndef f(): pass\n",
     .was = "def trace(fn): return fn\n"},
    /* Items of an enum. */
    {.library = "from enum import Enum\nclass M(Enum):\n    A = 1\n",
     .consumer = "from bell import M\nM['B']\nM['A']\nM.A\nM.B\nfor m in M: print(m.name)\n",
     .line = {2, 5},
     .why = "bell.M has no attribute B"},
    {.library = "from enum import Enum, EnumMeta\nclass Any(EnumMeta):\n"
                "    def __getitem__(cls, name): return 1\n"
                "class M(Enum, metaclass=Any):\n    A = 1\n",
     .consumer = "from bell import M\nM['B']\n"},
    {.library = "class M:\n    def __class_getitem__(cls, name): return 1\n",
     .consumer = "from bell import M\nM['B']\n"},
    /* Bases and exceptions. */
    {.library = "def K(a): return a\nclass E: pass\nclass F(Exception): pass\n",
     .consumer = "from bell import K, E, F\nclass L(K): pass\ntry: print()\nexcept (F, K): pass\n"
                 "try: print()\nexcept E: pass\n",
     .line = {2, 4, 6},
     .why = "a function, inherited from as a class"},
    {.library =
         "from elsewhere import made, Base\n@made\ndef K(a): return a\nclass E(Base): pass\n",
     .consumer = "from bell import K, E\nclass L(K): pass\ntry: print()\nexcept E: pass\n"},
    /* Classes that cannot be made. */
    {.library = "from abc import ABC, abstractmethod\nclass K(ABC):\n    @abstractmethod\n"
                "    def f(self): pass\nclass L(K):\n    def f(self): pass\n",
     .consumer = "from bell import K, L\nL()\nK()\nclass M(K):\n    def f(self): pass\nM()\n",
     .line = {3},
     .why = "bell.K is abstract and cannot be made: f has no body"},
    {.library = "from abc import ABC, ABCMeta, abstractmethod\nclass K(metaclass=ABCMeta):\n"
                "    @abstractmethod\n    def f(self): pass\nclass L(ABC):\n"
                "    def __new__(cls): return 1\n    @abstractmethod\n    def f(self): pass\n"
                "class M:\n    @abstractmethod\n    def f(self): pass\n"
                "class Meta(type): pass\nclass N(metaclass=Meta):\n    @abstractmethod\n    def "
                "f(self): pass\n",
     .consumer = "from bell import K, L, M, N\nL()\nM()\nK()\nN()\n",
     .line = {4},
     .why = "bell.K is abstract and cannot be made: f has no body"},
    /* Fields that cannot be set. */
    {.library =
         "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass K:\n    a: int = 1\n"
         "@dataclass(order=True)\nclass L:\n    a: int = 1\n",
     .consumer = "from bell import K, L\nk = K()\nk.a = 2\nl = L()\nl.a = 2\nprint(k.a)\n",
     .line = {3},
     .why = "a field of a frozen dataclass is assigned"},
    /* with and for. */
    {.library = "def f(a):\n    yield a\n",
     .consumer =
         "from bell import f\nwith f(1) as x: pass\nf(1)[0]\nlen(f(1))\nfor x in f(1): pass\n",
     .line = {2, 3, 4},
     .why = "returns a generator, which is no context manager"},
    {.library = "from contextlib import contextmanager\n@contextmanager\ndef f(a):\n    yield a\n",
     .consumer = "from bell import f\nwith f(1) as x: pass\n"},
    {.library = "def f(a):\n    return a\n",
     .consumer = "from bell import f\nwith f(1) as x: pass\n",
     .was = "from contextlib import contextmanager\n@contextmanager\ndef f(a):\n    yield a\n",
     .line = {2},
     .undecidable = true,
     .why = "a context manager in the baseline by its decorator, which it has not now"},
    {.library = "class K:\n    async def __aenter__(self): return self\n"
                "    async def __aexit__(self, *a): pass\n    async def __aiter__(self): yield 1\n",
     .consumer = "from bell import K\nwith K(): pass\nasync def g():\n    async with K(): pass\n"
                 "    async for x in K(): pass\nfor x in K(): pass\n",
     .line = {2, 6},
     .why = "bell.K has no attribute __enter__"},
    {.library =
         "class K:\n    def __getitem__(self, i): return 1\n    def __enter__(self): return 1\n"
         "    def __exit__(self, *a): pass\nclass L:\n    def items(self): return []\n",
     .consumer = "from bell import K, L\nfor x in K(): pass\nwith K(): pass\nfor x in L(): pass\n",
     .line = {4},
     .why = "bell.L has no attribute __iter__"},
};

static const char *library(void **state, const char *folder, const char *text)
{
    static char path[2][FILE_PATH];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s", folder_path(state, folder));
    (void)!mkdir(path[turn], 0700);
    write_text(textf("%s/bell.py", path[turn]), text);
    return path[turn];
}

static void judge(const struct row *row, const char *consumer, const char *against, const char *was)
{
    struct cli r;
    int n = 0;
    if (was)
        cli(&r, "contract", "check", consumer, "--against", against, "--baseline", was, "--json");
    else
        cli(&r, "contract", "check", consumer, "--against", against, "--json");
    const json_t *all = field(r.json, "findings");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *f = json_array_get(all, i);
        const char *verdict = field_text(f, "verdict");
        if (strcmp(verdict, "ok") == 0) continue;
        int line = (int)json_integer_value(field(f, "line"));
        if (n == LINES || line != row->line[n] ||
            strcmp(verdict, row->undecidable ? "undecidable" : "broken") != 0)
            fail_msg("%s\n%s against %s: line %d: %s: %s", row->library, row->consumer, against,
                     line, verdict, field_text(f, "why"));
        if (n++ == 0) assert_string_equal(field_text(f, "why"), row->why);
    }
    if (n < LINES && row->line[n])
        fail_msg("%s\n%s against %s: nothing at line %d", row->library, row->consumer, against,
                 row->line[n]);
    cli_free(&r);
}

static void break__is_found__where_no_call_is_written(void **state)
{
    expect_python();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli r;
        char consumer[FILE_PATH], contract[FILE_PATH];
        snprintf(consumer, sizeof consumer, "%s", folder_path(state, "consumer.py"));
        snprintf(contract, sizeof contract, "%s", folder_path(state, "contract.yaml"));
        write_text(consumer, rows[i].consumer);
        const char *now = library(state, "new", rows[i].library);
        const char *was = rows[i].was ? library(state, "old", rows[i].was) : NULL;
        judge(&rows[i], consumer, now, was);
        cli(&r, "contract", "record", now, "--out", contract, "--for", consumer);
        assert_int_equal(r.status, 0);
        cli_free(&r);
        judge(&rows[i], consumer, contract, was);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        break__is_found__where_no_call_is_written, folder_setup, folder_teardown)};
    return cmocka_run_group_tests_name("judge_protocol", tests, NULL, NULL);
}
