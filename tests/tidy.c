/* tidy.c: the house rules as functions; see tidy.h. The words it looks for are written in two
 * halves, so that it can look at itself. */
#include "tests/tidy.h"

#include "core/file.h"
#include "core/text.h"
#include "tests/support.h"
#include "tests/waits.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tidy_complain(struct tidy *t, const char *path, int line, const char *format, ...)
{
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    t->complaints++;
    int n = snprintf(t->text + t->used, sizeof t->text - t->used, "%s:%d: %s\n", path, line, what);
    size_t left = sizeof t->text - t->used;
    t->used += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* text[at] begins the whole word `word`. */
static bool word_at(const char *text, size_t at, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text + at, word, n) == 0 && !is_word(text[at + n]) &&
           (at == 0 || !is_word(text[at - 1]));
}

void tidy_width(struct tidy *t, const char *path, const char *text)
{
    int line = 1, columns = 0;
    char last = '\n';
    for (const char *p = text;; p++) {
        if (*p == '\n' || *p == '\0') {
            if (columns > TIDY_COLUMNS) {
                tidy_complain(t, path, line, "%d columns, at most %d", columns, TIDY_COLUMNS);
            }
            if (last == ' ') tidy_complain(t, path, line, "spaces at the end of the line");
            if (*p == '\0') break;
            line++;
            columns = 0;
        } else {
            if (*p == '\t') tidy_complain(t, path, line, "a tab");
            columns += ((unsigned char)*p & 0xC0) != 0x80;
        }
        last = *p;
    }
    if (last != '\n') tidy_complain(t, path, line, "no newline at the end of the file");
}

void tidy_length(struct tidy *t, const char *path, const char *text)
{
    int lines = 0, most = text_starts(path, "tests/") ? TIDY_TEST_LINES : TIDY_FILE_LINES;
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
    }
    if (lines > most) tidy_complain(t, path, lines, "%d lines, at most %d", lines, most);
}

/* End of the comment, string or character constant that begins at text[at]; `at` where none does.
 */
static size_t skip_opaque(const char *text, size_t at)
{
    if (text[at] == '/' && text[at + 1] == '/') {
        while (text[at] && text[at] != '\n') at++;
        return at;
    }
    if (text[at] == '/' && text[at + 1] == '*') {
        const char *end = strstr(text + at + 2, "*/");
        return end ? (size_t)(end - text) + 2 : strlen(text);
    }
    char quote = text[at];
    bool digits = at > 0 && isxdigit((unsigned char)text[at - 1]); /* 1'000 of C++ */
    if (quote == '"' || (quote == '\'' && !digits)) {
        at++;
        while (text[at] && text[at] != quote && text[at] != '\n') {
            at += text[at] == '\\' && text[at + 1] ? 2 : 1;
        }
        return text[at] ? at + 1 : at;
    }
    return at;
}

char *tidy_code(const char *text, bool keep_directives)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    bool line_begins = true;
    size_t at = 0;
    while (text[at]) {
        size_t end = skip_opaque(text, at);
        if (end == at && text[at] == '#' && line_begins && !keep_directives) {
            while (text[end] && (text[end] != '\n' || text[end - 1] == '\\')) end++;
        }
        line_begins = text[at] == '\n' || (line_begins && isspace((unsigned char)text[at]));
        if (end == at) {
            at++;
            continue;
        }
        for (; at < end; at++) {
            if (copy[at] != '\n') copy[at] = ' ';
        }
    }
    return copy;
}

/* What stands before a '{' at file level: text[begin, end), white space at both ends left out. */
struct head {
    size_t begin, end;
};

static struct head trim(const char *text, size_t begin, size_t end)
{
    while (begin < end && isspace((unsigned char)text[begin])) begin++;
    while (end > begin && isspace((unsigned char)text[end - 1])) end--;
    return (struct head){begin, end};
}

static bool head_has(const char *text, struct head h, const char *word)
{
    for (size_t i = h.begin; i < h.end; i++) {
        if (word_at(text, i, word)) return true;
    }
    return false;
}

