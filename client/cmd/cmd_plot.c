#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "client/cmd/gnuplot.h"
#include "client/cmd/plot_eval.h"
#include "client/cmd/run_log.h"
#include "common/base/text.h"
#include "common/base/wrap.h"
#include "common/telemetry/json.h"

static const char *const usage[] = {
	"splitc plot RUN… [--out FILE] [--figure NAME] [--json]",
	"Draws the curves of one or more runs as one picture, and prints where each run stands. RUN is a run's log.dir "
	"or its log.jsonl; NAME=RUN gives it a name in the picture. A run that goes on can be drawn too.",
	"The figures: training, the loss by step; loss, that of the evaluations by epoch; accuracy, of the evaluations "
	"by "
	"epoch; bytes, the accuracy against the megabytes that crossed the link in training. `all` is the four of "
	"them.",
	"RUN may also be a .json file that `splitc eval --json` wrote. Its figures are confusion, which classes the "
	"samples of each class were taken for; roc, a curve for each of up to 20 classes; and calibration, the share "
	"of right answers by the network's confidence.",
	"gnuplot draws the picture (Debian: gnuplot-nox). With --out FILE.gp the command writes its script, and draws "
	"nothing.",
	NULL,
};

enum { WIDTH = 960, HEIGHT = 600, MOST_INSIDE = 8 }; /* more runs have their legend beside the curves */

struct figure {
	const char *name, *title, *x, *y, *key; /* key: where the legend is least in the way */
	/* x and y of an epoch; NULL: the figure is by step. */
	double (*at)(const struct sl_run_epoch *e);
	double (*value)(const struct sl_run_epoch *e);
};

static double at_epoch(const struct sl_run_epoch *e)
{
	return e->number;
}

static double at_bytes(const struct sl_run_epoch *e)
{
	return e->bytes > 0 ? e->bytes / 1e6 : (double)NAN;
}

static double test_loss(const struct sl_run_epoch *e)
{
	return e->test_loss;
}

static double test_acc(const struct sl_run_epoch *e)
{
	return 100 * e->test_acc;
}

static const struct figure figures[] = {
	{"training", "Training loss", "step", "loss", "top right", NULL, NULL},
	{"loss", "Loss", "epoch", "loss", "top right", at_epoch, test_loss},
	{"accuracy", "Accuracy", "epoch", "accuracy (%)", "bottom right", at_epoch, test_acc},
	{"bytes", "Accuracy by traffic", "MB on the link, both directions", "accuracy (%)", "bottom right", at_bytes,
	 test_acc},
};

enum { FIGURES = sizeof figures / sizeof figures[0] };

struct plot {
	struct sl_run_log run[SL_MAX_OPERANDS];
	int n;
	bool wanted[FIGURES], of_eval[SL_EVAL_FIGURE_COUNT];
	json_t *eval; /* an evaluation, in place of runs */
	const char *out;
};

/* The range of a figure's points. */
struct span {
	int most, points; /* most: points of the largest run; points: of all runs */
	double low[2], high[2];
};

static void put_point(FILE *file, struct span *s, int *n, double x, double y)
{
	const double at[2] = {x, y};

	if (!isfinite(x) || !isfinite(y))
		return;
	fprintf(file, "%.9g %.9g\n", x, y);
	for (int i = 0; i < 2; i++) {
		s->low[i] = s->points ? fmin(s->low[i], at[i]) : at[i];
		s->high[i] = s->points ? fmax(s->high[i], at[i]) : at[i];
	}
	s->points++;
	s->most = ++*n > s->most ? *n : s->most;
}

/* Writes one run's points as a block that `plot … index` finds; its first line is the name. */
static void write_run(FILE *file, const struct figure *f, const struct sl_run_log *run, struct span *s)
{
	int n = 0;

	fprintf(file, "\"%s\"\n", run->name);
	for (int i = 0; !f->at && i < run->n_point; i++)
		put_point(file, s, &n, run->point[i].step, run->point[i].loss);
	for (int i = 0; f->at && i < run->n_epoch; i++)
		put_point(file, s, &n, f->at(&run->epoch[i]), f->value(&run->epoch[i]));
	if (!n) /* keeps the name in the legend, and the block's number that of the run */
		fputs("NaN NaN\n", file);
	fputs("\n\n", file);
}

/* The part that all runs evaluate; NULL: they evaluate different ones, or their logs do not say. */
static const char *part_of(const struct plot *p)
{
	for (int i = 1; i < p->n; i++)
		if (strcmp(p->run[i].part, p->run[0].part) != 0)
			return NULL;
	return p->n && p->run[0].part[0] ? p->run[0].part : NULL;
}

