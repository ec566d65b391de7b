/* test_contract_pairs.c: every construct that a contract check must understand, as a library and a
 * consumer of a few lines each (fixtures/contract), through the program as a user runs it: record,
 * check, check against the library itself, and check against the library before the change.
 * The extractor is a Python program: without python3 these tests fail, unless ASSAY_WITHOUT_PYTHON
 * says that they need not run. */
#include "tests/contract_expect.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAIRS FIXTURE("contract")

enum { PAIR_NAME = 64, PAIRS_MAX = 128 };

struct pair {
    char construct[PAIR_NAME], folder[PAIR_NAME];
};

struct pairs {
    int count;
    struct pair pair[PAIRS_MAX];
};

/* ---- the list ---- */

static void read_pairs(struct pairs *p)
{
    size_t size = 0;
    char *all = read_whole(PAIRS "/constructs", &size), *rest = all;
    *p = (struct pairs){0};
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (!line[0] || line[0] == '#') continue;
        assert_true(p->count < PAIRS_MAX);
        struct pair *row = &p->pair[p->count++];
        if (sscanf(line, "%63s %63s", row->construct, row->folder) != 2) fail_msg("%s", line);
    }
    free(all);
}

static int listed(const struct pairs *p, const char *construct)
{
    int n = 0;
    for (int i = 0; i < p->count; i++) n += strcmp(p->pair[i].construct, construct) == 0;
    return n;
}

/* Rows of the list of constructs: what finding the breaks needs (A), what must not be reported (B),
 * what is worth a warning (C). */
static const struct {
    const char *prefix;
    int rows;
} sections[] = {{"A.n", 8}, {"A.", 12}, {"B.", 26}, {"B.also.", 5}, {"C.", 7}};

static void construct__has_a_folder__each(void **state)
{
    (void)state;
    struct pairs p;
    read_pairs(&p);
    for (size_t s = 0; s < sizeof sections / sizeof sections[0]; s++)
        for (int row = 1; row <= sections[s].rows; row++) {
            const char *construct = textf("%s%d", sections[s].prefix, row);
            if (listed(&p, construct) != 1)
                fail_msg("%s: %d folders", construct, listed(&p, construct));
        }
}

static int folders_with_expect(void)
{
    DIR *d = opendir(PAIRS);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct stat st;
        n += stat(textf(PAIRS "/%s/expect", e->d_name), &st) == 0;
    }
    closedir(d);
    return n;
}

static void folder__is_listed__each(void **state)
{
    (void)state;
    struct pairs p;
    read_pairs(&p);
    for (int i = 0; i < p.count; i++) {
        struct expect e;
        expect_read(&e, textf(PAIRS "/%s/expect", p.pair[i].folder));
        for (int k = 0; k < i; k++)
            if (strcmp(p.pair[i].folder, p.pair[k].folder) == 0) fail_msg("%s", p.pair[i].folder);
    }
    assert_int_equal(folders_with_expect(), p.count);
}

/* ---- the runs ---- */

static bool has_old(const struct pair *pair)
{
    struct stat st;
    return stat(textf(PAIRS "/%s/old", pair->folder), &st) == 0;
}

/* Adds the options that every run of the folder gets; returns the count of words. */
static int with_receiver(const struct expect *e, const char **argv, int n)
{
    if (e->receiver[0]) {
        argv[n++] = "--receiver";
        argv[n++] = e->receiver;
    }
    argv[n] = NULL;
    return n;
}

/* One line of the program's errors where it does not end as it should. */
static bool ended(const struct cli *r, int status, const char *where)
{
    if (r->status == status && r->json) return true;
    print_error("%s: exit %d, wanted %d: %s\n", where, r->status, status, r->err);
    return false;
}

static int record(const struct pair *pair, const struct expect *e, const char *side,
                  const char *out)
{
    const char *argv[CLI_ARGS] = {
        "contract", "record", textf(PAIRS "/%s/%s", pair->folder, side),   "--out", out,
        "--json",   "--for",  textf(PAIRS "/%s/consumer.py", pair->folder)};
    with_receiver(e, argv, 8);
    struct cli r;
    cli_run(&r, argv);
    int wrong = !ended(&r, 0, textf("%s: record %s", pair->folder, side));
    cli_free(&r);
    return wrong;
}

static int check(const struct pair *pair, const struct expect *e, const char *against,
                 const char *baseline, bool old)
{
    const char *where = textf("%s against %s", pair->folder, strrchr(against, '/') + 1);
    const char *argv[CLI_ARGS] = {
        "contract",  "check", textf(PAIRS "/%s/consumer.py", pair->folder),
        "--against", against, "--json"};
    int n = with_receiver(e, argv, 6);
    if (baseline) {
        argv[n++] = "--baseline";
        argv[n] = baseline;
    }
    struct cli r;
    cli_run(&r, argv);
    int wrong = 0;
    if (!r.json || !json_object_get(r.json, "findings")) {
        print_error("%s: exit %d: %s\n", where, r.status, r.err);
        wrong = 1;
    } else {
        wrong = expect_differs(e, old, field(r.json, "findings"), where);
        if (!wrong && expect_broken(e, old)) wrong = !ended(&r, 1, where);
    }
    cli_free(&r);
    return wrong;
}

/* How much of what the folder expects does not hold. */
static int run_pair(void **state, const struct pair *pair)
{
    struct expect e;
    expect_read(&e, textf(PAIRS "/%s/expect", pair->folder));
    char now[FILE_PATH * 2], before[FILE_PATH * 2];
    snprintf(now, sizeof now, "%s", folder_path(state, "new.yaml"));
    snprintf(before, sizeof before, "%s", folder_path(state, "old.yaml"));
    bool old = has_old(pair);
    if (record(pair, &e, "new", now)) return 1;
    if (old && record(pair, &e, "old", before)) return 1;
    int wrong = check(pair, &e, now, old ? before : NULL, false);
    wrong += check(pair, &e, textf(PAIRS "/%s/new", pair->folder), old ? before : NULL, false);
    if (old) wrong += check(pair, &e, before, NULL, true);
    return wrong;
}

static void run_section(void **state, const char *prefix)
{
    expect_python();
    struct pairs p;
    read_pairs(&p);
    int ran = 0, wrong = 0;
    for (int i = 0; i < p.count; i++) {
        if (strncmp(p.pair[i].construct, prefix, strlen(prefix)) != 0) continue;
        ran++;
        wrong += run_pair(state, &p.pair[i]);
    }
    assert_true(ran > 0);
    assert_int_equal(wrong, 0);
}

static void break__is_found__in_each_construct(void **state)
{
    run_section(state, "A.");
}

static void construct__is_not_reported__when_nothing_broke(void **state)
{
    run_section(state, "B.");
}

static void change__is_told_apart_from_a_break__when_it_still_binds(void **state)
{
    run_section(state, "C.");
}

static void finding__carries_its_remedy_and_its_acceptance(void **state)
{
    run_section(state, "X.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(construct__has_a_folder__each),
        cmocka_unit_test(folder__is_listed__each),
        cmocka_unit_test_setup_teardown(break__is_found__in_each_construct, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(construct__is_not_reported__when_nothing_broke,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(change__is_told_apart_from_a_break__when_it_still_binds,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(finding__carries_its_remedy_and_its_acceptance,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests_name("contract_pairs", tests, NULL, NULL);
}
