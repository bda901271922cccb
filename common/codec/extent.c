#include "common/codec/extent.h"

int64_t sl_extent_cells(const struct sl_extent *e, int64_t f)
{
	int64_t most = (e->shape.dim[0] + e->rows * (f - 1)) / f, sum = 0;

	if (e->begin == NULL)
		return most < e->shape.dim[0] ? most : e->shape.dim[0];
	for (int64_t i = 0; i < e->rows; i++)
		sum += (sl_extent_length(e, i) + f - 1) / f;
	return sum;
}
