/* table.c: the reference's side of the op registry; see core/ops.h. */
#include "core/eagle.h"
#include "core/embed.h"
#include "core/int4.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/norm.h"
#include "core/ops.h"
#include "core/rope.h"
#include "core/router.h"
#include "ref/kernel.h"

#include <stdio.h>

/* A thunk of the table's type for each op: functions are never called through a cast type. */
#define THUNK(stem)                                                                                \
    static enum err_code run_##stem(const void *op, struct run *run, struct err *err)              \
    {                                                                                              \
        return stem##_ref(op, run, err);                                                           \
    }

THUNK(embed)
THUNK(norm)
THUNK(rope)
THUNK(linear)
THUNK(mla_q)
THUNK(mla_kv)
THUNK(mla_core)
THUNK(mla_output)
THUNK(router)
THUNK(int4)
THUNK(moe)
THUNK(mlp)
THUNK(logits)
THUNK(eagle_fc)
THUNK(eagle_layer)
THUNK(eagle_verify)

static const struct op_entry entries[] = {
    {"embed", run_embed},
    {"norm", run_norm},
    {"rope", run_rope},
    {"linear", run_linear},
    {"mla.q", run_mla_q},
    {"mla.kv", run_mla_kv},
    {"mla.core", run_mla_core},
    {"mla.output", run_mla_output},
    {"router", run_router},
    {"int4", run_int4},
    {"moe", run_moe},
    {"moe.shared", run_mlp},
    {"mlp", run_mlp},
    {"logits", run_logits},
    {"eagle.fc", run_eagle_fc},
    {"eagle.layer", run_eagle_layer},
    {"eagle.verify", run_eagle_verify},
    {NULL, NULL},
};

const struct op_side *ref_side(void)
{
    static struct op_side side = {.name = "ref", .available = true, .entries = entries};
    static char about[64];
    snprintf(about, sizeof about, "plain C, %s", kernel_best()->name);
    side.about = about;
    return &side;
}
