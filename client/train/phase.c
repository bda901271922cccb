#include "client/train/phase.h"

#include <inttypes.h>
#include <string.h>

#include "client/persist/last_run.h"
#include "client/train/training.h"

static struct sl_conf_phase item(const struct sl_conf_client *conf, int index)
{
	struct sl_conf_phase p = {.epochs = 1, .lr = 1};

	(void)sl_conf_phase_read(conf->train.phases.item[index], &p); /* checked when the config was loaded */
	return p;
}

void sl_phase_conf(struct sl_conf_client *out, const struct sl_conf_client *conf, int index)
{
	const struct sl_conf_phase p = item(conf, index);

	*out = *conf;
	out->train.epochs = p.epochs;
	if (p.image.h)
		out->model.image = p.image;
	if (p.batch)
		out->agreed.batch = p.batch;
	if (p.chunks)
		out->agreed.chunks = p.chunks;
}

struct sl_phase sl_phase_at(const struct sl_conf_client *conf, int index, uint64_t step)
{
	struct sl_phase phase = {
		.index = index, .count = conf->train.phases.n, .step = step, .lr = item(conf, index).lr};

	for (int i = 0; i < phase.count; i++) {
		phase.first_epoch += i < index ? item(conf, i).epochs : 0;
		phase.epochs += item(conf, i).epochs;
	}
	return phase;
}

static enum sl_err refuse(const struct sl_conf_client *conf, int index, struct sl_fail *fail, const char *why)
{
	return sl_conf_client_fail(conf, "train.phases", fail, "phase %d (%s): %s", index + 1,
				   conf->train.phases.item[index], why);
}

/* Refuses codecs that carry state from step to step, since its size depends on that of the images. */
static enum sl_err check_codecs(const struct sl_setup *s, int index, struct sl_fail *fail)
{
	enum { STATELESS_BYTES = 8 };

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		const struct sl_codec_env env = {
			.shape = sl_plan_cut_shape(s->plan, mid, 1), .rows = 1, .slots = 1, .dir = (enum sl_dir)dir};
		struct sl_codec *codec;
		struct sl_fail why;
		enum sl_err err = sl_codec_open(&codec, &s->agreement.codec[dir], &env, &why);
		bool carries;

		if (err)
			return refuse(s->conf, index, fail, why.text);
		carries = sl_codec_state_bytes(codec) > STATELESS_BYTES;
		sl_codec_close(codec);
		if (carries)
			return refuse(
				s->conf, index, fail,
				"a codec that keeps something from step to step (ef, lowrank's warm start) is not "
				"possible with phases");
	}
	return SL_OK;
}

static enum sl_err check_plan(const struct sl_setup *s, int index, uint8_t layout[SL_PLAN_HASH_BYTES],
			      struct sl_fail *fail)
{
	if (s->plan->spec.chunk_tokens || !s->plan->model || sl_model_takes_rows(s->conf->model.name))
		return refuse(s->conf, index, fail, "phases are for networks of images");
	if (sl_decay_falls(&s->plan->decay[0], UINT64_MAX) || sl_decay_falls(&s->plan->decay[1], UINT64_MAX))
		return refuse(s->conf, index, fail, "inserts that decay are not possible with phases");
	if (index && memcmp(layout, s->plan->layout_hash, SL_PLAN_HASH_BYTES) != 0)
		return refuse(
			s->conf, index, fail,
			"with these sizes the network has other parameters than in the first phase: a linear layer "
			"or an insert depends on the size of the image");
	memcpy(layout, s->plan->layout_hash, SL_PLAN_HASH_BYTES);
	return check_codecs(s, index, fail);
}

enum sl_err sl_phases_check(const struct sl_conf_client *conf, bool local, struct sl_fail *fail)
{
	static struct sl_conf_client own;
	uint8_t layout[SL_PLAN_HASH_BYTES];
	struct sl_fail why;
	enum sl_err err = SL_OK;

	if (!local && !conf->log.dir[0])
		return sl_conf_client_fail(conf, "train.phases", fail, "needs a folder in log.dir, for checkpoints");
	for (int i = 0; i < conf->train.phases.n && !err; i++) {
		struct sl_setup setup = {.phase = sl_phase_at(conf, i, 0)};

		sl_phase_conf(&own, conf, i);
		err = sl_setup_plan(&setup, &own, &why);
		if (!err)
			err = sl_setup_check_transforms(&setup, &why);
		if (err)
			sl_fail_set(fail, err, "%.300s (phase %d of train.phases: %.80s)", why.text, i + 1,
				    conf->train.phases.item[i]);
		else
			err = check_plan(&setup, i, layout, fail);
		sl_setup_close(&setup);
	}
	return err;
}

enum sl_err sl_phases_steps(const struct sl_conf_client *conf, int64_t samples, uint64_t *steps, struct sl_fail *fail)
{
	static struct sl_conf_client own;
	enum sl_err err = SL_OK;

	*steps = 0;
	for (int i = 0; i < conf->train.phases.n && !err; i++) {
		const struct sl_phase phase = sl_phase_at(conf, i, 0);
		uint64_t n = 0;

		sl_phase_conf(&own, conf, i);
		err = sl_training_steps(&own, &phase, samples, 0, &n, fail);
		*steps += n;
	}
	return err;
}

enum sl_err sl_phases_done(const struct sl_conf_client *conf, int *index, uint64_t *step, struct sl_fail *fail)
{
	const struct sl_past_run past = sl_past_run(conf->log.dir);
	int epochs = 0, sum = 0;
	enum sl_err err;

	*index = 0;
	*step = 0;
	if (!past.resumable)
		return SL_OK;
	err = sl_past_run_epochs(conf->log.dir, past.steps, &epochs, fail);
	for (; *index < conf->train.phases.n && sum < epochs && !err; ++*index)
		sum += item(conf, *index).epochs;
	*step = past.steps;
	if (!err && sum != epochs)
		return sl_conf_client_fail(conf, "train.phases", fail,
					   "the run in log.dir is done up to epoch %d, and no phase ends there",
					   epochs);
	if (!err && *index == conf->train.phases.n)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "--resume: the run of %" PRIu64
				   " steps in '%.200s' is done. To train it further, add a phase to train.phases",
				   past.steps, conf->log.dir);
	return err;
}

enum sl_run_rest sl_run_rest(const struct sl_conf_client *conf)
{
	const struct sl_past_run past = sl_past_run(conf->log.dir);
	uint64_t step = UINT64_MAX;
	struct sl_fail why;
	int index;

	if (conf->log.dir[0] && sl_checkpoint_older(conf->log.dir, SL_CHECKPOINT_CLIENT, &step))
		return SL_RUN_OPEN;
	/* a phase is done, and others are to follow */
	if (conf->train.phases.n && past.resumable && sl_phases_done(conf, &index, &step, &why) != SL_ERR_NOINPUT)
		return SL_RUN_OPEN;
	return past.done && !past.stopped ? SL_RUN_DONE : SL_RUN_NONE;
}

void sl_phase_end_close(struct sl_phase_end *end)
{
	sl_local_state_close(&end->state);
}
