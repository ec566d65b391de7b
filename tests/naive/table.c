/* table.c: the naive side's table of ops; see naive.h and core/ops.h. Each thunk gives the argument
 * struct its type. */
#include "tests/naive/naive.h"

static enum err_code run_embed(const void *op, struct run *run, struct err *err)
{
    return embed_naive(op, run, err);
}

static enum err_code run_norm(const void *op, struct run *run, struct err *err)
{
    return norm_naive(op, run, err);
}

static enum err_code run_rope(const void *op, struct run *run, struct err *err)
{
    return rope_naive(op, run, err);
}

static enum err_code run_linear(const void *op, struct run *run, struct err *err)
{
    return linear_naive(op, run, err);
}

static enum err_code run_int4(const void *op, struct run *run, struct err *err)
{
    return int4_naive(op, run, err);
}

static enum err_code run_mla_q(const void *op, struct run *run, struct err *err)
{
    return mla_q_naive(op, run, err);
}

static enum err_code run_mla_kv(const void *op, struct run *run, struct err *err)
{
    return mla_kv_naive(op, run, err);
}

static enum err_code run_mla_core(const void *op, struct run *run, struct err *err)
{
    return mla_core_naive(op, run, err);
}

static enum err_code run_mla_output(const void *op, struct run *run, struct err *err)
{
    return mla_output_naive(op, run, err);
}

static enum err_code run_router(const void *op, struct run *run, struct err *err)
{
    return router_naive(op, run, err);
}

static enum err_code run_mlp(const void *op, struct run *run, struct err *err)
{
    return mlp_naive(op, run, err);
}

static enum err_code run_moe(const void *op, struct run *run, struct err *err)
{
    return moe_naive(op, run, err);
}

static enum err_code run_logits(const void *op, struct run *run, struct err *err)
{
    return logits_naive(op, run, err);
}

static enum err_code run_eagle_fc(const void *op, struct run *run, struct err *err)
{
    return eagle_fc_naive(op, run, err);
}

static enum err_code run_eagle_layer(const void *op, struct run *run, struct err *err)
{
    return eagle_layer_naive(op, run, err);
}

static enum err_code run_eagle_verify(const void *op, struct run *run, struct err *err)
{
    return eagle_verify_naive(op, run, err);
}

static const struct op_entry entries[] = {
    {"embed", run_embed},
    {"norm", run_norm},
    {"rope", run_rope},
    {"linear", run_linear},
    {"int4", run_int4},
    {"mla.q", run_mla_q},
    {"mla.kv", run_mla_kv},
    {"mla.core", run_mla_core},
    {"mla.output", run_mla_output},
    {"router", run_router},
    {"moe", run_moe},
    {"moe.shared", run_mlp},
    {"mlp", run_mlp},
    {"logits", run_logits},
    {"eagle.fc", run_eagle_fc},
    {"eagle.layer", run_eagle_layer},
    {"eagle.verify", run_eagle_verify},
    {0},
};

const struct op_side *naive_side(void)
{
    static const struct op_side side = {.name = "naive",
                                        .about = "textbook loops in double",
                                        .available = true,
                                        .entries = entries};
    return &side;
}
