#include "kernels/cpu/codec_avx512.h"

#include "kernels/cpu/codec_loops.h"

#define NAME(x) sl_avx512_##x

static const struct sl_codec_loops streaming = {
	.name = "avx512",
	.storing = &sl_cpu_codec_loops_avx512,
	.settle = sl_avx512_settle,
#define RESTORE(x) sl_avx512_stream_##x
#include "common/codec/body_table.h"
};

const struct sl_codec_loops sl_cpu_codec_loops_avx512 = {
	.name = "avx512",
	.streaming = &streaming,
#include "common/codec/body_table.h"
};
