#include "client/cmd/plot_eval.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/wrap.h"

enum { MOST_BYTES = 64 << 20, MOST_NUMBERED = 24, MOST_NAMED = 34, NAME = 18 };

/* ---- what is read ---- */

static int64_t whole(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

static double real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* Whether there is a square matrix of counts, with a name for each row. */
static bool has_confusion(const json_t *eval)
{
	const json_t *rows = json_object_get(eval, "confusion"), *names = json_object_get(eval, "classes");
	const size_t n = json_array_size(names);

	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(rows, i);

		if (!json_is_string(json_array_get(names, i)) || json_array_size(row) != n)
			return false;
		for (size_t j = 0; j < n; j++)
			if (whole(json_array_get(row, j)) < 0)
				return false;
	}
	return n > 0 && json_array_size(rows) == n;
}

static bool has_points(const json_t *curve)
{
	const json_t *points = json_object_get(curve, "points");
	size_t i = 0;

	while (i < json_array_size(points) && json_is_number(json_array_get(json_array_get(points, i), 0)) &&
	       json_is_number(json_array_get(json_array_get(points, i), 1)))
		i++;
	return i == json_array_size(points);
}

static bool has_roc(const json_t *eval)
{
	const json_t *roc = json_object_get(eval, "roc");
	const int64_t classes = (int64_t)json_array_size(json_object_get(eval, "classes"));
	size_t i = 0;

	while (i < json_array_size(roc)) {
		const int64_t class = whole(json_object_get(json_array_get(roc, i), "class"));

		if (class < 0 || class >= classes || !has_points(json_array_get(roc, i)))
			return false;
		i++;
	}
	return i > 0;
}

static bool has_calibration(const json_t *eval)
{
	const json_t *bins = json_object_get(eval, "calibration");
	size_t i = 0;

	while (i < json_array_size(bins) && whole(json_object_get(json_array_get(bins, i), "samples")) >= 0)
		i++;
	return i > 0 && i == json_array_size(bins);
}

/* ---- what is written ---- */

/* Writes the name of class k within single quotes. One that is cut to NAME characters begins with k, since others may
 * begin like it. */
static void put_name(FILE *script, const json_t *eval, size_t k)
{
	const char *name = json_string_value(json_array_get(json_object_get(eval, "classes"), k));
	int n = 0;

	if (sl_text_columns(name, strlen(name)) > NAME)
		fprintf(script, "%zu ", k);
	for (; *name && n < NAME; name++) {
		n += ((uint8_t)*name & 0xc0) != 0x80;
		putc(strchr("'\"\\\n\t", *name) ? ' ' : *name, script);
	}
	while (((uint8_t)*name & 0xc0) == 0x80)
		putc(*name++, script);
	fputs(*name ? "…" : "", script);
}

/* More than MOST_NAMED names have no room: each second or third class is named, and so on. */
static void put_tics(FILE *script, char axis, const json_t *eval, size_t n)
{
	fprintf(script, "set %ctics %s scale 0 font '%s' (", axis, axis == 'x' && n > 4 ? "rotate by -45" : "norotate",
		n > MOST_NUMBERED ? ",8" : "");
	for (size_t k = 0; k < n; k += 1 + (n - 1) / MOST_NAMED) {
		fputs(k ? ", '" : "'", script);
		put_name(script, eval, k);
		fprintf(script, "' %zu", k);
	}
	fputs(")\n", script);
}

static int64_t sum_of(const json_t *row)
{
	int64_t sum = 0;

	for (size_t j = 0; j < json_array_size(row); j++)
		sum += whole(json_array_get(row, j));
	return sum;
}

/* A cell's colour is its share of its row's class. */
static void write_confusion(FILE *script, const json_t *eval)
{
	const json_t *rows = json_object_get(eval, "confusion");
	const size_t n = json_array_size(rows);
	int64_t all = 0, right = 0;

	fputs("$confusion << EOD\n", script);
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(rows, i);
		const int64_t sum = sum_of(row);

		all += sum;
		right += whole(json_array_get(row, i));
		for (size_t j = 0; j < n; j++) {
			const int64_t count = whole(json_array_get(row, j));

			fprintf(script, "%zu %zu %.6g %lld\n", j, i, sum ? 100 * (double)count / (double)sum : 0,
				(long long)count);
		}
	}
	fprintf(script, "EOD\nset title 'Confusion matrix of %lld sample%s, %.2f %% right'\n", (long long)all,
		sl_plural(all), all ? 100 * (double)right / (double)all : 0);
	fputs("set xlabel 'predicted class'\nset ylabel 'true class'\nset cblabel 'share of the class (%)'\n"
	      "set cbrange [0:100]\nset palette defined (0 '#f4f7fb', 1 '#4c78a8')\n"
	      "unset key\nunset grid\n",
	      script);
	put_tics(script, 'x', eval, n);
	put_tics(script, 'y', eval, n);
	fprintf(script, "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\nplot $confusion using 1:2:3 with image",
		n - 1, n - 1);
	if (n <= MOST_NUMBERED)
		fprintf(script,
			", \\\n     $confusion using 1:2:(sprintf('%%d', $4)):($3 > 50 ? 0xffffff : 0) with labels "
			"textcolor rgb variable font ',%d'",
			n <= 12 ? 11 : 8);
	fputs("\nset autoscale\nset xtics auto norotate scale 1 font ''\nset ytics auto scale 1 font ''\nunset "
	      "colorbox\nset grid\n",
	      script);
}

