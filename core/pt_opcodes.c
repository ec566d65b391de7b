/* pt_opcodes.c: one function for each opcode of pt_pickle.h, and the table of them; what globals
 * build is in pt_reduce.c. */
#include "core/pt_pickle.h"

#include "core/bytes.h"

#include <string.h>

/* The next n bytes of the pickle, or NULL. */
static const char *take(struct pickle *p, int64_t n, struct err *err)
{
    if (n < 0 || n > p->size - p->at) {
        pickle_refuse(p, err, "the end of the pickle", "its opcode's bytes (truncated?)");
        return NULL;
    }
    p->at += n;
    return (const char *)p->data + p->at - n;
}

/* A little-endian number of `bytes` bytes, up to 8. Numbers of 8 bytes are refused past 2^63. */
static enum err_code take_number(struct pickle *p, int bytes, int64_t *out, struct err *err)
{
    const char *b = take(p, bytes, err);
    const uint64_t x = b ? bytes_get(b, bytes) : 0;
    if (b && x > INT64_MAX) pickle_refuse(p, err, "a length of 2^63 or more", "one that fits");
    *out = (int64_t)x;
    return err->code;
}

/* Up to the next newline, which is taken and not counted. */
static const char *take_line(struct pickle *p, int64_t *n, struct err *err)
{
    const char *from = (const char *)p->data + p->at;
    const char *end = p->at < p->size ? memchr(from, '\n', (size_t)(p->size - p->at)) : NULL;
    if (!end) {
        pickle_refuse(p, err, "the end of the pickle", "a name that ends in a newline");
        return NULL;
    }
    *n = end - from;
    p->at += *n + 1;
    return from;
}

/* ---- opcodes: `arg` is the table's ---- */

static enum err_code op_nothing(struct pickle *p, int bytes, struct err *err)
{
    return take(p, bytes, err) ? ERR_OK : err->code;
}

static enum err_code op_proto(struct pickle *p, int unused, struct err *err)
{
    int64_t version = 0;
    (void)unused;
    if (take_number(p, 1, &version, err) != ERR_OK) return err->code;
    return version <= 5 ? ERR_OK : pickle_refuse(p, err, "a protocol above 5", "2 to 5");
}

static enum err_code op_stop(struct pickle *p, int unused, struct err *err)
{
    (void)unused, (void)err;
    p->stopped = true;
    return ERR_OK;
}

static enum err_code op_none(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_NONE}, err);
}

static enum err_code op_bool(struct pickle *p, int value, struct err *err)
{
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_BOOL, .whole = value}, err);
}

static enum err_code op_int(struct pickle *p, int bytes, struct err *err)
{
    int64_t x = 0;
    if (take_number(p, bytes, &x, err) != ERR_OK) return err->code;
    if (bytes == 4) x = (int32_t)(uint32_t)x;
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_INT, .whole = x}, err);
}

/* Two's complement, as many bytes as a length of `bytes` bytes says. */
static enum err_code op_long(struct pickle *p, int bytes, struct err *err)
{
    int64_t n = 0;
    if (take_number(p, bytes, &n, err) != ERR_OK) return err->code;
    if (n > 8) return pickle_refuse(p, err, "an integer of more than 64 bits", "one that fits");
    const char *b = take(p, n, err);
    if (!b) return err->code;
    uint64_t x = bytes_get(b, (int)n);
    if (n > 0 && n < 8 && (b[n - 1] & 0x80)) x |= UINT64_MAX << 8 * n; /* two's complement */
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_INT, .whole = (int64_t)x}, err);
}

/* Big-endian float64. */
static enum err_code op_float(struct pickle *p, int unused, struct err *err)
{
    const char *b = take(p, 8, err);
    uint64_t x = 0;
    struct pickle_value v = {.kind = PICKLE_FLOAT};
    (void)unused;
    if (!b) return err->code;
    for (int i = 0; i < 8; i++) x = x << 8 | (unsigned char)b[i];
    memcpy(&v.real, &x, sizeof x);
    return pickle_push(p, v, err);
}

static enum err_code op_text(struct pickle *p, int bytes, struct err *err)
{
    int64_t n = 0;
    if (take_number(p, bytes, &n, err) != ERR_OK) return err->code;
    const char *bytes_read = take(p, n, err);
    char *text = bytes_read ? pickle_text(p, n, err) : NULL;
    if (!text) return err->code;
    memcpy(text, bytes_read, (size_t)n);
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_TEXT, .whole = n, .text = text},
                       err);
}

