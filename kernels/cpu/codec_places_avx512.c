/* Finds and marks large elements, lists their places, gathers and expands them; draws random places. */
#include "kernels/cpu/codec_vec_avx512.h"

int64_t sl_avx512_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap,
		       int64_t *n_cand, int64_t *equal, uint32_t *top)
{
	const __m512i low = _mm512_set1_epi32((int)lo), high = _mm512_set1_epi32((int)hi);
	__m512i most = _mm512_set1_epi32((int)*top);
	int64_t i = 0, above = 0, same = 0, found = 0, rest_found, rest_equal;

	for (; i + 16 <= n; i += 16) {
		__m512i m = magnitude16(_mm512_loadu_ps(x + i));
		__mmask16 up = _mm512_cmpge_epu32_mask(m, high);
		__mmask16 between = _mm512_mask_cmpgt_epu32_mask((__mmask16)~up, m, low);

		ask_ahead(x + i);
		most = _mm512_max_epu32(m, most);
		above += __builtin_popcount(up);
		same += __builtin_popcount(_mm512_cmpeq_epu32_mask(m, low));
		if (found < cap)
			_mm512_storeu_si512(cand + found, _mm512_maskz_compress_epi32(between, m));
		found += __builtin_popcount(between);
	}
	*top = _mm512_reduce_max_epu32(most);
	above += sl_c_scan(x + i, n - i, lo, hi, cand + (found < cap ? found : cap), found < cap ? cap - found : 0,
			   &rest_found, &rest_equal, top);
	*n_cand = found + rest_found;
	*equal = same + rest_equal;
	return above;
}

#define NAME(x) sl_avx512_##x
#include "kernels/cpu/body_mark.h"

static int64_t marked(const uint64_t *bitmap, int64_t words)
{
	int64_t count = 0;

	for (int64_t w = 0; w < words; w++)
		count += __builtin_popcountll(bitmap[w]);
	return count;
}

static inline __mmask16 first(int64_t count)
{
	return count < 16 ? (__mmask16)((1u << count) - 1) : (__mmask16)0xffff;
}

/* Packs the elements that a word marks to y, by stores of whole registers; the next store overwrites the
 * excess. With `tight`, a constant, only `room` values may be written. Returns the number of elements. */
INLINE int64_t gather_word(const float *x, uint64_t word, sl_f32u *y, int64_t room, __m512i *most, bool tight)
{
	int64_t count = 0;

	for (int j = 0; j < 4; j++) {
		__mmask16 m = (__mmask16)(word >> 16 * j);
		__m512 v = _mm512_loadu_ps(x + 16 * j), packed = _mm512_maskz_compress_ps(m, v);

		/* the next tile: this one is in the cache, because it was marked just before */
		_mm_prefetch((const char *)(x + 16 * j + SL_CODEC_TILE), _MM_HINT_T0);
		*most = _mm512_max_epu32(magnitude16(v), *most);
		if (tight)
			_mm512_mask_storeu_ps((void *)(y + count), first(room - count), packed);
		else
			_mm512_storeu_ps((void *)(y + count), packed);
		count += __builtin_popcount(m);
	}
	return count;
}

int64_t sl_avx512_gather(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top)
{
	int64_t words = n / 64, total = marked(bitmap, words), count = 0, w = 0;
	__m512i most = _mm512_set1_epi32((int)*top);

	for (; w < words && count + 64 <= total; w++)
		count += gather_word(x + 64 * w, bitmap[w], y + count, 0, &most, false);
	for (; w < words; w++)
		count += gather_word(x + 64 * w, bitmap[w], y + count, total - count, &most, true);
	*top = _mm512_reduce_max_epu32(most);
	return count + sl_c_gather(x + 64 * words, n - 64 * words, bitmap + words, y + count, top);
}

