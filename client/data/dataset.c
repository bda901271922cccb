#include "client/data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LABEL_BYTES = 2, MAX_STANDARD_FILES = 5 };

struct format {
	const char *name, *hint;
	int label_bytes;              /* the last one is the label that counts */
	int classes[MAX_LABEL_BYTES]; /* label byte i is below classes[i] */
	struct {
		int nfiles;
		const char *files[MAX_STANDARD_FILES];
	} standard[SL_SPLIT_COUNT];
};

static const struct format formats[SL_DATASET_KIND_COUNT] = {
	[SL_DATASET_CIFAR10] = {"cifar10",
				" (scripts/fetch-cifar10.sh fetches CIFAR-10)",
				1,
				{10},
				{{5,
				  {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
				   "data_batch_5.bin"}},
				 {1, {"test_batch.bin"}}}},
	[SL_DATASET_CIFAR100] = {"cifar100",
				 " (https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz holds it)",
				 2,
				 {20, 100},
				 {{1, {"train.bin"}}, {1, {"test.bin"}}}},
};

/* One open file of the set, and how many of its records are wanted. */
struct source {
	char path[PATH_MAX];
	FILE *file;
	int64_t wanted;
};

static size_t record_bytes(const struct format *format)
{
	return (size_t)format->label_bytes + SL_IMAGE_BYTES;
}

static enum sl_err source_open(struct source *src, const char *dir, const char *name, const char *hint,
			       struct sl_fail *fail)
{
	int n = snprintf(src->path, sizeof src->path, "%s%s%s", dir ? dir : "", dir ? "/" : "", name), fd;

	if (n < 0 || (size_t)n >= sizeof src->path)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: file name too long", name);
	fd = open(src->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	src->file = fd < 0 ? NULL : fdopen(fd, "rb");
	if (src->file)
		return SL_OK;
	sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s%s", src->path, strerror(errno), hint);
	if (fd >= 0)
		close(fd);
	return SL_ERR_NOINPUT;
}

static enum sl_err source_count(const struct source *src, const struct format *format, int64_t *records,
				struct sl_fail *fail)
{
	int64_t record = (int64_t)record_bytes(format);
	struct stat st;

	if (fstat(fileno(src->file), &st))
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", src->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", src->path);
	if (st.st_size == 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: is empty; %s records have %lld bytes each", src->path,
				   format->name, (long long)record);
	if (st.st_size % record)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: truncated: its %lld bytes end %lld bytes into a %s record of %lld", src->path,
				   (long long)st.st_size, (long long)(st.st_size % record), format->name,
				   (long long)record);
	*records = st.st_size / record;
	return SL_OK;
}

static enum sl_err check_labels(const struct source *src, const struct format *format, int64_t record,
				const uint8_t *label, struct sl_fail *fail)
{
	for (int i = 0; i < format->label_bytes; i++)
		if (label[i] >= format->classes[i])
			return sl_fail_set(fail, SL_ERR_DATA, "%s: record %lld: label byte %d is %d, must be below %d",
					   src->path, (long long)record, i, label[i], format->classes[i]);
	return SL_OK;
}

static enum sl_err read_failed(const struct source *src, int64_t record, struct sl_fail *fail)
{
	if (ferror(src->file))
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", src->path, strerror(errno));
	return sl_fail_set(fail, SL_ERR_DATA, "%s: ends within record %lld: it shrank while it was read", src->path,
			   (long long)record);
}

static enum sl_err source_read(struct source *src, const struct format *format, uint8_t *pixels, int32_t *labels,
			       struct sl_fail *fail)
{
	uint8_t record[MAX_LABEL_BYTES + SL_IMAGE_BYTES];

	for (int64_t r = 0; r < src->wanted; r++) {
		enum sl_err err;

		if (fread(record, record_bytes(format), 1, src->file) != 1)
			return read_failed(src, r, fail);
		err = check_labels(src, format, r, record, fail);
		if (err)
			return err;
		labels[r] = record[format->label_bytes - 1];
		memcpy(pixels + r * SL_IMAGE_BYTES, record + format->label_bytes, SL_IMAGE_BYTES);
	}
	return SL_OK;
}

/* The labels alone. */
static enum sl_err source_check(struct source *src, const struct format *format, struct sl_fail *fail)
{
	const off_t step = (off_t)record_bytes(format);
	uint8_t label[MAX_LABEL_BYTES];
	enum sl_err err = SL_OK;

	for (int64_t r = 0; r < src->wanted && !err; r++) {
		ssize_t n = pread(fileno(src->file), label, (size_t)format->label_bytes, r * step);

		if (n < 0)
			return sl_fail_set(fail, SL_ERR_IO, "%s: %s", src->path, strerror(errno));
		if (n != format->label_bytes)
			return read_failed(src, r, fail);
		err = check_labels(src, format, r, label, fail);
	}
	return err;
}

