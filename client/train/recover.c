#include "client/train/recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/persist/archive.h"
#include "client/persist/epoch.h"
#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "client/persist/run_secret.h"
#include "client/train/recover_check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum past { LINK_NONE, LINK_MADE, LINK_TRAINED }; /* LINK_TRAINED: one was lost that had got its state */
struct sl_recover {
	const struct sl_setup *setup;
	const char *dir; /* log.dir; "": nothing on disk */
	struct sl_recover_events events;
	void *arg;
	struct sl_secret secret;
	uint64_t epoch; /* of the last link */
	enum past past; /* of this process's links */
	bool unkept;    /* the secret is not on the disk: log.dir is still an earlier run's */
	struct sl_archive *archive;
	const struct sl_training *run; /* its log must reach the disk before the checkpoint that is being written */
	bool longer;                   /* the run was done: its last state, the newest file, has another name */
	uint64_t done_at;              /* the step of that last state */
	bool certain; /* the server has stored its side of a file, and no link has gone on from one yet */
	/* from the last link */
	struct sl_client_state live, ahead;
	bool has_live, has_ahead;
	uint64_t given; /* `made` of the state that was given last */
	uint64_t asked; /* the last step whose checkpoint this side was to write, as the server had written its own */
	uint64_t began; /* the last step that this side went back to, or from which all went on */
	bool stale;     /* another link made the server's side of the state that was given last */
	bool older;     /* that was an earlier link */
	struct sl_step_result ahead_result;
};

/* Whether a checkpoint falls due behind `done` steps, as for all members; `ends`: even without, behind the last step.
 * The members of a group stand at the same step only where a round ends. */
static bool is_due(const struct sl_recover *r, uint64_t done, bool ends)
{
	const uint64_t every = (uint64_t)r->setup->conf->train.checkpoint_every;
	const uint64_t round = sl_setup_round(r->setup), length = round ? round : 1;

	return every && done % length == 0 && (ends || done / every > (done - length) / every);
}

/* Of a group's files only those that fell due: no other member has one of a pause or a lost link. */
static bool all_have(const struct sl_recover *r, uint64_t step)
{
	return !r->setup->conf->agreed.share.group[0] || is_due(r, step, false);
}

/* Reads log.dir: its good files, and their session. */
static enum sl_err find_session(struct sl_recover *r, uint64_t total_steps, struct sl_fail *fail)
{
	struct sl_last_run run;
	int due = 0;
	enum sl_err err = sl_last_run_read(&run, r->setup->conf, r->setup->plan, total_steps, fail);

	if (err)
		return err;
	r->secret = run.secret;
	sl_secret_wipe(&run.secret);
	for (int i = 0; i < run.n; i++)
		due += all_have(r, run.step[i]);
	sl_archive_found(r->archive, run.step, run.n, run.confirmed < due ? run.confirmed : due);
	r->longer = run.done;
	r->certain = run.confirmed && !r->setup->conf->agreed.share.group[0]; /* a group may go back further */
	r->done_at = run.step[run.n - 1];
	return SL_OK;
}

static void sync_log(void *arg)
{
	const struct sl_recover *r = arg;

	sl_training_sync(r->run);
}

/* Whether a group has no one else for this member's head and tail. Its members keep two checkpoints: if it misses one
 * and dies in the next, there is none that all hold. So it tries a write again, and does not go on if that fails. */
static bool is_needed(const struct sl_recover *r)
{
	return r->setup->conf->agreed.share.group[0] && !sl_agreed_goes_on(&r->setup->conf->agreed);
}

static bool is_owed(const struct sl_recover *r)
{
	return is_needed(r) && sl_archive_tries(r->archive) > 1;
}

static void on_missed(void *arg, const struct sl_fail *fail)
{
	struct sl_recover *r = arg;

	r->events.missed(r->arg, fail, is_owed(r));
}

static void on_written(void *arg)
{
	struct sl_recover *r = arg;

	r->events.written(r->arg);
}