/* `extern "C" {` and `namespace x {` hold functions of file level. The string is blank by now. */
static bool head_is_scope(const char *text, struct head h)
{
    return head_has(text, h, "namespace") || (h.end - h.begin == 6 && head_has(text, h, "extern"));
}

static int line_of(const char *text, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return line;
}

void tidy_functions(struct tidy *t, const char *path, const char *text)
{
    char *code = tidy_code(text, false);
    struct head head = {0, 0};
    size_t from = 0;
    int depth = 0, level = 0; /* level: depth of file level */
    for (size_t i = 0; code[i]; i++) {
        if (code[i] == '{') {
            if (depth == level) {
                head = trim(code, from, i);
                level += head_is_scope(code, head);
            }
            depth++;
            if (depth == level) from = i + 1;
        } else if (code[i] == '}' && depth > 0) {
            depth--;
            if (depth < level) level = depth;
            if (depth == level && head.end > head.begin && code[head.end - 1] == ')') {
                int most =
                    head_has(code, head, "__global__") ? TIDY_KERNEL_LINES : TIDY_FUNCTION_LINES;
                int first = line_of(code, head.begin), lines = line_of(code, i) - first + 1;
                if (lines > most)
                    tidy_complain(t, path, first, "a function of %d lines, at most %d", lines,
                                  most);
            }
            if (depth == level) {
                from = i + 1;
                head = (struct head){0, 0};
            }
        } else if (code[i] == ';' && depth == level) {
            from = i + 1;
        }
    }
    free(code);
}

void tidy_calls(struct tidy *t, const char *path, const char *text)
{
    static const char *const banned[] = {"strcpy", "strcat", "sprintf", "vsprintf", "gets",
                                         "atoi",   "atol",   "atof",    "strtok",   "rand",
                                         "srand",  "system", NULL};
    char *code = tidy_code(text, true);
    for (size_t i = 0; code[i]; i++) {
        for (int k = 0; banned[k]; k++) {
            if (!word_at(code, i, banned[k])) continue;
            size_t next = i + strlen(banned[k]);
            while (isspace((unsigned char)code[next])) next++;
            if (code[next] == '(')
                tidy_complain(t, path, line_of(code, i), "a call of %s()", banned[k]);
        }
    }
    free(code);
}

void tidy_leftovers(struct tidy *t, const char *path, const char *text)
{
    static const char *const words[] = {"TO"
                                        "DO",
                                        "FIX"
                                        "ME",
                                        "XX"
                                        "X",
                                        "HA"
                                        "CK",
                                        NULL};
    for (size_t i = 0; text[i]; i++) {
        for (int k = 0; words[k]; k++) {
            if (word_at(text, i, words[k]))
                tidy_complain(t, path, line_of(text, i), "a leftover %s", words[k]);
        }
    }
}

void tidy_paths(struct tidy *t, const char *path, const char *text)
{
    static const char *const folders[] = {"/ho"
                                          "me/",
                                          "/ro"
                                          "ot/",
                                          "/wo"
                                          "rk/",
                                          "/Us"
                                          "ers/",
                                          "/mn"
                                          "t/",
                                          NULL};
    for (size_t i = 0; text[i]; i++) {
        bool absolute = i == 0 || !(is_word(text[i - 1]) || strchr(".-})>*/", text[i - 1]));
        for (int k = 0; absolute && folders[k]; k++) {
            if (strncmp(text + i, folders[k], strlen(folders[k])) == 0) {
                tidy_complain(t, path, line_of(text, i), "a path of one machine: %s", folders[k]);
            }
        }
    }
}

static bool exists_below(const char *root, const char *path)
{
    char full[FILE_PATH];
    snprintf(full, sizeof full, "%s/%s", root, path);
    return file_exists(full);
}

