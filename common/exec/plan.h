/* The plan: everything that can be known before the first step. It is derived from the graphs of segments (head, middle
 * and tail, also called parts) and from what both sides agree on. It has each segment's ops (batchnorm and activation
 * fused), the offsets of its parameters and its MACs, and hashes. Immutable once opened, so threads may share it.
 *
 * The server plans only the middle, from its graph: sl_plan_open_part. The client plans all three segments of a network
 * (client/model/split.h). */
#ifndef SL_EXEC_PLAN_H
#define SL_EXEC_PLAN_H

#include "common/exec/optimizer.h"
#include "common/graph/cut.h"

enum { SL_PLAN_GROUPS = 8 }; /* parameter groups besides group 0 */
enum { SL_PLAN_MAX_CHUNKS = 256, SL_PLAN_HASH_BYTES = 16, SL_PLAN_MAX_BATCH = 1 << 20, SL_PLAN_NOTE_MAX = 4096 };

/* The settings of a plan, on which both sides agree. "Not hashed" fields are in none of the plan's hashes. */
struct sl_plan_spec {
	int64_t batch; /* rows of a full batch */
	int chunks;    /* into which a full batch is divided; 1 … batch */
	/* For per-token values (graph.h): the most tokens of a row, 1 … 65535, and of a chunk. 0: there are none. */
	int64_t row_tokens, chunk_tokens;
	bool padded; /* rows are padded: chunks have pieces (tensor.h) */
	bool cached; /* keys and values of `batch` rows of row_tokens are cached from pass to pass; evaluations only */
	uint64_t seed;
	enum sl_precision precision; /* of the middle */
	enum sl_precision ends;      /* of head and tail: FP32 or BF16_FACTORS; not hashed */
	struct sl_optimizer optimizer;
	struct sl_group_rule group[SL_PLAN_GROUPS]; /* rules of parameter groups 1 … n_group */
	int n_group;
	double clip_norm; /* most norm of the whole model's gradient (clip.h; for members sl_plan_clip_own); 0: off */
	bool chunk_sums;  /* a chunk's gradient is summed apart, then added to the batch's (exec.h) */
	/* Gradient accumulation: one optimizer step in so many batches, by the mean of their gradients; 0 counts as 1.
	 * Batch k, counted from 0, ends with a step if k + 1 is a multiple. */
	int accumulate;
	/* Above 0: evaluations and saved models use an exponential moving average of the weights that learn, as timm's
	 * ModelEma. It starts as the first weights; after every optimizer step average = ema · average + (1 − ema) ·
	 * weight. Statistics are not averaged. */
	double ema;
	/* shared: the run is a member of a group of clients; `member` is its number. group_rows: rows of a full step of
	 * all members, by which losses are divided; 0: they are divided by the batch's own count. */
	bool shared;
	int member;
	enum sl_party party; /* the segments of a network that a client plans; what crosses on its link */
	int sends;           /* of the middle's inputs those that this party gives, a bit each; 0: all */
	int64_t group_rows;
	/* A step counts tokens with a loss instead of rows. With chunk_sums a run without a group then does as a group:
	 * group_rows is its batch's rows, by which losses are divided, and sl_plan_sum_factor corrects its sums. */
	bool token_loss;
	/* Not 0: the members of the group have a common head and tail: each step applies the gradients of all. But if
	 * ends_round > 0, heads and tails are averaged after each round of so many steps; MOMENTS: the optimizer's
	 * moments, too. */
	enum { SL_ENDS_OWN, SL_ENDS_COMMON, SL_ENDS_MOMENTS } shared_ends;
	uint64_t ends_round;
	uint64_t phase_step; /* the run may resume from the state of this step even if another plan made it; 0: none */
	bool no_grad[2];     /* no gradient crosses at the head's end, at the tail's start: nothing below them learns */
	bool free_calls;     /* the client chooses a step's number of chunks, and their rows, as it goes (session.h) */
	bool fetch_state;    /* a Fetch also carries moments and codecs' state; not hashed */
	int64_t keep_tokens; /* tokens of head_act that the server keeps, so that each crosses once; not hashed */
	char note[SL_PLAN_NOTE_MAX]; /* the agreement (conf/agreed.h) as text, which is only hashed here */
};

