#include "client/predict/cases.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "client/predict/mask_names.h"
#include "client/predict/passes.h"
#include "client/predict/windows.h"
#include "client/setup/setup_volumes.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/worker.h"
#include "common/link/loop.h"
#include "common/telemetry/progress.h"

struct cases {
	struct sl_setup *setup;
	const struct sl_cases_spec *spec;
	const struct sl_set *set;
	struct sl_setup_volume how;
	struct sl_mask_names names;
	struct sl_passes *passes;
	struct sl_progress *progress;
	struct sl_worker *worker; /* prepares a case, and makes its mask */
	struct sl_async *worked;
	struct sl_job job;
	bool working, passing; /* the job, or a batch of windows, is under way */
	int64_t index;         /* of the case under way */
	bool open;             /* it is prepared */
	struct sl_room room;   /* its files */
	const struct sl_volume_files *files;
	struct sl_volume volume;
	struct sl_volume_back back;
	struct sl_windows windows;
	int64_t window, rows;                    /* windows that are done; and of the batch under way */
	struct sl_overlap of[SL_VOLUME_CLASSES]; /* figures of a case with a mask */
	char mask[SL_MASK_NAME];
	struct sl_fail why;    /* why the job failed; its code is OK if it did not */
	float *input, *logits; /* [train.batch, patch, channels or classes] */
	int32_t *target;       /* [train.batch, patch] */
	uint64_t computed;     /* windows of all cases */
	int64_t refused;
	struct sl_fail first; /* of the refused cases */
};

static void turn(void *arg);

static const char *name_of(const struct cases *c, char out[PATH_MAX])
{
	c->set->source->sample_name(c->set, c->index, out, PATH_MAX);
	sl_text_make_safe(out, '?');
	return out;
}

/* ---- the worker's jobs */

static enum sl_err prepare(struct cases *c, struct sl_fail *fail)
{
	struct sl_value value[SL_FIELD_COUNT];
	enum sl_err err = c->set->source->sample(c->set, c->index, &c->room, value, fail);

	c->files = err ? NULL : value[SL_FIELD_INPUT].data;
	if (!err)
		err = sl_volume_prepare_here(&c->volume, &c->back, &c->how.spec, c->files, fail);
	if (!err)
		err = sl_windows_open(&c->windows, c->volume.head->dim, c->how.spec.patch,
				      c->setup->conf->model.classes, fail);
	c->open = !err;
	return err;
}

/* Writes the mask of a case whose windows are all computed, and compares it with the true one. */
static enum sl_err finish(struct cases *c, struct sl_fail *fail)
{
	const struct sl_nifti *f = &c->back.file;
	const struct sl_world *a = &f->affine;
	const double spacing[3] = {sl_world_spacing(a, 0), sl_world_spacing(a, 1), sl_world_spacing(a, 2)};
	const int classes = c->windows.classes;
	uint8_t *label = malloc((size_t)(f->dim[0] * f->dim[1] * f->dim[2])), *right = NULL;
	const struct sl_nifti_array mask = {
		.dim = {f->dim[0], f->dim[1], f->dim[2]}, .affine = f->affine, .unplaced = !f->placed, .byte = label};
	enum sl_err err = label ? sl_windows_label(&c->windows, c->volume.head, &c->back, label, fail)
				: sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a mask");

	sl_windows_close(&c->windows);
	if (!err && c->files->mask[0])
		err = sl_volume_read_mask(&right, &c->back, c->files, classes, fail);
	if (!err)
		err = sl_mask_names_path(&c->names, c->index, c->mask, fail);
	if (!err)
		err = sl_nifti_write(c->mask, &mask, fail);
	if (!err && right)
		err = sl_overlap_of(c->of, classes, right, label, f->dim, spacing, fail);
	free(label);
	free(right);
	return err;
}

