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
	"The figure training is the loss by step, smoothed, with dots of batches. Those of evaluations, by epoch, are "
	"loss, accuracy, and each metric by its name. bytes is the accuracy against the megabytes that crossed the "
	"link in training. `all` is those of them that have values.",
	"Runs that are given one NAME, such as those of several seeds, are one curve: their mean, with a band from the "
	"least to the largest of them.",
	"RUN may also be a .json file that `splitc eval --json` wrote. Its figures are confusion, which classes the "
	"samples of each class were taken for; roc, a curve for each of up to 20 classes; and calibration, the share "
	"of right answers by the network's confidence.",
	"gnuplot draws the picture (Debian: gnuplot-nox). With --out FILE.gp the command writes its script, and draws "
	"nothing.",
	NULL,
};

enum { WIDTH = 960, HEIGHT = 600, METRICS_MOST = 8, FEW_POINTS = 30, NAME_COLUMNS = 32 };

struct figure {
	const char *name, *title, *x, *y;
	enum of { STEPS, LOSS, ACCURACY, TRAFFIC, METRIC } of; /* STEPS: of training; else of evaluations, by epoch */
};

static const struct figure figures[] = {
	{"training", "Training loss", "step", "loss of a batch", STEPS},
	{"loss", "Loss", "epoch", "loss", LOSS},
	{"accuracy", "Accuracy", "epoch", "accuracy (%)", ACCURACY},
	{"bytes", "Accuracy by traffic", "MB on the link, both directions", "accuracy (%)", TRAFFIC},
};

/* What a figure has on its axes, of an epoch. */
static double at_of(const struct figure *f, const struct sl_run_epoch *e)
{
	return f->of != TRAFFIC ? e->number : e->bytes > 0 ? e->bytes / 1e6 : (double)NAN;
}

static double value_of(const struct figure *f, const struct sl_run_epoch *e)
{
	return f->of == METRIC ? sl_json_number(e->metrics, f->name) : f->of == LOSS ? e->test_loss : 100 * e->test_acc;
}

enum { FIGURES = sizeof figures / sizeof figures[0] };

struct plot {
	struct sl_run_log run[SL_MAX_OPERANDS];
	int n;
	struct figure figure[FIGURES + METRICS_MOST]; /* that are drawn */
	int n_figure;
	bool of_eval[SL_EVAL_FIGURE_COUNT];
	json_t *eval; /* an evaluation, in place of runs */
	const char *out;
};

/* The range of a figure's points, and where each curve ends. */
struct span {
	int most, points; /* most: points of the longest curve; points: of all */
	double low[2], high[2];
	int curves;
	struct end {
		const char *name;
		double x, y;
		int curve;
	} end[SL_MAX_OPERANDS];
};

static int points_of(const struct figure *f, const struct sl_run_log *run)
{
	return f->of ? run->n_epoch : run->n_point;
}

/* The point of this step, or epoch; its values are not finite if the run has none. `smooth`: the moving average of the
 * steps so far, with bias correction. */
struct point {
	double x, y, smooth;
};

static struct point point_at(const struct figure *f, const struct sl_run_log *run, double number)
{
	static const double keep = 0.9;
	double mean = 0, weight = 0;

	for (int k = 0; k < points_of(f, run); k++) {
		if (f->of && run->epoch[k].number == number) {
			const double y = value_of(f, &run->epoch[k]);

			return (struct point){at_of(f, &run->epoch[k]), y, y};
		}
		if (f->of)
			continue;
		mean = keep * mean + (1 - keep) * run->point[k].loss;
		weight = keep * weight + 1 - keep;
		if (run->point[k].step == number)
			return (struct point){number, run->point[k].loss, mean / weight};
	}
	return (struct point){NAN, NAN, NAN};
}

static void take(struct span *s, const double at[2])
{
	for (int i = 0; i < 2; i++) {
		s->low[i] = s->points ? fmin(s->low[i], at[i]) : at[i];
		s->high[i] = s->points ? fmax(s->high[i], at[i]) : at[i];
	}
	s->points++;
}

/* Writes a curve as a block that `plot … index` finds: x, the runs' mean, the least and the largest of the runs, and
 * the mean of their smoothed values. It is that of all runs with the name of run `first`. */
