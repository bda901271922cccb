/* One session on the server: its middle segment, its port and its status. Loop thread, except for its tasks, which run
 * on the device's worker. */
#ifndef SL_SERVER_TRUNK_MIDDLE_H
#define SL_SERVER_TRUNK_MIDDLE_H

#include "common/conf/conf.h"
#include "common/session/checkpoint.h"
#include "common/session/port.h"
#include "server/store/retention.h"
#include "server/trunk/memory.h"

struct sl_group;
struct sl_group_list;
struct sl_middle;

/* What all sessions of a server share. Pointers are borrowed. */
struct sl_middle_env {
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;   /* the device's: sessions take turns on it, task by task */
	struct sl_share *newcomers; /* the worker's share for all sessions that are not admitted yet */
	struct sl_backend *be;
	struct sl_backend *host_be;     /* the CPU's, for codecs that `be` lacks; NULL if `be` works in host memory */
	const char *store;              /* the store's folder; "": nothing is stored */
	struct sl_retention *retention; /* the store's limits */
	const char *device;             /* "cpu", "cuda:0 …": for Welcome */
	uint32_t part_bytes;
	uint64_t window_bytes;
	struct sl_budget *memory; /* of all sessions together, or of the client's key: host and device */
	enum sl_conf_recompute recompute;
	int task_s, piece_ms; /* limits of a task's cost (cost.h); 0: no limit */
	int report_samples;   /* limits.report_samples */
	struct sl_group_list *groups;
	/* Puts an admitted member into the group that its agreement names (group.h: sl_group_enter). */
	enum sl_err (*enter)(struct sl_group_list *groups, struct sl_middle *middle, const struct sl_agreed *agreed,
			     struct sl_fail *fail);
	int watchdog_s; /* most seconds of the worker's time for one task; 0: no limit */
	/* The session is over, with or without an error: call sl_middle_close soon, but not from within this call. */
	void (*over)(void *arg, struct sl_middle *middle);
	/* The server can serve what the session's Hello asks for; it has taken no memory for that yet. */
	void (*admitted)(void *arg, struct sl_middle *middle);
	/* Whether the client with this key may train with this group. Called only with auth. */
	bool (*may_join)(void *arg, const struct sl_key *key, const char *group);
	void *arg;
};

/* `owner`: the client's key; NULL: no auth. `back`: memory that older links of the session hold, and give back once
 * this one is admitted. */
enum sl_err sl_middle_open(struct sl_middle **out, const struct sl_middle_env *env, sl_peer peer,
			   const struct sl_key *owner, struct sl_memory back, struct sl_fail *fail) SL_MUST_CHECK;
void sl_middle_deliver(struct sl_middle *middle, struct sl_bytes header, struct sl_bytes payload);
void sl_middle_malformed(struct sl_middle *middle, const char *why);
void sl_middle_writable(struct sl_middle *middle);
void sl_middle_tick(struct sl_middle *middle);
void sl_middle_end(struct sl_middle *middle, const struct sl_fail *why); /* tells the client; `over` follows */
/* Frees the session once its last job is done, then calls `closed` on the loop. */
void sl_middle_close(struct sl_middle *middle, void (*closed)(void *arg), void *arg);

/* Call it when the step is decided: returns the seconds of this session's kernels since the step before. */
double sl_middle_decided(struct sl_middle *middle);
const struct sl_group *sl_middle_group(const struct sl_middle *middle); /* NULL: it has none, or is not admitted */

sl_peer sl_middle_peer(const struct sl_middle *middle);
const struct sl_session *sl_middle_session(const struct sl_middle *middle);

/* For the status. */
struct sl_middle_status {
	uint64_t opened_ms, worked_ms;   /* by the loop's clock; worked: when its last task ended */
	uint64_t steps, skipped;         /* skipped: those of `steps` that applied nothing */
	double step_s;                   /* moving average, seconds from one commit to the next; 0: none yet */
	struct sl_session_memory memory; /* zeros until the session is open */
	bool welcomed, left;             /* the handshake was done; the client said goodbye, or paused */
	/* Borrowed; NULL and "" until the session is admitted. */
	const struct sl_agreed *agreed;
	const char *network, *part; /* in words: the middle's size; its first and last layer */
	const char *outcome;        /* borrowed: how the session ended, such as "goodbye", "paused"; "": it has not */
	struct sl_checkpoint_state checkpoint; /* as of the last COMMIT */
	struct sl_port_stats stats;
};
struct sl_middle_status sl_middle_status(const struct sl_middle *middle);

#endif
