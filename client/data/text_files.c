#include "client/data/text_files.h"

#include <stdio.h>

#include "client/data/parts.h"
#include "common/base/folder.h"

enum sl_err sl_text_path(char path[PATH_MAX], const struct sl_set_spec *spec, enum sl_split split, int i,
			 struct sl_fail *fail)
{
	static const char *const ends[] = {".tsv", ".csv", ".jsonl", ".txt", NULL};
	const char *dir = spec->dir ? spec->dir : ".";
	const char *const *files = split == SL_SPLIT_TRAIN ? spec->train_files : spec->files;

	if (files || (split == SL_SPLIT_TRAIN && sl_folder_is_file(dir)))
		return snprintf(path, PATH_MAX, "%s%s%s", dir, files ? "/" : "", files ? files[i] : "") < PATH_MAX
			       ? SL_OK
			       : sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long",
					     files ? files[i] : dir);
	for (const char *const *end = ends; *end && (spec->unlabelled || end != &ends[3]); end++)
		if (sl_set_usual(path, dir, split, *end))
			return SL_OK;
	return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: there is no %s with the end .tsv, .csv or .jsonl%s%s", dir,
			   split == SL_SPLIT_TRAIN ? "train" : "val, dev or test",
			   spec->unlabelled ? ", or .txt for a text a line" : "",
			   split == SL_SPLIT_TRAIN ? "" : "; " SL_PARTS_HINT);
}

int sl_text_files(const struct sl_set_spec *spec, enum sl_split split)
{
	return (split == SL_SPLIT_TRAIN ? spec->ntrain_files : spec->nfiles) ?: 1;
}

enum sl_err sl_text_records(struct sl_records_spec *out, const char *path, bool unlabelled, struct sl_fail *fail)
{
	*out = (struct sl_records_spec){
		.path = path, .header = true, .exact = true, .a = {NULL, -1}, .b = {NULL, -1}, .label = {NULL, -1}};
	out->format = sl_records_format_of(path);
	if (out->format == SL_RECORDS_FORMAT_COUNT || (out->format == SL_RECORDS_LINES && !unlabelled))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: its name must end in .tsv, .csv or .jsonl%s", path,
				   unlabelled ? ", or .txt for a text a line" : "");
	return SL_OK;
}

enum sl_err sl_text_column(const char *path, const char *column, sl_text_cell *take, void *arg, struct sl_fail *fail)
{
	struct sl_records_spec spec;
	struct sl_records *records;
	struct sl_record row;
	enum sl_err err = sl_text_records(&spec, path, false, fail);

	if (err)
		return err;
	spec.a.name = column;
	err = sl_records_open(&records, &spec, fail);
	if (err)
		return err;
	do {
		err = sl_records_next(records, &row, fail);
		if (!err && row.a.data)
			err = take(arg, path, &row, fail);
	} while (!err && row.a.data);
	sl_records_close(records);
	return err;
}

enum sl_err sl_text_training(char path[PATH_MAX], const struct sl_set_spec *spec, const char *column,
			     sl_text_cell *take, void *arg, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < sl_text_files(spec, SL_SPLIT_TRAIN) && !err; i++) {
		err = sl_text_path(path, spec, SL_SPLIT_TRAIN, i, fail);
		if (!err)
			err = sl_text_column(path, column, take, arg, fail);
	}
	return err;
}
