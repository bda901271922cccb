/* The run's account of differential privacy (privacy.…): how often a sample has crossed, and the epsilon of that. It
 * follows from the step that the run is at, and from the hashes in log.dir of what has crossed (step/releases.h). So no
 * kill and no resume counts a release twice, or forgets one: a step that is repeated sends the same values with the
 * same noise, or the run ends. */
#ifndef SL_CLIENT_TRAIN_PRIVACY_H
#define SL_CLIENT_TRAIN_PRIVACY_H

#include "client/setup/setup.h"
#include "client/train/summary.h"

struct sl_training;

static inline bool sl_privacy_is_on(const struct sl_setup *s)
{
	return s->conf->privacy.clip > 0;
}
/* CONFIG: a batch norm in head or tail makes a row depend on others; or delta is too large for so many samples; or the
 * budget is below one epoch's epsilon. Warns where head or tail learns. */
enum sl_err sl_privacy_check(const struct sl_setup *s, int64_t samples, struct sl_fail *fail) SL_MUST_CHECK;
/* The same; ends the run where the budget does. */
enum sl_err sl_run_privacy_open(struct sl_training *r, struct sl_fail *fail) SL_MUST_CHECK;
/* log.dir is this process's: reads what has crossed, with --fresh forgets it, and notes what crosses from here on.
 * Errors of sl_releases_open. */
enum sl_err sl_run_privacy_begin(const struct sl_training *r, struct sl_fail *fail) SL_MUST_CHECK;
/* The run goes on from a checkpoint, with other settings (`changed`, or ""). MISMATCH: privacy.… is another one; or
 * rows have crossed behind the checkpoint, and would cross again with other values; or what has crossed is missing. */
enum sl_err sl_run_privacy_changed(const struct sl_training *r, const char *changed,
				   struct sl_fail *fail) SL_MUST_CHECK;
/* What has been released so far, the step under way included. delta 0: the run accounts nothing. */
struct sl_jsonl_privacy sl_run_privacy(const struct sl_training *r);
/* SPENT, if the budget has ended the run. */
enum sl_err sl_run_privacy_end(const struct sl_training *r, struct sl_fail *fail) SL_MUST_CHECK;

#endif