/* Length of the path of a file of the tree that begins at text[at]; 0 where none does. */
static size_t tree_path(const char *text, size_t at)
{
    static const char *const folders[] = {"core/",    "ref/",  "gpu/",   "compat/", "harness/",
                                          "reports/", "docs/", "tests/", "ci/",     "fixtures/"};
    static const char *const ends[] = {".c", ".h", ".cu", ".cuh", ".sh", ".md", ".py", ".yaml"};
    bool ours = false;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        ours = ours || text_starts(text + at, folders[i]);
    if (!ours || (at > 0 && (is_word(text[at - 1]) || strchr("/.-", text[at - 1])))) return 0;
    size_t n = strspn(text + at, "abcdefghijklmnopqrstuvwxyz0123456789_-./");
    if (is_word(text[at + n]) || text[at + n] == '*') return 0; /* NAME.c, *.c */
    while (n > 0 && text[at + n - 1] == '.') n--;               /* the end of a sentence */
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strncmp(text + at + n - m, ends[i], m) == 0) return n;
    }
    return 0;
}

void tidy_named(struct tidy *t, const char *root, const char *path, const char *text)
{
    for (size_t i = 0; text[i];) {
        const size_t end = skip_opaque(text, i);
        for (size_t k = i; text[i] == '/' && k < end; k++) {
            char named[256];
            snprintf(named, sizeof named, "%.*s", (int)tree_path(text, k), text + k);
            if (named[0] && !exists_below(root, named))
                tidy_complain(t, path, line_of(text, k), "names %s, which is not there", named);
        }
        i = end > i ? end : i + 1;
    }
}

/* from: a folder of the tree; to: those that it may include. The first row that fits decides. */
struct arrow {
    const char *from, *to[6];
};

static const struct arrow arrows[] = {
    /* The plain part of a kernel, shared by host and device, is tested where there is no device. */
    {"tests/test_architectures.c", {"gpu/architectures.h", "tests/"}},
    {"tests/test_mla_split.c", {"core/", "gpu/mla_split.h", "tests/"}},
    {"tests/test_mla_choose.c", {"core/", "gpu/mla_choose.h", "tests/"}},
    {"tests/test_mla_prefill_order.c", {"core/", "gpu/mla_prefill_order.h", "tests/"}},
    {"tests/test_moe_pack.c", {"core/", "gpu/moe_pack.h", "gpu/moe_tiles.h", "tests/"}},
    {"tests/test_moe_scale.c", {"core/", "gpu/moe_scale.h", "tests/"}},
    {"tests/test_moe_choose.c", {"core/", "gpu/moe_choose.h", "gpu/moe_fused.h", "tests/"}},
    {"tests/test_linear_choose.c", {"core/", "gpu/linear_choose.h", "tests/"}},
    {"tests/test_router_choose.c", {"core/", "gpu/router_choose.h", "tests/"}},
    {"tests/test_transport.c", {"core/", "gpu/transport.h", "tests/"}},
    {"tests/naive/", {"core/", "tests/naive/"}},
    {"tests/install/", {"core/"}},
    {"tests/", {"core/", "ref/", "compat/", "reports/", "harness/", "tests/"}},
    {"core/", {"core/"}},
    {"ref/", {"core/", "ref/"}},
    {"gpu/", {"core/", "gpu/"}},
    {"reports/", {"core/", "reports/"}},
    {"compat/", {"core/", "compat/"}},
    {"harness/", {"core/", "compat/", "reports/", "harness/"}},
};

static const struct arrow *arrow_of(const char *path)
{
    for (size_t i = 0; i < sizeof arrows / sizeof arrows[0]; i++) {
        if (text_starts(path, arrows[i].from)) return &arrows[i];
    }
    return NULL;
}

