/* splitc sweep --lr-range: one run whose learning rate grows by the same factor in each step. Its losses show which
 * rate is a good one (Smith, Cyclical learning rates for training neural networks, 2017, section 3.3). */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/child.h"
#include "client/cmd/gnuplot.h"
#include "client/cmd/sweep.h"
#include "client/persist/client_state.h"
#include "client/persist/jsonl.h"
#include "client/persist/last_run.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

enum { MOST_STEPS = 10000, USUAL_STEPS = 100, LEAST_POINTS = 10 };

/* As in fastai: losses are smoothed by an exponential moving average with weight `keep`, and the test ends when that
 * is `blown` times its lowest value. TO must be at least least_ratio times FROM. */
static const double keep = 0.9, blown = 4, least_ratio = 10;

struct point {
	double lr, loss, smooth;
};

struct range {
	const struct sl_options *o;
	const char *dir;
	double from, to;
	int steps, accumulate;
	struct point *point; /* [steps] */
	int n, lowest;       /* points; index of that with the lowest smoothed loss */
};

static enum sl_err read_range(struct range *r, struct sl_fail *fail)
{
	int used = 0;

	if (sscanf(r->o->lr_range, "%lf:%lf%n", &r->from, &r->to, &used) != 2 || r->o->lr_range[used] ||
	    !(r->from >= 1e-12 && r->to <= 1000 && r->to >= least_ratio * r->from))
		return sl_fail_set(
			fail, SL_ERR_USAGE,
			"sweep: --lr-range %.40s: must be FROM:TO, two learning rates of which the second is "
			"at least ten times the first, such as 1e-6:1",
			r->o->lr_range);
	return SL_OK;
}

static void set_number(struct sl_child *c, const char *key, double x)
{
	char text[32];

	snprintf(text, sizeof text, "%.9g", x);
	sl_child_set(c, key, text);
}

/* Removes the steps and results of an earlier test, which must not be taken for this one's if it fails. Refuses the
 * folder of another run: only tests have a stderr.log. */
static enum sl_err clear(const char *dir, struct sl_fail *fail)
{
	static const char *const made[] = {"lr.json", "lr.gp", "lr.png"};
	struct sl_jsonl *steps = NULL;
	uint64_t step = UINT64_MAX;
	char path[PATH_MAX];
	enum sl_err err;

	snprintf(path, sizeof path, "%s/stderr.log", dir);
	if (access(path, F_OK) != 0 && (sl_past_run(dir).done || sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step)))
		return sl_fail_set(
			fail, SL_ERR_CANTCREATE,
			"sweep: %.200s holds a run, which the test would remove: name another folder by --out", dir);
	for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, made[i]);
		(void)!unlink(path);
	}
	snprintf(path, sizeof path, "%s/log.jsonl", dir);
	err = sl_jsonl_open(&steps, path, fail);
	if (!err && sl_jsonl_empty(steps) != SL_OK)
		err = sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
	(void)!sl_jsonl_close(steps);
	return err;
}

/* Runs the test. Settings that would end or change it before its last step are off, and nothing is kept of it.
 * *ended: why it failed. */
static void run(const struct range *r, struct sl_fail *ended)
{
	static const char *const plain[] = {
		"train.schedule.kind=exponential",
		"train.schedule.warmup_epochs=0",
		"train.schedule.by=step",
		"train.eval_every=0",
		"train.checkpoint_every=0",
		"train.stop.patience=0",
		"train.keep_best=false",
		"train.on_nan=skip",
		"train.phases=[]",
	};
	const int last = (r->steps - 1) / r->accumulate; /* the step of the optimizer that has the last batch */
	const double growth = last ? (double)r->steps / r->accumulate / last : 1;
	char log[SL_CHILD_TEXT];
	struct sl_child child;
	json_t *summary = NULL;

	if (snprintf(log, sizeof log, "%s/stderr.log", r->dir) >= (int)sizeof log) {
		(void)!sl_fail_set(ended, SL_ERR_CANTCREATE, "the path of --out is too long");
		return;
	}
	sl_child_open(&child, r->o);
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		sl_child_setting(&child, plain[i]);
	set_number(&child, "train.optimizer.lr", r->from);
	/* the schedule ends behind the last step, which itself has the rate TO */
	set_number(&child, "train.schedule.end_lr", fmin(r->from * pow(r->to / r->from, growth), 1000));
	set_number(&child, "train.max_steps", r->steps);
	set_number(&child, "train.epochs", r->steps);
	sl_child_set(&child, "log.dir", r->dir);
	(void)!sl_child_run(&child, log, &summary, ended);
	json_decref(summary);
}

