/* Marks large elements in a bitmap, for a file of one SIMD level, as in body_cells.h. */
int64_t NAME(mark)(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top)
{
	const ivec low = ivec_set1((int)least);
	ivec most = ivec_set1((int)*top);
	int64_t i = 0, count = 0;

	for (; i + 64 <= n; i += 64) {
		uint64_t word = 0;

		for (int j = 0; j < 64; j += LANES) {
			ivec m = vec_magnitude(vec_load(x + i + j));

			ask_ahead(x + i + j);
			most = ivec_max(m, most);
			word |= (uint64_t)ivec_reach(m, low) << j;
		}
		bitmap[i / 64] = word;
		count += __builtin_popcountll(word);
	}
	*top = ivec_most(most);
	return count + sl_c_mark(x + i, n - i, least, bitmap + i / 64, top);
}
