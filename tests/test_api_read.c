/* test_api_read.c: the reader of contract files: what it takes, and that every mistake gets a
 * message with file, line and column. */
#include "compat/api.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good[] = "assay: 1\n"
                           "kind: api\n"
                           "library: {name: lib, source: lib.whl, sha256: ab}\n"
                           "extractor: \"1\"\n"
                           "for: {name: user, source: user.whl, sha256: cd}\n"
                           "problems:\n"
                           "  - {file: lib/x.py, line: 3, what: bad}\n"
                           "absent:\n"
                           "  lib.gone: [lib.here]\n"
                           "modules:\n"
                           "  lib:\n"
                           "    file: lib.py\n"
                           "    is: [partial]\n"
                           "    all: [f]\n"
                           "    stars: [os]\n"
                           "    lazy: {L: lib:f, M: \"\"}\n"
                           "    lazy_deprecated: old\n"
                           "    lazy_notices: {L: goes}\n"
                           "    absent: {g: [lib:f]}\n"
                           "lib:C:\n"
                           "  class: [lib.B]\n"
                           "  keywords: {kw: \"True\"}\n"
                           "  decorators: [deco]\n"
                           "  fields:\n"
                           "    - \"x: int = 0\"\n"
                           "    - field: \"y: int\"\n"
                           "      deprecated: soon\n"
                           "      when: [A]\n"
                           "  attrs: [z]\n"
                           "  others: [w]\n"
                           "  dynamic: setattr\n"
                           "lib:C.m:\n"
                           "  def: [self]\n"
                           "  binding: class\n"
                           "lib:a:\n"
                           "  alias: os\n"
                           "lib:f:\n"
                           "  -\n"
                           "    def: [x, \"y: int = 3\"]\n"
                           "    is: [async]\n"
                           "    returns: int\n"
                           "    shapes: [list if x, value]\n"
                           "    warns: [{text: goes, when: x}]\n"
                           "    deprecated: no\n"
                           "  -\n"
                           "    def: []\n"
                           "    when: [A]\n"
                           "lib:v:\n"
                           "  value: {type: int, is: \"3\", call: g}\n"
                           "lines:\n"
                           "  lib:\n"
                           "    C: [1, 2, 3, 4]\n"
                           "    C.m: [5]\n"
                           "    a: [6]\n"
                           "    f: [7, 8, 9, 10, 11]\n"
                           "    v: [12]\n";

static enum err_code parse(const char *text, struct api *out, struct arena *a, struct err *err)
{
    return api_parse(out, text, (int64_t)strlen(text), "c.yaml", a, err);
}

static void contract__is_read_whole(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api a;
    if (parse(good, &a, &arena, &err) != ERR_OK) assert_ok(&err);
    assert_string_equal(a.consumer.name, "user");
    assert_null(a.library.version);
    assert_int_equal(a.problem[0].line, 3);
    assert_string_equal(a.absent[0].now.text[0], "lib.here");
    const struct api_module *m = &a.module[0];
    assert_true(m->partial && m->has_all && !m->package);
    assert_string_equal(m->lazy[0].deprecated, "goes");
    assert_null(m->lazy[1].to);
    const struct api_class *c = api_name(&m->names, "C", 1)->def->class_;
    assert_string_equal(c->field[1].deprecated, "soon");
    assert_int_equal(c->field[1].line, 3);
    assert_int_equal(c->attr[0].line, 4);
    assert_true(c->partial);
    assert_int_equal(c->members.name[0].def->function->binding, API_CLASSMETHOD);
    const struct api_name *f = api_name(&m->names, "f", 1);
    assert_int_equal(f->defs, 2);
    assert_int_equal(f->def[0].function->shape[1].line, 9);
    assert_int_equal(f->def[0].function->warning[0].line, 10);
    assert_int_equal(f->def[1].line, 11);
    assert_string_equal(f->def[0].function->shape[0].when, "x");
    assert_string_equal(api_name(&m->names, "v", 1)->def->value.call, "g");
    arena_release(&arena, NULL);
}

