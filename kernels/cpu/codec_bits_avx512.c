/* Packs codes to bits and unpacks them; 16-bit floats. */
#include <string.h>

#include "kernels/cpu/codec_vec_avx512.h"

enum { AT_ONCE = 32, SLACK = 64 };

struct packer {
	__m128i b1, b2, b4, rest;
};

static inline struct packer packer_of(int bits)
{
	return (struct packer){_mm_cvtsi32_si128(bits), _mm_cvtsi32_si128(2 * bits), _mm_cvtsi32_si128(4 * bits),
			       _mm_cvtsi32_si128(64 - 4 * bits)};
}

/* Packs 32 codes: joins pairs within 32 bits, pairs of these within 64, and pairs of these within 128. Each
 * 128-bit lane then begins with the `bits` bytes of 8 codes. Writes 3·bits + 16 bytes, of which 4·bits count. */
static inline void pack32(const struct packer *p, const uint16_t *code, int bits, uint8_t *out)
{
	const __m512i low16 = _mm512_set1_epi32(0xffff), low32 = _mm512_set1_epi64(0xffffffff);
	__m512i v = _mm512_loadu_si512(code), up, low, high;

	up = _mm512_sll_epi32(_mm512_srli_epi32(v, 16), p->b1);
	v = _mm512_ternarylogic_epi32(v, low16, up, 0xea); /* (v & low16) | up */
	up = _mm512_sll_epi64(_mm512_srli_epi64(v, 32), p->b2);
	v = _mm512_ternarylogic_epi32(v, low32, up, 0xea);
	up = _mm512_unpackhi_epi64(v, v);
	low = _mm512_or_si512(v, _mm512_sll_epi64(up, p->b4));
	high = _mm512_srl_epi64(up, p->rest);
	v = _mm512_unpacklo_epi64(low, high);
	_mm_storeu_si128((void *)out, _mm512_castsi512_si128(v));
	_mm_storeu_si128((void *)(out + bits), _mm512_extracti32x4_epi32(v, 1));
	_mm_storeu_si128((void *)(out + 2 * bits), _mm512_extracti32x4_epi32(v, 2));
	_mm_storeu_si128((void *)(out + 3 * bits), _mm512_extracti32x4_epi32(v, 3));
}

static void pack_any(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	const struct packer p = packer_of(bits);
	const uint8_t *end = out + sl_packed_bytes(n, bits);
	uint16_t last[3 * AT_ONCE] = {0};
	uint8_t packed[3 * 2 * AT_ONCE + SLACK];
	int64_t i = 0;

	for (; i + AT_ONCE <= n && out + 3 * bits + 16 <= end; i += AT_ONCE, out += 4 * bits)
		pack32(&p, code + i, bits, out);
	/* the last codes go through a buffer, because pack32 stores more bytes than count */
	while (i < n) {
		int64_t some = n - i < 3 * AT_ONCE ? n - i : 3 * AT_ONCE;

		memcpy(last, code + i, (size_t)some * sizeof *last);
		memset(last + some, 0, (size_t)(3 * AT_ONCE - some) * sizeof *last);
		for (int h = 0; h < 3; h++)
			pack32(&p, last + AT_ONCE * h, bits, packed + 4 * bits * h);
		memcpy(out, packed, (size_t)sl_packed_bytes(some, bits));
		out += sl_packed_bytes(some, bits);
		i += some;
	}
}

void sl_avx512_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	int64_t i = 0;

	if (bits == 16) {
		memcpy(out, code, (size_t)n * 2);
	} else if (bits == 8) {
		for (; i + AT_ONCE <= n; i += AT_ONCE)
			_mm256_storeu_si256((void *)(out + i), _mm512_cvtepi16_epi8(_mm512_loadu_si512(code + i)));
		sl_c_pack(code + i, n - i, 8, out + i);
	} else {
		pack_any(code, n, bits, out);
	}
}

/* Location of each of 32 codes in 4·bits ≤ 60 bytes: its first 32-bit word, and the shifts of this and the
 * next word. */
struct unpacker {
	__m512i word[2], next[2], down[2], up[2], mask;
};

static inline struct unpacker unpacker_of(int bits)
{
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	struct unpacker u = {.mask = _mm512_set1_epi32((1 << bits) - 1)};

	for (int h = 0; h < 2; h++) {
		__m512i bit =
			_mm512_mullo_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16 * h)), _mm512_set1_epi32(bits));

		u.word[h] = _mm512_srli_epi32(bit, 5);
		u.next[h] = _mm512_add_epi32(u.word[h], _mm512_set1_epi32(1));
		u.down[h] = _mm512_and_si512(bit, _mm512_set1_epi32(31));
		u.up[h] = _mm512_sub_epi32(_mm512_set1_epi32(32), u.down[h]);
	}
	return u;
}

/* Reads 64 bytes. */
static inline void unpack32(const struct unpacker *u, const uint8_t *in, uint16_t *code)
{
	__m512i v = _mm512_loadu_si512(in);

	for (int h = 0; h < 2; h++) {
		__m512i low = _mm512_srlv_epi32(_mm512_permutexvar_epi32(u->word[h], v), u->down[h]);
		__m512i high = _mm512_sllv_epi32(_mm512_permutexvar_epi32(u->next[h], v), u->up[h]);
		__m512i c = _mm512_ternarylogic_epi32(low, high, u->mask, 0xa8); /* (low | high) & mask */

		_mm256_storeu_si256((void *)(code + 16 * h), _mm512_cvtepi32_epi16(c));
	}
}

static void unpack_any(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	const struct unpacker u = unpacker_of(bits);
	const uint8_t *end = in + sl_packed_bytes(n, bits);
	int64_t i = 0;

	for (; i + AT_ONCE <= n && in + SLACK <= end; i += AT_ONCE, in += 4 * bits)
		unpack32(&u, in, code + i);
	while (i < n) {
		/* the last codes come from a buffer, because unpack32 reads 64 bytes */
		uint8_t last[SLACK] = {0};
		uint16_t some[AT_ONCE];
		size_t left = (size_t)(end - in);
		int64_t count = n - i < AT_ONCE ? n - i : AT_ONCE;

		memcpy(last, in, left < SLACK ? left : SLACK);
		unpack32(&u, last, some);
		memcpy(code + i, some, (size_t)count * sizeof *some);
		i += count;
		in += 4 * bits;
	}
}

void sl_avx512_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	int64_t i = 0;

	if (bits == 16) {
		memcpy(code, in, (size_t)n * 2);
	} else if (bits == 8) {
		for (; i + AT_ONCE <= n; i += AT_ONCE)
			_mm512_storeu_si512(code + i, _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(in + i))));
		sl_c_unpack(in + i, n - i, 8, code + i);
	} else {
		unpack_any(in, n, bits, code);
	}
}

#define NAME(x) sl_avx512_##x
#include "kernels/cpu/body_half.h"

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

INLINE void from_bf16(const uint8_t *in, int64_t n, float *x, bool stream)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		put16(x + i, vec_of_bf16(in + 2 * i), stream);
	sl_c_from_bf16(in + 2 * i, n - i, x + i);
}

void sl_avx512_from_bf16(const uint8_t *in, int64_t n, float *x)
{
	from_bf16(in, n, x, false);
}

void sl_avx512_stream_from_bf16(const uint8_t *in, int64_t n, float *x)
{
	if (can_stream(x))
		from_bf16(in, n, x, true);
	else
		from_bf16(in, n, x, false);
	_mm_sfence();
}
