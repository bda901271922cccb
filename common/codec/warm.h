/* Warm factors of lowrank, by slot: those of the last committed step, and those of the running one. The stage owns
 * their memory; these functions do what the end of a step does with them. */
#ifndef SL_CODEC_WARM_H
#define SL_CODEC_WARM_H

#include <stddef.h>
#include <stdint.h>

struct sl_warm {
	float *current, *pending; /* [rows][r · larger side] */
	int64_t current_rows, pending_rows;
};

/* warm [slots], or NULL: nothing to do. */
static inline void sl_warm_commit(struct sl_warm *warm, int slots)
{
	for (int s = 0; warm != NULL && s < slots; s++) {
		struct sl_warm *w = &warm[s];
		float *old = w->current;

		if (w->pending_rows == 0)
			continue;
		w->current = w->pending;
		w->current_rows = w->pending_rows;
		w->pending = old;
		w->pending_rows = 0;
	}
}

static inline void sl_warm_rollback(struct sl_warm *warm, int slots)
{
	for (int s = 0; warm != NULL && s < slots; s++)
		warm[s].pending_rows = 0;
}

#endif