static void write_curve(FILE *file, const struct figure *f, const struct plot *p, int first, struct span *s)
{
	const struct sl_run_log *longest = &p->run[first];
	struct end *end = &s->end[s->curves];
	int n = 0;

	for (int i = first + 1; i < p->n; i++)
		if (strcmp(p->run[i].name, longest->name) == 0 && points_of(f, &p->run[i]) > points_of(f, longest))
			longest = &p->run[i];
	*end = (struct end){longest->name, NAN, NAN, s->curves++};
	fprintf(file, "# \"%s\"\n", longest->name);
	for (int k = 0; k < points_of(f, longest); k++) {
		const double number = f->of ? longest->epoch[k].number : longest->point[k].step;
		double x = 0, y = 0, smooth = 0, low = INFINITY, high = -INFINITY;
		int runs = 0;

		for (int i = first; i < p->n; i++) {
			const struct point at = point_at(f, &p->run[i], number);

			if (strcmp(p->run[i].name, longest->name) != 0 || !isfinite(at.x) || !isfinite(at.y))
				continue;
			x += at.x;
			y += at.y;
			smooth += at.smooth;
			low = fmin(low, at.smooth);
			high = fmax(high, at.smooth);
			runs++;
		}
		if (!runs)
			continue;
		fprintf(file, "%.9g %.9g %.9g %.9g %.9g\n", x / runs, y / runs, low, high, smooth / runs);
		for (int k = 0; k < 3; k++)
			take(s, (double[]){x / runs, k == 0 ? y / runs : k == 1 ? low : high});
		end->x = x / runs;
		end->y = smooth / runs;
		n++;
	}
	if (!n) /* keeps the block's number that of the curve */
		fputs("NaN NaN NaN NaN NaN\n", file);
	fputs("\n\n", file);
	s->most = n > s->most ? n : s->most;
}

/* The part that all runs evaluate; NULL: they evaluate different ones, or their logs do not say. */
static const char *part_of(const struct plot *p)
{
	for (int i = 1; i < p->n; i++)
		if (strcmp(p->run[i].part, p->run[0].part) != 0)
			return NULL;
	return p->n && p->run[0].part[0] ? p->run[0].part : NULL;
}

static int lower(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	return (x->y > y->y) - (x->y < y->y);
}

/* Writes the curves' names to the right of where they end, each above the one before it. */
static void write_names(FILE *file, struct span *s, double low, double high)
{
	const double gap = s->curves > 16 ? 1.0 / s->curves : 0.06;
	int columns = 0;
	double at = -1;

	qsort(s->end, (size_t)s->curves, sizeof *s->end, lower);
	fputs("unset label\nunset key\n", file);
	for (int i = 0; i < s->curves; i++) {
		const struct end *e = &s->end[i];
		const double room = 1 - (s->curves - 1 - i) * gap, y = (e->y - low) / (high - low);
		const int width = sl_text_columns(e->name, strlen(e->name));

		at = fmin(fmax(isfinite(y) ? y : 0, at + gap), room);
		fprintf(file, "set label \"%s\" at first %.9g, graph %.3f offset 1,0 tc lt %d noenhanced%s\n", e->name,
			isfinite(e->x) ? e->x : s->high[0], at, e->curve + 1, s->curves > 16 ? " font ',8'" : "");
		columns = width > columns ? width : columns;
	}
	fprintf(file, "set rmargin %d\n", 3 + (columns > NAME_COLUMNS ? NAME_COLUMNS : columns));
}

static void write_figure(FILE *file, const struct figure *f, const struct plot *p)
{
	const char *part = part_of(p), *mark = "s";
	struct span s = {0};
	double margin;

	fprintf(file, "$%s << EOD\n", f->name);
	for (int i = 0; i < p->n; i++) {
		int first = 0;

		while (strcmp(p->run[first].name, p->run[i].name) != 0)
			first++;
		if (first == i)
			write_curve(file, f, p, i, &s);
	}
	fprintf(file, "EOD\nunset logscale x\nset format x '%%g'\nset xtics %s\n",
		f->of && f->of != TRAFFIC && s.most <= 20 ? "1" : "auto"); /* one for each epoch */
	fprintf(file, "set title '%s%s%s'\nset xlabel '%s'\nset ylabel '%s'\n", f->title, f->of ? ", " : "",
		!f->of ? ""
		: part ? part
		       : "evaluation",
		f->x, f->y);
	if (sl_gnuplot_range(file, 'x', s.low[0], s.high[0]) && f->of == TRAFFIC) {
		sl_gnuplot_log_x(file, s.low[0], s.high[0]);
		fprintf(file, "set xrange [%.9g:%.9g]\n", s.low[0] * 0.9, s.high[0] * 1.1);
	}
	margin = (s.high[1] - s.low[1]) / 20;
	if (sl_gnuplot_range(file, 'y', s.low[1], s.high[1]))
		fprintf(file, "set yrange [%.9g:%.9g]\n", s.low[1] - margin, s.high[1] + margin);
	write_names(file, &s, s.low[1] - margin, s.high[1] + margin);
	if (!s.points)
		fputs("set label 99 'no values yet' at graph 0.5,0.5 center tc rgb '#808080'\n", file);
	if (s.most <= FEW_POINTS) /* a run of one step has no line */
		mark = "spoints pt 7 ps 0.6";
	fputs("plot ", file);
	if (!f->of)
		fprintf(file,
			"for [i=0:%d] $%s index i using 1:2 with points pt 7 ps 0.3 lc rgb "
			"'#a0'.word(colours, i%%8+1), \\\n     ",
			s.curves - 1, f->name);
	if (s.curves < p->n)
		fprintf(file,
			"for [i=0:%d] $%s index i using 1:3:4 with filledcurves lc i+1 fs transparent solid 0.2 "
			"noborder, \\\n     ",
			s.curves - 1, f->name);
	fprintf(file, "for [i=0:%d] $%s index i using 1:5 with line%s lt i+1\n", s.curves - 1, f->name, mark);
}

