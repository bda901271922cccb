/* Shared heads and tails: the arithmetic, and the bytes that cross. Both sides and `--local` use it.
 *
 * share.ends: step. Every member sends the gradients that its own chunks give for head and tail, and the change of
 * running statistics. The trunk adds these up in order of the members and sends the mean to all. Every member applies
 * the mean, so all keep one head and one tail.
 *
 * share.ends: round. At the end of a round every member sends how its weights differ from the last mean, and gets the
 * mean of the differences. */
#ifndef SL_SESSION_MEAN_H
#define SL_SESSION_MEAN_H

#include "common/codec/codec.h"
#include "common/codec/cost.h"
#include "common/exec/exec.h"

/* Runs that cross beside the four tensors of a chunk. STATE: all of head and tail, for a member that comes, or for the
 * store. */
enum sl_ends_run { SL_END_GRAD, SL_END_MEAN, SL_END_COUNT, SL_END_STATE = SL_END_COUNT, SL_END_RUNS };
const char *sl_end_name(enum sl_ends_run end); /* "end_grad" … */

/* Everything that a link counts separately: the tensors at the cut (enum sl_dir), then GRAD and MEAN. */
enum { SL_CROSS_COUNT = SL_DIR_COUNT + SL_END_COUNT };
const char *sl_cross_name(int cross);

enum { SL_END_MAX_PARAMS = 2 * 16384 /* twice the most of one graph */ };
#define SL_END_MAX_FLOATS (INT64_C(1) << 31) /* most floats of a change */

/* The head's and tail's parameters that learn, head first, and the number of their running statistics. A *change* is a
 * vector of `floats` floats. That of a step has the gradients of these parameters. Then come two floats for each
 * statistic (exec/exec.h): first of all statistics the factor for the old value, then of all the amount that is added.
 * That of a round has the differences of these parameters, then the statistics. Then come the optimizer's moments, one
 * after the other, if they are averaged, and the count of applied steps (sl_steps_write). */
struct sl_end_layout {
	uint64_t graphs; /* XXH3-64 of the head's and the tail's graph as text (graph/graph_text.h) */
	int n;
	int64_t *count; /* [n] elements of a parameter */
	int64_t *row;   /* [n], in count's allocation: for an embedding's table the elements of a row, else 0 */
	int64_t grads;  /* the sum of count */
	int64_t stats, floats;
	bool round;
	int moments; /* for a round: moments that are averaged */
};

