/* The executor: one segment's weights, memory and kernels on one backend.
 *
 * A step is a transaction: forward and backward of its chunks change only activations and gradients; weights, the
 * optimizer's moments and running statistics change in sl_exec_commit alone. Each of the two passes computes the chunks
 * in order of their numbers. One thread at a time. On a GPU the functions queue work; sl_backend_ops.fence reports when
 * it is done.
 *
 * A 16-bit segment (precision.h) keeps its weights in fp32, with a 16-bit copy for its kernels, and its activations in
 * 16 bits. Tensors at the cut are fp32, and are converted when a pass begins and ends. In FP16 the incoming gradient is
 * multiplied by the loss scale, and the outgoing one divided by it. */
#ifndef SL_EXEC_EXEC_H
#define SL_EXEC_EXEC_H

#include "common/exec/backend.h"
#include "common/exec/loss_scale.h"
#include "common/exec/plan.h"

struct sl_exec;

/* Bytes on the device that the executor takes. */
struct sl_exec_memory {
	size_t weights, slots, scratch, total;
	size_t lent;               /* the part of `weights` that a borrower of its parameters (below) does not take */
	size_t gradients, moments; /* parts of `weights`; moments are part of `lent`, too */
};

/* Opens in two steps, for callers that must first ask for memory. After _prepare only sl_exec_memory, the functions
 * below that say so, and sl_exec_close may be called. _allocate takes the memory on the device. */
