/* What files say of the run: a checkpoint's notes, written and read; whether a model is that of its end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/persist/model_file.h"
#include "client/persist/same_run.h"
#include "client/setup/about.h"
#include "client/train/absent.h"
#include "client/train/privacy.h"
#include "client/train/training_run.h"
#include "common/base/log.h"

void sl_run_mark(struct sl_training *r)
{
	r->mark = (struct mark){.step = r->step,
				.log_bytes = sl_journal_tell(&r->journal),
				.heads = sl_journal_heads(&r->journal),
				.skipped_in_row = r->skipped_in_row,
				.epoch = r->epoch,
				.in_epoch = r->in_epoch,
				.train = r->train,
				.totals = r->totals,
				.last = r->last};
}

uint64_t sl_training_held(const struct sl_training *r)
{
	return r->mark.step;
}

void sl_training_join(struct sl_training *r, uint64_t step, bool has_ends)
{
	const struct mark *m = &r->mark;

	r->joined = step;
	r->bare = !has_ends;
	r->step = step < r->total_steps ? step : r->total_steps;
	r->epoch = (int)(r->step / (uint64_t)r->steps_per_epoch);
	r->in_epoch = (int64_t)(r->step % (uint64_t)r->steps_per_epoch);
	if (r->step == m->step) { /* maybe after an epoch's last step, before the evaluation */
		r->epoch = m->epoch;
		r->in_epoch = m->in_epoch;
	} else if (r->step == r->total_steps && !r->in_epoch) {
		r->epoch--;
		r->in_epoch = r->steps_per_epoch;
	}
	r->train = r->epoch == m->epoch ? m->train : (struct tally){0};
	r->eval = (struct tally){0};
	r->in_eval = 0;
	sl_scores_begin(r->scores);
	if (has_ends)
		sl_run_mark(r);
}

void sl_training_end_phase(struct sl_training *r)
{
	sl_run_mark(r);
	r->mark.epoch += !sl_run_phase_over(r);
	r->mark.in_epoch = 0;
	r->mark.train = (struct tally){0};
}

/* NULL: all steps are the member's own. */
static const struct sl_turns *turns_of(const struct sl_training *r)
{
	return r->setup->epoch_steps ? &r->setup->turns : NULL;
}

bool sl_training_says_end(const struct sl_training *r)
{
	return r->step == r->total_steps && !r->mark.in_epoch;
}

void sl_training_took_part(struct sl_training *r, bool took, const char *absent)
{
	r->took_part = took;
	r->missed = sl_absent_own(absent, r->setup->conf->agreed.share.member, turns_of(r));
}

struct sl_about_reached sl_training_reached(const struct sl_training *r, bool best, uint64_t made)
{
	const bool earlier = r->took_part && !r->bare && !r->totals.own_steps;

	return (struct sl_about_reached){.step = r->step,
					 .of = r->total_steps,
					 .untrained = r->totals.own_steps <= r->totals.skipped && !earlier,
					 .best = best,
					 .made = made};
}

/* A process that was killed behind its last checkpoint has done steps that the group need not repeat: others went on.
 * A late step has a line. In rounds a member may have a line of a step that the group then did without it. */
static void check_lines(const struct sl_training *r)
{
	const struct sl_turns *turns = turns_of(r);
	const uint64_t own = turns ? sl_turns_before(turns, r->setup->conf->agreed.share.member, r->step) : r->step;
	const uint64_t known = r->totals.own_steps - r->totals.late_steps + r->missed;

	if (!r->took_part || own <= known)
		return;
	if (!r->totals.own_steps && r->step >= r->total_steps)
		sl_log(SL_LOG_WARN, "steps-without-lines",
		       "nothing was trained here: by the server's record this member has done its %" PRIu64
		       " step%s before, and the group's run is done. Another run needs --fresh at all members, or "
		       "another "
		       "share.group",
		       own, sl_plural((long long)own));
	else
		sl_log(SL_LOG_WARN, "steps-without-lines",
		       "log.jsonl has no lines of %" PRIu64 " step%s that this member did, by the server's record: an "
		       "earlier process did them and was killed, or its files are gone, and the group did not repeat "
		       "them",
		       own - known, sl_plural((long long)(own - known)));
}

