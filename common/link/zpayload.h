/* The room's own: payloads that ZeroMQ sends from their sender's memory. Each has a record of what to call when ZeroMQ
 * no longer needs it. */
#ifndef SL_LINK_ZPAYLOAD_H
#define SL_LINK_ZPAYLOAD_H

#include <stdatomic.h>

#include <zmq.h>

#include "common/link/transport.h"

struct sl_zrecord;

/* All zeros at first. Loop thread, but for `freed`, to which ZeroMQ's thread gives records back. */
struct sl_zrecords {
	struct sl_zrecord *free;
	_Atomic(struct sl_zrecord *) freed;
	struct sl_zslab *slabs;
};

/* Behind the end of ZeroMQ's context. */
void sl_zrecords_close(struct sl_zrecords *records);
/* Makes *msg of `payload` (NULL: an empty one), which it copies where it has no `release`; then *record is NULL. */
enum sl_err sl_zpayload_open(struct sl_zrecords *records, zmq_msg_t *msg, struct sl_zrecord **record,
			     const struct sl_payload *payload) SL_MUST_CHECK;
/* ZeroMQ has refused the message: closes it, and the payload is still the caller's. `record` may be NULL. */
void sl_zpayload_take_back(zmq_msg_t *msg, struct sl_zrecord *record);

#endif
