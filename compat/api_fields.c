/* api_fields.c: see api_fields.h. */
#include "compat/api_fields.h"

#include "compat/api_type.h"

#include <ctype.h>
#include <string.h>

bool api_is_identifier(const char *s)
{
    if (!s[0] || isdigit((unsigned char)s[0]) || strlen(s) > API_IDENTIFIER) return false;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_' && (unsigned char)*s < 0x80) return false;
    }
    return true;
}

bool api_is_module_name(const char *s)
{
    if (!s[0] || strlen(s) > API_MODULE || s[0] == '.' || s[strlen(s) - 1] == '.' ||
        strstr(s, ".."))
        return false;
    for (; *s; s++) {
        if ((unsigned char)*s <= ' ' || *s == 0x7f || *s == ':') return false;
    }
    return true;
}

/* A mark that the blank before or behind the text would complete. */
static bool at_an_end(const char *text, size_t n, char mark)
{
    return (text[0] == mark && (n == 1 || text[1] == ' ')) ||
           (n > 1 && text[n - 1] == mark && text[n - 2] == ' ');
}

bool api_fits_line(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && text[0] != ' ' && text[n - 1] != ' ' && api_balanced(text) &&
           !api_scan(text, " = ") && !api_scan(text, " # ") && !at_an_end(text, n, '=') &&
           !at_an_end(text, n, '#');
}

bool api_params_ordered(const struct api_params *p)
{
    static const int rank[] = {
        [API_POS] = 0, [API_ANY] = 1, [API_STAR] = 2, [API_KW] = 3, [API_DSTAR] = 4};
    for (int i = 1; i < p->count; i++) {
        int before = rank[p->param[i - 1].kind], here = rank[p->param[i].kind];
        if (here < before || (here == before && (here == 2 || here == 4))) return false;
    }
    return true;
}

/* "NAME: TYPE = DEFAULT", what is NULL left out. */
static char *joined(const char *stars, const char *name, const char *type, const char *value,
                    const char *tail, struct pool *pool, struct err *err)
{
    return pool_format(pool, err, "%s%s%s%s%s%s%s%s", stars, name, type ? ": " : "",
                       type ? type : "", value ? " = " : "", value ? value : "",
                       tail[0] ? " #" : "", tail);
}

char *api_param_text(const struct api_param *p, struct pool *pool, struct err *err)
{
    const char *stars = p->kind == API_STAR ? "*" : p->kind == API_DSTAR ? "**" : "";
    return joined(stars, p->name, p->type, p->fallback, "", pool, err);
}

struct api_texts api_params_texts(const struct api_params *p, struct pool *pool, struct err *err)
{
    struct api_texts out = {pool_take(pool, (size_t)p->count + 2, sizeof *out.text, err), 0};
    bool starred = false;
    for (int i = 0; out.text && i < p->count; i++) {
        enum api_param_kind kind = p->param[i].kind;
        if (kind == API_KW && !starred) out.text[out.count++] = "*";
        starred |= kind == API_STAR || kind == API_KW;
        char *text = api_param_text(&p->param[i], pool, err);
        if (!text) return (struct api_texts){0};
        out.text[out.count++] = text;
        bool last_pos = kind == API_POS && (i + 1 == p->count || p->param[i + 1].kind != API_POS);
        if (last_pos) out.text[out.count++] = "/";
    }
    return out;
}

struct flag {
    const char *word;
    bool set;
};

char *api_field_text(const struct api_field *f, struct pool *pool, struct err *err)
{
    const struct flag flags[] = {
        {"factory", f->factory}, {"kw_only", f->kw_only},   {"init=False", !f->init},
        {"InitVar", f->initvar}, {"ClassVar", f->classvar}, {"NotRequired", f->optional},
    };
    char tail[128] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!flags[i].set) continue;
        tail[n++] = ' ';
        memcpy(tail + n, flags[i].word, strlen(flags[i].word) + 1);
        n += strlen(flags[i].word);
    }
    char *text = joined("", f->name, f->type, f->fallback, tail, pool, err);
    if (!text || !f->alias) return text;
    return pool_format(pool, err, "%s%s alias=%s", text, tail[0] ? "" : " #", f->alias);
}

char *api_attr_text(const struct api_attr *d, struct pool *pool, struct err *err)
{
    char *tail =
        pool_format(pool, err, "%s%s", d->method ? " in " : "", d->method ? d->method : "");
    for (int i = 0; tail && i < d->calls.count; i++) {
        const char *call = d->calls.text[i];
        tail = pool_format(pool, err, "%s%s %s", tail, i ? "" : " calls", call[0] ? call : "-");
    }
    return tail ? joined("", d->name, d->type, d->value, tail, pool, err) : NULL;
}

/* Text of a part of `text`; NULL where the part is empty. */
static const char *part(const char *begin, const char *end, struct pool *pool, struct err *err)
{
    return end > begin ? pool_text(pool, begin, (size_t)(end - begin), err) : NULL;
}