enum sl_err sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
			    const struct sl_training *run, bool keep, enum sl_recover_as as,
			    const struct sl_recover_events *events, void *arg, struct sl_fail *fail)
{
	static const struct sl_archive_events archive_events = {sync_log, on_missed, on_written};
	struct sl_recover *r = calloc(1, sizeof *r);
	enum sl_err err;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	r->setup = setup;
	r->events = *events;
	r->arg = arg;
	r->dir = keep ? setup->conf->log.dir : "";
	err = sl_archive_open(&r->archive, loop, r->dir, setup->conf->watchdog_s, &archive_events, r, fail);
	if (!err && as == SL_RECOVER_FILES)
		err = find_session(r, sl_training_state(run).total_steps, fail);
	else if (!err)
		err = sl_run_secret_find(as == SL_RECOVER_SAME ? r->dir : "", &r->secret, fail);
	r->unkept = as != SL_RECOVER_FILES;
	if (err) {
		sl_recover_close(r);
		return err;
	}
	r->epoch = sl_epoch_begin(r->dir, (uint64_t)sl_wall_s());
	*out = r;
	return SL_OK;
}

uint64_t sl_recover_busy_ms(const struct sl_recover *r)
{
	return sl_archive_busy_ms(r->archive);
}

bool sl_recover_settle(struct sl_recover *r)
{
	return sl_archive_settle(r->archive);
}

void sl_recover_close(struct sl_recover *r)
{
	if (!r)
		return;
	sl_archive_close(r->archive);
	sl_client_state_close(&r->live);
	sl_client_state_close(&r->ahead);
	sl_secret_wipe(&r->secret);
	free(r);
}

/* Whether both sides have had a checkpoint. To begin anew would overwrite it, whatever has become of the server's
 * store. A group needs two: at the second, all have the first on their disks. */
static bool is_confirmed(const struct sl_recover *r)
{
	return sl_archive_confirmed(r->archive) > (r->setup->conf->agreed.share.group[0] ? 1 : 0);
}

void sl_recover_offer(struct sl_recover *r, struct sl_offer *offer)
{
	uint64_t file[SL_LAST_RUN_STEPS];
	int n_file = sl_archive_files(r->archive, file);
	const bool alone = r->past == LINK_TRAINED && !r->setup->conf->agreed.share.group[0] &&
			   r->setup->conf->link.on_server_lost != SL_LOST_WAIT; /* then the run ends */
	const bool anew = !r->longer && !r->setup->phase.step && !is_confirmed(r) && !alone;

	offer->secret = &r->secret;
	offer->epoch = ++r->epoch;
	offer->first = r->past == LINK_NONE;
	n_file -= is_confirmed(r) && n_file > 1 && !file[n_file - 1]; /* the file of a pause before the first step */
	sl_offer_fill(offer, r->has_ahead ? r->ahead.step : 0, r->has_live ? r->live.step : SL_OFFER_NONE, file, n_file,
		      anew);
}

static enum sl_err take(const struct sl_recover *r, struct sl_remote *remote, struct sl_client_state *s, uint64_t step,
			struct sl_fail *fail)
{
	enum sl_err err = s->head.weight || s->tail.weight ? SL_OK : sl_remote_state_open(remote, s, fail);

	if (!err && (sl_remote_torn(remote) || sl_remote_take(remote, s)))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be read", step);
	s->step = step;
	/* while nobody knows, it is as it was given, with other codecs */
	s->made = sl_remote_made(remote) == SL_MADE_UNKNOWN ? r->given | SL_MADE_ANEW : sl_remote_made(remote);
	return err;
}

enum sl_err sl_recover_lost(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool *done,
			    struct sl_step_result *result, struct sl_fail *fail)
{
	const uint64_t next = sl_training_state(run).step + 1;
	uint64_t step = sl_training_held(run);
	enum sl_err err;

