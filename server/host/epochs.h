/* The newest epochs of sessions whose link ended. With them the server recognizes a late Hello with an older epoch, so
 * that it does not take the session over. It remembers SL_EPOCHS sessions, until the process ends; the one that was
 * entered first makes room for a new one. Loop thread. */
#ifndef SL_SERVER_HOST_EPOCHS_H
#define SL_SERVER_HOST_EPOCHS_H

#include "common/link/wire.h"

enum { SL_EPOCHS = 1024 };

struct sl_epochs {
	struct {
		uint8_t session[SL_SESSION_BYTES];
		uint64_t epoch; /* 0: the entry is free */
	} last[SL_EPOCHS];
	int next; /* index of the entry to fill next: a free one, or that which was entered first */
};

void sl_epochs_remember(struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES], uint64_t epoch);
uint64_t sl_epochs_find(const struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES]); /* 0: not known */

#endif
