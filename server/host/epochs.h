/* The newest epochs of sessions that ended: a link of an older one that comes late is told so, and does not take its
 * session back. The SL_EPOCHS that ended last are remembered, while the process lives. Loop thread. */
#ifndef SL_SERVER_HOST_EPOCHS_H
#define SL_SERVER_HOST_EPOCHS_H

#include "common/link/wire.h"

enum { SL_EPOCHS = 1024 };

struct sl_epochs {
	struct {
		uint8_t session[SL_SESSION_BYTES];
		uint64_t epoch; /* 0: free */
	} last[SL_EPOCHS];
	int next; /* the place that is written next: the oldest */
};

void sl_epochs_remember(struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES], uint64_t epoch);
uint64_t sl_epochs_find(const struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES]); /* 0: none */

#endif
