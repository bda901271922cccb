/* The CPU backend's codec loops, of every SIMD level and of streaming stores, give the same bytes as the
 * portable ones, and read or write nothing beyond their arrays. A level that this CPU lacks is skipped. */
#include <float.h>
#include <math.h>
#include <sys/mman.h>

#include "common/codec/loops_c.h"
#include "common/exec/backend.h"
#include "kernels/cpu/codec_loops.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static const struct sl_codec_loops *fast;
static const struct sl_codec_loops *const plain = &sl_codec_loops_c;

enum { PAGE = 4096, ROOM = 140 * PAGE };

/* Memory that ends at an inaccessible page: an array of n bytes is placed just before it. */
static uint8_t *fence[6];

static void *at_end(int which, size_t bytes)
{
	return fence[which] + ROOM - bytes;
}

static int open_fences(void **state)
{
	for (int i = 0; i < 6; i++) {
		fence[i] = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (fence[i] == MAP_FAILED || mprotect(fence[i] + ROOM, PAGE, PROT_NONE) != 0)
			return -1;
	}
	return 0;
}

/* A case's setup: its initial state is the loops to test; NULL: those that the backend chooses. */
static int use(void **state)
{
	fast = *state != NULL ? *state : sl_cpu_codec_loops();
	return 0;
}

static const int64_t sizes[] = {0,  1,  2,  7,   8,   15,  16,  17,   31,   32,   33,
				63, 64, 65, 100, 127, 128, 129, 1000, 4096, 65536};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static uint32_t word(uint32_t i)
{
	struct sl_rng_key key = {.seed = 5, .tensor = SL_RNG_TEST};

	return sl_rng_u32(&key, i);
}

/* Values of every size, zeros of both signs, equal values. */
static void values(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t w = word((uint32_t)i);
		float v = ((float)(w >> 8) - 0x1p23f) * 0x1p-21f;

		x[i] = w % 11 == 0 ? -0.0f : w % 13 == 0 ? 2.5f : w % 17 == 0 ? v * 1e-30f : v;
	}
}

static void same(const void *a, const void *b, size_t bytes, const char *what, int64_t n)
{
	if (memcmp(a, b, bytes) != 0)
		fail_msg("%s differs for n = %lld", what, (long long)n);
}

static void the_cpu_has_these_loops(void **state)
{
	/* without SIMD the later cases compare the portable loops with themselves */
	if (fast == plain)
		skip();
}

static void the_cpu_codes_its_tensors_where_they_are(void **state)
{
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_true(be.host_memory);
	assert_null(be.ops->codec_stages);
	assert_ptr_equal(be.ops->codec_loops(), fast);
	be.ops->close(&be);
}

static void statistics(void **state)
{
	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		float *x = at_end(0, (size_t)n * 4), lo[2][70], hi[2][70];
		/* the range so far counts, too: it is empty, or larger than that of the values */
		uint32_t before = s % 2 ? sl_magnitude(1e30f) : 0, top[2] = {before, before};
		struct sl_range a = s % 2 ? (struct sl_range){-1e30f, 1e30f, before} : SL_RANGE_EMPTY, b = a;
		double sum[2];

		values(x, n);
		plain->minmax(x, n, &a);
		fast->minmax(x, n, &b);
		same(&a, &b, sizeof a, "minmax", n);
		sum[0] = plain->sum_squares(x, n, &top[0]);
		sum[1] = fast->sum_squares(x, n, &top[1]);
		same(&sum[0], &sum[1], sizeof sum[0], "sum_squares", n);
		assert_int_equal(top[0], top[1]);
		for (int64_t c = 1; c <= 70 && c <= n; c += 3) {
			for (int t = 0; t < 2; t++) {
				for (int j = 0; j < 70; j++) {
					lo[t][j] = INFINITY;
					hi[t][j] = -INFINITY;
				}
				top[t] = (t == 0 ? plain : fast)->minmax_cols(x + n % c, n / c, c, lo[t], hi[t]);
			}
			same(lo[0], lo[1], sizeof lo[0], "minmax_cols", n);
			same(hi[0], hi[1], sizeof hi[0], "minmax_cols", n);
			assert_int_equal(top[0], top[1]);
		}
		if (n > 0) {
			x[n - 1] = NAN;
			fast->minmax(x, n, &b);
			assert_true(b.top >= SL_F32_INF_BITS);
		}
	}
}

