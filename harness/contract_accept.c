/* contract_accept.c: see contract_accept.h. */
#include "harness/contract_accept.h"

#include "core/file.h"
#include "core/yaml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static enum err_code bad(const char *path, const struct yaml_node *n, const char *found,
                         const char *wanted, struct err *err)
{
    return yaml_bad(path, n, "accepted findings", found, wanted, err);
}

static bool is_date(const char *t)
{
    if (strlen(t) != 10) return false;
    for (int i = 0; i < 10; i++) {
        bool dash = i == 4 || i == 7;
        if (dash ? t[i] != '-' : !isdigit((unsigned char)t[i])) return false;
    }
    return true;
}

static const char **slot_of(struct judge_accept *row, const char *key)
{
    if (strcmp(key, "symbol") == 0) return &row->symbol;
    if (strcmp(key, "file") == 0) return &row->file;
    if (strcmp(key, "reason") == 0) return &row->reason;
    return strcmp(key, "until") == 0 ? &row->until : NULL;
}

static enum err_code read_row(const char *path, const struct yaml_node *n, struct arena *a,
                              struct judge_accept *row, struct err *err)
{
    *row = (struct judge_accept){0};
    if (n->kind != YAML_MAP) return bad(path, n, yaml_kind_name(n), "a mapping", err);
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        const char **slot = slot_of(row, c->key);
        if (!slot)
            return yaml_bad_key(path, c, "accepted findings", c->key,
                                "symbol, file, reason or until", err);
        if (c->kind != YAML_TEXT || !c->text[0])
            return bad(path, c, yaml_kind_name(c), "a text", err);
        if (slot == &row->until && !is_date(c->text))
            return bad(path, c, c->text, "a day as 2027-01-31", err);
        *slot = c->text;
    }
    if (!row->reason) return bad(path, n, "no reason", "a reason", err);
    if (!row->symbol && !row->file) return bad(path, n, "neither symbol nor file", "one", err);
    char *place = arena_alloc(a, (int64_t)strlen(path) + 16, 1, "accepted finding", err);
    if (!place) return err->code;
    snprintf(place, strlen(path) + 16, "%s:%d", path, n->line);
    row->place = place;
    return ERR_OK;
}

static enum err_code read_rows(const char *path, const struct yaml_node *root, struct arena *a,
                               struct judge_accept **out, int *count, struct err *err)
{
    const struct yaml_node *list = root->kind == YAML_MAP ? root->child : NULL;
    if (!list || strcmp(list->key, "accept") != 0 || list->next || list->kind != YAML_LIST)
        return bad(path, root, yaml_kind_name(root), "a mapping of one list, accept", err);
    int n = 0;
    for (const struct yaml_node *c = list->child; c; c = c->next) n++;
    *out = arena_alloc(a, n, sizeof **out, "accepted findings", err);
    if (!*out) return err->code;
    for (const struct yaml_node *c = list->child; c; c = c->next) {
        if (read_row(path, c, a, &(*out)[(*count)++], err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

enum err_code contract_accept_read(const char *path, struct arena *a, struct judge_accept **out,
                                   int *count, struct err *err)
{
    struct file_map m;
    struct yaml_node *root;
    *count = 0;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    if (yaml_parse((const char *)m.data, m.size, path, a, &root, err) == ERR_OK)
        (void)read_rows(path, root, a, out, count, err);
    file_unmap(&m);
    return err->code;
}
