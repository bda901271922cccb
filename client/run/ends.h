/* The client's two ends of the network: head and tail on one backend, and the batch they work on. Used by the
 * distributed run and by `--local`, so that both compute the same bits. Worker's thread only. */
#ifndef SL_CLIENT_RUN_ENDS_H
#define SL_CLIENT_RUN_ENDS_H

#include "client/run/dcor.h"
#include "client/run/feed.h"
#include "client/run/kept.h"
#include "client/run/noise.h"
#include "common/exec/exec.h"
#include "common/session/mean.h"
#include "common/weights/weights.h"

/* The model's weights into a segment's executor, and back. */
enum sl_err sl_exec_put(struct sl_exec *exec, const struct sl_weights *weights) SL_MUST_CHECK;
enum sl_err sl_exec_take(struct sl_exec *exec, struct sl_weights *weights) SL_MUST_CHECK;

/* What a run asks of its ends; all is borrowed, and NULL where nobody asks for it. */
struct sl_ends_use {
	bool chunk_loss_sum;  /* losses of chunks are means of their own rows, and are summed (FACTS: upstream's way) */
	struct sl_kept *kept; /* activations of training's samples; NULL: none are kept */
	const float *class_weight;    /* [classes], of training; NULL: all are 1 */
	const struct sl_noise *noise; /* of what is sent; NULL: none */
	struct sl_dcor *dcor;         /* of evaluations */
	float *logits;                /* of an evaluation, [batch_rows, classes], which sl_ends_tail writes */
};

struct sl_ends {
	const struct sl_plan *plan;
	struct sl_exec *head, *tail;
	struct sl_ends_use use;
	struct sl_feed feed; /* the batch under way: sl_ends_take */
	uint32_t *begin;     /* of each chunk, sl_dims_numbers of plan->rows; NULL: there are no tokens */
	uint32_t *place;     /* of each chunk, the most that can be chosen of its tokens; NULL: none are */
	float *sent;         /* [batch] what is sent in place of the head's output; NULL: that */
	uint32_t *word;      /* room for sl_noise_add */
	bool tied;           /* the gradients of the step under way are one already */
	uint64_t step;
	bool training;
	struct sl_exec_loss loss[SL_PLAN_MAX_CHUNKS];
};

enum sl_err sl_ends_open(struct sl_ends *ends, const struct sl_plan *plan, struct sl_backend *be,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_ends_close(struct sl_ends *ends); /* idempotent; a zeroed one is fine */
enum sl_err sl_ends_set_weights(struct sl_ends *ends, const struct sl_weights *weights) SL_MUST_CHECK;
enum sl_err sl_ends_get_weights(struct sl_ends *ends, struct sl_weights *weights) SL_MUST_CHECK;

/* From here on. Before, nobody asks for anything. NOMEM. */
enum sl_err sl_ends_use(struct sl_ends *ends, const struct sl_ends_use *use, struct sl_fail *fail) SL_MUST_CHECK;
/* What to send of a chunk in place of x, which is the head's output or the tail's gradient. x itself where there is no
 * noise, and where it may be changed. Of an evaluation head_act is put into use.dcor. */
struct sl_tensor sl_ends_sent(struct sl_ends *ends, enum sl_dir dir, int chunk, struct sl_tensor x);

/* The batch of the next pass. */
void sl_ends_take(struct sl_ends *ends, const struct sl_feed *feed, uint64_t step, bool training);
/* Rows and tokens of a chunk of it; valid until the next sl_ends_take. */
struct sl_dims sl_ends_dims(const struct sl_ends *ends, int chunk);

/* Head forward of a chunk, from the batch to sl_exec_output(head). Chunk 0 of a training step also zeroes gradients.
 * DATA: a token is none of the model's. */
enum sl_err sl_ends_head_forward(struct sl_ends *ends, int chunk) SL_MUST_CHECK;
/* From sl_exec_input(tail) to loss[chunk] and, in training, sl_exec_din(tail). NONFINITE there where the loss is NaN or
 * Inf. */
enum sl_err sl_ends_tail(struct sl_ends *ends, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* From sl_exec_dout(head). */
enum sl_err sl_ends_head_backward(struct sl_ends *ends, int chunk) SL_MUST_CHECK;
/* NONFINITE where the step, all of whose chunks are done, must not be applied. */
enum sl_err sl_ends_check(struct sl_ends *ends, struct sl_fail *fail) SL_MUST_CHECK;
/* Squares of both gradients, head and tail (sl_exec_squares). */
enum sl_err sl_ends_squares(struct sl_ends *ends, double squares[2], struct sl_fail *fail) SL_MUST_CHECK;
/* `grad_scale`: as in sl_exec_scale. */
enum sl_err sl_ends_commit(struct sl_ends *ends, double lr, double grad_scale) SL_MUST_CHECK;
/* Where a group shares its ends: what the step's chunks would change; and the step as all members' mean makes it, with
 * which this side's chunks have no more to do. */
enum sl_err sl_ends_change(struct sl_ends *ends, const struct sl_end_layout *layout, float *change) SL_MUST_CHECK;
enum sl_err sl_ends_commit_mean(struct sl_ends *ends, const struct sl_end_layout *layout, float *mean,
				double lr) SL_MUST_CHECK;
/* Both executors (sl_exec_follow); behind the step under way also says what gets narrower. */
enum sl_err sl_ends_follow(struct sl_ends *ends, uint64_t done) SL_MUST_CHECK;

/* Sums over the batch, in chunk order. */
double sl_ends_loss(const struct sl_ends *ends); /* mean over the batch's rows, or chosen tokens */
int64_t sl_ends_correct(const struct sl_ends *ends);
int64_t sl_ends_answers(const struct sl_ends *ends); /* labels of the batch that count */

#endif
