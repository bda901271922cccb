#include "server/host/epochs.h"

#include <string.h>

static int index_of(const struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES])
{
	for (int i = 0; i < SL_EPOCHS; i++)
		if (e->last[i].epoch && memcmp(e->last[i].session, session, SL_SESSION_BYTES) == 0)
			return i;
	return -1;
}

void sl_epochs_remember(struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES], uint64_t epoch)
{
	int i = index_of(e, session);

	if (i < 0) {
		i = e->next;
		e->next = (e->next + 1) % SL_EPOCHS;
		e->last[i].epoch = 0;
		memcpy(e->last[i].session, session, SL_SESSION_BYTES);
	}
	if (e->last[i].epoch < epoch)
		e->last[i].epoch = epoch;
}

uint64_t sl_epochs_find(const struct sl_epochs *e, const uint8_t session[SL_SESSION_BYTES])
{
	int i = index_of(e, session);

	return i < 0 ? 0 : e->last[i].epoch;
}