static void randomness(void **state)
{
	const struct sl_rng_key key = {
		.seed = 0x123456789abcdefull, .step = 0xfedcba9876543210ull, .chunk = 77, .tensor = 9};

	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		uint32_t *a = at_end(0, (size_t)n * 4), *b = at_end(1, (size_t)n * 4);
		uint32_t *c = at_end(2, (size_t)n * 4), *d = at_end(3, (size_t)n * 4);

		plain->random32(&key, 4096, n, a);
		fast->random32(&key, 4096, n, b);
		same(a, b, (size_t)n * 4, "random32", n);
		for (int64_t i = 0; i < n; i++)
			assert_int_equal(a[i], sl_rng_u32(&key, 4096 + (uint64_t)i));
		plain->random_halves(&key, 8192, n, c);
		fast->random_halves(&key, 8192, n, d);
		same(c, d, (size_t)n * 4, "random_halves", n);
		for (int64_t i = 0; i < n; i++)
			assert_int_equal(c[i] << 16 | c[i] >> 16,
					 i % 2 ? c[i - 1] : sl_rng_u32(&key, 4096 + (uint64_t)i / 2));
	}
}

/* Ranges near the limits of fp32, too: `scale` moves the values there. */
static void affine_codes(void **state)
{
	static const float scales[] = {1, 1e-42f, 1e37f};
	static const int all_bits[] = {1, 2, 8, 11, 15, 16};

	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		float *x = at_end(0, (size_t)n * 4), *y = at_end(1, (size_t)n * 4), *z = at_end(2, (size_t)n * 4);
		uint32_t *rnd = at_end(3, (size_t)n * 4);
		uint16_t *a = at_end(4, (size_t)n * 2), *b = at_end(5, (size_t)n * 2);
		float *cols = malloc(6 * (size_t)(n + 1) * 4);

		for (int64_t i = 0; i < n; i++)
			rnd[i] = word((uint32_t)i + 99);
		for (int k = 0; k < 18; k++) {
			struct sl_range range = SL_RANGE_EMPTY;
			struct sl_affine affine;
			int bits = all_bits[k % 6];
			uint16_t most = (uint16_t)((1 << bits) - 1);
			const float *parts = (const float *)&affine;

			values(x, n);
			for (int64_t i = 0; i < n; i++)
				x[i] *= scales[k / 6];
			plain->minmax(x, n, &range);
			affine = n == 0 ? sl_affine_of(0, 0, most) : sl_affine_of(range.min, range.max, most);
			for (int64_t i = 0; i < 6 * n; i++)
				cols[i] = parts[i / n];
			if (n > 0) { /* the highest code must stay when it is rounded up */
				x[n - 1] = range.max;
				rnd[n - 1] = 0;
			}
			for (int r = 0; r < 2; r++) {
				plain->quantize(x, n, &affine, r ? rnd : NULL, most, a);
				if (n > 0 && range.max > range.min)
					assert_int_equal(a[n - 1], most);
				fast->quantize(x, n, &affine, r ? rnd : NULL, most, b);
				same(a, b, (size_t)n * 2, "quantize", n);
				plain->dequantize(a, n, &affine, y);
				fast->dequantize(a, n, &affine, z);
				same(y, z, (size_t)n * 4, "dequantize", n);
				fast->quantize_cols(x, n, cols, n, r ? rnd : NULL, most, b);
				same(a, b, (size_t)n * 2, "quantize_cols", n);
				fast->dequantize_cols(a, n, cols, n, z);
				same(y, z, (size_t)n * 4, "dequantize_cols", n);
				plain->quantize_cols(x, n, cols, n, r ? rnd : NULL, most, b);
				same(a, b, (size_t)n * 2, "quantize_cols", n);
			}
		}
		free(cols);
	}
}