/* An empty container, or a tuple of the n topmost values. */
static enum err_code make(struct pickle *p, enum pickle_kind kind, int64_t n, struct err *err)
{
    if (p->count - pickle_bottom(p) < n)
        return pickle_refuse(p, err, "too few values on the stack", "the container's");
    struct pickle_object *o = pickle_object(p, err);
    if (!o || (n && pickle_append(p, o, p->stack + p->count - n, n, err) != ERR_OK))
        return err->code;
    p->count -= n;
    return pickle_push(p, (struct pickle_value){.kind = kind, .object = o}, err);
}

static enum err_code op_empty(struct pickle *p, int kind, struct err *err)
{
    return make(p, (enum pickle_kind)kind, 0, err);
}

static enum err_code op_tuple(struct pickle *p, int n, struct err *err)
{
    return make(p, PICKLE_TUPLE, n, err);
}

static enum err_code op_mark(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    if (p->mark_count == PICKLE_MARKS)
        return pickle_refuse(p, err, "1024 marks at once", "fewer: nested too deep");
    p->marks[p->mark_count++] = p->count;
    return ERR_OK;
}

/* Ends the topmost mark: *n values above it. */
static enum err_code unmark(struct pickle *p, int64_t *n, struct err *err)
{
    if (!p->mark_count) return pickle_refuse(p, err, "no mark on the stack", "one");
    *n = p->count - p->marks[--p->mark_count];
    return ERR_OK;
}

static enum err_code op_marked(struct pickle *p, int kind, struct err *err)
{
    int64_t n = 0;
    if (unmark(p, &n, err) != ERR_OK) return err->code;
    if (kind == PICKLE_DICT && n % 2)
        return pickle_refuse(p, err, "a key without a value", "pairs");
    return make(p, (enum pickle_kind)kind, n, err);
}

static enum err_code op_pop(struct pickle *p, int unused, struct err *err)
{
    struct pickle_value v;
    (void)unused;
    return pickle_pop(p, &v, err);
}

static enum err_code op_pop_mark(struct pickle *p, int unused, struct err *err)
{
    int64_t n = 0;
    (void)unused;
    if (unmark(p, &n, err) != ERR_OK) return err->code;
    p->count -= n;
    return ERR_OK;
}

static enum err_code op_dup(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    if (p->count <= pickle_bottom(p)) return pickle_refuse(p, err, "an empty stack", "a value");
    return pickle_push(p, p->stack[p->count - 1], err);
}

/* Adds the n topmost values to the container below them. */
static enum err_code extend(struct pickle *p, enum pickle_kind kind, int64_t n, struct err *err)
{
    if (p->count - pickle_bottom(p) < n + 1 || p->stack[p->count - n - 1].kind != kind)
        return pickle_refuse(p, err, "values to add to something else", pickle_kind_name(kind));
    if (kind == PICKLE_DICT && n % 2)
        return pickle_refuse(p, err, "a key without a value", "pairs");
    struct pickle_object *o = p->stack[p->count - n - 1].object;
    if (pickle_append(p, o, p->stack + p->count - n, n, err) != ERR_OK) return err->code;
    p->count -= n;
    return ERR_OK;
}

static enum err_code op_append(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    return extend(p, PICKLE_LIST, 1, err);
}

static enum err_code op_setitem(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    return extend(p, PICKLE_DICT, 2, err);
}

static enum err_code op_extend(struct pickle *p, int kind, struct err *err)
{
    int64_t n = 0;
    if (unmark(p, &n, err) != ERR_OK) return err->code;
    return extend(p, (enum pickle_kind)kind, n, err);
}

static enum err_code op_put(struct pickle *p, int bytes, struct err *err)
{
    int64_t i = 0;
    if (take_number(p, bytes, &i, err) != ERR_OK) return err->code;
    return pickle_note(p, i, err);
}

static enum err_code op_memoize(struct pickle *p, int unused, struct err *err)
{
    (void)unused;
    return pickle_note(p, p->memo_puts, err);
}

static enum err_code op_get(struct pickle *p, int bytes, struct err *err)
{
    int64_t i = 0;
    if (take_number(p, bytes, &i, err) != ERR_OK) return err->code;
    return pickle_recall(p, i, err);
}

static enum err_code op_global(struct pickle *p, int unused, struct err *err)
{
    int64_t m = 0, n = 0;
    (void)unused;
    const char *module = take_line(p, &m, err);
    const char *name = module ? take_line(p, &n, err) : NULL;
    return name ? pickle_global(p, module, m, name, n, err) : err->code;
}

static enum err_code op_stack_global(struct pickle *p, int unused, struct err *err)
{
    struct pickle_value name, module;
    (void)unused;
    if (pickle_pop(p, &name, err) != ERR_OK || pickle_pop(p, &module, err) != ERR_OK)
        return err->code;
    if (name.kind != PICKLE_TEXT || module.kind != PICKLE_TEXT)
        return pickle_refuse(p, err, "a global without a name", "two texts");
    return pickle_global(p, module.text, module.whole, name.text, name.whole, err);
}

