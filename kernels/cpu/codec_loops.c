#include "kernels/cpu/codec_loops.h"

#include "kernels/cpu/simd.h"

const struct sl_codec_loops *sl_cpu_codec_loops(void)
{
	return sl_cpu_simd_choose() == &sl_cpu_simd_avx512 ? &sl_cpu_codec_loops_avx512 : &sl_codec_loops_c;
}
