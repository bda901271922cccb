/* What a run writes down as it goes: log.jsonl, and events for TensorBoard where the config says so. What cannot be
 * written is lost, a warning says so once, and the run goes on. One thread, but for sl_journal_sync. */
#ifndef SL_CLIENT_PERSIST_JOURNAL_H
#define SL_CLIENT_PERSIST_JOURNAL_H

#include "client/persist/events.h"
#include "client/persist/jsonl.h"
#include "common/conf/conf.h"

/* A zeroed one writes nothing. */
enum { SL_JOURNAL_TRAFFIC = 192 };

struct sl_journal {
	struct sl_jsonl *log;
	int traffic_fd;                   /* a descriptor and 1; 0: none */
	char traffic[SL_JOURNAL_TRAFFIC]; /* the text that an earlier process of the run left; "": none */
	struct sl_events *events;
	bool log_broken, events_broken;
};

/* In log.dir; "": nothing is written. resume: the log goes on. Else an earlier run there stays as it is until
 * sl_journal_begin. On failure *journal is to be closed too. */
enum sl_err sl_journal_open(struct sl_journal *journal, const struct sl_conf_client *conf, bool resume,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* A new run begins: the checkpoints, model, log and events of an earlier one are removed. Nothing is written before. */
enum sl_err sl_journal_begin(struct sl_journal *journal, const struct sl_conf_client *conf,
			     struct sl_fail *fail) SL_MUST_CHECK;
void sl_journal_close(struct sl_journal *journal);
/* Whether log.jsonl could be opened in log.dir, and why not; nothing is made or written. */
enum sl_err sl_journal_check(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* CANTCREATE where log.dir holds a run, finished or not, which a new run would remove. */
enum sl_err sl_journal_taken(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;

/* The key that makes the run longer. */
const char *sl_journal_longer_key(const struct sl_conf_client *conf);

void sl_journal_step(struct sl_journal *journal, const struct sl_jsonl_step *step);
void sl_journal_epoch(struct sl_journal *journal, const struct sl_jsonl_epoch *epoch);
void sl_journal_summary(struct sl_journal *journal, const struct sl_jsonl_summary *summary);

/* Notes a text in log.dir, over the one before it, which has its length. */
void sl_journal_traffic(struct sl_journal *journal, const char *text);

/* The length of log.jsonl; and cutting it back to that length: events from `step` on are then written again. */
uint64_t sl_journal_tell(const struct sl_journal *journal);
void sl_journal_go_back(struct sl_journal *journal, uint64_t log_bytes, uint64_t step);
/* An event that was cut off with others of the same x, although its step is not run again. */
void sl_journal_repeat(struct sl_journal *journal, const struct sl_jsonl_step *step);
/* Brings it to the disk. Any thread, while it is open. */
void sl_journal_sync(const struct sl_journal *journal);

#endif
