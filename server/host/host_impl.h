/* What a host is made of, for the files that implement it: host.c drives it, host_hello.c says who gets a session,
 * host_status.c what a status says. */
#ifndef SL_SERVER_HOST_HOST_IMPL_H
#define SL_SERVER_HOST_HOST_IMPL_H

#include "common/telemetry/rate.h"
#include "server/host/challenge.h"
#include "server/host/epochs.h"
#include "server/host/host.h"
#include "server/host/housekeeping.h"
#include "server/trunk/group.h"
#include "server/trunk/middle.h"

/* As in struct sl_status. */
struct sl_host_counts {
	uint64_t links, lost, frames, bytes, rejected, stale;
};

struct sl_host {
	const struct sl_conf_server *conf;
	struct sl_server_auth *auth; /* NULL: nobody is asked for a key */
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;
	struct sl_share newcomers; /* the worker's */
	struct sl_async *jobs_done;
	struct sl_timer *ticker;
	struct sl_middle_env env;
	struct sl_group_list *groups;
	_Atomic uint64_t memory_used;
	/* Twice limits.sessions: a link that comes back has a place beside the one that it replaces. */
	int n_place;
	struct sl_middle **session; /* [n_place]; NULL: free */
	struct sl_key *key;         /* [n_place], where there is auth: a session is its client's */
	bool *ending;               /* over, or closing: gone at one of the next ticks */
	bool *second;               /* not admitted yet, and an older link of its session stands */
	int closing;                /* sessions whose close is under way */
	struct sl_challenges challenges;
	struct sl_epochs epochs;
	uint64_t turned_away, malformed; /* peers without a session; messages of the wrong form */
	struct sl_host_counts counts;    /* of links that are over; frames and bytes of all */
	uint64_t opened_ms, told_ms;     /* refused keys were logged last */
	struct sl_housekeeping keeping;
	struct sl_rate *rate; /* [n_place]: bytes sent and received */
	int threads;
	int store_lock; /* sl_store_open */
	bool shut, broken;
	void (*on_broken)(void *arg, const struct sl_fail *why);
	void *broken_arg;
	void (*closed)(void *arg);
	void *closed_arg;
};

/* A first message, or one of a peer without a session. */
void sl_host_hello(struct sl_host *h, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
/* A peer that has no session and does not say Hello, or for which there is no room, hears why, once. `epoch` is that
 * of the frame that is refused; 0: it cannot be read. */
void sl_host_turn_away(struct sl_host *h, sl_peer peer, uint64_t epoch, const struct sl_fail *why);
/* What a session's Hello asks for can be had: older links of the same session end now. */
void sl_host_admitted(void *arg, struct sl_middle *middle);
/* Takes what is over from its place. */
void sl_host_take_out(struct sl_host *h, int place);
/* Of all links so far, those that last included. */
struct sl_host_counts sl_host_counts(const struct sl_host *h);
/* Connections that were challenged, and have not answered in time, are forgotten. */
void sl_host_forget_late(struct sl_host *h);

#endif
