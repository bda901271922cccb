/* Codes to packed bits and back; 16-bit floats. */
#include <string.h>

#include "kernels/cpu/codec_avx512.h"

static int64_t pack_bytes(const uint16_t *code, int64_t n, uint8_t *out)
{
	int64_t i = 0;

	for (; i + 32 <= n; i += 32)
		_mm256_storeu_si256((void *)(out + i), _mm512_cvtepi16_epi8(_mm512_loadu_si512(code + i)));
	return i;
}

/* 32 codes at a time: pairs within 32 bits, pairs of those within 64, pairs of those within 128; each 128 then starts
 * with the `bits` bytes of 8 codes. The 16-byte stores overlap; the last ones of the stream are left to plain C. */
static int64_t pack_any(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	const __m128i b1 = _mm_cvtsi32_si128(bits), b2 = _mm_cvtsi32_si128(2 * bits), b4 = _mm_cvtsi32_si128(4 * bits);
	const __m128i rest = _mm_cvtsi32_si128(64 - 4 * bits);
	const __m512i low16 = _mm512_set1_epi32(0xffff), low32 = _mm512_set1_epi64(0xffffffff);
	const uint8_t *end = out + sl_packed_bytes(n, bits);
	int64_t i = 0;

	for (; i + 32 <= n && out + 3 * bits + 16 <= end; i += 32, out += 4 * bits) {
		__m512i v = _mm512_loadu_si512(code + i), up, low, high;

		up = _mm512_sll_epi32(_mm512_srli_epi32(v, 16), b1);
		v = _mm512_ternarylogic_epi32(v, low16, up, 0xea); /* (v & low16) | up */
		up = _mm512_sll_epi64(_mm512_srli_epi64(v, 32), b2);
		v = _mm512_ternarylogic_epi32(v, low32, up, 0xea);
		up = _mm512_unpackhi_epi64(v, v);
		low = _mm512_or_si512(v, _mm512_sll_epi64(up, b4));
		high = _mm512_srl_epi64(up, rest);
		v = _mm512_unpacklo_epi64(low, high);
		_mm_storeu_si128((void *)out, _mm512_castsi512_si128(v));
		_mm_storeu_si128((void *)(out + bits), _mm512_extracti32x4_epi32(v, 1));
		_mm_storeu_si128((void *)(out + 2 * bits), _mm512_extracti32x4_epi32(v, 2));
		_mm_storeu_si128((void *)(out + 3 * bits), _mm512_extracti32x4_epi32(v, 3));
	}
	return i;
}

void sl_avx512_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	int64_t i = bits == 16 ? 0 : bits == 8 ? pack_bytes(code, n, out) : pack_any(code, n, bits, out);

	sl_c_pack(code + i, n - i, bits, out + i / 8 * bits);
}

static int64_t unpack_bytes(const uint8_t *in, int64_t n, uint16_t *code)
{
	int64_t i = 0;

	for (; i + 32 <= n; i += 32)
		_mm512_storeu_si512(code + i, _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(in + i))));
	return i;
}

/* 32 codes lie in 4·bits ≤ 60 bytes: the two 32-bit words that hold each are brought to its lane and shifted. */
static int64_t unpack_any(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	const __m512i one = _mm512_set1_epi32(1), wide = _mm512_set1_epi32(32), low5 = _mm512_set1_epi32(31);
	const __m512i mask = _mm512_set1_epi32((1 << bits) - 1);
	const uint8_t *end = in + sl_packed_bytes(n, bits);
	__m512i word[2], down[2], up[2];
	int64_t i = 0;

	for (int h = 0; h < 2; h++) {
		__m512i bit =
			_mm512_mullo_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16 * h)), _mm512_set1_epi32(bits));

		word[h] = _mm512_srli_epi32(bit, 5);
		down[h] = _mm512_and_si512(bit, low5);
		up[h] = _mm512_sub_epi32(wide, down[h]);
	}
	for (; i + 32 <= n && in + 64 <= end; i += 32, in += 4 * bits) {
		__m512i v = _mm512_loadu_si512(in);

		for (int h = 0; h < 2; h++) {
			__m512i low = _mm512_srlv_epi32(_mm512_permutexvar_epi32(word[h], v), down[h]);
			__m512i next = _mm512_permutexvar_epi32(_mm512_add_epi32(word[h], one), v);
			__m512i c = _mm512_ternarylogic_epi32(low, _mm512_sllv_epi32(next, up[h]), mask,
							      0xa8); /* (a | b) & c */

			_mm256_storeu_si256((void *)(code + i + 16 * h), _mm512_cvtepi32_epi16(c));
		}
	}
	return i;
}

void sl_avx512_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	int64_t i = bits == 16 ? 0 : bits == 8 ? unpack_bytes(in, n, code) : unpack_any(in, n, bits, code);

	sl_c_unpack(in + i / 8 * bits, n - i, bits, code + i);
}

uint32_t sl_avx512_to_f16(const float *x, int64_t n, uint8_t *out)
{
	const __m512 most = _mm512_set1_ps(65504), least = _mm512_set1_ps(-65504);
	__m512i top = _mm512_setzero_si512();
	uint32_t all, rest;
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);

		top = _mm512_max_epu32(magnitude16(v), top);
		v = _mm512_max_ps(_mm512_min_ps(v, most), least);
		_mm256_storeu_si256((void *)(out + 2 * i), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
	}
	all = _mm512_reduce_max_epu32(top);
	rest = sl_c_to_f16(x + i, n - i, out + 2 * i);
	return all > rest ? all : rest;
}

void sl_avx512_from_f16(const uint8_t *in, int64_t n, float *x)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		_mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(in + 2 * i))));
	sl_c_from_f16(in + 2 * i, n - i, x + i);
}

uint32_t sl_avx512_to_bf16(const float *x, int64_t n, uint8_t *out)
{
	const __m512i most = _mm512_set1_epi32(0x7f7f0000), half = _mm512_set1_epi32(0x7fff),
		      one = _mm512_set1_epi32(1);
	const __m512i sign = _mm512_set1_epi32(0x8000);
	__m512i top = _mm512_setzero_si512();
	uint32_t all, rest;
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__m512i m = magnitude16(v), odd;

		top = _mm512_max_epu32(m, top);
		m = _mm512_min_epu32(m, most);
		odd = _mm512_and_si512(_mm512_srli_epi32(m, 16), one);
		m = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(m, half), odd), 16);
		m = _mm512_or_si512(m, _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(v), 16), sign));
		_mm256_storeu_si256((void *)(out + 2 * i), _mm512_cvtepi32_epi16(m));
	}
	all = _mm512_reduce_max_epu32(top);
	rest = sl_c_to_bf16(x + i, n - i, out + 2 * i);
	return all > rest ? all : rest;
}

void sl_avx512_from_bf16(const uint8_t *in, int64_t n, float *x)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(in + 2 * i)));

		_mm512_storeu_si512(x + i, _mm512_slli_epi32(v, 16));
	}
	sl_c_from_bf16(in + 2 * i, n - i, x + i);
}
