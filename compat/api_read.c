/* api_read.c: api_parse() and api_read() of api.h: the contract file back into the model, strictly.
 * The format: api_write.c. The header and the modules are read here, what a symbol holds in
 * api_read_def.c. */
#include "compat/api_read.h"

#include "compat/api_fields.h"
#include "core/file.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

enum { CONTRACT_BYTES = 64 << 20, NESTED = 8 };

bool api_read_bad(struct api_reader *r, const struct yaml_node *n, const char *what,
                  const char *found, const char *wanted)
{
    yaml_bad(r->path, n, what, found, wanted, r->err);
    return false;
}

bool api_read_bad_key(struct api_reader *r, const struct yaml_node *n, const char *what,
                      const char *found, const char *wanted)
{
    yaml_bad_key(r->path, n, what, found, wanted, r->err);
    return false;
}

bool api_read_text(struct api_reader *r, const struct yaml_node *n, const char **out)
{
    if (n->kind != YAML_TEXT)
        return api_read_bad(r, n, "contract value", yaml_kind_name(n), "a text");
    *out = n->text;
    return true;
}

bool api_read_texts(struct api_reader *r, const struct yaml_node *n, struct api_texts *out)
{
    int count = 0;
    if (n->kind != YAML_LIST)
        return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a list");
    for (const struct yaml_node *c = n->child; c; c = c->next) count++;
    out->text = pool_take(&r->pool, (size_t)count + 1, sizeof *out->text, r->err);
    for (const struct yaml_node *c = n->child; c && out->text; c = c->next) {
        if (!api_read_text(r, c, &out->text[out->count])) return false;
        out->count++;
    }
    return out->text != NULL;
}

bool api_read_words(struct api_reader *r, const struct yaml_node *n, const char *const *words,
                    bool **flag)
{
    if (n->kind != YAML_LIST)
        return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a list");
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        int i = 0;
        while (words[i] && (c->kind != YAML_TEXT || strcmp(words[i], c->text) != 0)) i++;
        if (!words[i])
            return api_read_bad(r, c, "contract word", c->kind == YAML_TEXT ? c->text : "no text",
                                "a word that holds here");
        *flag[i] = true;
    }
    return true;
}

bool api_read_map(struct api_reader *r, const struct yaml_node *n)
{
    if (n->kind == YAML_MAP) return true;
    return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a mapping");
}

int api_read_count(const struct yaml_node *n)
{
    int count = 0;
    for (const struct yaml_node *c = n->child; c; c = c->next) count++;
    return count;
}

static bool read_origin(struct api_reader *r, const struct yaml_node *n, struct api_origin *out)
{
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        const char **to = strcmp(c->key, "name") == 0      ? &out->name
                          : strcmp(c->key, "version") == 0 ? &out->version
                          : strcmp(c->key, "source") == 0  ? &out->source
                          : strcmp(c->key, "sha256") == 0  ? &out->sha256
                                                           : NULL;
        if (!to)
            return api_read_bad_key(r, c, "contract origin", c->key,
                                    "name, version, source or sha256");
        if (!api_read_text(r, c, to)) return false;
    }
    if (!out->source || !out->sha256)
        return api_read_bad_key(r, n, "contract origin", "a part is missing", "source and sha256");
    return true;
}

static bool read_problem(struct api_reader *r, const struct yaml_node *n, struct api_problem *out)
{
    int64_t line = 0;
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        const char *text;
        if (!api_read_text(r, c, &text)) return false;
        if (strcmp(c->key, "file") == 0)
            out->file = text;
        else if (strcmp(c->key, "what") == 0)
            out->what = text;
        else if (strcmp(c->key, "line") == 0) {
            if (!text_int(text, &line) || line < 0 || line > API_LINE_MAX)
                return api_read_bad(r, c, "contract line", text, "a line number");
        } else {
            return api_read_bad_key(r, c, "contract problem", c->key, "file, line or what");
        }
    }
    out->line = (int)line;
    if (out->file && out->what) return true;
    return api_read_bad(r, n, "contract problem", "a part is missing", "file and what");
}

