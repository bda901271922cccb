#include "client/step/noise.h"

#include <math.h>
#include <string.h>

static enum sl_err read_key(struct sl_key *key, double deviation, const struct sl_conf_client *c, struct sl_fail *fail)
{
	struct sl_keypair pair;
	struct sl_fail why;
	enum sl_err err = deviation == 0 ? SL_OK : sl_keypair_load(&pair, c->noise.key, &why);

	if (err) {
		(void)!sl_fail_set(fail, err, "%s", why.text);
		return sl_conf_client_blame(c, "noise.key", err, fail);
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
	err = read_key(&n->act_key, n->head_act, head, fail);
	return err ? err : read_key(&n->grad_key, n->mid_grad, tail, fail);
}

static double root_mean_square(const float *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return n ? sqrt(sum / (double)n) : 0;
}

/* The Box-Muller transform: two words give two normal numbers. */
static void add(float *to, const float *x, int64_t n, double deviation, const uint32_t *word)
{
	for (int64_t i = 0; i < n; i += 2) {
		const double far = deviation * sqrt(-2 * log((word[i] + 0.5) * 0x1p-32));
		const double turn = 2 * M_PI * 0x1p-32 * word[i + 1];

		to[i] = (float)((double)x[i] + far * cos(turn));
		if (i + 1 < n)
			to[i + 1] = (float)((double)x[i + 1] + far * sin(turn));
	}
}

void sl_noise_add(const struct sl_noise *noise, enum sl_dir dir, const struct sl_dims *dims, const struct sl_tensor *x,
		  float *to, uint32_t *word)
{
	const bool texts = dims->begin && x->shape.dim[0] == dims->tokens, padded = texts && dims->pieces;
	const int64_t row = sl_shape_row(&x->shape), samples = texts ? dims->rows : x->shape.dim[0];
	const double factor = sl_noise_of(noise, dir);
	const float *from = x->data;
	struct sl_key key; /* of this deviation: from x + f·z and x + g·z a server could compute x */

	sl_key_stream(dir == SL_DIR_HEAD_ACT ? &noise->act_key : &noise->grad_key, &factor, sizeof factor, key.byte,
		      sizeof key.byte);
	for (int64_t i = 0; i < samples; i++) {
		const int64_t at = (texts ? (int64_t)dims->begin[i] : i) * row;
		const int64_t n = (texts ? (int64_t)dims->begin[i + 1] : i + 1) * row - at;
		const int64_t own = padded ? (int64_t)dims->pieces[2 * i + 1] * row - at : n; /* without padding */

		sl_key_stream(&key, from + at, (size_t)own * sizeof *from, word, (size_t)(n + 1) * sizeof *word);
		add(to + at, from + at, dir == SL_DIR_MID_GRAD ? own : n, factor * root_mean_square(from + at, own),
		    word);
	}
	explicit_bzero(&key, sizeof key);
}
