/* A column of a table: what training's rows say of it, and the features that its cells become. */
#ifndef SL_CLIENT_DATA_CSV_COLUMN_H
#define SL_CLIENT_DATA_CSV_COLUMN_H

#include "client/data/csv_file.h"

enum { SL_CSV_MOST_TEXTS = 1000 }; /* different ones, in a column */

/* A number less its mean and by its deviation, or a feature of 0 or 1 for each text. Begins zeroed.
 * With `fill` (data.missing: mean) a cell may be missing: it is empty, or says so as pandas and R write it. A number is
 * its column's mean then, which is the feature 0; a text is none of its column's, and all their features are 0. */
struct sl_csv_column {
	char *name;
	int at; /* its cell in a row of the file that is encoded */
	bool left_out, number;
	double mean, deviation;
	struct sl_names text; /* sorted */
	int first, n;         /* its features in a row */
};

bool sl_csv_is_missing(const char *cell);
/* The same of a label; "None" may be a class. */
bool sl_csv_lacks_label(const char *cell);
/* DATA: two labels are one, written in two ways: with blanks around it, or as 1.0 beside 1. Of more than
 * SL_CSV_MOST_TEXTS only neighbours are compared. */
enum sl_err sl_csv_check_labels(const char *path, const struct sl_names *labels, struct sl_fail *fail) SL_MUST_CHECK;

struct sl_csv_tally {
	int64_t rows, numbers, words, missing; /* they add up; without `fill` none is missing */
	int64_t empty, word;                   /* word: the row of the last one */
	bool several;                          /* the words are not all the same */
};
struct sl_csv_tally sl_csv_count(const struct sl_csv *s, int column, bool fill);

/* Column number `at` of training's file. Mean and deviation are those of the rows that `own` says are training's part;
 * NULL: all. DATA: no cell says anything, or there are too many texts; NOMEM. */
enum sl_err sl_csv_column_learn(struct sl_csv_column *c, const struct sl_csv *s, int at, const bool *own, bool fill,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Warns where a few cells make words of a column of numbers, or one word beside many numbers does. Returns how many
 * cells are missing. */
int64_t sl_csv_column_warn(const struct sl_csv_column *c, const struct sl_csv *s, bool fill);

/* Texts that training lacks, which count as missing cells. Begins zeroed. */
struct sl_csv_unknown {
	int64_t cells;
	struct sl_fail first; /* says which one came first */
};

/* The row's features, x[c->n], which are 0 before. `unknown` NULL: nothing may be missing. DATA: a text that training
 * lacks, where `unknown` is NULL; a cell that is no number, where training's are. */
enum sl_err sl_csv_column_encode(const struct sl_csv_column *c, const struct sl_csv *s, int64_t row, float *x,
				 struct sl_csv_unknown *unknown, struct sl_fail *fail) SL_MUST_CHECK;
void sl_csv_column_close(struct sl_csv_column *c);

/* All but its places, for the model's file and back. DATA: the object describes no column; NOMEM. */
struct json_t *sl_csv_column_describe(const struct sl_csv_column *c);
enum sl_err sl_csv_column_recall(struct sl_csv_column *c, const struct json_t *from,
				 struct sl_fail *fail) SL_MUST_CHECK;

/* The different texts of a column, sorted: by their numbers where all are some, else by bytes. */
enum sl_err sl_csv_different(struct sl_names *out, const struct sl_csv *s, int column, bool fill,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* DATA: *fail says that training lacks this cell's text, and `more`. */
enum sl_err sl_csv_lacks_text(const struct sl_csv *s, int64_t row, int column, const char *more, struct sl_fail *fail);
int sl_csv_place(const struct sl_names *list, const char *text); /* −1: it is not there */

#endif
