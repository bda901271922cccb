/* Packs codes to bits and unpacks them; half floats. */

#include "kernels/cpu/codec_vec_avx2.h"

enum { AT_ONCE = 16, SLACK = 32 };

/* Packs 16 codes: joins pairs within 32 bits, pairs of these within 64, and pairs of these within 128. Each
 * 128-bit lane then begins with the `bits` bytes of 8 codes. Writes bits + 16 bytes, of which 2·bits count. */
static inline void pack16(const uint16_t *code, int bits, uint8_t *out)
{
	const __m256i low16 = _mm256_set1_epi32(0xffff), low32 = _mm256_set1_epi64x(0xffffffff);
	__m256i v = _mm256_loadu_si256((const void *)code), up, low, high;

	up = _mm256_sll_epi32(_mm256_srli_epi32(v, 16), _mm_cvtsi32_si128(bits));
	v = _mm256_or_si256(_mm256_and_si256(v, low16), up);
	up = _mm256_sll_epi64(_mm256_srli_epi64(v, 32), _mm_cvtsi32_si128(2 * bits));
	v = _mm256_or_si256(_mm256_and_si256(v, low32), up);
	up = _mm256_unpackhi_epi64(v, v);
	low = _mm256_or_si256(v, _mm256_sll_epi64(up, _mm_cvtsi32_si128(4 * bits)));
	high = _mm256_srl_epi64(up, _mm_cvtsi32_si128(64 - 4 * bits));
	v = _mm256_unpacklo_epi64(low, high);
	_mm_storeu_si128((void *)out, _mm256_castsi256_si128(v));
	_mm_storeu_si128((void *)(out + bits), _mm256_extracti128_si256(v, 1));
}

void sl_avx2_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	const __m256i low8 = _mm256_set1_epi16(0xff);
	const uint8_t *end = out + sl_packed_bytes(n, bits);
	int64_t i = 0;

	if (bits == 8) {
		for (; i + 2 * AT_ONCE <= n; i += 2 * AT_ONCE) {
			__m256i a = _mm256_and_si256(_mm256_loadu_si256((const void *)(code + i)), low8);
			__m256i b = _mm256_and_si256(_mm256_loadu_si256((const void *)(code + i + AT_ONCE)), low8);

			_mm256_storeu_si256((void *)(out + i),
					    _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8));
		}
		out += i;
	} else if (bits < 16) {
		for (; i + AT_ONCE <= n && out + bits + 16 <= end; i += AT_ONCE, out += 2 * bits)
			pack16(code + i, bits, out);
	}
	sl_c_pack(code + i, n - i, bits, out);
}

/* Location of each of 8 codes in `bits` bytes: the bytes that hold it, and its bit offset in the first of
 * them. */
struct unpacker {
	__m256i bytes, down, mask;
};

static inline struct unpacker unpacker_of(int bits)
{
	uint8_t byte[32];
	uint32_t down[8];

	for (int i = 0; i < 8; i++) {
		int bit = i * bits;

		down[i] = (uint32_t)bit % 8;
		for (int j = 0; j < 4; j++)
			byte[4 * i + j] = (uint8_t)(bit / 8 + j < 16 ? bit / 8 + j : 0x80);
	}
	return (struct unpacker){_mm256_loadu_si256((const void *)byte), _mm256_loadu_si256((const void *)down),
				 _mm256_set1_epi32((1 << bits) - 1)};
}

/* Reads 16 bytes. */
static inline __m256i unpack8(const struct unpacker *u, const uint8_t *in)
{
	__m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)in));

	return _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, u->bytes), u->down), u->mask);
}

void sl_avx2_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	const uint8_t *end = in + sl_packed_bytes(n, bits);
	int64_t i = 0;

	if (bits == 8) {
		for (; i + AT_ONCE <= n; i += AT_ONCE, in += AT_ONCE)
			_mm256_storeu_si256((void *)(code + i),
					    _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)in)));
	} else if (bits < 16) {
		const struct unpacker u = unpacker_of(bits);

		for (; i + AT_ONCE <= n && in + SLACK <= end; i += AT_ONCE, in += 2 * bits) {
			__m256i pairs = _mm256_packus_epi32(unpack8(&u, in), unpack8(&u, in + bits));

			_mm256_storeu_si256((void *)(code + i), _mm256_permute4x64_epi64(pairs, 0xd8));
		}
	}
	sl_c_unpack(in, n - i, bits, code + i);
}

#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_half.h"
