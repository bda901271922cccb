/* Shared by the files of this folder: the kernel tables of the ops and some small helpers. */
#ifndef SL_TESTS_REF_KERNELS_H
#define SL_TESTS_REF_KERNELS_H

#include "common/exec/backend.h"

#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) \
	extern const struct sl_kernel sl_ref_##word;
#include "common/graph/ops.def"

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