static void write_script(FILE *file, const struct plot *p, bool svg, const char *picture)
{
	int n = p->n_figure;

	for (int i = 0; i < SL_EVAL_FIGURE_COUNT; i++)
		n += p->of_eval[i];
	sl_gnuplot_begin(file, svg, n <= 1 || p->eval ? WIDTH : 3 * WIDTH / 2,
			 n <= 1    ? HEIGHT
			 : p->eval ? n * HEIGHT
				   : (n + 1) / 2 * 3 * HEIGHT / 4,
			 picture);
	if (n > 1)
		fprintf(file, "set multiplot layout %d,%d\n", p->eval ? n : (n + 1) / 2, p->eval ? 1 : 2);
	for (int i = 0; i < p->n_figure; i++)
		write_figure(file, &p->figure[i], p);
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

/* Whether a run has a value of that figure. */
static bool has_values(const struct plot *p, const struct figure *f)
{
	for (int i = 0; i < p->n; i++)
		for (int k = 0; k < p->run[i].n_epoch; k++)
			if (isfinite(value_of(f, &p->run[i].epoch[k])))
				return true;
	return false;
}

/* Adds a figure for each metric of the runs' last evaluations. */
static int add_metrics(const struct plot *p, struct figure *all, int n)
{
	const char *name;
	json_t *value;

	for (int i = 0; i < p->n; i++)
		for (int k = 0; k < p->run[i].n_epoch; k++)
			json_object_foreach(p->run[i].epoch[k].metrics, name, value)
			{
				int at = FIGURES;

				while (at < n && strcmp(all[at].name, name) != 0)
					at++;
				if (at == n && n < FIGURES + METRICS_MOST && json_is_number(value) &&
				    !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
					all[n++] = (struct figure){name, name, "epoch", name, METRIC};
			}
	return n;
}

/* Chooses figures, of runs, which are read, or of an evaluation. */
static enum sl_err choose(struct plot *p, const struct sl_options *o, bool eval, struct sl_fail *fail)
{
	const char *name = o->figure ? o->figure : "all";
	const bool all = strcmp(name, "all") == 0;
	struct figure known[FIGURES + METRICS_MOST];
	char names[256];
	int n, at;
	bool any = all;

	memcpy(known, figures, sizeof figures);
	n = add_metrics(p, known, FIGURES);
	at = snprintf(names, sizeof names, "training, loss, accuracy, bytes");
	for (int i = 0; i < n && !eval; i++) {
		if (i >= FIGURES && at < (int)sizeof names)
			at += snprintf(names + at, sizeof names - (size_t)at, ", %s", known[i].name);
		if (all ? !i || has_values(p, &known[i]) : strcmp(name, known[i].name) == 0)
			p->figure[p->n_figure++] = known[i];
	}
	for (int i = 0; i < SL_EVAL_FIGURE_COUNT && eval; i++)
		any |= p->of_eval[i] = all || sl_eval_figure(name) == i;
	any |= p->n_figure > 0;
	if (!any && (eval || sl_eval_figure(name) < 0))
		return sl_fail_set(fail, SL_ERR_USAGE, "--figure '%s' is none of: all, %s", name,
				   eval ? SL_EVAL_FIGURES : names);
	if (!any)
		return sl_fail_set(
			fail, SL_ERR_USAGE,
			"--figure %s is of an evaluation: write it with splitc eval CONFIG --json >eval.json, and "
			"give eval.json in place of RUN",
			name);
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
			if (strcmp(p->run[k].name, p->run[i].name) == 0 && !(p->run[k].named && p->run[i].named))
				err = sl_fail_set(
					fail, SL_ERR_USAGE,
					"plot: two runs are named '%s' in the picture: give them names, such "
					"as first=%.200s; runs with one given name are one curve, with a band",
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
	p.out = o.out ? o.out : "plot.png";
	err = sl_ends_with(p.out, ".png") || sl_ends_with(p.out, ".svg") || sl_ends_with(p.out, ".gp")
		      ? SL_OK
		      : sl_fail_set(&fail, SL_ERR_USAGE, "--out '%s': its name must end in .png, .svg or .gp", p.out);
	if (!err && eval)
		err = choose(&p, &o, eval, &fail);
	if (!err)
		err = read_all(&p, &o, eval, &fail);
	if (!err && !eval)
		err = choose(&p, &o, eval, &fail);
	if (!err)
		err = sl_ends_with(p.out, ".gp") ? keep_script(&p, &fail) : draw(&p, &fail);
	if (!err)
		o.json ? print_json(&p) : print_table(&p);
	for (int i = 0; i < p.n; i++)
		sl_run_log_close(&p.run[i]);
	json_decref(p.eval);
	return err ? sl_command_failed(&fail) : 0;
}
