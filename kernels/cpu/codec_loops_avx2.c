#include "kernels/cpu/codec_avx2.h"

#include "kernels/cpu/codec_loops.h"

/* All portable loops, compiled for AVX2. The table uses those that have no hand-written version. */
#define BODY    static __attribute__((unused))
#define NAME(x) compiled_##x
#include "common/codec/body_stats.h"

#include "common/codec/body_codes.h"

#include "common/codec/body_places.h"

#include "common/codec/body_resample.h"

#include "common/codec/body_cells.h"

/* The hand-written loops override the compiled ones. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
const struct sl_codec_loops sl_cpu_codec_loops_avx2 = {
	.name = "avx2",
#include "common/codec/body_table.h"
	.minmax = sl_avx2_minmax,
	.sum_squares = sl_avx2_sum_squares,
	.bucket_stats = sl_avx2_bucket_stats,
	.bucketize = sl_avx2_bucketize,
	.unbucketize = sl_avx2_unbucketize,
	.pack = sl_avx2_pack,
	.unpack = sl_avx2_unpack,
	.to_f16 = sl_avx2_to_f16,
	.from_f16 = sl_avx2_from_f16,
	.random_halves = sl_avx2_random_halves,
	.random32 = sl_avx2_random32,
	.scan = sl_avx2_scan,
	.mark = sl_avx2_mark,
	.gather = sl_avx2_gather,
	.average_cells = sl_avx2_average_cells,
	.subtract_cells = sl_avx2_subtract_cells,
	.add_cells = sl_avx2_add_cells,
};
#pragma GCC diagnostic pop