/* The layout of a client's plan. CONFIG: nothing in head and tail learns or has statistics. */
enum sl_err sl_end_layout_of(struct sl_end_layout *out, const struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* Sets what a layout that was read depends on: round, moments and floats, by the plan's spec. LIMIT. */
enum sl_err sl_end_layout_settle(struct sl_end_layout *layout, const struct sl_plan_spec *spec,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_end_layout_copy(struct sl_end_layout *out, const struct sl_end_layout *from) SL_MUST_CHECK; /* NOMEM */
void sl_end_layout_close(struct sl_end_layout *layout); /* a zeroed one is fine */
/* The layout as text, for a Hello (mean_text.c); and read from a text that may be a peer's: PROTOCOL, LIMIT. */
void sl_end_layout_write(const struct sl_end_layout *layout, void (*put)(void *arg, const char *text, size_t len),
			 void *arg);
enum sl_err sl_end_layout_read(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_end_layout_same(const struct sl_end_layout *a, const struct sl_end_layout *b);
/* The parts of a change that belong to the head, or to the tail. */
struct sl_change sl_end_change(const struct sl_end_layout *layout, const struct sl_plan *plan, enum sl_segment which,
			       float *change);

/* The layout of the state of head and tail that a member gets as it comes: as a round's, but with weights in place of
 * differences, and with all moments. The count of applied steps is zeros unless there are two moments. It borrows
 * `layout`'s arrays. */
struct sl_end_layout sl_end_layout_state(const struct sl_end_layout *layout, const struct sl_plan_spec *spec);

/* NONFINITE: the change has NaN or Inf. */
enum sl_err sl_end_check(const struct sl_end_layout *layout, const float *change, struct sl_fail *fail) SL_MUST_CHECK;
/* NONFINITE: the norm of the change's gradients, in a round of its differences, times `factor` is above `most`. 0: no
 * limit. */
enum sl_err sl_end_check_norm(const struct sl_end_layout *layout, const float *change, double factor, double most,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Checks a round's change that is finite. PAYLOAD: the second moments have a negative value, or the count of applied
 * steps is invalid or above `done`. */
enum sl_err sl_end_check_moments(const struct sl_end_layout *layout, const float *change, uint64_t done,
				 struct sl_fail *fail) SL_MUST_CHECK;
static inline float *sl_end_steps(const struct sl_end_layout *layout, float *change)
{
	return change + layout->floats - 2;
}

/* Encodes and decodes changes of one layout: each parameter's gradient by itself, or all as one vector. Statistics
 * cross uncompressed. State (error feedback) is as in codec.h. Single-threaded. */
struct sl_end_coder;

struct sl_end_coder_env {
	const struct sl_end_layout *layout; /* borrowed */
	const struct sl_codec_spec *spec;   /* copied */
	bool all;                           /* share.layers: all as one vector */
	struct sl_backend *be;              /* a backend in host memory; borrowed. NULL: none, as in codec.h */
	uint64_t seed;
	int member; /* the member whose random numbers are drawn; -1: the trunk's */
};
/* CONFIG with a sentence: the codec's method does not work on vectors. */
enum sl_err sl_end_coder_open(struct sl_end_coder **out, const struct sl_end_coder_env *env,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_coder_close(struct sl_end_coder *coder); /* NULL is fine */
/* The bytes of memory that _open will take, and the most bytes of a run. Nothing is allocated. Errors of
 * sl_codec_need. */
enum sl_err sl_end_coder_need(const struct sl_end_coder_env *env, uint64_t *memory, uint64_t *bound,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Processor time to code a change, and to make one pass over it. A job does not yield within such a pass, nor within a
 * table's rows. */
struct sl_cost sl_end_coder_cost(const struct sl_end_coder_env *env, bool encodes);
struct sl_cost sl_end_pass_cost(const struct sl_end_layout *layout);
size_t sl_end_coder_bound(const struct sl_end_coder *coder);
/* Bytes of the last change as the methods' authors count them. */
double sl_end_coder_nominal(const struct sl_end_coder *coder);
/* Appends a run: for every vector a u32 length and a payload, then the statistics. Payloads are in docs/CODECS.md;
 * those of a table without a codec in mean_rows.h. */
enum sl_err sl_end_encode(struct sl_end_coder *coder, uint64_t step, const float *change,
			  struct sl_buf *out) SL_MUST_CHECK;
/* PAYLOAD: it is no run of this layout; then *change may have been written. Values are not checked for NaN and Inf. */
enum sl_err sl_end_decode(struct sl_end_coder *coder, uint64_t step, struct sl_bytes in, float *change,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_coder_commit(struct sl_end_coder *coder); /* for both, NULL is fine */
void sl_end_coder_rollback(struct sl_end_coder *coder);
/* As in codec.h, for all codecs of the coder. NULL is fine, and has no state. */
void sl_end_coder_forget(struct sl_end_coder *coder);
size_t sl_end_coder_state_bytes(const struct sl_end_coder *coder);
enum sl_err sl_end_coder_save(const struct sl_end_coder *coder, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_end_coder_load(struct sl_end_coder *coder, struct sl_bytes in) SL_MUST_CHECK;

/* What the trunk does in a step: begin, add each member's change in order of the members, encode their mean. */
struct sl_end_sum {
	const struct sl_end_layout *layout; /* borrowed */
	float *sum;                         /* [layout->floats] */
	int n;                              /* changes added so far */
	struct sl_end_coder *coder;         /* encodes the mean */
	/* for a round */
	double *total; /* [layout->floats], sum of each change times its rows */
	uint64_t rows, applied;
};
enum sl_err sl_end_sum_open(struct sl_end_sum *s, const struct sl_end_coder_env *env,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_sum_close(struct sl_end_sum *s); /* a zeroed one is fine */
void sl_end_sum_begin(struct sl_end_sum *s);
/* Adds a step's change. Gradients are summed. Running statistics become what they would be if this member's chunks came
 * after the others'. */
void sl_end_sum_add(struct sl_end_sum *s, const float *change);
/* Adds the change of a member that trained `rows` rows in the round. */
void sl_end_sum_add_rows(struct sl_end_sum *s, const float *change, uint64_t rows);
/* Multiplies the gradients by `factor`, and then clips them (exec/clip.h) by the norm of these and of the middle's,
 * whose sum of squares is `middle`. Returns the factor for the middle's gradients. */
double sl_end_sum_clip(struct sl_end_sum *s, double factor, double clip_norm, double middle);
/* Encodes the mean. Gradients are first multiplied by `factor`: a step may have fewer rows than a full one. A round's
 * mean is over its rows. NONFINITE: the sum has NaN or Inf. The coder's new state waits for sl_end_coder_commit. */
enum sl_err sl_end_sum_encode(struct sl_end_sum *s, double factor, uint64_t step, struct sl_buf *out,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
