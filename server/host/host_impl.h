/* The inside of a host, for the files that implement it: host.c drives it, host_hello.c decides who gets a session,
 * host_status.c fills in the status. */
#ifndef SL_SERVER_HOST_HOST_IMPL_H
#define SL_SERVER_HOST_HOST_IMPL_H

#include "common/telemetry/rate.h"
#include "server/group/group.h"
#include "server/host/challenge.h"
#include "server/host/epochs.h"
#include "server/host/host.h"
#include "server/host/housekeeping.h"
#include "server/host/relay.h"
#include "server/host/visits.h"
#include "server/trunk/middle.h"

/* The memory of one client's key. It stays as long as something counts there. */
struct sl_key_budget {
	struct sl_budget budget;
	struct sl_key key;
	struct sl_key_budget *next;
};

/* As in struct sl_status. */
struct sl_host_counts {
	uint64_t links, lost, frames, bytes, rejected, stale;
};

struct sl_host {
	const struct sl_conf_server *conf;
	struct sl_server_auth *auth; /* NULL: clients need no key */
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;
	struct sl_share newcomers; /* the worker's share for ADMIT of all newcomers (sl_port_admit_share) */
	struct sl_async *jobs_done;
	struct sl_timer *ticker;
	struct sl_middle_env env;
	struct sl_group_list *groups;
	struct sl_budget memory;           /* of all sessions */
	struct sl_key_budget *key_budgets; /* with auth: parts of it */
	/* Places for sessions: twice limits.sessions, so that a new link fits beside the older one that it replaces. */
	int n_place;
	struct sl_middle **session; /* [n_place]; NULL: free */
	struct sl_key *key;         /* [n_place] with auth: the key of the session's client */
	struct json_t **visit;      /* [n_place] of the session, for `visits` */
	bool *ending;               /* [n_place] the session is over; one of the next ticks takes it out */
	bool *second;               /* [n_place] not admitted yet, while an older link of its session stands */
	int closing;                /* sessions that left their place, and whose close is under way */
	struct sl_visits *visits;   /* NULL: there is no store */
	struct sl_relay *relay;     /* alignments, which have no session */
	struct sl_challenges challenges;
	struct sl_epochs epochs;
	uint64_t turned_away, malformed, came; /* refused peers without a session; malformed messages; connections */
	struct sl_host_counts counts;          /* of links that are over; frames and bytes of all links */
	uint64_t opened_ms, told_ms;           /* told_ms: when refused keys were last logged */
	struct sl_housekeeping keeping;
	struct sl_rate *rate; /* [n_place] rates of bytes sent and received */
	int threads;
	int store_lock; /* from sl_store_open */
	bool shut, broken;
	void (*on_broken)(void *arg, const struct sl_fail *why);
	void *broken_arg;
	void (*closed)(void *arg);
	void *closed_arg;
	uint64_t close_ms; /* sl_host_close_after: closes then at the latest */
};

/* Handles a message of a peer that has no session: a Hello, or it is turned away. */
void sl_host_hello(struct sl_host *h, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
/* Sends Refuse to a peer without a session, once, and forgets the peer. `epoch` is that of the refused frame; 0: it
 * could not be read. */
void sl_host_turn_away(struct sl_host *h, sl_peer peer, uint64_t epoch, const struct sl_fail *why);
/* The server can serve what this session's Hello asks for: ends older links of the same session. */
void sl_host_admitted(void *arg, struct sl_middle *middle);
/* Frees the place of a session that is over, and begins to close it. */
void sl_host_take_out(struct sl_host *h, int place);
/* Who is at the other end, in words: of `key`, with auth. `print` gets the key's fingerprint, `host` the address. */
struct sl_visitor sl_host_visitor(const struct sl_host *h, sl_peer peer, const struct sl_key *key,
				  char print[SL_FINGERPRINT], char host[SL_TRANSPORT_HOST]);
/* Counts over all links so far, with those that are open. */
struct sl_host_counts sl_host_counts(const struct sl_host *h);
/* Forgets connections that did not answer a challenge in time. */
void sl_host_forget_late(struct sl_host *h);

#endif
