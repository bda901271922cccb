#include "common/session/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

int64_t sl_exec_state_floats(const struct sl_plan_segment *segment)
{
	return segment->weight_count + segment->moments * segment->trainable_count;
}

enum sl_err sl_exec_state_open(struct sl_exec_state *s, const struct sl_plan_segment *segment, float *range)
{
	const int64_t weights = range ? 0 : segment->weight_count;
	const int64_t floats = sl_exec_state_floats(segment) - segment->weight_count + weights;

	if (!segment->n_op && !segment->weight_count) { /* another party of a vertical group has it */
		*s = (struct sl_exec_state){0};
		return SL_OK;
	}
	*s = (struct sl_exec_state){.which = segment->which,
				    .own = calloc((size_t)floats + 1, sizeof(float)),
				    .moments = segment->moments,
				    .weight_count = segment->weight_count,
				    .trainable_count = segment->trainable_count,
				    .scaled = segment->precision == SL_PRECISION_FP16};
	if (!s->own)
		return SL_ERR_NOMEM;
	s->weight = range ? range : s->own;
	for (int i = 0; i < s->moments; i++)
		s->moment[i] = s->own + weights + i * s->trainable_count;
	return SL_OK;
}

void sl_exec_state_close(struct sl_exec_state *s)
{
	free(s->own);
	*s = (struct sl_exec_state){0};
}

enum sl_err sl_exec_state_take(struct sl_exec_state *s, struct sl_exec *exec)
{
	enum sl_err err;

	if (!s->weight)
		return SL_OK;
	sl_assert_int(sl_exec_segment(exec)->which, ==, s->which); /* a head's state is no middle's */
	sl_assert_int(sl_exec_segment(exec)->trainable_count, ==, s->trainable_count);
	err = sl_exec_get_front(exec, s->weight, s->weight_count);
	sl_loss_scale_write(sl_exec_loss_scale(exec), s->scale);
	sl_steps_write(sl_exec_applied(exec), s->applied);
	for (int i = 0; i < s->moments && !err; i++)
		err = sl_exec_get_moment(exec, i, s->moment[i]);
	return err;
}

/* Reads the loss scale and the count of applied steps. False: one is invalid. */
static bool read_counts(const struct sl_exec_state *s, const struct sl_exec *exec, struct sl_loss_scale *scale,
			uint64_t *applied)
{
	*scale = sl_exec_loss_scale(exec);
	*applied = 0;
	return (!s->scaled || sl_loss_scale_read(scale, s->scale)) &&
	       (s->moments < 2 || (sl_steps_read(applied, s->applied) && *applied <= sl_exec_done(exec)));
}

enum sl_err sl_exec_state_check(const struct sl_exec_state *s, const struct sl_exec *exec)
{
	struct sl_loss_scale scale;
	uint64_t applied;

	return read_counts(s, exec, &scale, &applied) ? SL_OK : SL_ERR_DATA;
}

enum sl_err sl_exec_state_give(const struct sl_exec_state *s, struct sl_exec *exec)
{
	struct sl_loss_scale scale;
	uint64_t applied;
	enum sl_err err;

	if (!s->weight)
		return SL_OK;
	sl_assert_int(sl_exec_segment(exec)->which, ==, s->which);
	sl_assert_int(sl_exec_segment(exec)->trainable_count, ==, s->trainable_count);
	err = read_counts(s, exec, &scale, &applied) ? SL_OK : SL_ERR_DATA;
	if (!err)
		err = sl_exec_set_weights(exec, s->weight);
	if (!err)
		sl_exec_set_applied(exec, applied);
	if (!err)
		err = sl_exec_set_loss_scale(exec, scale);
	for (int i = 0; i < s->moments && !err; i++)
		err = sl_exec_set_moment(exec, i, s->moment[i]);
	return err;
}

