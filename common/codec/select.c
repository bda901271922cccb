#include "common/codec/select.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/loops_c.h"
#include "common/codec/places.h"

enum {
	BINS = 2048,
	OUTSIDE = BINS, /* the bin of all other values: a branch would be mispredicted half the time */
	ALL_BINS = BINS + 1,
	CANDIDATES = 4096, /* the most of one block; with more, the histograms decide */
	CANDIDATE_STRIDE = CANDIDATES + 16,
	RUN = 16
};

struct sl_select {
	const struct sl_codec_loops *loops;
	struct sl_pool *pool;
	int threads;
	int64_t *above, *equal, *found; /* [blocks] */
	uint32_t *candidate;            /* [blocks][CANDIDATE_STRIDE] */
	uint32_t *top;                  /* [blocks] */
	uint32_t *bins;                 /* [threads][ALL_BINS] */
	uint32_t *sample, *scratch;     /* [SL_SAMPLE] */
	/* of the running call */
	const float *x;
	int64_t n, cap;
	uint32_t lo, hi;
	int shift;
};

void sl_select_memory(const struct sl_stage_env *env, struct sl_memory *need)
{
	const struct sl_select *s = NULL;
	int64_t blocks = sl_codec_blocks(sl_shape_count(&env->most.shape));

	sl_need(&need->host, 1, sizeof *s);
	sl_need(&need->host, blocks, sizeof *s->above + sizeof *s->equal + sizeof *s->found + sizeof *s->top);
	sl_need(&need->host, blocks, CANDIDATE_STRIDE * sizeof *s->candidate);
	sl_need(&need->host, sl_stage_threads(env), ALL_BINS * sizeof *s->bins);
	sl_need(&need->host, SL_SAMPLE, sizeof *s->sample + sizeof *s->scratch);
}

enum sl_err sl_select_open(struct sl_select **out, const struct sl_stage_env *env, struct sl_fail *fail)
{
	int64_t n = sl_shape_count(&env->most.shape);
	size_t blocks = (size_t)sl_codec_blocks(n);
	struct sl_select *s = calloc(1, sizeof *s);

	if (s == NULL)
		goto fail;
	s->loops = env->loops;
	s->pool = env->pool;
	s->threads = (int)sl_stage_threads(env);
	s->above = calloc(blocks, sizeof *s->above);
	s->equal = calloc(blocks, sizeof *s->equal);
	s->found = calloc(blocks, sizeof *s->found);
	s->top = calloc(blocks, sizeof *s->top);
	s->bins = calloc((size_t)s->threads * ALL_BINS, sizeof *s->bins);
	s->candidate = malloc(blocks * CANDIDATE_STRIDE * sizeof *s->candidate);
	s->sample = malloc(SL_SAMPLE * sizeof *s->sample);
	s->scratch = malloc(SL_SAMPLE * sizeof *s->scratch);
	if (s->above == NULL || s->equal == NULL || s->found == NULL || s->top == NULL || s->bins == NULL ||
	    s->candidate == NULL || s->sample == NULL || s->scratch == NULL)
		goto fail;
	*out = s;
	return SL_OK;
fail:
	sl_select_close(s);
	return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory to select among %lld elements", (long long)n);
}

void sl_select_close(struct sl_select *s)
{
	if (s == NULL)
		return;
	free(s->above);
	free(s->equal);
	free(s->found);
	free(s->top);
	free(s->bins);
	free(s->candidate);
	free(s->sample);
	free(s->scratch);
	free(s);
}

