/* The memory that a codec will take, counted before it is opened. tests/suite/test_codec_memory.c compares it with
 * what sl_codec_open takes. */
#include "common/codec/impl.h"
#include "common/exec/backend.h"

/* The transform whose places a gradient uses: the first that a gradient can be paired with. */
static int keeper_of(const struct sl_codec *c)
{
	int i = 0;

	while (i < c->n_transform && !c->transform[i].stage->pairs)
		i++;
	return i;
}

static void add_link(const struct sl_codec *c, const struct link *link, enum sl_codec_pairing pairing,
		     struct sl_memory *need)
{
	const struct sl_stage_env env = sl_codec_stage_env(c, link);

	if (link->stage->size != 0)
		sl_need(&need->host, 1, link->stage->size);
	if (link->stage->memory != NULL)
		link->stage->memory(&env, pairing, need);
}

static void add_links(const struct sl_codec *c, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	for (int i = 0; i < c->n_transform; i++)
		add_link(c, &c->transform[i], i == keeper_of(c) ? pairing : SL_CODEC_ALONE, need);
	add_link(c, &c->quantizer, SL_CODEC_ALONE, need);
	if (c->bytes.stage != NULL)
		add_link(c, &c->bytes, SL_CODEC_ALONE, need);
}

static enum sl_err value_need(const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			      enum sl_codec_pairing pairing, struct sl_codec_need *out, struct sl_fail *fail)
{
	struct sl_codec_env alone = *env;
	struct sl_codec_need need = {0};
	struct sl_codec c;
	enum sl_err err;

	alone.pair = NULL;
	err = sl_codec_find(&c, spec, &alone, pairing == SL_CODEC_PAIRED, fail);
	if (err)
		return err;
	sl_need(&need.memory.host, 1, sizeof c);
	sl_need(&need.memory.host, c.flights, sizeof *c.flight);
	if (spec->error_feedback)
		sl_feedback_memory(&c, &need.memory);
	sl_need(&need.memory.host, 1, sl_align(sl_codec_lay_out(&c, false)));
	for (int i = 0; c.device && i < c.n_transform; i++) {
		struct sl_extent left = sl_codec_most_after(&c, i + 1, env->shape.dim[0]);

		sl_need(&need.memory.device, 1, sl_codec_values_bytes(&left));
	}
	add_links(&c, pairing, &need.memory);
	need.state = sl_codec_state_most(&c);
	need.bound = sl_codec_bound(&c, env->shape.dim[0]);
	need.plain = sl_codec_is_plain(&c);
	*out = need;
	return SL_OK;
}

enum sl_err sl_codec_need(const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  enum sl_codec_pairing pairing, struct sl_codec_need *out, struct sl_fail *fail)
{
	struct sl_codec_need sum, need;
	struct sl_codec_spec other;
	enum sl_err err = value_need(spec, env, pairing, &sum, fail);
	int n = 1;

	for (const struct sl_codec_env *next = env->next; next != NULL && !err; next = next->next, n++) {
		err = value_need(spec, next, pairing, &need, fail);
		if (err)
			break;
		sl_memory_add(&sum.memory, need.memory);
		sum.bound += need.bound;
		sum.state += need.state;
		sum.plain = false;
	}
	if (err)
		return err;
	sum.bound += n > 1 ? (size_t)n * SL_CODEC_VALUE_BYTES : 0;
	sum.state += n > 1 ? (size_t)n * SL_CODEC_VALUE_BYTES : 0;
	for (int v = 0; v < SL_CODEC_VARIANTS && !err; v++) {
		if (!sl_codec_has_variant(spec, env, (enum sl_codec_variant)v, &other))
			continue;
		err = sl_codec_need(&other, env, SL_CODEC_ALONE, &need, fail);
		if (err)
			return err;
		sl_memory_add(&sum.memory, need.memory);
		sum.bound = need.bound > sum.bound ? need.bound : sum.bound;
		if (v == SL_CODEC_CHANGE) {
			sl_change_memory(env, &sum.memory);
			sum.state += sl_change_state_most(env);
		}
	}
	if (!err)
		*out = sum;
	return err;
}