/* NAME [": " TYPE] [" = " VALUE] [" #" TAIL]. *tail: "" where there is none. */
static const char *take_apart(const char *text, const char **name, const char **type,
                              const char **value, const char **tail, struct pool *pool,
                              struct err *err)
{
    if (!api_balanced(text)) return "brackets or quotes that do not close";
    const char *end = api_scan(text, " # ");
    *tail = end ? end + 2 : "";
    if (!end) end = text + strlen(text);
    const char *equals = api_scan(text, " = "), *colon = api_scan(text, ": ");
    if (equals && equals >= end) equals = NULL;
    const char *typed = equals ? equals : end;
    if (colon && colon >= typed) colon = NULL;
    *name = part(text, colon ? colon : typed, pool, err);
    *type = colon ? part(colon + 2, typed, pool, err) : NULL;
    *value = equals ? part(equals + 3, end, pool, err) : NULL;
    if (!*name || !api_is_identifier(*name)) return "no identifier before the colon";
    if ((colon && (!*type || !api_fits_line(*type))) ||
        (equals && (!*value || !api_fits_line(*value))))
        return "nothing, or blanks, behind the colon or the equals sign";
    return NULL;
}

const char *api_param_from(const char *text, struct api_param *out, struct pool *pool,
                           struct err *err)
{
    const char *tail, *wrong;
    size_t stars = strspn(text, "*");
    if (stars > 2) return "more than two stars";
    *out = (struct api_param){.kind = stars == 2 ? API_DSTAR : stars ? API_STAR : API_ANY};
    wrong = take_apart(text + stars, &out->name, &out->type, &out->fallback, &tail, pool, err);
    if (!wrong && tail[0]) return "a remark behind a parameter";
    return wrong;
}

const char *api_params_from(const struct api_texts *texts, struct api_params *out,
                            struct pool *pool, struct err *err)
{
    bool keywords = false, slash = false;
    *out =
        (struct api_params){pool_take(pool, (size_t)texts->count + 1, sizeof *out->param, err), 0};
    for (int i = 0; out->param && i < texts->count; i++) {
        const char *text = texts->text[i];
        if (strcmp(text, "/") == 0) {
            if (slash || out->count == 0) return "a / that parts nothing";
            for (int k = 0; k < out->count; k++) {
                if (out->param[k].kind != API_ANY) return "a / behind a star";
                out->param[k].kind = API_POS;
            }
            slash = true;
            continue;
        }
        bool star = strcmp(text, "*") == 0;
        if (star && (keywords || i + 1 == texts->count || texts->text[i + 1][0] == '*'))
            return "a * that parts nothing";
        keywords |= star;
        if (star) continue;
        struct api_param *p = &out->param[out->count];
        const char *wrong = api_param_from(text, p, pool, err);
        if (wrong) return wrong;
        if (p->kind == API_STAR && keywords) return "two stars";
        if (p->kind == API_ANY && keywords) p->kind = API_KW;
        keywords |= p->kind == API_STAR;
        out->count++;
    }
    return api_params_ordered(out) ? NULL : "parameters in an order that no def has";
}

/* The next word of a tail in buf, or NULL. */
static const char *next_word(const char **tail, struct pool *pool, struct err *err)
{
    const char *begin = *tail + strspn(*tail, " ");
    *tail = begin + strcspn(begin, " ");
    return part(begin, *tail, pool, err);
}

const char *api_field_from(const char *text, struct api_field *out, struct pool *pool,
                           struct err *err)
{
    const char *tail, *word;
    *out = (struct api_field){.init = true};
    const char *wrong = take_apart(text, &out->name, &out->type, &out->fallback, &tail, pool, err);
    if (wrong) return wrong;
    bool last = true;
    while ((word = next_word(&tail, pool, err))) {
        struct {
            const char *word;
            bool *flag;
        } flags[] = {
            {"factory", &out->factory},   {"kw_only", &out->kw_only},
            {"init=False", &out->init},   {"InitVar", &out->initvar},
            {"ClassVar", &out->classvar}, {"NotRequired", &out->optional},
        };
        size_t i = 0;
        if (!last) return "a word behind the alias";
        while (i < 6 && strcmp(flags[i].word, word) != 0) i++;
        if (i < 6) {
            *flags[i].flag = flags[i].flag != &out->init;
        } else if (strncmp(word, "alias=", 6) == 0 && api_is_identifier(word + 6)) {
            out->alias = word + 6;
            last = false;
        } else {
            return "a word that says nothing of a field";
        }
    }
    return NULL;
}

const char *api_attr_from(const char *text, struct api_attr *out, struct pool *pool,
                          struct err *err)
{
    const char *tail, *word;
    *out = (struct api_attr){0};
    const char *wrong = take_apart(text, &out->name, &out->type, &out->value, &tail, pool, err);
    if (wrong || !tail[0]) return wrong;
    word = next_word(&tail, pool, err);
    if (word && strcmp(word, "in") == 0) {
        if (!(out->method = next_word(&tail, pool, err))) return "no method behind `in`";
        word = next_word(&tail, pool, err);
    }
    if (!word) return NULL;
    if (strcmp(word, "calls") != 0) return "neither `in` nor `calls`";
    out->calls.text = pool_take(pool, strlen(tail) / 2 + 1, sizeof *out->calls.text, err);
    if (!out->calls.text) return NULL;
    while ((word = next_word(&tail, pool, err))) {
        out->calls.text[out->calls.count++] = strcmp(word, "-") == 0 ? "" : word;
    }
    return out->calls.count ? NULL : "no name behind `calls`";
}
