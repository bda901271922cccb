/* Gradients of the last step of a local run. */
#ifndef SL_TESTS_LOCAL_GRADIENTS_H
#define SL_TESTS_LOCAL_GRADIENTS_H

#include "client/pass/local_impl.h"

/* Copies the gradients of a segment's trainable parameters to `host`. */
static inline SL_MUST_CHECK enum sl_err local_gradients(struct sl_local *l, enum sl_segment which, float *host)
{
	struct sl_exec *exec[SL_SEGMENT_COUNT] = {l->ends.head, l->middle, l->ends.tail};

	return sl_exec_get_gradients(exec[which], host);
}

#endif