/* Radix sort by digits of eleven bits, which one pass counts all at once. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3 };

void sl_radix_sort(uint32_t *key, uint32_t *scratch, int64_t n)
{
	uint32_t at[PASSES][DIGITS] = {0}, *from = key, *to = scratch, *old;

	for (int64_t i = 0; i < n; i++) {
		for (int p = 0; p < PASSES; p++)
			at[p][key[i] >> DIGIT_BITS * p & (DIGITS - 1)]++;
	}
	for (int p = 0; p < PASSES; p++) {
		uint32_t sum = 0;

		for (int d = 0; d < DIGITS; d++) {
			uint32_t count = at[p][d];

			at[p][d] = sum;
			sum += count;
		}
		for (int64_t i = 0; i < n; i++)
			to[at[p][from[i] >> DIGIT_BITS * p & (DIGITS - 1)]++] = from[i];
		old = from;
		from = to;
		to = old;
	}
	memcpy(key, from, (size_t)n * sizeof *key);
}

void sl_sample(const float *x, int64_t n, bool sign, uint32_t out[SL_SAMPLE])
{
	const uint32_t mask = sign ? 0xffffffffu : 0x7fffffffu;
	const int64_t runs = SL_SAMPLE / RUN, step = n / runs;

	for (int64_t r = 0; r < runs; r++) {
		/* runs at equal distances would meet the same channels again and again */
		uint32_t mix = (uint32_t)r * 2654435761u;
		int64_t at = r * step + (int64_t)((uint64_t)(mix ^ mix >> 15) * (uint64_t)(step - RUN + 1) >> 32);

		for (int j = 0; j < RUN; j++) {
			uint32_t bits;

			memcpy(&bits, &x[at + j], sizeof bits);
			out[r * RUN + j] = bits & mask;
		}
	}
}

/* ---- one scan */

static void scan_block(void *arg, int64_t block, int worker)
{
	struct sl_select *s = arg;

	s->top[block] = 0;
	s->above[block] = s->loops->scan(s->x + block * SL_CODEC_BLOCK, sl_block_length(s->n, block), s->lo, s->hi,
					 s->candidate + block * CANDIDATE_STRIDE, s->cap, &s->found[block],
					 &s->equal[block], &s->top[block]);
}

/* Scans x, and collects up to `cap` candidates of every block, strictly between lo and hi. */
static enum sl_err scan(struct sl_select *s, uint32_t lo, uint32_t hi, int64_t cap)
{
	int64_t blocks = sl_codec_blocks(s->n);

	s->lo = lo;
	s->hi = hi;
	s->cap = cap;
	sl_pool_run(s->pool, blocks, scan_block, s);
	for (int64_t b = 0; b < blocks; b++) {
		if (s->top[b] >= SL_F32_INF_BITS)
			return SL_ERR_NONFINITE;
	}
	return SL_OK;
}

static int shift_of(uint32_t span)
{
	int shift = 0;

	while (((span - 1) >> shift) >= BINS)
		shift++;
	return shift;
}

static inline uint32_t bin_of(uint32_t m, uint32_t lo, uint32_t hi, int shift)
{
	return m - lo < hi - lo ? (m - lo) >> shift : OUTSIDE;
}

/* The bin where the k-th largest lies; *k becomes its rank in that bin. -1: there are fewer than k. */
static int find_bin(const uint32_t *bins, int64_t *k)
{
	for (int b = BINS - 1; b >= 0; b--) {
		if (*k <= bins[b])
			return b;
		*k -= bins[b];
	}
	return -1;
}

static void add_bins(struct sl_select *s)
{
	for (int t = 1; t < s->threads; t++) {
		for (int b = 0; b < BINS; b++)
			s->bins[b] += s->bins[t * ALL_BINS + b];
	}
}

static void count_candidates(void *arg, int64_t block, int worker)
{
	struct sl_select *s = arg;
	const uint32_t *c = s->candidate + block * CANDIDATE_STRIDE;
	uint32_t *bins = s->bins + (size_t)worker * ALL_BINS;

	for (int64_t i = 0; i < s->found[block]; i++)
		bins[bin_of(c[i], s->lo, s->hi, s->shift)]++;
}

/* Finds the k-th largest candidate within [lo, hi), as s->lo. */
static void select_candidate(struct sl_select *s, uint32_t lo, uint32_t hi, int64_t k)
{
	while (hi - lo > 1) {
		uint32_t first;

		s->lo = lo;
		s->hi = hi;
		s->shift = shift_of(hi - lo);
		memset(s->bins, 0, (size_t)s->threads * ALL_BINS * sizeof *s->bins);
		sl_pool_run(s->pool, sl_codec_blocks(s->n), count_candidates, s);
		add_bins(s);
		first = lo + ((uint32_t)find_bin(s->bins, &k) << s->shift);
		hi = hi - first > 1u << s->shift ? first + (1u << s->shift) : hi;
		lo = first;
	}
	s->lo = lo;
}