	(void)!sl_recover_settle(r); /* the next offer has the file that is being written, too */
	*done = sl_remote_applied(remote);
	if (!sl_link_was_up(sl_remote_link(remote)))
		return SL_OK; /* that link never got its state: what was held before is still valid */
	r->has_live = r->has_ahead = false;
	if (sl_remote_torn(remote)) {
		sl_log(SL_LOG_WARN, "step-torn",
		       "step %" PRIu64 " was applied in part; a checkpoint's state takes over", step);
		return SL_OK;
	}
	if (*done) {
		*result = sl_remote_result(remote);
		step = next;
	}
	err = take(r, remote, &r->live, step, fail);
	r->has_live = !err;
	r->past = LINK_TRAINED;
	if (err || !sl_remote_in_doubt(remote))
		return err;
	r->ahead_result = sl_remote_result(remote);
	err = sl_remote_apply(remote, fail);
	if (err)
		return err == SL_ERR_AUDIT ? err
					   : sl_fail_set(fail, err, "step %" PRIu64 " could not be applied", next - 1);
	err = take(r, remote, &r->ahead, next, fail);
	r->has_ahead = !err;
	sl_recover_check_held(&r->live, err ? NULL : &r->ahead);
	return err;
}

static enum sl_err install_state(struct sl_recover *r, struct sl_remote *remote, const struct sl_client_state *s,
				 struct sl_fail *fail)
{
	enum sl_err err = sl_recover_check_made(remote, s, fail);

	r->stale = err;
	r->older = err && sl_remote_made(remote) < s->made;
	if (err)
		return err;
	r->given = s->made;
	err = sl_remote_give(remote, s);
	if (err == SL_ERR_DATA)
		return sl_fail_set(fail, err, "step %" PRIu64 ": its state does not belong to this run", s->step);
	return err ? sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be set", s->step)
		   : SL_OK;
}

static enum sl_err read_file(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, uint64_t step,
			     struct sl_fail *fail)
{
	struct sl_client_state *s = &r->live; /* its content is not needed any more */
	struct sl_checkpoint c;
	enum sl_err err;

	r->has_live = r->has_ahead = false;
	sl_client_state_close(s); /* a new link's tensors are of full size; decaying inserts may have narrowed these */
	err = sl_remote_state_open(remote, s, fail);
	if (err)
		return err;
	sl_client_checkpoint(&c, r->dir, r->setup->plan);
	if (r->longer && step == r->done_at)
		c.prefix = SL_CHECKPOINT_DONE;
	sl_training_notes(&c);
	if (SL_FAILPOINT_CALL(SL_FP_CKPT_READ_C, 0) != 0)
		err = sl_fail_set(fail, SL_ERR_IO, "the checkpoint of step %" PRIu64 ": %s", step, strerror(errno));
	else
		err = sl_client_state_read(s, &c, step, fail);
	if (!err)
		err = sl_recover_check_step(&c, step, fail);
	if (!err)
		err = sl_training_restore(run, &c, fail);
	return err ? err : install_state(r, remote, s, fail);
}

/* The other party of a vertical group may have lost the evaluation after this step; a pass needs both: repeats it. */
static enum sl_err leave_evaluation(struct sl_training *run, struct sl_fail *fail)
{
	struct sl_checkpoint c = {.dir = NULL};

	sl_training_save(run, &c);
	return sl_training_restore(run, &c, fail);
}

static enum sl_err restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, uint64_t next_step,
			   enum sl_restored *how, struct sl_step_result *result, struct sl_fail *fail)
{
	const struct sl_client_state *held = NULL;
	const bool sure = sl_remote_session(remote)->common || r->setup->conf->agreed.share.group[0];
	const bool given = sl_session_has_ends(sl_remote_session(remote));
	uint64_t epoch = sl_remote_session(remote)->epoch, newest = sl_archive_newest(r->archive);
	enum sl_err err = r->unkept ? sl_run_secret_keep(r->dir, &r->secret, fail) : SL_OK;