static bool read_problems(struct api_reader *r, const struct yaml_node *n, struct api *out)
{
    if (n->kind != YAML_LIST)
        return api_read_bad_key(r, n, "contract value", yaml_kind_name(n), "a list");
    out->problem = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof *out->problem, r->err);
    for (const struct yaml_node *c = n->child; c && out->problem; c = c->next) {
        if (!read_problem(r, c, &out->problem[out->problems++])) return false;
    }
    return out->problem != NULL;
}

static bool read_absent(struct api_reader *r, const struct yaml_node *n, struct api_absent **out,
                        int *count)
{
    if (!api_read_map(r, n)) return false;
    *out = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof **out, r->err);
    for (const struct yaml_node *c = n->child; c && *out; c = c->next) {
        struct api_absent *a = &(*out)[*count];
        a->name = c->key;
        if (!api_read_texts(r, c, &a->now)) return false;
        ++*count;
    }
    return *out != NULL;
}

static bool read_lazy(struct api_reader *r, const struct yaml_node *n, struct api_module *m)
{
    if (!api_read_map(r, n)) return false;
    m->lazy = pool_take(&r->pool, (size_t)api_read_count(n) + 1, sizeof *m->lazy, r->err);
    for (const struct yaml_node *c = n->child; c && m->lazy; c = c->next) {
        struct api_lazy *l = &m->lazy[m->lazies++];
        l->name = c->key;
        if (!api_read_text(r, c, &l->to)) return false;
        if (!l->to[0]) l->to = NULL;
    }
    return m->lazy != NULL;
}

/* Behind the names that they are of. */
static bool read_notices(struct api_reader *r, const struct yaml_node *n, struct api_module *m)
{
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        int i = 0;
        while (i < m->lazies && strcmp(m->lazy[i].name, c->key) != 0) i++;
        if (i == m->lazies)
            return api_read_bad_key(r, c, "contract module", c->key, "a name under lazy");
        if (!api_read_text(r, c, &m->lazy[i].deprecated)) return false;
    }
    return true;
}

static bool read_module(struct api_reader *r, const struct yaml_node *n, struct api_module *m)
{
    static const char *const words[] = {"package", "namespace",   "compiled", "partial",
                                        "dynamic", "all_unknown", NULL};
    bool *flag[] = {&m->package, &m->space,   &m->compiled,
                    &m->partial, &m->dynamic, &m->all_unknown};
    m->name = n->key;
    if (!api_is_module_name(m->name))
        return api_read_bad_key(r, n, "contract module", n->key, "a dotted name");
    if (!api_read_map(r, n)) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        bool ok;
        if (strcmp(c->key, "file") == 0)
            ok = api_read_text(r, c, &m->file);
        else if (strcmp(c->key, "is") == 0)
            ok = api_read_words(r, c, words, flag);
        else if (strcmp(c->key, "all") == 0)
            ok = m->has_all = api_read_texts(r, c, &m->all);
        else if (strcmp(c->key, "stars") == 0)
            ok = api_read_texts(r, c, &m->stars);
        else if (strcmp(c->key, "lazy") == 0)
            ok = read_lazy(r, c, m);
        else if (strcmp(c->key, "lazy_deprecated") == 0)
            ok = api_read_text(r, c, &m->lazy_deprecated);
        else if (strcmp(c->key, "lazy_notices") == 0)
            ok = read_notices(r, c, m);
        else if (strcmp(c->key, "absent") == 0)
            ok = read_absent(r, c, &m->absent, &m->absents);
        else
            ok = api_read_bad_key(r, c, "contract module", c->key,
                                  "file, is, all, stars, lazy, ... or absent");
        if (!ok) return false;
    }
    return m->file ? true : api_read_bad_key(r, n, "contract module", "no file", "file");
}

static int by_key(const void *x, const void *y)
{
    return strcmp((*(const struct yaml_node *const *)x)->key,
                  (*(const struct yaml_node *const *)y)->key);
}

static bool read_modules(struct api_reader *r, const struct yaml_node *n, struct api *out)
{
    int count = api_read_count(n), i = 0;
    if (n->kind == YAML_TEXT && !n->text[0]) return true; /* none */
    if (!api_read_map(r, n)) return false;
    const struct yaml_node **node = pool_take(&r->pool, (size_t)count + 1, sizeof *node, r->err);
    out->module = pool_take(&r->pool, (size_t)count + 1, sizeof *out->module, r->err);
    if (!node || !out->module) return false;
    for (const struct yaml_node *c = n->child; c; c = c->next) node[i++] = c;
    qsort(node, (size_t)count, sizeof(void *), by_key); /* symbols look their module up */
    for (i = 0; i < count; i++) {
        if (!read_module(r, node[i], &out->module[out->modules++])) return false;
    }
    return true;
}