void sl_run_check_own(const struct sl_training *r)
{
	const char *group = r->setup->conf->agreed.share.group;
	const uint64_t theirs = r->joined > r->step ? r->joined : r->step;

	check_lines(r);
	if (!sl_training_reached(r, false, 0).untrained)
		return;
	if (group[0])
		sl_log(SL_LOG_WARN, "untrained",
		       "this member has %s: its middle is that of group %s after step %" PRIu64 "%s",
		       r->took_part && !r->totals.own_steps ? "trained no step since it began again"
							    : "trained no step of its own",
		       group, theirs, r->bare ? ", its head and tail are as they began" : "");
	else
		sl_log(SL_LOG_WARN, "untrained",
		       "none of %" PRIu64 " steps has changed the weights: they are as they began", r->step);
}

static const char *const note_keys[] = {"position", "train", "totals", "tests", "skipped"};
static const char last_key[] = "last step", server_key[] = "server", best_key[] = "best", traffic_key[] = "traffic",
		  stop_key[] = "stop";

void sl_training_sync(const struct sl_training *r)
{
	sl_journal_sync(&r->journal);
}

void sl_training_save(const struct sl_training *r, struct sl_checkpoint *c)
{
	const struct mark *m = &r->mark;
	const struct tally *t = &m->train;
	const struct sl_training_totals *a = &m->totals;
	char settings[SL_CHECKPOINT_NOTE], traffic[SL_JOURNAL_TRAFFIC];

	sl_checkpoint_note(c, note_keys[0], "%" PRIu64 " %d %" PRId64 " %" PRIu64, m->step, m->epoch, m->in_epoch,
			   m->log_bytes);
	sl_checkpoint_note(c, note_keys[1],
			   "%" PRId64 " %" PRId64 " %a %" PRIu64 " %" PRIu64 " %a %" PRId64 " %a %" PRId64, t->rows,
			   t->correct, t->loss, t->tx_bytes, t->rx_bytes, t->seconds, t->answers, t->dice, t->pictures);
	sl_checkpoint_note(c, note_keys[2],
			   "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %a %a",
			   a->samples, a->train_samples, a->eval_samples, a->tx_bytes, a->rx_bytes, a->train_tx_bytes,
			   a->train_rx_bytes, a->train_s, a->compute_s);
	sl_checkpoint_note(c, server_key, "%a %" PRIu64 " %" PRIu64 " %" PRIu64, a->server_s, a->server_steps,
			   a->own_steps, a->late_steps);
	sl_run_traffic_text(r, traffic);
	sl_checkpoint_note(c, traffic_key, "%s", traffic);
	if (m->heads.log[0])
		sl_checkpoint_note(c, SL_HEADS_NOTE, "%s %s", m->heads.log, m->heads.sessions);
	sl_checkpoint_note(c, note_keys[3], "%a %a %a %" PRIu64, a->test_loss, a->test_acc, a->best_test_acc,
			   a->test_step);
	sl_checkpoint_note(c, best_key, "%" PRIu64 " %a %s", a->best_step, a->kept, a->kept_by);
	if (r->setup->conf->train.stop.patience)
		sl_checkpoint_note(c, stop_key, "%a %" PRIu64 " %d %s", a->stop.best, a->stop.step, a->stop.waited,
				   a->stop.by);
	sl_checkpoint_note(c, note_keys[4], "%" PRIu64 " %" PRIu64, a->skipped, m->skipped_in_row);
	sl_same_run_note(r->setup->conf, settings);
	sl_checkpoint_note(c, SL_SAME_RUN, "%s", settings);
	if (r->setup->kept)
		sl_checkpoint_note(c, SL_ABOUT_KEPT, "%s", r->setup->kept);
	if (m->last.step == m->step)
		sl_checkpoint_note(c, last_key, "%.9g %.9g %.9g %" PRIu64 " %" PRIu64 " %.9g %.9g %.9g %.17g",
				   m->last.loss, m->last.acc, m->last.lr, m->last.wire_tx_bytes, m->last.wire_rx_bytes,
				   m->last.t_step_s, m->last.t_compute_s, m->last.t_wait_s, m->last.grad_norm);
}

