/* The logs of a run: log.jsonl, sessions.jsonl, and events for TensorBoard if the config wants them. A line that cannot
 * be written is lost, a warning says so once, and the run goes on. One thread, except for sl_journal_sync. */
#ifndef SL_CLIENT_PERSIST_JOURNAL_H
#define SL_CLIENT_PERSIST_JOURNAL_H

#include "client/persist/events.h"
#include "client/persist/jsonl.h"
#include "common/conf/conf.h"
#include "common/link/chain.h"

/* A zeroed journal writes nothing. */
enum { SL_JOURNAL_TRAFFIC = 192 };

#define SL_SESSIONS_FILE "sessions.jsonl" /* what processes and links of the run there were; it is never cut */

#define SL_HEADS_NOTE "log heads" /* a checkpoint's note: those of both logs, with a space between */

/* The heads of the chains of both logs. */
struct sl_journal_heads {
	char log[SL_CHAIN_TEXT], sessions[SL_CHAIN_TEXT];
};

struct sl_journal {
	struct sl_jsonl *log, *sessions;
	int traffic_fd;                   /* the descriptor plus 1; 0: none */
	char traffic[SL_JOURNAL_TRAFFIC]; /* the text of sl_journal_traffic from an earlier process; "": none */
	struct sl_events *events;
	const char *dir; /* log.dir, borrowed from the config */
	bool unfit;      /* sl_journal_check_sessions has said so */
	bool log_broken, sessions_broken, events_broken;
};

/* Opens the logs in log.dir; log.dir "": nothing is written. resume: appends to them. Otherwise an earlier run there
 * stays as it is until sl_journal_begin. Close *journal after a failure, too. */
enum sl_err sl_journal_open(struct sl_journal *journal, const struct sl_conf_client *conf, bool resume,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Begins a new run: removes checkpoints, model, log and events of an earlier one. Write nothing before this call. */
enum sl_err sl_journal_begin(struct sl_journal *journal, const struct sl_conf_client *conf,
			     struct sl_fail *fail) SL_MUST_CHECK;
void sl_journal_close(struct sl_journal *journal);
/* Checks whether log.jsonl and sessions.jsonl could be opened in log.dir; it makes and writes nothing. Errors of
 * sl_jsonl_check. */
enum sl_err sl_journal_check(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* CANTCREATE: log.dir holds a run, finished or not, which a new run would remove. */
enum sl_err sl_journal_taken(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;

/* The config key to raise to make the run longer. */
const char *sl_journal_longer_key(const struct sl_conf_client *conf);

void sl_journal_step(struct sl_journal *journal, const struct sl_jsonl_step *step);
void sl_journal_epoch(struct sl_journal *journal, const struct sl_jsonl_epoch *epoch);
void sl_journal_audit(struct sl_journal *journal, const struct sl_jsonl_audit *audit);
void sl_journal_summary(struct sl_journal *journal, const struct sl_jsonl_summary *summary);

/* Stores `text` (the run's counts of bytes) in log.dir/traffic, in place of the one before: all have one length. */
void sl_journal_traffic(struct sl_journal *journal, const char *text);

/* Writes a line to sessions.jsonl: {"type", "time", the members of `more`}. Takes over `more`. */
void sl_journal_session(struct sl_journal *journal, const char *type, struct json_t *more);
struct sl_journal_heads sl_journal_heads(const struct sl_journal *journal);

/* _tell: the length of log.jsonl in bytes. _go_back cuts it to such a length, at which its head was `head` ("": nobody
 * noted it), and makes readers drop events from `step` on, since these steps are run again. `done`: the last step that
 * stays. A log that lacks lines, or has other ones, is warned of, and written down for sl_log_check. */
uint64_t sl_journal_tell(const struct sl_journal *journal);
/* The run goes on from a checkpoint beside which sessions.jsonl had this head: if it no longer has, or its lines do not
 * fit, warns, and writes that down for sl_log_check. "": the checkpoint does not say. */
void sl_journal_check_sessions(struct sl_journal *journal, const char *head);
void sl_journal_go_back(struct sl_journal *journal, uint64_t log_bytes, const char *head, uint64_t done, uint64_t step);
/* Writes the event of a step once more. It was dropped with an evaluation at the same step, which is run again. */
void sl_journal_repeat(struct sl_journal *journal, const struct sl_jsonl_step *step);
/* Syncs the logs to the disk; a failure is only a warning. Any thread, while the journal is open. */
void sl_journal_sync(const struct sl_journal *journal);

#endif
