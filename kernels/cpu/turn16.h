/* Transposes 16x16 words of 32 bits in registers, for files that are compiled for AVX-512. */
#ifndef SL_CPU_TURN16_H
#define SL_CPU_TURN16_H

#include <immintrin.h>

/* Word k of t[i] becomes word i of t[k]. */
static inline __attribute__((always_inline)) void sl_turn16(__m512i t[16])
{
	__m512i u[16];

#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2) {
		u[i] = _mm512_unpacklo_epi32(t[i], t[i + 1]);
		u[i + 1] = _mm512_unpackhi_epi32(t[i], t[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4) {
		t[i] = _mm512_unpacklo_epi64(u[i], u[i + 2]);
		t[i + 1] = _mm512_unpackhi_epi64(u[i], u[i + 2]);
		t[i + 2] = _mm512_unpacklo_epi64(u[i + 1], u[i + 3]);
		t[i + 3] = _mm512_unpackhi_epi64(u[i + 1], u[i + 3]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		u[i] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
		u[i + 4] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
		u[i + 8] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
		u[i + 12] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		t[i] = _mm512_shuffle_i32x4(u[i], u[i + 8], 0x88);
		t[i + 4] = _mm512_shuffle_i32x4(u[i + 4], u[i + 12], 0x88);
		t[i + 8] = _mm512_shuffle_i32x4(u[i], u[i + 8], 0xdd);
		t[i + 12] = _mm512_shuffle_i32x4(u[i + 4], u[i + 12], 0xdd);
	}
}

#endif
