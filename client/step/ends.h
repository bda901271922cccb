/* The client's two ends of the network: head and tail on one backend, and the batch they work on. Used by the
 * distributed run and by `--local`, so that both compute the same bits. Worker's thread only. */
#ifndef SL_CLIENT_STEP_ENDS_H
#define SL_CLIENT_STEP_ENDS_H

#include "client/persist/client_state.h"
#include "client/step/dcor.h"
#include "client/step/feed.h"
#include "client/step/head_cache.h"
#include "client/step/noise.h"
#include "common/exec/exec.h"
#include "common/session/mean.h"
#include "common/weights/weights.h"

/* Copy the model's weights into a segment's executor, and back. NULL is fine. */
enum sl_err sl_exec_put(struct sl_exec *exec, const struct sl_weights *weights) SL_MUST_CHECK;
enum sl_err sl_exec_take(struct sl_exec *exec, struct sl_weights *weights) SL_MUST_CHECK;

/* A number to be predicted is learned as (number - mean) / deviation. Sets have number - centre, and so have outputs of
 * an evaluation. */
struct sl_label_scale {
	double mean, deviation, centre;
};

/* Options of a run's ends. Everything is borrowed; NULL turns an option off. */
struct sl_ends_use {
	/* Of a vertical group in one process: SL_CONF_PARTIES members, else 0; which has the tail; by member its input
	 * of the head, -1: none. */
	int members, labels, input[SL_CONF_PARTIES];
	bool chunk_loss_sum; /* train.chunk_loss: sum. A chunk's loss is a mean over its own rows; their sum counts */
	bool restores;       /* train.loss: restore_head or restore_tail, whose targets are zeros, not labels */
	struct sl_head_cache *head_cache; /* caches the head's activations of training samples */
	const float *class_weight;        /* [classes], in training; NULL: all are 1 */
	const struct sl_noise *noise;     /* is added to what is sent */
	struct sl_dcor *dcor;             /* takes samples of evaluations */
	float *logits; /* [batch_rows, classes]: sl_ends_tail writes an evaluation's outputs here, numbers unscaled */
	const uint32_t *home; /* by training sample: where its tokens are kept (codec/lengths.h); NULL: nowhere */
	const struct sl_label_scale *scale; /* [targets], of numbers; NULL: they are learned as they are */
};

/* A chunk of the batch under way, from sl_ends_take until the next one. */
struct sl_chunk {
	struct sl_exec_call call; /* its rows and tokens, and where the executors put it */
	int64_t first, answer;    /* its first row of the batch, and its first label */
	int64_t cut[2];           /* rows, or tokens, of its tensors at the head's cut and at the tail's */
};

struct sl_ends {
	const struct sl_plan *plan;
	struct sl_exec *head, *tail; /* NULL: another party of a vertical group has it */
	struct sl_ends_use use;
	struct sl_feed feed; /* the batch under way, from sl_ends_take */
	uint32_t *begin;     /* for each chunk the numbers of its struct sl_dims; NULL: there are no tokens */
	uint32_t *place;     /* for each chunk the places of its chosen tokens; NULL: none are ever chosen */
	float *scaled;       /* [batch, targets], with use.scale */
	float *sent;         /* all chunks of the head's output with noise, which is sent in its place */
	uint32_t *word;      /* scratch for sl_noise_add */
	bool tied;           /* both ends' gradients of shared parameters are summed already in this step */
	double weight;       /* of all labels of the batch, as its loss counts them */
	bool pictures;       /* batches of a step weigh by their pictures: Dice is a mean over these */
	struct sl_batch_weights weights; /* with train.accumulate */
	uint64_t step;
	bool training;
	int chunks; /* of the batch under way */
	struct sl_chunk chunk[SL_PLAN_MAX_CHUNKS];
	int64_t rows[SL_PLAN_MAX_CHUNKS]; /* of each chunk */
	struct sl_exec_loss loss[SL_PLAN_MAX_CHUNKS];
};