void sl_training_notes(struct sl_checkpoint *c)
{
	for (size_t i = 0; i < sizeof note_keys / sizeof note_keys[0]; i++)
		sl_checkpoint_note(c, note_keys[i], "%s", "");
	sl_checkpoint_ask(c, SL_SAME_RUN);
	sl_checkpoint_ask(c, last_key);
	sl_checkpoint_ask(c, server_key);
	sl_checkpoint_ask(c, best_key);
	sl_checkpoint_ask(c, traffic_key);
	sl_checkpoint_ask(c, stop_key);
	sl_checkpoint_ask(c, SL_HEADS_NOTE);
}

/* Files of earlier versions lack the last two numbers, or three: each row had one label. */
static bool read_tally(struct tally *t, const char *note)
{
	const int n = sscanf(note, "%" SCNd64 " %" SCNd64 " %la %" SCNu64 " %" SCNu64 " %la %" SCNd64 " %la %" SCNd64,
			     &t->rows, &t->correct, &t->loss, &t->tx_bytes, &t->rx_bytes, &t->seconds, &t->answers,
			     &t->dice, &t->pictures);

	if (n == 6)
		t->answers = t->rows;
	return n >= 6;
}

static bool read_notes(struct sl_training *r, const struct sl_checkpoint *c, uint64_t *log_bytes)
{
	struct tally *t = &r->train;
	struct sl_training_totals *a = &r->totals;

	return sscanf(sl_checkpoint_noted(c, note_keys[0]), "%" SCNu64 " %d %" SCNd64 " %" SCNu64, &r->step, &r->epoch,
		      &r->in_epoch, log_bytes) == 4 &&
	       read_tally(t, sl_checkpoint_noted(c, note_keys[1])) &&
	       sscanf(sl_checkpoint_noted(c, note_keys[2]),
		      "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %la %la",
		      &a->samples, &a->train_samples, &a->eval_samples, &a->tx_bytes, &a->rx_bytes, &a->train_tx_bytes,
		      &a->train_rx_bytes, &a->train_s, &a->compute_s) == 9 &&
	       sscanf(sl_checkpoint_noted(c, note_keys[3]), "%la %la %la %" SCNu64, &a->test_loss, &a->test_acc,
		      &a->best_test_acc, &a->test_step) >= 3 &&
	       sscanf(sl_checkpoint_noted(c, note_keys[4]), "%" SCNu64 " %" SCNu64, &a->skipped, &r->skipped_in_row) ==
		       2;
}

/* Files of earlier versions may lack this note: the server's time is then that of the steps from here on. Or they lack
 * its last numbers: all steps count as the client's own, and none as late. */
static void read_server(struct sl_training *r, const struct sl_checkpoint *c)
{
	const char *note = c ? sl_checkpoint_noted(c, server_key) : NULL;
	struct sl_training_totals *a = &r->totals;

	a->own_steps = r->step;
	a->late_steps = 0;
	if (note && sscanf(note, "%la %" SCNu64 " %" SCNu64 " %" SCNu64, &a->server_s, &a->server_steps, &a->own_steps,
			   &a->late_steps) < 2)
		a->server_s = 0;
}

/* A file of a later step: the run has gone back to before it, and comes there again. */
static void warn_of_best(const struct sl_training *r, int64_t steps)
{
	const uint64_t noted = r->totals.best_step;

	if (noted && (steps == INT64_MAX || steps < (int64_t)r->step) && steps != (int64_t)noted)
		sl_log(SL_LOG_WARN, "best-lost",
		       "best.safetensors of step %" PRIu64 " is %s: the next evaluation counts as the best so far",
		       noted, steps == INT64_MAX ? "not there, or cannot be read" : "of another step");
}

/* Takes over the best weights that are noted, if best.safetensors is still of that step. Otherwise the run has gone
 * back to before it, or the file was removed: the next evaluation counts as the best. The last evaluation of a run that
 * is done came after the checkpoint, and a longer run may leave it out: then the file itself says what it is worth. */
