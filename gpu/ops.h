/* ops.h: the adapters of the CUDA path's op table: an op's host argument struct in, its outputs
 * back on the host. They send, call the device function of the op's .cuh, and fetch. Used by `assay
 * op`, by fault injection, and nowhere in the hot path (gpu/model.cu keeps everything on the
 * device). Defined beside the device functions: norm_gpu() in gpu/norm.cu. */
#ifndef ASSAY_GPU_OPS_H
#define ASSAY_GPU_OPS_H

#include "core/eagle.h"
#include "core/embed.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/norm.h"
#include "core/rope.h"
#include "core/router.h"
#include "core/run.h"

/* CUDA has a vector type of this name. */
#define int4 int4_op
#include "core/int4.h"
#undef int4

enum err_code embed_gpu(const struct embed *op, struct run *run, struct err *err) ERR_USED;
enum err_code norm_gpu(const struct norm *op, struct run *run, struct err *err) ERR_USED;
enum err_code rope_gpu(const struct rope *op, struct run *run, struct err *err) ERR_USED;
enum err_code linear_gpu(const struct linear *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_q_gpu(const struct mla_q *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_kv_gpu(const struct mla_kv *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_core_gpu(const struct mla_core *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_output_gpu(const struct mla_output *op, struct run *run,
                             struct err *err) ERR_USED;
enum err_code router_gpu(const struct router *op, struct run *run, struct err *err) ERR_USED;
enum err_code int4_gpu(const struct int4_op *op, struct run *run, struct err *err) ERR_USED;
enum err_code moe_gpu(const struct moe *op, struct run *run, struct err *err) ERR_USED;
enum err_code mlp_gpu(const struct mlp *op, struct run *run, struct err *err) ERR_USED;
enum err_code moe_shared_gpu(const struct mlp *op, struct run *run, struct err *err) ERR_USED;
enum err_code logits_gpu(const struct logits *op, struct run *run, struct err *err) ERR_USED;
enum err_code eagle_fc_gpu(const struct eagle_fc *op, struct run *run, struct err *err) ERR_USED;
enum err_code eagle_layer_gpu(const struct eagle_layer *op, struct run *run,
                              struct err *err) ERR_USED;
enum err_code eagle_verify_gpu(const struct eagle_verify *op, struct run *run,
                               struct err *err) ERR_USED;

#endif
