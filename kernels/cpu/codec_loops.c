#include "kernels/cpu/codec_loops.h"

#include "kernels/cpu/level.h"

const struct sl_codec_loops *sl_cpu_codec_loops(void)
{
	return sl_cpu_level_choose()->codec_loops;
}
