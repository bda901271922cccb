/* Activations that are kept for later epochs: the head's output by the client (train.keep_head_bytes), and what it has
 * sent by the server (train.keep_sent_bytes). */
#include "client/setup/setup.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/codec/extent.h"

/* Why samples' activations cannot be kept; NULL: they can. */
static const char *drawn_anew(const struct sl_conf_client *c)
{
	return c->model.head == SL_CONF_MASKED_LM ? "cannot be where tokens are masked anew in each epoch"
	       : c->data.pad                      ? "needs rows without padding: leave data.pad out"
	       : c->agreed.share.group[0]         ? "cannot be in a group"
						  : NULL;
}

static enum sl_err keep_head(struct sl_setup *s, struct sl_fail *fail)
{
	enum sl_err err = sl_head_cache_open(&s->head_cache, s->plan, &s->set[SL_SPLIT_TRAIN],
					     s->conf->train.keep_head_bytes, fail);

	if (!err)
		sl_log(SL_LOG_INFO, "head-kept", "activations of the head are kept: %lld bytes for %lld samples",
		       (long long)sl_head_cache_bytes(s->head_cache), (long long)s->set[SL_SPLIT_TRAIN].count);
	return err;
}

/* A kept token must be what sending it again would give, whatever else is coded with it. */
static enum sl_err check_tokens_alone(const struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_codec_spec *codec = &s->agreement.codec[SL_DIR_HEAD_ACT];
	const struct sl_shape one = sl_plan_cut_shape(s->plan, false, 1);

	if (sl_codec_by_token(codec, sl_shape_row(&one)))
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "needs a codec.head_act that codes each token by itself, and %s does not: take none, f16, "
			   "bf16, normal, hadamard|normal, or quant with a block that divides %lld",
			   codec->text, (long long)sl_shape_row(&one));
}

static enum sl_err place_homes(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	const struct sl_shape one = sl_plan_cut_shape(s->plan, false, 1);
	const int64_t most = s->conf->train.keep_sent_bytes, token = sl_shape_row(&one) * (int64_t)sizeof(float);
	int64_t tokens = 0;

	s->home = calloc((size_t)set->count + 1, sizeof *s->home);
	if (!s->home)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the places of %lld samples",
				   (long long)set->count);
	for (int64_t i = 0; i < set->count; i++) {
		s->home[i] = (uint32_t)tokens;
		tokens += set->source->extent(set, i);
	}
	if (tokens > INT32_MAX || tokens * token > most)
		return sl_fail_set(fail, SL_ERR_LIMIT, "%lld samples take %lld bytes, and %lld are allowed",
				   (long long)set->count, (long long)(tokens * token), (long long)most);
	s->plan->spec.keep_tokens = s->agreement.agreed.keep_tokens = tokens;
	sl_log(SL_LOG_INFO, "sent-kept", "the server keeps what the head has sent: %lld bytes for %lld samples",
	       (long long)(tokens * token), (long long)set->count);
	return SL_OK;
}

static enum sl_err keep_sent(struct sl_setup *s, struct sl_fail *fail)
{
	enum sl_err err = sl_head_cache_check(s->plan, fail);

	if (!err)
		err = check_tokens_alone(s, fail);
	return err ? err : place_homes(s, fail);
}

/* Calls `make` unless `bytes`, the value of `key`, is 0. */
static enum sl_err keep(struct sl_setup *s, const char *key, int64_t bytes,
			enum sl_err (*make)(struct sl_setup *s, struct sl_fail *fail), struct sl_fail *fail)
{
	const char *why_not = drawn_anew(s->conf);

	if (!bytes || !s->plan)
		return SL_OK;
	if (why_not)
		return sl_conf_client_fail(s->conf, key, fail, "%s", why_not);
	return sl_conf_client_blame(s->conf, key, make(s, fail), fail);
}

enum sl_err sl_setup_keep(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	enum sl_err err = SL_OK;

	if (!s->head_cache)
		err = keep(s, "train.keep_head_bytes", c->train.keep_head_bytes, keep_head, fail);
	if (!err && !s->home)
		err = keep(s, "train.keep_sent_bytes", c->train.keep_sent_bytes, keep_sent, fail);
	return err;
}
