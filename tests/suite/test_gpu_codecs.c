/* The device's codecs against the portable ones, one tensor at a time: the same payloads, the same
 * decoded values, the same refusals. Each decodes what the other encoded. */
#include <float.h>
#include <math.h>

#include "tests/support/gpu_codecs/rig.h"
#include "tests/support/unit.h"

static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##gpu(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static const int64_t shapes[][4] = {{1, 1, 1, 1},   {1, 1, 1, 3},   {2, 3, 5, 7},     {3, 1, 1, 17},
				    {4, 33, 65, 9}, {2, 64, 64, 8}, {1, 1, 1, 65537}, {3, 40, 50, 33}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct sl_shape shape_of(int i)
{
	return sl_shape4(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
}

/* A brief run takes a third of the kinds of tensors; of the large shapes one, with one kind. */
static bool left_out(const struct sl_backend *be, int spec, int shape, int kind)
{
	if (!rig_brief(be))
		return false;
	return shape < 4 ? (spec + shape + kind) % 3 != 0 : (spec + shape) % 4 != 0 || kind != spec % KINDS;
}

static void payloads_and_values_are_the_same(void **state)
{
	struct sl_backend *be = rig_backend(state);

	for (int p = 0; p < SPECS; p++)
		for (int s = 0; s < SHAPES; s++) {
			struct both b;

			if (rig_brief(be) && s >= 4 && (p + s) % 4 != 0)
				continue;
			b = both_open(be, specs[p], shape_of(s), SL_DIR_HEAD_ACT, NULL);
			for (int kind = 0; kind < KINDS; kind++) {
				/* their sums overflow a float */
				bool beyond = kind == HUGE_VALUES && strchr("lcd", specs[p][0]) != NULL;

				if (beyond || left_out(be, p, s, kind))
					continue;
				codec_fill(b.x, sl_shape_count(&b.shape), (enum codec_kind)kind);
				both_cross(&b, b.shape.dim[0]);
			}
			codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
			if (b.shape.dim[0] > 1 && (s < 4 || !rig_brief(be) || p % 5 == 0))
				both_cross(&b, 1);
			both_close(&b);
		}
}

/* With many equal values, the choice of those that are kept crosses blocks. */
static void ties_are_kept_from_the_front(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const char *const texts[] = {"topk:0.1", "topk:0.4", "topk:0.75", "topk:0.9999"};
	struct sl_shape shape = sl_shape4(1, 1, 2, 65541);

	for (int t = 0; t < 4; t++) {
		struct both b = both_open(be, texts[t], shape, SL_DIR_HEAD_ACT, NULL);

		codec_fill(b.x, sl_shape_count(&shape), RELU);
		for (int64_t i = 0; i < sl_shape_count(&shape); i++)
			b.x[i] = b.x[i] > 0.8f ? 6 : b.x[i] > 0.4f ? -3 : 0;
		both_cross(&b, 1);
		both_close(&b);
	}
}

static void values_that_cannot_be_carried_are_refused(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const float bad[] = {NAN, INFINITY, -INFINITY};

	for (int p = 0; p < SPECS; p++)
		for (int v = 0; v < 3; v++) {
			/* in brief, one of the three; rarely in a tensor of several blocks */
			struct both b = both_open(be, specs[p], shape_of(rig_brief(be) && p % 5 != 0 ? 2 : 4),
						  SL_DIR_HEAD_ACT, NULL);
			uint8_t *bytes;
			size_t len;

			if (rig_brief(be) && v != p % 3) {
				both_close(&b);
				continue;
			}
			codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
			b.x[sl_shape_count(&b.shape) - 1 - v] = bad[v];
			both_encode(&b, &codec_call0, b.shape.dim[0], &bytes, &len);
			free(bytes);
			/* and the next call works */
			codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
			both_cross(&b, b.shape.dim[0]);
			both_close(&b);
		}
}

/* Truncated, extended and with flipped bits: both sides give the same verdict, and a refused
 * payload writes nothing. */
static void hostile_payloads_meet_the_same_verdict(void **state)
{
	struct sl_backend *be = rig_backend(state);
	const struct sl_rng_key key = {.seed = 77, .tensor = SL_RNG_TEST};
	int refused = 0, taken = 0;

	for (int p = 0; p < SPECS; p++) {
		struct both b = both_open(be, specs[p], sl_shape4(2, 5, 11, 40), SL_DIR_HEAD_ACT, NULL);
		uint8_t *bytes, *bad;
		size_t len;

		codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
		assert_int_equal(both_encode(&b, &codec_call0, 2, &bytes, &len), SL_OK);
		bad = malloc(len + 8);
		assert_non_null(bad);
		for (uint32_t t = 0; t < (rig_brief(be) ? 20 : 200); t++) {
			uint32_t w = sl_rng_u32(&key, (uint64_t)p * 1000 + t);
			size_t from = t % 3 == 1 ? len - (len < 400 ? len : 400) : 0;
			size_t cut = t % 10 == 9   ? len - 1 - w % (len < 64 ? len : 64)
				     : t % 10 == 8 ? len + 1 + w % 7
						   : len;

			memset(bad, 0, len + 8);
			memcpy(bad, bytes, len);
			if (cut == len) {
				size_t range = t % 3 == 0 ? (len < 40 ? len : 40) : len - from;

				bad[from + w % range] ^= (uint8_t)(1u << (w >> 24) % 8);
			}
			if (both_decode(&b, &codec_call0, bad, cut, 2) == SL_OK)
				taken++;
			else
				refused++;
		}
		free(bad);
		free(bytes);
		both_close(&b);
	}
	assert_true(refused > 100 && taken > 100);
}

/* Factors on either side, several tiles of rows and channels, more ranks than a block sums, a tensor of sequences. */
static void factors_are_the_same(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const struct {
		const char *text;
		struct sl_shape shape;
	} cases[] = {
		{"lowrank:3", {4, {2, 5, 7, 9}}},
		{"lowrank:5,iters=3", {4, {3, 4, 4, 40}}},
		{"lowrank:9,iters=2|quant:8", {4, {2, 33, 31, 70}}},
		{"lowrank:7", {4, {2, 7, 7, 320}}},
		{"lowrank:17|f16", {4, {1, 5, 5, 300}}},
		{"lowrank:4,warm=true", {3, {2, 130, 33}}},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct both b = both_open(be, cases[i].text, cases[i].shape, SL_DIR_HEAD_ACT, NULL);

		for (int kind = 0; kind < KINDS; kind++) {
			uint8_t *bytes;
			size_t len;
			enum sl_err err;

			codec_fill(b.x, sl_shape_count(&b.shape), (enum codec_kind)kind);
			/* products of the largest floats overflow; both must refuse them */
			err = both_encode(&b, &codec_call0, b.shape.dim[0], &bytes, &len);
			if (err == SL_OK)
				assert_int_equal(both_decode(&b, &codec_call0, bytes, len, b.shape.dim[0]), SL_OK);
			free(bytes);
			assert_true(err == SL_OK || kind == HUGE_VALUES);
		}
		codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
		both_cross(&b, 1);
		both_close(&b);
	}
}

/* Samples of rank 0 to 3 whose rows or columns have sizes of their own: denormals, the largest, and
 * both together. The balancing of factors meets all exponents, and must give the same bits. */
static void factors_of_any_size_are_the_same(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const struct {
		const char *text;
		struct sl_shape shape;
	} cases[] = {
		{"lowrank:3", {4, {4, 5, 7, 9}}},
		{"lowrank:3,iters=2,warm=true", {4, {4, 4, 4, 40}}},
		{"lowrank:4,warm=true,ef=true|quant:8", {4, {4, 6, 6, 16}}},
	};
	static const int exponents[][2] = {{0, 0},   {-149, 0}, {-130, 3}, {-90, 1}, {-60, 0},
					   {-20, 2}, {40, 0},   {60, 1},   {100, 0}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct both b = both_open(be, cases[i].text, cases[i].shape, SL_DIR_HEAD_ACT, NULL);
		int64_t n = sl_shape_count(&b.shape), c = b.shape.dim[3], m = n / 4 / c;
		float *values = codec_make(3 * (m + c), RANDOM);

		for (int k = 0; k < 17; k++) {
			const int *e = exponents[(k + 1) / 2 % 9];
			struct sl_codec_call call = codec_call0;
			uint8_t *bytes;
			size_t len;

			call.step = (uint64_t)k;
			for (int64_t at = 0; at < n; at++) {
				int64_t row = at / c % m, col = at % c;
				float v = 0;

				for (int j = 0; j < at / (m * c); j++) /* the sample's number is its rank */
					v += values[j * m + row] * values[3 * m + j * c + col];
				/* the first samples: a nonzero factor with products that are zero */
				b.x[at] = k == 0 ? FLT_TRUE_MIN : ldexpf(v, e[0] + e[1] * (int)(k % 2 ? row : col));
			}
			if (both_encode(&b, &call, 4, &bytes, &len) == SL_OK)
				assert_int_equal(both_decode(&b, &call, bytes, len, 4), SL_OK);
			else
				assert_true(e[0] >= 60); /* products overflow */
			free(bytes);
			sl_codec_commit(b.host);
			sl_codec_commit(b.device);
		}
		free(values);
		both_close(&b);
	}
}

/* The values that sortquant's sample reads in a tensor of `n`: runs of 16 at jittered distances. */
static float *sampled_run(float *x, int64_t n, int64_t run)
{
	const int64_t step = n / 4096;
	const uint32_t mix = (uint32_t)run * 2654435761u;

	return x + run * step + (int64_t)((uint64_t)(mix ^ mix >> 15) * (uint64_t)(step - 15) >> 32);
}

/* A misleading value for a place that the sample reads; some affect only a few edges. */
static float misleading(int trap, int64_t run, float v)
{
	switch (trap) {
	case 0:
		return v + 1;
	case 1:
		return 100 + v;
	case 2:
		return run % 3 ? -0.0f : 0.25f;
	case 3:
		return v > 0.5f ? v + 1 : v;
	case 4:
		return v > 0 ? v * 3 : v;
	default: /* few of the many zeros: an edge below them moves, while a later edge among them stays */
		return v > -0.025f && v < 0.25f ? 0 : v;
	}
}
enum { PASSING = 5, TRAPS };

/* Misleading samples: edges are corrected, and finally found exactly. */
static void edges_are_found_where_the_sample_misleads(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const char *const texts[] = {"sortquant:6+2", "sortquant:3+4"};

	for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
		for (int trap = 0; trap < TRAPS; trap++) {
			struct sl_shape shape = sl_shape4(1, 32, trap == PASSING ? 150 : 32, 81);
			struct both b = both_open(be, texts[t], shape, SL_DIR_HEAD_ACT, NULL);
			int64_t n = sl_shape_count(&shape);
			float *v = codec_make(n, RANDOM), upper = 1;

			for (int64_t i = 0; i < n; i++) {
				upper = v[i] > 0.675f ? v[i] : upper;
				b.x[i] = trap != PASSING ? v[i] : i % 2 ? 0 : upper;
			}
			for (int64_t run = 0; run < 4096; run++) {
				float *at = sampled_run(b.x, n, run);

				for (int j = 0; j < 16; j++)
					at[j] = misleading(trap, run, v[at - b.x + j]);
			}
			free(v);
			both_cross(&b, 1);
			for (int64_t i = 0; trap < 2 && i < n; i++) /* once more: the first tensor
								     * leaves no state behind */
				b.x[i] *= -3;
			if (trap < 2)
				both_cross(&b, 1);
			both_close(&b);
		}
}

/* The same for the k-th largest magnitude: the sample reads larger values than the rest, smaller
 * ones, only zeros, or one value; and the list of candidates between the bounds is too short. */
static void kth_is_found_where_the_sample_misleads(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const char *const texts[] = {"topk:0.02", "topk:0.3|topk:0.5", "topk:0.8"};
	struct sl_shape shape = sl_shape4(1, 32, 32, 81);
	uint64_t n = (uint64_t)sl_shape_count(&shape);

	for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
		for (int trap = 0; trap < 5; trap++) {
			struct both b = both_open(be, texts[t], shape, SL_DIR_HEAD_ACT, NULL);

			codec_fill(b.x, (int64_t)n, trap == 4 ? RELU : RANDOM);
			for (uint64_t i = 0; trap < 4 && i < 16384; i++) {
				uint32_t mix = (uint32_t)i * 2654435761u;
				float *at = &b.x[(i * n + ((mix ^ mix >> 15) * n >> 32)) / 16384];

				*at = trap == 0 ? 100 + *at : trap == 1 ? *at * 1e-3f : trap == 2 ? 0 : 0.25f;
			}
			for (uint64_t i = 0; trap == 4 && i < n; i++)
				b.x[i] = i % 3 == 0 ? 2 : b.x[i];
			both_cross(&b, 1);
			both_close(&b);
		}
}

static float float_of(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

/* Difficult tensors for topk: ties, adjacent keys, all exponents, almost no values. */
enum { ALL_EQUAL, ONE_VALUE, DENORMALS, TWO_VALUES, EXPONENTS, NEIGHBOURS, ASCENDING, STUMBLES };

static float stumble(int kind, uint32_t i, uint32_t n)
{
	const uint32_t mixed = i * 2654435761u >> 8, sign = mixed << 31;

	switch (kind) {
	case ALL_EQUAL:
		return float_of(0x3fc00000 | sign);
	case ONE_VALUE:
		return i == n / 2 ? -1e-45f : float_of(sign);
	case DENORMALS:
		return float_of((1 + mixed % 3000) | sign);
	case TWO_VALUES:
		return i / 700 % 2 ? 1.0f : -2.0f;
	case EXPONENTS:
		return float_of(mixed % 255 << 23 | sign);
	case NEIGHBOURS:
		return float_of((0x3f800000 + mixed % 5000) | sign);
	default:
		return (float)i;
	}
}

static void kth_is_found_whatever_the_tensor(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const int64_t sizes[] = {1, 2, 33, 1024, 16383, 16384, 16385, 65536, 65537, 100003};
	static const char *const texts[] = {"topk:1e-9", "topk:0.37", "topk:0.99", "topk:1"};

	for (int s = 0; s < (int)(sizeof sizes / sizeof sizes[0]); s++)
		for (int t = 0; t < (int)(sizeof texts / sizeof texts[0]); t++) {
			struct both b = both_open(be, texts[t], sl_shape4(1, 1, 1, sizes[s]), SL_DIR_HEAD_ACT, NULL);

			for (int kind = 0; kind < STUMBLES; kind++) {
				if (rig_brief(be) && s > 3 && (s + t + kind) % 4 != 0)
					continue;
				for (uint32_t i = 0; i < sizes[s]; i++)
					b.x[i] = stumble(kind, i, (uint32_t)sizes[s]);
				both_cross(&b, 1);
			}
			both_close(&b);
		}
}

/* The stored payloads of tests/golden/codec. */
static void payloads_are_what_they_were(void **state)
{
	struct sl_backend *be = rig_backend(state);
	struct sl_shape shape = codec_golden_shape();
	int tried = 0, all = 0;

	for (const struct codec_golden *g = codec_goldens; g->name != NULL; g++, all++) {
		struct sl_codec_env env = {.be = be, .shape = shape, .slots = 1};
		uint8_t golden[CODEC_GOLDEN_MOST], *bytes;
		struct sl_codec_spec spec;
		struct sl_codec *probe;
		struct sl_fail fail;
		struct both b;
		size_t len, golden_len;

		assert_int_equal(sl_codec_parse(g->spec, &spec, &fail), SL_OK);
		if (codec_is_host_only(g->spec)) {
			assert_int_equal(sl_codec_open(&probe, &spec, &env, &fail), SL_ERR_UNAVAILABLE);
			continue;
		}
		tried++;
		b = both_open(be, g->spec, shape, SL_DIR_HEAD_ACT, NULL);
		codec_golden_tensor(b.x);
		assert_int_equal(both_encode(&b, &codec_call0, 2, &bytes, &len), SL_OK);
		golden_len = codec_golden_read(g, "payload", golden, sizeof golden);
		if (strstr(g->spec, "zstd") == NULL && (golden_len != len || memcmp(golden, bytes, len) != 0))
			fail_msg("%s: %zu bytes, not the %zu of %s.payload", g->spec, len, golden_len, g->name);
		assert_int_equal(both_decode(&b, &codec_call0, golden, golden_len, 2), SL_OK);
		assert_int_equal(codec_golden_read(g, "f32", b.want, sizeof(float) * CODEC_GOLDEN_N),
				 sizeof(float) * CODEC_GOLDEN_N);
		assert_memory_equal(b.got, b.want, sizeof(float) * CODEC_GOLDEN_N);
		free(bytes);
		both_close(&b);
	}
	assert_in_range(tried, all / 2, all);
}

/* A backend that lacks a method, or the sums of error feedback, reports it and leaves nothing behind. */
static void what_is_missing_is_unavailable(void **state)
{
	static const char *const texts[] = {"randomk:0.1", "downsample:2", "downsample:2|quant:8", "quant:8,ef=true",
					    "f16,ef=true"};
	struct sl_backend *be = rig_backend(state);
	struct sl_backend_ops ops = *be->ops;
	struct sl_backend less = *be;

	ops.combine = NULL;
	less.ops = &ops;
	for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
		struct sl_codec_env env = {.be = &less, .shape = sl_shape4(2, 8, 8, 4), .slots = 1};
		struct sl_codec_spec spec;
		struct sl_codec *codec;
		struct sl_fail fail = {0};

		assert_int_equal(sl_codec_parse(texts[t], &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_UNAVAILABLE);
		assert_true(fail.text[0] != '\0');
	}
}

/* A tensor as large as the one that crosses at 224². */
static void large_tensors_too(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const char *const texts[] = {"quant:8",   "f16",         "qsgd:255",      "terngrad", "topk:0.1|quant:8",
					    "topk:0.01", "threshold:1", "sortquant:6+2", "lowrank:7"};

	/* in brief, the first one: more elements than the threads of a launch process in one iteration */
	for (size_t t = 0; t < (rig_brief(be) ? 1 : sizeof texts / sizeof texts[0]); t++) {
		struct both b = both_open(be, texts[t], sl_shape4(16, 112, 112, 32), SL_DIR_HEAD_ACT, NULL);

		codec_fill(b.x, sl_shape_count(&b.shape), RANDOM);
		both_cross(&b, 16);
		codec_fill(b.x, sl_shape_count(&b.shape), RELU);
		both_cross(&b, 15);
		both_close(&b);
	}
}

/* usage: test_gpu_codecs [TEST], such as '*GPU*' */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RIG_ON_BOTH(payloads_and_values_are_the_same),
		RIG_ON_BOTH(ties_are_kept_from_the_front),
		RIG_ON_BOTH(values_that_cannot_be_carried_are_refused),
		RIG_ON_BOTH(factors_are_the_same),
		RIG_ON_BOTH(factors_of_any_size_are_the_same),
		RIG_ON_BOTH(edges_are_found_where_the_sample_misleads),
		RIG_ON_BOTH(kth_is_found_where_the_sample_misleads),
		RIG_ON_BOTH(kth_is_found_whatever_the_tensor),
		RIG_ON_BOTH(payloads_are_what_they_were),
		RIG_ON_BOTH(hostile_payloads_meet_the_same_verdict),
		{"what_is_missing_is_unavailable (on a CPU)", what_is_missing_is_unavailable, rig_use_sim, NULL, NULL},
		RIG_ON_BOTH(large_tensors_too),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("gpu codecs", tests, NULL, rig_close_gpu);
}