	r->past = r->past ? r->past : LINK_MADE;
	r->stale = false;
	r->given = 0;
	if (err)
		return err;
	r->unkept = false;
	if (epoch > r->epoch) /* the server knew a higher one than this side remembered */
		sl_epoch_raise(r->dir, r->epoch = epoch);
	if (sl_remote_session(remote)->common || next_step < sl_training_held(run))
		r->began = next_step;
	r->asked = r->asked < next_step ? r->asked : next_step; /* later ones were given up */
	if (r->has_ahead && next_step == r->ahead.step) {
		held = &r->ahead;
		*how = SL_RESTORED_AHEAD;
		*result = r->ahead_result;
	} else if (r->has_live && next_step == r->live.step) {
		held = &r->live;
		*how = SL_RESTORED_SAME;
	} else {
		*how = SL_RESTORED_BACK;
		sl_archive_say_lost(r->has_live && r->live.step > newest ? r->live.step : newest,
				    given ? sl_remote_session(remote)->next_step : next_step, given,
				    sl_remote_session(remote)->common);
		err = next_step ? read_file(r, remote, run, next_step, fail)
				: sl_training_restore(run, NULL, fail); /* the link has the initial weights */
		/* without checkpoints the model would pass for that of a run that is done, and the others wait */
		if (!err && sure && !next_step && r->dir[0])
			sl_model_file_remove(r->setup->conf, SL_MODEL_FILE);
		/* All members went back: one that keeps a file of the steps that were given up could offer it later. */
		if (!err)
			sl_archive_go_back(r->archive, next_step, sure);
		return err;
	}
	err = install_state(r, remote, held, fail);
	if (err || *how != SL_RESTORED_SAME || r->setup->plan->spec.party == SL_PARTY_BOTH)
		return err;
	*how = SL_RESTORED_BACK;
	return leave_evaluation(run, fail);
}

_Static_assert((int)SL_CHECKPOINT_KEPT == (int)SL_WIRE_KEPT, "COMMIT names every checkpoint that is kept");

bool sl_recover_kept(const struct sl_recover *r, uint64_t kept[SL_CHECKPOINT_KEPT])
{
	return sl_archive_kept(r->archive, kept);
}

bool sl_recover_due(const struct sl_recover *r, const struct sl_training *run)
{
	return r->dir[0] && is_due(r, sl_training_state(run).step + 1, sl_training_may_end(run));
}

bool sl_recover_must_wait(struct sl_recover *r, const struct sl_training *run)
{
	return (r->setup->conf->agreed.share.group[0] || sl_training_may_end(run)) && sl_recover_due(r, run) &&
	       (sl_archive_busy(r->archive) || (is_needed(r) && sl_archive_again(r->archive)));
}

/* Refuses a file whose content or disk is at fault, not another plan. A stale state is, too, unless the server has
 * surely stored its own: one that was killed may hold the step as an earlier link made it. A client alone gives up its
 * state only if it has trained, for an older one; a member of a group always does. */
bool sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err)
{
	const bool group = r->setup->conf->agreed.share.group[0];
	const bool behind = r->stale && (group || (r->past == LINK_TRAINED && r->older));
	const bool at_fault = r->stale ? behind || (!r->certain && !group)
				       : err == SL_ERR_DATA || err == SL_ERR_IO || err == SL_ERR_NOINPUT;

	if (behind && r->has_live && next_step == r->live.step)
		r->has_live = false;
	else if (r->stale && r->has_ahead && next_step == r->ahead.step)
		r->has_ahead = false;
	else
		return at_fault && !r->has_live && sl_archive_refuse(r->archive, next_step) &&
		       (!is_confirmed(r) || sl_archive_newest(r->archive));
	return true;
}

/* Lets a write keep the newest good file below `step`. In a group the newest that fell due: the others hold it, too,
 * but none of a pause. Before it also the one that all went on from, which others may have had in memory alone. Behind
 * a step that is not due also the due one before: another member may still be writing the newest. And the last that
 * all were asked for: where the server's disk is full, later ones are of links that others did not lose. */
static void pin_below(const struct sl_recover *r, struct sl_checkpoint *c, uint64_t step)
{
	const bool shared = r->setup->conf->agreed.share.group[0];
	int most = shared && !is_due(r, step, false) ? 2 : 1;
	uint64_t file[SL_LAST_RUN_STEPS], oldest = 0;
	const int n = sl_archive_files(r->archive, file);

	for (int i = 0; i < n; i++) {
		const bool due = !shared || is_due(r, file[i], false);

		oldest = file[i] < step ? file[i] : oldest;
		if (file[i] < step && c->n_pin < SL_LAST_RUN_STEPS - 1 &&
		    (file[i] == r->asked || (most && (due || file[i] == r->began)))) {
			c->pin[c->n_pin++] = file[i];
			most -= due && most;
		}
	}
	if (!c->n_pin && oldest)
		c->pin[c->n_pin++] = oldest;
}

