/* Waits until a backend has done all that was queued before. */
#ifndef SL_TESTS_SETTLE_H
#define SL_TESTS_SETTLE_H

#include <semaphore.h>

#include "common/exec/backend.h"

static void settle_post(void *arg)
{
	sem_post(arg);
}

static inline SL_MUST_CHECK enum sl_err backend_settle(struct sl_backend *be)
{
	enum sl_err err;
	sem_t done;

	sem_init(&done, 0, 0);
	err = be->ops->fence(be, settle_post, &done);
	if (!err)
		sem_wait(&done);
	sem_destroy(&done);
	return err;
}

#endif
