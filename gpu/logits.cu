/* logits.cu: op logits, a linear whose output stays float32. Contract: core/logits.h. Test: assay
 * op logits --sweep --on ref,gpu */
#include "gpu/linear.cuh"
#include "gpu/ops.h"

enum err_code logits_gpu(const struct logits *op, struct run *run, struct err *err)
{
    if (logits_check(op, err) != ERR_OK) return err->code;
    const struct gpu_linear_op linear = {"logits", op->T, op->x, op->head, op->y, RP_LOGITS};
    return gpu_linear_run(&linear, run, err);
}
