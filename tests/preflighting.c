/* preflighting.c: see preflighting.h. */
#include "tests/preflighting.h"

#include <stdlib.h>
#include <string.h>

static json_t *run(void **state, const char *text, const char *more, int status)
{
    struct cli r;
    const char *plan = folder_path(state, "p.yaml");
    const char *const argv[] = {"preflight", plan, "--json", more, NULL};
    write_text(plan, text);
    cli_run(&r, argv);
    if (r.status != status || !r.json)
        fail_msg("exit %d\n%s\n%s\n%s", r.status, text, r.err, r.out);
    json_t *result = json_incref(r.json);
    cli_free(&r);
    return result;
}

json_t *preflighted(void **state, const char *text, int status)
{
    return run(state, text, NULL, status);
}

json_t *rehearsed(void **state, const char *text, int status)
{
    return run(state, text, "--rehearse", status);
}

static const json_t *find(const json_t *result, const char *rule, int *count)
{
    const json_t *one, *first = NULL;
    size_t i;
    *count = 0;
    json_array_foreach(field(result, "findings"), i, one)
    {
        if (strcmp(field_text(one, "rule"), rule) != 0) continue;
        if (!first) first = one;
        *count += 1;
    }
    return first;
}

const json_t *finding_of(const json_t *result, const char *rule)
{
    int count;
    return find(result, rule, &count);
}

int findings_of(const json_t *result, const char *rule)
{
    int count;
    (void)find(result, rule, &count);
    return count;
}

const json_t *check_of(const json_t *result, const char *check)
{
    const json_t *one;
    size_t i;
    json_array_foreach(field(result, "checks"), i, one)
    {
        if (strcmp(field_text(one, "check"), check) == 0) return one;
    }
    fail_msg("no check %s", check);
    return NULL;
}

void assert_holds(const json_t *finding, const char *key, const char *text)
{
    const char *said = json_string_value(json_object_get(finding, key));
    if (said ? strstr(said, text) != NULL && (text[0] || !said[0]) : !text[0]) return;
    char *all = json_dumps(finding, JSON_INDENT(1));
    print_error("%s\n", all);
    free(all);
    fail_msg("%s: no \"%s\"", key, text);
}
