#include "client/link/offer.h"

#include "common/base/rng.h"

enum {
	RETRY_MAX_MS = 32000,
	BROKEN_MAX = 5 /* links that broken frames ended without a step between: one more is no accident */
};

void sl_offer_fill(struct sl_offer *o, uint64_t ahead, uint64_t live, const uint64_t *file, int n_file, bool anew)
{
	o->n_held = 0;
	if (ahead)
		o->held[o->n_held++] = ahead;
	if (live != SL_OFFER_NONE)
		o->held[o->n_held++] = live;
	for (int i = 0; i < n_file; i++)
		if (file[i] < live)
			o->held[o->n_held++] = file[i];
	if (anew && !(o->n_held && o->held[o->n_held - 1] == 0))
		o->held[o->n_held++] = 0;
}

bool sl_retry_may_pass(enum sl_err err)
{
	switch (err) {
	case SL_ERR_PEER_LOST:
	case SL_ERR_TIMEOUT:
	case SL_ERR_UNAVAILABLE:
	case SL_ERR_BUSY:
	case SL_ERR_DEVICE:
		return true;
	default:
		return false;
	}
}

bool sl_retry_is_broken(enum sl_err err)
{
	return err == SL_ERR_PROTOCOL || err == SL_ERR_PAYLOAD;
}

bool sl_retry_failed(struct sl_retry *r, enum sl_err err)
{
	r->lost++;
	if (sl_retry_is_broken(err))
		return r->broken++ < BROKEN_MAX;
	return sl_retry_may_pass(err);
}

uint64_t sl_retry_pause_ms(const struct sl_retry *r, uint64_t pause_ms, uint64_t seed, uint64_t step)
{
	const struct sl_rng_key key = {seed, step, 0, SL_RNG_JITTER};
	uint64_t pause = pause_ms;

	for (int i = 1; i < r->lost && pause < RETRY_MAX_MS; i++)
		pause *= 2;
	pause = pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS;
	return pause - sl_rng_below(sl_rng_u32(&key, (uint64_t)r->lost), (uint32_t)(pause / 4 + 1));
}
