/* yaml.c: see yaml.h. */
#include "core/yaml.h"

#include <jansson.h>
#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    struct arena *arena;
    struct err *err;
    int line, column; /* of the last text that had a place: what follows it without one is near */
    char said[96];    /* the parser's first words that belong to no place */
};

enum err_code yaml_bad(const char *path, const struct yaml_node *n, const char *what,
                       const char *found, const char *wanted, struct err *err)
{
    return err_set(err, ERR_INPUT, "%s|%s:%d:%d|%s|%s", what, path, n->line, n->column, found,
                   wanted);
}

enum err_code yaml_bad_key(const char *path, const struct yaml_node *n, const char *what,
                           const char *found, const char *wanted, struct err *err)
{
    bool keyed = n->key_line > 0;
    return err_set(err, ERR_INPUT, "%s|%s:%d:%d|%s|%s", what, path, keyed ? n->key_line : n->line,
                   keyed ? n->key_column : n->column, found, wanted);
}

const char *yaml_kind_name(const struct yaml_node *n)
{
    if (n->kind == YAML_TEXT) return n->text[0] ? "a text" : "nothing";
    return n->kind == YAML_LIST ? "a list" : "a mapping";
}

static void place(struct reader *r, struct yaml_node *out, struct fy_token *token)
{
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    if (mark) {
        r->line = mark->line + 1;
        r->column = mark->column + 1;
    }
    out->line = r->line;
    out->column = r->column;
}

