#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/child.h"
#include "client/cmd/sweep.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/wrap.h"

static const char *const usage[] = {
	"splitc sweep CONFIG [--codecs LIST.yaml | --lr-range FROM:TO] [--local] [--out DIR] [--force] [--set "
	"KEY=VALUE]…",
	"Trains the config's run once for every row of the list, each in its own process. Writes DIR/sweep.csv "
	"(rate, accuracy, loss, times, bandwidths), and gnuplot scripts with their pictures. DIR is `sweep` by "
	"default.",
	"A row has a name, and what it changes in the config: codec (one for all tensors, or one for each), insert "
	"(none: without the config's inserts) and chunks. `set` is a list of other keys, spelled as for --set: {name: "
	"adamw, set: [train.optimizer.kind=adamw, train.optimizer.lr=0.001]}.",
	"Rows with the same name and different chunks form one line of a picture. A row that fails is marked, and "
	"the next one runs; the exit status is then 69. --check-config checks the keys and codecs of every row and "
	"trains none.",
	"Where the config has data.split.folds, each row is trained once for each fold, and --codecs may be left out. "
	"DIR/folds.csv has mean and deviation of the last evaluations' figures.",
	"--lr-range tests learning rates instead, in one run of 100 steps or train.max_steps. The learning rate grows "
	"from FROM to TO by the same factor in each step. It writes DIR/lr.json and the picture lr.png, and "
	"suggests a tenth of the learning rate at which the smoothed loss was lowest.",
	"The messages of a row go to DIR/row-NN/stderr.log. `splitc status` shows its progress. configs/sweep.yaml "
	"is a list to begin with.",
	NULL,
};

static void say(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *r, int number, int n)
{
	char text[SL_FIGURE_TEXT], batch[SL_FIGURE_TEXT], metrics[SL_SCORES_MOST * (SL_FIGURE_TEXT + 32)] = "";
	char line[160];
	size_t n_text = 0, at = 0;

	printf("%d/%d %s, chunks %d\n    ", number, n, row->name, r->chunks);
	for (int i = 0; r->done && i < SL_SCORES_MOST && r->score[i].name[0]; i++)
		n_text += (size_t)snprintf(metrics + n_text, sizeof metrics - n_text, "%s%s %s", i ? ", " : "",
					   r->score[i].name, sl_figure_text(r->score[i].value, text));
	if (r->done && !isnan(r->test_acc)) /* targets that are numbers have no accuracy */
		at = (size_t)snprintf(line, sizeof line, "%s accuracy %s, ", r->part, sl_share_text(r->test_acc, text));
	if (r->done) {
		snprintf(line + at, sizeof line - at, "loss %s, rate %.4f (%.4f nominal), %s a batch",
			 sl_figure_text(r->test_loss, text), r->rate_real, r->rate_nominal,
			 sl_time_text(r->t_per_batch_s, batch));
		sl_print_wrapped(stdout, line, 4, SL_WRAP_WIDTH);
	} else {
		printf("failed: %s\n", r->error);
	}
	if (n_text) {
		printf("    ");
		sl_print_wrapped(stdout, metrics, 4, SL_WRAP_WIDTH);
	}
	fflush(stdout);
}

static enum sl_err check_place(const struct sl_options *o, const char *out_dir, int n, struct sl_fail *fail)
{
	char path[PATH_MAX];

	if (o->force && snprintf(path, sizeof path, "%s/folds.csv", out_dir) < PATH_MAX)
		remove(path); /* this sweep may have no folds */
	if (o->force && snprintf(path, sizeof path, "%s/row-%02d", out_dir, n + 1) < PATH_MAX && !access(path, F_OK))
		sl_log(SL_LOG_WARN, "earlier-rows", "%s and later ones are an earlier sweep's: this one has %d row%s",
		       path, n, sl_plural(n));
	if (o->force || snprintf(path, sizeof path, "%s/sweep.csv", out_dir) >= PATH_MAX || access(path, F_OK))
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CANTCREATE,
			   "sweep: %s holds a sweep already: give --force to write over it, or --out another folder",
			   out_dir);
}

/* Checks all rows, so that none is found invalid after hours of others. Results and pictures tell rows apart by name
 * and chunks; the folds of a row share them. */
static enum sl_err begin(const struct sl_options *o, const struct sl_conf_sweep_row *row,
			 struct sl_sweep_result *result, int n, int folds, struct sl_fail *fail)
{
	const int runs = folds ? folds : 1; /* of a row */
	enum sl_err err = SL_OK;

	for (int i = 0; i < n && !err; i++) {
		err = sl_sweep_begin(&result[i], o, &row[i], fail);
		for (int k = 0; k < i / runs * runs && !err; k++)
			if (result[k].chunks == result[i].chunks && strcmp(row[k].name, row[i].name) == 0)
				err = sl_fail_set(
					fail, SL_ERR_CONFIG,
					"%s: rows %d and %d are both named \"%s\", with chunks %d: give one of "
					"them another name",
					o->codecs, k / runs + 1, i / runs + 1, row[i].name, result[i].chunks);
	}
	return err;
}

