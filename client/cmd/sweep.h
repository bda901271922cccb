/* A sweep: the same short run for every row of a list, and what each gave as a CSV and as pictures. */
#ifndef SL_CLIENT_CMD_SWEEP_H
#define SL_CLIENT_CMD_SWEEP_H

#include <stdio.h>

#include "client/cmd/command.h"
#include "client/run/metric.h"

enum { SL_SWEEP_MAX_ROWS = 256 };

/* Columns of sweep.csv, in its order. A run's summary has them by the same names, but for the rates. */
/* clang-format off */
#define SL_SWEEP_FIGURES(X) \
	X(rate_nominal) X(rate_real) X(test_acc) X(best_test_acc) X(test_loss) X(steps) \
	X(t_per_batch_s) X(t_compute_per_batch_s) X(avg_mb_s) X(peak_client_mb_s) X(peak_server_mb_s)
/* clang-format on */
#define SL_SWEEP_FIELD(name) double name;

/* Of one row; NAN: not known (a local run has no link). Rates are bytes over those of the tensors as fp32 and without
 * inserts, all four of them: nominal as the methods' authors count, real with indices, headers and padding. */
struct sl_sweep_result {
	bool done;
	char error[300]; /* where it is not */
	int chunks;
	bool waits; /* for a server that is lost */
	char codec[4][SL_CONF_CODEC_TEXT];
	SL_SWEEP_FIGURES(SL_SWEEP_FIELD)
	double wire_tx_bytes, wire_rx_bytes;
	struct {
		char name[24]; /* "": there is none */
		double value;
	} score[SL_SCORES_MOST]; /* of the last evaluation */
};

/* What is known of a row beforehand: the config with what --set and the row's own `set` change. CONFIG: there is no
 * such run. */
enum sl_err sl_sweep_begin(struct sl_sweep_result *result, const struct sl_options *o,
			   const struct sl_conf_sweep_row *row, struct sl_fail *fail) SL_MUST_CHECK;
/* For --check-config: the config with all that the row changes is one, with codecs that fit its cut. CONFIG, DATA … */
enum sl_err sl_sweep_check(const struct sl_options *o, const struct sl_conf_sweep_row *row,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Runs it in a process of its own; its log goes to out_dir/row-NN/. Fills what remains in any case. */
void sl_sweep_run(struct sl_sweep_result *result, const struct sl_options *o, const struct sl_conf_sweep_row *row,
		  int number, const char *out_dir);

/* A file of the sweep in the folder `dir`, in place of an earlier one. NULL: CANTCREATE is in *fail. */
FILE *sl_sweep_create(const char *dir, const char *name, struct sl_fail *fail);
/* IO: not all of it could be written. */
enum sl_err sl_sweep_close(FILE *file, const char *dir, const char *name, struct sl_fail *fail) SL_MUST_CHECK;

/* Each of the *n rows becomes `folds` of them, one behind the other, that differ in data.split.fold. LIMIT. */
enum sl_err sl_sweep_add_folds(struct sl_conf_sweep_row *row, int *n, int folds, struct sl_fail *fail) SL_MUST_CHECK;
/* Mean and deviation of the folds of each such row, to stdout and to out_dir/folds.csv. */
enum sl_err sl_sweep_folds(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n, int folds,
			   const char *out_dir, struct sl_fail *fail) SL_MUST_CHECK;
/* --lr-range, in place of rows: one run whose learning rate grows, of train.max_steps or 100 steps. Writes lr.json,
 * lr.gp and where gnuplot is installed lr.png, and prints a suggestion: a tenth of the learning rate at which the
 * smoothed loss is lowest. */
enum sl_err sl_sweep_lr(const struct sl_options *o, const struct sl_conf_client *conf,
			struct sl_fail *fail) SL_MUST_CHECK;

/* out_dir/sweep.csv, a line per row that has been run, with a header. */
enum sl_err sl_sweep_write_csv(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			       const char *out_dir, struct sl_fail *fail) SL_MUST_CHECK;
/* Gnuplot scripts that hold their data, and the PNG pictures where gnuplot is installed: rate against accuracy; time,
 * computation, average and peak bandwidth by number of chunks, a line per name. */
struct sl_sweep_made {
	int scripts, pictures;
};
enum sl_err sl_sweep_plot(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			  const char *out_dir, struct sl_sweep_made *made, struct sl_fail *fail) SL_MUST_CHECK;

#endif
