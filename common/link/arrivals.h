/* For files of this room: limits how many connections a bound socket accepts per second, from one address and in all.
 * Each limit is a token bucket of `burst` tokens, which gains `per_s` tokens a second. A connection that comes when the
 * bucket is empty still takes a token, which the following seconds repay. No sockets, no clock. Loop thread. */
#ifndef SL_LINK_ARRIVALS_H
#define SL_LINK_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/err.h"

enum {
	SL_ARRIVALS_PER_S = 64,          /* the default in all; one address has half of the limit */
	SL_ARRIVALS_BURST_S = 8,         /* the burst in all, in seconds of its rate */
	SL_ARRIVALS_ADDRESS_BURST_S = 4, /* an address's burst, in seconds of its rate */
	SL_ARRIVALS_SHUT = 64,           /* addresses that are blocked at once, at most */
};

/* An IPv4-mapped IPv6 address; or the first 64 bits of an IPv6 address, since one host may own the whole network; or
 * zeros for any other kind. */
struct sl_address {
	uint8_t byte[16];
};
struct sl_address sl_address_of(const struct sockaddr *from);

/* The addresses whose bucket is empty; `all`: the bucket of all is. */
struct sl_shut {
	bool all;
	int n;
	struct sl_address address[SL_ARRIVALS_SHUT];
};

struct sl_arrivals;

/* `per_s`: the rate in all, at least 2. */
enum sl_err sl_arrivals_open(struct sl_arrivals **out, int per_s, uint64_t now_ms, struct sl_fail *fail) SL_MUST_CHECK;
void sl_arrivals_close(struct sl_arrivals *arrivals); /* NULL is fine */
/* Call it for each new connection; false: it exceeds a limit, and must be closed. One beyond the limit of its address
 * takes no token from the bucket of all. */
bool sl_arrivals_admit(struct sl_arrivals *arrivals, const struct sl_address *from, uint64_t now_ms);
/* *out = the addresses to be blocked now. True: they have changed since the last call. An address is blocked until its
 * bucket is half full again, so that this does not change with every connection. */
bool sl_arrivals_shut(struct sl_arrivals *arrivals, uint64_t now_ms, struct sl_shut *out);

#endif
