/* guarding.c: see guarding.h. */
#include "tests/guarding.h"

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *guarding_python(void)
{
    const char *given = getenv("ASSAY_PYTHON");
    return given ? given : "python3";
}

const json_t *guarding_finding(const struct cli *r, const char *rule)
{
    const json_t *list = field(r->json, "findings");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(field_text(one, "rule"), rule) == 0) return one;
    }
    return NULL;
}

void guarding_shell(const char *line)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

void guarding_left_alone(void **state, const char *program, const char *path)
{
    struct cli r;
    size_t size;
    const char *plain = folder_path(state, "plain"), *report = folder_path(state, "report");
    guarding_shell(textf("{ %s %s; echo exit $?; } > %s 2>&1", program, path, plain));
    cli(&r, "guard", "--report", report, "--", "sh", "-c",
        textf("exec 2>&1; %s %s; echo exit $?", program, path));
    char *text = read_whole(plain, &size), *said = read_whole(report, &size);
    if (r.status != 0 || strcmp(text, r.out) != 0 || r.err[0] || !strstr(said, "\"lost\": 0") ||
        !strstr(said, "\"own_errors\": 0") || strstr(said, "\"pythons\": 0"))
        fail_msg("%s %s: exit %d\nwith:\n%s\nwithout:\n%s\n%s\n%s", program, path, r.status, r.out,
                 text, r.err, said);
    free(text);
    free(said);
    cli_free(&r);
}
