/* A tensor as a codec's stages see it: its shape, and which part of dimension 0 belongs to which sample. If every
 * sample is one row of the tensor, `rows` is dim[0]. A tensor is ragged if its samples have different lengths: they
 * lie one after the other, and sample i has dim[0] from begin[i] to begin[i + 1]. */
#ifndef SL_CODEC_EXTENT_H
#define SL_CODEC_EXTENT_H

#include "common/graph/tensor.h"

struct sl_extent {
	struct sl_shape shape;
	int64_t rows;          /* samples */
	int64_t longest;       /* 0: a sample is a row. Else the most of dim[0] that a sample has */
	const uint32_t *begin; /* [rows + 1], if `longest`; NULL: any lengths with this dim[0]. Borrowed */
};

static inline struct sl_extent sl_extent_of(struct sl_shape shape)
{
	return (struct sl_extent){.shape = shape, .rows = shape.dim[0]};
}

/* n values that no longer belong to samples. */
static inline struct sl_extent sl_extent_flat(int64_t n)
{
	return sl_extent_of(sl_shape1(n));
}

static inline bool sl_extent_ragged(const struct sl_extent *e)
{
	return e->longest != 0;
}

/* Elements before sample i. Needs begin, unless a sample is a row. */
static inline int64_t sl_extent_at(const struct sl_extent *e, int64_t i)
{
	return (e->begin != NULL ? (int64_t)e->begin[i] : i) * sl_shape_row(&e->shape);
}

/* Dimension 0 of sample i of a ragged tensor, with begin. */
static inline int64_t sl_extent_length(const struct sl_extent *e, int64_t i)
{
	return (int64_t)e->begin[i + 1] - (int64_t)e->begin[i];
}

/* The sample that contains index `at` of dimension 0, of a ragged tensor, with begin. */
static inline int64_t sl_extent_find(const struct sl_extent *e, int64_t at)
{
	int64_t low = 0, high = e->rows;

	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;

		if ((int64_t)e->begin[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The number of cells of f positions along dimension 0 of a ragged tensor, each within one sample. Without begin:
 * the most. */
int64_t sl_extent_cells(const struct sl_extent *e, int64_t f);

#endif