/* Whether a chunk's buffer of numbers has two for each row (sl_dims_numbers). */
static inline bool sl_plan_pairs(const struct sl_plan_spec *spec)
{
	return spec->padded || spec->cached;
}

/* The norm to which a client's own gradient of head, middle and tail is clipped. 0: off, or the server clips the sum of
 * all members' gradients because they share head and tail. */
static inline double sl_plan_clip_own(const struct sl_plan_spec *spec)
{
	return spec->shared_ends && !spec->ends_round ? 0 : spec->clip_norm;
}

/* The factor that turns a gradient whose losses were divided by group_rows into that of a mean over `counts` rows, or
 * tokens with a loss. _own_: for one member's part of a step; _sum_: for a run without a group. Otherwise 1. */
static inline double sl_plan_own_factor(const struct sl_plan_spec *spec, int64_t counts)
{
	return spec->group_rows && spec->shared ? (double)spec->group_rows / (double)counts : 1;
}
static inline double sl_plan_sum_factor(const struct sl_plan_spec *spec, int64_t counts)
{
	return spec->group_rows && !spec->shared ? (double)spec->group_rows / (double)counts : 1;
}
/* The sum of squares of a gradient after multiplying it by sl_plan_own_factor. */
static inline double sl_plan_own_squares(const struct sl_plan_spec *spec, int64_t counts, double squares)
{
	const double own = sl_plan_own_factor(spec, counts);

	return own * own * squares;
}

enum { SL_TIED_AT = 1 << 24 };

/* How a decaying insert narrows an op. FEATURES: a layer's input or output features. TOKENS: a layer over the tokens of
 * a row, and the number of features for which it runs. TRANSPOSE: the features of the transpose between the two. */
enum sl_narrowing { SL_NARROWS_NOT, SL_NARROWS_FEATURES, SL_NARROWS_TOKENS, SL_NARROWS_TRANSPOSE };

struct sl_segment_op {
	struct sl_op op; /* a copy, whose shapes have the most rows or tokens of a chunk; indices are the graph's */
	bool din_want[SL_OP_MAX_IN]; /* backward must compute this input's gradient */
	bool din_add[SL_OP_MAX_IN];  /* backward must add to it: a later reader of the value has already written it */
	int param[SL_OP_MAX_PARAM];  /* index into the segment's parameters; SL_TIED_AT + index into the tied ones */
	bool learns;                 /* one of its parameters does */
	bool backward;               /* it learns, or a gradient of its inputs is needed; else it has no backward */
	/* For the ops of a decaying insert; their shapes are those before the first step. narrows_out: they follow the
	 * schedule of the segment's output, else of its input. */
	enum sl_narrowing narrows;
	bool narrows_out;
};

/* A parameter's place in the segment's weight range, in floats; its gradient and moments have the same offset. */
struct sl_segment_param {
	int graph_param; /* index into the segment's graph.param */
	int model_param; /* for the client: index into model->graph.param */
	int64_t offset, count;
	enum sl_dtype held; /* F32: not held in 16 bits (graph.h) */
	int input;          /* of a head, in the client's plan: the first of its inputs on which it depends */
};

/* A parameter of the head with which the tail computes, too; `offset` is that in the head's weight range. The tail has
 * a gradient of its own for it, at `grad` behind those of its other parameters. After the step's last chunk
 * sl_exec_tie adds it to the head's. So the sum does not depend on which segment computed first. */
struct sl_tied_param {
	int graph_param; /* index into the tail's graph.param */
	int64_t offset, count, grad;
	bool learns;
	int of_head; /* index into the head's segment parameters */
};