/* Reads the losses of all steps. Steps with NaN have none. */
static enum sl_err read_log(struct range *r, struct sl_fail *fail)
{
	char path[PATH_MAX], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof path, "%s/log.jsonl", r->dir);
	file = fopen(path, "r");
	if (!file)
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
	while (r->n < r->steps && getline(&line, &room, file) > 0) {
		json_t *row = json_loads(line, 0, NULL);
		const char *type = json_string_value(json_object_get(row, "type"));
		const double loss = sl_json_number(row, "loss");

		if (type && strcmp(type, "step") == 0 && isfinite(loss))
			r->point[r->n++] = (struct point){sl_json_number(row, "lr"), loss, 0};
		json_decref(row);
	}
	free(line);
	fclose(file);
	return SL_OK;
}

/* Smooths the losses by a moving average with bias correction, up to where it blows up. */
static void smooth(struct range *r)
{
	double mean = 0, weight = 0;
	int n = 0;

	for (; n < r->n; n++) {
		mean = keep * mean + (1 - keep) * r->point[n].loss;
		weight = keep * weight + 1 - keep;
		r->point[n].smooth = mean / weight;
		if (r->point[n].smooth < r->point[r->lowest].smooth)
			r->lowest = n;
		if (n && r->point[n].smooth > blown * r->point[r->lowest].smooth)
			break;
	}
	r->n = n;
}

static double suggestion(const struct range *r)
{
	return r->point[r->lowest].lr / 10;
}

static enum sl_err write_json(const struct range *r, struct sl_fail *fail)
{
	FILE *file = sl_sweep_create(r->dir, "lr.json", fail);

	if (!file)
		return fail->code;
	fprintf(file, "{\"schema\":1,\"suggestion\":%.6g,\"lowest_lr\":%.6g,\"lowest_loss\":%.9g,\"points\":[",
		suggestion(r), r->point[r->lowest].lr, r->point[r->lowest].smooth);
	for (int i = 0; i < r->n; i++)
		fprintf(file, "%s\n{\"lr\":%.9g,\"loss\":%.9g,\"smoothed\":%.9g}", i ? "," : "", r->point[i].lr,
			r->point[i].loss, r->point[i].smooth);
	fputs("\n]}\n", file);
	return sl_sweep_close(file, r->dir, "lr.json", fail);
}

static enum sl_err write_script(const struct range *r, struct sl_fail *fail)
{
	FILE *file = sl_sweep_create(r->dir, "lr.gp", fail);

	if (!file)
		return fail->code;
	sl_gnuplot_begin(file, false, 960, 600, "lr.png");
	fputs("set title 'Loss by learning rate'\n$rows << EOD\n", file);
	for (int i = 0; i < r->n; i++)
		fprintf(file, "%.9g %.9g %.9g\n", r->point[i].lr, r->point[i].loss, r->point[i].smooth);
	fputs("EOD\n", file);
	sl_gnuplot_log_x(file, r->point[0].lr, r->point[r->n - 1].lr);
	fprintf(file,
		"set xlabel 'learning rate'\n"
		"set ylabel 'training loss'\n"
		"set key left center reverse Left\n"
		"set autoscale xfix\n"
		"set arrow 1 from %.6g, graph 0 to %.6g, graph 1 nohead dt 2 lw 1.5 lt 4\n"
		"set label 1 'suggestion %.2g' at %.6g, graph 0.95 offset 0.8,0 tc lt 4\n"
		"plot $rows using 1:2 with points pt 7 ps 0.5 lc rgb '#a0'.word(colours, 1) title 'of a batch', \\\n"
		"     $rows using 1:3 with lines lt 1 title 'smoothed'\n",
		suggestion(r), suggestion(r), suggestion(r), suggestion(r));
	return sl_sweep_close(file, r->dir, "lr.gp", fail);
}