/* The folder of a quoted include is one of ours; an include in angle brackets must not be. */
static void check_include(struct tidy *t, const char *path, int line, const char *target,
                          bool quoted)
{
    const struct arrow *arrow = arrow_of(path);
    if (!quoted) {
        if (arrow_of(target)) tidy_complain(t, path, line, "<%s> is ours: use quotes", target);
        return;
    }
    if (!arrow) {
        tidy_complain(t, path, line, "a source outside the folders that have an arrow");
        return;
    }
    for (int i = 0; i < 6 && arrow->to[i]; i++) {
        if (text_starts(target, arrow->to[i])) return;
    }
    tidy_complain(t, path, line, "\"%s\": no arrow leads there from %s", target, arrow->from);
}

void tidy_includes(struct tidy *t, const char *path, const char *text)
{
    int line = 1;
    for (const char *p = text; p; p = strchr(p, '\n'), line++) {
        if (*p == '\n') p++;
        const char *q = p + strspn(p, " ");
        if (*q != '#') continue;
        q += 1 + strspn(q + 1, " ");
        if (!text_starts(q, "include")) continue;
        q += 7 + strspn(q + 7, " ");
        if (*q != '"' && *q != '<') continue;
        char target[256];
        size_t n = strcspn(q + 1, "\">\n");
        snprintf(target, sizeof target, "%.*s", (int)n, q + 1);
        check_include(t, path, line, target, *q == '"');
    }
}

void tidy_op(struct tidy *t, const char *root, const struct op_row *op)
{
    const char *const files[] = {op->header, op->ref, op->contract, op->test};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!exists_below(root, files[i]))
            tidy_complain(t, files[i], 0, "op %s: there is no such file", op->name);
    }
    if (op->gpu && !exists_below(root, op->gpu)) {
        tidy_complain(t, op->gpu, 0, "op %s: there is no such file", op->name);
    }
    char folder[FILE_PATH];
    snprintf(folder, sizeof folder, "%s/%s", root, op->fixtures);
    if (!file_is_folder(folder) || folder_count(folder) == 0) {
        tidy_complain(t, op->fixtures, 0, "op %s: no fixtures", op->name);
    }
}

static bool ends_with_one_of(const char *path, const char *const *suffixes)
{
    for (int i = 0; suffixes[i]; i++) {
        if (text_ends(path, suffixes[i])) return true;
    }
    return false;
}

void tidy_file(struct tidy *t, const char *root, const char *path)
{
    static const char *const sources[] = {".c", ".h", ".cu", ".cuh", NULL};
    static const char *const texts[] = {".cmake", ".txt", ".in",  ".sh",          ".md", ".yaml",
                                        ".yml",   ".py",  "/run", "Presets.json", NULL};
    bool source = ends_with_one_of(path, sources);
    if (!source && !ends_with_one_of(path, texts)) return;
    char full[FILE_PATH];
    snprintf(full, sizeof full, "%s/%s", root, path);
    if (!file_exists(full)) {
        tidy_complain(t, path, 0, "there is no such file");
        return;
    }
    size_t size;
    char *text = read_whole(full, &size);
    if (strlen(text) != size) tidy_complain(t, path, 0, "a NUL byte");
    t->files++;
    tidy_leftovers(t, path, text);
    tidy_paths(t, path, text);
    if (source) {
        tidy_width(t, path, text);
        tidy_length(t, path, text);
        tidy_functions(t, path, text);
        tidy_calls(t, path, text);
        tidy_named(t, root, path, text);
        tidy_includes(t, path, text);
        waits_file(t, path, text);
    }
    free(text);
}

void tidy_folder(struct tidy *t, const char *root, const char *folder)
{
    char full[FILE_PATH], path[FILE_PATH];
    snprintf(full, sizeof full, "%s/%s", root, folder);
    DIR *dir = opendir(full);
    if (!dir) {
        tidy_complain(t, folder, 0, "cannot be opened");
        return;
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        int m = snprintf(full, sizeof full, "%s/%s", root, path);
        if (n >= (int)sizeof path || m >= (int)sizeof full) {
            tidy_complain(t, folder, 0, "a path that is too long: %s", e->d_name);
        } else if (file_is_folder(full)) {
            tidy_folder(t, root, path);
        } else {
            tidy_file(t, root, path);
        }
    }
    closedir(dir);
}
