/* Shared heads and tails: the arithmetic, and the bytes that cross. Both sides and `--local` use it.
 *
 * share.ends: step. Every member sends what its own chunks would change in head and tail. The trunk adds this up in
 * order of the members and sends all of them the mean. Every member applies the mean, so all keep one head and one
 * tail.
 *
 * share.ends: round. At a round's end every member sends how its weights differ from the last mean, and gets the mean
 * of the differences. */
#ifndef SL_SESSION_MEAN_H
#define SL_SESSION_MEAN_H

#include "common/codec/codec.h"
#include "common/codec/cost.h"
#include "common/exec/exec.h"

/* What crosses beside the four tensors of a chunk. STATE: all of head and tail, for one that comes while others train.
 */
enum sl_end { SL_END_GRAD, SL_END_MEAN, SL_END_COUNT, SL_END_STATE = SL_END_COUNT, SL_END_RUNS };
const char *sl_end_name(enum sl_end end); /* "end_grad" … */

/* All that is counted apart on a link: the tensors at the cut (enum sl_dir), and behind them these. */
enum { SL_CROSS_COUNT = SL_DIR_COUNT + SL_END_COUNT };
const char *sl_cross_name(int cross);

enum { SL_END_MAX_PARAMS = 2 * 16384 /* a graph's, twice */ };
#define SL_END_MAX_FLOATS (INT64_C(1) << 31) /* of a change */

/* A head's and a tail's parameters that learn, head first, and how many running statistics they have. A *change* is a
 * vector of `floats` floats: the gradients of all these parameters, then `stats` floats that say what is left of each
 * statistic, then as many that are added (nn/exec.h). Of a round it has the differences of these parameters; the
 * statistics; where these are averaged, the optimizer's moments, one behind the other; and how many steps were applied
 * (sl_steps_write). */
struct sl_end_layout {
	int n;
	int64_t *count; /* [n] elements of a parameter */
	int64_t *row;   /* [n], behind count in one allocation: of an embedding's table elements of a row, else 0 */
	int64_t grads;  /* the sum of them */
	int64_t stats, floats;
	bool round;
	int moments; /* of a round, those that are averaged */
};

