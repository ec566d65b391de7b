/* judge_hints.c: --receiver [SCOPE:]NAME=TYPE: what the reader of the code knows and the code does
 * not say. A hint that is used nowhere is an error: it would be a check that is not made. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <string.h>

static const struct value *hint_type(struct judge_run *r, const char *type)
{
    enum api_found found;
    const struct api_def *c = api_find_class(r->api, type, &found);
    if (c) return judge_value_exact(r, c);
    if (!strpbrk(type, "[|")) return NULL;
    const struct value *v = judge_type_from_text(r, type, NULL);
    return v->kind == VALUE_UNKNOWN ? NULL : v;
}

static enum err_code read_hint(struct judge_run *r, struct hint *h, const char *text)
{
    const char *equals = strchr(text, '='), *colon = strchr(text, ':');
    if (!equals || equals == text || !equals[1])
        return err_set(r->err, ERR_USAGE, "arguments|--receiver|%s|[SCOPE:]NAME=TYPE", text);
    if (colon && colon > equals) colon = NULL;
    const char *name = colon ? colon + 1 : text;
    h->text = text;
    h->scope = colon ? judge_run_format(r, "%.*s", (int)(colon - text), text) : NULL;
    h->name = judge_run_format(r, "%.*s", (int)(equals - name), name);
    h->value = hint_type(r, equals + 1);
    if (!h->value && judge_run_ok(r))
        return err_set(r->err, ERR_USAGE, "arguments|--receiver %s|%s|a class of %s", h->name,
                       equals + 1, r->api->library.name ? r->api->library.name : "the library");
    return r->err->code;
}

enum err_code judge_hints_read(struct judge_run *r)
{
    r->hint = judge_run_take(r, r->in->hints, sizeof *r->hint);
    r->hints = r->hint ? r->in->hints : 0;
    for (int i = 0; i < r->hints; i++) {
        if (read_hint(r, &r->hint[i], r->in->hint[i].text) != ERR_OK) break;
    }
    return r->err->code;
}

/* The scope is the name of the function or class around, or the end of its dotted name. */
static bool ends_in(const char *dotted, const char *scope)
{
    size_t n = strlen(dotted), m = strlen(scope);
    return text_ends(dotted, scope) && (n == m || dotted[n - m - 1] == '.');
}

static bool in_scope(const struct frame *f, const struct hint *h, bool missed)
{
    if (!h->scope)
        return !missed || strcmp(h->name, "self") != 0 || (f->class_ && f->class_->named);
    for (const struct own_function *fn = f->function; fn; fn = fn->inside) {
        if (ends_in(fn->name, h->scope)) return true;
    }
    return (f->class_ && ends_in(f->class_->name, h->scope)) ||
           ends_in(f->module->uses->name, h->scope);
}

/* `v` NULL: an attribute of the consumer's own object was looked for and is not there. */
const struct value *judge_hint_for(struct frame *f, const char *path, const struct value *v)
{
    struct judge_run *r = f->run;
    if (r->hints == 0 || !path || (v && v->kind != VALUE_UNKNOWN)) return NULL;
    for (int i = 0; i < r->hints; i++) {
        struct hint *h = &r->hint[i];
        if (strcmp(h->name, path) != 0 || !in_scope(f, h, !v)) continue;
        h->hit = true;
        return h->value;
    }
    return NULL;
}
