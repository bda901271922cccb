#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/memory.h"
#include "client/persist/journal.h"
#include "client/persist/last_run.h"
#include "client/persist/log_check.h"
#include "client/persist/model_file.h"
#include "client/persist/record.h"
#include "client/setup/principal.h"
#include "client/train/absent.h"
#include "client/train/drive.h"
#include "client/train/group_record.h"
#include "client/train/phase.h"

static const char *const usage[] = {
	"splitc train [CONFIG] [--local [--party CONFIG] | --resume | --fresh | --auto-resume] [--epochs N] "
	"[--batch N] [--lr X] [--set KEY=VALUE]… [--json]",
	"Trains with the config's server. In log.dir it writes log.jsonl (a line per step and per epoch, and a "
	"summary), checkpoints, and at the end model.safetensors.",
	"Without CONFIG it trains the demo in runs/demo: a small MobileNetV2 on CIFAR-10, with splits on this host. "
	"The data must be in data/cifar-10-batches-bin or in $XDG_DATA_HOME/split (~/.local/share/split). `splitc "
	"init` writes a config.",
	"The first Ctrl-C, SIGTERM or SIGHUP ends the run after the step under way and keeps its weights, with status "
	"75. A second one ends it at once. --resume goes on with the run.",
	"A finished run is kept. To train another one in the same log.dir, give --fresh. To train the finished one "
	"further, give --resume --set train.epochs=N. --auto-resume is for services and scripts: it begins the run, "
	"goes on with it, or ends with its status if it is done.",
	"The table at the end has a row for each of the four tensors. wire MB is what crossed the link, headers of "
	"messages included; up goes to the server, down comes from it. fp32 MB is the size without codec and insert. "
	"real is the ratio of the two; nominal is the ratio by the codec's own count. Average MB/s is what a step "
	"sent, divided by the computation time of both sides. Peak client and server MB/s are those of the fastest "
	"tensor sent and received.",
	NULL,
};

/* One run. */
struct run {
	struct sl_conf_client conf, phase; /* phase: the config of the phase under way */
	struct sl_setup setup;
	struct sl_parties parties; /* of --party */
	struct sl_phase_end end;
	char *record;
};

static struct run *volatile hung; /* a task that hangs uses it until the process ends */

/* Of a vertical group in one process, each member with features begins with its own head. Over links the server refuses
 * members whose middles differ. */
static enum sl_err take_heads(struct sl_setup *setup, struct sl_setup *features, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < setup->n_features && !setup->further && !err; k++) {
		struct sl_setup *f = &features[k];
		const int own = f->plan->model->graph.n_in < 3 ? -1 : sl_setup_place(f, f->conf);

		err = sl_setup_weights(f, f->conf->model.weights, false, fail);
		for (int part = SL_HEAD; part <= SL_MIDDLE && !err; part++)
			for (int i = 0; i < f->plan->segment[part].n_param && !err; i++) {
				const struct sl_segment_param *p = &f->plan->segment[part].param[i];
				float *to = setup->weights.value[p->model_param];
				const float *from = f->weights.value[p->model_param];
				const size_t bytes = (size_t)p->count * sizeof *to;

				if (part == SL_HEAD && to && from && (own < 0 || p->input == own))
					memcpy(to, from, bytes);
				else if (part == SL_MIDDLE && (!to != !from || (to && memcmp(to, from, bytes) != 0)))
					err = sl_conf_client_fail(f->conf, "model.weights", fail,
								  "all members need the same weights of the middle");
			}
	}
	return err;
}

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_conf_client *conf, bool resume,
			      struct sl_setup *features, struct sl_fail *fail)
{
	enum sl_err err;

	setup->reads = SL_READS_ALL;
	err = sl_setup_plan(setup, conf, fail);

	if (!err)
		err = sl_setup_weights(setup, conf->model.weights, false, fail);
	if (!err)
		err = take_heads(setup, features, fail);
	if (!err)
		err = sl_setup_data(setup, true, fail);
	if (!err)
		err = sl_setup_backend(setup, fail);
	return err || resume || setup->phase.index ? err : sl_setup_principal(setup, fail);
}

/* For a group in one process, opens the backend alone: each member makes its own setup on it. */
static enum sl_err open_run(struct run *r, const struct sl_conf_client *conf, bool local, bool resume,
			    struct sl_fail *fail)
{
	struct sl_setup *setup = &r->setup;

	if (!local || !conf->agreed.share.group[0] || setup->alone)
		return open_setup(setup, conf, resume, r->parties.features, fail);
	setup->conf = conf;
	return sl_setup_backend(setup, fail);
}

/* Whether a phase came to its end, and at which step. `end` NULL: a run with a server, whose files say so. An
 * interrupted phase is resumed another time. */
static bool phase_done(const struct sl_conf_client *conf, const struct sl_phase_end *end, uint64_t *step)
{
	const struct sl_past_run past = sl_past_run(conf->log.dir);
	uint64_t unfinished = UINT64_MAX;

	*step = end ? end->step : past.steps;
	return end ? end->done
		   : past.resumable && !sl_checkpoint_older(conf->log.dir, SL_CHECKPOINT_CLIENT, &unfinished);
}

