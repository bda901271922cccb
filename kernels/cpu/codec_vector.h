/* What the codecs' loops for each SIMD level share. */
#ifndef SL_CPU_CODEC_VECTOR_H
#define SL_CPU_CODEC_VECTOR_H

#include "common/codec/loops_c.h"

/* Products are not fused with sums: the portable loops cannot. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Asks for the line 8 KiB further on: passes that do little per element are otherwise held up by memory (the first
 * product of lowrank takes a third of the time with it). Beyond the end it has no effect. A macro, because gcc takes a
 * function that does nothing else for one without effect and leaves it out. */
#define ask_ahead(x) __builtin_prefetch((const char *)(x) + 8192, 0, 3)

#endif