static void signs_and_levels(void **state)
{
	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		float *x = at_end(0, (size_t)n * 4), *y = at_end(1, (size_t)n * 4), *z = at_end(2, (size_t)n * 4);
		uint32_t *rnd = at_end(3, (size_t)n * 4);
		uint16_t *a = at_end(4, (size_t)n * 2), *b = at_end(5, (size_t)n * 2);

		values(x, n);
		for (int64_t i = 0; i < n; i++)
			rnd[i] = word((uint32_t)i + 99);
		for (int bits = 1; bits <= 15; bits++) {
			uint16_t q = (uint16_t)((1 << bits) - 1 - (bits > 3));
			struct sl_affine affine = sl_affine_of_scale(4.5f, q);

			if (n > 0) {
				x[n - 1] = 4.5f;
				rnd[n - 1] = 0;
			}
			plain->levels(x, n, &affine, rnd, bits, q, a);
			if (n > 0)
				assert_int_equal(a[n - 1], q);
			fast->levels(x, n, &affine, rnd, bits, q, b);
			same(a, b, (size_t)n * 2, "levels", n);
			plain->unlevels(a, n, &affine, bits, y);
			fast->unlevels(a, n, &affine, bits, z);
			same(y, z, (size_t)n * 4, "unlevels", n);
		}
	}
}

static void buckets(void **state)
{
	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		float *x = at_end(0, (size_t)n * 4), *y = at_end(1, (size_t)n * 4), *z = at_end(2, (size_t)n * 4);
		uint32_t *rnd = at_end(3, (size_t)n * 4);
		uint16_t *a = at_end(4, (size_t)n * 2), *b = at_end(5, (size_t)n * 2);

		values(x, n);
		for (int64_t i = 0; i < n; i++)
			rnd[i] = word((uint32_t)i + 99);
		for (int split = 1; split <= 4; split++) {
			struct sl_buckets k = {.count = 1 << split, .code_bits = 12 - split};
			struct sl_bucket_stats p = {.range = SL_RANGE_EMPTY}, f;

			for (int i = 0; i < 16; i++) {
				float lo = -4.0f + 8.0f * (float)i / (float)k.count, hi = lo + 8.0f / (float)k.count;
				struct sl_affine affine = sl_affine_of(lo, hi, (1 << k.code_bits) - 1);

				k.edge[i] = i == 0 ? -INFINITY : i < k.count ? (i == 1 ? 2.5f - 8 : lo) : INFINITY;
				k.pre[i] = affine.pre;
				k.lo[i] = affine.lo;
				k.inv[i] = affine.inv;
				k.step[i] = affine.step;
				k.post[i] = affine.post;
				k.max[i] = affine.max;
				p.max_below[i] = -INFINITY;
			}
			k.edge[1] = k.edge[1] < -4 ? -4.0f + 8.0f / (float)k.count : k.edge[1];
			f = p;
			plain->bucket_stats(x, n, &k, &p);
			fast->bucket_stats(x, n, &k, &f);
			same(&p, &f, sizeof p, "bucket_stats", n);
			plain->bucketize(x, n, &k, rnd, a);
			fast->bucketize(x, n, &k, rnd, b);
			same(a, b, (size_t)n * 2, "bucketize, stochastic", n);
			plain->bucketize(x, n, &k, NULL, a);
			fast->bucketize(x, n, &k, NULL, b);
			same(a, b, (size_t)n * 2, "bucketize", n);
			plain->unbucketize(a, n, &k, y);
			fast->unbucketize(a, n, &k, z);
			same(y, z, (size_t)n * 4, "unbucketize", n);
		}
	}
}

static void packed_bits(void **state)
{
	for (int64_t n = 0; n <= 65536; n = n < 300 ? n + 1 : n * 3) {
		for (int bits = 1; bits <= 16; bits++) {
			size_t bytes = (size_t)sl_packed_bytes(n, bits);
			uint16_t *code = at_end(0, (size_t)n * 2), *back = at_end(1, (size_t)n * 2);
			uint8_t *a = at_end(2, bytes), *b = at_end(3, bytes);

			for (int64_t i = 0; i < n; i++)
				code[i] = (uint16_t)(word((uint32_t)i) & ((1u << bits) - 1));
			plain->pack(code, n, bits, a);
			fast->pack(code, n, bits, b);
			same(a, b, bytes, "pack", n);
			plain->unpack(a, n, bits, back);
			same(code, back, (size_t)n * 2, "plain unpack", n);
			fast->unpack(a, n, bits, back);
			same(code, back, (size_t)n * 2, "unpack", n);
		}
	}
}

