#include "client/step/noise.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum sl_err read_key(struct sl_key *key, double deviation, const struct sl_conf_client *c, struct sl_fail *fail)
{
	const bool clips = c->privacy.clip > 0;
	struct sl_keypair pair;
	struct sl_fail why;
	enum sl_err err = deviation == 0 ? SL_OK : sl_keypair_load(&pair, clips ? c->privacy.key : c->noise.key, &why);

	if (err) {
		(void)!sl_fail_set(fail, err, "%s", why.text);
		return sl_conf_client_blame(c, clips ? "privacy.key" : "noise.key", err, fail);
	}
	if (deviation != 0) {
		*key = pair.secret_key;
		sl_keypair_wipe(&pair);
	}
	return SL_OK;
}

enum sl_err sl_noise_read(struct sl_noise *n, const struct sl_conf_client *head, const struct sl_conf_client *tail,
			  struct sl_fail *fail)
{
	enum sl_err err;

	*n = (struct sl_noise){.head_act = head->noise.head_act, .mid_grad = tail->noise.mid_grad};
	if (head->privacy.clip > 0)
		*n = (struct sl_noise){.head_act = head->privacy.noise,
				       .mid_grad = tail->privacy.noise,
				       .clip_act = head->privacy.clip,
				       .clip_grad = tail->privacy.clip_grad / tail->agreed.batch};
	err = read_key(&n->act_key, n->head_act, head, fail);
	return err ? err : read_key(&n->grad_key, n->mid_grad, tail, fail);
}

static double squares(const float *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

/* The key of what is drawn for the call, or for sample i. With privacy the noise of two samples is independent also
 * where both are equal: else the server would see that. The values are part of it all the same: if a step is repeated
 * with others, their difference must not cross without noise. */
static void derive(struct sl_key *key, const struct sl_key *of, const void *what, size_t bytes)
{
	struct sl_key from = *of;

	sl_key_stream(&from, what, bytes, key->byte, sizeof key->byte);
	explicit_bzero(&from, sizeof from);
}

/* Adds noise to scale · x by the Box-Muller transform: two words give two normal numbers. */
static void add(float *to, const float *x, int64_t n, double scale, double deviation, const uint32_t *word)
{
	for (int64_t i = 0; i < n; i += 2) {
		const double far = deviation * sqrt(-2 * log((word[i] + 0.5) * 0x1p-32));
		const double turn = 2 * M_PI * 0x1p-32 * word[i + 1];

		to[i] = (float)(scale * (double)x[i] + far * cos(turn));
		if (i + 1 < n)
			to[i + 1] = (float)(scale * (double)x[i + 1] + far * sin(turn));
	}
}

enum sl_err sl_noise_check(const struct sl_noise *noise, enum sl_dir dir, const struct sl_noise_place *place,
			   const struct sl_tensor *x, struct sl_fail *fail)
{
	const bool act = dir == SL_DIR_HEAD_ACT;
	const uint64_t at[] = {(uint64_t)dir, (uint64_t)place->value, (uint64_t)place->first,
			       place->training ? 0 : place->step};
	const struct {
		double factor, clip;
		char use[8];
	} what = {sl_noise_of(noise, dir), act ? noise->clip_act : noise->clip_grad, "release"};
	uint64_t when, values, seed; /* seed: other noise on the same values is another release, too */
	enum sl_err err;

	if (noise->clip_act <= 0 || !noise->count)
		return SL_OK;
	when = place->training ? 2 * place->step + 2 : atomic_load(&noise->count->evaluates);
	if (!when)
		return SL_OK;
	sl_key_stream(act ? &noise->act_key : &noise->grad_key, &what, sizeof what, &seed, sizeof seed);
	values = XXH3_64bits_withSeed(x->data, (size_t)sl_shape_count(&x->shape) * sizeof(float), seed);
	err = sl_releases_add(&noise->count->releases, when, (uint32_t)XXH3_64bits(at, sizeof at), values, fail);
	if (err != SL_ERR_AUDIT)
		return err;
	return sl_fail_set(fail, err,
			   "privacy: %s %" PRIu64
			   " is repeated, and %s would be another one than before, or have other noise: the server "
			   "answered otherwise, or settings changed. The same samples would cross once more, which "
			   "epsilon does not count: begin anew with --fresh, and add both epsilons",
			   place->training ? "step" : "the evaluation behind step", when / 2,
			   act ? "head_act" : "mid_grad");
}

void sl_noise_add(const struct sl_noise *noise, enum sl_dir dir, const struct sl_noise_place *place,
		  const struct sl_dims *dims, const struct sl_tensor *x, float *to, uint32_t *word)
{
	const bool texts = dims->begin && x->shape.dim[0] == dims->tokens, padded = texts && dims->pieces;
	const int64_t row = sl_shape_row(&x->shape), samples = texts ? dims->rows : x->shape.dim[0];
	const double factor = sl_noise_of(noise, dir);
	const double clip = dir == SL_DIR_HEAD_ACT ? noise->clip_act : noise->clip_grad;
	const struct {
		double clip;
		uint64_t place[4];
	} call = {clip, {(uint64_t)dir, place->step, place->training, (uint64_t)place->value}};
	const float *from = x->data;
	uint64_t clipped = 0;
	struct sl_key key, own_key; /* of this deviation and clip: from x + f·z and x + g·z a server could compute x */

	derive(&key, dir == SL_DIR_HEAD_ACT ? &noise->act_key : &noise->grad_key, &factor, sizeof factor);
	if (clip > 0)
		derive(&key, &key, &call, sizeof call);
	for (int64_t i = 0; i < samples; i++) {
		const int64_t at = (texts ? (int64_t)dims->begin[i] : i) * row, number = place->first + i;
		const int64_t n = (texts ? (int64_t)dims->begin[i + 1] : i + 1) * row - at;
		const int64_t own = padded ? (int64_t)dims->pieces[2 * i + 1] * row - at : n; /* without padding */
		const double sum = squares(from + at, own), length = sqrt(sum);
		const bool longer = clip > 0 && !(length <= clip);

		clipped += longer;
		own_key = key;
		if (clip > 0)
			derive(&own_key, &key, &number, sizeof number);
		sl_key_stream(&own_key, from + at, (size_t)own * sizeof *from, word, (size_t)(n + 1) * sizeof *word);
		add(to + at, from + at, dir == SL_DIR_MID_GRAD ? own : n, longer ? clip / length : 1,
		    factor * (clip > 0 ? clip
			      : own    ? sqrt(sum / (double)own)
				       : 0),
		    word);
	}
	if (clip > 0 && noise->count) {
		atomic_fetch_add(dir == SL_DIR_HEAD_ACT ? &noise->count->act : &noise->count->grad, (uint64_t)samples);
		atomic_fetch_add(dir == SL_DIR_HEAD_ACT ? &noise->count->act_clipped : &noise->count->grad_clipped,
				 clipped);
	}
	explicit_bzero(&key, sizeof key);
	explicit_bzero(&own_key, sizeof own_key);
}