static void run_job(struct sl_job *job)
{
	struct cases *c = (struct cases *)(void *)((char *)job - offsetof(struct cases, job));

	c->why.code = c->open ? finish(c, &c->why) : prepare(c, &c->why);
}

/* ---- the loop's thread */

static void close_case(struct cases *c)
{
	c->open = false;
	sl_windows_close(&c->windows);
	sl_volume_close(&c->volume);
	c->index++;
}

/* Names a case without a mask. Where nothing else would be predicted either, the command ends. */
static void refuse(struct cases *c, const struct sl_fail *why)
{
	char name[PATH_MAX];

	if (why->code != SL_ERR_DATA && why->code != SL_ERR_NOINPUT && why->code != SL_ERR_NONFINITE) {
		sl_passes_end(c->passes, why->code, why);
		return;
	}
	sl_log(SL_LOG_WARN, "not-predicted", "case %s: %s", name_of(c, name), why->text);
	sl_case_lines_put(c->spec->lines, c->index, name, NULL, why, NULL);
	if (!c->refused++)
		c->first = *why;
	close_case(c);
}

static void show_progress(struct cases *c)
{
	const uint64_t all = (uint64_t)sl_windows_count(&c->windows), later = (uint64_t)(c->set->count - c->index - 1);
	const struct sl_progress_state state = {.phase = "predict",
						.epoch = (int)c->index + 1,
						.epochs = (int)c->set->count,
						.step = (uint64_t)c->window,
						.steps = all,
						.steps_left = all - (uint64_t)c->window + later * all,
						.samples = c->computed,
						.loss = (double)NAN,
						.acc = (double)NAN};

	sl_progress_update(c->progress, &state, sl_now_ms());
}

static void begin_pass(struct cases *c)
{
	const struct sl_volume_spec *v = &c->how.spec;
	const int64_t voxels = v->patch[0] * v->patch[1] * v->patch[2],
		      left = sl_windows_count(&c->windows) - c->window;
	const int64_t batch = c->setup->conf->agreed.batch;
	struct sl_feed feed = {.input = c->input, .target = c->target};

	feed.rows = c->rows = left < batch ? left : batch;
	for (int64_t r = 0; r < c->rows; r++) {
		int64_t at[3];
		struct sl_fail never;

		sl_windows_begin(&c->windows, c->window + r, at);
		(void)!sl_volume_cut(&c->volume, v, at, SL_VOLUME_CLASSES,
				     c->input + r * voxels * c->volume.head->channels, c->target + r * voxels, &never);
	}
	c->passing = true;
	sl_passes_begin(c->passes, &feed);
}

/* Does what is next, unless something is under way. */
static void turn(void *arg)
{
	struct cases *c = arg;

	if (c->working || c->passing || !sl_passes_up(c->passes))
		return;
	if (c->index == c->set->count) {
		sl_passes_end(c->passes, SL_OK, NULL);
	} else if (c->open && c->window < sl_windows_count(&c->windows)) {
		begin_pass(c);
	} else {
		c->working = true;
		sl_worker_post(c->worker, &c->job);
	}
}

static void job_done(struct sl_job *job)
{
	struct cases *c = (struct cases *)(void *)((char *)job - offsetof(struct cases, job));
	char name[PATH_MAX];

	c->working = false;
	if (c->why.code) {
		refuse(c, &c->why);
	} else if (c->windows.mean) {
		c->window = 0;
	} else {
		sl_case_lines_put(c->spec->lines, c->index, name_of(c, name), c->mask, NULL,
				  c->files->mask[0] ? c->of : NULL);
		close_case(c);
	}
	turn(c);
}

static void on_worked(void *arg)
{
	sl_worker_drain(((struct cases *)arg)->worker);
}

static void on_done(void *arg)
{
	struct cases *c = arg;
	const int64_t *patch = c->how.spec.patch;

	for (int64_t r = 0; r < c->rows; r++)
		sl_windows_add(&c->windows, c->window + r,
			       c->logits + r * patch[0] * patch[1] * patch[2] * c->windows.classes);
	c->window += c->rows;
	c->computed += (uint64_t)c->rows;
	c->passing = false;
	show_progress(c);
	turn(c);
}

