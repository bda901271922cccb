/* The executor: one segment's weights, memory and kernels on one backend.
 *
 * A step is a transaction: forward and backward of its chunks change only activations and gradients; weights, the
 * optimizer's moments and running statistics change in sl_exec_commit alone. Chunks are computed in order of their
 * number, in each of the two passes. One thread at a time. On a GPU the functions queue; sl_backend_ops.fence says when
 * all is done.
 *
 * A segment of 16 bits (plan.h, precision.h) keeps its weights in fp32, with a copy for its kernels, and its
 * activations in 16 bits; tensors at the cut are fp32, and converted as a pass begins and ends. In FP16 the gradient
 * that comes in is multiplied by the loss scale, and divided by it as it leaves. */
#ifndef SL_EXEC_EXEC_H
#define SL_EXEC_EXEC_H

#include "common/exec/backend.h"
#include "common/exec/loss_scale.h"
#include "common/exec/plan.h"

struct sl_exec;

/* Bytes on the device that the segment takes with `slots` chunks in flight. */
struct sl_exec_memory {
	size_t weights, slots, scratch, total;
	size_t lent;               /* of weights: what one that borrows its parameters (below) does not take */
	size_t gradients, moments; /* of weights; moments: of lent, too */
};

/* In two steps where memory must be asked for first: after _prepare, sl_exec_memory and _close are all that may be
 * called; _allocate takes the memory on the device. */
