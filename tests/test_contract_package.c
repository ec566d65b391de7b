/* test_contract_package.c: `contract check` of a consumer of several modules: names that reach it
 * through its own modules and star imports, and receivers typed in every way. A line that ends in
 * "# broken" is broken, any other is not. */
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

static const char library[] = "from typing import Iterator, Optional\n"
                              "class Item:\n"
                              "    def __init__(self, size: int = 0):\n"
                              "        self.size = size\n"
                              "    def use(self) -> int:\n"
                              "        return 1\n"
                              "class Box:\n"
                              "    lid = 1\n"
                              "    def __getitem__(self, i) -> Item:\n"
                              "        return Item(i)\n"
                              "    def __iter__(self) -> Iterator[Item]:\n"
                              "        yield Item(1)\n"
                              "    def __enter__(self) -> Item:\n"
                              "        return Item(1)\n"
                              "    def __exit__(self, *rest):\n"
                              "        return None\n"
                              "    async def fetch(self) -> Item:\n"
                              "        return Item(2)\n"
                              "    def all(self) -> list[Item]:\n"
                              "        return [Item(1)]\n"
                              "    def table(self) -> dict[str, Item]:\n"
                              "        return {'a': Item(1)}\n"
                              "    def pair(self) -> tuple[Item, int]:\n"
                              "        return Item(1), 2\n"
                              "    def maybe(self) -> Optional[Item]:\n"
                              "        return None\n"
                              "    def close(self, hard=False):\n"
                              "        return None\n"
                              "def open_box(path) -> Box:\n"
                              "    return Box()\n";

static const char names[] = "from lib import Box, Item, open_box\n"
                            "from lib import *\n"
                            "class Crate(Box):\n"
                            "    def label(self) -> str:\n"
                            "        return ''\n"
                            "def crate() -> Crate:\n"
                            "    return Crate()\n";

static const char receivers[] = "import asyncio\n"
                                "from typing import Annotated, Final, List, Optional, Type, Union\n"
                                "from .names import *\n"
                                "from . import names\n"
                                "from .names import crate as make\n"
                                "import app.names as whole\n"
                                "box = open_box('x')\n"
                                "box.gone()  # broken\n"
                                "box[0].use1()  # broken\n"
                                "box.all()[0].use2()  # broken\n"
                                "box.table()['a'].use3()  # broken\n"
                                "box.pair()[0].use4()  # broken\n"
                                "first, second = box.pair()\n"
                                "first.use5()  # broken\n"
                                "for item in box:\n"
                                "    item.use6()  # broken\n"
                                "for at, item in enumerate(box.all()):\n"
                                "    item.use7()  # broken\n"
                                "for one, other in zip(box.all(), box):\n"
                                "    other.use8()  # broken\n"
                                "with box as inner:\n"
                                "    inner.use9()  # broken\n"
                                "async def fetch():\n"
                                "    item = await box.fetch()\n"
                                "    item.use10()  # broken\n"
                                "asyncio.run(box.fetch()).use11()  # broken\n"
                                "next(iter(box.all()))\n"
                                "sorted(box.all())[0]\n"
                                "names.Item(1).use12()  # broken\n"
                                "whole.Box().use13()  # broken\n"
                                "make().label()\n"
                                "make().close(soft=True)  # broken\n"
                                "make().close(hard=True)\n"
                                "class Pack(names.Crate):\n"
                                "    def close(self, hard=False):\n"
                                "        return super().close(fast=hard)  # broken\n"
                                "    def shut(self):\n"
                                "        self.lock()  # broken\n"
                                "        return self.label()\n"
                                "def typed(a: Item, b: Optional[Item], c: Union[Item, None],\n"
                                "          d: List[Item], e: 'Item', f: Annotated[Item, 1],\n"
                                "          g: Type[Item], h: Item | None, i: 'list[Item]'):\n"
                                "    a.use20()  # broken\n"
                                "    if b:\n"
                                "        b.use()\n"
                                "    d[0].use()\n"
                                "    i[0].use()\n"
                                "    e.use24()  # broken\n"
                                "    f.use25()  # broken\n"
                                "    g(size=1)\n"
                                "    g(weight=1)  # broken\n"
                                "    h.use()\n";