/* Opens files and counts records until all files are open or `max` records are reached. */
static enum sl_err sources_open(struct source *sources, int *nsources, int64_t *total,
				const struct sl_dataset_spec *spec, struct sl_fail *fail)
{
	const struct format *format = &formats[spec->kind];
	const char *const *files = spec->files ? spec->files : format->standard[spec->split].files;
	int nfiles = spec->files ? spec->nfiles : format->standard[spec->split].nfiles;
	int64_t max = spec->max_records ? spec->max_records : INT64_MAX;

	for (int i = 0; i < nfiles && *total < max; i++) {
		struct source *src = &sources[*nsources];
		int64_t records = 0;
		enum sl_err err = source_open(src, spec->dir, files[i], format->hint, fail);

		if (err)
			return err;
		++*nsources;
		err = source_count(src, format, &records, fail);
		if (err)
			return err;
		src->wanted = records < max - *total ? records : max - *total;
		*total += src->wanted;
		if (*total > SL_DATASET_MAX_RECORDS)
			return sl_fail_set(fail, SL_ERR_LIMIT, "%s: more than %d records in all", src->path,
					   SL_DATASET_MAX_RECORDS);
	}
	return SL_OK;
}

static enum sl_err sources_read(struct sl_dataset *set, struct source *sources, int nsources,
				const struct format *format, struct sl_fail *fail)
{
	int64_t at = 0;

	for (int i = 0; i < nsources; at += sources[i].wanted, i++) {
		enum sl_err err =
			source_read(&sources[i], format, set->pixels + at * SL_IMAGE_BYTES, set->labels + at, fail);

		if (err)
			return err;
	}
	return SL_OK;
}

static enum sl_err spec_check(const struct sl_dataset_spec *spec, struct sl_fail *fail)
{
	if ((unsigned)spec->kind >= SL_DATASET_KIND_COUNT || (unsigned)spec->split >= SL_SPLIT_COUNT)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: unknown kind or split");
	if (spec->files && spec->nfiles < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: the list of files is empty");
	if (spec->max_records < 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: number of records out of range");
	return SL_OK;
}

/* *sources: for sources_close, in any case. */
static enum sl_err sources_of(const struct sl_dataset_spec *spec, struct source **sources, int *nsources,
			      int64_t *total, struct sl_fail *fail)
{
	enum sl_err err = spec_check(spec, fail);

	*sources = NULL;
	*nsources = 0;
	*total = 0;
	if (err)
		return err;
	*sources = calloc(spec->files ? (size_t)spec->nfiles : MAX_STANDARD_FILES, sizeof **sources);
	if (!*sources)
		return sl_fail_set(fail, SL_ERR_NOMEM, "data set: out of memory for the list of files");
	return sources_open(*sources, nsources, total, spec, fail);
}

static void sources_close(struct source *sources, int nsources)
{
	for (int i = 0; i < nsources; i++)
		fclose(sources[i].file);
	free(sources);
}

enum sl_err sl_dataset_check(int64_t *count, const struct sl_dataset_spec *spec, struct sl_fail *fail)
{
	struct source *sources;
	int64_t total;
	int nsources;
	enum sl_err err = sources_of(spec, &sources, &nsources, &total, fail);

	for (int i = 0; i < nsources && !err; i++)
		err = source_check(&sources[i], &formats[spec->kind], fail);
	sources_close(sources, nsources);
	if (!err)
		*count = total;
	return err;
}

enum sl_err sl_dataset_open(struct sl_dataset *out, const struct sl_dataset_spec *spec, struct sl_fail *fail)
{
	struct sl_dataset set = {0};
	struct source *sources;
	int nsources;
	enum sl_err err = sources_of(spec, &sources, &nsources, &set.count, fail);

	if (err)
		goto fail;
	set.classes = sl_dataset_classes(spec->kind);
	set.pixels = malloc((size_t)set.count * SL_IMAGE_BYTES);
	set.labels = malloc((size_t)set.count * sizeof *set.labels);
	if (!set.pixels || !set.labels) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "data set: out of memory for %lld images", (long long)set.count);
		goto fail;
	}
	err = sources_read(&set, sources, nsources, &formats[spec->kind], fail);
fail:
	sources_close(sources, nsources);
	if (err)
		sl_dataset_close(&set);
	else
		*out = set;
	return err;
}

int sl_dataset_classes(enum sl_dataset_kind kind)
{
	return formats[kind].classes[formats[kind].label_bytes - 1];
}

void sl_dataset_close(struct sl_dataset *set)
{
	free(set->pixels);
	free(set->labels);
	*set = (struct sl_dataset){0};
}

const char *sl_dataset_kind_name(enum sl_dataset_kind kind)
{
	return (unsigned)kind < SL_DATASET_KIND_COUNT ? formats[kind].name : "?";
}