INLINE int64_t expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x, bool stream)
{
	int64_t words = n / 64, total = marked(bitmap, words), count = 0;

	for (int64_t w = 0; w < words; w++) {
		uint64_t word = bitmap[w];

		for (int j = 0; j < 4; j++) {
			__mmask16 m = (__mmask16)(word >> 16 * j);
			__m512 v = count + 16 <= total
					   ? _mm512_loadu_ps((const void *)(y + count))
					   : _mm512_maskz_loadu_ps(first(total - count), (const void *)(y + count));

			put16(x + 64 * w + 16 * j, _mm512_maskz_expand_ps(m, v), stream);
			count += __builtin_popcount(m);
		}
	}
	return count + sl_c_expand(y + count, n - 64 * words, bitmap + words, x + 64 * words);
}

int64_t sl_avx512_expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x)
{
	return expand(y, n, bitmap, x, false);
}

int64_t sl_avx512_stream_expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x)
{
	int64_t taken = can_stream(x) ? expand(y, n, bitmap, x, true) : expand(y, n, bitmap, x, false);

	_mm_sfence();
	return taken;
}

void sl_avx512_collect(const uint8_t *flag, int64_t n, uint64_t *bitmap)
{
	for (int64_t i = 0; i < n; i += 64) {
		__m512i v = _mm512_loadu_si512(flag + i);

		bitmap[i / 64] = _mm512_test_epi8_mask(v, v);
	}
}

/* A whole word at a time, for CPUs that can compress bytes (AVX512-VBMI2). */
__attribute__((target("avx512vbmi2"))) static int64_t places_of_words(const uint64_t *bitmap, int64_t n, uint16_t *out)
{
	const __m512i one = _mm512_set1_epi8(1);
	__m512i lane = _mm512_setzero_si512();
	int64_t count = 0;

	for (int j = 1; j < 64; j++)
		lane = _mm512_mask_add_epi8(lane, ~UINT64_C(0) << j, lane, one);
	for (int64_t i = 0; i < n; i += 64) {
		uint64_t word = bitmap[i / 64];
		__m512i v = _mm512_maskz_compress_epi8(word, lane), base = _mm512_set1_epi16((int16_t)i);
		int found = __builtin_popcountll(word);

		_mm512_storeu_si512(out + count,
				    _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(v)), base));
		if (found > 32)
			_mm512_storeu_si512(
				out + count + 32,
				_mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(v, 1)), base));
		count += found;
	}
	return count;
}

int64_t sl_avx512_places(const uint64_t *bitmap, int64_t n, uint16_t *out)
{
	__m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	const __m512i step = _mm512_set1_epi32(16);
	int64_t count = 0;

	if (__builtin_cpu_supports("avx512vbmi2"))
		return places_of_words(bitmap, n, out);

	for (int64_t i = 0; i < n; i += 64) {
		uint64_t word = bitmap[i / 64];

		for (int j = 0; j < 4; j++) {
			__mmask16 m = (__mmask16)(word >> 16 * j);

			_mm256_storeu_si256((void *)(out + count),
					    _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(m, lane)));
			count += __builtin_popcount(m);
			lane = _mm512_add_epi32(lane, step);
		}
	}
	return count;
}

void sl_avx512_draw(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place)
{
	const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), one = _mm512_set1_epi64((int64_t)step);
	const __m512i eight = _mm512_set1_epi64((int64_t)(8 * step)), end = _mm512_set1_epi64(wrap);
	__m512i here = _mm512_add_epi64(_mm512_set1_epi64((int64_t)at), _mm512_mullo_epi64(lane, one));
	int64_t j = 0;

	for (; j + 8 <= n; j += 8) {
		__m512i w = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(word + j)));
		__m512i start = _mm512_srli_epi64(here, 32);
		__m512i length = _mm512_sub_epi64(_mm512_srli_epi64(_mm512_add_epi64(here, one), 32), start);
		__m512i p = _mm512_add_epi64(start, _mm512_srli_epi64(_mm512_mul_epu32(w, length), 32));

		p = _mm512_mask_sub_epi64(p, _mm512_cmpge_epu64_mask(p, end), p, end);
		_mm256_storeu_si256((void *)(place + j), _mm512_cvtepi64_epi32(p));
		here = _mm512_add_epi64(here, eight);
	}
	sl_c_draw(at + (uint64_t)j * step, step, word + j, n - j, wrap, place + j);
}