static const struct {
    const char *from, *to, *where, *found;
} bad[] = {
    {"assay: 1\n", "assay: 2\n", "c.yaml:1:8", "2"},
    {"kind: api\n", "kind: op\n", "c.yaml:2:7", "op"},
    {"kind: api\n", "kind: api\nkinds: x\n", "c.yaml:3:1", "kinds"},
    {"extractor: \"1\"\n", "", "c.yaml:1:1", "a part is missing"},
    {"name: user, ", "", "c.yaml:1:1", "no name"},
    {"name: lib", "names: lib", "c.yaml:3:11", "names"},
    {", sha256: ab", "", "c.yaml:3", "a part is missing"},
    {"line: 3,", "line: three,", "c.yaml:7", "three"},
    {"what: bad", "when: bad", "c.yaml:7", "when"},
    {", what: bad", "", "c.yaml:7", "a part is missing"},
    {"problems:\n  - {file: lib/x.py, line: 3, what: bad}\n", "problems: x\n", "c.yaml:6",
     "a text"},
    {"[lib.here]", "lib.here", "c.yaml:9", "a text"},
    {"  lib:\n    file", "  l b:\n    file", "c.yaml:11:3", "l b"},
    {"    file: lib.py\n", "", "c.yaml:11:3", "no file"},
    {"is: [partial]", "is: [partly]", "c.yaml:13", "partly"},
    {"is: [partial]", "is: partial", "c.yaml:13", "a text"},
    {"    stars: [os]", "    star: [os]", "c.yaml:15", "star"},
    {"lazy_notices: {L", "lazy_notices: {N", "c.yaml:18", "N"},
    {"lib:C:\n", "lab:C:\n", "c.yaml:20:1", "not under modules"},
    {"  class: [lib.B]\n", "", "c.yaml:20:1", "no kind"},
    {"  class: [lib.B]\n", "  class: [lib.B]\n  def: []\n", "c.yaml:20:1", "two kinds"},
    {"x: int = 0", "x: int = ", "c.yaml:25", "nothing"},
    {"x: int = 0", "x: int = 0 # huh", "c.yaml:25", "a word"},
    {"field: \"y", "fields: \"y", "c.yaml:26", "fields"},
    {"    - \"x: int = 0\"\n", "    - [x]\n", "c.yaml:25", "a list"},
    {"attrs: [z]", "attrs: [\"z # huh\"]", "c.yaml:29", "neither"},
    {"lib:C.m:\n", "lib:D.m:\n", "c.yaml:32:1", "member of no class"},
    {"lib:C.m:\n", "lib:C@3.m:\n", "c.yaml:32:1", "member of no class"},
    {"lib:C.m:\n", "\"lib:C.m n\":\n", "c.yaml:32:2", "m n"},
    {"lib:C.m:\n", "lib:a.b.c.d.e.f.g.h.i.j:\n", "c.yaml:32:1", "nested too deep"},
    {"def: [self]", "def: [self, self b]", "c.yaml:33", "no identifier"},
    {"def: [self]", "def: [\"*\"]", "c.yaml:33", "parts nothing"},
    {"def: [self]", "defs: [self]", "c.yaml:32:1", "no kind"},
    {"binding: class", "binding: loose", "c.yaml:34", "loose"},
    {"alias: os", "alias: \"o s\"", "c.yaml:35", "o s"},
    {"alias: os", "alias: os\n  returns: x", "c.yaml:37", "returns"},
    {"is: [async]", "is: [sync]", "c.yaml:40", "sync"},
    {"list if x", "list of x", "c.yaml:42", "list of x"},
    {"list if x", "list if (x", "c.yaml:42", "list if (x"},
    {"{text: goes, when: x}", "{when: x}", "c.yaml:43", "no text"},
    {"{text: goes, when: x}", "{text: goes, then: x}", "c.yaml:43", "then"},
    {"  -\n    def: []\n    when: [A]\n", "", "c.yaml:37:1", "a list of one"},
    {"is: \"3\"", "has: \"3\"", "c.yaml:49", "has"},
    {"value: {", "value: [], x: {", "c.yaml:49", NULL},
    {"[1, 2, 3, 4]", "[1, 2, 3]", "c.yaml:52", "too few"},
    {"[1, 2, 3, 4]", "[1, 2, 3, 4, 5]", "c.yaml:52", "too many"},
    {"[1, 2, 3, 4]", "[1, 2, 3, -4]", "c.yaml:52", "-4"},
    {"[1, 2, 3, 4]", "[1, 2, 3, [4]]", "c.yaml:52", "no text"},
    {"    C.m: [5]\n", "", "c.yaml:53", "a"},
    {"    v: [12]\n", "", "c.yaml:51", "no more rows"},
    {"    v: [12]\n", "    v: [12]\n    w: [13]\n", "c.yaml:57", "w"},
    {"    v: [12]\n", "    v: 12\n", "c.yaml:56", "a text"},
    {"    v: [12]\n", "    v: [12]\n  mod: {}\n", "c.yaml:57", "mod"},
    {"lines:\n  lib:\n", "lines:\n  lab:\n", "c.yaml:51", "lab"},
    {"extractor: \"1\"", "extractor: &a \"1\"", "c.yaml:4", "an anchor"},
    {"extractor: \"1\"", "extractor: *a", "c.yaml:4", NULL},
    {"extractor: \"1\"", "extractor: !!int 1", "c.yaml:4", "a tag"},
    {"lib:v:\n", "lib:f:\n", "c.yaml:48:1", "a duplicate key"},
    {"lib:v:\n", "---\nlib:v:\n", "c.yaml", "a second document"},
    {"assay: 1\n", "%YAML 1.1\n---\nassay: 1\n", "c.yaml:1:1", "a directive"},
    {"returns: int", "returns: [[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]", "c.yaml:41", "levels"},
};

