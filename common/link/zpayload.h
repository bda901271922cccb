/* For files of this room: payloads that ZeroMQ sends from the sender's memory, without a copy. Each has a record of
 * what to call when ZeroMQ no longer needs it. */
#ifndef SL_LINK_ZPAYLOAD_H
#define SL_LINK_ZPAYLOAD_H

#include <stdatomic.h>

#include <zmq.h>

#include "common/link/transport.h"

struct sl_zrecord;

/* The pool of records. All zeros at first. Loop thread, except `freed`, to which ZeroMQ's thread returns records. */
struct sl_zrecords {
	struct sl_zrecord *free;
	_Atomic(struct sl_zrecord *) freed;
	struct sl_zslab *slabs;
	atomic_int out; /* records that ZeroMQ has */
};

/* Call it after the end of ZeroMQ's context. */
void sl_zrecords_close(struct sl_zrecords *records);
/* Makes *msg from `payload` (NULL: empty). Copies a payload without `release`; *record is then NULL. NOMEM. */
enum sl_err sl_zpayload_open(struct sl_zrecords *records, zmq_msg_t *msg, struct sl_zrecord **record,
			     const struct sl_payload *payload) SL_MUST_CHECK;
/* Call it if ZeroMQ refused the message: closes the message, and the caller still owns the payload. `record` may be
 * NULL. */
void sl_zpayload_take_back(zmq_msg_t *msg, struct sl_zrecord *record);

#endif
