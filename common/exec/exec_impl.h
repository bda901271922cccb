/* The executor's struct, and functions between the files that implement it. exec.c opens an executor and moves weights.
 * exec_pass.c computes, exec_commit.c applies a step. exec_share.c lets executors share parameters, exec_fold.c adds up
 * their gradients, exec_mean.c exchanges changes of shared heads and tails. exec_order.c asserts that each chunk's
 * passes come in their order, and that a step applies all of them. exec_accumulate.c accumulates gradients and averages
 * weights. exec_tables.c postpones updates of an embedding's rows. exec_held.c finds parameters, also those that are
 * held in 16 bits; exec_copy.c copies within the device. */
#ifndef SL_EXEC_EXEC_IMPL_H
#define SL_EXEC_EXEC_IMPL_H

#include "common/base/assert.h"
#include "common/exec/exec.h"
#include "common/exec/exec_order.h"
#include "common/exec/exec_tables.h"
#include "common/exec/layout.h"
#include "common/exec/loss_scale.h"
#include "common/exec/narrow.h"

enum { SL_FOLD_WAITING = 16 };

struct sl_exec {
	const struct sl_plan *plan;
	const struct sl_plan_segment *segment;
	struct sl_backend *be;
	const struct sl_op **op; /* [n_op]: the ops in their current widths */
	void **state;            /* [n_op]: the kernels' states */
	size_t state_bytes;      /* of the parts of states that sl_kernel.start builds */
	struct sl_narrow narrow[SL_NARROW_MOST];
	int n_narrow;
	uint64_t done;             /* completed steps */
	struct sl_exec_node *node; /* [n_node] */
	int n_node;
	struct sl_layout layout;
	const struct sl_place *at; /* layout.value; in backward layout.again */
	int slots;
	struct sl_slot_mark *mark;    /* [slots] */
	int forwards, backwards;      /* since the step began */
	bool committed;               /* since then, or since weights were set */
	float *weight;                /* device: [weight_count + wide_count] */
	float *grad;                  /* device: [trainable_count], then [tied_count] of tied parameters */
	float *part;                  /* device: [trainable_count] of one chunk; NULL: kernels add to grad itself */
	float *to;                    /* grad or part, to which kernels add now */
	float *moment[SL_AREAS_MOST]; /* device: [trainable_count]; NULL from segment->moments on */
	bool averaged;                /* weights and their average are swapped, for an evaluation */
	uint64_t applied;             /* steps */
	void *weight_low; /* device: [weight_count + wide_count] in 16 bits, without statistics; NULL: not 16-bit */
	/* Parameters that are held in 16 bits (exec_held.c). */
	const uint16_t **held; /* [n_param] of head and tail: their addresses in host memory */
	int64_t *wide;         /* [n_param + n_tied]: offset of an fp32 copy in `weight`; 0: no kernel needs one */
	int64_t wide_count;    /* floats of these copies, behind the weight range */
	struct sl_loss_scale loss_scale; /* for FP16; else a scale of 1 */
	float *scale;                    /* device: [2], the loss scale and its inverse; NULL: no scaling */
	float *clip;                     /* device: [1], a factor for `convert`; NULL: memory is the host's */
	float *trial;                    /* device: [moving_count - trainable_count], statistics as they would become */
	bool tried;                      /* `trial` has the current step's statistics */
	float *chunk_trial; /* host: as trial, for one chunk (sl_exec_try_apart); NULL: kernels update trial in turn */
	uint32_t *begin;    /* device: [slots], the chunks' numbers (begin_at); NULL: host memory, or no tokens */
	/* Owner of weight, moment, weight_low and trial (sl_exec_borrow); NULL: they are this executor's. */
	const struct sl_exec *lender;
	struct sl_exec *owner; /* the head, if this tail has tied parameters */
	bool bare;             /* no slots: it computes nothing (sl_exec_bare) */
	/* A lender's sum of gradients (exec_fold.c), in host memory. */
	const struct sl_exec *waiting[SL_FOLD_WAITING]; /* [n_waiting]: borrowers with gradients still to be added */
	int n_waiting;
	bool folded; /* `grad` has a part of the sum */
	float *own;  /* its own gradient, while `grad` is that of its only borrower; NULL: `grad` is its own */
	bool finite; /* `grad` is known to have neither NaN nor Inf */
	struct sl_table table;
	unsigned char *cache; /* device: spec.batch rows for each op that has a cache; NULL: nothing is cached */
	uint32_t *filled;     /* [spec.batch]: cached tokens of each row of the cache; NULL: nothing is cached */
	unsigned char *slot_area, *scratch, *saved_area, *workspace; /* device */
};

