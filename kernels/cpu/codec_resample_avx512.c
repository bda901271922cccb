/* Interpolation: the portable loop, compiled for AVX-512. */
#include "kernels/cpu/codec_avx512.h"

#define BODY
#define NAME(x) sl_avx512_##x
#include "common/codec/body_resample.h"
