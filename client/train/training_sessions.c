/* What sessions.jsonl says of this process: its links, and its end. */
#include <jansson.h>

#include "client/persist/model_file.h"
#include "client/persist/record.h"
#include "client/train/training_run.h"
#include "common/conf/options.h"
#include "common/telemetry/json.h"

/* The hash of a file in log.dir; NULL: there is none. */
static const char *hash_of(const struct sl_training *r, const char *name, char hash[SL_CHAIN_TEXT])
{
	char path[PATH_MAX];
	struct sl_fail fail;

	return !sl_log_dir_path(path, r->setup->conf, name, &fail) && !sl_chain_file(hash, path, &fail) ? hash : NULL;
}

void sl_run_log_start(struct sl_training *r)
{
	const bool kept = sl_record_keep(r->setup->conf, r->setup->record, r->setup->about);

	sl_journal_session(&r->journal, "start",
			   json_pack("{ss ss sI sI ss?}", "mode", r->totals.mode, "version", sl_command_version(),
				     "train_samples", (json_int_t)r->setup->set[SL_SPLIT_TRAIN].count, "test_samples",
				     (json_int_t)r->setup->set[SL_SPLIT_TEST].count, "config",
				     kept ? hash_of(r, SL_RECORD_FILE, r->config) : NULL));
}

void sl_training_linked(struct sl_training *r, const char *server, const char *key, const char *server_key)
{
	sl_journal_session(&r->journal, "link",
			   json_pack("{sI so ss? ss?}", "step", (json_int_t)r->step, "server", sl_json_text(server),
				     "key", key, "server_key", server_key));
}

void sl_training_unlinked(struct sl_training *r, const char *why)
{
	sl_journal_session(&r->journal, "lost",
			   json_pack("{sI so}", "step", (json_int_t)r->step, "why", sl_json_text(why)));
}

void sl_run_log_end(struct sl_training *r, const struct sl_jsonl_summary *s)
{
	char model[SL_CHAIN_TEXT], best[SL_CHAIN_TEXT], about[SL_CHAIN_TEXT];

	if (!r->journal.log)
		return;
	sl_journal_sync(&r->journal);
	sl_journal_session(
		&r->journal, "end",
		json_pack("{ss* sI sI sI ss ss? ss? ss? ss? so}", "outcome", s->outcome, "step", (json_int_t)r->step,
			  "wire_tx_bytes", (json_int_t)s->wire_tx_bytes, "wire_rx_bytes", (json_int_t)s->wire_rx_bytes,
			  "log", sl_jsonl_head(r->journal.log), "model", hash_of(r, SL_MODEL_FILE, model), "best",
			  hash_of(r, SL_MODEL_BEST, best), "config", r->config[0] ? r->config : NULL, "about",
			  hash_of(r, SL_ABOUT_FILE, about), "direction", sl_jsonl_directions(s->direction)));
	snprintf(r->totals.head, sizeof r->totals.head, "%s", sl_jsonl_head(r->journal.sessions));
}
