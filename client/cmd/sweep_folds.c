/* Cross-validation: runs every row of a sweep once for each fold of data.split, and sums up the folds. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/sweep.h"
#include "common/base/real.h"
#include "common/base/wrap.h"

_Static_assert((int)SL_REAL_TEXT == (int)SL_FIGURE_TEXT, "texts of both go to the same place");

enum sl_err sl_sweep_add_folds(struct sl_conf_sweep_row *row, int *n, int folds, struct sl_fail *fail)
{
	const int all = *n * folds;

	if (all > SL_SWEEP_MAX_ROWS)
		return sl_fail_set(fail, SL_ERR_LIMIT, "sweep: %d rows of %d folds are more than %d runs", *n, folds,
				   SL_SWEEP_MAX_ROWS);
	for (int i = all - 1; i >= 0; i--) { /* backwards, so that a row is read before it is overwritten */
		struct sl_conf_list *set = &row[i].set;

		row[i] = row[i / folds];
		if (set->n == SL_CONF_LIST_MAX)
			return sl_fail_set(fail, SL_ERR_LIMIT, "sweep: row \"%s\" sets too many keys", row[i].name);
		snprintf(set->item[set->n++], SL_CONF_TEXT, "data.split.fold=%d", i % folds);
	}
	*n = all;
	return SL_OK;
}

struct figure {
	const char *name;
	double sum, squares; /* of the differences from the first value */
	double first;
	int n;
};

static void add(struct figure *f, double x)
{
	if (!isfinite(x))
		return;
	f->first = f->n++ ? f->first : x;
	f->sum += x - f->first;
	f->squares += (x - f->first) * (x - f->first);
}

static double mean_of(const struct figure *f)
{
	return f->first + f->sum / f->n;
}

/* The deviation of a sample, divided by n − 1. */
static double deviation_of(const struct figure *f)
{
	return f->n < 2 ? (double)NAN : sqrt(fmax(0, f->squares - f->sum * f->sum / f->n) / (f->n - 1));
}

/* Gathers the figures of all folds of a row: out [2 + SL_SCORES_MOST]. Returns how many there are. */
static int gather(struct figure *out, const struct sl_sweep_result *result, int folds)
{
	int n = 2;

	out[0] = (struct figure){.name = "accuracy"};
	out[1] = (struct figure){.name = "loss"};
	for (int k = 0; k < folds; k++) {
		if (!result[k].done) /* an interrupted run has figures, too */
			continue;
		add(&out[0], result[k].test_acc);
		add(&out[1], result[k].test_loss);
		for (int i = 0; i < SL_SCORES_MOST && result[k].score[i].name[0]; i++) {
			int at = 2;

			while (at < n && strcmp(out[at].name, result[k].score[i].name) != 0)
				at++;
			if (at == n && n == 2 + SL_SCORES_MOST)
				continue;
			if (at == n)
				out[n++] = (struct figure){.name = result[k].score[i].name};
			add(&out[at], result[k].score[i].value);
		}
	}
	return n;
}

static void report(FILE *csv, const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int folds)
{
	struct figure figure[2 + SL_SCORES_MOST];
	const int n = gather(figure, result, folds);
	char text[2][SL_REAL_TEXT];
	int done = 0;

	for (int k = 0; k < folds; k++)
		done += result[k].done;
	printf("%s", row->name);
	if (row->chunks) /* rows of one name differ in it */
		printf(", chunks %d", row->chunks);
	printf(": mean and deviation of %d of %d folds\n", done, folds);
	for (int i = 0; i < n; i++) {
		const struct figure *f = &figure[i];

		if (!f->n && i < 2) /* numbers have no accuracy */
			continue;
		printf("    %-18s %8s", f->name, sl_figure_text(f->n ? mean_of(f) : (double)NAN, text[0]));
		fprintf(csv, "%s,%s,%d,%s,%s", row->name, f->name, f->n,
			f->n ? sl_double_text(mean_of(f), text[0]) : "",
			f->n > 1 ? sl_double_text(deviation_of(f), text[1]) : "");
		if (f->n > 1)
			printf(" ± %s", sl_figure_text(deviation_of(f), text[0]));
		if (f->n < done) /* the others have no finite value */
			printf(" (%d of %d folds)", f->n, done);
		putchar('\n');
		fprintf(csv, ",%d\n", result->chunks);
	}
}

enum sl_err sl_sweep_folds(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n, int folds,
			   const char *out_dir, struct sl_fail *fail)
{
	FILE *csv = sl_sweep_create(out_dir, "folds.csv", fail);

	if (!csv)
		return fail->code;
	fputs("name,metric,folds,mean,deviation,chunks\n", csv);
	for (int i = 0; i + folds <= n; i += folds)
		report(csv, &row[i], &result[i], folds);
	return sl_sweep_close(csv, out_dir, "folds.csv", fail);
}