/* UNAVAILABLE: the phase was not interrupted, but left nothing that the next one could continue from. */
static enum sl_err check_kept(const struct sl_conf_client *conf, int index, struct sl_fail *fail)
{
	uint64_t unfinished = UINT64_MAX;

	if (sl_checkpoint_older(conf->log.dir, SL_CHECKPOINT_CLIENT, &unfinished))
		return SL_OK;
	return sl_fail_set(
		fail, SL_ERR_UNAVAILABLE,
		"phase %d is done, but the server has not kept the state that the next one goes on from: its "
		"config needs a folder in `store`",
		index + 1);
}

static enum sl_err drive_run(struct sl_setup *setup, const struct sl_drive_options *drive, bool local,
			     struct sl_fail *fail)
{
	struct sl_memory_need need;
	struct sl_fail why;

	/* the members of a group in one process have plans of their own */
	if (setup->plan && sl_memory_find(&need, setup, local || setup->conf->train.audit_every, &why) == SL_OK)
		sl_memory_warn(&need, local);
	return sl_drive(setup, drive, local, fail);
}

/* Trains one run per phase. */
static enum sl_err run_phases(struct run *r, struct sl_drive_options *drive, bool local, struct sl_fail *fail)
{
	const struct sl_conf_client *conf = &r->conf;
	struct sl_setup *setup = &r->setup;
	const int n = conf->train.phases.n;
	uint64_t step = 0;
	int index = 0;
	enum sl_err err = sl_phases_check(conf, local, fail);

	if (!err && drive->resume)
		err = sl_phases_done(conf, &index, &step, fail);
	drive->end = local ? &r->end : NULL;
	while (!err) {
		bool more;

		sl_phase_conf(&r->phase, conf, index);
		setup->phase = sl_phase_at(conf, index, step);
		setup->record = r->record;
		sl_log(SL_LOG_INFO, "phase", "%d of %d, from step %llu: %s", index + 1, n, (unsigned long long)step,
		       conf->train.phases.item[index]);
		r->end.done = false;
		err = open_setup(setup, &r->phase, drive->resume, r->parties.features, fail);
		if (!err)
			err = drive_run(setup, drive, local, fail);
		more = !err && index + 1 < n && phase_done(conf, drive->end, &step);
		if (!err && !more && index + 1 < n && !local)
			err = check_kept(conf, index, fail);
		if (!more || setup->in_use)
			break;
		sl_setup_close(setup);
		sl_loop_unsilence();
		drive->resume = !local;
		index++;
	}
	sl_phase_end_close(&r->end);
	return err;
}

/* Says from which checkpoint the run can be resumed. */
static void say_kept(const struct sl_conf_client *conf)
{
	uint64_t step = UINT64_MAX;

	if (conf->log.dir[0] && sl_checkpoint_older(conf->log.dir, SL_CHECKPOINT_CLIENT, &step))
		sl_log(SL_LOG_INFO, "kept", "a checkpoint of step %llu: `splitc train … --resume` goes on with the run",
		       (unsigned long long)step);
}

/* Whoever starts a run that is done counts on what it left. */
static void warn_of_left(const char *dir)
{
	struct sl_log_check found;
	struct sl_fail why;

	if (sl_log_check(&found, dir, &why) != SL_OK)
		sl_log(SL_LOG_WARN, "done-unfit", "%s", why.text);
	for (int i = 0; i < 4 && found.gone[i]; i++)
		sl_log(SL_LOG_WARN, "done-unfit",
		       "%.300s/%s is not there: the run is done, and does not write it again", dir, found.gone[i]);
}

/* Says that --auto-resume has nothing to do, and what the config asks for since then. The status is that of the run: a
 * member may have had too few steps. */
static int say_done(const struct sl_conf_client *conf)
{
	const struct sl_past_run past = sl_past_run(conf->log.dir);
	char changed[SL_SAME_RUN_TEXT], *line = sl_past_run_summary(conf->log.dir);
	json_t *summary = line ? json_loads(line, 0, NULL) : NULL;
	struct sl_fail fail;
	enum sl_err err = sl_group_record_check(json_object_get(summary, "group"), &fail);

	if (!summary && conf->agreed.share.group[0] && conf->agreed.share.unmet == SL_UNMET_GO_ON)
		err = sl_fail_at(&fail, "share.least", SL_ERR_UNMET,
				 "the run is done, and was killed before its summary was written, so who took part is "
				 "not known here: the server's log says it (group-parts)");
	if (!err && json_is_true(json_object_get(json_object_get(summary, "privacy"), "spent")))
		err = sl_fail_at(&fail, "privacy.budget", SL_ERR_SPENT,
				 "the run is done: its budget was spent before train.epochs were over");
	json_decref(summary);
	free(line);

	if (past.resumable && sl_past_run_changed(conf, past.steps, changed))
		sl_log(SL_LOG_WARN, "done-otherwise", "the run in %.300s ended with other settings: %s", conf->log.dir,
		       changed);
	warn_of_left(conf->log.dir);
	sl_log(SL_LOG_INFO, "run-done",
	       "the run in %s is done: give it more epochs with --resume, or remove it with --fresh", conf->log.dir);
	return err ? sl_command_failed(&fail) : 0;
}