static void write_figure(FILE *file, const struct figure *f, const struct plot *p)
{
	const char *part = part_of(p);
	struct span s = {0};
	bool wide;

	fprintf(file, "$%s << EOD\n", f->name);
	for (int i = 0; i < p->n; i++)
		write_run(file, f, &p->run[i], &s);
	fprintf(file, "EOD\nset xtics %s\n", f->at == at_epoch && s.most <= 20 ? "1" : "auto"); /* one for each epoch */
	fprintf(file, "set title '%s%s%s'\nset xlabel '%s'\nset ylabel '%s'\nset key %s noenhanced%s\n", f->title,
		f->at ? ", " : "",
		!f->at ? ""
		: part ? part
		       : "evaluation",
		f->x, f->y, f->key, p->n > MOST_INSIDE ? " outside font ',8'" : "");
	wide = sl_gnuplot_range(file, 'x', s.low[0], s.high[0]);
	fprintf(file, "%sset logscale x\n", f->at == at_bytes && wide ? "" : "un");
	sl_gnuplot_range(file, 'y', s.low[1], s.high[1]);
	if (!s.points)
		fputs("set label 1 'no values yet' at graph 0.5,0.5 center\n", file);
	/* with points, since a run of one step has no line */
	fprintf(file,
		"plot for [i=0:%d] $%s index i using 1:2 with linespoints pt 7 ps %s lw 2 lc i+1 title "
		"columnheader(1)\n",
		p->n - 1, f->name, f->at ? "0.6" : "0.2");
	fputs("unset label 1\n", file);
}

static void write_script(FILE *file, const struct plot *p, bool svg, const char *picture)
{
	int n = 0;

	for (int i = 0; i < FIGURES; i++)
		n += p->wanted[i];
	for (int i = 0; i < SL_EVAL_FIGURE_COUNT; i++)
		n += p->of_eval[i];
	sl_gnuplot_begin(file, svg, n <= 1 || p->eval ? WIDTH : 3 * WIDTH / 2,
			 n <= 1    ? HEIGHT
			 : p->eval ? n * HEIGHT
				   : 3 * HEIGHT / 2,
			 picture);
	if (n > 1)
		fprintf(file, "set multiplot layout %s\n", p->eval ? "3,1" : "2,2");
	for (int i = 0; i < FIGURES; i++)
		if (p->wanted[i])
			write_figure(file, &figures[i], p);
	for (int i = 0; i < SL_EVAL_FIGURE_COUNT; i++)
		if (p->of_eval[i])
			sl_eval_write_figure(file, i, p->eval);
	if (n > 1)
		fputs("unset multiplot\n", file);
}

static enum sl_err close_script(FILE *file, const char *path, struct sl_fail *fail)
{
	bool bad = ferror(file) != 0;

	if (fclose(file) != 0 || bad)
		return sl_fail_set(fail, SL_ERR_IO, "%s: cannot be written", path);
	return SL_OK;
}

/* Writes the script to the user's file; the picture that it would draw lies beside it. */
static enum sl_err keep_script(const struct plot *p, struct sl_fail *fail)
{
	char picture[PATH_MAX];
	FILE *file = fopen(p->out, "we");

	if (!file)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", p->out, strerror(errno));
	snprintf(picture, sizeof picture, "%.*s.png", (int)strlen(p->out) - 3, p->out);
	write_script(file, p, false, picture);
	return close_script(file, p->out, fail);
}

/* Draws into a file beside the wanted one, and renames it, so that the wanted one appears whole or stays as it was. */
static enum sl_err draw(const struct plot *p, struct sl_fail *fail)
{
	char script[] = "/tmp/splitc-plot.XXXXXX", picture[PATH_MAX];
	int fd = mkstemp(script);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	enum sl_err err;

	if (!file) {
		err = sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", script, strerror(errno));
		if (fd >= 0)
			close(fd);
		return err;
	}
	snprintf(picture, sizeof picture, "%s.part", p->out);
	write_script(file, p, sl_ends_with(p->out, ".svg"), picture);
	err = close_script(file, script, fail);
	if (!err)
		err = sl_gnuplot_run(".", script, picture, fail);
	if (!err && rename(picture, p->out) != 0)
		err = sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", p->out, strerror(errno));
	if (err)
		unlink(picture);
	unlink(script);
	return err;
}

static double last_acc(const struct sl_run_log *run)
{
	int i = run->n_epoch - 1;

	while (i > 0 && isnan(run->epoch[i].test_acc)) /* train.eval_every: not each epoch has one */
		i--;
	return i < 0 ? (double)NAN : run->epoch[i].test_acc;
}

static void print_percent(double x)
{
	isfinite(x) ? printf(" %9.2f", 100 * x) : printf(" %9s", "-");
}

