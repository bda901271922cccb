/* Activations of a head in which nothing learns and nothing is drawn: a sample's are the same in every epoch, so they
 * may be kept from the first one on. All memory is taken at once. Worker's thread only. */
#ifndef SL_CLIENT_RUN_KEPT_H
#define SL_CLIENT_RUN_KEPT_H

#include "client/data/source.h"
#include "common/exec/plan.h"

struct sl_kept;

/* CONFIG, with a sentence that begins with a verb: the plan's head learns, draws, mixes samples or is not of tokens. */
enum sl_err sl_kept_check(const struct sl_plan *plan, struct sl_fail *fail) SL_MUST_CHECK;
/* Of all samples of a set of rows of tokens that are not padded; `most`: bytes that may be taken. LIMIT: more bytes
 * are needed, and *fail says how many; NOMEM; errors of sl_kept_check. */
enum sl_err sl_kept_open(struct sl_kept **out, const struct sl_plan *plan, const struct sl_set *set, int64_t most,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_kept_close(struct sl_kept *kept); /* NULL is fine */
int64_t sl_kept_bytes(const struct sl_kept *kept);
/* Samples that were taken, and put, so far. */
void sl_kept_count(const struct sl_kept *kept, int64_t *taken, int64_t *put);

/* The activations [tokens, F] of these samples, one behind the other, into `out`; false: not all of them are there. */
bool sl_kept_take(struct sl_kept *kept, const int32_t *sample, int64_t rows, float *out);
void sl_kept_put(struct sl_kept *kept, const int32_t *sample, int64_t rows, const float *x);
/* The weights are others: nothing is there any more. */
void sl_kept_forget(struct sl_kept *kept);

#endif
