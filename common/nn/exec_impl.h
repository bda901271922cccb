/* What an executor is made of, for the files that implement it: exec.c opens it and moves weights, exec_pass.c computes
 * and commits, exec_share.c lets several compute with the same parameters. */
#ifndef SL_NN_EXEC_IMPL_H
#define SL_NN_EXEC_IMPL_H

#include "common/nn/exec.h"
#include "common/nn/layout.h"
#include "common/nn/loss_scale.h"
#include "common/nn/narrow.h"

struct sl_exec {
	const struct sl_plan *plan;
	const struct sl_plan_segment *segment;
	struct sl_backend *be;
	const struct sl_op **op; /* [n_op] as wide as they are now */
	void **state;            /* [n_op] the kernels' */
	struct sl_narrow narrow[SL_NARROW_MOST];
	int n_narrow;
	uint64_t done;
	struct sl_exec_node *node; /* [n_node] */
	int n_node;
	struct sl_layout layout;
	int slots;
	float *weight, *grad; /* device: [weight_count]; [trainable_count], then what kernels write for frozen ones */
	float *moment[SL_MOMENTS_MOST];  /* device: [trainable_count]; NULL from segment->moments on */
	uint64_t applied;                /* steps */
	void *weight_low;                /* device: places as in grad, in 16 bits; NULL: FP32, TF32 */
	struct sl_loss_scale loss_scale; /* FP16; else a scale of 1 */
	float *scale;                    /* device: [2], it and its inverse; NULL: nothing is scaled */
	float *clip;                     /* device: [1], the factor of a clipped gradient; NULL: memory is the host's */
	float *trial;                    /* device: [moving_count - trainable_count], statistics as they would become */
	bool tried;                      /* `trial` holds those of the step under way */
	uint32_t *begin; /* device: [slots][rows + 1], of the chunks' rows; NULL: memory is the host's, or no tokens */
	/* Whose weight, moment, weight_low and trial these are (sl_exec_borrow); NULL: its own. */
	const struct sl_exec *lender;
	bool bare;   /* no slots: it computes nothing (sl_exec_bare) */
	float *fold; /* host memory, [trainable_count]: a sum under way where kernels' memory is not the host's */
	int folded;  /* parts in it */
	unsigned char *slot_area, *scratch, *saved_area, *workspace; /* device */
};

static inline const struct sl_kernel *sl_exec_kernel(const struct sl_exec *e, int i)
{
	return e->be->ops->kernel[e->segment->op[i].op.kind];
}

static inline bool sl_exec_mixed(const struct sl_exec *e)
{
	return sl_precision_mixed(e->segment->precision);
}

/* After every change of weights: the copy in 16 bits, where there is one, follows. */
enum sl_err sl_exec_lower(struct sl_exec *exec) SL_MUST_CHECK;

/* Within the device. */
enum sl_err sl_exec_copy(struct sl_exec *exec, float *to, const float *from, int64_t count) SL_MUST_CHECK;
/* Running statistics in `trial` as a chunk of the step makes them, behind those before it. */
enum sl_err sl_exec_try_chunk(struct sl_exec *exec, int chunk, int64_t rows) SL_MUST_CHECK;

/* How often the width of the i-th insert that decays has fallen. */
static inline int sl_exec_falls(const struct sl_exec *e, int i)
{
	return sl_decay_falls(e->narrow[i].decay, e->done);
}

#endif
