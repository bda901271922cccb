#include "client/persist/client_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "kernels/cpu/cpu.h"

enum sl_err sl_client_state_open(struct sl_client_state *s, const struct sl_plan *plan,
				 struct sl_codec *const codec[SL_DIR_COUNT], struct sl_fail *fail)
{
	enum sl_err err;

	*s = (struct sl_client_state){.step = 0};
	err = sl_exec_state_open(&s->head, &plan->segment[SL_HEAD], NULL);
	if (!err)
		err = sl_exec_state_open(&s->tail, &plan->segment[SL_TAIL], NULL);
	if (!err)
		err = sl_codecs_state_open(&s->codecs, codec);
	if (err) {
		sl_client_state_close(s);
		return sl_fail_set(fail, err, "no memory for the client's state");
	}
	return SL_OK;
}

enum sl_err sl_client_state_open_end(struct sl_client_state *s, const struct sl_end_coder *coder, int64_t base_count,
				     struct sl_fail *fail)
{
	const size_t cap = sl_end_coder_state_bytes(coder);

	if (cap)
		s->end = (struct sl_buf){malloc(cap), 0, cap};
	if (base_count)
		s->base = calloc((size_t)base_count, sizeof *s->base);
	s->base_count = base_count;
	if ((cap && !s->end.data) || (base_count && !s->base))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the client's state");
	return SL_OK;
}

enum sl_err sl_client_state_take_end(struct sl_client_state *s, const struct sl_end_coder *coder, const float *base)
{
	s->end.len = 0;
	sl_assert(!base == !s->base); /* there is room for what there is */
	sl_assert_int(s->end.cap, ==, sl_end_coder_state_bytes(coder));
	if (base)
		memcpy(s->base, base, (size_t)s->base_count * sizeof *base);
	return sl_end_coder_save(coder, &s->end);
}

enum sl_err sl_client_state_give_end(const struct sl_client_state *s, struct sl_end_coder *coder, float *base)
{
	sl_assert(!base == !s->base);
	if (base)
		memcpy(base, s->base, (size_t)s->base_count * sizeof *base);
	return sl_end_coder_load(coder, (struct sl_bytes){s->end.data, s->end.len});
}

void sl_client_state_close(struct sl_client_state *s)
{
	free(s->end.data);
	s->end = (struct sl_buf){0};
	free(s->base);
	s->base = NULL;
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

static const char end_part[] = "end_grad", base_part[] = "round.weights", weights_note[] = "batch weights";

static void add_parts(struct sl_client_state *s, struct sl_checkpoint *c, bool reading)
{
	sl_exec_state_parts(&s->head, c);
	sl_exec_state_parts(&s->tail, c);
	sl_codecs_state_parts(&s->codecs, reading, c);
	if (s->end.data)
		sl_checkpoint_bytes(c, end_part, s->end.data, (int64_t)(reading ? s->end.cap : s->end.len));
	if (s->base)
		sl_checkpoint_floats(c, base_part, s->base, s->base_count);
}

enum sl_err sl_client_state_write(struct sl_client_state *s, struct sl_checkpoint *c, struct sl_fail *fail)
{
	add_parts(s, c, false);
	sl_assert_int(s->end.len, <=, s->end.cap);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_assert_int(s->codecs.dir[dir].len, <=, s->codecs.dir[dir].cap);
	sl_checkpoint_note(c, "link", "%" PRIu64, s->made);
	if (!isnan(s->weights.sum))
		sl_checkpoint_note(c, weights_note, "%a %a", s->weights.first, s->weights.sum);
	return sl_checkpoint_write(c, s->step, fail);
}

/* Reads the weights of a step's batches. A file may lack them. False: no batches have such weights. */
static bool read_weights(struct sl_batch_weights *w, const char *note)
{
	if (sscanf(note, "%la %la", &w->first, &w->sum) != 2) {
		*w = (struct sl_batch_weights){NAN, NAN};
		return true;
	}
	return w->first >= 0 && w->sum >= 0 && isfinite(w->sum) && (w->sum == 0 || w->first <= w->sum);
}

enum sl_err sl_client_state_read(struct sl_client_state *s, struct sl_checkpoint *c, uint64_t step,
				 struct sl_fail *fail)
{
	enum sl_err err;

	add_parts(s, c, true);
	sl_checkpoint_note(c, "link", "%s", "");
	sl_checkpoint_ask(c, weights_note);
	err = sl_checkpoint_read(c, step, fail);
	if (!err && !sl_checkpoint_link(c, &s->made))
		err = sl_fail_set(fail, SL_ERR_DATA, "the checkpoint of step %" PRIu64 ": its notes do not name a link",
				  step);
	if (!err && !read_weights(&s->weights, sl_checkpoint_noted(c, weights_note)))
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "the checkpoint of step %" PRIu64 ": its notes have weights that no batches have",
				  step);
	if (err)
		return err;
	sl_codecs_state_read(&s->codecs, c);
	for (int i = 0; i < c->n_part; i++)
		if (strcmp(c->part[i].name, end_part) == 0)
			s->end.len = (size_t)c->part[i].count;
	s->step = step;
	return SL_OK;
}