static char *copy_text(struct reader *r, const char *text, size_t length)
{
    char *copy = arena_alloc(r->arena, (int64_t)length + 1, 1, "YAML text", r->err);
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static enum err_code read_text(struct reader *r, struct fy_node *n, struct yaml_node *out)
{
    size_t length = 0;
    const char *text = fy_node_get_scalar(n, &length);
    place(r, out, fy_node_get_scalar_token(n));
    if (fy_node_is_alias(n))
        return yaml_bad(r->path, out, "parse YAML", "an alias", "the value itself", r->err);
    if (length && memchr(text, '\0', length))
        return yaml_bad(r->path, out, "parse YAML", "a NUL byte", "text", r->err);
    json_t *utf8 = json_stringn(text ? text : "", length); /* results repeat it, and are JSON */
    if (!utf8)
        return yaml_bad(r->path, out, "parse YAML", "bytes that are no UTF-8", "text", r->err);
    json_decref(utf8);
    out->text = copy_text(r, text, length);
    return r->err->code;
}

static enum err_code read_node(struct reader *r, struct fy_node *n, int depth,
                               struct yaml_node *out);

/* Appends a fresh node behind *last. */
static struct yaml_node *append(struct reader *r, struct yaml_node *list, struct yaml_node **last)
{
    struct yaml_node *n = arena_alloc(r->arena, 1, sizeof *n, "YAML node", r->err);
    if (!n) return NULL;
    *n = (struct yaml_node){.text = "", .line = r->line, .column = r->column};
    *(*last ? &(*last)->next : &list->child) = n;
    *last = n;
    return n;
}

static enum err_code read_list(struct reader *r, struct fy_node *n, int depth,
                               struct yaml_node *out)
{
    void *it = NULL;
    struct fy_node *item;
    struct yaml_node *last = NULL;
    while ((item = fy_node_sequence_iterate(n, &it))) {
        struct yaml_node *c = append(r, out, &last);
        if (!c || read_node(r, item, depth + 1, c) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

static int by_key(const void *x, const void *y)
{
    const struct yaml_node *a = *(const struct yaml_node *const *)x;
    const struct yaml_node *b = *(const struct yaml_node *const *)y;
    int order = strcmp(a->key, b->key);
    if (order) return order;
    return a->key_line != b->key_line ? (a->key_line > b->key_line) - (a->key_line < b->key_line)
                                      : a->key_column - b->key_column;
}

/* A mapping may hold tens of thousands of keys: they are sorted, not compared each with each (the
 * parser would). */
static enum err_code refuse_duplicates(struct reader *r, const struct yaml_node *map)
{
    int64_t count = 0, i = 0;
    for (const struct yaml_node *c = map->child; c; c = c->next) count++;
    if (count < 2) return ERR_OK;
    const struct yaml_node **key = malloc((size_t)count * sizeof *key);
    if (!key)
        return err_set(r->err, ERR_MEMORY, "parse YAML|%s|no memory for %lld keys|enough", r->path,
                       (long long)count);
    for (const struct yaml_node *c = map->child; c; c = c->next) key[i++] = c;
    qsort(key, (size_t)count, sizeof *key, by_key);
    for (i = 1; i < count && strcmp(key[i - 1]->key, key[i]->key) != 0; i++) {
    }
    if (i < count)
        yaml_bad_key(r->path, key[i], "parse YAML", "a duplicate key", "each once", r->err);
    free(key);
    return r->err->code;
}

static enum err_code read_map(struct reader *r, struct fy_node *n, int depth, struct yaml_node *out)
{
    void *it = NULL;
    struct fy_node_pair *pair;
    struct yaml_node *last = NULL;
    while ((pair = fy_node_mapping_iterate(n, &it))) {
        struct fy_node *key = fy_node_pair_key(pair), *value = fy_node_pair_value(pair);
        struct yaml_node *c = append(r, out, &last), k = {.line = r->line, .column = r->column};
        if (!c) return r->err->code;
        if (key && read_node(r, key, depth + 1, &k) != ERR_OK) return r->err->code;
        if (!key || k.kind != YAML_TEXT)
            return yaml_bad(r->path, &k, "parse YAML", "a key that is no text", "a text", r->err);
        c->key = k.text;
        c->key_line = k.line;
        c->key_column = k.column;
        if (value && read_node(r, value, depth + 1, c) != ERR_OK) return r->err->code;
    }
    return refuse_duplicates(r, out);
}

static enum err_code read_node(struct reader *r, struct fy_node *n, int depth,
                               struct yaml_node *out)
{
    size_t length;
    out->line = r->line;
    out->column = r->column;
    if (depth > YAML_DEPTH)
        return yaml_bad(r->path, out, "parse YAML", "more than 16 levels", "fewer", r->err);
    enum fy_node_type type = fy_node_get_type(n);
    out->kind = type == FYNT_SCALAR ? YAML_TEXT : type == FYNT_SEQUENCE ? YAML_LIST : YAML_MAP;
    enum err_code rc = out->kind == YAML_TEXT   ? read_text(r, n, out)
                       : out->kind == YAML_LIST ? read_list(r, n, depth, out)
                                                : read_map(r, n, depth, out);
    /* A collection's own place is that of its first child. */
    const struct yaml_node *c = out->child;
    if (c) out->line = c->key_line ? c->key_line : c->line;
    if (c) out->column = c->key_line ? c->key_column : c->column;
    if (rc != ERR_OK) return rc;
    if (fy_node_get_tag(n, &length))
        return yaml_bad(r->path, out, "parse YAML", "a tag", "no tag: all values are text", r->err);
    if (fy_node_get_anchor(n))
        return yaml_bad(r->path, out, "parse YAML", "an anchor", "no anchors", r->err);
    return ERR_OK;
}

/* What the parser had to say: its first error, or a sentence when it gives none. */
static enum err_code syntax_error(struct reader *r, struct fy_diag *diag)
{
    void *it = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(diag, &it);
    if (!e)
        return err_set(r->err, ERR_INPUT, "parse YAML|%s:1:1|%s|one document", r->path,
                       r->said[0] ? r->said : "no document");
    return err_set(r->err, ERR_INPUT, "parse YAML|%s:%d:%d|%s|valid YAML", r->path, e->line,
                   e->column, e->msg && e->msg[0] ? e->msg : "an unnamed error");
}

/* Keeps the parser from writing to stderr. */
static void keep_first(struct fy_diag *diag, void *user, const char *text, size_t length)
{
    struct reader *r = user;
    (void)diag;
    const char *line_end = memchr(text, '\n', length);
    size_t n = line_end ? (size_t)(line_end - text) : length;
    if (!r->said[0]) snprintf(r->said, sizeof r->said, "%.*s", (int)n, text);
}

static enum err_code read_stream(struct reader *r, struct fy_parser *parser, struct fy_diag *diag,
                                 struct yaml_node **out)
{
    struct fy_document *document = fy_parse_load_document(parser);
    struct fy_node *root = document ? fy_document_root(document) : NULL;
    if (!root) {
        fy_parse_document_destroy(parser, document);
        return syntax_error(r, diag);
    }
    *out = arena_alloc(r->arena, 1, sizeof **out, "YAML node", r->err);
    if (*out) {
        **out = (struct yaml_node){.text = ""};
        (void)!read_node(r, root, 0, *out);
    }
    fy_parse_document_destroy(parser, document);
    if (r->err->code != ERR_OK) return r->err->code;
    struct fy_document *second = fy_parse_load_document(parser);
    if (second) {
        fy_parse_document_destroy(parser, second);
        return err_set(r->err, ERR_INPUT, "parse YAML|%s:%d:%d|a second document after this|one",
                       r->path, r->line, r->column);
    }
    return fy_diag_got_error(diag) ? syntax_error(r, diag) : ERR_OK;
}

/* Bytes of the line break at text[at], as YAML 1.1 counts them; 0: none. */
static int64_t line_break(const char *text, int64_t size, int64_t at)
{
    static const char *const breaks[] = {"\r\n",     "\n",           "\r",
                                         "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        int64_t n = (int64_t)strlen(breaks[i]);
        if (n <= size - at && memcmp(text + at, breaks[i], (size_t)n) == 0) return n;
    }
    return 0;
}

/* The parser does not come back from some broken directives (libfyaml 0.7.12, fy_scan_directive),
 * and no file of ours needs one. */
static enum err_code refuse_directives(struct reader *r, const char *text, int64_t size)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order */
    int line = 1;
    bool begins = true;
    for (int64_t i = size >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0; i < size;) {
        if (begins && text[i] == '%')
            return err_set(r->err, ERR_INPUT, "parse YAML|%s:%d:1|a directive|none", r->path, line);
        int64_t n = line_break(text, size, i);
        begins = n > 0;
        line += begins;
        i += n ? n : 1;
    }
    return ERR_OK;
}

enum err_code yaml_parse_within(const char *text, int64_t size, int64_t most, const char *path,
                                struct arena *a, struct yaml_node **out, struct err *err)
{
    struct reader r = {.path = path, .arena = a, .err = err, .line = 1, .column = 1};
    struct fy_diag_cfg diag_cfg;
    *out = NULL;
    if (size == 0) return err_set(err, ERR_INPUT, "parse YAML|%s:1:1|an empty file|a plan", path);
    if (size > most)
        return err_set(err, ERR_INPUT, "parse YAML|%s:1:1|%lld bytes|at most %lld", path,
                       (long long)size, (long long)most);
    if (refuse_directives(&r, text, size) != ERR_OK) return err->code;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = keep_first;
    diag_cfg.user = &r;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (diag) fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_DEFAULT_PARSE | FYPCF_ALLOW_DUPLICATE_KEYS,
                               .diag = diag};
    struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
    enum err_code rc;
    if (!parser)
        rc = err_set(err, ERR_MEMORY, "parse YAML|%s|no parser|memory for one", path);
    else if (fy_parser_set_string(parser, text, (size_t)size) != 0)
        rc = err_set(err, ERR_MEMORY, "parse YAML|%s|a refused buffer|memory for it", path);
    else
        rc = read_stream(&r, parser, diag, out);
    if (parser) fy_parser_destroy(parser);
    if (diag) fy_diag_destroy(diag);
    return rc;
}

enum err_code yaml_parse(const char *text, int64_t size, const char *path, struct arena *a,
                         struct yaml_node **out, struct err *err)
{
    return yaml_parse_within(text, size, YAML_BYTES, path, a, out, err);
}
