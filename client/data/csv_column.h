/* A column of a table: its statistics from the training rows, and the features that its cells become. */
#ifndef SL_CLIENT_DATA_CSV_COLUMN_H
#define SL_CLIENT_DATA_CSV_COLUMN_H

#include "client/data/csv_date.h"
#include "client/data/csv_file.h"

enum {
	SL_CSV_MOST_TEXTS = 1000,         /* distinct texts in a column */
	SL_CSV_DATE_FEATURES = 1 + 12 + 7 /* of a date */
};

/* How a column of ids is numbered. NUMBERS: its cells are the ids, whole numbers from 0 on. TEXTS: from 1 on in byte
 * order; 0 is for what training lacks, and missing cells. BUCKETS: by a hash, from 1 to rows − 1; 0 is for missing
 * cells. */
enum sl_csv_ids { SL_CSV_IDS_NONE, SL_CSV_IDS_NUMBERS, SL_CSV_IDS_TEXTS, SL_CSV_IDS_BUCKETS };

/* How a column becomes features. A column of numbers is one feature: (number − mean) / deviation. So is one of more
 * than ten texts that are numbers with one unit, such as "5 mg". A column of dates (spec->date) has twenty: days since
 * training's first one, as a number, then 0 or 1 for each month from January and each weekday from Sunday. Any other
 * column has a feature of 0 or 1 for each of its texts. A column of ids (csv_ids.h) is one feature, the id. Begins
 * zeroed. With `fill` (data.missing: mean) a cell may be missing: empty, or marked as pandas and R do (NA, NaN, null
 * …). A missing number counts as its column's mean, so its feature is 0. A missing text sets none of its column's
 * features. */
struct sl_csv_column {
	char *name;
	int at;                       /* index of its cell in a row of the file that is encoded */
	bool left_out, number, dated; /* dated: its numbers are dates */
	enum sl_date_form form;       /* of its dates */
	int64_t first_day;            /* of training's dates, since 1970-01-01; mean and deviation count from it */
	enum sl_csv_ids ids;
	int64_t rows; /* of ids: they are below it; of NUMBERS, in training */
	int room;     /* of ids: the rows that the network has; 0: unknown */
	char *unit;   /* what follows each number; NULL: nothing */
	double mean, deviation;
	struct sl_names text; /* the distinct texts, sorted */
	int first, n;         /* its features in a row: [first, first + n) */
};

bool sl_csv_is_missing(const char *cell);
/* Whether a label is missing. As above, but "None" may be a class. */
bool sl_csv_lacks_label(const char *cell);
/* Warns of texts that differ in case, blanks or characters that look the same, so that each is a class or feature of
 * its own. `what` is a column or "labels". */
void sl_csv_warn_alike(const char *path, const char *what, const struct sl_names *texts);
/* DATA: two of the sorted texts, which *fail calls `what`, are the same, written in two ways: with blanks around it, or
 * as 1.0 and 1. Others that look the same are warned of. In a list of more than SL_CSV_MOST_TEXTS only neighbours are
 * compared. */
enum sl_err sl_csv_check_alike(const char *path, const char *what, const struct sl_names *texts,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* DATA: two cells of the column data.split.by are the same, written in two ways, so that samples of one patient could
 * train and test. `keys`: the cells of all rows. */
enum sl_err sl_csv_check_keys(const char *path, const struct sl_names *keys, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_csv_check_key_column(const struct sl_csv *s, int column, struct sl_fail *fail) SL_MUST_CHECK;

struct sl_csv_tally {
	int64_t rows, numbers, words, missing; /* rows = numbers + words + missing; without `fill` none is missing */
	int64_t empty, word;                   /* empty: empty cells; word: the row of the last word */
	int64_t foreign, measure; /* foreign: words that sl_csv_advice turns into numbers; measure: one's row */
	bool several;             /* the words are not all the same */
};
/* `unit`: that of the column's numbers; NULL: none. */
struct sl_csv_tally sl_csv_count(const struct sl_csv *s, int column, const char *unit, bool fill);

/* How all dates of a column are written. NONE: a cell is no date, they are written in several ways, or any of them may
 * have the day or the month first; *fail says which. */
enum sl_date_form sl_csv_date_form(const struct sl_csv *s, int column, struct sl_fail *fail);

/* Learns column `at` of the training file. Mean and deviation are those of the rows r with own[r], training's part
 * of data.split; NULL: of all rows. DATA: no row has a number, numbers are too large, or there are too many distinct
 * texts; NOMEM. */
enum sl_err sl_csv_column_learn(struct sl_csv_column *c, const struct sl_csv *s, int at, const bool *own, bool fill,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Warns if a few words, one word beside many numbers, or a notation of numbers turns a column of numbers into texts, or
 * if many texts occur in few rows each, or look the same. Returns how many cells are missing. */
int64_t sl_csv_column_warn(const struct sl_csv_column *c, const struct sl_csv *s, bool fill);

/* Cells whose text does not occur in training, and which therefore count as missing. Begins zeroed. */
struct sl_csv_unknown {
	int64_t cells;
	struct sl_fail first; /* names the first such cell */
};

/* Encodes the row's cell as x[c->n], which the caller has zeroed. `unknown` NULL: no cell may be missing. DATA: a
 * text that does not occur in training, if `unknown` is NULL; a cell that is not a number, in a column of numbers. */
enum sl_err sl_csv_column_encode(const struct sl_csv_column *c, const struct sl_csv *s, int64_t row, float *x,
				 struct sl_csv_unknown *unknown, struct sl_fail *fail) SL_MUST_CHECK;
void sl_csv_column_close(struct sl_csv_column *c);

/* The column as JSON for the model's file, without `at` and `first`; and back. DATA: the object does not describe a
 * column, or there is no memory. */
struct json_t *sl_csv_column_describe(const struct sl_csv_column *c);
enum sl_err sl_csv_column_recall(struct sl_csv_column *c, const struct json_t *from,
				 struct sl_fail *fail) SL_MUST_CHECK;

/* The distinct texts of a column, sorted: by value if all are numbers, else by bytes. `fill` leaves out missing
 * cells. NOMEM. */
enum sl_err sl_csv_different(struct sl_names *out, const struct sl_csv *s, int column, bool fill,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* Returns DATA. *fail says that this cell's text does not occur in training, followed by `more`. */
enum sl_err sl_csv_fail_unknown_text(const struct sl_csv *s, int64_t row, int column, const char *more,
				     struct sl_fail *fail);
int sl_csv_place(const struct sl_names *list, const char *text); /* index in the list; −1: it is not there */
/* Warns if data.split divides the rows of the training file one by one, though a column looks like a name of whom
 * several rows are of. Looks at ignored columns, too. */
void sl_csv_warn_repeats(const struct sl_csv *s, const struct sl_set_spec *spec);
/* Hashes the key of each row into *key, [rows], which the caller frees: its cell in the column spec->parts->by, *by, or
 * else (*by: -1), with the warning above, all its cells; or its place. */
enum sl_err sl_csv_keys(const struct sl_csv *s, const struct sl_set_spec *spec, uint64_t **key, int *by,
			struct sl_fail *fail) SL_MUST_CHECK;

#endif
