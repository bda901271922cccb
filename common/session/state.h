/* What a step changes in one segment, in host memory: weights with running statistics, the optimizer's moments and the
 * state of one side's codecs. With two moments it also has how many steps were applied, and in FP16 the loss scale. It
 * is taken from executors between steps, given back to them, written to and read from checkpoints. */
#ifndef SL_SESSION_STATE_H
#define SL_SESSION_STATE_H

#include "common/codec/codec.h"
#include "common/exec/exec.h"
#include "common/session/checkpoint.h"

/* One segment's. */
struct sl_exec_state {
	enum sl_segment which;
	float *own;                   /* the one allocation */
	float *weight;                /* [weight_count] */
	float *moment[SL_AREAS_MOST]; /* [trainable_count] */
	int moments;
	int64_t weight_count, trainable_count;
	float applied[2]; /* sl_steps_write; kept where there are two moments */
	bool scaled;      /* FP16 */
	float scale[2];   /* sl_loss_scale_write */
};

int64_t sl_exec_state_floats(const struct sl_plan_segment *segment); /* that _open takes */
/* The weights lie in `range`, which outlives it (sl_exec_weights_at; NULL: in memory of its own). */
enum sl_err sl_exec_state_open(struct sl_exec_state *s, const struct sl_plan_segment *segment,
			       float *range) SL_MUST_CHECK;
void sl_exec_state_close(struct sl_exec_state *s); /* idempotent; a zeroed one is fine */
enum sl_err sl_exec_state_take(struct sl_exec_state *s, struct sl_exec *exec) SL_MUST_CHECK;
/* DATA where sl_exec_state_give would say it. */
enum sl_err sl_exec_state_check(const struct sl_exec_state *s, const struct sl_exec *exec) SL_MUST_CHECK;
/* DATA, and nothing given: a loss scale that is none, more steps applied than *exec stands at (sl_exec_follow). */
enum sl_err sl_exec_state_give(const struct sl_exec_state *s, struct sl_exec *exec) SL_MUST_CHECK;
/* Names its parts "SEGMENT.weights"; "SEGMENT.momentum", or "….moment1", "….moment2" and "….applied"; and that of FP16
 * "loss_scale". *s must outlive *c. */
void sl_exec_state_parts(struct sl_exec_state *s, struct sl_checkpoint *c);

/* The codecs' of one side, all four directions. */
struct sl_codecs_state {
	struct sl_buf dir[SL_DIR_COUNT];
};

enum sl_err sl_codecs_state_open(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
enum sl_err sl_codecs_state_copy(struct sl_codecs_state *to, const struct sl_codecs_state *from) SL_MUST_CHECK;
void sl_codecs_state_close(struct sl_codecs_state *s);
/* Opens what is zeros. */
enum sl_err sl_codecs_state_take(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
/* DATA, and all four codecs as after open, where it is not a state of theirs. */
enum sl_err sl_codecs_state_give(const struct sl_codecs_state *s,
				 struct sl_codec *const codec[SL_DIR_COUNT]) SL_MUST_CHECK;
/* For writing, then for reading: after a read, sl_codecs_state_read takes the lengths over from *c. */
void sl_codecs_state_parts(struct sl_codecs_state *s, bool reading, struct sl_checkpoint *c);
void sl_codecs_state_read(struct sl_codecs_state *s, const struct sl_checkpoint *c);

/* What the answer to a Fetch has behind the weights, with the agreement's fetch.state: all else that a step changes in
 * the middle. Its size is fixed as the codecs are opened, while tensors at the cut are widest. */
struct sl_carried {
	size_t codec[SL_DIR_COUNT]; /* room for the state of each */
	size_t bytes;               /* in all */
};
struct sl_carried sl_carried_of(const struct sl_plan_segment *middle, struct sl_codec *const codec[SL_DIR_COUNT]);
/* `weights`, `room` [bytes]: from an executor and codecs, and to those of the same plan. _take writes the front of the
 * weights alone (sl_plan_fetch_count), _give reads weight_count. DATA: it is no state of theirs. */
enum sl_err sl_carried_take(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], float *weights, uint8_t *room) SL_MUST_CHECK;
enum sl_err sl_carried_give(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], const float *weights,
			    const uint8_t *room) SL_MUST_CHECK;

#endif
