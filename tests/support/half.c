#include "tests/support/half.h"

#include <math.h>
#include <string.h>

static float cut_mantissa(float x, int bits)
{
	uint32_t word, unit = 1u << bits;

	if (!isfinite(x))
		return x;
	memcpy(&word, &x, sizeof word);
	word = (word + unit / 2 - 1 + (word >> bits & 1)) & ~(unit - 1);
	memcpy(&x, &word, sizeof x);
	return x;
}

float half_round(enum sl_precision p, float x)
{
	switch (p) {
	case SL_PRECISION_TF32:
		return cut_mantissa(x, 13);
	case SL_PRECISION_BF16:
	case SL_PRECISION_BF16_FACTORS:
		return cut_mantissa(x, 16);
	case SL_PRECISION_FP16:
		return (float)(_Float16)x;
	default:
		return x;
	}
}

void half_round_all(enum sl_precision p, float *x, int64_t count)
{
	for (int64_t i = 0; x && i < count; i++)
		x[i] = half_round(p, x[i]);
}

void half_store(enum sl_dtype type, void *out, const float *x, int64_t count)
{
	uint16_t *to = out;

	if (type == SL_F32) {
		memcpy(out, x, (size_t)count * sizeof *x);
		return;
	}
	for (int64_t i = 0; i < count; i++) {
		const float bf16 = half_round(SL_PRECISION_BF16, x[i]);
		const _Float16 f16 = (_Float16)x[i];
		uint32_t word;

		memcpy(&word, &bf16, sizeof word);
		if (type == SL_BF16)
			to[i] = (uint16_t)(word >> 16 | (isnan(bf16) ? 1 : 0));
		else
			memcpy(&to[i], &f16, sizeof f16);
	}
}

void half_load(enum sl_dtype type, float *out, const void *x, int64_t count)
{
	const uint16_t *from = x;

	if (type == SL_F32) {
		memcpy(out, x, (size_t)count * sizeof *out);
		return;
	}
	for (int64_t i = 0; i < count; i++) {
		const uint32_t word = (uint32_t)from[i] << 16;
		_Float16 f16;

		memcpy(&f16, &from[i], sizeof f16);
		if (type == SL_BF16)
			memcpy(&out[i], &word, sizeof word);
		else
			out[i] = (float)f16;
	}
}