static void print_table(const struct plot *p)
{
	if (p->n)
		printf("%-24s %7s %9s %9s %9s %11s  %s\n", "run", "epochs", "steps", "acc%", "best acc%", "training MB",
		       "part");
	for (int i = 0; i < p->n; i++) {
		const struct sl_run_log *r = &p->run[i];

		sl_print_cell(stdout, r->name, 0, 24);
		printf(" %7d %9" PRIu64, r->n_epoch, r->steps);
		print_percent(last_acc(r));
		print_percent(r->best_acc);
		printf(" %11.2f  %s\n", r->bytes / 1e6, r->part[0] ? r->part : "-");
	}
	printf("%s%s is written\n", p->n ? "\n" : "", p->out);
}

static void print_json(const struct plot *p)
{
	json_t *root = json_pack("{s:i, s:o}", "schema", 1, "out", sl_json_text(p->out)), *runs = json_array();

	for (int i = 0; i < p->n; i++) {
		const struct sl_run_log *r = &p->run[i];

		json_array_append_new(
			runs, json_pack("{s:s, s:i, s:I, s:o, s:o, s:I, s:o}", "name", r->name, "epochs", r->n_epoch,
					"steps", (json_int_t)r->steps, "test_acc", sl_json_real(last_acc(r)),
					"best_test_acc", sl_json_real(r->best_acc), "wire_bytes", (json_int_t)r->bytes,
					"evaluated_part", r->part[0] ? json_string(r->part) : json_null()));
	}
	json_object_set_new(root, "runs", runs);
	sl_command_print_json(root, 0);
}

/* Chooses figures, of runs or of an evaluation. */
static enum sl_err choose(struct plot *p, const struct sl_options *o, bool eval, struct sl_fail *fail)
{
	const char *name = o->figure ? o->figure : "all";
	const bool all = strcmp(name, "all") == 0;
	bool any = all;

	p->out = o->out ? o->out : "plot.png";
	for (int i = 0; i < FIGURES && !eval; i++)
		any |= p->wanted[i] = all || strcmp(name, figures[i].name) == 0;
	for (int i = 0; i < SL_EVAL_FIGURE_COUNT && eval; i++)
		any |= p->of_eval[i] = all || sl_eval_figure(name) == i;
	if (!any && (eval || sl_eval_figure(name) < 0))
		return sl_fail_set(fail, SL_ERR_USAGE, "--figure '%s' is none of: all, %s", name,
				   eval ? SL_EVAL_FIGURES : "training, loss, accuracy, bytes");
	if (!any)
		return sl_fail_set(
			fail, SL_ERR_USAGE,
			"--figure %s is of an evaluation: write it with splitc eval CONFIG --json >eval.json, and "
			"give eval.json in place of RUN",
			name);
	if (!sl_ends_with(p->out, ".png") && !sl_ends_with(p->out, ".svg") && !sl_ends_with(p->out, ".gp"))
		return sl_fail_set(fail, SL_ERR_USAGE, "--out '%s': its name must end in .png, .svg or .gp", p->out);
	return SL_OK;
}

static enum sl_err read_all(struct plot *p, const struct sl_options *o, bool eval, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (eval && o->n_positional > 1)
		return sl_fail_set(fail, SL_ERR_USAGE, "plot: one evaluation at a time, and no runs beside it");
	if (eval)
		return sl_eval_read(&p->eval, o->positional[0], p->of_eval, fail);
	for (int i = 0; i < o->n_positional && !err; i++) {
		err = sl_run_log_read(&p->run[i], o->positional[i], fail);
		p->n += !err;
		for (int k = 0; k < i && !err; k++)
			if (strcmp(p->run[k].name, p->run[i].name) == 0)
				err = sl_fail_set(fail, SL_ERR_USAGE,
						  "plot: two runs are named '%s' in the picture: give them names, such "
						  "as first=%.200s",
						  p->run[i].name, o->positional[k]);
	}
	return err;
}

int splitc_plot(int argc, char **argv)
{
	struct sl_options o = {.command = "plot", .usage = usage};
	static struct plot p;
	struct sl_fail fail;
	enum sl_err err;
	bool eval;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_PLOT | SL_OPT_JSON, SL_MAX_OPERANDS);

	if (status >= 0)
		return status;
	if (!o.n_positional)
		return sl_options_missing(&o, "RUN");
	eval = sl_ends_with(o.positional[0], ".json");
	err = choose(&p, &o, eval, &fail);
	if (!err)
		err = read_all(&p, &o, eval, &fail);
	if (!err)
		err = sl_ends_with(p.out, ".gp") ? keep_script(&p, &fail) : draw(&p, &fail);
	if (!err)
		o.json ? print_json(&p) : print_table(&p);
	for (int i = 0; i < p.n; i++)
		sl_run_log_close(&p.run[i]);
	json_decref(p.eval);
	return err ? sl_command_failed(&fail) : 0;
}
