/* The transport of endpoints inproc://name, which joins a client and a server in one process, and its faults. */
#ifndef TESTS_SUPPORT_TRANSPORT_INPROC_H
#define TESTS_SUPPORT_TRANSPORT_INPROC_H

#include "common/link/transport.h"

enum sl_fault {
	SL_FAULT_NONE,
	SL_FAULT_DROP,      /* sent, as far as the sender knows, and never arrives */
	SL_FAULT_DUPLICATE, /* arrives twice */
	SL_FAULT_CORRUPT,   /* one bit of the payload, or else of the header, is flipped */
	SL_FAULT_HOLD       /* arrives behind the message sent next (of those held, the last one is kept) */
};

/* `fault` judges each message that this end sends from now on, on the sender's thread; NULL ends that. It must not call
 * the transport. */
void sl_inproc_faults(struct sl_transport *transport,
		      enum sl_fault (*fault)(void *arg, struct sl_bytes header, struct sl_bytes payload), void *arg);

#endif