static void halves(void **state)
{
	float *x = at_end(0, 65536 * 4), *y = at_end(1, 65536 * 4), *z = at_end(2, 65536 * 4);
	uint8_t *a = at_end(3, 65536 * 2), *b = at_end(4, 65536 * 2);

	/* all halves and all bfloat16 values */
	for (uint32_t i = 0; i < 65536; i++) {
		a[2 * i] = (uint8_t)i;
		a[2 * i + 1] = (uint8_t)(i >> 8);
	}
	plain->from_f16(a, 65536, y);
	fast->from_f16(a, 65536, z);
	same(y, z, 65536 * 4, "from_f16", 65536);
	plain->from_bf16(a, 65536, y);
	fast->from_bf16(a, 65536, z);
	same(y, z, 65536 * 4, "from_bf16", 65536);
	for (uint32_t round = 0; round < 64; round++) {
		for (uint32_t i = 0; i < 65536; i++) {
			uint32_t bits = word(round * 65536 + i);

			/* values near the range of halves, and any others */
			if (i % 2)
				bits = (bits & 0x8fffffffu) | 0x30000000u;
			if ((bits & 0x7f800000u) == 0x7f800000u)
				bits &= ~0x40000000u;
			memcpy(&x[i], &bits, 4);
		}
		assert_int_equal(plain->to_f16(x, 65533, a), fast->to_f16(x, 65533, b));
		same(a, b, 65533 * 2, "to_f16", 65533);
		assert_int_equal(plain->to_bf16(x, 65533, a), fast->to_bf16(x, 65533, b));
		same(a, b, 65533 * 2, "to_bf16", 65533);
	}
}

static void places(void **state)
{
	static const float least[] = {0, 1e-20f, 0.5f, 2.5f, 3.9f, 9};

	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s], words = (n + 63) / 64;
		float *x = at_end(0, (size_t)n * 4), *back = at_end(1, (size_t)n * 4), *z = at_end(2, (size_t)n * 4);

		values(x, n);
		for (int l = 0; l < 6; l++) {
			uint64_t *a = at_end(3, (size_t)words * 8), *b = at_end(4, (size_t)words * 8);
			uint32_t top[2] = {0};
			int64_t count, found[2], equal[2], above[2];
			uint32_t *cand[2];
			uint16_t *p, *q;
			float *y;

			count = plain->mark(x, n, sl_magnitude(least[l]), a, &top[0]);
			assert_int_equal(fast->mark(x, n, sl_magnitude(least[l]), b, &top[1]), count);
			assert_int_equal(top[0], top[1]);
			same(a, b, (size_t)words * 8, "mark", n);
			y = at_end(5, (size_t)count * 4);
			top[0] = top[1] = 0;
			/* `back` and `z` end at the inaccessible page, too */
			assert_int_equal(plain->gather(x, n, a, y, &top[0]), count);
			assert_int_equal(fast->gather(x, n, a, (float *)at_end(4, (size_t)count * 4), &top[1]), count);
			same(y, at_end(4, (size_t)count * 4), (size_t)count * 4, "gather", n);
			assert_int_equal(top[0], top[1]);
			assert_int_equal(plain->expand(y, n, a, back), count);
			assert_int_equal(fast->expand(y, n, a, z), count);
			same(back, z, (size_t)n * 4, "expand", n);
			p = at_end(4, (size_t)(n + 64) * 2);
			q = at_end(5, (size_t)(n + 64) * 2);
			assert_int_equal(plain->places(a, n, p), count);
			assert_int_equal(fast->places(a, n, q), count);
			same(p, q, (size_t)count * 2, "places", n);
			uint8_t *flag = at_end(4, (size_t)words * 64);
			uint64_t *again = at_end(5, (size_t)words * 8);
			for (int64_t i = 0; i < 64 * words; i++)
				flag[i] = i < n && (a[i / 64] >> i % 64 & 1);
			plain->collect(flag, n, again);
			same(a, again, (size_t)words * 8, "plain collect", n);
			fast->collect(flag, n, again);
			same(a, again, (size_t)words * 8, "collect", n);
			for (int64_t cap = 0; cap <= n; cap = cap * 3 + 50) {
				uint32_t lo = sl_magnitude(least[l]), hi = sl_magnitude(3);

				for (int t = 0; t < 2; t++) {
					cand[t] = at_end(4 + t, (size_t)(cap + 16) * 4);
					memset(cand[t], 0, (size_t)(cap + 16) * 4);
					above[t] = (t == 0 ? plain : fast)
							   ->scan(x, n, lo, hi, cand[t], cap, &found[t], &equal[t],
								  &top[t]);
				}
				assert_int_equal(above[0], above[1]);
				assert_int_equal(found[0], found[1]);
				assert_int_equal(equal[0], equal[1]);
				same(cand[0], cand[1], (size_t)(found[0] < cap ? found[0] : cap) * 4, "scan", n);
			}
		}
	}
}