/* Runs all rows. After each of them the CSV is complete. */
static enum sl_err sweep(const struct sl_options *o, const struct sl_conf_sweep_row *row,
			 struct sl_sweep_result *result, int n, int folds, int *failed, struct sl_fail *fail)
{
	const char *out_dir = o->out ? o->out : "sweep";
	enum sl_err err = begin(o, row, result, n, folds, fail);
	struct sl_sweep_made made;
	int done = 0;

	if (!err)
		err = check_place(o, out_dir, n, fail);
	if (!err)
		err = sl_folder_make(out_dir, 0700, fail);
	if (err)
		return err;
	sl_folder_hold(out_dir);
	while (done < n && !err && !sl_child_asked_to_end()) {
		sl_log(SL_LOG_INFO, "row", "%d of %d, %s; its messages are in row-%02d/stderr.log", done + 1, n,
		       row[done].name, done + 1);
		sl_sweep_run(&result[done], o, &row[done], done + 1, out_dir);
		say(&row[done], &result[done], done + 1, n);
		*failed += !result[done].done;
		done++;
		err = sl_sweep_write_csv(row, result, done, out_dir, fail);
	}
	if (!err && folds)
		err = sl_sweep_folds(row, result, done, folds, out_dir, fail);
	if (!err)
		err = sl_sweep_plot(row, result, done, out_dir, &made, fail);
	if (!err)
		printf("sweep.csv%s %s in %s\n",
		       made.pictures  ? ", pictures and their scripts"
		       : made.scripts ? ", scripts for pictures"
				      : "",
		       made.scripts ? "are" : "is", out_dir);
	return err;
}

static enum sl_err check(const struct sl_options *o, const struct sl_conf_sweep_row *row,
			 struct sl_sweep_result *result, int n, int folds, struct sl_fail *fail)
{
	enum sl_err err = begin(o, row, result, n, folds, fail);

	for (int i = 0; i < n && !err; i++)
		err = sl_sweep_check(o, &row[i], fail);
	if (!err)
		printf("%s: ok, %d row%s\n", o->codecs ? o->codecs : o->config, n, sl_plural(n));
	return err;
}

static int ended(int failed)
{
	if (sl_child_asked_to_end())
		return sl_err_exit_status(SL_ERR_BUSY);
	return failed ? sl_err_exit_status(SL_ERR_UNAVAILABLE) : 0;
}

int splitc_sweep(int argc, char **argv)
{
	struct sl_options o = {.command = "sweep", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_conf_sweep_row *row = NULL;
	struct sl_sweep_result *result = NULL;
	struct sl_conf_client conf;
	struct sl_fail fail;
	enum sl_err err;
	int n = 0, failed = 0;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_LOCAL | SL_OPT_SWEEP, 1);

	if (status >= 0)
		return status;
	status = sl_options_load(&o, SL_USES_FOR_TRAINING, &conf);
	if (status > 0 || (status == 0 && !o.check_config))
		return status;
	if (o.lr_range && o.codecs)
		return sl_command_refuse("sweep: give --codecs or --lr-range, not both");
	if (o.local && conf.agreed.share.group[0])
		return sl_command_refuse(
			"sweep: with --local all members of share.group are trained, each with figures "
			"of its own, and a row has those of one client: leave --local out, or give "
			"--set share.group=");
	if (o.lr_range)
		return sl_sweep_lr(&o, &conf, &fail) ? sl_command_failed(&fail) : ended(0);
	if (!o.codecs && !conf.data.split.folds)
		return sl_options_missing(&o, "--codecs LIST.yaml");
	row = calloc(SL_SWEEP_MAX_ROWS, sizeof *row);
	result = calloc(SL_SWEEP_MAX_ROWS, sizeof *result);
	err = row && result ? SL_OK : sl_fail_set(&fail, SL_ERR_NOMEM, "no memory for the rows");
	if (!err && o.codecs)
		err = sl_conf_load_list(&sl_conf_sweep_schema, row, SL_SWEEP_MAX_ROWS, &n, o.codecs, &fail);
	else if (!err)
		snprintf(row[n++].name, sizeof row[0].name, "folds");
	if (!err && conf.data.split.folds)
		err = sl_sweep_add_folds(row, &n, conf.data.split.folds, &fail);
	if (!err && n > 1 && conf.privacy.clip > 0)
		sl_log(SL_LOG_WARN, "privacy-rows",
		       "privacy.… and its budget count each of the %d runs alone: a sample crosses in several, and "
		       "their "
		       "epsilons add up",
		       n);
	if (!err)
		err = o.check_config ? check(&o, row, result, n, conf.data.split.folds, &fail)
				     : sweep(&o, row, result, n, conf.data.split.folds, &failed, &fail);
	free(row);
	free(result);
	if (err)
		return sl_command_failed(&fail);
	return ended(failed);
}
