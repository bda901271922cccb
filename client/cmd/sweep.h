/* A sweep: the same short run for every row of a list, with the results as a CSV file and as pictures. */
#ifndef SL_CLIENT_CMD_SWEEP_H
#define SL_CLIENT_CMD_SWEEP_H

#include <stdio.h>

#include "client/cmd/command.h"
#include "client/figures/metric.h"

enum { SL_SWEEP_MAX_ROWS = 256 };

/* Columns of sweep.csv, in its order; those of train.metrics stand at the end. A run's summary has them by the same
 * names, except the rates. */
/* clang-format off */
#define SL_SWEEP_FIGURES(X) \
	X(rate_nominal) X(rate_real) X(test_acc) X(best_test_acc) X(test_loss) X(steps) \
	X(t_per_batch_s) X(t_compute_per_batch_s) X(avg_mb_s) X(peak_client_mb_s) X(peak_server_mb_s)
/* clang-format on */
#define SL_SWEEP_FIELD(name) double name;

/* The result of one row. NAN: unknown (a local run has no link). A rate is the bytes of all four tensors, divided by
 * their bytes as fp32 and without inserts: nominal as the methods' authors count, real with indices, headers and
 * padding. */
struct sl_sweep_result {
	bool done;
	char error[300]; /* why it is not done */
	int chunks;
	bool keeps; /* checkpoints: link.on_server_lost is wait, or there are train.phases */
	char codec[4][SL_CONF_CODEC_TEXT];
	SL_SWEEP_FIGURES(SL_SWEEP_FIELD)
	double wire_tx_bytes, wire_rx_bytes;
	char part[16]; /* that is evaluated, "validation" or "test" */
	/* columns test_NAME behind the others */
	struct {
		char name[24]; /* "": there is none */
		double value;
	} score[SL_SCORES_MOST]; /* of the last evaluation */
};

/* Fills what is known of a row before it runs: the config, changed by --set and by the row's own `set`. CONFIG: that
 * is no valid config, or `set` has a key that the sweep or the row's other keys would overwrite. */
enum sl_err sl_sweep_begin(struct sl_sweep_result *result, const struct sl_options *o,
			   const struct sl_conf_sweep_row *row, struct sl_fail *fail) SL_MUST_CHECK;
/* For --check-config: checks that the config, with all that the row changes, is valid, and that the codecs fit its
 * cut. CONFIG, DATA … */
enum sl_err sl_sweep_check(const struct sl_options *o, const struct sl_conf_sweep_row *row,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Runs a row in its own process; its log goes to out_dir/row-NN/. Fills the rest of *result in any case. */
void sl_sweep_run(struct sl_sweep_result *result, const struct sl_options *o, const struct sl_conf_sweep_row *row,
		  int number, const char *out_dir);

/* Creates a file of the sweep in the folder `dir`, in place of an earlier one. NULL: CANTCREATE is in *fail. */
FILE *sl_sweep_create(const char *dir, const char *name, struct sl_fail *fail);
/* Closes it. IO: not all of it could be written. */
enum sl_err sl_sweep_close(FILE *file, const char *dir, const char *name, struct sl_fail *fail) SL_MUST_CHECK;

/* Replaces each of the *n rows by `folds` consecutive rows that differ in data.split.fold. LIMIT: too many rows, or
 * a row sets too many keys. */
enum sl_err sl_sweep_add_folds(struct sl_conf_sweep_row *row, int *n, int folds, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes mean and deviation over the folds of each such row to stdout and to out_dir/folds.csv. */
enum sl_err sl_sweep_folds(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n, int folds,
			   const char *out_dir, struct sl_fail *fail) SL_MUST_CHECK;
/* --lr-range, in place of rows: one run of train.max_steps or 100 steps, whose learning rate grows. Writes lr.json,
 * lr.gp and, if gnuplot is installed, lr.png. Prints a suggestion: a tenth of the learning rate at which the
 * smoothed loss is lowest. --check-config: only checks the range. */
enum sl_err sl_sweep_lr(const struct sl_options *o, const struct sl_conf_client *conf,
			struct sl_fail *fail) SL_MUST_CHECK;

/* Writes out_dir/sweep.csv: a header, and a line for each of the n rows that have been run. */
enum sl_err sl_sweep_write_csv(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			       const char *out_dir, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes gnuplot scripts that contain their data, and PNG pictures if gnuplot is installed: accuracy by rate; and
 * time, computation, average and peak bandwidth by number of chunks, with a line for each name. */
struct sl_sweep_made {
	int scripts, pictures;
};
enum sl_err sl_sweep_plot(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			  const char *out_dir, struct sl_sweep_made *made, struct sl_fail *fail) SL_MUST_CHECK;

#endif
