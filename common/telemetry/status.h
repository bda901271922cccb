/* A snapshot of a daemon, as JSON (what the control socket answers; "schema": 2) and as a table (what `status` prints
 * from it). */
#ifndef SL_TELEMETRY_STATUS_H
#define SL_TELEMETRY_STATUS_H

#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

enum { SL_STATUS_SCHEMA = 2, SL_STATUS_TEXT = 128, SL_STATUS_MAX_SESSIONS = 4096, SL_STATUS_SCORES = 24 };

struct sl_status_session {
	char id[SL_STATUS_TEXT];
	char peer[SL_STATUS_TEXT];
	char model[SL_STATUS_TEXT];
	char partition[SL_STATUS_TEXT];
	char codec[4][SL_STATUS_TEXT]; /* head_act, mid_act, mid_grad, head_grad */
	char phase[SL_STATUS_TEXT];    /* "train", "eval", "connect" … */
	/* Done, and in all (0: not known, as the epochs are to a server). skipped: of these steps, for NaN or Inf */
	int64_t epoch, epochs, step, steps, skipped;
	int64_t best_step; /* the best weights that are kept: behind this step; 0: none */
	double best_acc;   /* accuracy of the best weights, or what best_metric names; NAN */
	char best_metric[SL_STATUS_TEXT];
	int64_t link_epoch; /* which link of the session this is; newer ones are larger */
	/* The newest checkpoint on the disk of the side that answers; the one that could not be written behind it, and
	 * why: 0 and "" where all is well */
	int64_t checkpoint_step, checkpoint_missed;
	char checkpoint_error[SL_STATUS_TEXT];
	double loss, acc; /* NaN: not known; acc 0 … 1 */
	/* Of a client: the last evaluation, behind that step; 0, NaN: there was none, or there is no accuracy */
	int64_t evaluated_step;
	double test_loss, test_acc;
	double dcor_squared; /* of its inputs and head_act: distance correlation without bias; NaN: not known */
	/* and its other metrics, [n_score] */
	struct sl_status_score {
		char name[32];
		double value; /* NaN: it is not defined */
	} score[SL_STATUS_SCORES];
	int n_score;
	double samples_per_s;       /* over the last ten steps or so; NaN: not known */
	double tx_mb_s, rx_mb_s;    /* 10^6 bytes a second, over the last SL_RATE_WINDOW_MS; NaN: not known */
	int64_t tx_bytes, rx_bytes; /* as the side that answers sees it */
	double age_s;               /* since the session began */
	double left_s;              /* until the run is done, as fast as it is now; NaN: not known */
	double idle_s;              /* since its last step */
	int64_t stale_frames;       /* of older epochs: dropped */
	/* Of a server, what the session takes at most: in all, on the device, and of all by kind. 0: not known */
	int64_t memory_bytes, memory_device_bytes;
	int64_t weights_bytes, activations_bytes, codecs_bytes, payloads_bytes;
	/* Of a server's session that is a group's member; group "": of none.
	 * members: all; members_least: so many must be there for a step, 0: all; members_here: so many have a link.
	 * group_step: steps that the group has done; late: steps done without this member, which was late.
	 * awaited: 1, the step waits for this member */
	char group[SL_STATUS_TEXT], missing[SL_STATUS_TEXT]; /* missing: the members that a step waits for, and why */
	int64_t member, members, members_least, members_here, group_step, late, awaited;
	/* Of those bytes that cross, runs of shared heads and tails, either side's; 0: they are not shared. */
	int64_t end_grad_bytes, end_mean_bytes;
	/* Of a client: what the run's connections carried, and of that weights, framing, encryption; a server's are 0
	 */
	int64_t wire_tx_bytes, wire_rx_bytes, weights_tx_bytes, weights_rx_bytes;
	int64_t framing_tx_bytes, framing_rx_bytes, curve_tx_bytes, curve_rx_bytes;
};

struct sl_status {
	char role[SL_STATUS_TEXT]; /* "client", "server" */
	char version[SL_STATUS_TEXT];
	char address[SL_STATUS_TEXT];
	char device[SL_STATUS_TEXT];
	int64_t pid, threads;
	/* by a server: messages that are no frame; peers turned away before they had a session */
	int64_t malformed, turned_away;
	int64_t log_left_out; /* lines that the log's limits left out */
	/* Of all links so far, those that are over included. links: handshakes done; lost: links that ended without a
	 * goodbye; frames: messages that came in the right form, bytes: their headers and payloads; rejected: frames
	 * that ended a session; stale: frames of older epochs, dropped. */
	int64_t links, lost, frames, bytes, rejected, stale;
	/* 1: a server takes a new session (it listens, does not shut down, and has a place); a client has a link, or is
	 * done. 0: not so */
	int64_t ready;
	int64_t sessions_limit; /* of a server: limits.sessions */
	int64_t started_s;      /* when the process began, in seconds since 1970, by its clock */
	/* of the file system of a server's store, of a client's log.dir: free for this user, and in all; 0: none */
	int64_t disk_free_bytes, disk_bytes;
	double uptime_s;
	double task_s; /* how long the task that runs now has run: beside watchdog_s */
	/* of a server's store: how much it holds, and how long ago the file unused for longest was used */
	int64_t store_files, store_bytes;
	double store_oldest_s;
	/* most bytes that it may hold, 0: no limit; uploads and checkpoints for which it had no room */
	int64_t store_limit_bytes, not_stored;
	/* by a server: what malloc has given out and has not got back. Tensors and the link's buffers are mapped, and
	 * not in it. */
	int64_t heap_bytes;
	int64_t memory_bytes, memory_limit_bytes; /* of a server: of all sessions, and limits.memory_bytes */
	int n_session;
	struct sl_status_session *session; /* of whoever filled it in; after sl_status_parse, freed by sl_status_free */
};

/* One JSON document, indented by `indent` blanks (0: one line), malloc'ed; NULL: no memory. What is not UTF-8 becomes
 * '?'. */
char *sl_status_json(const struct sl_status *status, int indent);
/* Reads such a document; members that it does not know are ignored, and younger
 * ones that are not there are 0 or NaN. VERSION: another schema; DATA. */
enum sl_err sl_status_parse(const char *text, struct sl_status *out, struct sl_fail *fail) SL_MUST_CHECK;
void sl_status_free(struct sl_status *status);
/* Two lines about the daemon; for each session an aligned row and lines of details. `columns`: of the terminal, which
 * rows are kept within by leaving columns out; 0: no limit. */
void sl_status_table(const struct sl_status *status, int columns, FILE *file);

/* The same for Prometheus: metrics named split_…, with HELP and TYPE; a session's by its id and peer. */
void sl_status_prometheus(const struct sl_status *status, FILE *file);
/* That, malloc'ed, from what sl_status_json made; NULL: no memory, or no such document. */
char *sl_status_metrics(const char *json);

#endif