/* Runs of places, some of which end where they wrap; no place from `wrap` on is drawn. */
static void drawn_places(void **state)
{
	for (int s = 0; s < SIZES; s++) {
		int64_t n = sizes[s];
		uint32_t *random = at_end(0, (size_t)n * 4), *a = at_end(1, (size_t)n * 4),
			 *b = at_end(2, (size_t)n * 4);

		for (int64_t i = 0; i < n; i++)
			random[i] = word((uint32_t)i + 7);
		for (int length = 1; length <= 9; length += 4) { /* length of a run */
			uint64_t step = ((uint64_t)length << 32) + (length > 1 ? 0x12345678u : 0);
			uint32_t wrap = (uint32_t)((uint64_t)n * step >> 32);
			uint64_t at = (wrap / 2 * UINT64_C(0x100000000)) + (length > 1 ? 0x9abcdef0u : 0);

			plain->draw(at, step, random, n, wrap, a);
			fast->draw(at, step, random, n, wrap, b);
			same(a, b, (size_t)n * 4, "draw", n);
			for (int64_t i = 0; i < n; i++)
				assert_true(a[i] < wrap);
		}
	}
}

static void products(void **state)
{
	static const int64_t ms[] = {1, 5, 16, 17, 49, 100}, cs[] = {1, 7, 16, 31, 32, 33, 48, 100};

	for (int i = 0; i < 6; i++) {
		for (int j = 0; j < 8; j++) {
			int64_t m = ms[i], c = cs[j];

			for (int r = 1; r <= 9; r++) {
				size_t xs = (size_t)(m * c) * 4, qs = (size_t)(r * m) * 4, ps = (size_t)(r * c) * 4;
				float *x = at_end(0, xs), *q = at_end(1, qs), *p = at_end(2, ps);
				float *a = at_end(3, xs + qs + ps), *b = at_end(4, ps), *d = at_end(5, qs);

				values(x, m * c);
				values(q, r * m);
				values(p, r * c);
				plain->mul_xt(x, m, c, q, r, a);
				fast->mul_xt(x, m, c, q, r, b);
				same(a, b, ps, "mul_xt", c);
				plain->mul_x(x, m, c, p, r, a);
				fast->mul_x(x, m, c, p, r, d);
				same(a, d, qs, "mul_x", c);
				plain->outer(q, p, m, c, r, a);
				b = at_end(4, xs);
				fast->outer(q, p, m, c, r, b);
				same(a, b, xs, "outer", c);
			}
		}
	}
}

static void interpolation(void **state)
{
	static const int64_t cs[] = {1, 3, 8, 31, 32, 33, 100};
	const struct sl_tap row = {0, 0, 0.25f, 0.75f};
	struct sl_tap cols[9];

	for (int j = 0; j < 9; j++)
		cols[j] = (struct sl_tap){j / 2, j < 8 ? j / 2 + 1 : 4, 0.125f * (float)j, 1 - 0.125f * (float)j};
	for (int i = 0; i < 7; i++) {
		int64_t c = cs[i];
		float *top = at_end(0, (size_t)(5 * c) * 4), *low = at_end(1, (size_t)(5 * c) * 4);
		float *a = at_end(2, (size_t)(9 * c) * 4), *b = at_end(3, (size_t)(9 * c) * 4);

		values(top, 5 * c);
		for (int64_t k = 0; k < 5 * c; k++)
			low[k] = top[5 * c - 1 - k];
		plain->interpolate(top, low, &row, cols, 9, c, a);
		fast->interpolate(top, low, &row, cols, 9, c, b);
		same(a, b, (size_t)(9 * c) * 4, "interpolate", c);
	}
}

