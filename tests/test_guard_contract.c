/* test_guard_contract.c: replies that break a recorded contract: a list where a value was promised,
 * a value where a list was, nothing at all. */
#include "harness/guard_contract.h"
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

/* As it was recorded, and as it behaves now. */
static const char recorded[] = "class Executor:\n"
                               "    def rpc(self, method, rank=None):\n"
                               "        replies = [1]\n"
                               "        if rank is not None:\n"
                               "            return replies[0]\n"
                               "        return [r for r in replies]\n"
                               "    def other(self):\n"
                               "        return [1]\n"
                               "class Worker:\n"
                               "    def reset(self) -> None: ...\n"
                               "    def states(self) -> list[int]: ...\n";
static const char now[] = "class Executor:\n"
                          "    reply = None\n"
                          "    def rpc(self, method, rank=None):\n"
                          "        return self.reply\n"
                          "    def other(self):\n"
                          "        return None\n";

/* Runs `reply`, then a call, against the contract; the message of the one finding, or "". */
static const char *broken(void **state, const char *reply, const char *call)
{
    struct cli r;
    const char *python = getenv("ASSAY_PYTHON"), *message = "";
    const char *script = folder_path(state, "main.py");
    write_text(folder_path(state, "ship.py"), now);
    write_text(script,
               textf("import ship\ne = ship.Executor()\ne.reply = %s\ne.%s\n", reply, call));
    cli(&r, "guard", "--json", "--contract", folder_path(state, "lib/ship.py"), "--",
        python ? python : "python3", script);
    if (!r.json) fail_msg("%s", r.err);
    assert_int_equal(field_int(r.json, "own_errors"), 0);
    const json_t *list = field(r.json, "findings");
    assert_true(json_array_size(list) <= 1);
    assert_int_equal(r.status, json_array_size(list));
    if (json_array_size(list)) {
        assert_string_equal(field_text(json_array_get(list, 0), "rule"), "contract");
        assert_int_equal(field_int(json_array_get(list, 0), "line"), 4);
        message = textf("%s", field_text(json_array_get(list, 0), "message"));
    }
    cli_free(&r);
    return message;
}

static void record_library(void **state)
{
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(folder_path(state, "lib"), &err), ERR_OK);
    write_text(folder_path(state, "lib/ship.py"), recorded);
}

static void guard__reports_a_reply__that_breaks_the_contract(void **state)
{
    record_library(state);
    assert_string_equal(broken(state, "[7]", "rpc('states', rank=0)"),
                        "Executor.rpc('states') gave a list of 1 where a value was promised");
    assert_string_equal(broken(state, "7", "rpc('states')"),
                        "Executor.rpc('states') gave a int where a list was promised");
    assert_string_equal(broken(state, "None", "rpc('states')"),
                        "Executor.rpc('states') gave None where a list was promised");
    assert_string_equal(broken(state, "None", "rpc('states', 0)"),
                        "Executor.rpc('states') gave None where a value was promised");
    assert_string_equal(broken(state, "[]", "rpc('states')"),
                        "Executor.rpc('states') gave an empty list");
}

static void guard__says_nothing__of_what_the_contract_allows(void **state)
{
    record_library(state);
    assert_string_equal(broken(state, "[7]", "rpc('states')"), "");
    assert_string_equal(broken(state, "7", "rpc('states', rank=3)"), "");
    assert_string_equal(broken(state, "None", "rpc('reset', rank=3)"), "");
    assert_string_equal(broken(state, "None", "other()"), "");
}

static void guard__looks_into_the_consumer__that_the_contract_is_for(void **state)
{
    static const char hull[] = "import ship\ndef sail():\n    try:\n"
                               "        ship.Executor().rpc('states')\n        {}[1]\n"
                               "    except Exception:\n        pass\n";
    struct cli r;
    struct err err = ERR_INIT;
    const char *folder = *state, *python = getenv("ASSAY_PYTHON");
    const char *script = textf("%s/main.py", folder), *contract = textf("%s/c.yaml", folder);
    const char *site = textf("%s/site-packages", folder);
    record_library(state);
    assert_int_equal(file_make_folder(site, &err), ERR_OK);
    assert_int_equal(file_make_folder(textf("%s/hull", site), &err), ERR_OK);
    write_text(textf("%s/hull/__init__.py", site), hull);
    write_text(folder_path(state, "ship.py"), now);
    write_text(script, textf("import sys\nsys.path.append('%s')\nimport ship, hull\n"
                             "ship.Executor.reply = [1]\nhull.sail()\n",
                             site));
    cli(&r, "contract", "record", folder_path(state, "lib/ship.py"), "--for",
        textf("%s/hull", site), "--out", contract);
    if (r.status != 0) fail_msg("%s", r.err);
    cli_free(&r);
    cli(&r, "guard", "--json", "--contract", contract, "--", python ? python : "python3", script);
    if (r.status != 1) fail_msg("%s%s", r.out, r.err);
    const json_t *one = json_array_get(field(r.json, "findings"), 0);
    assert_string_equal(field_text(one, "rule"), "swallowed");
    assert_int_equal(field_int(one, "line"), 5);
    cli_free(&r);
}

static void guard__refuses_a_contract_that_cannot_be_read__before_the_command_runs(void **state)
{
    cli_refuses(state, ((struct refusal){2, NULL, "none.yaml", NULL, NULL}), "guard", "--contract",
                "none.yaml", "--", "touch", folder_path(state, "ran"));
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__reports_a_reply__that_breaks_the_contract),
        FOLDER(guard__says_nothing__of_what_the_contract_allows),
        FOLDER(guard__looks_into_the_consumer__that_the_contract_is_for),
        FOLDER(guard__refuses_a_contract_that_cannot_be_read__before_the_command_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
