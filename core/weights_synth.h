/* weights_synth.h: the rules of the synthetic checkpoint, version 1: which tensor is made how.
 *
 *   tensor                              dtype  scale                       offset
 *   embed_tokens                        bf16   sqrt(3)
 *   every norm weight, fc_norm.K too    bf16   0.25                        1
 *   linear [out, in]                    bf16   sqrt(3 / in)
 *   q_a_proj, kv_a_proj_with_mqa        bf16   sqrt(3 / in) * latent_gain
 *   mlp.gate (router), lm_head          bf16   sqrt(3 / in) * 2
 *   e_score_correction_bias             f32    0.1
 *   *.weight_packed                     int32  the bytes of x(0), x(1), ...
 *   *.weight_scale                      bf16   f32(f32(u/2 + 1) * s0)
 *                                              s0 = f32(1 / (4.6098 sqrt(in)))
 *
 * Scales are computed in double and rounded to float32 once. */
#ifndef ASSAY_CORE_WEIGHTS_SYNTH_H
#define ASSAY_CORE_WEIGHTS_SYNTH_H

#include "core/weights.h"

/* Reads w->path, "synth:CONFIG.json?seed=N[&latent_gain=G]": seed, gain, and where the config lies.
 */
enum err_code weights_synth_spec(struct weights *w, char *config_path, struct err *err) ERR_USED;
/* Refuses a config whose quantisation has no rule. */
enum err_code weights_synth_check(const struct weights *w, struct err *err) ERR_USED;
/* Fills dtype and rule of a tensor from its name and shape. `as`: the type asked for, DT_COUNT any
 * float. */
enum err_code weights_synth_rule(const struct weights *w, enum dtype as, struct tensor *t,
                                 struct err *err) ERR_USED;
/* Sets the factor of a packed matrix's scales, which depends on its input width. */
void weights_synth_set_inputs(struct matrix *m);

#endif