static const char specials[] = "import functools\n"
                               "import importlib\n"
                               "import importlib.util\n"
                               "from typing import cast\n"
                               "from unittest import mock\n"
                               "import lib\n"
                               "from lib import Box, Item\n"
                               "if hasattr(lib, 'shelf'):\n"
                               "    lib.shelf()\n"
                               "if hasattr(Item, 'use'):\n"
                               "    Item(1).use(2)  # broken\n"
                               "getattr(Item(1), 'used')  # broken\n"
                               "getattr(lib, 'shelf', None)\n"
                               "cast(Item, object()).used()  # broken\n"
                               "cast('Item', object()).use()\n"
                               "importlib.import_module('lib.deep')  # broken\n"
                               "importlib.import_module('lib').open_crate()  # broken\n"
                               "if importlib.util.find_spec('lib.deep'):\n"
                               "    from lib.deep import thing\n"
                               "mock.patch('lib.shelf')  # broken\n"
                               "mock.patch('lib.Box')\n"
                               "mock.patch('lib.shelf', create=True)\n"
                               "mock.patch.object(Item, 'used')  # broken\n"
                               "mock.patch.object(Item, 'use')\n"
                               "type(Item(1))(weight=2)  # broken\n"
                               "functools.partial(Item, 1)(2)  # broken\n"
                               "functools.partial(Item)(size=2)\n"
                               "kw = {'size': 1, 'weight': 2}\n"
                               "kw.pop('weight')\n"
                               "Item(**kw)\n"
                               "kw['mass'] = 3\n"
                               "Item(**kw)  # broken\n"
                               "Item(**dict(size=1))\n"
                               "def test_it(monkeypatch):\n"
                               "    monkeypatch.setattr('lib.shelf', 1)  # broken\n"
                               "    monkeypatch.setattr(lib, 'shelf', 1, raising=False)\n"
                               "match Box():\n"
                               "    case Item():\n"
                               "        pass\n"
                               "    case _:\n"
                               "        Box().slam()  # broken\n";

struct file {
    const char *name, *text;
};
static const struct file files[] = {{"__init__.py", ""},
                                    {"names.py", names},
                                    {"receivers.py", receivers},
                                    {"special.py", specials}};

/* Is some broken finding at that line, alone or among others of the same cause? */
static bool is_broken(const json_t *result, const char *file, int line)
{
    size_t i, k;
    json_t *f, *also;
    json_array_foreach(field(result, "findings"), i, f)
    {
        if (strcmp(field_text(f, "verdict"), "broken") != 0 || !strstr(field_text(f, "file"), file))
            continue;
        if (field_int(f, "line") == line) return true;
        json_array_foreach(field(f, "also"), k, also)
        {
            if (json_integer_value(also) == line) return true;
        }
    }
    return false;
}

/* How many lines are judged otherwise than they say. */
static int wrong_lines(const json_t *result, const struct file *f)
{
    int wrong = 0, line = 1;
    for (const char *at = f->text; *at; line++) {
        const char *end = strchr(at, '\n'), *mark = strstr(at, "# broken");
        bool want = mark && mark < end, is = is_broken(result, f->name, line);
        if (want != is)
            print_error("%s:%d: %s: %.*s\n", f->name, line, is ? "broken" : "not broken",
                        (int)(end - at), at);
        wrong += want != is;
        at = end + 1;
    }
    return wrong;
}

static void check__judges_each_line_of_a_package(void **state)
{
    struct err err = ERR_INIT;
    const char *app = textf("%s", folder_path(state, "app"));
    const char *lib = textf("%s", folder_path(state, "lib.py"));
    int wrong = 0;
    assert_int_equal(file_make_folder(app, &err), ERR_OK);
    write_text(lib, library);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        write_text(textf("%s/%s", app, files[i].name), files[i].text);
    const char *const argv[] = {"contract", "check", app, "--against", lib, "--json", NULL};
    struct cli r;
    cli_run(&r, argv);
    assert_int_equal(r.status, 1);
    assert_non_null(r.json);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        wrong += wrong_lines(r.json, &files[i]);
    assert_int_equal(wrong, 0);
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check__judges_each_line_of_a_package, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
