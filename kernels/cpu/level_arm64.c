#include "kernels/cpu/level.h"

#include <stddef.h>

#include "kernels/cpu/amx.h"
#include "kernels/cpu/codec_loops.h"

/* Every CPU of this architecture has NEON. The base level uses NEON too, but fuses no product with a
 * sum: it gives the bits of x86-64's base level. */
static bool runs(void)
{
	return true;
}

bool sl_cpu_has_pairs(void)
{
	return false;
}

sl_amx_strip *sl_amx_tiles(void)
{
	return NULL;
}

static const struct sl_cpu_level neon = {&sl_cpu_simd_neon, &sl_cpu_codec_loops_neon, runs, NULL};
static const struct sl_cpu_level base = {&sl_cpu_simd_base, &sl_codec_loops_c, runs, NULL};

const struct sl_cpu_level *const sl_cpu_levels[] = {&neon, &base, NULL};