enum sl_err sl_exec_prepare(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which,
			    struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_exec_allocate(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
/* Between the two: activations of head or middle that take memory until backward are computed again in front of it,
 * where that takes less memory. No bit changes. Where tensors are no fp32 in host memory, nothing happens. */
enum sl_err sl_exec_recompute(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
/* Both. */
enum sl_err sl_exec_open(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which, struct sl_backend *be,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Between _prepare and _allocate.
 * Bare: the executor has parameters, and no memory to compute with.
 * Borrow: it computes with the parameters of `lender`, which is allocated, outlives it, and was planned from the same
 * graph for the same optimizer. It has a gradient of its own, and no step: sl_exec_fold_add gives the gradient to the
 * lender. No two of them are used at a time. CONFIG: decaying inserts and fp16 cannot be lent. */
enum sl_err sl_exec_bare(struct sl_exec *exec, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_exec_borrow(struct sl_exec *exec, const struct sl_exec *lender, struct sl_fail *fail) SL_MUST_CHECK;
/* Before the first step of a tail with tied parameters (plan.h): whose they are. Its weights are read, never written;
 * both are used by one thread. */
void sl_exec_lend(struct sl_exec *tail, struct sl_exec *head);
/* Of a step whose chunks are done, once: adds the tail's gradients of tied parameters to the head's. */
enum sl_err sl_exec_tie(struct sl_exec *tail) SL_MUST_CHECK;
void sl_exec_close(struct sl_exec *exec); /* NULL is fine */
struct sl_exec_memory sl_exec_memory(const struct sl_exec *exec);
const struct sl_plan *sl_exec_plan(const struct sl_exec *exec);
const struct sl_plan_segment *sl_exec_segment(const struct sl_exec *exec);

/* `done` steps are: the schedules of decaying inserts stand there from now on. The executor begins at 0; call this
 * behind every commit, and before a state is set that was taken elsewhere. What falls off a matrix becomes 0, and its
 * moments. Shapes at the cut follow (sl_plan_cut_shape_after). Nothing changes where no width does. */
enum sl_err sl_exec_follow(struct sl_exec *exec, uint64_t done) SL_MUST_CHECK;

/* The weight range (plan.h), weight_count floats in host memory; waits for the device. What has fallen off a decaying
 * insert is set to 0, whatever `host` has there. */
enum sl_err sl_exec_set_weights(struct sl_exec *exec, const float *host) SL_MUST_CHECK;
/* Of head and tail, before their weights are set, and of the head first: where each parameter lies that is held
 * [n_param], of others NULL, in host memory that outlives the executor. */
void sl_exec_hold(struct sl_exec *exec, const uint16_t *const *held);
enum sl_err sl_exec_get_weights(struct sl_exec *exec, float *host) SL_MUST_CHECK;
enum sl_err sl_exec_get_front(struct sl_exec *exec, float *host, int64_t count) SL_MUST_CHECK; /* its first floats */
/* The same of the model: what learns is its average where the plan has one. With new weights that begins anew. `count`
 * reaches behind all that learns. */
enum sl_err sl_exec_get_model(struct sl_exec *exec, float *host, int64_t count) SL_MUST_CHECK;
/* Where the range itself lies, for those who write a whole one there and then set it, or read it after a get, with no
 * copy. NULL: in a device's memory, or it is another executor's. */
float *sl_exec_weights_at(struct sl_exec *exec);
/* A moment of the optimizer or an area behind them, 0 … segment->moments - 1: trainable_count floats in the order of
 * the weight range; fallen parts are set to 0. */
enum sl_err sl_exec_set_moment(struct sl_exec *exec, int which, const float *host) SL_MUST_CHECK;
enum sl_err sl_exec_get_moment(struct sl_exec *exec, int which, float *host) SL_MUST_CHECK;
/* Steps that are done (sl_exec_follow), and those of them that were applied, not left out: by these Adam corrects its
 * moments. */
uint64_t sl_exec_done(const struct sl_exec *exec);
uint64_t sl_exec_applied(const struct sl_exec *exec);
void sl_exec_set_applied(struct sl_exec *exec, uint64_t applied);
/* How the loss scale stands; ok to call in any precision, where only FP16 looks at it. Waits for the device. */
struct sl_loss_scale sl_exec_loss_scale(const struct sl_exec *exec);
enum sl_err sl_exec_set_loss_scale(struct sl_exec *exec, struct sl_loss_scale scale) SL_MUST_CHECK;
/* Gradients of the trainable front, trainable_count floats, not scaled: for tests. */
enum sl_err sl_exec_get_gradients(struct sl_exec *exec, float *host) SL_MUST_CHECK;

/* Tensors at the cut of a slot, for `rows` rows, or that many tokens where the value is per token (graph.h). Input and
 * dout are filled by the caller before forward and backward; output and din are valid until the slot's next pass. The
 * head has no din, the tail neither output nor dout. */
struct sl_tensor sl_exec_input(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_output(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_dout(struct sl_exec *exec, int slot, int64_t rows);
struct sl_tensor sl_exec_din(struct sl_exec *exec, int slot, int64_t rows);

/* That number: rows or tokens of a chunk, of input and din, and of output and dout. */
int64_t sl_exec_in_count(const struct sl_exec *exec, const struct sl_dims *dims);
int64_t sl_exec_out_count(const struct sl_exec *exec, const struct sl_dims *dims);

struct sl_exec_call {
	int slot;  /* of the executor's memory */
	int chunk; /* its number in the step: by it random numbers are drawn */
	/* Where the part computes per token, with begin, in host memory: read until the chunk's last pass is over. An
	 * embedding's ids must be rows of its table: nothing here looks at them. */
	struct sl_dims dims;
	uint64_t step;
	bool training;
};

/* The loss of a chunk, of the tail's forward: sums over its rows. */
struct sl_exec_loss {
	bool ignores; /* rows whose label is `ignored` count for nothing (backend.h) */
	int32_t ignored;
	const int32_t *labels; /* [rows], 0 ≤ label < classes, or ignored: checked, DATA otherwise */
	/* Of mixed rows in training, else NULL: the second labels [rows], checked alike, and what the first ones have
	 * of the target [rows] (backend.h). */
	const int32_t *other;
	const float *share;
	const float *weight;  /* [classes or K], of training: see struct sl_xent_rule; NULL: all 1 */
	float dice;           /* see struct sl_xent_rule */
	const float *targets; /* of a loss of mean squares in place of labels: [rows, K], host memory; NULL: all 0 */
	float scale;          /* of the gradient: 1 / rows that the loss averages over, ignored ones not counted */
	float *logits;        /* out, [rows, classes or K], host memory; NULL: not wanted */
	double sum;           /* out */
	int64_t correct;      /* out */
};

/* Where rows are cached, before the forward pass of a chunk that a peer has sent: PAYLOAD, with a sentence, where the
 * cache lacks the row, or tokens before these. Then they count as cached. */
enum sl_err sl_exec_cache_take(struct sl_exec *exec, const struct sl_dims *dims, struct sl_fail *fail) SL_MUST_CHECK;
/* Zeroes the gradients, but for the pull of decaying inserts: a step begins, or begins again. */
enum sl_err sl_exec_begin(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_forward(struct sl_exec *exec, const struct sl_exec_call *call,
			    struct sl_exec_loss *loss /* tail, else NULL */) SL_MUST_CHECK;
/* Adds the chunk's gradient to the step's. With the plan's chunk_sums that is one addition for each element, whatever
 * chunks came before; else kernels add to it piece by piece. */
enum sl_err sl_exec_backward(struct sl_exec *exec, const struct sl_exec_call *call,
			     const struct sl_exec_loss *loss) SL_MUST_CHECK;
/* NONFINITE where the step must not be applied, with a sentence that names the parameter: a gradient, or a running
 * statistic as it would become, is NaN or Inf. Nothing is changed. */
enum sl_err sl_exec_check(struct sl_exec *exec, const int64_t *rows, int chunks, struct sl_fail *fail) SL_MUST_CHECK;
/* The sum of squares of the gradient, of what learns, without a loss scale; waits for the device. NONFINITE as above.
 */
enum sl_err sl_exec_squares(struct sl_exec *exec, double *squares, struct sl_fail *fail) SL_MUST_CHECK;
/* Before the commit: multiplies the gradient, where `factor` is neither 0 nor 1. For plans that clip. */
enum sl_err sl_exec_scale(struct sl_exec *exec, double factor) SL_MUST_CHECK;
/* Applies the step: running statistics in chunk order, then the plan's optimizer, or where the plan accumulates keeps
 * the gradient for a later one. `rows` [chunks]. */
enum sl_err sl_exec_commit(struct sl_exec *exec, double lr, const int64_t *rows, int chunks) SL_MUST_CHECK;
/* sl_exec_check of a borrower; NONFINITE also where the norm of its gradient, times `factor`, is above `most`; 0:
 * nothing is. */
enum sl_err sl_member_check(struct sl_exec *exec, const int64_t *rows, int chunks, double factor, double most,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* A step of several borrowers, by the lender: begin; add each one's gradient and running statistics, in an order that
 * the caller keeps to; end, which multiplies the sum. Then sl_exec_check and sl_exec_commit without rows. Of one
 * borrower and a factor of 1 it is that one's gradient, bit for bit. Gradients are read later than they are added:
 * borrowers stay open, and compute nothing, until the commit. */
enum sl_err sl_exec_fold_begin(struct sl_exec *lender) SL_MUST_CHECK;
enum sl_err sl_exec_fold_add(struct sl_exec *lender, struct sl_exec *part, const int64_t *rows,
			     int chunks) SL_MUST_CHECK;
enum sl_err sl_exec_fold_end(struct sl_exec *lender, double factor) SL_MUST_CHECK;
/* Between begin and end: the sum so far with the running statistics as they would become, moving_count floats in host
 * memory; and to go on from such a one, which is not nothing. So a sum can go from one process to the next. */
enum sl_err sl_exec_fold_get(struct sl_exec *lender, float *host) SL_MUST_CHECK;
enum sl_err sl_exec_fold_set(struct sl_exec *lender, const float *host) SL_MUST_CHECK;
/* What a step changes in a part, as members of a group tell each other: floats without gaps, in the plan's order. The
 * gradient of what learns; and of each running statistic what is left of it, and what is added: keep * old + add. */
struct sl_change {
	float *grad, *keep, *add;
};
/* keep * old + add, rounded once: chunks of one client and members of a group must agree to the bit. */
static inline float sl_change_statistic(float keep, float old, float add)
{
	return (float)((double)keep * (double)old + (double)add);
}
struct sl_change_count {
	int64_t grad, stat; /* floats of grad; of keep, and of add */
};
struct sl_change_count sl_exec_change_count(const struct sl_plan_segment *segment);
/* Of a step whose chunks are done; of plans whose ends are shared (plan.h), in host memory: else BUG. Then, of this
 * step or another member's, what sl_exec_commit without rows applies. */
enum sl_err sl_exec_get_change(struct sl_exec *exec, const int64_t *rows, int chunks,
			       struct sl_change to) SL_MUST_CHECK;
void sl_exec_set_change(struct sl_exec *exec, struct sl_change from);
/* Between a weight range in host memory (plan.h) and the same without gaps: what learns to or from `grad`, running
 * statistics `stat`. A NULL one is left out; of a moment, which has no statistics, `stat` is NULL. */
void sl_range_gather(const struct sl_plan_segment *segment, const float *range, float *grad, float *stat);
void sl_range_scatter(const struct sl_plan_segment *segment, float *range, const float *grad, const float *stat);
/* In its place: the step is left out, by both sides; a loss scale falls. */
enum sl_err sl_exec_skip(struct sl_exec *exec) SL_MUST_CHECK;

#endif
