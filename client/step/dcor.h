/* How strongly head_act depends on the inputs: their squared distance correlation, bias-corrected, over samples of an
 * evaluation. head_act is taken as it is sent, with noise, before the codec. The samples are spread evenly over the
 * test set: as many as fit into 8 MiB, but at least 16 and at most 64. So the figure depends on the weights and the
 * test set alone. The worker's thread puts samples; the figure is taken when the evaluation is over. */
#ifndef SL_CLIENT_STEP_DCOR_H
#define SL_CLIENT_STEP_DCOR_H

#include "client/step/feed.h"
#include "common/exec/plan.h"

struct sl_dcor;

/* `samples`: the size of the test set. *out is NULL if there are fewer than 4, or the network reads tokens. NOMEM. */
enum sl_err sl_dcor_open(struct sl_dcor **out, const struct sl_plan *plan, int64_t samples,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_dcor_close(struct sl_dcor *dcor); /* NULL is fine */
/* Puts `rows` rows of a batch of the test set, from row `first` on, and the n values act [rows, …] that are sent for
 * them, joined. Samples that are not chosen are ignored; a sample that is put again replaces its earlier values. */
void sl_dcor_put(struct sl_dcor *dcor, const struct sl_feed *feed, int64_t first, int64_t rows,
		 const struct sl_tensor *act, int n);
/* The figure for the samples put since the last call, at most 1. NAN: fewer than 4, no memory, or dcor is NULL. */
double sl_dcor_take(struct sl_dcor *dcor);

#endif
