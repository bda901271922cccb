/* Shared by the codecs' loops of all SIMD levels. */
#ifndef SL_CPU_CODEC_VECTOR_H
#define SL_CPU_CODEC_VECTOR_H

#include "common/codec/loops_c.h"

/* Products are not fused with sums: the portable loops do not fuse them either, and all levels give the same
 * bits. */
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

/* Prefetches the line 8 KiB ahead. Passes that do little per element otherwise wait for memory: the first
 * product of lowrank takes a third of the time with it. Beyond the end of the data it has no effect. It is a
 * macro because gcc removes a function that does nothing else, as free of side effects. */
#define ask_ahead(x) __builtin_prefetch((const char *)(x) + 8192, 0, 3)

#endif
