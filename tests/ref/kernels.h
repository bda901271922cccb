/* Shared by the files of this folder: the kernel tables of the ops and some small helpers. */
#ifndef SL_TESTS_REF_KERNELS_H
#define SL_TESTS_REF_KERNELS_H

#include "common/exec/backend.h"

extern const struct sl_kernel sl_ref_conv2d, sl_ref_convt2d, sl_ref_batchnorm, sl_ref_act, sl_ref_add, sl_ref_maxpool,
	sl_ref_avgpool, sl_ref_linear, sl_ref_dropout, sl_ref_flatten, sl_ref_xent, sl_ref_mse, sl_ref_scale,
	sl_ref_gelu, sl_ref_silu, sl_ref_tanh, sl_ref_sigmoid, sl_ref_hardsigmoid, sl_ref_hardswish, sl_ref_gate,
	sl_ref_concat, sl_ref_mul, sl_ref_layernorm, sl_ref_rmsnorm, sl_ref_attention, sl_ref_select, sl_ref_gather,
	sl_ref_transpose, sl_ref_embedding, sl_ref_elu, sl_ref_softplus, sl_ref_math, sl_ref_permute, sl_ref_resample,
	sl_ref_groupnorm, sl_ref_repeat;

enum sl_err sl_ref_update(struct sl_backend *be, const struct sl_update *u, int64_t count, float *weight,
			  const float *grad, float *const moment[SL_MOMENTS_MOST]);

/* act(y) and its derivative, which is 0 at the kinks, as in torch's relu and hardtanh(0, 6). */
double sl_ref_act_value(enum sl_act act, double y);
double sl_ref_act_slope(enum sl_act act, double y);

/* din[i] = or += value */
static inline void sl_ref_store(float *din, bool add, double value)
{
	*din = (float)(add ? *din + value : value);
}

#endif
