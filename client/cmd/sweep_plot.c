#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/gnuplot.h"
#include "client/cmd/sweep.h"
#include "common/base/log.h"

/* Pictures of a value by number of chunks, with a line for each name. */
static const struct by_chunks {
	const char *file, *title, *axis;
	size_t value; /* offset in struct sl_sweep_result */
} by_chunks[] = {
	{"time_per_batch", "Time per batch", "s", offsetof(struct sl_sweep_result, t_per_batch_s)},
	{"compute_per_batch", "Computation time per batch", "s",
	 offsetof(struct sl_sweep_result, t_compute_per_batch_s)},
	{"average_bandwidth", "Average bandwidth", "MB/s", offsetof(struct sl_sweep_result, avg_mb_s)},
	{"peak_bandwidth", "Peak bandwidth, client", "MB/s", offsetof(struct sl_sweep_result, peak_client_mb_s)},
};
enum { N_BY_CHUNKS = sizeof by_chunks / sizeof by_chunks[0] };

static double value_of(const struct sl_sweep_result *r, size_t offset)
{
	double value;

	memcpy(&value, (const char *)r + offset, sizeof value);
	return r->done ? value : (double)NAN;
}

static void begin(FILE *file, const char *name, const char *title)
{
	char out[64];

	snprintf(out, sizeof out, "%s.png", name);
	sl_gnuplot_begin(file, false, 960, 600, out);
	fprintf(file, "set title '%s'\n", title);
}

/* Writes the picture's script; returns how many points it has. */
static int write_rate_accuracy(FILE *file, const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result,
			       int n)
{
	double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
	const char *part = "";
	int points = 0;

	begin(file, "rate_accuracy", "Accuracy by compress rate");
	fputs("$rows << EOD\n", file);
	for (int i = 0; i < n; i++) {
		if (!result[i].done || !isfinite(result[i].rate_real) || !isfinite(result[i].test_acc))
			continue;
		fprintf(file, "%.6g %.6g \"%s\"\n", result[i].rate_real, 100 * result[i].test_acc, row[i].name);
		low[0] = fmin(low[0], result[i].rate_real);
		high[0] = fmax(high[0], result[i].rate_real);
		low[1] = fmin(low[1], 100 * result[i].test_acc);
		high[1] = fmax(high[1], 100 * result[i].test_acc);
		part = result[i].part;
		points++;
	}
	fputs("EOD\n", file);
	sl_gnuplot_range(file, 'y', low[1], high[1]);
	if (sl_gnuplot_range(file, 'x', low[0], high[0]))
		fputs("set autoscale xfix\n", file); /* the axis is not extended to the next power of ten */
	sl_gnuplot_log_x(file, low[0], high[0]);
	fprintf(file, "set ylabel '%s accuracy (%%)'\n", part);
	fputs("set xlabel 'bytes sent / bytes as fp32'\n"
	      "set offsets graph 0.05, graph 0.15, graph 0.08, graph 0.08\n"
	      "plot $rows using 1:2 with points pt 7 ps 1.2 lt 1 notitle, \\\n"
	      "     $rows using 1:2:3 with labels left offset 0.8,0.4 font ',9' tc rgb '#808080' noenhanced notitle\n",
	      file);
	return points;
}

static bool named_before(const struct sl_conf_sweep_row *row, int i)
{
	for (int k = 0; k < i; k++)
		if (strcmp(row[k].name, row[i].name) == 0)
			return true;
	return false;
}

/* The row of that name with the fewest chunks above `chunks` whose value is known; -1: none. */
static int next_row(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n, const char *name,
		    int chunks, size_t offset)
{
	int next = -1;

	for (int i = 0; i < n; i++)
		if (strcmp(row[i].name, name) == 0 && result[i].chunks > chunks &&
		    isfinite(value_of(&result[i], offset)) && (next < 0 || result[i].chunks < result[next].chunks))
			next = i;
	return next;
}

/* The mean of a value over the rows with the name and the chunks of row `at`: the folds of one row of the list. */
static double mean_of(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n, int at,
		      size_t offset)
{
	double sum = 0;
	int known = 0;

	for (int i = 0; i < n; i++)
		if (result[i].chunks == result[at].chunks && strcmp(row[i].name, row[at].name) == 0 &&
		    isfinite(value_of(&result[i], offset))) {
			sum += value_of(&result[i], offset);
			known++;
		}
	return sum / known;
}

