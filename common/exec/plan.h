/* The plan: everything that can be known before the first step. It is derived from the graph of a part (head, middle
 * or tail) and from what both sides agree on. It has the part's ops (batchnorm and activation fused), the places of its
 * parameters, its MACs, and a hash. Pure; immutable once opened; may be shared between threads.
 *
 * The server plans the middle from its graph alone: sl_plan_open_part. The client plans all three parts of a network
 * (client/model/split.h). */
#ifndef SL_EXEC_PLAN_H
#define SL_EXEC_PLAN_H

#include "common/exec/optimizer.h"
#include "common/graph/cut.h"

enum { SL_PLAN_GROUPS = 8 }; /* beside group 0 */
enum { SL_PLAN_MAX_CHUNKS = 256, SL_PLAN_HASH_BYTES = 16, SL_PLAN_MAX_BATCH = 1 << 20, SL_PLAN_NOTE_MAX = 4096 };

/* What a plan needs besides graphs; both sides agree on it. `note` is text that is hashed with the rest and that this
 * room does not interpret: the agreement (conf/agreed.h). */
struct sl_plan_spec {
	int64_t batch; /* rows of a full batch */
	int chunks;    /* that it is cut into; 1 … batch */
	/* Of what is computed per token (graph.h): the most tokens of a row, 1 … 65535, and of a chunk. 0: nothing. */
	int64_t row_tokens, chunk_tokens;
	bool padded; /* rows are padded: chunks have pieces (tensor.h) */
	bool cached; /* keys and values are kept from pass to pass, of `batch` rows of row_tokens; evaluations alone */
	uint64_t seed;
	enum sl_precision precision; /* of the middle */
	enum sl_precision ends;      /* of head and tail: FP32 or BF16_FACTORS; no part of any hash */
	struct sl_optimizer optimizer;
	struct sl_group_rule group[SL_PLAN_GROUPS]; /* of groups 1 … n_group */
	int n_group;
	double clip_norm; /* of the whole model's gradient (clip.h), in a group sl_plan_clip_own; 0: off */
	bool chunk_sums;  /* a chunk's gradient is one sum, and added to the batch's at once (exec.h) */
	/* The optimizer steps once in so many batches, by the mean of their gradients; 0 counts as 1. Batch k, from 0,
	 * is the last of them where k + 1 is a multiple. */
	int accumulate;
	/* Above 0: evaluations and models have averages of what learns: average = ema · average + (1 − ema) · weight
	 * behind every step of the optimizer, from the first weights on, as timm's ModelEma does; statistics as they
	 * are. */
	double ema;
	/* In a group: this part's member, and rows of a full step of all members, by which losses are divided; 0: by
	 * what the batch counts, as without a group. */
	bool shared;
	int member;
	int64_t group_rows;
	/* A step counts tokens with a loss, not rows. With chunk_sums a run without a group then does as a group does:
	 * it divides losses by group_rows, the rows of its batch, and its sums by sl_plan_sum_factor. */
	bool token_loss;
	/* In a group whose members have one head and one tail: a step is made of all their gradients. Where a round
	 * has so many steps, heads and tails are averaged at its end, with the optimizer's moments or without. */
	bool shared_ends;
	uint64_t ends_round;
	bool ends_average;
	uint64_t phase_step; /* the state of this step, of which it goes on, may be of another plan; 0: none may */
	bool no_grad[2];  /* the gradient does not cross at the head's end, at the tail's begin: nothing below learns */
	bool free_calls;  /* a step has as many chunks, of as many rows each, as the client comes to: session.h */
	bool fetch_state; /* a Fetch carries moments and codecs' state, too; no part of any hash */
	int64_t keep_tokens; /* of head_act the server keeps so many, and gets each once; no part of any hash */
	char note[SL_PLAN_NOTE_MAX];
};

/* Whether the numbers of a chunk have two of each row (tensor.h). */
static inline bool sl_plan_pairs(const struct sl_plan_spec *spec)
{
	return spec->padded || spec->cached;
}

/* The norm to which a client clips the gradient of its own head, middle and tail. 0: off, or all members have the same
 * head and tail, and their server clips what it has of all. */
static inline double sl_plan_clip_own(const struct sl_plan_spec *spec)
{
	return spec->shared_ends && !spec->ends_round ? 0 : spec->clip_norm;
}

/* What makes a sum of losses' gradients that were divided by group_rows the gradient of a mean over `counts` rows, or
 * tokens with a loss: of a member's part of a step; and of a run without a group. Each is 1 where the other is not. */
