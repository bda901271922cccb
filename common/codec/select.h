/* Finds the exact k-th largest magnitude, usually with one pass over the tensor. A sample gives two values between
 * which it lies; a scan counts what is above and collects what is between. If that fails (many equal values, a
 * sample that misleads), three passes with histograms find it. Both ways give the same result. */
#ifndef SL_CODEC_SELECT_H
#define SL_CODEC_SELECT_H

#include "common/codec/stage.h"

struct sl_selection {
	uint32_t least; /* |bits| of the k-th largest */
	int64_t *above; /* [blocks]: elements above it */
	int64_t *equal; /* [blocks]: elements equal to it */
};

struct sl_select;

void sl_select_memory(const struct sl_stage_env *env, struct sl_memory *need);
enum sl_err sl_select_open(struct sl_select **out, const struct sl_stage_env *env, struct sl_fail *fail);
void sl_select_close(struct sl_select *s);
/* 1 ≤ k ≤ n. *out borrows from s. NONFINITE. */
enum sl_err sl_select_run(struct sl_select *s, const float *x, int64_t n, int64_t k, struct sl_selection *out);

/* Sorts ascending, in place; scratch [n]. */
void sl_radix_sort(uint32_t *key, uint32_t *scratch, int64_t n);
/* A sample that is spread over all of x (n > SL_SAMPLE): runs of 16 neighbours at jittered distances. It has |bits|,
 * or with `sign` all bits. */
enum { SL_SAMPLE = 65536 };
void sl_sample(const float *x, int64_t n, bool sign, uint32_t out[SL_SAMPLE]);

#endif
