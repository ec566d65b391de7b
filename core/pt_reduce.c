/* pt_reduce.c: what the globals of pt_pickle.h build. The table is all that can be named, and
 * pickle_reduce() all that can be called. */
#include "core/pt_pickle.h"

#include <string.h>

static const struct pickle_global globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", CALL_TENSOR, DT_COUNT},
    {"torch._utils", "_rebuild_parameter", CALL_PARAMETER, DT_COUNT},
    {"collections", "OrderedDict", CALL_ORDERED, DT_COUNT},
    {"torch", "Size", CALL_SIZE, DT_COUNT},
    {"_codecs", "encode", CALL_ENCODE, DT_COUNT},
    {"torch", "DoubleStorage", CALL_STORAGE, DT_F64},
    {"torch", "FloatStorage", CALL_STORAGE, DT_F32},
    {"torch", "HalfStorage", CALL_STORAGE, DT_F16},
    {"torch", "BFloat16Storage", CALL_STORAGE, DT_BF16},
    {"torch", "LongStorage", CALL_STORAGE, DT_I64},
    {"torch", "IntStorage", CALL_STORAGE, DT_I32},
    {"torch", "ShortStorage", CALL_STORAGE, DT_I16},
    {"torch", "CharStorage", CALL_STORAGE, DT_I8},
    {"torch", "ByteStorage", CALL_STORAGE, DT_U8},
    {"torch", "BoolStorage", CALL_STORAGE, DT_BOOL},
};

static bool same(const char *text, const char *bytes, int64_t n)
{
    return strlen(text) == (size_t)n && memcmp(text, bytes, (size_t)n) == 0;
}

enum err_code pickle_global(struct pickle *p, const char *module, int64_t module_bytes,
                            const char *name, int64_t name_bytes, struct err *err)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (same(globals[i].module, module, module_bytes) &&
            same(globals[i].name, name, name_bytes))
            return pickle_push(
                p, (struct pickle_value){.kind = PICKLE_GLOBAL, .global = &globals[i]}, err);
    }
    return err_set(err, ERR_INPUT,
                   "read pickle|%s: byte %lld|the global %.*s.%.*s|plain data and tensors: nothing "
                   "else is ever loaded",
                   p->path, (long long)p->at, module_bytes < 80 ? (int)module_bytes : 80, module,
                   name_bytes < 80 ? (int)name_bytes : 80, name);
}

static bool is_text(const struct pickle_value *v, const char *text)
{
    return v->kind == PICKLE_TEXT && same(text, v->text, v->whole);
}

/* ("storage", torch.XStorage, key, device, elements) */
enum err_code pickle_persistent(struct pickle *p, int unused, struct err *err)
{
    struct pickle_value id;
    (void)unused;
    if (pickle_pop(p, &id, err) != ERR_OK) return err->code;
    const struct pickle_value *a = id.kind == PICKLE_TUPLE ? id.object->items : NULL;
    if (!a || id.object->count != 5 || !is_text(&a[0], "storage") || a[1].kind != PICKLE_GLOBAL ||
        a[1].global->call != CALL_STORAGE || a[2].kind != PICKLE_TEXT || a[3].kind != PICKLE_TEXT ||
        a[4].kind != PICKLE_INT || a[4].whole < 0)
        return pickle_refuse(p, err, "a persistent id of another form",
                             "(\"storage\", type, key, device, elements)");
    struct pickle_object *o = pickle_object(p, err);
    if (!o) return err->code;
    o->dtype = a[1].global->dtype;
    o->key = a[2];
    o->elements = a[4].whole;
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_STORAGE, .object = o}, err);
}

/* A tuple of at most ST_DIMS whole numbers of 0 or more. */
static bool read_dims(const struct pickle_value *v, int *dims, int64_t out[ST_DIMS])
{
    if (v->kind != PICKLE_TUPLE || v->object->count > ST_DIMS) return false;
    *dims = (int)v->object->count;
    for (int i = 0; i < *dims; i++) {
        const struct pickle_value *d = &v->object->items[i];
        if (d->kind != PICKLE_INT || d->whole < 0) return false;
        out[i] = d->whole;
    }
    return true;
}

/* The view's last element lies inside the storage. */
static bool inside(const struct pickle_object *t)
{
    int64_t last = t->offset;
    for (int i = 0; i < t->dims; i++) {
        if (t->shape[i] == 0) return t->offset <= t->storage->elements;
    }
    for (int i = 0; i < t->dims; i++) {
        int64_t step;
        if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < t->storage->elements;
}

/* (storage, offset, size, stride, requires_grad, hooks[, metadata]) */
static enum err_code rebuild_tensor(struct pickle *p, const struct pickle_object *args,
                                    struct err *err)
{
    const struct pickle_value *a = args->items;
    int strides = 0;
    if (args->count < 6 || a[0].kind != PICKLE_STORAGE || a[1].kind != PICKLE_INT || a[1].whole < 0)
        return pickle_refuse(p, err, "a tensor of other arguments",
                             "storage, offset, size, stride, requires_grad, hooks");
    struct pickle_object *t = pickle_object(p, err);
    if (!t) return err->code;
    t->storage = a[0].object;
    t->offset = a[1].whole;
    if (!read_dims(&a[2], &t->dims, t->shape) || !read_dims(&a[3], &strides, t->stride) ||
        strides != t->dims)
        return pickle_refuse(p, err, "a tensor's size or stride of another form",
                             "as many numbers of 0 or more each, at most 8");
    if (!inside(t))
        return pickle_refuse(p, err, "a tensor that reaches outside its storage",
                             "a view inside it");
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_TENSOR, .object = t}, err);
}