static inline double sl_plan_own_factor(const struct sl_plan_spec *spec, int64_t counts)
{
	return spec->group_rows && spec->shared ? (double)spec->group_rows / (double)counts : 1;
}
static inline double sl_plan_sum_factor(const struct sl_plan_spec *spec, int64_t counts)
{
	return spec->group_rows && !spec->shared ? (double)spec->group_rows / (double)counts : 1;
}
static inline double sl_plan_own_squares(const struct sl_plan_spec *spec, int64_t counts, double squares)
{
	const double own = sl_plan_own_factor(spec, counts);

	return own * own * squares;
}

enum { SL_TIED_AT = 1 << 24 };

/* What of an op narrows: the features that it makes or takes; a row's tokens, of which every feature has so many; or,
 * between the two, the features of a transpose. */
enum sl_narrowing { SL_NARROWS_NOT, SL_NARROWS_FEATURES, SL_NARROWS_TOKENS, SL_NARROWS_TRANSPOSE };

struct sl_segment_op {
	struct sl_op op; /* a copy, shapes with the most rows or tokens of a chunk; numbers are the graph's */
	bool din_want[SL_OP_MAX_IN]; /* backward: somebody needs this input's gradient */
	bool din_add[SL_OP_MAX_IN];  /* backward: a later consumer of the value has written its gradient */
	int param[SL_OP_MAX_PARAM];  /* index into the segment's parameters; SL_TIED_AT + index into the tied ones */
	bool learns;                 /* a parameter of it does */
	bool backward;               /* it learns, or its inputs' gradients are wanted; else it has no backward */
	/* A decaying insert's: shapes are those of its schedule's beginning. _out: the schedule is that of what goes
	 * out; else of what comes in. */
	enum sl_narrowing narrows;
	bool narrows_out;
};

/* A parameter's place in the segment's weight range, in floats; the same offset serves its gradient and moments. */
struct sl_segment_param {
	int graph_param; /* index into the part's graph.param */
	int model_param; /* the client's: index into model->graph.param */
	int64_t offset, count;
	enum sl_dtype held; /* F32: it is not held (graph.h) */
};

/* A parameter that the head has and the tail computes with, too: `offset` is that of the head's weight range. Its
 * gradient is the tail's own, at `grad` behind those of its other parameters. Once the step's chunks are done,
 * sl_exec_tie adds it to the head's. So the sum does not depend on which part was first. */
struct sl_tied_param {
	int graph_param; /* of the tail's graph */
	int64_t offset, count, grad;
	bool learns;
	int of_head; /* index into the head's parameters */
};

/* The weight range: trainable parameters first, by group, then running statistics, then frozen parameters. Last are
 * those that are held in 16 bits, two in the place of a float. Every parameter starts on a cache line, and the gap
 * behind it is zero. A store's hash is taken of the whole range, and an upload carries it; a Fetch carries its front
 * (sl_plan_fetch_count). What head and tail hold lies outside, where the client has mapped its file: the range lacks
 * it, and so do checkpoints. Its offset is then the range's end. */
struct sl_plan_segment {
	enum sl_segment which;
	struct sl_graph graph;
	enum sl_precision precision;
	struct sl_segment_op *op;
	int n_op;
	struct sl_segment_param *param;
	int n_param;
	struct sl_tied_param *tied; /* of the tail */
	int n_tied;
	int64_t tied_count;                    /* floats of their gradients, padding included */
	int moments;                           /* of the optimizer, and areas behind them (exec_impl.h), each of
						  trainable_count floats */
	int64_t group_end[SL_PLAN_GROUPS + 1]; /* where the range of each group ends; group 0 begins at 0 */
	int64_t trainable_count;               /* floats of the range's trainable front, padding included */
	int64_t moving_count;                  /* floats up to the frozen parameters */
	int64_t float_count;                   /* floats up to those that are held */
	int64_t weight_count;                  /* floats of the whole range, or their places */
	bool grad_in, grad_out;                /* the gradient of what comes in leaves; that of what goes out comes */
	int in_value, out_value;               /* of the graph; the tail's out_value is its loss (one float) */
	struct sl_shape in_shape, out_shape;   /* with the most rows, or tokens, of a chunk */
	int64_t macs;                          /* forward, of one row, or of the longest one */
	int classes;                           /* of the tail's logits; else 0 */
};

