/* What an executor is made of, for the files that implement it. exec.c opens it and moves weights. exec_pass.c
 * computes, and exec_commit.c applies a step. exec_share.c lets several compute with the same parameters,
 * exec_fold.c adds up their gradients. exec_tables.c postpones updates of an embedding's rows. exec_held.c finds
 * parameters, also those that are held in 16 bits. */
#ifndef SL_EXEC_EXEC_IMPL_H
#define SL_EXEC_EXEC_IMPL_H

#include "common/exec/exec.h"
#include "common/exec/layout.h"
#include "common/exec/loss_scale.h"
#include "common/exec/narrow.h"

enum { SL_POSTPONED_MOST = 4096, SL_FOLD_WAITING = 16 };

/* The table of an embedding whose rows wait with steps that have not read them (exec_tables.c). rows 0: there is none,
 * and every row is updated at once. Rows of `grad` that are not in `touched` are 0. */
struct sl_table {
	int64_t offset, rows, features; /* of the weight range */
	int group;
	struct sl_update *step; /* [n_step], those that some row may lack */
	int n_step;
	uint16_t *had;    /* [rows] how many of them the row has had */
	int32_t *touched; /* [n_touched] rows that the step under way has read */
	bool *marked;     /* [rows] whether it is there */
	int n_touched;
	bool sorted; /* touched, in ascending order */
	float *zero; /* [features] */
};

struct sl_exec {
	const struct sl_plan *plan;
	const struct sl_plan_segment *segment;
	struct sl_backend *be;
	const struct sl_op **op; /* [n_op] as wide as they are now */
	void **state;            /* [n_op] the kernels' */
	size_t state_bytes;      /* of what kernels make of it when memory is taken */
	struct sl_narrow narrow[SL_NARROW_MOST];
	int n_narrow;
	uint64_t done;
	struct sl_exec_node *node; /* [n_node] */
	int n_node;
	struct sl_layout layout;
	const struct sl_place *at; /* layout.value, or in backward layout.again */
	int slots;
	float *weight;                /* device: [weight_count + wide_count] */
	float *grad;                  /* device: [trainable_count], and behind it [tied_count] of tied parameters */
	float *part;                  /* device: as the front of grad, of one chunk; NULL: kernels add to grad itself */
	float *to;                    /* grad or part: what kernels add to now */
	float *moment[SL_AREAS_MOST]; /* device: [trainable_count]; NULL from segment->moments on */
	bool averaged;                /* weights and their average have changed places: an evaluation */
	uint64_t applied;             /* steps */
	void *weight_low; /* device: [weight_count + wide_count] in 16 bits, but for statistics; NULL: FP32, TF32 */
	/* Held parameters (exec_held.c). */
	const uint16_t **held; /* [n_param] of head and tail: where they lie, in host memory */
	int64_t *wide;         /* [n_param + n_tied] where in `weight` a kernel finds it in fp32; 0: none needs that */
	int64_t wide_count;    /* floats of these, behind the weight range */
	struct sl_loss_scale loss_scale; /* FP16; else a scale of 1 */
	float *scale;                    /* device: [2], it and its inverse; NULL: nothing is scaled */
	float *clip;                     /* device: [1], the factor of a clipped gradient; NULL: memory is the host's */
	float *trial;                    /* device: [moving_count - trainable_count], statistics as they would become */
	bool tried;                      /* `trial` holds those of the step under way */
	float *chunk_trial;              /* host: as trial, of one chunk; NULL: statistics go from chunk to chunk */
	uint32_t *begin; /* device: [slots], sl_dims_numbers of the chunks; NULL: memory is the host's, or no tokens */
	/* Whose weight, moment, weight_low and trial these are (sl_exec_borrow); NULL: its own. */
	const struct sl_exec *lender;
	struct sl_exec *owner; /* of tied parameters: the head's */
	bool bare;             /* no slots: it computes nothing (sl_exec_bare) */
	/* Of a lender's sum under way (exec_fold.c), in host memory. */
	const struct sl_exec *waiting[SL_FOLD_WAITING]; /* [n_waiting] whose gradients are not in it yet */
	int n_waiting;
	bool folded; /* something is in `grad` */
	float *own;  /* its own gradient, while `grad` is that of its only borrower; NULL: `grad` is its own */
	bool finite; /* `grad` is known to have neither NaN nor Inf */
	struct sl_table table;
	unsigned char *cache; /* device: of each op that has one, spec.batch rows of it; NULL: nothing is cached */
	uint32_t *filled;     /* [spec.batch] tokens that each row of the cache has; NULL: as above */
	unsigned char *slot_area, *scratch, *saved_area, *workspace; /* device */
};

