/* Everything that a step changes in one segment, in host memory: weights with running statistics, the optimizer's
 * moments, the state of one side's codecs. An optimizer with two moments also has a count of applied steps, FP16 a loss
 * scale. The state is taken from executors between steps, given back to them, written to checkpoints and read from
 * them. */
#ifndef SL_SESSION_STATE_H
#define SL_SESSION_STATE_H

#include "common/codec/codec.h"
#include "common/exec/exec.h"
#include "common/session/checkpoint.h"

/* The state of one segment, without codecs. */
struct sl_exec_state {
	enum sl_segment which;
	float *own;                   /* the only allocation */
	float *weight;                /* [weight_count] */
	float *moment[SL_AREAS_MOST]; /* [trainable_count] */
	int moments;
	int64_t weight_count, trainable_count;
	float applied[2]; /* as sl_steps_write writes it; only with two moments */
	bool scaled;      /* FP16: there is a loss scale */
	float scale[2];   /* as sl_loss_scale_write writes it */
};

int64_t sl_exec_state_floats(const struct sl_plan_segment *segment); /* how many floats _open takes */
/* The weights lie in `range`, which must outlive *s (sl_exec_weights_at). NULL: *s has memory of its own for them. */
enum sl_err sl_exec_state_open(struct sl_exec_state *s, const struct sl_plan_segment *segment,
			       float *range) SL_MUST_CHECK;
void sl_exec_state_close(struct sl_exec_state *s); /* idempotent; a zeroed one is fine */
enum sl_err sl_exec_state_take(struct sl_exec_state *s, struct sl_exec *exec) SL_MUST_CHECK;
/* DATA if sl_exec_state_give would return it. */
enum sl_err sl_exec_state_check(const struct sl_exec_state *s, const struct sl_exec *exec) SL_MUST_CHECK;
/* DATA, and nothing is given: the loss scale is invalid, or more steps were applied than *exec has done
 * (sl_exec_set_done). */
enum sl_err sl_exec_state_give(const struct sl_exec_state *s, struct sl_exec *exec) SL_MUST_CHECK;
/* Adds the state's parts to *c: "SEGMENT.weights"; "SEGMENT.momentum", or "….moment1", "….moment2" and "….applied";
 * with FP16 "loss_scale". *s must outlive *c. */
void sl_exec_state_parts(struct sl_exec_state *s, struct sl_checkpoint *c);

/* The state of one side's codecs, all four directions. */
struct sl_codecs_state {
	struct sl_buf dir[SL_DIR_COUNT];
};

enum sl_err sl_codecs_state_open(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
enum sl_err sl_codecs_state_copy(struct sl_codecs_state *to, const struct sl_codecs_state *from) SL_MUST_CHECK;
void sl_codecs_state_close(struct sl_codecs_state *s);
/* Grows the buffers as needed; *s may be all zeros. */
enum sl_err sl_codecs_state_take(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
/* DATA, and all four codecs as after open, if it is no state of theirs. */
enum sl_err sl_codecs_state_give(const struct sl_codecs_state *s,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
/* _parts adds the states to *c, for writing or `reading`. After a read, _read takes the lengths of what was read from
 * *c. */
void sl_codecs_state_parts(struct sl_codecs_state *s, bool reading, struct sl_checkpoint *c);
void sl_codecs_state_read(struct sl_codecs_state *s, const struct sl_checkpoint *c);

/* The state that follows the weights in the answer to a Fetch, with fetch.state in the agreement: everything else that
 * a step changes in the middle. Its size is fixed when the codecs are opened, as tensors at the cut are widest then. */
struct sl_carried {
	size_t codec[SL_DIR_COUNT]; /* bytes of room for each codec's state */
	size_t bytes;               /* in all */
};
struct sl_carried sl_carried_of(const struct sl_plan_segment *middle, struct sl_codec *const codec[SL_DIR_COUNT]);
/* Copy the state from an executor and codecs to `weights` and `room` [bytes], and back to those of the same plan. _take
 * writes only the front of the weights (sl_plan_fetch_count); _give reads weight_count. DATA: it is no state of
 * theirs. */
enum sl_err sl_carried_take(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], float *weights, uint8_t *room) SL_MUST_CHECK;
enum sl_err sl_carried_give(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], const float *weights,
			    const uint8_t *room) SL_MUST_CHECK;

#endif
