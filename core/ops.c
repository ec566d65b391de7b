/* ops.c: the one list of ops; see ops.h. */
#include "core/ops.h"

#include "core/check.h"

#include <string.h>

/* Files of an op whose code and test have another stem than its header. */
#define OP_OF(op_name, stem, code)                                                                 \
    {                                                                                              \
        .name = op_name, .header = "core/" stem ".h", .ref = "ref/" code ".c",                     \
        .gpu = "gpu/" code ".cu", .contract = "compat/ops/" stem ".yaml",                          \
        .test = "tests/test_" code ".c", .fixtures = "fixtures/" stem                              \
    }
#define OP(op_name, stem) OP_OF(op_name, stem, stem)

const struct op_row op_rows[] = {
    OP("embed", "embed"),
    OP("norm", "norm"),
    OP("rope", "rope"),
    OP("linear", "linear"),
    OP("mla.q", "mla"),
    OP("mla.kv", "mla"),
    OP("mla.core", "mla"),
    OP("mla.output", "mla"),
    OP("router", "router"),
    OP("int4", "int4"),
    OP("moe", "moe"),
    OP("moe.shared", "mlp"),
    OP("mlp", "mlp"),
    OP("logits", "logits"),
    OP("eagle.fc", "eagle"),
    OP("eagle.layer", "eagle"),
    OP_OF("eagle.verify", "eagle", "eagle_verify"),
};

const int op_count = sizeof op_rows / sizeof op_rows[0];

const struct op_row *op_find(const char *name)
{
    for (int i = 0; i < op_count; i++) {
        if (strcmp(op_rows[i].name, name) == 0) return &op_rows[i];
    }
    return NULL;
}

op_function *op_side_find(const struct op_side *side, const char *name)
{
    for (const struct op_entry *e = side->entries; e->name; e++) {
        if (strcmp(e->name, name) == 0) return e->run;
    }
    return NULL;
}

enum err_code op_side_check(const struct op_side *side, struct err *err)
{
    for (const struct op_entry *e = side->entries; e->name; e++) {
        if (!op_find(e->name))
            return err_set(err, ERR_INPUT,
                           "join the ops|side %s|entry \"%s\"|a name of the list in core/ops.c",
                           side->name, e->name);
        CHECK(e->run);
    }
    return ERR_OK;
}