static void butterflies(void **state)
{
	for (int64_t n = 1; n <= 4096; n *= 2) {
		float *a = at_end(0, (size_t)n * 4), *b = at_end(1, (size_t)n * 4);

		values(a, n);
		values(b, n);
		plain->butterflies(a, n);
		fast->butterflies(b, n);
		same(a, b, (size_t)n * 4, "butterflies", n);
	}
}

/* Cells of every size, widths that are no multiple of them, channels that fill no vector, any start of a run. */
static void cells(void **state)
{
	static const int64_t cs[] = {1, 3, 8, 15, 16, 17, 32, 48, 70};

	for (int i = 0; i < 9 * 6; i++) {
		int64_t c = cs[i / 6], f = i % 6 + 1, w = 11 + i % 2, lines = f < 3 ? f : 3, across = (w + f - 1) / f;
		size_t line = (size_t)(w * c) * 4, means = (size_t)(across * c);
		float *x = at_end(0, line * (size_t)lines), *a = at_end(1, means * 4), *b = at_end(2, means * 4);
		float *y = at_end(4, line), *z = at_end(5, line);
		uint8_t *mean = at_end(3, means * 2);

		values(x, lines * w * c);
		plain->average_cells(x, lines, w, f, c, a);
		fast->average_cells(x, lines, w, f, c, b);
		same(a, b, means * 4, "average_cells", c);
		plain->to_bf16(a, (int64_t)means, mean);
		assert_int_equal(plain->subtract_cells(x, mean, w, f, c, y), fast->subtract_cells(x, mean, w, f, c, z));
		same(y, z, line, "subtract_cells", c);
		for (int64_t from = 0; from < w; from += 3) {
			for (int64_t to = from; to <= w; to += 2) {
				size_t bytes = (size_t)((to - from) * c) * 4;
				float *left = at_end(0, bytes), *p = at_end(1, bytes), *q = at_end(2, bytes);

				memcpy(left, y + from * c, bytes);
				plain->add_cells(left, mean, from, to, f, c, p);
				fast->add_cells(left, mean, from, to, f, c, q);
				sl_codec_settle(fast);
				same(p, q, bytes, "add_cells", c);
			}
		}
	}
}

#define CASE(test)          \
	{                   \
#test, test \
	}

static const struct {
	const char *name;
	CMUnitTestFunction run;
} cases[] = {
	CASE(the_cpu_has_these_loops),
	CASE(statistics),
	CASE(randomness),
	CASE(affine_codes),
	CASE(signs_and_levels),
	CASE(buckets),
	CASE(packed_bits),
	CASE(halves),
	CASE(places),
	CASE(drawn_places),
	CASE(products),
	CASE(interpolation),
	CASE(butterflies),
	CASE(cells),
};
enum { CASES = sizeof cases / sizeof cases[0], TABLES = 8 };

/* Adds every case for a table of loops. If this CPU cannot run them, the portable ones take their place. */
static int add_cases(struct CMUnitTest *test, const struct sl_codec_loops *loops, const char *suffix, bool runs)
{
	static char names[TABLES * CASES][80];
	static int used;

	for (int i = 0; i < CASES; i++) {
		assert_true(used < TABLES * CASES);
		snprintf(names[used], sizeof names[used], "%s (%s%s)", cases[i].name, loops->name, suffix);
		test[i] = (struct CMUnitTest){names[used++], cases[i].run, use, NULL,
					      (void *)(uintptr_t)(runs ? loops : plain)};
	}
	return CASES;
}

int main(void)
{
	/* cmocka ignores the empty entries at the end */
	struct CMUnitTest tests[1 + TABLES * CASES] = {
		cmocka_unit_test_setup(the_cpu_codes_its_tensors_where_they_are, use)};
	int n = 1;

	for (int l = 0; sl_cpu_levels[l] != NULL; l++) {
		const struct sl_codec_loops *loops = sl_cpu_levels[l]->codec_loops;
		bool runs = sl_cpu_levels[l]->runs();

		if (loops == plain)
			continue;
		n += add_cases(tests + n, loops, "", runs);
		if (loops->streaming != NULL)
			n += add_cases(tests + n, loops->streaming, ", streaming", runs);
	}
	return cmocka_run_group_tests(tests, open_fences, NULL);
}
