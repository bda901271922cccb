/* One session on the server: a middle segment, its port, and what a status says of it. Loop thread, but for its tasks
 * on the device's worker. */
#ifndef SL_SERVER_TRUNK_MIDDLE_H
#define SL_SERVER_TRUNK_MIDDLE_H

#include "common/conf/conf.h"
#include "common/session/checkpoint.h"
#include "common/session/port.h"
#include "server/store/tidy.h"
#include "server/trunk/memory.h"

struct sl_group;
struct sl_group_list;
struct sl_middle;

/* What all sessions of a server share; borrowed. */
struct sl_middle_env {
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;   /* the device's: sessions take turns on it, task by task */
	struct sl_share *newcomers; /* of the worker: sessions that are not admitted yet, together */
	struct sl_backend *be;
	struct sl_backend *host_be; /* the CPU's, for codecs where be is a GPU's; else NULL */
	const char *store;          /* folder, or "" */
	struct sl_tidy *tidy;       /* its limits */
	const char *device;         /* "cpu", "cuda:0 …": for Welcome */
	uint32_t part_bytes;
	uint64_t window_bytes;
	uint64_t memory_bytes; /* that sessions may take together, on host and device; 0: no limit */
	_Atomic uint64_t *memory_used;
	enum sl_conf_recompute recompute;
	int task_s, piece_ms; /* limits (server/trunk/cost.h) */
	struct sl_group_list *groups;
	int watchdog_s; /* of the worker's time, for one task; 0: no limit */
	/* The session is over, for good or ill: sl_middle_close may be called from the loop, not from within. */
	void (*over)(void *arg, struct sl_middle *middle);
	/* What its Hello asks for can be had, and nothing is taken yet. */
	void (*admitted)(void *arg, struct sl_middle *middle);
	/* Whether the client with this key may train with this group; asked where there is auth. */
	bool (*may_join)(void *arg, const struct sl_key *key, const char *group);
	void *arg;
};

/* `owner`: the client's key; NULL: no auth. `back`: what older links of the session hold, and give back once this one
 * is admitted. */
enum sl_err sl_middle_open(struct sl_middle **out, const struct sl_middle_env *env, sl_peer peer,
			   const struct sl_key *owner, struct sl_memory back, struct sl_fail *fail) SL_MUST_CHECK;
void sl_middle_deliver(struct sl_middle *middle, struct sl_bytes header, struct sl_bytes payload);
void sl_middle_malformed(struct sl_middle *middle, const char *why);
void sl_middle_writable(struct sl_middle *middle);
void sl_middle_tick(struct sl_middle *middle);
void sl_middle_end(struct sl_middle *middle, const struct sl_fail *why); /* tells the client; `over` follows */
void sl_middle_close(struct sl_middle *middle, void (*closed)(void *arg), void *arg);

/* Its group has decided about the step: seconds that this session's kernels have taken since the step before. */
double sl_middle_decided(struct sl_middle *middle);
const struct sl_group *sl_middle_group(const struct sl_middle *middle); /* NULL: it has none, or is not admitted */

sl_peer sl_middle_peer(const struct sl_middle *middle);
const struct sl_session *sl_middle_session(const struct sl_middle *middle);

/* For the status. */
struct sl_middle_status {
	uint64_t opened_ms, worked_ms;   /* by the loop; worked: the last task that was done for it */
	uint64_t steps, skipped;         /* skipped: of steps */
	double step_s;                   /* moving average, seconds from one commit to the next; 0: none yet */
	struct sl_session_memory memory; /* zeros until it is open */
	bool welcomed, left;             /* the handshake was done; the client said goodbye */
	/* Borrowed, and NULL and "" until it is admitted. */
	const struct sl_agreed *agreed;
	const char *network, *part;            /* in words: its size; from which layer to which */
	struct sl_checkpoint_state checkpoint; /* as of the last COMMIT */
	struct sl_port_stats stats;
};
struct sl_middle_status sl_middle_status(const struct sl_middle *middle);

#endif
