#include "kernels/cpu/codec_avx2.h"

#include "kernels/cpu/codec_loops.h"

/* All loops as the compiler makes them of the portable ones, for those that are not written by hand. */
#define BODY    static __attribute__((unused))
#define NAME(x) compiled_##x
#include "common/codec/body_stats.h"

#include "common/codec/body_codes.h"

#include "common/codec/body_places.h"

#include "common/codec/body_resample.h"

const struct sl_codec_loops sl_cpu_codec_loops_avx2 = {
	.name = "avx2",
	.minmax = sl_avx2_minmax,
	.minmax_cols = compiled_minmax_cols,
	.sum_squares = sl_avx2_sum_squares,
	.quantize = compiled_quantize,
	.dequantize = compiled_dequantize,
	.quantize_cols = compiled_quantize_cols,
	.dequantize_cols = compiled_dequantize_cols,
	.levels = compiled_levels,
	.unlevels = compiled_unlevels,
	.bucket_stats = sl_avx2_bucket_stats,
	.bucketize = sl_avx2_bucketize,
	.unbucketize = sl_avx2_unbucketize,
	.pack = sl_avx2_pack,
	.unpack = sl_avx2_unpack,
	.to_f16 = sl_avx2_to_f16,
	.to_bf16 = compiled_to_bf16,
	.from_f16 = sl_avx2_from_f16,
	.from_bf16 = compiled_from_bf16,
	.random16 = sl_avx2_random16,
	.draw = compiled_draw,
	.random32 = sl_avx2_random32,
	.scan = sl_avx2_scan,
	.mark = sl_avx2_mark,
	.gather = sl_avx2_gather,
	.expand = compiled_expand,
	.places = compiled_places,
	.collect = compiled_collect,
	.mul_xt = compiled_mul_xt,
	.mul_x = compiled_mul_x,
	.outer = compiled_outer,
	.interpolate = compiled_interpolate,
	.butterflies = compiled_butterflies,
	.average_cells = sl_avx2_average_cells,
	.subtract_cells = sl_avx2_subtract_cells,
	.add_cells = sl_avx2_add_cells,
};