/* Whether the model that is there is that of the run's end. One of a pause before would pass for that, too, once the
 * checkpoints are gone. */
static bool has_last_model(const struct sl_recover *r, const struct sl_training *run)
{
	const struct sl_training_state s = sl_training_state(run);

	return s.step == s.total_steps && sl_model_file_steps(r->setup->conf, SL_MODEL_FILE) == (int64_t)s.step;
}

/* Takes the state, and begins to write it. */
static enum sl_err begin_write(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
			       bool quiet, struct sl_fail *fail)
{
	const uint64_t step = sl_training_held(run);
	struct sl_checkpoint c;
	char text[SL_HEX16_TEXT];
	uint8_t name[16];
	enum sl_err err = take(r, remote, sl_archive_state(r->archive), step, fail);

	if (err)
		return err;
	sl_client_checkpoint(&c, r->dir, r->setup->plan);
	sl_session_name(r->secret.session, name);
	sl_checkpoint_note(&c, "session", "%s", sl_hex16(name, text));
	if (!sl_remote_kept_there(remote, step))
		sl_checkpoint_note(&c, SL_LAST_RUN_UNSURE, "%s",
				   "the server has not said that its side is on its disk");
	sl_training_save(run, &c);
	pin_below(r, &c, step);
	sl_recover_check_write(r->archive, &c, step);
	if (sl_archive_begins_anew(r->archive) && !has_last_model(r, run))
		sl_model_file_remove(r->setup->conf, SL_MODEL_FILE);
	r->run = run;
	sl_archive_write(r->archive, &c, sl_remote_kept_there(remote, step) && all_have(r, step), quiet);
	return SL_OK;
}

/* All went on from a checkpoint that fell due, and this side lost its link before it wrote its own file: another member
 * that dies before the next one is on its disk has no other to go back to. */
static void keep_common(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, uint64_t step)
{
	struct sl_fail why;

	if (r->dir[0] && sl_remote_session(remote)->common && step > sl_archive_newest(r->archive) &&
	    is_due(r, step, false) && step == sl_training_held(run) && !sl_archive_busy(r->archive) &&
	    begin_write(r, remote, run, false, &why))
		sl_archive_miss(r->archive, step, &why);
}

enum sl_err sl_recover_restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run,
			       uint64_t next_step, enum sl_restored *how, struct sl_step_result *result,
			       struct sl_fail *fail)
{
	enum sl_err err = restore(r, remote, run, next_step, how, result, fail);

	r->certain = r->certain && err;
	if (!err)
		keep_common(r, remote, run, next_step);
	return err || !sl_session_has_ends(sl_remote_session(remote)) ? err : sl_remote_take_ends(remote, fail);
}

void sl_recover_keep(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool ahead)
{
	const char *why = sl_remote_session(remote)->late ? "this member was late"
							  : "the server could not keep its side; its log says why";
	uint64_t step = sl_training_state(run).step;
	struct sl_fail fail;
	enum sl_err err;

	SL_FAILPOINT(SL_FP_CLIENT_KEEP);
	if (sl_archive_busy(r->archive)) {
		sl_log(SL_LOG_WARN, "checkpoint-skipped", "step %" PRIu64 ": one is still being written", step);
		return;
	}
	err = ahead || sl_remote_session(remote)->keep == SL_KEEP_DONE ? begin_write(r, remote, run, false, &fail)
								       : sl_fail_set(&fail, SL_ERR_IO, "%s", why);
	r->asked = err || ahead ? r->asked : step;
	if (err && step == sl_training_state(run).total_steps) { /* the run is done, and still writes its model */
		sl_last_run_say_unkept(&fail, r->setup->conf->agreed.share.group[0]);
	} else if (err) {
		sl_archive_miss(r->archive, step, &fail);
		r->events.missed(r->arg, &fail, false);
	}
}

enum sl_err sl_recover_keep_last(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
				 struct sl_fail *fail)
{
	uint64_t step = sl_training_held(run);
	char last[SL_ARCHIVE_LAST];
	bool answers;
	enum sl_err err;