static void read_best(struct sl_training *r, const struct sl_checkpoint *c)
{
	const struct sl_conf_client *conf = r->setup->conf;
	const bool done = c && c->prefix && strcmp(c->prefix, SL_CHECKPOINT_DONE) == 0;
	const int64_t steps = sl_run_keeps_best(r) ? sl_model_file_steps(conf, SL_MODEL_BEST) : INT64_MAX;
	char *last = done && steps == (int64_t)r->step ? sl_model_file_note(conf, SL_MODEL_BEST, SL_MODEL_SCORE) : NULL;
	const char *note = last ? last : c ? sl_checkpoint_noted(c, best_key) : NULL;
	struct sl_training_totals *a = &r->totals;
	char by[32] = "accuracy"; /* files of earlier versions name none */

	if (!note || sscanf(note, "%" SCNu64 " %la %31s", &a->best_step, &a->kept, by) < 2 || !a->best_step ||
	    strcmp(by, a->kept_by) != 0 || steps != (int64_t)a->best_step) {
		if (sl_run_keeps_best(r))
			warn_of_best(r, steps);
		a->best_step = 0;
		a->kept = NAN;
	}
	free(last);
}

/* If the note is missing or of another metric, the next evaluation counts as the best so far. */
static void read_stop(struct sl_training *r, const struct sl_checkpoint *c)
{
	const char *note = c ? sl_checkpoint_noted(c, stop_key) : NULL;
	struct sl_training_stop was = {.by = r->totals.stop.by};
	char by[32];

	if (note && sscanf(note, "%la %" SCNu64 " %d %31s", &was.best, &was.step, &was.waited, by) == 4 &&
	    strcmp(by, was.by) == 0)
		r->totals.stop = was;
}

/* Numbers are padded to 20 digits, so that all texts have the same length: each overwrites the one before it. */
#define EACH(x) "%20" x " %20" x " %20" x " %20" x " "

void sl_run_traffic_text(const struct sl_training *r, char text[SL_JOURNAL_TRAFFIC])
{
	const struct sl_traffic *tx = &r->traffic[SL_SENT], *rx = &r->traffic[SL_RECEIVED];

	snprintf(text, SL_JOURNAL_TRAFFIC, EACH(PRIu64) EACH(PRIu64), tx->bytes, tx->weights, tx->framing, tx->curve,
		 rx->bytes, rx->weights, rx->framing, rx->curve);
}

/* The file has at least what a checkpoint notes: it is written before. */
static void check_traffic(const struct sl_training *r, const char *noted)
{
	uint64_t bytes;

	if (r->journal.traffic_fd && noted && sscanf(noted, "%" SCNu64, &bytes) == 1 &&
	    r->traffic[SL_SENT].bytes < bytes)
		sl_log(SL_LOG_WARN, "traffic-lost",
		       "log.dir's count of bytes (traffic) is missing, or was cut: those that an earlier process moved "
		       "behind step %" PRIu64 " are not counted",
		       r->step);
}

void sl_run_traffic_before(struct sl_training *r, const char *text)
{
	struct sl_traffic t[SL_WAYS], *tx = &t[SL_SENT], *rx = &t[SL_RECEIVED];

	if (!text || sscanf(text, EACH(SCNu64) EACH(SCNu64), &tx->bytes, &tx->weights, &tx->framing, &tx->curve,
			    &rx->bytes, &rx->weights, &rx->framing, &rx->curve) != 8)
		return;
	for (int way = 0; way < SL_WAYS; way++)
		if (t[way].bytes > r->traffic[way].bytes) /* else this process made the note */
			r->before[way] = r->traffic[way] = t[way];
}

static bool read_last(struct sl_training *r, const struct sl_checkpoint *c)
{
	const char *note = c ? sl_checkpoint_noted(c, last_key) : NULL;
	struct sl_jsonl_step *s = &r->last;

	*s = (struct sl_jsonl_step){.step = 0};
	/* files of earlier versions lack the norm */
	s->grad_norm = NAN;
	if (!note || sscanf(note, "%lf %lf %lf %" SCNu64 " %" SCNu64 " %lf %lf %lf %lf", &s->loss, &s->acc, &s->lr,
			    &s->wire_tx_bytes, &s->wire_rx_bytes, &s->t_step_s, &s->t_compute_s, &s->t_wait_s,
			    &s->grad_norm) < 8)
		return false;
	s->step = r->step;
	return true;
}

/* In the events, an epoch has the same x as its last step. It is written again, so all events of that x are cut off,
 * and the step's are written again, too. */
