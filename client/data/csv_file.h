/* A CSV file as it is: a header, and cells as texts. */
#ifndef SL_CLIENT_DATA_CSV_FILE_H
#define SL_CLIENT_DATA_CSV_FILE_H

#include <limits.h>

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/text/label.h"

struct sl_csv {
	char path[PATH_MAX];
	struct sl_names header, cell; /* cell: [rows · columns] */
	size_t *line;                 /* [rows] */
	int64_t rows;
	size_t cap;
	int columns;
};

/* s->path becomes the split's usual file in `dir`; where training's is not there, it is train.csv. A dir that is a file
 * is training's, and has no other. NOINPUT. */
enum sl_err sl_csv_name(struct sl_csv *s, const char *dir, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* Reads s->path; the rest is zeroed before. DATA also where there is no row. Close it in any case. */
enum sl_err sl_csv_read(struct sl_csv *s, struct sl_fail *fail) SL_MUST_CHECK;
void sl_csv_close(struct sl_csv *s);

/* DATA: a cell of that line has a NUL character, or is no UTF-8. */
enum sl_err sl_csv_check(const char *path, size_t line, struct sl_bytes cell, struct sl_fail *fail) SL_MUST_CHECK;

static inline const char *sl_csv_cell(const struct sl_csv *s, int64_t row, int column)
{
	return sl_name(&s->cell, row * s->columns + column);
}

int sl_csv_find(const struct sl_csv *s, const char *name); /* the column's number; -1: there is none */
/* DATA: the header lacks `name`, which `key` asks for. */
enum sl_err sl_csv_lacks(const struct sl_csv *s, const char *key, const char *name, struct sl_fail *fail);

/* The columns that spec->label names: *out [spec->nlabels], malloc'ed. */
enum sl_err sl_csv_targets(const struct sl_csv *s, const struct sl_set_spec *spec, int **out,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* A row's numbers, or labels 0 and 1, in these columns. DATA: a cell is none. */
enum sl_err sl_csv_target(const struct sl_csv *s, const struct sl_set_spec *spec, int64_t row, const int *column,
			  union sl_label *out, struct sl_fail *fail) SL_MUST_CHECK;

/* Of pictures with several numbers or labels: dir/train.csv, or val.csv or test.csv, whose column `file` names pictures
 * below dir. Their names are added to *files, and *out becomes their targets [rows, nlabels], malloc'ed. */
enum sl_err sl_csv_pictures(struct sl_names *files, union sl_label **out, const char *dir,
			    const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

/* The target that a set with several numbers or labels declares. */
static inline struct sl_field_type sl_csv_target_type(const struct sl_set_spec *spec)
{
	return (struct sl_field_type){spec->task->target, spec->task->dtype, 1, {spec->nlabels}};
}

#endif