/* By opcode. Those without a function are known and refused: the text protocols before 2, and what
 * builds objects of any class. */
static const struct {
    const char *name;
    enum err_code (*run)(struct pickle *p, int arg, struct err *err);
    int arg;
} opcodes[256] = {
    [0x80] = {"PROTO", op_proto, 0},
    [0x95] = {"FRAME", op_nothing, 8},
    ['.'] = {"STOP", op_stop, 0},
    ['N'] = {"NONE", op_none, 0},
    [0x88] = {"NEWTRUE", op_bool, 1},
    [0x89] = {"NEWFALSE", op_bool, 0},
    ['K'] = {"BININT1", op_int, 1},
    ['M'] = {"BININT2", op_int, 2},
    ['J'] = {"BININT", op_int, 4},
    [0x8a] = {"LONG1", op_long, 1},
    [0x8b] = {"LONG4", op_long, 4},
    ['G'] = {"BINFLOAT", op_float, 0},
    [0x8c] = {"SHORT_BINUNICODE", op_text, 1},
    ['X'] = {"BINUNICODE", op_text, 4},
    [0x8d] = {"BINUNICODE8", op_text, 8},
    ['C'] = {"SHORT_BINBYTES", op_text, 1},
    ['B'] = {"BINBYTES", op_text, 4},
    [0x8e] = {"BINBYTES8", op_text, 8},
    ['U'] = {"SHORT_BINSTRING", op_text, 1},
    ['T'] = {"BINSTRING", op_text, 4},
    [']'] = {"EMPTY_LIST", op_empty, PICKLE_LIST},
    ['l'] = {"LIST", op_marked, PICKLE_LIST},
    ['a'] = {"APPEND", op_append, 0},
    ['e'] = {"APPENDS", op_extend, PICKLE_LIST},
    [')'] = {"EMPTY_TUPLE", op_empty, PICKLE_TUPLE},
    ['t'] = {"TUPLE", op_marked, PICKLE_TUPLE},
    [0x85] = {"TUPLE1", op_tuple, 1},
    [0x86] = {"TUPLE2", op_tuple, 2},
    [0x87] = {"TUPLE3", op_tuple, 3},
    ['}'] = {"EMPTY_DICT", op_empty, PICKLE_DICT},
    ['d'] = {"DICT", op_marked, PICKLE_DICT},
    ['s'] = {"SETITEM", op_setitem, 0},
    ['u'] = {"SETITEMS", op_extend, PICKLE_DICT},
    ['('] = {"MARK", op_mark, 0},
    ['0'] = {"POP", op_pop, 0},
    ['1'] = {"POP_MARK", op_pop_mark, 0},
    ['2'] = {"DUP", op_dup, 0},
    ['q'] = {"BINPUT", op_put, 1},
    ['r'] = {"LONG_BINPUT", op_put, 4},
    [0x94] = {"MEMOIZE", op_memoize, 0},
    ['h'] = {"BINGET", op_get, 1},
    ['j'] = {"LONG_BINGET", op_get, 4},
    ['c'] = {"GLOBAL", op_global, 0},
    [0x93] = {"STACK_GLOBAL", op_stack_global, 0},
    ['R'] = {"REDUCE", pickle_reduce, 0},
    ['b'] = {"BUILD", pickle_build, 0},
    ['Q'] = {"BINPERSID", pickle_persistent, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    [0x81] = {"NEWOBJ", NULL, 0},
    [0x92] = {"NEWOBJ_EX", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x8f] = {"EMPTY_SET", NULL, 0},
    [0x90] = {"ADDITEMS", NULL, 0},
    [0x91] = {"FROZENSET", NULL, 0},
    [0x96] = {"BYTEARRAY8", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
    ['I'] = {"INT", NULL, 0},
    ['L'] = {"LONG", NULL, 0},
    ['F'] = {"FLOAT", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    ['p'] = {"PUT", NULL, 0},
    ['g'] = {"GET", NULL, 0},
};

enum err_code pickle_step(struct pickle *p, struct err *err)
{
    const char *code = take(p, 1, err);
    if (!code) return err->code;
    int op = (unsigned char)*code;
    if (!opcodes[op].run)
        return err_set(err, ERR_INPUT,
                       "read pickle|%s: byte %lld|opcode 0x%02x%s%s|plain data and tensors",
                       p->path, (long long)p->at - 1, (unsigned)op, opcodes[op].name ? " " : "",
                       opcodes[op].name ? opcodes[op].name : "");
    return opcodes[op].run(p, opcodes[op].arg, err);
}