/* The batch under way is repeated over another link, unless its numbers are to blame. */
static void on_lost(void *arg, const struct sl_fail *why, bool again)
{
	struct cases *c = arg;
	const bool passing = c->passing;

	c->passing = false;
	if (passing && (c->spec->local || why->code == SL_ERR_NONFINITE))
		refuse(c, why);
	if (again)
		turn(c);
}

static void on_signal(void *arg, int signum)
{
	struct cases *c = arg;
	struct sl_fail why;

	(void)!sl_fail_set(&why, SL_ERR_BUSY, "interrupted by signal %d: %" PRId64 " of %" PRId64 " cases were tried",
			   signum, c->index, c->set->count);
	sl_passes_end(c->passes, why.code, &why);
}

static enum sl_err open_all(struct cases *c, struct sl_fail *fail)
{
	const struct sl_conf_client *conf = c->setup->conf;
	const struct sl_progress_options shown = {.fd = 2};
	const int64_t *patch = c->how.spec.patch, most = conf->agreed.batch * patch[0] * patch[1] * patch[2];
	struct sl_passes_spec passes = {.setup = c->setup,
					.local = c->spec->local,
					.waits = conf->link.on_server_lost == SL_LOST_WAIT,
					.serves = true,
					.ready = turn,
					.done = on_done,
					.lost = on_lost,
					.signal = on_signal,
					.arg = c};
	enum sl_err err = sl_mask_names_open(&c->names, c->set, c->spec->dir, ".nii.gz", c->spec->force, fail);

	c->input = calloc((size_t)(most * c->set->field[SL_FIELD_INPUT].dim[2]), sizeof *c->input);
	c->logits = calloc((size_t)(most * conf->model.classes), sizeof *c->logits);
	c->target = calloc((size_t)most, sizeof *c->target);
	if (!err && (!c->input || !c->logits || !c->target))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a batch of patches");
	passes.logits = c->logits;
	if (!err)
		err = sl_passes_open(&c->passes, &passes, fail);
	if (!err)
		err = sl_async_open(&c->worked, sl_passes_loop(c->passes), on_worked, c, fail);
	if (!err)
		err = sl_worker_open(&c->worker, "split-cases", sl_async_wake, c->worked, fail);
	return err ? err : sl_progress_open(&c->progress, &shown, fail);
}

enum sl_err sl_cases_run(struct sl_setup *setup, const struct sl_cases_spec *spec, struct sl_fail *fail)
{
	struct cases *c = calloc(1, sizeof *c);
	enum sl_err err;

	if (!c)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the list of cases");
	c->setup = setup;
	c->spec = spec;
	c->set = &setup->set[SL_SPLIT_TEST];
	c->job = (struct sl_job){.run = run_job, .done = job_done};
	(void)sl_setup_volume(&c->how, setup->conf);
	err = open_all(c, fail);
	if (!err)
		err = sl_passes_run(c->passes, fail);
	sl_progress_close(c->progress);
	sl_worker_close(c->worker);
	sl_async_close(c->worked);
	sl_passes_close(c->passes);
	if (!err)
		sl_case_lines_end(spec->lines);
	if (!err)
		sl_log(SL_LOG_INFO, "predicted", "%" PRId64 " of %" PRId64 " cases", c->index - c->refused,
		       c->set->count);
	if (!err && c->refused)
		err = sl_fail_set(fail, c->first.code, "%" PRId64 " of %" PRId64 " cases have no mask; the first: %s",
				  c->refused, c->set->count, c->first.text);
	sl_windows_close(&c->windows);
	sl_volume_close(&c->volume);
	sl_room_close(&c->room);
	free(c->input);
	free(c->logits);
	free(c->target);
	free(c);
	return err;
}