	if (!r->dir[0])
		return SL_OK;
	SL_FAILPOINT(SL_FP_CLIENT_PAUSE);
	answers = sl_recover_settle(r) && (!is_needed(r) || !sl_archive_again(r->archive) || sl_recover_settle(r));
	err = !answers || is_owed(r) ? SL_OK : begin_write(r, remote, run, true, fail);
	if (!answers || (!err && !sl_recover_settle(r)))
		return sl_fail_set(fail, SL_ERR_IO, "step %" PRIu64 " could not be kept: the disk does not answer",
				   step);
	if (!err)
		err = sl_archive_result(r->archive, fail);
	if (err)
		return sl_fail_set(fail, SL_ERR_IO, "step %" PRIu64 " could not be kept: %s%s", step, fail->text,
				   sl_archive_last(r->archive, last));
	return SL_OK;
}

enum sl_err sl_recover_keep_done(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
				 struct sl_fail *fail)
{
	const uint64_t step = sl_training_state(run).step;

	if (!r->dir[0] || !r->setup->conf->train.checkpoint_every ||
	    (!sl_remote_kept_there(remote, step) && !is_needed(r)) ||
	    (sl_archive_newest(r->archive) == step && r->setup->plan->spec.party <= SL_PARTY_FEATURES))
		return SL_OK;
	return sl_recover_keep_last(r, remote, run, fail);
}

bool sl_recover_has_end(const struct sl_recover *r, const struct sl_remote *remote, const struct sl_training *run)
{
	const uint64_t step = sl_training_state(run).step;

	return !r->dir[0] || !r->setup->conf->train.checkpoint_every ||
	       (sl_archive_newest(r->archive) == step && sl_remote_kept_there(remote, step));
}

static void keep_held(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run)
{
	const uint64_t step = sl_training_held(run);
	struct sl_fail fail;

	if (step == sl_archive_newest(r->archive)) /* it is on the disk, or it is step 0 */
		return;
	if (sl_recover_keep_last(r, remote, run, &fail) != SL_OK)
		sl_log(SL_LOG_WARN, "checkpoint-missed", "%s", fail.text);
	else
		sl_log(SL_LOG_INFO, "kept",
		       "this client's state after step %" PRIu64
		       ": --resume goes on from there, or from the server's last step",
		       step);
}

void sl_recover_end(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, enum sl_err why)
{
	struct sl_step_result result;

	if (!r->dir[0] || !(sl_retry_may_pass(why) || sl_retry_is_broken(why)) ||
	    !sl_link_was_up(sl_remote_link(remote)) || sl_remote_in_doubt(remote))
		return;
	if (sl_remote_applied(remote)) {
		result = sl_remote_result(remote);
		sl_training_done(run, &result);
	}
	keep_held(r, remote, run);
}

void sl_recover_keep_held(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run)
{
	if (r->dir[0] && r->has_live && !r->has_ahead && sl_link_was_up(sl_remote_link(remote)))
		keep_held(r, remote, run);
}

struct sl_checkpoint_state sl_recover_state(const struct sl_recover *r)
{
	return sl_archive_status(r->archive);
}

const char *sl_recover_outlook(const struct sl_recover *r)
{
	uint64_t file[SL_LAST_RUN_STEPS];

	if (!r || !r->dir[0])
		return "";
	/* a file may be of step 0; after a start from there `good` is of an older file until one is written */
	return sl_archive_files(r->archive, file) || sl_archive_status(r->archive).good
		       ? "; --resume goes on from the last checkpoint"
		       : "; there is no checkpoint to --resume from";
}

void sl_recover_explain(const struct sl_recover *r, struct sl_fail *fail)
{
	if (r->done_at)
		sl_last_run_explain(r->setup->conf, r->longer, r->done_at, fail);
}

enum sl_err sl_recover_finish(struct sl_recover *r, const struct sl_remote *remote, uint64_t step, struct sl_fail *fail)
{
	/* train.stop may have ended a longer run again at the same step: then the files stay */
	if ((r->longer && step == r->done_at) ||
	    sl_archive_finish(r->archive, step, sl_remote_kept_there(remote, step)))
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_IO, "%s: the run is done, but a checkpoint could not be removed", r->dir);
}
