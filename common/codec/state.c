/* The committed state of a codec, to bytes and back:
 *   u32 magic, u32 residuals (0: no error feedback), then per slot u32 present and, if 1, the residual's floats;
 *   then what the stages append, in the order of the chain; then the tokens that are kept (change.c).
 * Of several values: the states of all, each behind its u64 length. */
#include <string.h>

#include "common/base/assert.h"
#include "common/codec/impl.h"

static const uint32_t magic = 0x31534353; /* "SCS1" */

static size_t residual_bytes(const struct sl_codec *c)
{
	return 8 + (c->spec.error_feedback ? (size_t)c->env.slots * (4 + sl_feedback_floats(c) * sizeof(float)) : 0);
}

size_t sl_codec_state_most(const struct sl_codec *c)
{
	const struct link *link;
	size_t bytes = residual_bytes(c);

	for (int i = 0; (link = sl_codec_link(c, i)) != NULL; i++)
		if (link->stage->state_most != NULL) {
			const struct sl_stage_env env = sl_codec_stage_env(c, link);

			bytes += link->stage->state_most(&env);
		}
	return bytes;
}

static size_t value_state_bytes(const struct sl_codec *c)
{
	const struct link *link;
	size_t bytes = residual_bytes(c) + sl_change_state_bytes(c->change);

	for (int i = 0; (link = sl_codec_link(c, i)) != NULL; i++)
		if (link->stage->state_bytes != NULL)
			bytes += link->stage->state_bytes(link->state);
	return bytes;
}

size_t sl_codec_state_bytes(const struct sl_codec *c)
{
	size_t bytes = 0;

	if (c != NULL && c->next == NULL)
		return value_state_bytes(c);
	for (; c != NULL; c = c->next)
		bytes += SL_CODEC_VALUE_BYTES + value_state_bytes(c);
	return bytes;
}

static enum sl_err put_u32(struct sl_buf *out, uint32_t value)
{
	return sl_buf_put(out, &value, sizeof value);
}

static enum sl_err take_u32(struct sl_bytes *in, uint32_t *value)
{
	struct sl_bytes four;
	enum sl_err err = sl_bytes_take(in, sizeof *value, &four);

	if (!err)
		memcpy(value, four.data, sizeof *value);
	return err;
}

static enum sl_err save_value(const struct sl_codec *c, struct sl_buf *out)
{
	int slots = c->residual != NULL ? c->env.slots : 0;
	const size_t at = out->len;
	const struct link *link;
	enum sl_err err;

	err = put_u32(out, magic);
	if (!err)
		err = put_u32(out, (uint32_t)slots);
	for (int s = 0; s < slots && !err; s++) {
		err = put_u32(out, c->residual[s].has_current);
		if (!err && c->residual[s].has_current)
			err = sl_feedback_save(c, &c->residual[s], out);
	}
	for (int i = 0; !err && (link = sl_codec_link(c, i)) != NULL; i++)
		if (link->stage->save != NULL)
			err = link->stage->save(link->state, out);
	sl_assert_if(!err, out->len - at <= value_state_bytes(c)); /* what a reader makes room for */
	return err ? err : sl_change_save(c->change, out);
}

enum sl_err sl_codec_save(const struct sl_codec *c, struct sl_buf *out)
{
	enum sl_err err = SL_OK;

	if (c != NULL && c->next == NULL)
		return save_value(c, out);
	for (; c != NULL && !err; c = c->next) {
		const size_t at = out->len;
		uint64_t bytes = 0;

		err = sl_buf_put(out, &bytes, sizeof bytes);
		if (!err)
			err = save_value(c, out);
		bytes = out->len - at - sizeof bytes;
		if (!err)
			memcpy(out->data + at, &bytes, sizeof bytes);
	}
	return err;
}

static enum sl_err load_residuals(struct sl_codec *c, struct sl_bytes *in)
{
	uint32_t count, present = 0;
	enum sl_err err = take_u32(in, &count);

	if (!err && count != (c->residual != NULL ? (uint32_t)c->env.slots : 0))
		err = SL_ERR_DATA;
	for (uint32_t s = 0; !err && s < count; s++) {
		struct sl_bytes floats;

		err = take_u32(in, &present);
		if (!err && present > 1)
			err = SL_ERR_DATA;
		if (!err && present)
			err = sl_bytes_take(in, sl_feedback_floats(c) * sizeof(float), &floats);
		if (!err && present)
			err = sl_feedback_load(c, &c->residual[s], floats);
		c->residual[s].has_current = !err && present;
	}
	return err;
}

/* Each stage loads an empty state, which leaves it as after open. */
void sl_codec_forget(struct sl_codec *c)
{
	const struct link *link;

	if (c == NULL)
		return;
	sl_codec_forget(c->next);
	sl_codec_rollback(c);
	sl_change_forget(c->change);
	for (int s = 0; c->residual != NULL && s < c->env.slots; s++)
		c->residual[s].has_current = false;
	for (int i = 0; (link = sl_codec_link(c, i)) != NULL; i++)
		if (link->stage->load != NULL)
			(void)!link->stage->load(link->state, &(struct sl_bytes){0});
}

static enum sl_err load_value(struct sl_codec *c, struct sl_bytes in)
{
	const struct link *link;
	uint32_t word;
	enum sl_err err = take_u32(&in, &word);

	if (!err && word != magic)
		err = SL_ERR_DATA;
	if (!err)
		err = load_residuals(c, &in);
	for (int i = 0; !err && (link = sl_codec_link(c, i)) != NULL; i++)
		if (link->stage->load != NULL)
			err = link->stage->load(link->state, &in);
	if (!err)
		err = sl_change_load(c->change, &in);
	return !err && in.len != 0 ? SL_ERR_DATA : err;
}

static enum sl_err load_values(struct sl_codec *c, struct sl_bytes in)
{
	enum sl_err err = SL_OK;

	for (; c != NULL && !err; c = c->next) {
		struct sl_bytes length, state;
		uint64_t bytes = 0;

		err = sl_bytes_take(&in, sizeof bytes, &length);
		if (!err)
			memcpy(&bytes, length.data, sizeof bytes);
		if (!err)
			err = bytes > in.len ? SL_ERR_DATA : sl_bytes_take(&in, (size_t)bytes, &state);
		if (!err)
			err = load_value(c, state);
	}
	return !err && in.len != 0 ? SL_ERR_DATA : err;
}

enum sl_err sl_codec_load(struct sl_codec *c, struct sl_bytes in)
{
	enum sl_err err;

	if (c == NULL)
		return in.len ? SL_ERR_DATA : SL_OK;
	sl_codec_rollback(c);
	err = c->next == NULL ? load_value(c, in) : load_values(c, in);
	if (err)
		sl_codec_forget(c);
	return err;
}