enum sl_err sl_ends_open(struct sl_ends *ends, const struct sl_plan *plan, struct sl_backend *be,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_ends_close(struct sl_ends *ends); /* idempotent; a zeroed one is fine */
enum sl_err sl_ends_set_weights(struct sl_ends *ends, const struct sl_weights *weights) SL_MUST_CHECK;
enum sl_err sl_ends_get_weights(struct sl_ends *ends, struct sl_weights *weights) SL_MUST_CHECK;

/* Sets the options from here on. Before the call all are off. NOMEM. */
enum sl_err sl_ends_use(struct sl_ends *ends, const struct sl_ends_use *use, struct sl_fail *fail) SL_MUST_CHECK;
/* Makes x what is sent: the values of a chunk's output of the head, or gradients of the tail. With noise, head_act is a
 * copy, and a gradient is changed in place. In an evaluation head_act is also put into use.dcor. */
enum sl_err sl_ends_sent(struct sl_ends *ends, enum sl_dir dir, int chunk, struct sl_tensor *x,
			 struct sl_fail *fail) SL_MUST_CHECK;

/* Sets the batch of the next pass, whose arrays are borrowed. */
void sl_ends_take(struct sl_ends *ends, const struct sl_feed *feed, uint64_t step, bool training);

/* Forward pass of the head for a chunk, from the batch to sl_exec_output(head). Chunk 0 of a training step also zeroes
 * gradients. DATA: a token is not in the model's vocabulary. */
enum sl_err sl_ends_head_forward(struct sl_ends *ends, int chunk) SL_MUST_CHECK;
/* Forward pass of the tail for a chunk, from sl_exec_input(tail) to loss[chunk]; in training also its backward pass, to
 * sl_exec_din(tail), and NONFINITE if the loss is NaN or Inf. */
enum sl_err sl_ends_tail(struct sl_ends *ends, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* ends_home.c: uploads a chunk's part of the inputs behind the first. */
enum sl_err sl_ends_take_more(struct sl_ends *ends, const struct sl_chunk *c) SL_MUST_CHECK;
/* ends_home.c: copies a chunk's values that stay at home from the head's slot to the tail's; and their gradients back.
 * A value that also crosses has its head_grad there already, to which this adds. */
void sl_ends_carry_home(struct sl_ends *ends, const struct sl_exec_call *call);
void sl_ends_carry_home_back(struct sl_ends *ends, const struct sl_exec_call *call);
/* ends_numbers.c: the targets of a row; the chunk's numbers as the network learns them; and its outputs, which are such
 * numbers, turned into those that they stand for. `output` NULL: nothing. */
int64_t sl_ends_targets(const struct sl_ends *ends);
const float *sl_ends_numbers(struct sl_ends *ends, const struct sl_chunk *c);
void sl_ends_unscale(const struct sl_ends *ends, const struct sl_chunk *c, float *output);
/* Backward pass of the head for a chunk, from sl_exec_dout(head). */
enum sl_err sl_ends_head_backward(struct sl_ends *ends, int chunk) SL_MUST_CHECK;
/* After all chunks of a step: completes the gradients. NONFINITE: the step must not be applied. */
enum sl_err sl_ends_check(struct sl_ends *ends, struct sl_fail *fail) SL_MUST_CHECK;
/* The squared norms of the head's and the tail's gradients (sl_exec_squares) times sl_ends_mean_factor. */
enum sl_err sl_ends_squares(struct sl_ends *ends, double squares[2], struct sl_fail *fail) SL_MUST_CHECK;
/* The factor by which the gradients of a step are multiplied. A step may have several batches (train.accumulate). With
 * the factor, the sum of their gradients is that of the mean over all their labels, each by its weight. It is above 0
 * and at most `accumulate`. It is 1 before the step's last batch, and where all batches weigh the same. After
 * sl_ends_take. */
double sl_ends_mean_factor(const struct sl_ends *ends);
/* Steps both optimizers. `grad_scale`: as in sl_exec_scale. */
enum sl_err sl_ends_commit(struct sl_ends *ends, double lr, double grad_scale) SL_MUST_CHECK;
/* For a group that shares its ends. _change gets what this member's chunks of the step would change; _commit_mean then
 * applies the mean over all members in place of it. */
enum sl_err sl_ends_change(struct sl_ends *ends, const struct sl_end_layout *layout, float *change) SL_MUST_CHECK;
enum sl_err sl_ends_commit_mean(struct sl_ends *ends, const struct sl_end_layout *layout, float *mean,
				double lr) SL_MUST_CHECK;
/* Calls sl_exec_set_done for both executors. If `done` ends the step under way, also logs which inserts get narrower.
 */
enum sl_err sl_ends_set_done(struct sl_ends *ends, uint64_t done) SL_MUST_CHECK;

/* Results of the batch, added up in the order of its chunks. */
/* The batch's loss, a mean over its rows, chosen tokens or pixels; *dice: of it the Dice loss, a mean over pictures. */
double sl_ends_loss(const struct sl_ends *ends, double *dice);
int64_t sl_ends_correct(const struct sl_ends *ends);
int64_t sl_ends_answers(const struct sl_ends *ends); /* labels of the batch, without ignored ones */

#endif