/* Length of a slot's part of `begin`: sl_dims_numbers, then the indices of chosen tokens. */
static inline size_t sl_exec_begin_numbers(const struct sl_exec *e)
{
	return sl_dims_numbers(e->plan->rows, sl_plan_pairs(&e->plan->spec)) +
	       (size_t)sl_plan_chosen_most(e->plan, &e->segment->graph);
}

static inline const struct sl_kernel *sl_exec_kernel(const struct sl_exec *e, int i)
{
	return e->be->ops->kernel[e->segment->op[i].op.kind];
}

static inline bool sl_exec_mixed(const struct sl_exec *e)
{
	return sl_precision_mixed(e->segment->precision);
}

/* Finds out which held parameters need an fp32 copy for their kernels; call it when the ops are known. NOMEM. */
enum sl_err sl_exec_held_open(struct sl_exec *exec) SL_MUST_CHECK;
void sl_exec_held_close(struct sl_exec *exec);
/* Fills the fp32 copies. `range`: the weight range in host memory, of which a middle's held parameters are a part. */
enum sl_err sl_exec_widen(struct sl_exec *exec, const float *range) SL_MUST_CHECK;
/* Puts the parameters of op i and their gradients into a kernel's call. */
void sl_exec_params(struct sl_exec *exec, int i, struct sl_op_call *call);

/* Updates the 16-bit copy of trainable weights, if there is one. Call after every change of them. */
enum sl_err sl_exec_lower(struct sl_exec *exec) SL_MUST_CHECK;

/* The sum of gradients and the average of weights, in the areas behind the optimizer's moments (exec_accumulate.c).
 * NULL: the plan has none. */
static inline float *sl_exec_sum(const struct sl_exec *e)
{
	const struct sl_plan_spec *spec = &e->plan->spec;

	return spec->accumulate > 1 ? e->moment[sl_optimizer_moments(spec->optimizer.kind)] : NULL;
}
static inline float *sl_exec_average(const struct sl_exec *e)
{
	const struct sl_plan_spec *spec = &e->plan->spec;

	return spec->ema > 0 ? e->moment[sl_optimizer_moments(spec->optimizer.kind) + (spec->accumulate > 1)] : NULL;
}
/* Whether the current batch ends with an optimizer step (spec.accumulate). */
bool sl_exec_updates(const struct sl_exec *exec);
/* Sets the gradient to the sum of earlier batches, when a step begins, after zeroing. */
enum sl_err sl_exec_load_sum(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_save_sum(struct sl_exec *exec) SL_MUST_CHECK; /* saves the gradient, in place of an update */
/* Updates the average after an optimizer step; starts it anew from new weights. */
enum sl_err sl_exec_update_average(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_begin_average(struct sl_exec *exec) SL_MUST_CHECK;
/* Selects what kernels read as weights from here on: the average, or the trained weights. Between steps. */
enum sl_err sl_exec_show_average(struct sl_exec *exec, bool averaged) SL_MUST_CHECK;

/* Makes a lender's `grad` its own again, after a fold that borrowed it. */
static inline void sl_exec_own_gradient(struct sl_exec *e)
{
	if (e->own)
		e->grad = e->own;
	e->own = NULL;
}

/* Copies within the device. */
enum sl_err sl_exec_copy(struct sl_exec *exec, float *to, const float *from, int64_t count) SL_MUST_CHECK;
/* Updates the running statistics in `trial` with a chunk of the step; call it for the chunks in order. */
enum sl_err sl_exec_try_chunk(struct sl_exec *exec, int chunk, int64_t rows) SL_MUST_CHECK;

/* The same for all chunks, but with the rounding that members of a group would get, had each one chunk. */
enum sl_err sl_exec_try_apart(struct sl_exec *exec, const int64_t *rows, int chunks) SL_MUST_CHECK;

/* Iterates over the parts of the trainable range that may have a gradient, in ascending order. The caller begins with a
 * zeroed `range`, and reads from and count. False: there are no more. */
struct sl_range {
	int64_t from, count, end;
	int row;
	bool behind;
};
bool sl_exec_range(struct sl_exec *exec, struct sl_range *range);

/* How often the width of narrow[i] has fallen. */
static inline int sl_exec_falls(const struct sl_exec *e, int i)
{
	return sl_decay_falls(e->narrow[i].decay, e->done);
}

#endif
