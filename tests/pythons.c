/* pythons.c: see pythons.h. */
#include "tests/pythons.h"

#include "tests/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLDEST = 9, NEWEST = 13 };

/* Runs argv with its stdout in text[size]; its exit status, 127 where it could not be run. */
static int run(const char *const *argv, char *text, size_t size)
{
    int ends[2], status = 0;
    size_t n = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        dup2(size > 1 ? ends[1] : null, STDOUT_FILENO);
        if (size > 1) dup2(null, STDERR_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n + 1 < size; n += got > 0 ? (size_t)got : 0) {
        got = read(ends[0], text + n, size - 1 - n);
    }
    close(ends[0]);
    text[n] = '\0';
    while (waitpid(pid, &status, 0) < 0) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Major * 100 + minor of what `program` says about itself, and where it really is; 0: no python. */
static int version_of(const char *program, char path[FILE_PATH])
{
    static const char code[] = "import sys; print('%d %s' % (sys.version_info[0] * 100 + "
                               "sys.version_info[1], sys.executable))";
    const char *const argv[] = {program, "-S", "-c", code, NULL};
    char text[FILE_PATH + 16];
    int version = 0;
    if (run(argv, text, sizeof text) != 0) return 0;
    if (sscanf(text, "%d %1000[^\n]", &version, path) != 2) return 0;
    return version;
}

struct search {
    struct pythons *found;
    bool old;
    bool have[400];
};

static void consider(struct search *s, const char *program)
{
    char path[FILE_PATH];
    int version = version_of(program, path);
    bool fits = s->old ? version > 0 && version < 300 + OLDEST
                       : version >= 300 + OLDEST && version <= 300 + NEWEST;
    if (!fits || version >= 400 || s->have[version] || s->found->count == PYTHONS) return;
    s->have[version] = true;
    s->found->version[s->found->count] = version;
    snprintf(s->found->path[s->found->count++], FILE_PATH, "%s", path);
    print_message("python %d.%d: %s\n", version / 100, version % 100, path);
}

static void consider_list(struct search *s, const char *list)
{
    char path[FILE_PATH];
    while (list && *list) {
        size_t n = strcspn(list, ":");
        snprintf(path, sizeof path, "%.*s", (int)n, list);
        consider(s, path);
        list += n + (list[n] == ':');
    }
}

static void consider_pyenv(struct search *s)
{
    char folder[FILE_PATH - 300], path[FILE_PATH];
    const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
    if (root)
        snprintf(folder, sizeof folder, "%s/versions", root);
    else
        snprintf(folder, sizeof folder, "%s/.pyenv/versions", home ? home : "");
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/bin/python", folder, e->d_name);
        consider(s, path);
    }
    if (d) closedir(d);
}

static void find(struct search *s)
{
    char name[32];
    consider_list(s, getenv("ASSAY_TEST_PYTHONS"));
    for (int minor = s->old ? 4 : OLDEST; minor <= NEWEST; minor++) {
        snprintf(name, sizeof name, "python3.%d", minor);
        consider(s, name);
    }
    consider_pyenv(s);
    consider(s, "python3");
    if (s->old) consider(s, "python2");
}

void pythons_find(struct pythons *p)
{
    struct search s = {.found = p};
    p->count = 0;
    find(&s);
    for (int minor = OLDEST; minor <= NEWEST; minor++) {
        if (!s.have[300 + minor]) print_message("python 3.%d: not found, not tested\n", minor);
    }
}

void pythons_find_old(struct pythons *p)
{
    struct search s = {.found = p, .old = true};
    p->count = 0;
    find(&s);
    if (p->count == 0) print_message("python older than 3.%d: not found, not tested\n", OLDEST);
}

int python_run(const char *script, const char *argument)
{
    const char *given = getenv("ASSAY_PYTHON");
    const char *const argv[] = {given ? given : "python3", "-I", script, argument, NULL};
    char none[1];
    return run(argv, none, sizeof none);
}
