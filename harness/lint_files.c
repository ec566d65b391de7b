/* lint_files.c: see lint_files.h. */
#include "harness/lint_files.h"

#include "core/file.h"
#include "core/text.h"
#include "harness/facts.h"
#include "harness/lint_py.h"
#include "harness/lint_sh.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum language { NEITHER, PYTHON, SHELL };

enum { SHEBANG = 256, DEPTH = 64 };

/* What "#! ... python3" asks for. */
static enum language asked(const unsigned char *data, int64_t size)
{
    char line[SHEBANG] = "";
    size_t n = size < SHEBANG - 1 ? (size_t)size : SHEBANG - 1;
    if (n < 2 || memcmp(data, "#!", 2) != 0) return NEITHER;
    memcpy(line, data, n);
    line[strcspn(line, "\n")] = '\0';
    if (strstr(line, "python")) return PYTHON;
    char *word = strrchr(line, '/');
    for (; word; word = strpbrk(word + 1, " \t/")) {
        enum shell s;
        size_t length = strcspn(word + 1, " \t/");
        if (shell_find(word + 1, length, &s)) return SHELL;
    }
    return NEITHER;
}

static enum language language_of(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct file_map map;
    if (text_ends(path, ".py")) return PYTHON;
    if (text_ends(path, ".sh") || text_ends(path, ".bash") || text_ends(path, ".zsh")) return SHELL;
    if (file_map(path, &map, err) != ERR_OK) return NEITHER;
    enum language found = asked(map.data, map.size);
    file_unmap(&map);
    return found == PYTHON && strchr(name, '.') ? NEITHER : found;
}

static enum err_code lint_python(struct lint *l, const char *path, const char *file)
{
    json_t *facts;
    struct uses uses;
    if (facts_read("uses", path, &facts, l->err) != ERR_OK) return l->err->code;
    if (uses_read(facts, path, l->pool, &uses, l->err) == ERR_OK)
        lint_py_modules(l, &uses, path, file);
    json_decref(facts);
    return l->err->code;
}

static enum err_code lint_shell(struct lint *l, const char *path)
{
    struct file_map map;
    if (file_map(path, &map, l->err) != ERR_OK) return l->err->code;
    const char *text = pool_text(l->pool, (const char *)map.data, (size_t)map.size, l->err);
    const char *file = pool_format(l->pool, l->err, "%s", path);
    if (text && file && strlen(text) != (size_t)map.size)
        lint_unread(l, file, 1, "a NUL byte");
    else if (text && file)
        lint_sh(l, file, text);
    file_unmap(&map);
    return l->err->code;
}

static enum err_code lint_file(struct lint *l, const char *path, enum language language)
{
    const char *file = pool_format(l->pool, l->err, "%s", path);
    if (!file) return l->err->code;
    return language == PYTHON ? lint_python(l, path, file) : lint_shell(l, path);
}

/* ---- folders ---- */

struct walk {
    struct lint *l;
    int modules; /* .py files, which the extractor reads in one go */
};

static enum err_code walk(struct walk *w, const char *folder, int depth);

static enum err_code walk_entry(struct walk *w, const char *path, int depth)
{
    struct stat st;
    struct err inner = ERR_INIT;
    if (lstat(path, &st) != 0 || S_ISLNK(st.st_mode)) return ERR_OK;
    if (S_ISDIR(st.st_mode)) return walk(w, path, depth + 1);
    if (!S_ISREG(st.st_mode)) return ERR_OK;
    enum language language = language_of(path, &inner);
    if (inner.code != ERR_OK) {
        const char *file = pool_format(w->l->pool, w->l->err, "%s", path);
        if (file) lint_unread(w->l, file, 0, "cannot be read");
        return w->l->err->code;
    }
    if (text_ends(path, ".py"))
        w->modules++;
    else if (language != NEITHER)
        return lint_file(w->l, path, language);
    return ERR_OK;
}

static enum err_code walk(struct walk *w, const char *folder, int depth)
{
    struct dirent **list;
    if (depth > DEPTH)
        return err_set(w->l->err, ERR_INPUT, "lint|%s|more than %d folders deep|fewer", folder,
                       DEPTH);
    int n = scandir(folder, &list, NULL, alphasort);
    if (n < 0) return err_sys(w->l->err, errno, "list folder|%s", folder);
    for (int i = 0; i < n; i++) {
        char path[FILE_PATH];
        const char *name = list[i]->d_name;
        bool skip =
            name[0] == '.' || strcmp(name, "__pycache__") == 0 || strcmp(name, "node_modules") == 0;
        if (!skip && w->l->err->code == ERR_OK &&
            file_join(folder, name, path, w->l->err) == ERR_OK)
            (void)!walk_entry(w, path, depth);
        free(list[i]);
    }
    free(list);
    return w->l->err->code;
}

static enum err_code lint_folder(struct lint *l, const char *path)
{
    struct walk w = {.l = l};
    int before = l->python + l->unreads;
    if (walk(&w, path, 0) != ERR_OK || w.modules == 0) return l->err->code;
    int scripts = l->python + l->unreads - before;
    if (lint_python(l, path, NULL) != ERR_OK) return l->err->code;
    int read = l->python + l->unreads - before - scripts;
    if (read < w.modules) {
        const char *what = pool_format(l->pool, l->err, "%d of %d Python files were not read",
                                       w.modules - read, w.modules);
        if (what) lint_unread(l, path, 0, what);
    }
    return l->err->code;
}

enum err_code lint_path(struct lint *l, const char *path)
{
    char plain[FILE_PATH];
    size_t n = strlen(path);
    if (!file_is_folder(path)) {
        enum language language = language_of(path, l->err);
        if (l->err->code != ERR_OK) return l->err->code;
        if (language == NEITHER)
            return err_set(l->err, ERR_INPUT,
                           "lint|%s|neither by its name nor by its first line|Python, sh, bash or "
                           "zsh, or a folder",
                           path);
        return lint_file(l, path, language);
    }
    while (n > 1 && path[n - 1] == '/') n--;
    if (n >= sizeof plain)
        return err_set(l->err, ERR_INPUT, "lint|folder|a long name|a shorter one");
    memcpy(plain, path, n);
    plain[n] = '\0';
    return lint_folder(l, plain);
}
