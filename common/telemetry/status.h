/* A snapshot of a daemon, as JSON (what the control socket answers; "schema": 2) and as a table (what `status` prints
 * from it). */
#ifndef SL_TELEMETRY_STATUS_H
#define SL_TELEMETRY_STATUS_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "common/base/err.h"

enum { SL_STATUS_SCHEMA = 2, SL_STATUS_TEXT = 128, SL_STATUS_MAX_SESSIONS = 4096, SL_STATUS_SCORES = 24 };

struct sl_status_session {
	char id[SL_STATUS_TEXT];
	char peer[SL_STATUS_TEXT];
	char model[SL_STATUS_TEXT];
	char partition[SL_STATUS_TEXT];
	char codec[4][SL_STATUS_TEXT]; /* head_act, mid_act, mid_grad, head_grad */
	char phase[SL_STATUS_TEXT];    /* "train", "eval", "connect" … */
	/* Done, and in all (0: not known; a server does not know epochs). skipped: steps that were left out, for NaN
	 * or Inf, or late in a group */
	int64_t epoch, epochs, step, steps, skipped;
	int64_t best_step; /* step of the best weights that are kept; 0: none */
	double best_acc;   /* their accuracy, or the metric that best_metric names; NaN: none */
	char best_metric[SL_STATUS_TEXT];
	int64_t link_epoch; /* which link of the session this is; newer ones are larger */
	/* The step of the newest checkpoint on the disk of the side that answers. Then that of a later one that
	 * could not be written, and why: 0 and "" if all is well */
	int64_t checkpoint_step, checkpoint_missed;
	char checkpoint_error[SL_STATUS_TEXT];
	double loss, acc; /* NaN: not known; acc 0 … 1 */
	/* Of a client: the last evaluation, after step evaluated_step; 0 and NaN: there was none, or it has no
	 * accuracy */
	int64_t evaluated_step;
	double test_loss, test_acc;
	double epsilon;      /* of a training sample so far (privacy.…); 0, NaN: not accounted */
	double dcor_squared; /* of its inputs and head_act: squared distance correlation, unbiased; NaN: not known */
	/* the other metrics of that evaluation, [n_score] */
	struct sl_status_score {
		char name[32];
		double value; /* NaN: it is not defined */
	} score[SL_STATUS_SCORES];
	int n_score;
	double samples_per_s;       /* over the last ten steps or so; NaN: not known */
	double tx_mb_s, rx_mb_s;    /* 10^6 bytes a second, over the last SL_RATE_WINDOW_MS; NaN: not known */
	int64_t tx_bytes, rx_bytes; /* as the side that answers sees it */
	double age_s;               /* since the session began */
	double left_s;              /* until the run is done, at the current speed; NaN: not known */
	double idle_s;              /* since its last step */
	int64_t stale_frames;       /* of older link epochs: dropped */
	/* Of a server: the most memory that the session takes, in all, on the device, and by kind. 0: not known */
	int64_t memory_bytes, memory_device_bytes;
	int64_t weights_bytes, activations_bytes, codecs_bytes, payloads_bytes;
	/* Of a server's session that is a member of a group; group "": it is in none. members: all members;
	 * members_least: how many a step needs, 0: all; members_here: how many have a link. group_step: steps that
	 * the group has done; late: steps done without this member, which was late. awaited: 1 if the step waits for
	 * this member */
	char group[SL_STATUS_TEXT], missing[SL_STATUS_TEXT]; /* missing: the members that a step waits for, and why */
	int64_t member, members, members_least, members_here, group_step, late, awaited;
	/* Of the bytes that crossed, those of shared heads and tails (end_grad, end_mean); 0: they are not shared. */
	int64_t end_grad_bytes, end_mean_bytes;
	/* Of a client: all bytes that the run's connections carried, and of these weights, framing and encryption. A
	 * server has 0. */
	int64_t wire_tx_bytes, wire_rx_bytes, weights_tx_bytes, weights_rx_bytes;
	int64_t framing_tx_bytes, framing_rx_bytes, curve_tx_bytes, curve_rx_bytes;
};

struct sl_status {
	char role[SL_STATUS_TEXT]; /* "client", "server" */
	char version[SL_STATUS_TEXT];
	char address[SL_STATUS_TEXT];
	char device[SL_STATUS_TEXT];
	int64_t pid, threads;
	/* of a server: messages that are not frames; peers that were refused a session */
	int64_t malformed, turned_away;
	int64_t log_left_out; /* lines that the log's limits left out */
	/* Of all links so far, closed ones included. links: handshakes done; lost: links that ended without a
	 * goodbye; frames: well-formed messages; bytes: their headers and payloads; rejected: frames that ended a
	 * session; stale: frames of older link epochs, which were dropped. */
	int64_t links, lost, frames, bytes, rejected, stale;
	/* 1: a server would accept a new session (it listens, is not shutting down, and has a free place); a client
	 * has a link, or is done. Else 0 */
	int64_t ready;
	int64_t sessions_limit; /* of a server: limits.sessions */
	int64_t started_s;      /* when the process began, in seconds since 1970, by its clock */
	/* of the file system of a server's store or a client's log.dir: free for this user, and in all; 0: nothing
	 * is written */
	int64_t disk_free_bytes, disk_bytes;
	double uptime_s;
	double task_s; /* how long the current task has run; compare with watchdog_s */
	/* of a server's store: what it holds, and the time since the last use of the file unused for longest */
	int64_t store_files, store_bytes;
	double store_oldest_s;
	/* the most bytes that it may hold, 0: no limit; uploads and checkpoints for which it had no room */
	int64_t store_limit_bytes, not_stored;
	/* of a server: bytes in use of malloc's memory. Tensors and the link's buffers are mapped, and not included. */
	int64_t heap_bytes;
	int64_t memory_bytes, memory_limit_bytes; /* of a server: memory of all sessions, and limits.memory_bytes */
	int n_session;
	struct sl_status_session *session; /* owned by its writer; after sl_status_parse, freed by sl_status_free */
	json_t *groups; /* the same: an object of groups' records by name (docs/OUTPUT.md); NULL: none */
};

/* One JSON document, indented by `indent` blanks (0: one line), malloc'ed; NULL: no memory. What is not UTF-8 becomes
 * '?'. */
char *sl_status_json(const struct sl_status *status, int indent);
/* Reads such a document. Unknown members are ignored; missing members that are `younger` (status_members.h) become 0
 * or NaN. VERSION: another schema; DATA. */
enum sl_err sl_status_parse(const char *text, struct sl_status *out, struct sl_fail *fail) SL_MUST_CHECK;
void sl_status_free(struct sl_status *status);
/* Prints two lines about the daemon, and for each session an aligned row and lines of details. `columns`: the
 * terminal's width; the table drops columns to fit it. 0: no limit. */
void sl_status_table(const struct sl_status *status, int columns, FILE *file);

/* status_groups.c: what the table and the metrics have of `groups`, of struct sl_status. NULL is fine. */
void sl_status_groups_table(json_t *groups, FILE *file);
void sl_status_groups_metrics(json_t *groups, FILE *file);
/* Prints it for Prometheus: metrics named split_…, with HELP and TYPE; a session's have its id and peer as labels. */
void sl_status_prometheus(const struct sl_status *status, FILE *file);
/* The same text, malloc'ed, from a document of sl_status_json. NULL: no memory, or not such a document. */
char *sl_status_metrics(const char *json);

#endif
