/* Initial values of parameters. */
#include "common/base/rng.h"
#include "common/base/worker.h"
#include "common/graph/graph.h"

enum { PIECE = 1 << 16 }; /* numbers; a worker's job gives way after so many */

static void fill(float *out, int64_t count, float value)
{
	for (int64_t i = 0; i < count; i++)
		out[i] = value;
}

/* Element i takes its words from the quad i / 4: words 0 and 1 make normals 0 and 1, words 2 and 3 the others. */
static void fill_normal(float *out, int64_t count, float std, const struct sl_rng_key *key)
{
	for (int64_t i = 0; i < count; i += 4) {
		uint32_t word[4];
		float z[4];

		if (i % PIECE == 0)
			sl_worker_turn();
		sl_rng_quad(key, (uint32_t)(i / 4), word);
		sl_rng_normal2(word[0], word[1], z);
		sl_rng_normal2(word[2], word[3], z + 2);
		for (int j = 0; j < 4 && i + j < count; j++)
			out[i + j] = std * z[j];
	}
}

static void fill_uniform(float *out, int64_t count, float bound, const struct sl_rng_key *key)
{
	for (int64_t i = 0; i < count; i += 4) {
		uint32_t word[4];

		if (i % PIECE == 0)
			sl_worker_turn();
		sl_rng_quad(key, (uint32_t)(i / 4), word);
		for (int j = 0; j < 4 && i + j < count; j++)
			out[i + j] = bound * (2.0f * sl_rng_unit(word[j]) - 1.0f);
	}
}

void sl_param_init(const struct sl_param *p, uint64_t seed, float *out)
{
	const int64_t count = sl_shape_count(&p->shape), cols = p->shape.dim[p->shape.ndim - 1];
	const struct sl_rng_key key = {.seed = seed, .step = p->stream, .tensor = SL_RNG_INIT};

	switch (p->init.kind) {
	case SL_INIT_ONE:
		fill(out, count, 1.0f);
		break;
	case SL_INIT_EYE:
		for (int64_t i = 0; i < count; i++)
			out[i] = i / cols == i % cols ? 1.0f : 0.0f;
		break;
	case SL_INIT_NORMAL:
		fill_normal(out, count, p->init.scale, &key);
		break;
	case SL_INIT_UNIFORM:
		fill_uniform(out, count, p->init.scale, &key);
		break;
	default:
		fill(out, count, 0.0f);
	}
}
