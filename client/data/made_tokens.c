/* Rows of tokens that are a function of their number: lengths and tokens come from Philox, the label from the first
 * token. */
#include "client/data/sources.h"
#include "common/base/rng.h"

enum { VOCAB = 96, CLASSES = 2, LONGEST = 40, STREAM = 0xffe0 };
static const int64_t samples[SL_SPLIT_COUNT] = {[SL_SPLIT_TRAIN] = 600, [SL_SPLIT_TEST] = 200};
static const uint64_t seed[SL_SPLIT_COUNT] = {[SL_SPLIT_TRAIN] = 71, [SL_SPLIT_TEST] = 72};

/* What defines a set. It is packed into the pointer sl_set.data, so that a set needs no memory of its own. */
struct made {
	uint64_t seed;
	int most; /* tokens of a row */
};

static struct made made_of(const struct sl_set *set)
{
	const uintptr_t packed = (uintptr_t)set->data;

	return (struct made){packed >> 16, (int)(packed & 0xffff)};
}

static struct sl_rng_key key_of(const struct made *m, int64_t index)
{
	return (struct sl_rng_key){.seed = m->seed, .step = (uint64_t)index, .tensor = STREAM};
}

/* Short rows are many, long ones few. */
static int64_t extent(const struct sl_set *set, int64_t index)
{
	const struct made m = made_of(set);
	const struct sl_rng_key key = key_of(&m, index);
	const uint32_t most = 1 + sl_rng_below(sl_rng_u32(&key, 0), LONGEST);
	const int64_t n = 1 + sl_rng_below(sl_rng_u32(&key, 1), most);

	return n < m.most ? n : m.most;
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct made m = made_of(set);
	const struct sl_rng_key key = key_of(&m, index);
	const int64_t n = extent(set, index);
	int32_t *id;

	if (sl_room_need(room, (size_t)(n + 1) * sizeof *id))
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a row of %lld tokens", (long long)n);
	id = (int32_t *)(void *)room->data;
	for (int64_t i = 0; i < n; i++)
		id[1 + i] = (int32_t)sl_rng_below(sl_rng_u32(&key, (uint64_t)(4 + i)), VOCAB);
	id[0] = id[1] * 5 % 16 < 8; /* the label */
	out[SL_FIELD_INPUT] = (struct sl_value){.data = id + 1, .dim = {n}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = id};
	return SL_OK;
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	const int64_t all = samples[spec->split];

	if (spec->files)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s reads no files", self->name);
	*out = (struct sl_set){
		.source = self,
		.data = (void *)(uintptr_t)(seed[spec->split] << 16 | (uint64_t)spec->max_tokens), /* 1 … 65535 */
		.count = spec->max_samples && spec->max_samples < all ? spec->max_samples : all,
		.classes = CLASSES,
		.vocab = VOCAB,
		.field = {{"tokens", SL_I32, 1, {0}}, {"label", SL_I32, 0, {0}}},
	};
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
}

/* Rows of random tokens, without a file, to try a network of tokens. Their lengths differ. The class, one of two, is
 * a function of the first token. */
const struct sl_source sl_source_made_tokens = {.name = "made_tokens",
						.open = open_set,
						.check = open_set,
						.sample = sample,
						.close = close_set,
						.extent = extent};