/* Counts a block's candidates that are above the k-th largest, and those equal to it. */
static void place_candidates(void *arg, int64_t block, int worker)
{
	struct sl_select *s = arg;
	const uint32_t *c = s->candidate + block * CANDIDATE_STRIDE;
	int64_t above = 0, equal = 0;

	for (int64_t i = 0; i < s->found[block]; i++) {
		above += c[i] > s->lo;
		equal += c[i] == s->lo;
	}
	s->above[block] += above;
	s->equal[block] = equal;
}

/* Tries to find the k-th largest with one scan. *done false: it is not between the values that the sample gave, or
 * there are too many candidates. */
static enum sl_err select_by_sample(struct sl_select *s, int64_t k, bool *done)
{
	int64_t blocks = sl_codec_blocks(s->n), above = 0, found = 0, equal = 0;
	int64_t rank = (int64_t)((double)k / (double)s->n * SL_SAMPLE), margin = SL_SAMPLE / 128;
	int64_t at_hi = SL_SAMPLE - 1 - (rank - margin), at_lo = SL_SAMPLE - 1 - (rank + margin);
	bool full = false;
	uint32_t lo, hi;
	enum sl_err err;

	sl_sample(s->x, s->n, false, s->sample);
	sl_radix_sort(s->sample, s->scratch, SL_SAMPLE);
	hi = at_hi >= SL_SAMPLE ? SL_F32_INF_BITS : s->sample[at_hi];
	lo = at_lo < 0 ? 0 : s->sample[at_lo];
	if (hi <= lo)
		hi = lo + 1;
	err = scan(s, lo, hi, CANDIDATES);
	if (err)
		return err;
	for (int64_t b = 0; b < blocks; b++) {
		above += s->above[b];
		found += s->found[b];
		equal += s->equal[b];
		full = full || s->found[b] > CANDIDATES;
	}
	*done = !full && k > above && k <= above + found + equal;
	if (!*done)
		return SL_OK;
	if (k > above + found) {
		s->lo = lo;
		for (int64_t b = 0; b < blocks; b++)
			s->above[b] += s->found[b];
		return SL_OK;
	}
	select_candidate(s, lo + 1, hi, k - above);
	sl_pool_run(s->pool, blocks, place_candidates, s);
	return SL_OK;
}

/* ---- histograms */

static void count_block(void *arg, int64_t block, int worker)
{
	struct sl_select *s = arg;
	const float *x = s->x + block * SL_CODEC_BLOCK;
	int64_t len = sl_block_length(s->n, block);
	uint32_t *bins = s->bins + (size_t)worker * ALL_BINS;

	for (int64_t i = 0; i < len; i++)
		bins[bin_of(sl_magnitude(x[i]), s->lo, s->hi, s->shift)]++;
}

static enum sl_err select_by_histogram(struct sl_select *s, int64_t k)
{
	uint32_t lo = 0, hi = SL_F32_INF_BITS;

	while (hi - lo > 1) {
		int bin;

		s->lo = lo;
		s->hi = hi;
		s->shift = shift_of(hi - lo);
		memset(s->bins, 0, (size_t)s->threads * ALL_BINS * sizeof *s->bins);
		sl_pool_run(s->pool, sl_codec_blocks(s->n), count_block, s);
		add_bins(s);
		bin = find_bin(s->bins, &k);
		if (bin < 0)
			return SL_ERR_NONFINITE;
		lo += (uint32_t)bin << s->shift;
		hi = hi - lo > 1u << s->shift ? lo + (1u << s->shift) : hi;
	}
	return scan(s, lo, lo + 1, 0);
}

enum sl_err sl_select_run(struct sl_select *s, const float *x, int64_t n, int64_t k, struct sl_selection *out)
{
	bool done = false;
	enum sl_err err = SL_OK;

	s->x = x;
	s->n = n;
	if (n > SL_SAMPLE)
		err = select_by_sample(s, k, &done);
	if (!err && !done)
		err = select_by_histogram(s, k);
	if (err)
		return err;
	*out = (struct sl_selection){s->lo, s->above, s->equal};
	return SL_OK;
}