static void contract__is_refused_with_its_place__when_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct api a;
        char *text = replaced(good, bad[i].from, bad[i].to);
        if (parse(text, &a, &arena, &err) == ERR_OK)
            fail_msg("taken: %s -> %s", bad[i].from, bad[i].to);
        assert_err(&err, ERR_INPUT, NULL, bad[i].where, bad[i].found, NULL);
        assert_true(err.what[0] && err.found[0] && err.wanted[0]);
        arena_release(&arena, NULL);
        free(text);
    }
}

/* A bomb of aliases does not even begin to unfold, and any cut of the file is an error or a
 * contract, never more. */
static void contract__is_refused__when_hostile(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api a;
    assert_int_equal(
        parse("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n", &a, &arena, &err),
        ERR_INPUT);
    err_clear(&err);
    assert_int_equal(parse("", &a, &arena, &err), ERR_INPUT);
    err_clear(&err);
    assert_int_equal(parse("- a\n", &a, &arena, &err), ERR_INPUT);
    arena_release(&arena, NULL);
    for (size_t n = 1; n < sizeof good - 1; n += 7) {
        struct arena part = ARENA_INIT;
        err_clear(&err);
        (void)!api_parse(&a, good, (int64_t)n, "c.yaml", &part, &err);
        assert_true(err.code == ERR_OK || (err.what[0] && err.where[0]));
        arena_release(&part, NULL);
    }
}

static void contract__is_read_from_a_file(void **state)
{
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api a;
    assert_int_equal(api_read(&a, folder_path(state, "none.yaml"), &arena, &err), ERR_INPUT);
    err_clear(&err);
    write_text(folder_path(state, "c.yaml"), good);
    assert_int_equal(api_read(&a, folder_path(state, "c.yaml"), &arena, &err), ERR_OK);
    write_text(folder_path(state, "e.yaml"), "");
    assert_int_equal(api_read(&a, folder_path(state, "e.yaml"), &arena, &err), ERR_INPUT);
    arena_release(&arena, NULL);
}

/* Tens of thousands of symbols are read in a moment: looking for duplicates must not compare each
 * with each. A test that is not linear here would take minutes. */
static void contract__may_be_long(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api a;
    fputs("assay: 1\nkind: api\nlibrary: {source: x, sha256: y}\nextractor: \"1\"\n"
          "modules:\n  m:\n    file: m.py\n",
          f);
    for (int i = 0; i < 30000; i++) fprintf(f, "m:n%05d:\n  alias: os\n", i);
    fputs("lines:\n  m:\n", f);
    for (int i = 0; i < 30000; i++) fprintf(f, "    n%05d: [%d]\n", i, i);
    fclose(f);
    if (api_parse(&a, text, (int64_t)size, "c.yaml", &arena, &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(a.module[0].names.count, 30000);
    arena_release(&arena, NULL);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract__is_read_whole),
        cmocka_unit_test(contract__is_refused_with_its_place__when_wrong),
        cmocka_unit_test(contract__is_refused__when_hostile),
        cmocka_unit_test_setup_teardown(contract__is_read_from_a_file, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(contract__may_be_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