/* What a key of the top level is, when it is no symbol. */
static bool read_header(struct api_reader *r, const struct yaml_node *n, struct api *out)
{
    const char *text = "";
    if (strcmp(n->key, "library") == 0) return read_origin(r, n, &out->library);
    if (strcmp(n->key, "for") == 0) return read_origin(r, n, &out->consumer);
    if (strcmp(n->key, "problems") == 0) return read_problems(r, n, out);
    if (strcmp(n->key, "absent") == 0) return read_absent(r, n, &out->absent, &out->absents);
    if (strcmp(n->key, "modules") == 0) return read_modules(r, n, out);
    if (strcmp(n->key, "extractor") == 0) return api_read_text(r, n, &out->extractor);
    if (strcmp(n->key, "lines") == 0) {
        r->lines = n;
        return (n->kind == YAML_TEXT && !n->text[0]) || api_read_map(r, n);
    }
    if (strcmp(n->key, "assay") == 0)
        return api_read_text(r, n, &text) &&
               (strcmp(text, "1") == 0 || api_read_bad(r, n, "contract version", text, "1"));
    if (strcmp(n->key, "kind") == 0)
        return api_read_text(r, n, &text) &&
               (strcmp(text, "api") == 0 || api_read_bad(r, n, "contract kind", text, "api"));
    return api_read_bad_key(r, n, "contract key", n->key,
                            "a part of the header, or \"module:Name\" of a symbol");
}

static bool check_header(struct api_reader *r, const struct yaml_node *root, const struct api *out)
{
    static const char *const needed[] = {"assay",     "kind",    "library",
                                         "extractor", "modules", "lines"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        const struct yaml_node *c = root->child;
        while (c && strcmp(c->key, needed[i]) != 0) c = c->next;
        if (!c) return api_read_bad(r, root, "contract", "a part is missing", needed[i]);
    }
    if (out->consumer.source && !out->consumer.name)
        return api_read_bad(r, root, "contract", "no name", "for: {name: ...}");
    return true;
}

static bool read_root(struct api_reader *r, const struct yaml_node *root, struct api *out)
{
    int symbols = 0;
    if (root->kind != YAML_MAP)
        return api_read_bad(r, root, "contract", yaml_kind_name(root), "a mapping");
    for (const struct yaml_node *n = root->child; n; n = n->next) {
        if (strchr(n->key, ':'))
            symbols++;
        else if (!read_header(r, n, out))
            return false;
    }
    if (!check_header(r, root, out)) return false;
    const struct yaml_node **node = pool_take(&r->pool, (size_t)symbols + 1, sizeof *node, r->err);
    if (!node) return false;
    symbols = 0;
    for (const struct yaml_node *n = root->child; n; n = n->next) {
        if (strchr(n->key, ':')) node[symbols++] = n;
    }
    qsort(node, (size_t)symbols, sizeof(void *), by_key);
    return api_read_symbols(r, node, symbols, out);
}

enum err_code api_parse(struct api *out, const char *text, int64_t size, const char *path,
                        struct arena *a, struct err *err)
{
    struct api_reader r = {.path = path, .pool = {.arena = a}, .err = err};
    struct yaml_node *root;
    *out = (struct api){.arena = a};
    if (size == 0)
        return err_set(err, ERR_INPUT, "read contract|%s:1:1|an empty file|a contract", path);
    if (yaml_parse_within(text, size, CONTRACT_BYTES, path, a, &root, err) != ERR_OK)
        return err->code;
    if (!read_root(&r, root, out)) return err->code;
    if (api_finish(out, err) != ERR_OK) return err_note(err, "%s", path);
    return api_read_lines(&r, out) ? ERR_OK : err->code;
}

enum err_code api_read(struct api *out, const char *path, struct arena *a, struct err *err)
{
    struct file_map file;
    if (file_map(path, &file, err) != ERR_OK) return err->code;
    enum err_code rc = api_parse(out, (const char *)file.data, file.size, path, a, err);
    file_unmap(&file);
    return rc;
}
