/* The user's own files of texts: where they are, and their columns. For text.c. */
#ifndef SL_CLIENT_DATA_TEXT_FILES_H
#define SL_CLIENT_DATA_TEXT_FILES_H

#include <limits.h>

#include "client/data/source.h"
#include "client/text/records.h"

/* The path of file i of a split, as the config names it, or of the usual one. NOINPUT: there is none. */
enum sl_err sl_text_path(char path[PATH_MAX], const struct sl_set_spec *spec, enum sl_split split, int i,
			 struct sl_fail *fail) SL_MUST_CHECK;
int sl_text_files(const struct sl_set_spec *spec, enum sl_split split); /* how many files a split has */
/* How to read a file, by its ending. Plain lines (.txt) have no labels. CONFIG: another ending. */
enum sl_err sl_text_records(struct sl_records_spec *out, const char *path, bool unlabelled,
			    struct sl_fail *fail) SL_MUST_CHECK;

/* Takes each row's cell of a column. */
typedef enum sl_err sl_text_cell(void *arg, const char *path, const struct sl_record *row, struct sl_fail *fail);
/* Calls `take` for all rows of a file. */
enum sl_err sl_text_column(const char *path, const char *column, sl_text_cell *take, void *arg,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Calls `take` for all rows of training's files. `path` becomes the last one's. */
enum sl_err sl_text_training(char path[PATH_MAX], const struct sl_set_spec *spec, const char *column,
			     sl_text_cell *take, void *arg, struct sl_fail *fail) SL_MUST_CHECK;

#endif
