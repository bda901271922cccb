/* Everything that a step changes on the client: head, tail and its codecs; in memory between two links, on disk between
 * two processes. The position of the run itself travels as notes (training.h). */
#ifndef SL_CLIENT_PERSIST_CLIENT_STATE_H
#define SL_CLIENT_PERSIST_CLIENT_STATE_H

#include "common/exec/exec.h"
#include "common/session/mean.h"
#include "common/session/state.h"

struct sl_client_state {
	struct sl_exec_state head, tail;
	struct sl_codecs_state codecs;
	struct sl_buf end; /* of the codec of shared heads and tails, in a group that has them; else no data */
	float *base;       /* [base_count] what the last round began with, where these are averaged; else NULL */
	int64_t base_count;
	uint64_t step; /* the next one to do */
	uint64_t made; /* epoch of the link whose COMMIT made it; 0: the first weights */
};

/* `codec`: of the client's port. */
enum sl_err sl_client_state_open(struct sl_client_state *s, const struct sl_plan *plan,
				 struct sl_codec *const codec[SL_DIR_COUNT], struct sl_fail *fail) SL_MUST_CHECK;
/* Where heads and tails are shared, behind open, take and give: room for, and the state of `coder`, and what a round
 * began with. NULL, 0: nothing. */
enum sl_err sl_client_state_open_end(struct sl_client_state *s, const struct sl_end_coder *coder, int64_t base_count,
				     struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_client_state_take_end(struct sl_client_state *s, const struct sl_end_coder *coder,
				     const float *base) SL_MUST_CHECK;
enum sl_err sl_client_state_give_end(const struct sl_client_state *s, struct sl_end_coder *coder,
				     float *base) SL_MUST_CHECK;
void sl_client_state_close(struct sl_client_state *s); /* idempotent; a zeroed one is fine */
enum sl_err sl_client_state_take(struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
enum sl_err sl_client_state_give(const struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;

/* log.dir/checkpoint-<step>.safetensors. *c begins with sl_client_checkpoint; the caller adds its notes, then writes
 * with sl_client_state_write or reads with sl_client_state_read, which add the state. */
void sl_client_checkpoint(struct sl_checkpoint *c, const char *dir, const struct sl_plan *plan);
enum sl_err sl_client_state_write(struct sl_client_state *s, struct sl_checkpoint *c,
				  struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_client_state_read(struct sl_client_state *s, struct sl_checkpoint *c, uint64_t step,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