/* Adds the settings that options are short for: --epochs, --batch, --lr, --alone for one key each, --clients for
 * two. */
static int take_short(struct sl_options *o)
{
	static char text[5][SL_CONF_TEXT];
	const struct {
		const char *key, *value;
	} given[] = {{"train.epochs", o->epochs},
		     {"train.batch", o->batch},
		     {"train.optimizer.lr", o->lr},
		     {"share.clients", o->clients},
		     {"share.member", o->alone}};

	if ((o->clients || o->absent || o->alone || o->party[0]) && !o->local)
		return sl_command_refuse("train: --clients, --absent, --alone and --party need --local");
	if ((o->absent != NULL) + (o->alone != NULL) + (o->party[0] != NULL) > 1)
		return sl_command_refuse("train: give one of --absent, --alone and --party");
	if (o->n_set + 6 > SL_MAX_SETS)
		return sl_command_refuse("train: too many --set");
	if (o->clients)
		o->set[o->n_set++] = "share.group=local";
	for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
		if (!given[i].value)
			continue;
		snprintf(text[i], sizeof text[i], "%s=%.100s", given[i].key, given[i].value);
		o->set[o->n_set++] = text[i];
	}
	return -1;
}

static enum sl_err suits(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	return sl_absent_check(o->absent, conf->agreed.share.group[0] ? conf->agreed.share.clients : 0, fail);
}

static int train(struct run *r, int argc, char **argv)
{
	struct sl_options o = {.command = "train", .usage = usage, .keys = &sl_conf_client_schema, .suits = suits};
	struct sl_drive_options drive = {.eval_only = false};
	enum sl_run_rest rest;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv,
				      SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_RESUME | SL_OPT_GROUP |
					      SL_OPT_PARTY | SL_OPT_TRAIN,
				      1);

	if (status >= 0)
		return status;
	status = take_short(&o);
	if (status >= 0)
		return status;
	if (o.check.connect && (!o.check_config || o.local || !o.config))
		return sl_command_refuse("train: --connect goes with a CONFIG and --check-config, without --local");
	if (o.local && (o.resume || o.auto_resume))
		return sl_command_refuse("train: --local keeps no checkpoints, so there is nothing to --resume");
	if (o.resume + o.fresh + o.auto_resume > 1)
		return sl_command_refuse("train: give one of --resume, --fresh and --auto-resume");
	status = sl_options_load(&o, SL_USES_FOR_TRAINING | SL_USES_LOG | SL_USES_DEMO, &r->conf);
	if (status >= 0)
		return status;
	rest = o.auto_resume ? sl_run_rest(&r->conf) : SL_RUN_NONE;
	o.resume = o.resume || rest == SL_RUN_OPEN;
	if (rest == SL_RUN_DONE)
		return say_done(&r->conf);
	if (!o.resume && !o.fresh && sl_journal_taken(&r->conf, &fail) != SL_OK)
		return sl_command_failed(&fail);
	if (!r->conf.log.dir[0])
		sl_log(SL_LOG_WARN, "nothing-kept", "log.dir is empty: no log, and no trained weights are kept");
	drive.json = o.json;
	drive.resume = o.resume;
	drive.fresh = o.fresh;
	drive.absent = o.absent;
	r->setup.alone = o.alone != NULL;
	r->setup.fresh = o.fresh;
	r->setup.record = r->record = sl_record_text(&r->conf);
	if (r->conf.train.phases.n) {
		err = run_phases(r, &drive, o.local, &fail);
	} else {
		const struct sl_conf_client *conf = &r->conf;

		err = o.local ? sl_options_party(&o, &r->conf, &r->parties, &r->setup, SL_READS_ALL, &conf, &fail)
			      : SL_OK;
		if (!err)
			err = open_run(r, conf, o.local, o.resume, &fail);
		if (!err)
			err = drive_run(&r->setup, &drive, o.local, &fail);
	}
	if (err)
		sl_memory_explain(&r->setup, o.local, &fail);
	sl_parties_close(&r->parties);
	sl_setup_close(&r->setup);
	if (err == SL_ERR_PEER_LOST || err == SL_ERR_IO)
		say_kept(&r->conf);
	return err ? sl_command_failed(&fail) : 0;
}

int splitc_train(int argc, char **argv)
{
	struct run *r = calloc(1, sizeof *r);
	int status;

	if (!r)
		return sl_command_failed(&(struct sl_fail){.code = SL_ERR_NOMEM, .text = "no memory for a run"});
	status = train(r, argc, argv);
	if (r->setup.in_use) {
		hung = r;
		return status;
	}
	free(r->record);
	free(r);
	return status;
}
