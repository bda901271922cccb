/* A cache of the head's activations (train.keep_head_bytes). In a head in which nothing learns or is random, a sample
 * has the same ones in every epoch. All memory is allocated at once. Worker's thread only. */
#ifndef SL_CLIENT_STEP_HEAD_CACHE_H
#define SL_CLIENT_STEP_HEAD_CACHE_H

#include "client/data/source.h"
#include "common/exec/plan.h"

struct sl_head_cache;

/* CONFIG: the plan's head learns, draws random numbers, mixes samples or has no tokens. The sentence begins with a
 * verb, since the caller puts the key before it. */
enum sl_err sl_head_cache_check(const struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* Room for all samples of `set`, whose rows of tokens are not padded. `most`: bytes that may be taken. LIMIT: more are
 * needed, and *fail says how many; NOMEM; errors of sl_head_cache_check. */
enum sl_err sl_head_cache_open(struct sl_head_cache **out, const struct sl_plan *plan, const struct sl_set *set,
			       int64_t most, struct sl_fail *fail) SL_MUST_CHECK;
void sl_head_cache_close(struct sl_head_cache *cache); /* NULL is fine */
int64_t sl_head_cache_bytes(const struct sl_head_cache *cache);
/* How many samples were taken, and put, so far. */
void sl_head_cache_count(const struct sl_head_cache *cache, int64_t *taken, int64_t *put);

/* Copies the activations [tokens, F] of these samples, one after the other, to `out`. False: some are not cached. */
bool sl_head_cache_take(struct sl_head_cache *cache, const int32_t *sample, int64_t rows, float *out);
void sl_head_cache_put(struct sl_head_cache *cache, const int32_t *sample, int64_t rows, const float *x);
/* The weights have changed: empties the cache. */
void sl_head_cache_forget(struct sl_head_cache *cache);

#endif