/* Writes the picture's script; returns how many lines it has. */
static int write_by_chunks(FILE *file, const struct by_chunks *what, const struct sl_conf_sweep_row *row,
			   const struct sl_sweep_result *result, int n)
{
	int lines = 0, least = INT_MAX, most = 0;

	begin(file, what->file, what->title);
	fputs("$rows << EOD\n", file);
	for (int i = 0; i < n; i++) {
		int at = named_before(row, i) ? -1 : next_row(row, result, n, row[i].name, 0, what->value);

		if (at < 0)
			continue;
		fprintf(file, "%s\"%s\"\n", lines++ ? "\n\n" : "", row[i].name);
		for (; at >= 0; at = next_row(row, result, n, row[i].name, result[at].chunks, what->value)) {
			fprintf(file, "%d %.6g\n", result[at].chunks, mean_of(row, result, n, at, what->value));
			least = result[at].chunks < least ? result[at].chunks : least;
			most = result[at].chunks > most ? result[at].chunks : most;
		}
	}
	fputs("EOD\n", file);
	if (least == most) /* gnuplot warns of a range that is a single value */
		fprintf(file, "set xrange [%d:%d]\n", least - 1, least + 1);
	fprintf(file,
		"set xlabel 'chunks of a batch'\n"
		"set ylabel '%s (%s)'\n"
		"set xtics 1\n"
		"set yrange [0:*]\n"
		"set key outside right noenhanced\n"
		"plot for [i=0:%d] $rows index i using 1:2 with linespoints pt 7 lw 2 title columnheader(1)\n",
		what->title, what->axis, lines - 1);
	return lines;
}

/* False: there is no gnuplot, which is no error. */
static bool draw(const char *out_dir, const char *script, const char *picture)
{
	struct sl_fail why;
	enum sl_err err = sl_gnuplot_run(out_dir, script, picture, &why);

	if (err == SL_ERR_UNAVAILABLE)
		sl_log(SL_LOG_INFO, "no-gnuplot", "%s; only its scripts are written", why.text);
	else if (err)
		sl_log(SL_LOG_WARN, "gnuplot-failed", "%s", why.text);
	return err != SL_ERR_UNAVAILABLE;
}

/* Writes and draws one picture; `by` NULL: accuracy by rate. */
static enum sl_err plot_one(const struct by_chunks *by, const struct sl_conf_sweep_row *row,
			    const struct sl_sweep_result *result, int n, const char *out_dir,
			    struct sl_sweep_made *made, struct sl_fail *fail)
{
	char path[PATH_MAX], script[64];
	enum sl_err err;
	int any;
	FILE *file;

	snprintf(script, sizeof script, "%s.gp", by ? by->file : "rate_accuracy");
	file = sl_sweep_create(out_dir, script, fail);
	if (!file)
		return fail->code;
	snprintf(path, sizeof path, "%s/%s.png", out_dir, by ? by->file : "rate_accuracy");
	remove(path); /* an earlier sweep's, which this one may not draw again */
	any = by ? write_by_chunks(file, by, row, result, n) : write_rate_accuracy(file, row, result, n);
	err = sl_sweep_close(file, out_dir, script, fail);
	if (err)
		return err;
	if (!any) {
		snprintf(path, sizeof path, "%s/%s", out_dir, script);
		remove(path);
		return SL_OK;
	}
	/* if there was no gnuplot for the first script, there is none for others */
	if (made->pictures == made->scripts++ && draw(out_dir, script, path))
		made->pictures++;
	return SL_OK;
}

enum sl_err sl_sweep_plot(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			  const char *out_dir, struct sl_sweep_made *made, struct sl_fail *fail)
{
	enum sl_err err;

	*made = (struct sl_sweep_made){0};
	err = plot_one(NULL, row, result, n, out_dir, made, fail);
	for (int i = 0; i < N_BY_CHUNKS && !err; i++)
		err = plot_one(&by_chunks[i], row, result, n, out_dir, made, fail);
	return err;
}