/* The weight range of a segment: first trainable parameters, by group; then running statistics; then frozen parameters.
 * Last come those that are held in 16 bits, two in the place of a float. Every parameter starts on a cache line, and
 * the gap behind it is zero. A store's hash covers the whole range, and an upload carries it; a Fetch carries its front
 * (sl_plan_fetch_count). Held parameters of head and tail lie outside, in the file that the client maps: range and
 * checkpoints lack them. Their offset is then the range's end. */
struct sl_plan_segment {
	enum sl_segment which;
	struct sl_graph graph;
	enum sl_precision precision;
	struct sl_segment_op *op;
	int n_op;
	struct sl_segment_param *param;
	int n_param;
	struct sl_tied_param *tied; /* the tail's */
	int n_tied;
	int64_t tied_count;                    /* floats of their gradients, padding included */
	int moments;                           /* the optimizer's moments and the areas behind them (exec_impl.h), each
						  of trainable_count floats */
	int64_t group_end[SL_PLAN_GROUPS + 1]; /* where the range of each group ends; group 0 begins at 0 */
	int64_t trainable_count;               /* floats of the range's trainable front, padding included */
	int64_t moving_count;                  /* floats before the frozen parameters */
	int64_t float_count;                   /* floats before the parameters that are held in 16 bits */
	int64_t weight_count;                  /* length of the whole range in floats */
	bool grad_in, grad_out;                /* the input's gradient leaves the segment; the output's comes in */
	int in_value, out_value;               /* of the graph; the tail's out_value is its loss (one float) */
	struct sl_shape in_shape, out_shape;   /* with the most rows, or tokens, of a chunk */
	int64_t macs;                          /* of forward of one row, with the most tokens */
	int classes;                           /* of the tail's cross-entropy; else 0 */
};

/* Whether the value is one of a segment's inputs; one of its outputs. */
bool sl_plan_comes_in(const struct sl_graph *graph, int value);
bool sl_plan_goes_out(const struct sl_graph *graph, int value);

/* Segments that are not planned have no ops. */
struct sl_plan {
	struct sl_plan_spec spec;
	int64_t rows;             /* of a full chunk: ceil(batch / chunks) */
	struct sl_decay decay[2]; /* schedules of the widths at the head's end and at the tail's start */
	bool whole_rows;          /* every row has spec.row_tokens tokens, because a segment transposes them */
	struct sl_plan_segment segment[SL_SEGMENT_COUNT];
	uint8_t hash[SL_PLAN_HASH_BYTES];        /* of the spec and all planned segments */
	uint8_t middle_hash[SL_PLAN_HASH_BYTES]; /* of the spec and the middle: client and server compare it */
	uint8_t layout_hash[SL_PLAN_HASH_BYTES]; /* of the parameters and their offsets: a run may resume from the state
						    of another plan if this hash is equal */
	/* The client's: the whole network, its cut, and the elements of a row or token at both cuts without inserts. */
	struct sl_model *model;
	struct sl_cut cut;
	int64_t plain[2];
	bool plain_per_token[2]; /* whether `plain` is of a token */
};

/* How many values cross at that cut (cut.h), all of them per row or all per token; and for `rows` rows or tokens the
 * shape of one of them, and the floats of all. Number 0 is the tensor of the functions below. Of a party (spec.sends)
 * only its own count at the head's end; _field: the number of one of them among all. */
int sl_plan_cut_values(const struct sl_plan *plan, bool mid);
int sl_plan_cut_field(const struct sl_plan *plan, bool mid, int value);
struct sl_shape sl_plan_value_shape(const struct sl_plan *plan, bool mid, int value, int64_t rows);
int64_t sl_plan_cut_floats(const struct sl_plan *plan, bool mid, int64_t rows);
/* The values that stay at home (cut.h): the head gives them behind what crosses, and the tail takes them behind it.
 * `input`: the first one is the network's input, which the head does not give. */
struct sl_homes {
	int n, head_field, tail_field; /* number; the first of them among the head's outputs, among the tail's inputs */
	bool input;
};
struct sl_homes sl_plan_homes(const struct sl_plan *plan);