/* Of a client's plan. CONFIG: nothing in head and tail learns, or has statistics. */
enum sl_err sl_end_layout_of(struct sl_end_layout *out, const struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* One that was read, by the spec of its plan. LIMIT. */
enum sl_err sl_end_layout_settle(struct sl_end_layout *layout, const struct sl_plan_spec *spec,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_end_layout_copy(struct sl_end_layout *out, const struct sl_end_layout *from) SL_MUST_CHECK; /* NOMEM */
void sl_end_layout_close(struct sl_end_layout *layout); /* a zeroed one is fine */
/* As text, for Hello (mean_text.c); and back, of what may be a peer's: PROTOCOL, LIMIT. */
void sl_end_layout_write(const struct sl_end_layout *layout, void (*put)(void *arg, const char *text, size_t len),
			 void *arg);
enum sl_err sl_end_layout_read(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_end_layout_same(const struct sl_end_layout *a, const struct sl_end_layout *b);
/* The parts of a change that are the head's and the tail's. */
struct sl_change sl_end_change(const struct sl_end_layout *layout, const struct sl_plan *plan, enum sl_segment which,
			       float *change);

/* Of the state of head and tail, which one that comes while others train gets: in place of differences the weights,
 * then the statistics, all moments, and how many steps were applied where the moments are two. It borrows `layout`'s
 * arrays. */
struct sl_end_layout sl_end_layout_state(const struct sl_end_layout *layout, const struct sl_plan_spec *spec);

/* NONFINITE: it has NaN or Inf. */
enum sl_err sl_end_check(const struct sl_end_layout *layout, const float *change, struct sl_fail *fail) SL_MUST_CHECK;
/* NONFINITE: the norm of its gradients, of a round that of its differences, times `factor` is above `most`; 0: none is.
 */
enum sl_err sl_end_check_norm(const struct sl_end_layout *layout, const float *change, double factor, double most,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Of a round's, which is finite. PAYLOAD: its moments or its count of steps, `done` at most, are none. */
enum sl_err sl_end_check_moments(const struct sl_end_layout *layout, const float *change, uint64_t done,
				 struct sl_fail *fail) SL_MUST_CHECK;
static inline float *sl_end_steps(const struct sl_end_layout *layout, float *change)
{
	return change + layout->floats - 2;
}

/* Codes changes of one layout: each parameter's gradient by itself, or all as one vector. Statistics cross as they are.
 * State (error feedback) is as in codec.h. One thread. */
struct sl_end_coder;

struct sl_end_coder_env {
	const struct sl_end_layout *layout; /* borrowed */
	const struct sl_codec_spec *spec;   /* copied */
	bool all;                           /* share.layers */
	struct sl_backend *be;              /* of the host's memory; borrowed. NULL: none, as in codec.h */
	uint64_t seed;
	int member; /* whose random numbers these are; -1: the trunk's */
};
/* CONFIG with a sentence: the method is not for vectors. */
enum sl_err sl_end_coder_open(struct sl_end_coder **out, const struct sl_end_coder_env *env,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_coder_close(struct sl_end_coder *coder); /* NULL is fine */
/* Bytes that _open will take, and most bytes of a run; nothing is allocated. Errors of sl_codec_need. */
enum sl_err sl_end_coder_need(const struct sl_end_coder_env *env, uint64_t *memory, uint64_t *bound,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* What coding a change costs a processor. Nothing gives way within one pass over it, nor over a table's rows. */
struct sl_cost sl_end_coder_cost(const struct sl_end_coder_env *env, bool encodes);
struct sl_cost sl_end_pass_cost(const struct sl_end_layout *layout);
size_t sl_end_coder_bound(const struct sl_end_coder *coder);
/* As the methods' authors count; of the last change. */
double sl_end_coder_nominal(const struct sl_end_coder *coder);
/* Appends a run: for every vector u32 length and a payload (docs/CODECS.md; of a table that no codec sees mean_rows.h),
 * then the statistics. */
enum sl_err sl_end_encode(struct sl_end_coder *coder, uint64_t step, const float *change,
			  struct sl_buf *out) SL_MUST_CHECK;
/* PAYLOAD: it is no run of this layout; then *change may have been written. Whether it is finite is not looked at. */
enum sl_err sl_end_decode(struct sl_end_coder *coder, uint64_t step, struct sl_bytes in, float *change,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_coder_commit(struct sl_end_coder *coder); /* these two: NULL is fine */
void sl_end_coder_rollback(struct sl_end_coder *coder);
/* As in codec.h, of all its codecs; NULL is fine, and has no state. */
void sl_end_coder_forget(struct sl_end_coder *coder);
size_t sl_end_coder_state_bytes(const struct sl_end_coder *coder);
enum sl_err sl_end_coder_save(const struct sl_end_coder *coder, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_end_coder_load(struct sl_end_coder *coder, struct sl_bytes in) SL_MUST_CHECK;

/* The trunk's part of a step: begin, add each member's change in order of the members, encode their mean. */
struct sl_end_sum {
	const struct sl_end_layout *layout; /* borrowed */
	float *sum;                         /* [layout->floats] */
	int n;                              /* changes in it */
	struct sl_end_coder *coder;         /* of the mean */
	/* of a round */
	double *total; /* [layout->floats], each change times its rows */
	uint64_t rows, applied;
};
enum sl_err sl_end_sum_open(struct sl_end_sum *s, const struct sl_end_coder_env *env,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_end_sum_close(struct sl_end_sum *s); /* a zeroed one is fine */
void sl_end_sum_begin(struct sl_end_sum *s);
/* Gradients are added. Of running statistics it is as if this member's chunks had come behind the others'. */
void sl_end_sum_add(struct sl_end_sum *s, const float *change);
/* Of a round: what a member has told that trained `rows` rows in it. */
void sl_end_sum_add_rows(struct sl_end_sum *s, const float *change, uint64_t rows);
/* Multiplies the gradients by `factor`, and then clips them (nn/clip.h). The norm is that of these and of the middle's,
 * whose squares are `middle`. Returns what the middle's are to be multiplied by. */
double sl_end_sum_clip(struct sl_end_sum *s, double factor, double clip_norm, double middle);
/* Gradients are multiplied by `factor` first: the mean of fewer rows than a full step has. A round's mean is that of
 * its rows. NONFINITE: the sum has NaN or Inf. What the coder keeps waits for sl_end_coder_commit. */
enum sl_err sl_end_sum_encode(struct sl_end_sum *s, double factor, uint64_t step, struct sl_buf *out,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
