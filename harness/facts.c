/* facts.c: see facts.h. */
#include "harness/facts.h"

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "harness/facts_child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT "../share/assay/python/assay_facts.py"
#define LABEL "assay_facts: "
#define WANTED_PYTHON "python 3.9 or newer; ASSAY_PYTHON names one"

static enum err_code find_script(char script[FILE_PATH], struct err *err)
{
    if (file_beside_program(SCRIPT, script, err) != ERR_OK) return err->code;
    if (file_exists(script)) return ERR_OK;
    return err_set(err, ERR_DEVICE, "find the extractor|%s|no such file|the installed script",
                   script);
}

/* The last line of what the child wrote on stderr, cut out in place. */
static char *last_line(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) text[--n] = '\0';
    char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

/* Cuts `text` at `mark`; what follows it, or NULL where it is not in there. */
static char *after(char *text, const char *mark)
{
    char *at = text ? strstr(text, mark) : NULL;
    if (!at) return NULL;
    *at = '\0';
    return at + strlen(mark);
}

/* "assay_facts: WHAT: WHERE: found X, wanted Y" as an error. */
static enum err_code refused(char *line, enum err_code code, struct err *err)
{
    char *what = line + strlen(LABEL);
    char *where = after(what, ": "), *found = after(where, ": found "),
         *wanted = after(found, ", wanted ");
    return err_set(err, code, "%s|%s|%s|%s", what, where ? where : "", found ? found : "",
                   wanted ? wanted : "");
}

/* A child that ended without what was asked of it. */
static enum err_code failed(const struct facts_child *c, const char *python, struct err *err)
{
    char text[FACTS_STDERR];
    memcpy(text, c->message, sizeof text);
    char *line = last_line(text);
    if (c->exec_errno == ENOENT || c->exec_errno == EACCES)
        return err_set(err, ERR_DEVICE, "run the extractor|%s|%s|" WANTED_PYTHON, python,
                       strerror(c->exec_errno));
    if (c->exec_errno) return err_sys(err, c->exec_errno, "run the extractor|%s", python);
    if (WIFSIGNALED(c->status))
        return err_set(err, ERR_PROCESS,
                       "run the extractor|%s|ended by signal %d|an end of its own", python,
                       WTERMSIG(c->status));
    int status = WEXITSTATUS(c->status);
    if (text_starts(line, LABEL) && (status == 2 || status == 3))
        return refused(line, status == 2 ? ERR_INPUT : ERR_DEVICE, err);
    if (status == 0) return ERR_OK;
    return err_set(err, ERR_DEVICE, "run the extractor|%s|exit %d: %s|" WANTED_PYTHON, python,
                   status, line[0] ? line : "not a word");
}

static enum err_code parse(const struct facts_child *c, const char *mode, const char *path,
                           json_t **out, struct err *err)
{
    int64_t version;
    const char *kind;
    struct err inner = ERR_INIT;
    json_t *facts = NULL;
    if (json_parse(c->out, c->size, "output of the extractor", &facts, &inner) != ERR_OK ||
        json_int(facts, "facts", 1, 1, "facts", &version, &inner) != ERR_OK ||
        json_text_or(facts, "kind", "", "facts", &kind, &inner) != ERR_OK ||
        strcmp(kind, mode) != 0) {
        char line[ERR_LINE];
        json_decref(facts);
        return err_set(err, ERR_PROCESS, "read facts|%s|%s|facts of version 1, \"%s\"", path,
                       inner.code ? err_line(&inner, line, sizeof line) : "another kind", mode);
    }
    *out = facts;
    return ERR_OK;
}

enum err_code facts_read_within(const struct facts_limits *limits, const char *mode,
                                const char *path, json_t **out, struct err *err)
{
    char script[FILE_PATH];
    const char *given = getenv("ASSAY_PYTHON"), *python = given && given[0] ? given : "python3";
    struct facts_child c;
    *out = NULL;
    if (find_script(script, err) != ERR_OK) return err->code;
    const char *const argv[] = {python, "-I", "-S", script, mode, path, NULL};
    if (facts_child_run(&c, limits, argv, err) == ERR_OK && failed(&c, python, err) == ERR_OK)
        (void)!parse(&c, mode, path, out, err);
    facts_child_free(&c);
    return err->code;
}

enum err_code facts_read(const char *mode, const char *path, json_t **out, struct err *err)
{
    const struct facts_limits limits = FACTS_LIMITS;
    return facts_read_within(&limits, mode, path, out, err);
}