/* Plans one segment from its graph. On success the plan owns the graph; else the caller keeps it. The graph need not be
 * trusted: CONFIG with a sentence if it cannot be that segment. */
enum sl_err sl_plan_open_part(struct sl_plan **out, const struct sl_plan_spec *spec, enum sl_segment which,
			      struct sl_graph *graph, struct sl_fail *fail) SL_MUST_CHECK;
/* The same in four steps, for several segments: begins an empty plan; says what the middle will be; adds a segment;
 * computes the hashes, last. */
enum sl_err sl_plan_begin(struct sl_plan **out, const struct sl_plan_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
void sl_plan_settle(struct sl_plan *plan, const struct sl_graph *middle);
enum sl_err sl_plan_add(struct sl_plan *plan, enum sl_segment which, struct sl_graph *graph,
			struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_plan_seal(struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether `graph` can be that segment; sl_plan_add calls it. CONFIG with a sentence. */
enum sl_err sl_plan_check_part(const struct sl_graph *graph, enum sl_segment which, const struct sl_plan_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;
void sl_plan_close(struct sl_plan *plan); /* NULL is fine */

/* `batch_rows` ≤ spec.batch rows are divided into full chunks, and a last one that may have fewer rows. Returns the
 * number of chunks; the rows of one chunk. */
int sl_plan_chunks_of(const struct sl_plan *plan, int64_t batch_rows);
int64_t sl_plan_chunk_rows(const struct sl_plan *plan, int64_t batch_rows, int chunk);
/* Writes the rows of all chunks, and returns their number. */
int sl_plan_split(const struct sl_plan *plan, int64_t batch_rows, int64_t rows[SL_PLAN_MAX_CHUNKS]);
/* The chunk's number in rng keys; it differs between a group's members. */
int sl_plan_chunk_number(const struct sl_plan *plan, int chunk);

/* Shape of the tensor at a cut, for `rows` rows, or tokens if it is per token. mid: at the tail's start, else at the
 * head's end. It is the widest of the run; _after: the shape in the pass after `done` steps (decaying inserts). */
struct sl_shape sl_plan_cut_shape(const struct sl_plan *plan, bool mid, int64_t rows);
struct sl_shape sl_plan_cut_shape_after(const struct sl_plan *plan, bool mid, int64_t rows, uint64_t done);
/* Floats at the front of the weight range that a Fetch carries: all that a step can change. If that is nothing, the
 * first cache line, because a transfer is never empty. */
int64_t sl_plan_fetch_count(const struct sl_plan_segment *segment);
/* Whether the lengths of rows travel with head_act, because the middle computes per token. */
bool sl_plan_lengths_cross(const struct sl_plan *plan);
/* Whether the tensor at that cut is per token; whether mid_act is per chosen token, so that the choice travels with
 * head_act; dimension 0 of the tensor in a chunk; the most that it can be; and the most for a single row. */
bool sl_plan_cut_per_token(const struct sl_plan *plan, bool mid);
bool sl_plan_cut_chosen(const struct sl_plan *plan);
int64_t sl_plan_cut_count(const struct sl_plan *plan, bool mid, const struct sl_dims *dims);
int64_t sl_plan_cut_most(const struct sl_plan *plan, bool mid);
int64_t sl_plan_cut_most_of_row(const struct sl_plan *plan, bool mid);
/* The most chosen tokens of a row of `tokens` tokens, and of a chunk. The latter is 0 if the graph has no gather and
 * its input is not per chosen token. */
int64_t sl_plan_chosen_of(double share, int64_t tokens);
int64_t sl_plan_chosen_most(const struct sl_plan *plan, const struct sl_graph *graph);
/* Whether the tail computes with the head's parameter at this offset. */
bool sl_plan_is_tied(const struct sl_plan *plan, int64_t offset);
/* Elements per row, or token, of the tensor that would cross if there were no inserts. */
int64_t sl_plan_plain_count(const struct sl_plan *plan, bool mid);

#endif
