/* The room's own: how many connections a bound socket takes per second, from one address and in all. Each budget is a
 * token bucket: it holds `burst` connections, and `per_s` come back each second. Connections that came although the
 * budget was spent are counted against the seconds that follow. No sockets, no clock. Loop thread. */
#ifndef SL_LINK_ARRIVALS_H
#define SL_LINK_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/err.h"

enum {
	SL_ARRIVALS_PER_S = 64,          /* in all, where nobody says otherwise; one address has half of it */
	SL_ARRIVALS_BURST_S = 8,         /* the burst in all is what comes back in so many seconds */
	SL_ARRIVALS_ADDRESS_BURST_S = 4, /* an address's burst is what comes back to it in so many */
	SL_ARRIVALS_SHUT = 64,           /* addresses that are shut out at once */
};

/* An IPv4 address as IPv6 maps it; of an IPv6 address the network of 64 bits, which one host may have to itself; zeros
 * for anything else. */
struct sl_address {
	uint8_t byte[16];
};
struct sl_address sl_address_of(const struct sockaddr *from);

/* Whose budget is spent. */
struct sl_shut {
	bool all;
	int n;
	struct sl_address address[SL_ARRIVALS_SHUT];
};

struct sl_arrivals;

/* `per_s`: in all, at least 2. */
enum sl_err sl_arrivals_open(struct sl_arrivals **out, int per_s, uint64_t now_ms, struct sl_fail *fail) SL_MUST_CHECK;
void sl_arrivals_close(struct sl_arrivals *arrivals); /* NULL is fine */
/* A connection has come; false: it is one too many, and is not to stay. One that its address had no budget for costs
 * the others nothing. */
bool sl_arrivals_admit(struct sl_arrivals *arrivals, const struct sl_address *from, uint64_t now_ms);
/* Who is to be kept out for now. True: it has changed since the last call. Whose budget was spent is let in again once
 * half of it has come back, lest this change with each connection. */
bool sl_arrivals_shut(struct sl_arrivals *arrivals, uint64_t now_ms, struct sl_shut *out);

#endif
