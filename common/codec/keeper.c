/* What stages that keep places have in common: pairing, reading, restoring. */
#include "common/codec/places.h"

size_t sl_keeper_bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return paired ? 0 : sl_places_bound(sl_shape_count(&in->shape));
}

void sl_keeper_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	if (pairing != SL_CODEC_PAIRED)
		sl_places_memory(env, pairing, need);
}

enum sl_err sl_keeper_open(struct sl_keeper *k, const struct sl_stage_env *env, struct sl_fail *fail)
{
	k->env = *env;
	k->pair = env->pair;
	return k->pair != NULL ? SL_OK : sl_places_open(&k->places, env, fail);
}

void sl_keeper_close(void *keeper)
{
	struct sl_keeper *k = keeper;

	sl_places_close(&k->places);
}

enum sl_err sl_keeper_keep(void *keeper, struct sl_fail *fail)
{
	struct sl_keeper *k = keeper;

	return sl_places_keep(&k->places, k->env.slots, fail);
}

/* The places in use: its own, or those of the activation. */
static struct sl_places *places_of(struct sl_keeper *k)
{
	return k->pair != NULL ? &k->pair->places : &k->places;
}

enum sl_err sl_keeper_forward(struct sl_keeper *k, const struct sl_codec_call *call, const float *x, int64_t n,
			      sl_f32u *y, struct sl_extent *ys)
{
	k->set = sl_places_slot(places_of(k), call->slot);
	if (k->set->n != n)
		return SL_ERR_BUG;
	*ys = sl_extent_flat(k->set->total);
	return sl_places_gather(places_of(k), k->set, x, y);
}

enum sl_err sl_keeper_parse(void *keeper, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			    const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct sl_keeper *k = keeper;
	int64_t n = sl_shape_count(&xs->shape);

	k->set = sl_places_slot(places_of(k), call->slot);
	if (k->pair == NULL) {
		enum sl_err err = sl_places_read(&k->places, k->set, side, n, count, fail);

		if (err)
			return err;
	} else if (side.len != 0 || k->set->n != n || k->set->total != count) {
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "%zu bytes of places, %lld values; the activation kept %lld of %lld", side.len,
				   (long long)count, (long long)k->set->total, (long long)k->set->n);
	}
	*ys = sl_extent_flat(count);
	return SL_OK;
}

enum sl_err sl_keeper_inverse(void *keeper, const struct sl_codec_call *call, const sl_f32u *y,
			      const struct sl_extent *ys, float *x, const struct sl_extent *xs)
{
	struct sl_keeper *k = keeper;

	sl_places_expand(places_of(k), k->set, y, &k->env, x);
	return SL_OK;
}
