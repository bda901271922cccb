#include "kernels/cpu/codec_neon.h"

#include "kernels/cpu/codec_loops.h"

#undef NAME
#define NAME(x) sl_c_##x

/* The table of the portable loops, which are compiled for NEON. The hand-written loops override them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
const struct sl_codec_loops sl_cpu_codec_loops_neon = {
	.name = "neon",
#include "common/codec/body_table.h"
	.bucket_stats = sl_neon_bucket_stats,
	.bucketize = sl_neon_bucketize,
	.unbucketize = sl_neon_unbucketize,
	.pack = sl_neon_pack,
	.unpack = sl_neon_unpack,
	.to_f16 = sl_neon_to_f16,
	.from_f16 = sl_neon_from_f16,
	.random_halves = sl_neon_random_halves,
	.random32 = sl_neon_random32,
	.scan = sl_neon_scan,
	.mark = sl_neon_mark,
	.average_cells = sl_neon_average_cells,
	.subtract_cells = sl_neon_subtract_cells,
	.add_cells = sl_neon_add_cells,
};
#pragma GCC diagnostic pop
