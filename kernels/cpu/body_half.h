/* Conversions to and from half floats, for a file of one SIMD level, as in body_cells.h. */
uint32_t NAME(to_f16)(const float *x, int64_t n, uint8_t *out)
{
	const vec least = vec_set1(-65504), most = vec_set1(65504);
	ivec top = ivec_zero();
	uint32_t all, rest;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		vec v = vec_load(x + i);

		top = ivec_max(vec_magnitude(v), top);
		vec_to_halves(out + 2 * i, vec_clamp(v, least, most));
	}
	all = ivec_most(top);
	rest = sl_c_to_f16(x + i, n - i, out + 2 * i);
	return all > rest ? all : rest;
}

/* `stream` is a constant. */
INLINE void from_f16(const uint8_t *in, int64_t n, float *x, bool stream)
{
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		vec_put(x + i, vec_of_halves(in + 2 * i), stream);
	sl_c_from_f16(in + 2 * i, n - i, x + i);
}

void NAME(from_f16)(const uint8_t *in, int64_t n, float *x)
{
	from_f16(in, n, x, false);
}

#ifdef STREAMS
void NAME(stream_from_f16)(const uint8_t *in, int64_t n, float *x)
{
	if (can_stream(x))
		from_f16(in, n, x, true);
	else
		from_f16(in, n, x, false);
	_mm_sfence();
}
#endif
