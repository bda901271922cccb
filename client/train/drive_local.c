#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "client/train/drive.h"
#include "client/train/phase.h"
#include "client/train/privacy.h"
#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/base/stop.h"

static volatile sig_atomic_t stop_asked;

static void on_signal(int signum)
{
	(void)signum;
	stop_asked = 1;
	sl_stop_with(sl_err_exit_status(SL_ERR_UNAVAILABLE)); /* the second one ends the process */
}

void sl_drive_catch_signals(void)
{
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (signal(SIGHUP, on_signal) == SIG_IGN) /* nohup */
		signal(SIGHUP, SIG_IGN);
}

bool sl_drive_stopped(void)
{
	return stop_asked;
}

enum sl_err sl_drive_stopped_early(const struct sl_training *run, struct sl_fail *fail)
{
	return stop_asked ? sl_training_unfinished(run, "with --local it cannot go on", fail) : SL_OK;
}

void sl_drive_summary(struct sl_training *run, const struct sl_local *local, bool nonfinite, bool json)
{
	struct sl_training_link link = {0};

	sl_local_payload(local, link.payload, link.nominal);
	memcpy(link.wire, link.payload, sizeof link.wire);
	sl_training_finish(run, &link, nonfinite ? "nonfinite" : stop_asked ? "interrupted" : "finished", json);
}

/* best: the note of SL_MODEL_BEST; NULL: of another file. */
static enum sl_err save(const struct sl_setup *setup, const struct sl_training *run, const char *best, const char *name,
			uint64_t made, struct sl_fail *fail)
{
	const struct sl_about_reached at = sl_training_reached(run, best, made);
	char *about = sl_about_text(setup, &at);
	enum sl_err err =
		sl_model_file_write(setup->conf, setup->plan, &setup->weights, about, best, name, at.step, fail);

	free(about);
	return err;
}

enum sl_err sl_drive_save(const struct sl_setup *setup, const struct sl_training *run, uint64_t made,
			  struct sl_fail *fail)
{
	return save(setup, run, NULL, SL_MODEL_FILE, made, fail);
}

enum sl_err sl_drive_keep_best(struct sl_setup *setup, struct sl_local *local, struct sl_training *run,
			       struct sl_fail *fail)
{
	uint64_t step = sl_training_state(run).step;
	char score[SL_TRAINING_SCORE];
	struct sl_fail why;
	enum sl_err err;

	if (sl_local_get_weights(local, &setup->weights))
		return sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back");
	sl_training_best_score(run, score);
	err = save(setup, run, score, SL_MODEL_BEST, 0, &why);
	if (err)
		sl_log(SL_LOG_WARN, "best-missed",
		       "step %" PRIu64 ": %s; the run goes on, and best.safetensors keeps earlier weights", step,
		       why.text);
	sl_training_best_kept(run, !err);
	return SL_OK;
}

/* Notes what each member of a vertical group has. */
static void use_members(const struct sl_setup *setup, struct sl_ends_use *use)
{
	use->members = setup->n_features && !setup->further ? SL_CONF_PARTIES : 0;
	memset(use->input, -1, sizeof use->input);
	use->labels = use->members ? setup->conf->agreed.share.member : 0;
	use->input[use->labels] = sl_conf_input(setup->conf) ? sl_setup_place(setup, setup->conf) : -1;
	for (int k = 0; k < setup->n_features; k++) {
		const struct sl_conf_client *c = setup->features[k].conf;

		use->input[c->agreed.share.member] = sl_setup_place(setup, c);
	}
}

static enum sl_err one_batch(struct sl_local *local, struct sl_training *run, struct sl_loader *from, bool training,
			     struct sl_predict *predict, struct sl_fail *fail)
{
	struct sl_step_result result;
	const struct sl_batch *batch;
	struct sl_feed feed;
	enum sl_err err = sl_loader_take(from, &batch, fail);

	if (err)
		return err;
	feed = sl_feed_of(batch);
	if (training)
		err = sl_local_step(local, &feed, sl_training_number(run), sl_training_lr(run), &result, fail);
	else
		err = sl_local_eval(local, &feed, sl_training_number(run), &result, fail);
	if (!err && predict)
		sl_predict_batch(predict, sl_batch_target(batch), batch->samples, batch->row_fail, batch->rows);
	else if (!err)
		sl_training_score(run, sl_batch_target(batch), batch->rows);
	result.t_data_s = batch->waited_s;
	sl_loader_release(from, batch);
	if (err == SL_ERR_NONFINITE && training) {
		const struct sl_fail why = *fail;

		err = sl_training_abandoned(run, &why, fail);
		if (!err)
			err = sl_local_set_done(local, sl_training_number(run) + 1, fail);
	}
	if (err == SL_ERR_NONFINITE && !training)
		sl_training_eval_nonfinite(run, fail);
	if (!err)
		sl_training_done(run, &result);
	return err;
}