/* Parts that were not planned have no op. */
struct sl_plan {
	struct sl_plan_spec spec;
	int64_t rows;             /* of a full chunk: ceil(batch / chunks) */
	struct sl_decay decay[2]; /* of what crosses at the head's end and at the tail's begin */
	bool whole_rows;          /* every row has spec.row_tokens tokens: a part transposes them */
	struct sl_plan_segment segment[SL_SEGMENT_COUNT];
	uint8_t hash[SL_PLAN_HASH_BYTES];        /* of the spec and every part that is planned */
	uint8_t middle_hash[SL_PLAN_HASH_BYTES]; /* of the spec and the middle: what client and server compare */
	uint8_t layout_hash[SL_PLAN_HASH_BYTES]; /* of the parameters alone, and where they lie: plans that differ in
						    the rest may go on with each other's state */
	/* The client's alone: the whole network, where it is cut, and shapes of one row at both cuts without inserts.
	 */
	struct sl_model *model;
	struct sl_cut cut;
	struct sl_shape plain[2];
	bool plain_per_token[2]; /* whether `plain` is the shape of a token */
};

/* Plans one part from its graph, which is taken over where this succeeds, and left to the caller otherwise. A graph
 * need not be trusted: what no part can have is CONFIG with a sentence. */
enum sl_err sl_plan_open_part(struct sl_plan **out, const struct sl_plan_spec *spec, enum sl_segment which,
			      struct sl_graph *graph, struct sl_fail *fail) SL_MUST_CHECK;
/* The same in three steps, for several parts: an empty plan; a part; the hash, last. */
enum sl_err sl_plan_begin(struct sl_plan **out, const struct sl_plan_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_plan_add(struct sl_plan *plan, enum sl_segment which, struct sl_graph *graph,
			struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_plan_seal(struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether `graph` can be that part: sl_plan_add asks. CONFIG with a sentence. */
enum sl_err sl_plan_check_part(const struct sl_graph *graph, enum sl_segment which, const struct sl_plan_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;
void sl_plan_close(struct sl_plan *plan); /* NULL is fine */

/* How `batch_rows` ≤ spec.batch rows fall into chunks: full ones, then a ragged last one. */
int sl_plan_chunks_of(const struct sl_plan *plan, int64_t batch_rows);
int64_t sl_plan_chunk_rows(const struct sl_plan *plan, int64_t batch_rows, int chunk);
/* Rows of all of them; how many chunks there are. */
int sl_plan_split(const struct sl_plan *plan, int64_t batch_rows, int64_t rows[SL_PLAN_MAX_CHUNKS]);
/* The number by which a chunk's random numbers are drawn: those of a group's members differ. */
int sl_plan_chunk_number(const struct sl_plan *plan, int chunk);

/* Shape of a tensor that crosses the cut for `rows` rows, or tokens where it is per token: mid = false at the head's
 * end, true at the tail's begin. It is the largest of the run: decaying inserts make it narrower. _after: of the pass
 * that follows `done` steps. */
struct sl_shape sl_plan_cut_shape(const struct sl_plan *plan, bool mid, int64_t rows);
struct sl_shape sl_plan_cut_shape_after(const struct sl_plan *plan, bool mid, int64_t rows, uint64_t done);
/* Floats at the front of the weight range that a Fetch carries: all that a step can change. Where it can change
 * nothing, the first cache line, because a run is never empty. */
int64_t sl_plan_fetch_count(const struct sl_plan_segment *segment);
/* Whether the lengths of rows travel with head_act: the middle computes per token. */
bool sl_plan_lengths_cross(const struct sl_plan *plan);
/* Whether what crosses there is per token; whether mid_act is per chosen token, so that the choice travels with
 * head_act; dimension 0 of what crosses in a chunk, at most, and of a row at most. */
bool sl_plan_cut_per_token(const struct sl_plan *plan, bool mid);
bool sl_plan_cut_chosen(const struct sl_plan *plan);
int64_t sl_plan_cut_count(const struct sl_plan *plan, bool mid, const struct sl_dims *dims);
int64_t sl_plan_cut_most(const struct sl_plan *plan, bool mid);
int64_t sl_plan_cut_most_of_row(const struct sl_plan *plan, bool mid);
/* Chosen tokens of a row of so many at most, and of a chunk; the latter 0: the graph has no gather, and takes in none.
 */
int64_t sl_plan_chosen_of(double share, int64_t tokens);
int64_t sl_plan_chosen_most(const struct sl_plan *plan, const struct sl_graph *graph);
/* Whether the tail computes with the head's parameter at this offset. */
bool sl_plan_is_tied(const struct sl_plan *plan, int64_t offset);
/* Elements per row, or token, of the tensor that would cross without inserts. */
int64_t sl_plan_plain_count(const struct sl_plan *plan, bool mid);

#endif