static void go_back(struct sl_training *r, const struct sl_checkpoint *c, uint64_t log_bytes, bool last_known)
{
	bool with_last = last_known && !sl_run_phase_over(r) && sl_run_epoch_over(r);
	const char *note = c ? sl_checkpoint_noted(c, SL_HEADS_NOTE) : NULL;
	char head[SL_CHAIN_TEXT] = "", sessions[SL_CHAIN_TEXT] = ""; /* files of earlier versions lack them */

	if (note)
		(void)!sscanf(note, "%32s %32s", head, sessions);
	sl_journal_check_sessions(&r->journal, sessions);
	sl_journal_go_back(&r->journal, log_bytes, head, r->step, r->step + !with_last);
	if (with_last)
		sl_journal_repeat(&r->journal, &r->last);
}

enum sl_err sl_training_restore(struct sl_training *r, const struct sl_checkpoint *c, struct sl_fail *fail)
{
	const char *mode = r->totals.mode, *part = r->totals.part, *kept_by = r->totals.kept_by,
		   *stop_by = r->totals.stop.by;
	char changed[SL_SAME_RUN_TEXT];
	uint64_t log_bytes = 0;
	bool border; /* the state is that at the end of the phase before */

	r->step = 0;
	r->total_steps = r->planned_steps;
	r->epoch = 0;
	r->in_epoch = r->in_eval = 0;
	r->train = r->eval = (struct tally){0};
	sl_scores_begin(r->scores);
	r->totals = (struct sl_training_totals){.mode = mode,
						.part = part,
						.task = r->task,
						.has_accuracy = r->totals.has_accuracy,
						.blind = r->totals.blind,
						.kept_by = kept_by,
						.stop = {.by = stop_by, .best = NAN},
						.test_loss = NAN,
						.test_acc = NAN,
						.best_test_acc = NAN,
						.dcor_squared = NAN};
	r->skipped_in_row = 0;
	r->best_due = false;
	r->loss = r->acc = NAN;
	if (c && !read_notes(r, c, &log_bytes))
		return sl_fail_set(fail, SL_ERR_DATA, "the checkpoint's notes on the run cannot be read");
	border = r->setup->phase.step && r->step == r->setup->phase.step;
	read_server(r, c);
	read_best(r, c);
	read_stop(r, c);
	if (r->epoch < 0 || r->in_epoch < 0)
		return sl_fail_set(fail, SL_ERR_DATA, "the checkpoint's notes on the run have an epoch below 0");
	if ((uint64_t)r->in_epoch > r->step)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "the checkpoint's notes on the run have %" PRId64 " batches of an epoch in %" PRIu64
				   " steps",
				   r->in_epoch, r->step);
	if (border && r->in_epoch) { /* the earlier run had no phases, or did not get to note the phase's end */
		r->epoch++;
		r->in_epoch = 0;
		r->train = (struct tally){0};
	}
	if (c && !r->setup->epoch_steps && !r->setup->phase.count &&
	    r->step != (uint64_t)r->epoch * (uint64_t)r->steps_per_epoch + (uint64_t)r->in_epoch)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "step %" PRIu64 " is batch %" PRId64 " of epoch %d, and an epoch has %" PRId64
				   " batches now: the run would end in another epoch. Go on with the train.drop_last "
				   "and data.train_limit that it had",
				   r->step, r->in_epoch, r->epoch + 1, r->steps_per_epoch);
	if (r->step > r->total_steps || r->in_epoch > r->steps_per_epoch)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "the checkpoint is at step %" PRIu64 ", the run ends at %" PRIu64, r->step,
				   r->total_steps);
	if (c && !border) {
		const bool other = sl_same_run_changed(r->setup->conf, sl_checkpoint_noted(c, SL_SAME_RUN), changed);
		enum sl_err err = sl_run_privacy_changed(r, changed, fail);

		if (err)
			return err;
		if (other)
			sl_log(SL_LOG_WARN, "resume-changed",
			       "from step %" PRIu64 " on this run differs from the one before: %s", r->step, changed);
	}
	if (!r->linked_steps) /* else a link was lost, and this process goes back a little */
		r->linked_from = r->step;
	check_traffic(r, c ? sl_checkpoint_noted(c, traffic_key) : NULL);
	sl_run_traffic_before(r, c ? sl_checkpoint_noted(c, traffic_key) : NULL);
	go_back(r, c, log_bytes, read_last(r, c));
	sl_run_mark(r);
	sl_run_batch_over(r); /* no evaluation may follow now, where one would have before */
	return SL_OK;
}
