#include "kernels/cpu/codec_loops.h"

#include "kernels/cpu/simd.h"

const struct sl_codec_loops *sl_cpu_codec_loops(void)
{
	const struct sl_cpu_simd *level = sl_cpu_simd_choose();

	if (level == &sl_cpu_simd_avx512)
		return &sl_cpu_codec_loops_avx512;
	return level == &sl_cpu_simd_avx2 ? &sl_cpu_codec_loops_avx2 : &sl_codec_loops_c;
}
