/* A table of pictures, or of volumes' cases, and their labels. It is spec->labels (data.labels), with names of pictures
 * in the column spec->label_id; or else, for several numbers or labels, the split's usual file in `dir`, with paths in
 * the column `file`. */
#ifndef SL_CLIENT_DATA_LABEL_TABLE_H
#define SL_CLIENT_DATA_LABEL_TABLE_H

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/text/label.h"

struct sl_label_table {
	char path[PATH_MAX];
	const char *what;        /* "picture" or, of volumes, "case", in messages */
	struct sl_names picture; /* [rows], as the table names them */
	struct sl_names classes; /* where labels are classes: their names, sorted */
	union sl_label *label;   /* [rows, spec->nlabels] */
	uint64_t *key;           /* [rows], of the column data.split.by: what stays in one part; NULL: none is named */
};

/* DATA: the table is malformed, lacks a column, or a cell has no name or no label; NOINPUT, IO, NOMEM. Close *out after
 * an error, too. */
enum sl_err sl_label_table_read(struct sl_label_table *out, const char *dir, const struct sl_set_spec *spec,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Finds each row's picture among paths below data.dir. A row may have the path or an end of it, such as the file's
 * name, with or without the ending. (*at)[rows], malloc'ed: the picture's number, or -1. `warns`: warns of rows without
 * a picture, and of pictures without a row. DATA: two rows have one picture, a name is that of two pictures, or no row
 * has any; NOMEM. */
enum sl_err sl_label_table_match(const struct sl_label_table *table, const struct sl_names *paths, bool warns,
				 int64_t **at, struct sl_fail *fail) SL_MUST_CHECK;
/* Warns of rows whose pictures lie below dir, but in no part's folder, where `root` is such a folder. */
void sl_label_table_warn_of_parts(const struct sl_label_table *table, const struct sl_names *paths, const int64_t *at,
				  const char *dir, const char *root);
/* Adds the paths of all pictures below a folder (images_list.c). NOINPUT, IO, NOMEM; DATA: a path is too long. */
enum sl_err sl_images_paths(const char *folder, struct sl_names *out, struct sl_fail *fail) SL_MUST_CHECK;
void sl_label_table_close(struct sl_label_table *table); /* a zeroed one is fine */

#endif
