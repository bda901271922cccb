#include "kernels/cpu/level.h"

#include <stdlib.h>
#include <string.h>

static const struct sl_cpu_level *best_from(int i)
{
	while (!sl_cpu_levels[i]->runs())
		i++;
	return sl_cpu_levels[i];
}

const struct sl_cpu_level *sl_cpu_level_best(void)
{
	return best_from(0);
}

const struct sl_cpu_level *sl_cpu_level_choose(void)
{
	const char *want = getenv("SL_CPU_SIMD");

	for (int i = 0; want != NULL && sl_cpu_levels[i] != NULL; i++)
		if (strcmp(sl_cpu_levels[i]->simd->name, want) == 0)
			return best_from(i);
	return best_from(0);
}

bool sl_cpu_offers_pairs(const struct sl_cpu_simd *simd)
{
	return simd->pairs_need_bf16 ? sl_cpu_has_pairs() : getenv("SL_CPU_PAIRS") != NULL;
}
