/* How far head_act depends on the inputs: the distance correlation of both, squared and without bias, over samples of
 * an evaluation. It is of what is sent, with noise, before the codec. The samples lie evenly over the test set: as many
 * as 8 MiB have room for, but at least 16 and at most 64. So the figure is a function of the weights and the test set.
 * Samples are put on the worker's thread, and the figure is taken when the evaluation is over. */
#ifndef SL_CLIENT_RUN_DCOR_H
#define SL_CLIENT_RUN_DCOR_H

#include "client/run/feed.h"
#include "common/exec/plan.h"

struct sl_dcor;

/* Of a test set of so many samples. *out NULL: it has fewer than 4, or the network reads tokens. NOMEM. */
enum sl_err sl_dcor_open(struct sl_dcor **out, const struct sl_plan *plan, int64_t samples,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_dcor_close(struct sl_dcor *dcor); /* NULL is fine */
/* Rows of a batch of the test set, from `first` on, and the `act` [rows, …] that is sent of them. Samples that do not
 * count are passed over; one that comes again replaces itself. */
void sl_dcor_put(struct sl_dcor *dcor, const struct sl_feed *feed, int64_t first, int64_t rows,
		 const struct sl_tensor *act);
/* The figure of what was put since the last call, at most 1. NAN: of fewer than 4 samples, no memory, or dcor is NULL.
 */
double sl_dcor_take(struct sl_dcor *dcor);

#endif