static enum sl_err run_all(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_local *local,
			   struct sl_training *run, struct sl_loader *const loader[SL_SPLIT_COUNT],
			   struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	while (!err && !stop_asked) {
		const enum sl_want want = sl_training_next(run);
		const enum sl_split split = want == SL_WANT_STEP ? SL_SPLIT_TRAIN : SL_SPLIT_TEST;

		sl_assert(!err); /* no batch follows one that failed */
		if (want == SL_WANT_FINISH)
			break;
		err = one_batch(local, run, loader[split], want == SL_WANT_STEP, options->predict, fail);
		if (!err && sl_training_best_due(run))
			err = sl_drive_keep_best(setup, local, run, fail);
	}
	/* NaN or Inf ends a run in good order: its weights are those of the last step that was applied */
	if ((!err || err == SL_ERR_NONFINITE) && sl_local_get_weights(local, &setup->weights))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back");
	return err;
}

/* A later phase goes on from the end of the one before it. */
static enum sl_err begin_phase(struct sl_setup *setup, const struct sl_phase_end *end, struct sl_local *local,
			       struct sl_training *run, struct sl_loader *const loader[SL_SPLIT_COUNT],
			       struct sl_fail *fail)
{
	enum sl_err err;

	if (!end || !setup->phase.index)
		return SL_OK;
	err = sl_local_give(local, &end->state, end->step, fail);
	if (!err)
		err = sl_training_restore(run, &end->notes, fail);
	return err ? err : sl_training_seek(run, loader, fail);
}

static enum sl_err end_phase(struct sl_phase_end *end, struct sl_local *local, struct sl_training *run,
			     struct sl_fail *fail)
{
	const struct sl_training_state s = sl_training_state(run);

	if (!end || s.step != s.total_steps)
		return SL_OK;
	end->done = true;
	end->step = s.step;
	end->notes = (struct sl_checkpoint){0};
	sl_training_end_phase(run);
	sl_training_save(run, &end->notes);
	return sl_local_take(local, &end->state)
		       ? sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be read", s.step)
		       : SL_OK;
}

/* What remains to be done after a run's last step. */
static enum sl_err finish(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_local *local,
			  struct sl_training *run, bool nonfinite, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (!options->eval_only)
		err = sl_drive_save(setup, run, 0, fail);
	if (!err)
		err = end_phase(options->end, local, run, fail);
	if (!options->predict) /* also where the weights could not be written: the figures are known */
		sl_drive_summary(run, local, nonfinite, options->json);
	return err;
}

enum sl_err sl_drive_local(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_fail *fail)
{
	struct sl_loader *loader[SL_SPLIT_COUNT] = {0};
	struct sl_local *local = NULL;
	struct sl_training *run = NULL;
	struct sl_ends_use use = sl_setup_use(setup);
	enum sl_err err = sl_training_open(&run, setup, "local", options->eval_only, setup->phase.index > 0, fail);

	if (!err && !options->eval_only)
		err = sl_setup_loader(setup, SL_SPLIT_TRAIN, NULL, NULL, &loader[SL_SPLIT_TRAIN], fail);
	if (!err)
		err = sl_setup_loader(setup, SL_SPLIT_TEST, NULL, NULL, &loader[SL_SPLIT_TEST], fail);
	if (!err)
		err = sl_local_open(&local, setup->plan, &setup->agreement, NULL, &setup->be, fail);
	if (err == SL_ERR_CONFIG)
		sl_setup_blame(setup, fail);
	if (!err)
		err = sl_local_set_weights(local, &setup->weights, fail);
	if (!err)
		err = begin_phase(setup, options->end, local, run, loader, fail);
	if (!err) {
		use.head_cache = setup->head_cache;
		use.dcor = setup->dcor;
		use_members(setup, &use);
		use.logits = options->predict ? options->predict->row : sl_training_outputs(run);
		err = sl_local_use(local, &use, fail);
	}
	if (!err && options->predict)
		sl_training_hush(run);
	sl_drive_catch_signals();
	if (!err)
		err = sl_training_begin(run, fail);
	if (!err)
		err = run_all(setup, options, local, run, loader, fail);
	if (!err || err == SL_ERR_NONFINITE) {
		const struct sl_fail why = *fail;
		enum sl_err end = finish(setup, options, local, run, err == SL_ERR_NONFINITE, fail);

		if (!end && err)
			*fail = why;
		err = end ? end : err;
	}
	err = err || options->predict ? err : sl_drive_stopped_early(run, fail);
	if (!err && !options->eval_only)
		err = sl_run_privacy_end(run, fail);
	sl_local_close(local);
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		sl_loader_close(loader[split]);
	sl_training_close(run);
	return err;
}
