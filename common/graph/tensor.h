/* Tensors are packed, row-major, NHWC (or [N, S, F] for sequences). Dimension 0 is N, the rows of a chunk, or T, the
 * tokens of all its rows, concatenated row by row.
 * Letters used at every pointer of the project: N rows (images), H W height and width, C channels, M = N·H·W. */
#ifndef SL_GRAPH_TENSOR_H
#define SL_GRAPH_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_backend;

enum sl_dtype { SL_F32, SL_F16, SL_BF16, SL_I32, SL_I64, SL_U8, SL_DTYPE_COUNT };

enum { SL_MAX_DIMS = 4, SL_SHAPE_TEXT = 64 };

struct sl_shape {
	int ndim;
	int64_t dim[SL_MAX_DIMS];
};

/* `data` is in the memory of backend `be` (NULL: host memory). The tensor does not own it. */
struct sl_tensor {
	enum sl_dtype dtype;
	struct sl_shape shape;
	void *data;
	struct sl_backend *be;
};

size_t sl_dtype_bytes(enum sl_dtype dtype);

static inline struct sl_shape sl_shape4(int64_t n, int64_t h, int64_t w, int64_t c)
{
	return (struct sl_shape){4, {n, h, w, c}};
}

static inline struct sl_shape sl_shape3(int64_t n, int64_t s, int64_t f)
{
	return (struct sl_shape){3, {n, s, f, 0}};
}

static inline struct sl_shape sl_shape2(int64_t n, int64_t c)
{
	return (struct sl_shape){2, {n, c, 0, 0}};
}

static inline struct sl_shape sl_shape1(int64_t n)
{
	return (struct sl_shape){1, {n, 0, 0, 0}};
}

static inline int64_t sl_shape_count(const struct sl_shape *s)
{
	int64_t n = 1;

	for (int i = 0; i < s->ndim; i++)
		n *= s->dim[i];
	return n;
}

/* Number of elements of one row: the product of all dimensions but dimension 0. */
static inline int64_t sl_shape_row(const struct sl_shape *s)
{
	int64_t n = 1;

	for (int i = 1; i < s->ndim; i++)
		n *= s->dim[i];
	return n;
}

/* The same shape with dimension 0 set to `rows`. */
static inline struct sl_shape sl_shape_rows(struct sl_shape s, int64_t rows)
{
	s.dim[0] = rows;
	return s;
}

/* The size of a chunk: its rows, and the tokens of all its rows. Row i has the tokens [begin[i], begin[i + 1]). Some
 * tokens may be chosen: those that the loss counts, as the masked tokens of a language model. */
struct sl_dims {
	int64_t rows, tokens;
	const uint32_t *begin; /* [rows + 1]; NULL: every row is one token. Borrowed */
	/* [2·rows + 1], for padded rows. For each row: the offset of its first token, and that of its padding, which
	 * may be empty. The last number is the end of all rows. NULL: rows are not padded. Borrowed */
	const uint32_t *pieces;
	/* [2·rows], if keys and values are cached from pass to pass. For each row: its row in the cache, ascending, and
	 * how many earlier tokens of it the cache has. NULL: rows are whole. Borrowed */
	const uint32_t *cached;
	int64_t chosen;        /* number of chosen tokens */
	const uint32_t *place; /* [chosen], their indices, ascending; NULL: none is chosen. Borrowed */
};

/* The size of a chunk whose rows are one token each. */
static inline struct sl_dims sl_dims_rows(int64_t rows)
{
	return (struct sl_dims){.rows = rows, .tokens = rows};
}

/* Number of earlier tokens of a row that are in the cache. */
static inline int64_t sl_dims_past(const struct sl_dims *dims, int64_t row)
{
	return dims->cached ? (int64_t)dims->cached[2 * row + 1] : 0;
}

/* Length of the buffer of a chunk of at most `most` rows, in numbers: `begin`, then with `pairs` also `pieces` or
 * `cached`, which begins at sl_dims_pairs. */
static inline size_t sl_dims_numbers(int64_t most, bool pairs)
{
	return (size_t)most + 1 + (pairs ? 2 * (size_t)most + 1 : 0);
}

static inline uint32_t *sl_dims_pairs(uint32_t *numbers, int64_t most)
{
	return numbers + most + 1;
}

/* Fills `numbers`, a chunk's buffer as above, for rows [first, first + rows) of a batch. `begin`, `pieces` and `cached`
 * are the batch's; one or both of the latter are NULL. The chunk's token offsets start from 0. */
void sl_dims_take(uint32_t *numbers, int64_t most, const uint32_t *begin, const uint32_t *pieces,
		  const uint32_t *cached, int64_t first, int64_t rows);

bool sl_shape_equal(const struct sl_shape *a, const struct sl_shape *b);
/* *count = the product of the dimensions. False: one is below 1, or the product exceeds `max`. For untrusted shapes. */
bool sl_shape_count_checked(const struct sl_shape *s, int64_t max, int64_t *count);
/* Writes "[64,112,112,32]" to `out`; returns `out`. */
const char *sl_shape_text(const struct sl_shape *s, char out[SL_SHAPE_TEXT]);

#endif
