/* Everything that a step changes on the client: head, tail and codecs. It is kept in memory from one link to the next,
 * and on disk from one process to the next. The run's own position is in a checkpoint's notes (training.h). */
#ifndef SL_CLIENT_PERSIST_CLIENT_STATE_H
#define SL_CLIENT_PERSIST_CLIENT_STATE_H

#include "common/exec/exec.h"
#include "common/session/mean.h"
#include "common/session/state.h"

/* The weights of the batches that the step of the optimizer under way has added up (train.accumulate): that of the
 * first batch, and their sum. A weight is the divisor of a batch's mean loss. NAN: a checkpoint of an earlier version
 * does not say. */
struct sl_batch_weights {
	double first, sum;
};

struct sl_client_state {
	struct sl_exec_state head, tail;
	struct sl_codecs_state codecs;
	struct sl_buf end; /* state of the codec of shared heads and tails; no data: they are not shared */
	float *base;       /* [base_count] head and tail at the start of the round; NULL: not averaged in rounds */
	int64_t base_count;
	struct sl_batch_weights weights;
	uint64_t step; /* the next step to do */
	uint64_t made; /* epoch of the link whose COMMIT made this state; 0: the initial weights */
};

/* Takes memory for the state. `codec`: those of the client's port. */
enum sl_err sl_client_state_open(struct sl_client_state *s, const struct sl_plan *plan,
				 struct sl_codec *const codec[SL_DIR_COUNT], struct sl_fail *fail) SL_MUST_CHECK;
/* Call these after open, take and give if heads and tails are shared: the same for the state of `coder` and for `base`.
 * base_count 0 and base NULL: not averaged in rounds. */
enum sl_err sl_client_state_open_end(struct sl_client_state *s, const struct sl_end_coder *coder, int64_t base_count,
				     struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_client_state_take_end(struct sl_client_state *s, const struct sl_end_coder *coder,
				     const float *base) SL_MUST_CHECK;
enum sl_err sl_client_state_give_end(const struct sl_client_state *s, struct sl_end_coder *coder,
				     float *base) SL_MUST_CHECK;
void sl_client_state_close(struct sl_client_state *s); /* idempotent; a zeroed one is fine */
/* take copies the present state into `s`; give puts it back. */
enum sl_err sl_client_state_take(struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
enum sl_err sl_client_state_give(const struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;

/* Checkpoint files, log.dir/checkpoint-<step>.safetensors. sl_client_checkpoint initializes *c and the caller adds its
 * notes. Then sl_client_state_write or sl_client_state_read adds the state, and writes or reads the file. */
void sl_client_checkpoint(struct sl_checkpoint *c, const char *dir, const struct sl_plan *plan);
enum sl_err sl_client_state_write(struct sl_client_state *s, struct sl_checkpoint *c,
				  struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_client_state_read(struct sl_client_state *s, struct sl_checkpoint *c, uint64_t step,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
