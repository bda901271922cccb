/* A CSV file as it is: a header, and cells as texts. */
#ifndef SL_CLIENT_DATA_CSV_FILE_H
#define SL_CLIENT_DATA_CSV_FILE_H

#include <limits.h>

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/text/label.h"

struct sl_csv {
	char path[PATH_MAX];
	struct sl_csv_form form;
	struct sl_names header, cell; /* cell: [rows · columns]; a number with a comma is spelled with a point */
	int64_t *pointed; /* [columns] with form.comma: the row of a number with a point alone, which may be a thousand;
			     else -1 */
	size_t *line;     /* [rows], where each row begins in the file */
	int32_t *order;   /* [rows] of cell, line and pointed that are read, in this order; NULL: all */
	int64_t rows;
	size_t cap;
	int columns;
	const struct sl_set_rows *given; /* what `path` has; NULL: the file is read. JSON has decimal points */
};

/* Sets s->path to the split's usual file in `dir`; train.csv if there is no training file. If `dir` is a file, it is
 * the training file, and there is no other split. NOINPUT: there is no file of the other split, or the path is too
 * long. */
enum sl_err sl_csv_name(struct sl_csv *s, const char *dir, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* Reads s->path as s->form says. The caller has zeroed all other fields, and closes *s in any case. DATA: the file is
 * malformed or has no rows; NOINPUT, IO, NOMEM. */
enum sl_err sl_csv_read(struct sl_csv *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Does so for a split's file. With spec->aligned it has the rows that this names, as if there were no others. */
enum sl_err sl_csv_read_split(struct sl_csv *s, const struct sl_set_spec *spec, enum sl_split split,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_csv_close(struct sl_csv *s);

/* DATA: the column has numbers with a decimal point, though data.decimal is comma. */
enum sl_err sl_csv_check_marks(const struct sl_csv *s, int column, struct sl_fail *fail) SL_MUST_CHECK;

/* DATA: `cell`, in that line, has a NUL character or is not UTF-8. */
enum sl_err sl_csv_check(const char *path, size_t line, struct sl_bytes cell, struct sl_fail *fail) SL_MUST_CHECK;

static inline const char *sl_csv_cell(const struct sl_csv *s, int64_t row, int column)
{
	return sl_name(&s->cell, (s->order ? s->order[row] : row) * s->columns + column);
}

static inline size_t sl_csv_line(const struct sl_csv *s, int64_t row)
{
	return s->line[s->order ? s->order[row] : row];
}

/* DATA: b's columns, or their order, are not those of the training file a. */
enum sl_err sl_csv_same_header(const struct sl_csv *a, const struct sl_csv *b, struct sl_fail *fail) SL_MUST_CHECK;
int sl_csv_find(const struct sl_csv *s, const char *name); /* the column's number; -1: there is none */
/* Returns DATA. *fail says that the header lacks the column `name`, for which `key` asks. */
enum sl_err sl_csv_lacks(const struct sl_csv *s, const char *key, const char *name, struct sl_fail *fail);

/* Returns DATA. *fail says that the cell is empty or missing, how many below it are, and `advice`. */
enum sl_err sl_csv_fail_empty(const struct sl_csv *s, int64_t row, int column, const char *advice,
			      struct sl_fail *fail);
/* The first column from number `from` on that `item` names; -1: none. An item with * that is no column's name is a
 * pattern. */
int sl_csv_next(const struct sl_csv *s, const char *item, int from);
/* Replaces patterns in spec->label, of numbers and several labels, by names of columns, in the file's order; with
 * spec->about by those that the model has learned. *list, malloc'ed, points to them while `s` is open and spec->about
 * is there; the caller has set it to NULL. DATA: no column matches, or more than SL_CONF_LABELS_MAX do; NOMEM. */
enum sl_err sl_csv_labels(struct sl_set_spec *spec, const char ***list, const struct sl_csv *s,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Finds the columns that spec->label names: *out [spec->nlabels] has their indices, malloc'ed. Sets spec->chosen. DATA:
 * the header lacks one; NOMEM. */
enum sl_err sl_csv_targets(const struct sl_csv *s, const struct sl_set_spec *spec, int **out,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Reads a row's numbers, without their centre, or labels 0 and 1, from these columns. DATA: a cell is not one. */
enum sl_err sl_csv_target(const struct sl_csv *s, const struct sl_set_spec *spec, int64_t row, const int *column,
			  union sl_label *out, struct sl_fail *fail) SL_MUST_CHECK;

/* The type of the target of a set with several numbers or labels. */
static inline struct sl_field_type sl_csv_target_type(const struct sl_set_spec *spec)
{
	return (struct sl_field_type){spec->task->target, spec->task->dtype, 1, {spec->nlabels}};
}

#endif
