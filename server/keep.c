#include "server/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"

void sl_keep_open(struct sl_keep *k, const char *dir, const uint8_t session[16], const struct sl_key *owner,
		  const struct sl_plan *plan, const char *core)
{
	char id[SL_HEX16_TEXT];
	int n = snprintf(k->prefix, sizeof k->prefix, "session-%s", sl_hex16(session, id));

	if (owner) {
		char print[SL_FINGERPRINT];

		sl_key_fingerprint(owner, print);
		snprintf(k->prefix + n, sizeof k->prefix - (size_t)n, ".%s", print);
	}
	k->dir = dir;
	k->n_pin = 0;
	k->plan = plan;
	k->core = core;
}

/* The checkpoint's frame; the notes carry what must be equal on reading. */
static void begin(const struct sl_keep *k, uint64_t step, struct sl_checkpoint *c)
{
	*c = (struct sl_checkpoint){.dir = k->dir, .prefix = k->prefix};
	memcpy(c->pin, k->pin, sizeof c->pin);
	c->n_pin = k->n_pin;
	sl_checkpoint_plan(c, k->plan);
	sl_checkpoint_note(c, "core", "%s", k->core);
	sl_checkpoint_note(c, "step", "%" PRIu64, step);
}

static enum sl_err open_states(const struct sl_keep *k, struct sl_port *port, struct sl_exec_state *exec,
			       struct sl_codecs_state *codecs, struct sl_fail *fail)
{
	enum sl_err err = sl_exec_state_open(exec, &k->plan->segment[SL_MIDDLE]);

	if (!err)
		err = sl_codecs_state_open(codecs, sl_port_codecs(port));
	return err ? sl_fail_set(fail, err, "no memory for a checkpoint") : SL_OK;
}

enum sl_err sl_keep_write(const struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			  struct sl_fail *fail)
{
	struct sl_exec_state state = {0};
	struct sl_codecs_state codecs = {0};
	struct sl_checkpoint c;
	enum sl_err err;

	if (!k->dir[0])
		return sl_fail_set(fail, SL_ERR_BUG, "no store to write to");
	err = open_states(k, port, &state, &codecs, fail);
	if (!err && (sl_exec_state_take(&state, exec) || sl_codecs_state_take(&codecs, sl_port_codecs(port))))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the middle's state could not be read");
	if (!err) {
		begin(k, step, &c);
		sl_exec_state_parts(&state, &c);
		sl_codecs_state_parts(&codecs, false, &c);
		err = sl_checkpoint_write(&c, step, fail);
	}
	sl_exec_state_close(&state);
	sl_codecs_state_close(&codecs);
	return err;
}

enum sl_err sl_keep_read(const struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			 struct sl_fail *fail)
{
	struct sl_exec_state state = {0};
	struct sl_codecs_state codecs = {0};
	struct sl_checkpoint c;
	enum sl_err err;

	if (!k->dir[0])
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the server has no store");
	err = open_states(k, port, &state, &codecs, fail);
	if (!err) {
		begin(k, step, &c);
		sl_exec_state_parts(&state, &c);
		sl_codecs_state_parts(&codecs, true, &c);
		if (SL_FAILPOINT_CALL(SL_FP_CKPT_READ_S, 0) != 0)
			err = sl_fail_set(fail, SL_ERR_IO, "the checkpoint of step %" PRIu64 ": %s", step,
					  strerror(errno));
		else
			err = sl_checkpoint_read(&c, step, fail);
	}
	if (!err) {
		sl_codecs_state_read(&codecs, &c);
		err = sl_exec_state_check(&state, exec);
		if (err)
			sl_fail_set(fail, err, "step %" PRIu64 ": its loss scale or count of applied steps is none",
				    step);
	}
	if (!err && sl_codecs_state_give(&codecs, sl_port_codecs(port)))
		err = sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 ": not a state of these codecs", step);
	if (!err)
		sl_checkpoint_touch(&c, step);
	if (!err && sl_exec_state_give(&state, exec))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the middle's state could not be set");
	sl_exec_state_close(&state);
	sl_codecs_state_close(&codecs);
	return err;
}

void sl_keep_clear(const struct sl_keep *k)
{
	if (k->dir[0])
		sl_checkpoint_clear(k->dir, k->prefix);
}
