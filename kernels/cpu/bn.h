/* Batch normalisation in pieces. A convolution can take the statistics of its output while that is in
 * the cache, and normalise its input as it reads it; backward has the counterparts (struct
 * sl_exec_form).
 *
 * `saved` of a batchnorm: mean [C], the rounding error of the mean [C], 1/σ [C], unbiased variance [C]
 * of the chunk. From backward's sums on, also a, b, d [C] of struct sl_cpu_bn. */
#ifndef SL_CPU_BN_H
#define SL_CPU_BN_H

#include "kernels/cpu/impl.h"

/* Partial sums of one block of rows, one after another in memory. Runs of a few rows are summed in
 * float, and these sums in double. */
enum {
	SL_BN_PART_HEAD = 16, /* floats in front of the arrays; [0] counts the rows */
	SL_BN_SAVED = 7,      /* arrays [C] in `saved` */
};

/* Floats of a part: the head, then arrays of sl_cpu_line(c) values, one of floats and two of doubles. */
static inline int64_t sl_bn_part_floats(int64_t c)
{
	return SL_BN_PART_HEAD + 5 * sl_cpu_line(c);
}

/* Rows of a block of work. */
static inline int64_t sl_bn_block_rows(int64_t c)
{
	return sl_cpu_max(1, SL_CPU_BLOCK / c);
}

/* Floats that sl_bn_load fills. */
static inline int64_t sl_bn_coef_floats(int64_t c)
{
	return 6 * sl_cpu_line(c);
}

/* Floats of workspace for rows in blocks: the coefficients, then each block's part. */
static inline int64_t sl_bn_work_floats(int64_t rows, int64_t c)
{
	return sl_bn_coef_floats(c) + sl_cpu_blocks(rows, sl_bn_block_rows(c)) * sl_bn_part_floats(c);
}

/* The coefficients of forward in `memory`; with `back` also those of backward, which sl_bn_finish_sums
 * made. */
struct sl_cpu_bn sl_bn_load(const struct sl_op_call *call, bool back, float *memory);

/* Channels [at, at + n). Different threads may fill different ranges of one part; the range with
 * channel 0 also counts the rows. x and dy point at whole rows. */
struct sl_bn_range {
	int64_t at, n;
};

/* Statistics: begin a block's part with its first row, add rows to the part, merge all parts into
 * call->saved. */
void sl_bn_begin_stats(float *part, const float *first_row, int64_t c, struct sl_bn_range k);
void sl_bn_add_stats(const struct sl_cpu_simd *simd, float *part, const float *x, int64_t rows, int64_t c,
		     struct sl_bn_range k);
void sl_bn_finish_stats(const struct sl_op_call *call, const float *parts, int64_t blocks);
/* The same for channel k where mean, Σ (x − mean)² and the number of rows are known already. */
void sl_bn_put_stats(const struct sl_op_call *call, int64_t k, double mean, double m2, double rows);

/* The sums of backward, likewise; finish adds to the gradients and stores a, b, d in call->saved. */
void sl_bn_begin_sums(float *part, int64_t c, struct sl_bn_range k);
void sl_bn_add_sums(const struct sl_cpu_simd *simd, float *part, const float *dy, const float *x,
		    const struct sl_cpu_bn *n, const struct sl_op *op, int64_t rows, struct sl_bn_range k);
void sl_bn_finish_sums(const struct sl_op_call *call, const float *parts, int64_t blocks);
/* The same for channel k from Σ g and Σ g·(x − mean), with the mean of sl_bn_load. */
void sl_bn_put_sums(const struct sl_op_call *call, int64_t k, double sum_g, double sum_gx, double rows);

/* Updates the running statistics from call->saved. */
void sl_bn_commit(const struct sl_op_call *call);

#endif