enum sl_err sl_exec_prepare(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which,
			    struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_exec_allocate(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
/* Call between _prepare and _allocate: activations are recomputed just before backward, instead of
 * kept, if that takes less memory. Results do not change by a bit. Does nothing unless tensors are fp32 on the host. */
enum sl_err sl_exec_recompute(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
/* _prepare, then _allocate. */
enum sl_err sl_exec_open(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which, struct sl_backend *be,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Call between _prepare and _allocate.
 * Bare: the executor has parameters, but no memory to compute with.
 * Borrow: it computes with the parameters of `lender`, which is allocated, outlives it, and was planned from the same
 * graph for the same optimizer. It has its own gradient, but applies no step: sl_exec_fold_add gives the gradient to
 * the lender. Only one of them may compute at a time. CONFIG: decaying inserts and fp16 cannot be lent. */
enum sl_err sl_exec_bare(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_exec_borrow(struct sl_exec *exec, const struct sl_exec *lender, struct sl_fail *fail) SL_MUST_CHECK;
/* Tells a tail with tied parameters (plan.h) whose they are, before its first step. The tail reads the head's weights,
 * and never writes them. One thread uses both. */
void sl_exec_lend(struct sl_exec *tail, struct sl_exec *head);
/* Adds the tail's gradients of tied parameters to the head's. Call once per step, after its last chunk. */
enum sl_err sl_exec_tie(struct sl_exec *tail) SL_MUST_CHECK;
void sl_exec_close(struct sl_exec *exec); /* NULL is fine */
struct sl_exec_memory sl_exec_memory(const struct sl_exec *exec);
const struct sl_plan *sl_exec_plan(const struct sl_exec *exec);
const struct sl_plan_segment *sl_exec_segment(const struct sl_exec *exec);

/* Tells the executor that `done` steps are completed, at first 0, which sets the schedules of decaying inserts. Call it
 * after every commit, and before setting a state that was taken elsewhere. If a width falls, rows that fall off a
 * matrix become 0, in weights and moments, and shapes at the cut change (sl_plan_cut_shape_after). Between two steps of
 * the optimizer it zeroes the sum of gradients, in which a skipped step may have left earlier batches. */
enum sl_err sl_exec_set_done(struct sl_exec *exec, uint64_t done) SL_MUST_CHECK;

/* Sets the weight range (plan.h): weight_count floats in host memory. Waits for the device. Rows that have fallen off a
 * decaying insert become 0, whatever `host` has there. */
enum sl_err sl_exec_set_weights(struct sl_exec *exec, const float *host) SL_MUST_CHECK;
/* Tells head or tail where its parameters that are held in 16 bits are: held [n_param], NULL for the others, in host
 * memory that outlives the executor. Call it before setting weights, and for the head first. */
void sl_exec_hold(struct sl_exec *exec, const uint16_t *const *held);
enum sl_err sl_exec_get_weights(struct sl_exec *exec, float *host) SL_MUST_CHECK;
/* The first `count` floats of the weight range. */
enum sl_err sl_exec_get_front(struct sl_exec *exec, float *host, int64_t count) SL_MUST_CHECK;
/* The same, but if the plan averages weights (ema), trainable ones are averages. Setting weights restarts the average.
 * `count` is at least trainable_count. */
enum sl_err sl_exec_get_model(struct sl_exec *exec, float *host, int64_t count) SL_MUST_CHECK;
/* The weight range itself. A caller may write all of it and then set it, or read it after a get, without a copy. NULL:
 * it is in device memory, or another executor's. */
float *sl_exec_weights_at(struct sl_exec *exec);
/* Moment `which` of the optimizer, or an area behind the moments; 0 … segment->moments - 1. trainable_count floats in
 * the order of the weight range; rows that have fallen off are set to 0. */
enum sl_err sl_exec_set_moment(struct sl_exec *exec, int which, const float *host) SL_MUST_CHECK;
enum sl_err sl_exec_get_moment(struct sl_exec *exec, int which, float *host) SL_MUST_CHECK;
/* Completed steps (sl_exec_set_done); and how many steps were applied, not skipped, by which Adam corrects the bias of
 * its moments. */
uint64_t sl_exec_done(const struct sl_exec *exec);
uint64_t sl_exec_applied(const struct sl_exec *exec);
void sl_exec_set_applied(struct sl_exec *exec, uint64_t applied);
/* The state of the loss scale. May be called in any precision; only FP16 uses it. Setting it waits for the device. */
struct sl_loss_scale sl_exec_loss_scale(const struct sl_exec *exec);
enum sl_err sl_exec_set_loss_scale(struct sl_exec *exec, struct sl_loss_scale scale) SL_MUST_CHECK;
/* For tests: the gradients of trainable parameters, trainable_count floats, without the loss scale. */
enum sl_err sl_exec_get_gradients(struct sl_exec *exec, float *host) SL_MUST_CHECK;

/* The tensors at the segment's ends in a slot, for `rows` rows, or tokens if the value is per token (graph.h). The
 * caller fills input and dout before forward and backward. output and din are valid until the slot's next pass. The
 * head has no din, the tail neither output nor dout. */
struct sl_tensor sl_exec_input(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_output(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_dout(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_din(struct sl_exec *exec, int slot, int64_t rows);

/* The same for any field of the segment's graph, by its number among the inputs or outputs, for the rows, or tokens, of
 * a chunk. The segment's tensors are fp32. Without a gradient, data is NULL. */
enum sl_exec_end { SL_END_IN, SL_END_OUT, SL_END_DOUT, SL_END_DIN };
struct sl_tensor sl_exec_field(struct sl_exec *exec, enum sl_exec_end end, int field, int slot,
			       const struct sl_dims *dims);

/* All tensors that cross at that end of head, middle or tail; their number. */
int sl_exec_crossing(struct sl_exec *exec, enum sl_exec_end end, int slot, const struct sl_dims *dims,
		     struct sl_tensor x[SL_CUT_VALUES]);

/* The argument `rows` of the functions above for a chunk: for input and din; for output and dout. */
int64_t sl_exec_in_count(const struct sl_exec *exec, const struct sl_dims *dims);
int64_t sl_exec_out_count(const struct sl_exec *exec, const struct sl_dims *dims);

struct sl_exec_call {
	int slot;  /* which of the executor's slots to use */
	int chunk; /* the chunk's number in rng keys */
	/* If the segment computes per token, with `begin`. The arrays are in host memory, and must stay until the
	 * chunk's last pass is over. The caller has checked that an embedding's ids are rows of its table. */
	struct sl_dims dims;
	uint64_t step;
	bool training;
};

/* Labels and loss of a chunk, for the tail. See also struct sl_xent_rule. */
struct sl_exec_loss {
	bool ignores; /* rows whose label is `ignored` are left out (backend.h) */
	int32_t ignored;
	const int32_t *labels; /* [rows], 0 ≤ label < classes, or ignored; forward checks them: DATA */
	/* For mixed rows in training: the second labels [rows], which are checked alike, and the first labels' share of
	 * the target [rows] (backend.h). Else NULL. */
	const int32_t *other;
	const float *share;
	const float *weight;  /* [classes or K], in training; NULL: all 1 */
	float dice;           /* factor on the Dice loss */
	const float *targets; /* for MSE in place of labels: [rows, K], host memory; NULL: all 0 */
	float scale;          /* of the gradient: 1 / rows that the loss averages over, ignored ones not counted */
	float *logits;        /* out, [rows, classes or K], host memory; NULL: not wanted */
	double sum;           /* out: the sum of the rows' losses */
	double dice_sum;      /* out: of pixels, the sum of the pictures' Dice losses, without the factor; else 0 */
	int64_t correct;      /* out: rows whose largest logit is at the label */
};

/* If rows are cached: call it before the forward pass of a chunk that a peer has sent. PAYLOAD, with a sentence: the
 * cache lacks the row, or tokens before the chunk's. Otherwise the chunk's tokens count as cached from now on. */
enum sl_err sl_exec_cache_take(struct sl_exec *exec, const struct sl_dims *dims, struct sl_fail *fail) SL_MUST_CHECK;
/* Begins a step, or begins it again: the gradients become 0, but for the L1 penalty of decaying inserts and the sum of
 * earlier batches (accumulate). */
enum sl_err sl_exec_begin(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_forward(struct sl_exec *exec, const struct sl_exec_call *call,
			    struct sl_exec_loss *loss /* tail, else NULL */) SL_MUST_CHECK;
/* Adds the chunk's gradient to the step's. With the plan's chunk_sums the chunk's is summed first and then added, so
 * its rounding does not depend on earlier chunks; else kernels add to the step's gradient piece by piece. */
enum sl_err sl_exec_backward(struct sl_exec *exec, const struct sl_exec_call *call,
			     const struct sl_exec_loss *loss) SL_MUST_CHECK;
/* Whether the step may be applied. NONFINITE, with a sentence that names the parameter: a gradient, or a running
 * statistic as it would become, is NaN or Inf. Weights and statistics do not change. */
enum sl_err sl_exec_check(struct sl_exec *exec, const int64_t *rows, int chunks, struct sl_fail *fail) SL_MUST_CHECK;
/* The sum of squares of the gradient of trainable parameters, without the loss scale; 0 of NULL. Waits for the device.
 * NONFINITE as above. */
enum sl_err sl_exec_squares(struct sl_exec *exec, double *squares, struct sl_fail *fail) SL_MUST_CHECK;
/* The same of those that depend on one of a head's inputs, after sl_exec_check; -1: of all. */
enum sl_err sl_exec_squares_of(struct sl_exec *exec, int input, double *squares, struct sl_fail *fail) SL_MUST_CHECK;
/* Multiplies the gradient by `factor`, before the commit; 0 counts as 1. For clipping and means. */
enum sl_err sl_exec_scale(struct sl_exec *exec, double factor) SL_MUST_CHECK;
/* Applies the step: running statistics in chunk order, then the plan's optimizer. If the plan accumulates and this is
 * not the last batch, keeps the gradient instead. `rows` [chunks]. */
enum sl_err sl_exec_commit(struct sl_exec *exec, double lr, const int64_t *rows, int chunks) SL_MUST_CHECK;
/* A lender sums the gradients of several borrowers: begin; add each one's gradient and running statistics, always in
 * the same order; end, which multiplies the sum by `factor`. Then call sl_exec_check and sl_exec_commit without rows.
 * The sum of one borrower with factor 1 is its gradient, bit for bit. A gradient may be read later than it is added:
 * borrowers stay open, and compute nothing, until the commit. */
enum sl_err sl_exec_fold_begin(struct sl_exec *lender) SL_MUST_CHECK;
enum sl_err sl_exec_fold_add(struct sl_exec *lender, struct sl_exec *part, const int64_t *rows,
			     int chunks) SL_MUST_CHECK;
enum sl_err sl_exec_fold_end(struct sl_exec *lender, double factor) SL_MUST_CHECK;
/* Between begin and end: get the sum so far, with the running statistics as they would become, moving_count floats in
 * host memory; or continue from such a sum. So a sum can go from one process to the next. */
enum sl_err sl_exec_fold_get(struct sl_exec *lender, float *host) SL_MUST_CHECK;
enum sl_err sl_exec_fold_set(struct sl_exec *lender, const float *host) SL_MUST_CHECK;
/* What a step changes in a segment, as members of a group tell each other: floats without gaps, in the plan's order.
 * grad: the gradients of trainable parameters. keep, add: each running statistic becomes keep * old + add. */
struct sl_change {
	float *grad, *keep, *add;
};
/* keep * old + add, rounded once, so that chunks of one client and members of a group agree to the bit. */
static inline float sl_change_statistic(float keep, float old, float add)
{
	return (float)((double)keep * (double)old + (double)add);
}
struct sl_change_count {
	int64_t grad, stat; /* floats of grad; floats of keep, and of add */
};
struct sl_change_count sl_exec_change_count(const struct sl_plan_segment *segment);
/* Get the change of a step after its last chunk; only for plans with shared ends (plan.h), in host memory: else BUG.
 * Set a change, of this step or a mean of all members', which sl_exec_commit without rows then applies. */
enum sl_err sl_exec_get_change(struct sl_exec *exec, const int64_t *rows, int chunks,
			       struct sl_change to) SL_MUST_CHECK;
void sl_exec_set_change(struct sl_exec *exec, struct sl_change from);
/* Copy between a weight range in host memory (plan.h) and floats without gaps: trainable parameters to or from `grad`,
 * running statistics to or from `stat`. NULL: not copied; for a moment, which has no statistics, `stat` is NULL. */
void sl_range_gather(const struct sl_plan_segment *segment, const float *range, float *grad, float *stat);
void sl_range_scatter(const struct sl_plan_segment *segment, float *range, const float *grad, const float *stat);
/* Call it in place of sl_exec_commit to skip the step, which both sides must do; lowers the loss scale. */
enum sl_err sl_exec_skip(struct sl_exec *exec) SL_MUST_CHECK;

#endif