/* Part names, SEGMENT.KIND, in this order of kinds. */
enum part { WEIGHTS, MOMENTUM, MOMENT1, MOMENT2, MOMENT3, MOMENT4, APPLIED, PARTS };
static const char *const part_names[SL_SEGMENT_COUNT][PARTS] = {
	[SL_HEAD] = {"head.weights", "head.momentum", "head.moment1", "head.moment2", "head.moment3", "head.moment4",
		     "head.applied"},
	[SL_MIDDLE] = {"middle.weights", "middle.momentum", "middle.moment1", "middle.moment2", "middle.moment3",
		       "middle.moment4", "middle.applied"},
	[SL_TAIL] = {"tail.weights", "tail.momentum", "tail.moment1", "tail.moment2", "tail.moment3", "tail.moment4",
		     "tail.applied"},
};

void sl_exec_state_parts(struct sl_exec_state *s, struct sl_checkpoint *c)
{
	const char *const *name = part_names[s->which];

	if (!s->weight)
		return;
	sl_checkpoint_floats(c, name[WEIGHTS], s->weight, s->weight_count);
	for (int i = 0; i < s->moments; i++)
		sl_checkpoint_floats(c, name[s->moments > 1 ? MOMENT1 + i : MOMENTUM], s->moment[i],
				     s->trainable_count);
	if (s->moments > 1)
		sl_checkpoint_floats(c, name[APPLIED], s->applied, 2);
	if (s->scaled)
		sl_checkpoint_floats(c, "loss_scale", s->scale, 2);
}

enum sl_err sl_codecs_state_open(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT])
{
	*s = (struct sl_codecs_state){0};
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		size_t cap = sl_codec_state_bytes(codec[dir]);

		s->dir[dir] = (struct sl_buf){malloc(cap), 0, cap};
		if (!s->dir[dir].data) {
			sl_codecs_state_close(s);
			return SL_ERR_NOMEM;
		}
	}
	return SL_OK;
}

void sl_codecs_state_close(struct sl_codecs_state *s)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		free(s->dir[dir].data);
	*s = (struct sl_codecs_state){0};
}

enum sl_err sl_codecs_state_copy(struct sl_codecs_state *to, const struct sl_codecs_state *from)
{
	*to = (struct sl_codecs_state){0};
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const size_t len = from->dir[dir].len;

		to->dir[dir] = (struct sl_buf){malloc(len + 1), len, len};
		if (!to->dir[dir].data) {
			sl_codecs_state_close(to);
			return SL_ERR_NOMEM;
		}
		if (len)
			memcpy(to->dir[dir].data, from->dir[dir].data, len);
	}
	return SL_OK;
}

/* After a run has gone back to an earlier step, tensors at the cut may be wider again. */
static enum sl_err grow(struct sl_buf *buf, size_t cap)
{
	uint8_t *data = realloc(buf->data, cap);

	if (!data)
		return SL_ERR_NOMEM;
	buf->data = data;
	buf->cap = cap;
	return SL_OK;
}

enum sl_err sl_codecs_state_take(struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT])
{
	enum sl_err err = SL_OK;

	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++) {
		size_t need = sl_codec_state_bytes(codec[dir]);

		if (!s->dir[dir].data || need > s->dir[dir].cap)
			err = grow(&s->dir[dir], need);
		s->dir[dir].len = 0;
		if (!err)
			err = sl_codec_save(codec[dir], &s->dir[dir]);
		if (!err)
			sl_assert_int(s->dir[dir].len, <=, need);
	}
	return err;
}

enum sl_err sl_codecs_state_give(const struct sl_codecs_state *s, struct sl_codec *const codec[SL_DIR_COUNT])
{
	enum sl_err err = SL_OK;

	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++)
		err = sl_codec_load(codec[dir], (struct sl_bytes){s->dir[dir].data, s->dir[dir].len});
	for (int dir = 0; dir < SL_DIR_COUNT && err; dir++)
		sl_codec_forget(codec[dir]);
	return err;
}