/* OrderedDict(), or OrderedDict([[key, value], ...]) as protocol 2 of older Pythons has it. */
static enum err_code make_ordered(struct pickle *p, const struct pickle_object *args,
                                  struct err *err)
{
    struct pickle_object *o = pickle_object(p, err);
    if (!o) return err->code;
    o->ordered = true;
    const struct pickle_value *list = args->count ? &args->items[0] : NULL;
    if (args->count > 1 || (list && list->kind != PICKLE_LIST))
        return pickle_refuse(p, err, "an OrderedDict of other arguments", "none, or pairs");
    for (int64_t i = 0; list && i < list->object->count; i++) {
        const struct pickle_value *pair = &list->object->items[i];
        if ((pair->kind != PICKLE_TUPLE && pair->kind != PICKLE_LIST) || pair->object->count != 2)
            return pickle_refuse(p, err, "an OrderedDict of other arguments", "pairs");
        if (pickle_append(p, o, pair->object->items, 2, err) != ERR_OK) return err->code;
    }
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_DICT, .object = o}, err);
}

/* (text, "latin1"): each character of the text is one byte. */
static enum err_code encode(struct pickle *p, const struct pickle_object *args, struct err *err)
{
    const struct pickle_value *a = args->items;
    if (args->count != 2 || a[0].kind != PICKLE_TEXT || !is_text(&a[1], "latin1"))
        return pickle_refuse(p, err, "bytes of other arguments", "a text and \"latin1\"");
    char *out = pickle_text(p, a[0].whole, err);
    if (!out) return err->code;
    int64_t n = 0;
    for (int64_t i = 0; i < a[0].whole; i++) {
        unsigned char c = (unsigned char)a[0].text[i];
        if (c >= 0x80) {
            unsigned char next = i + 1 < a[0].whole ? (unsigned char)a[0].text[++i] : 0;
            if ((c != 0xC2 && c != 0xC3) || (next & 0xC0) != 0x80)
                return pickle_refuse(p, err, "bytes beyond latin1", "characters up to U+00FF");
            c = (unsigned char)(c << 6 | (next & 0x3F));
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_TEXT, .whole = n, .text = out}, err);
}

/* A call whose value is its first argument. */
static enum err_code first_of(struct pickle *p, const struct pickle_object *args, int64_t count,
                              enum pickle_kind kind, struct err *err)
{
    if (args->count != count || args->items[0].kind != kind)
        return pickle_refuse(p, err, "a parameter or size of other arguments",
                             pickle_kind_name(kind));
    return pickle_push(p, args->items[0], err);
}

enum err_code pickle_reduce(struct pickle *p, int unused, struct err *err)
{
    struct pickle_value args, call;
    (void)unused;
    if (pickle_pop(p, &args, err) != ERR_OK || pickle_pop(p, &call, err) != ERR_OK)
        return err->code;
    if (call.kind != PICKLE_GLOBAL || args.kind != PICKLE_TUPLE)
        return pickle_refuse(p, err, "a call of something that is no known global",
                             "a tensor or an OrderedDict");
    switch (call.global->call) {
    case CALL_TENSOR:
        return rebuild_tensor(p, args.object, err);
    case CALL_PARAMETER:
        return first_of(p, args.object, 3, PICKLE_TENSOR, err);
    case CALL_ORDERED:
        return make_ordered(p, args.object, err);
    case CALL_SIZE:
        return first_of(p, args.object, 1, PICKLE_TUPLE, err);
    case CALL_ENCODE:
        return encode(p, args.object, err);
    case CALL_STORAGE:
        break;
    }
    return err_set(err, ERR_INPUT, "read pickle|%s: byte %lld|a call of %s.%s|a tensor of it",
                   p->path, (long long)p->at, call.global->module, call.global->name);
}

/* State dicts carry a `_metadata` beside their entries; nothing here needs it. */
enum err_code pickle_build(struct pickle *p, int unused, struct err *err)
{
    struct pickle_value state, top;
    (void)unused;
    if (pickle_pop(p, &state, err) != ERR_OK || pickle_pop(p, &top, err) != ERR_OK)
        return err->code;
    if (top.kind != PICKLE_DICT || !top.object->ordered || state.kind != PICKLE_DICT)
        return err_set(err, ERR_INPUT,
                       "read pickle|%s: byte %lld|opcode BUILD on %s with %s|an OrderedDict with a "
                       "dict of attributes",
                       p->path, (long long)p->at, pickle_kind_name(top.kind),
                       pickle_kind_name(state.kind));
    return pickle_push(p, top, err);
}
