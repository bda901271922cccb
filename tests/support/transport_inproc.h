/* The transport of endpoints inproc://name, which joins a client and a server in one process, and
 * its fault injection. */
#ifndef TESTS_SUPPORT_TRANSPORT_INPROC_H
#define TESTS_SUPPORT_TRANSPORT_INPROC_H

#include "common/link/transport.h"

enum sl_fault {
	SL_FAULT_NONE,
	SL_FAULT_DROP,      /* lost: reported as sent, never arrives */
	SL_FAULT_DUPLICATE, /* arrives twice */
	SL_FAULT_CORRUPT,   /* one bit of the payload, or else of the header, is flipped */
	SL_FAULT_HOLD       /* arrives after the next message sent; if several are held, only the last one is kept */
};

/* From now on, `fault` decides about each message that this end sends, on the sender's thread. NULL
 * ends that. It must not call the transport. */
void sl_inproc_faults(struct sl_transport *transport,
		      enum sl_fault (*fault)(void *arg, struct sl_bytes header, struct sl_bytes payload), void *arg);

#endif
