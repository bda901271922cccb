#include "client/persist/client_state.h"

#include <inttypes.h>

#include "kernels/cpu/cpu.h"

enum sl_err sl_client_state_open(struct sl_client_state *s, const struct sl_plan *plan,
				 struct sl_codec *const codec[SL_DIR_COUNT], struct sl_fail *fail)
{
	enum sl_err err;

	*s = (struct sl_client_state){.step = 0};
	err = sl_exec_state_open(&s->head, &plan->segment[SL_HEAD]);
	if (!err)
		err = sl_exec_state_open(&s->tail, &plan->segment[SL_TAIL]);
	if (!err)
		err = sl_codecs_state_open(&s->codecs, codec);
	if (err) {
		sl_client_state_close(s);
		return sl_fail_set(fail, err, "no memory for the client's state");
	}
	return SL_OK;
}

void sl_client_state_close(struct sl_client_state *s)
{
	sl_exec_state_close(&s->head);
	sl_exec_state_close(&s->tail);
	sl_codecs_state_close(&s->codecs);
}

enum sl_err sl_client_state_take(struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT])
{
	enum sl_err err = sl_exec_state_take(&s->head, head);

	if (!err)
		err = sl_exec_state_take(&s->tail, tail);
	return err ? err : sl_codecs_state_take(&s->codecs, codec);
}

enum sl_err sl_client_state_give(const struct sl_client_state *s, struct sl_exec *head, struct sl_exec *tail,
				 struct sl_codec *const codec[SL_DIR_COUNT])
{
	enum sl_err err = sl_exec_state_give(&s->head, head);

	if (!err)
		err = sl_exec_state_give(&s->tail, tail);
	return err ? err : sl_codecs_state_give(&s->codecs, codec);
}

void sl_client_checkpoint(struct sl_checkpoint *c, const char *dir, const struct sl_plan *plan)
{
	*c = (struct sl_checkpoint){.dir = dir, .prefix = SL_CHECKPOINT_CLIENT};
	sl_checkpoint_plan(c, plan);
	sl_checkpoint_note(c, "core", "%s", sl_cpu_describe());
}

static void add_parts(struct sl_client_state *s, struct sl_checkpoint *c, bool reading)
{
	sl_exec_state_parts(&s->head, c);
	sl_exec_state_parts(&s->tail, c);
	sl_codecs_state_parts(&s->codecs, reading, c);
}

enum sl_err sl_client_state_write(struct sl_client_state *s, struct sl_checkpoint *c, struct sl_fail *fail)
{
	add_parts(s, c, false);
	sl_checkpoint_note(c, "link", "%" PRIu64, s->made);
	return sl_checkpoint_write(c, s->step, fail);
}

enum sl_err sl_client_state_read(struct sl_client_state *s, struct sl_checkpoint *c, uint64_t step,
				 struct sl_fail *fail)
{
	enum sl_err err;

	add_parts(s, c, true);
	sl_checkpoint_note(c, "link", "%s", "");
	err = sl_checkpoint_read(c, step, fail);
	if (!err && !sl_checkpoint_link(c, &s->made))
		err = sl_fail_set(fail, SL_ERR_DATA, "the checkpoint of step %" PRIu64 ": its notes do not name a link",
				  step);
	if (err)
		return err;
	sl_codecs_state_read(&s->codecs, c);
	s->step = step;
	return SL_OK;
}