static void begin_square(FILE *script, const char *title, const char *x, const char *y)
{
	fprintf(script,
		"set title '%s'\nset xlabel '%s'\nset ylabel '%s'\nset key outside right center reverse Left "
		"noenhanced\nset size ratio 1\n"
		"set xrange [0:1]\nset yrange [0:1]\nset xtics 0.2\nset ytics 0.2\n",
		title, x, y);
}

static void write_roc(FILE *script, const json_t *eval)
{
	const json_t *roc = json_object_get(eval, "roc");
	const size_t n = json_array_size(roc);

	fputs("$roc << EOD\n", script);
	for (size_t i = 0; i < n; i++) {
		const json_t *points = json_object_get(json_array_get(roc, i), "points");

		for (size_t k = 0; k < json_array_size(points); k++)
			fprintf(script, "%.6g %.6g\n", json_number_value(json_array_get(json_array_get(points, k), 0)),
				json_number_value(json_array_get(json_array_get(points, k), 1)));
		fputs(json_array_size(points) ? "\n\n" : "NaN NaN\n\n\n", script);
	}
	fputs("EOD\n", script);
	begin_square(script, n > 1 ? "ROC curves, each class against the rest" : "ROC curve",
		     "false positive rate (1 - specificity)", "true positive rate (sensitivity)");
	fputs("plot x with lines dt 2 lc rgb '#808080' notitle", script);
	for (size_t i = 0; i < n; i++) {
		const json_t *curve = json_array_get(roc, i);

		fprintf(script, ", \\\n     $roc index %zu using 1:2 with lines lt %zu title '", i, i + 1);
		put_name(script, eval, (size_t)whole(json_object_get(curve, "class")));
		if (json_array_size(json_object_get(curve, "points")))
			fprintf(script, " (AUC %.3f)'", real(curve, "auc"));
		else
			fputs(" (no samples, or no others)'", script);
	}
	fputc('\n', script);
}

/* Draws the share of right answers by the mean probability in each bin, over the bin's share of all samples. */
static void write_calibration(FILE *script, const json_t *eval)
{
	const json_t *bins = json_object_get(eval, "calibration");
	const size_t n = json_array_size(bins);
	double all = 0, apart = 0;

	for (size_t i = 0; i < n; i++) {
		all += real(json_array_get(bins, i), "samples");
		apart += fabs(real(json_array_get(bins, i), "right") - real(json_array_get(bins, i), "probability"));
	}
	fputs("$bins << EOD\n", script);
	for (size_t i = 0; i < n; i++) {
		const json_t *bin = json_array_get(bins, i);
		const double samples = real(bin, "samples");

		fprintf(script, "%.6g %.6g ", ((double)i + 0.5) / (double)n, all > 0 ? samples / all : 0);
		if (samples > 0)
			fprintf(script, "%.6g %.6g\n", real(bin, "probability") / samples,
				real(bin, "right") / samples);
		else
			fputs("NaN NaN\n", script);
	}
	fputs("EOD\n", script);
	begin_square(script, "Calibration", "probability of the predicted class", "share of samples");
	fprintf(script, "set title 'Calibration of %.0f samples, calibration error %.4f'\n", all,
		all > 0 ? apart / all : 0);
	fprintf(script,
		"set style fill solid 0.4 noborder\n"
		"plot $bins using 1:2:(%.6g) with boxes lc rgb '#bbbbbb' title 'share of all samples', \\\n"
		"     x with lines dt 2 lc rgb '#808080' title 'perfectly calibrated', \\\n"
		"     $bins using 3:4 with linespoints pt 7 lt 1 title 'share that is right'\n",
		0.9 / (double)n);
}

static const struct {
	const char *name;
	bool (*has)(const json_t *eval);
	void (*write)(FILE *script, const json_t *eval);
	const char *lacks;
} figures[SL_EVAL_FIGURE_COUNT] = {
	{"confusion", has_confusion, write_confusion, "it has no confusion matrix: it must be of at most 200 classes"},
	{"roc", has_roc, write_roc,
	 "it has no ROC curves: it must be of at most 20 classes; --figure confusion and --figure calibration are of "
	 "more"},
	{"calibration", has_calibration, write_calibration, "it has no calibration"},
};

int sl_eval_figure(const char *name)
{
	int i = 0;

	while (i < SL_EVAL_FIGURE_COUNT && strcmp(figures[i].name, name) != 0)
		i++;
	return i < SL_EVAL_FIGURE_COUNT ? i : -1;
}

enum sl_err sl_eval_read(json_t **out, const char *path, const bool wanted[SL_EVAL_FIGURE_COUNT], struct sl_fail *fail)
{
	uint8_t *text;
	size_t len;
	enum sl_err err = sl_file_read(path, MOST_BYTES, &text, &len, fail);
	json_t *eval = err ? NULL : json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, NULL);

	if (err)
		return err;
	free(text);
	if (!has_confusion(eval))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: %s", path,
				  json_is_number(json_object_get(eval, "test_acc")) &&
						  !json_object_get(eval, "confusion")
					  ? figures[0].lacks
					  : "this is no evaluation of classes; `splitc eval CONFIG --json` writes one");
	for (int i = 0; i < SL_EVAL_FIGURE_COUNT && !err; i++)
		if (wanted[i] && !figures[i].has(eval))
			err = sl_fail_set(fail, SL_ERR_DATA, "%s: %s", path, figures[i].lacks);
	if (err)
		json_decref(eval);
	else
		*out = eval;
	return err;
}

void sl_eval_write_figure(FILE *script, int figure, const json_t *eval)
{
	figures[figure].write(script, eval);
}