/* Of a slot's begin: where rows begin, and behind that which tokens are chosen. */
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

/* Held parameters: which of them kernels need in fp32, when the ops are known; these in fp32, `range` [weight_count] of
 * the host's; NULL: it lacks what is held. And the parameters of op i for a kernel. */
enum sl_err sl_exec_held_open(struct sl_exec *exec) SL_MUST_CHECK; /* NOMEM */
void sl_exec_held_close(struct sl_exec *exec);
enum sl_err sl_exec_widen(struct sl_exec *exec, const float *range) SL_MUST_CHECK;
void sl_exec_params(struct sl_exec *exec, int i, struct sl_op_call *call);

/* After every change of weights: the copy in 16 bits, where there is one, follows. */
enum sl_err sl_exec_lower(struct sl_exec *exec) SL_MUST_CHECK;

/* Behind the optimizer's moments (exec_behind.c). NULL: the plan has none. */
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
/* Whether the step under way is one of the optimizer, and not only added up. */
bool sl_exec_updates(const struct sl_exec *exec);
/* As a step begins, behind the zeros: the gradient is what the batches before it have left. */
enum sl_err sl_exec_recall_sum(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_keep_sum(struct sl_exec *exec) SL_MUST_CHECK; /* in place of an update */
/* After an update; and with new weights. */
enum sl_err sl_exec_follow_average(struct sl_exec *exec) SL_MUST_CHECK;
enum sl_err sl_exec_begin_average(struct sl_exec *exec) SL_MUST_CHECK;
/* Whether kernels read the average from here on, or the weights that learn. Between steps. */
enum sl_err sl_exec_show_average(struct sl_exec *exec, bool averaged) SL_MUST_CHECK;

/* A lender's `grad` is its own again. */
static inline void sl_exec_own_gradient(struct sl_exec *e)
{
	if (e->own)
		e->grad = e->own;
	e->own = NULL;
}

/* Within the device. */
enum sl_err sl_exec_copy(struct sl_exec *exec, float *to, const float *from, int64_t count) SL_MUST_CHECK;
/* Running statistics in `trial` as a chunk of the step makes them, behind those before it. */
enum sl_err sl_exec_try_chunk(struct sl_exec *exec, int chunk, int64_t rows) SL_MUST_CHECK;

/* The same for all chunks, as members of a group that share this part would make them of a chunk each. */
enum sl_err sl_exec_try_apart(struct sl_exec *exec, const int64_t *rows, int chunks) SL_MUST_CHECK;

/* The parts of the trainable range that may have a gradient, in ascending order; begin with a zeroed one. False: there
 * are no more. */
struct sl_range {
	int64_t from, count, end;
	int row;
	bool behind;
};
bool sl_exec_range(struct sl_exec *exec, struct sl_range *range);

enum sl_err sl_exec_table_open(struct sl_exec *exec) SL_MUST_CHECK; /* NOMEM; may be closed then */
void sl_exec_table_close(struct sl_exec *exec);
/* A step begins: no row is touched; the caller has cleared the ranges before. */
void sl_exec_table_begin(struct sl_exec *exec);
/* Before a pass reads these rows. */
enum sl_err sl_exec_table_read(struct sl_exec *exec, const int32_t *id, int64_t n, bool training) SL_MUST_CHECK;
/* The step is applied: to the rows that it has read; the others wait. */
enum sl_err sl_exec_table_step(struct sl_exec *exec, const struct sl_update *update) SL_MUST_CHECK;
/* Nothing waits any more: before anybody else reads weights or moments. */
enum sl_err sl_exec_table_flush(struct sl_exec *exec) SL_MUST_CHECK;
/* sl_squares of the table's gradient. */
double sl_exec_table_squares(struct sl_exec *exec);

/* How often the width of the i-th insert that decays has fallen. */
static inline int sl_exec_falls(const struct sl_exec *e, int i)
{
	return sl_decay_falls(e->narrow[i].decay, e->done);
}

#endif
