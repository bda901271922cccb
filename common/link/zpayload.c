#include "common/link/zpayload.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

enum { SLAB = 64 };

struct sl_zrecord {
	struct sl_zrecord *next;
	struct sl_zrecords *records;
	void (*release)(void *arg);
	void *arg;
	atomic_bool armed; /* false: ZeroMQ refused the message, and the caller still owns the payload */
};

struct sl_zslab {
	struct sl_zslab *next;
	struct sl_zrecord record[SLAB];
};

static struct sl_zrecord *take(struct sl_zrecords *records)
{
	struct sl_zrecord *r;

	if (!records->free)
		records->free = atomic_exchange_explicit(&records->freed, NULL, memory_order_acquire);
	if (!records->free) {
		/* Allocates only until the high-water marks are reached for the first time. */
		struct sl_zslab *slab = calloc(1, sizeof *slab);

		if (!slab)
			return NULL;
		slab->next = records->slabs;
		records->slabs = slab;
		for (int i = 0; i < SLAB; i++) {
			slab->record[i].records = records;
			slab->record[i].next = records->free;
			records->free = &slab->record[i];
		}
	}
	r = records->free;
	records->free = r->next;
	atomic_fetch_add_explicit(&records->out, 1, memory_order_relaxed);
	return r;
}

/* Any thread. */
static void give(struct sl_zrecord *r)
{
	struct sl_zrecords *records = r->records;
	const int out = atomic_fetch_sub_explicit(&records->out, 1, memory_order_relaxed);
	struct sl_zrecord *head = atomic_load_explicit(&records->freed, memory_order_relaxed);

	sl_assert_int(out, >, 0);
	do
		r->next = head;
	while (!atomic_compare_exchange_weak_explicit(&records->freed, &head, r, memory_order_release,
						      memory_order_relaxed));
}

static void released(void *data, void *hint)
{
	struct sl_zrecord *r = hint;

	if (atomic_load_explicit(&r->armed, memory_order_acquire))
		r->release(r->arg);
	give(r);
}

void sl_zrecords_close(struct sl_zrecords *records)
{
	sl_assert_int(atomic_load(&records->out), ==, 0); /* ZeroMQ has given back each payload, once */
	while (records->slabs) {
		struct sl_zslab *next = records->slabs->next;

		free(records->slabs);
		records->slabs = next;
	}
}

enum sl_err sl_zpayload_open(struct sl_zrecords *records, zmq_msg_t *msg, struct sl_zrecord **record,
			     const struct sl_payload *payload)
{
	struct sl_zrecord *r;

	*record = NULL;
	if (!payload || !payload->release) {
		size_t len = payload ? payload->bytes.len : 0;

		if (zmq_msg_init_size(msg, len) < 0)
			return SL_ERR_NOMEM;
		if (len)
			memcpy(zmq_msg_data(msg), payload->bytes.data, len);
		return SL_OK;
	}
	r = take(records);
	if (!r)
		return SL_ERR_NOMEM;
	r->release = payload->release;
	r->arg = payload->release_arg;
	atomic_store_explicit(&r->armed, true, memory_order_release);
	if (zmq_msg_init_data(msg, (void *)(uintptr_t)payload->bytes.data, payload->bytes.len, released, r) < 0) {
		give(r);
		return SL_ERR_NOMEM;
	}
	*record = r;
	return SL_OK;
}

void sl_zpayload_take_back(zmq_msg_t *msg, struct sl_zrecord *record)
{
	if (record)
		atomic_store_explicit(&record->armed, false, memory_order_release);
	zmq_msg_close(msg);
}
