#include "kernels/cpu/level.h"

#include <cpuid.h>
#include <stddef.h>

#include "kernels/cpu/codec_loops.h"

/* Not __builtin_cpu_supports: clang 14 does not know "f16c". The first answer is kept, since a virtual machine takes
 * some 30 µs for the instruction. */
static bool has_f16c(void)
{
	static _Atomic signed char known; /* 0: not asked, -1: no */
	unsigned eax, ebx, ecx, edx;

	if (!known)
		known = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) ? 1 : -1;
	return known > 0;
}

static bool runs_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool runs_avx512(void)
{
	return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool sl_cpu_has_pairs(void)
{
	return __builtin_cpu_supports("avx512bf16");
}

static bool runs_base(void)
{
	return true;
}

static const char *const avx512_cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
static const char *const avx2_cores[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", NULL};

static const struct sl_cpu_level avx512 = {&sl_cpu_simd_avx512, &sl_cpu_codec_loops_avx512, runs_avx512, avx512_cores};
static const struct sl_cpu_level avx2 = {&sl_cpu_simd_avx2, &sl_cpu_codec_loops_avx2, runs_avx2, avx2_cores};
static const struct sl_cpu_level base = {&sl_cpu_simd_base, &sl_codec_loops_c, runs_base, NULL};

const struct sl_cpu_level *const sl_cpu_levels[] = {&avx512, &avx2, &base, NULL};