void sl_codecs_state_parts(struct sl_codecs_state *s, bool reading, struct sl_checkpoint *c)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_checkpoint_bytes(c, sl_dir_name((enum sl_dir)dir), s->dir[dir].data,
				    (int64_t)(reading ? s->dir[dir].cap : s->dir[dir].len));
}

void sl_codecs_state_read(struct sl_codecs_state *s, const struct sl_checkpoint *c)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		for (int i = 0; i < c->n_part; i++)
			if (strcmp(c->part[i].name, sl_dir_name((enum sl_dir)dir)) == 0)
				s->dir[dir].len = (size_t)c->part[i].count;
}

/* ---- the state behind fetched weights */

struct carried_head {
	uint64_t codec[SL_DIR_COUNT]; /* bytes in use of each codec's room */
	float applied[2], scale[2];
};

struct sl_carried sl_carried_of(const struct sl_plan_segment *middle, struct sl_codec *const codec[SL_DIR_COUNT])
{
	struct sl_carried c = {.bytes = sizeof(struct carried_head)};

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		c.codec[dir] = (sl_codec_state_bytes(codec[dir]) + 7) / 8 * 8;
		c.bytes += c.codec[dir];
	}
	c.bytes += (size_t)(middle->moments * middle->trainable_count) * sizeof(float);
	return c;
}

/* The segment's state, laid out in `weights` and in `room` behind the codecs' rooms. */
static struct sl_exec_state in_room(const struct sl_carried *c, const struct sl_exec *exec, float *weights,
				    uint8_t *room)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	struct sl_exec_state state = {.which = s->which,
				      .weight = weights,
				      .moments = s->moments,
				      .weight_count = sl_plan_fetch_count(s),
				      .trainable_count = s->trainable_count,
				      .scaled = s->precision == SL_PRECISION_FP16};
	uint8_t *at = room + sizeof(struct carried_head);

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		at += c->codec[dir];
	for (int i = 0; i < s->moments; i++)
		state.moment[i] = (float *)(void *)at + i * s->trainable_count;
	sl_assert_int((size_t)(at - room) + (size_t)(s->moments * s->trainable_count) * sizeof(float), ==, c->bytes);
	return state;
}

enum sl_err sl_carried_take(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], float *weights, uint8_t *room)
{
	struct sl_exec_state state = in_room(c, exec, weights, room);
	struct carried_head *head = (struct carried_head *)(void *)room;
	uint8_t *at = room + sizeof *head;
	enum sl_err err = sl_exec_state_take(&state, exec);

	*head = (struct carried_head){.codec = {0}};
	if (state.moments > 1)
		memcpy(head->applied, state.applied, sizeof head->applied);
	if (state.scaled)
		memcpy(head->scale, state.scale, sizeof head->scale);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; at += c->codec[dir++]) {
		struct sl_buf buf = {at, 0, c->codec[dir]};

		memset(at, 0, c->codec[dir]);
		err = sl_codec_save(codec[dir], &buf);
		sl_assert_int(buf.len, <=, c->codec[dir]);
		head->codec[dir] = buf.len;
	}
	return err;
}

enum sl_err sl_carried_give(const struct sl_carried *c, struct sl_exec *exec,
			    struct sl_codec *const codec[SL_DIR_COUNT], const float *weights, const uint8_t *room)
{
	/* sl_exec_state_give writes to neither */
	struct sl_exec_state state = in_room(c, exec, (float *)(uintptr_t)weights, (uint8_t *)(uintptr_t)room);
	const struct carried_head *head = (const struct carried_head *)(const void *)room;
	const uint8_t *at = room + sizeof *head;
	enum sl_err err;

	memcpy(state.applied, head->applied, sizeof head->applied);
	memcpy(state.scale, head->scale, sizeof head->scale);
	err = sl_exec_state_give(&state, exec);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; at += c->codec[dir++])
		err = head->codec[dir] <= c->codec[dir]
			      ? sl_codec_load(codec[dir], (struct sl_bytes){at, (size_t)head->codec[dir]})
			      : SL_ERR_DATA;
	return err;
}
