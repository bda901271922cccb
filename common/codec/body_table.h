/* Included between the braces of a struct sl_codec_loops' initializer: sets each field to the function NAME(field). A
 * table with non-temporal stores (loops.h: `streaming`) defines RESTORE(x) first, the names of its own versions of the
 * loops that write restored values. */
#ifndef RESTORE
#define RESTORE(x) NAME(x)
#endif
.minmax = NAME(minmax),
	.minmax_cols = NAME(minmax_cols), .sum_squares = NAME(sum_squares), .quantize = NAME(quantize),
	.dequantize = RESTORE(dequantize), .quantize_cols = NAME(quantize_cols),
	.dequantize_cols = NAME(dequantize_cols), .levels = NAME(levels), .unlevels = RESTORE(unlevels),
	.bucket_stats = NAME(bucket_stats), .bucketize = NAME(bucketize), .unbucketize = RESTORE(unbucketize),
	.pack = NAME(pack), .unpack = NAME(unpack), .to_f16 = NAME(to_f16), .to_bf16 = NAME(to_bf16),
	.from_f16 = RESTORE(from_f16), .from_bf16 = RESTORE(from_bf16), .random_halves = NAME(random_halves),
	.draw = NAME(draw), .random32 = NAME(random32), .scan = NAME(scan), .mark = NAME(mark), .gather = NAME(gather),
	.expand = RESTORE(expand), .places = NAME(places), .collect = NAME(collect), .mul_xt = NAME(mul_xt),
	.mul_x = NAME(mul_x), .outer = NAME(outer), .interpolate = NAME(interpolate), .butterflies = NAME(butterflies),
	.average_cells = NAME(average_cells), .subtract_cells = RESTORE(subtract_cells),
	.add_cells = RESTORE(add_cells),
#undef RESTORE