/* Warns where the range, and not the loss, decides the suggestion. `whole`: the loss has not blown up. */
static void warn_of_range(const struct range *r, bool whole)
{
	if (whole && r->lowest >= r->n - r->n / 10)
		sl_log(SL_LOG_WARN, "range-end",
		       "the loss was still falling at TO, so the suggestion may be too small: test a larger TO");
	else if (suggestion(r) < r->from)
		sl_log(SL_LOG_WARN, "range-begin",
		       "the loss was lowest near FROM, so the suggestion is below the range: test a smaller FROM, or a "
		       "larger TO if the curve in lr.png is flat");
}

static enum sl_err report(const struct range *r, struct sl_fail *fail)
{
	char picture[PATH_MAX];
	struct sl_fail why;
	enum sl_err err = write_json(r, fail), drawn;

	if (!err)
		err = write_script(r, fail);
	if (err)
		return err;
	snprintf(picture, sizeof picture, "%s/lr.png", r->dir);
	drawn = sl_gnuplot_run(r->dir, "lr.gp", picture, &why);
	if (drawn)
		sl_log(drawn == SL_ERR_UNAVAILABLE ? SL_LOG_INFO : SL_LOG_WARN, "no-picture", "%s", why.text);
	printf("the loss is lowest, %.4g, at a learning rate of %.2g\n"
	       "suggestion: %.2g, a tenth of that (--set train.optimizer.lr=%.2g)\n"
	       "lr.json and lr.gp%s are in %s\n",
	       r->point[r->lowest].smooth, r->point[r->lowest].lr, suggestion(r), suggestion(r),
	       drawn ? "" : " with its picture lr.png", r->dir);
	return SL_OK;
}

enum sl_err sl_sweep_lr(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct range r = {
		.o = o, .dir = o->out ? o->out : "sweep", .steps = USUAL_STEPS, .accumulate = conf->agreed.accumulate};
	struct sl_fail ended = {.text = ""};
	enum sl_err err = read_range(&r, fail);
	int known;

	if (err || o->check_config)
		return err;
	if (conf->train.max_steps)
		r.steps = conf->train.max_steps < MOST_STEPS ? (int)conf->train.max_steps : MOST_STEPS;
	err = sl_folder_make(r.dir, 0700, fail);
	if (!err)
		err = clear(r.dir, fail);
	r.point = err ? NULL : calloc((size_t)r.steps, sizeof *r.point);
	if (!err && !r.point)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the points");
	if (!err) {
		run(&r, &ended); /* it may end with NaN, after steps that say enough */
		err = read_log(&r, fail);
	}
	known = r.n;
	smooth(&r);
	if (!err && r.n < LEAST_POINTS && known >= LEAST_POINTS)
		err = sl_fail_set(
			fail, SL_ERR_UNAVAILABLE,
			"sweep: the loss is four times its lowest value after %d step%s: begin with a smaller "
			"learning rate than %g",
			r.n, sl_plural(r.n), r.from);
	else if (!err && r.n < LEAST_POINTS)
		err = sl_fail_set(fail, SL_ERR_UNAVAILABLE, "sweep: only %d step%s with a loss; see %s/stderr.log%s%s",
				  known, sl_plural(known), r.dir, ended.text[0] ? ": " : "", ended.text);
	if (!err) {
		err = report(&r, fail);
		warn_of_range(&r, r.n == known);
	}
	free(r.point);
	return err;
}
