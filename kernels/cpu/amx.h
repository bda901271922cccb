/* Products of pairs of bfloat16 by AMX's tiles (TDPBF16PS), in place of those of a SIMD level. Their sums have another
 * order, and so other last bits. Where the plain loops of amx.c stand in for the instruction, they give its bits.
 *
 * For each element of the result, 16 pairs at a time: the lower halves' products are summed in one chain of fused
 * multiplications, the upper halves' in another; the first sum plus the second is added to the element. Each rounding
 * is to nearest, ties to even; what is below 2^-126 is 0, as factor and as result (Intel SDM, volume 2, TDPBF16PS). */
#ifndef SL_CPU_AMX_H
#define SL_CPU_AMX_H

#include "kernels/cpu/impl.h"

enum { SL_AMX_PAIRS = 16, SL_AMX_HIGH = 32, SL_AMX_WIDE = 32 };

/* c [rows, width], rows SL_AMX_WIDE apart, += a·b. a [rows, blocks·SL_AMX_PAIRS] and b [blocks·SL_AMX_PAIRS, width]
 * hold pairs; rows ≤ SL_AMX_HIGH; width ≤ SL_AMX_WIDE. */
typedef void sl_amx_strip(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t blocks);

void sl_amx_plain(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t blocks);

/* The same by instructions; NULL: CPU or kernel does not allow them. Asks the kernel for the permission. */
sl_amx_strip *sl_amx_tiles(void);

/* Whether `strip` gives the bits of sl_amx_plain, on values that tell orders of sums apart. */
bool sl_amx_agrees(sl_amx_strip *strip);

/* The strip that products at this level use; NULL: the level has its own. With SL_CPU_PAIRS=amx in the environment, for
 * tests, it is the plain one at each level. Else it is `tiles` at a level that needs AVX512-BF16, if they agree. */
sl_amx_strip *sl_amx_chosen(const struct sl_cpu_simd *simd);

/* `to` becomes `simd`, which must stay valid, with products of pairs by `strip`. All tables of a process that are in
 * use at the same time have the same `simd` and `strip`. */
void sl_amx_replace(struct sl_cpu_simd *to, const struct sl_cpu_simd *simd, sl_amx_strip *strip);

#endif
