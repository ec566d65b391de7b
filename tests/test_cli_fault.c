/* test_cli_fault.c: `assay fault list`, and a fault in a case line of `assay op`, as a user meets
 * them. */
#include "core/fault.h"
#include "tests/cli.h"

#include <stdio.h>
#include <string.h>

static void list__shows_every_fault__with_hosts_source_and_keys(void **state)
{
    (void)state;
    json_t *all = cli_passes("fault", "list");
    const json_t *faults = field(all, "faults");
    int n = 0;
    while (fault_at(n)) n++;
    assert_int_equal(json_array_size(faults), n);
    assert_int_equal(field_int(all, "count"), n);
    for (int i = 0; i < n; i++) {
        const json_t *row = json_array_get(faults, (size_t)i);
        assert_string_equal(field_text(row, "id"), fault_at(i)->id);
        assert_true(field_text(row, "edit")[0] && field_text(row, "source")[0]);
        assert_string_equal(field_text(row, "detector"), fault_at(i)->detector);
        assert_true(json_is_array(field(row, "hosts")) && json_is_array(field(row, "keys")));
    }
    json_decref(all);
    json_t *core = cli_passes("fault", "list", "--op", "mla.core");
    for (size_t i = 0; i < json_array_size(field(core, "faults")); i++) {
        const json_t *hosts = field(json_array_get(field(core, "faults"), i), "hosts");
        assert_true(times_in(hosts, "mla.core") + times_in(hosts, "any") == 1);
    }
    assert_true(field_int(core, "count") > 20 && field_int(core, "count") < n);
    json_decref(core);
}

static void list__reads_as_text(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "fault", "list", "--op", "router");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "router.bias_in_weights\n"));
    assert_non_null(strstr(r.out, "seen in: B062"));
    assert_null(strstr(r.out, "mla.no_mscale\n"));
    cli_free(&r);
    cli(&r, "fault", "list");
    assert_non_null(strstr(r.out, "same output as others"));
    cli_free(&r);
}

static void misuse__is_refused(void **state)
{
    cli_refuses(state, ((struct refusal){2, NULL, "--op", "nothing", NULL}), "fault", "list",
                "--op", "nothing");
    cli_refuses(state, ((struct refusal){2, NULL, "fault", "lists", "list"}), "fault", "lists");
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "fault");
    cli_refuses(state, ((struct refusal){2, "fault", "mla.no_mscal", "mla.no_mscale", NULL}), "op",
                "mla.core", "fault=mla.no_mscal");
    cli_refuses(state, ((struct refusal){2, "case line", "fault mla.no_mscale", "op moe", NULL}),
                "op", "moe", "fault=mla.no_mscale");
    cli_refuses(state, ((struct refusal){2, "fault", "layer=3", "not here", NULL}), "op",
                "mla.core", "fault=mla.no_mscale@layer=3");
}

static void fault_in_a_case__is_red__and_the_line_replays_it(void **state)
{
    struct cli r;
    (void)state;
    json_t *red = cli_fails("op", "moe", "k=2,fault=ep.token_lost@row=1:rank=0", "--on", "ref");
    const json_t *row = json_array_get(field(red, "rows"), 0);
    const char *line = field_text(row, "case");
    assert_non_null(strstr(line, ",fault=ep.token_lost@row=1:rank=0"));
    assert_int_equal(field_int(field(row, "fault"), "calls"), 1);
    assert_int_equal(field_int(field(row, "fault"), "changed"), 1);
    json_t *again = cli_fails("op", line, "--on", "ref");
    assert_true(json_equal(field(red, "rows"), field(again, "rows")));
    json_decref(again);
    json_decref(red);
    cli(&r, "op", "norm", "w=none,fault=norm.no_weight");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "the fault is inert"));
    cli_free(&r);
    cli(&r, "op", "norm");
    assert_null(strstr(r.out, "fault"));
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__shows_every_fault__with_hosts_source_and_keys),
        cmocka_unit_test(list__reads_as_text),
        cmocka_unit_test_setup_teardown(misuse__is_refused, folder_setup, folder_teardown),
        cmocka_unit_test(fault_in_a_case__is_red__and_the_line_replays_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
