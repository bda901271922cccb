#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/sources.h"

enum {
	MAX_LABEL_BYTES = 2,
	MAX_STANDARD_FILES = 5,
	SIDE = 32,
	CHANNELS = 3,
	PLANE = SIDE * SIDE,
	IMAGE_BYTES = CHANNELS * PLANE
};

/* The names in batches.meta.txt and fine_label_names.txt of the data sets. */
static const char *const names10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
				      "dog",      "frog",       "horse", "ship", "truck"};
static const char *const names100[] = {
	"apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
	"beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
	"butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
	"chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
	"cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
	"girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
	"leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
	"mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
	"palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
	"porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
	"rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
	"snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
	"table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
	"trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
	"woman",      "worm"};

struct format {
	const char *name, *hint;
	const char *const *class_name;
	int label_bytes;              /* the last one is the label */
	int classes[MAX_LABEL_BYTES]; /* label byte i is below classes[i] */
	struct {
		int n;
		const char *names[MAX_STANDARD_FILES];
	} standard[SL_SPLIT_COUNT];
};

static const struct format cifar10 = {
	"cifar10",
	" (scripts/fetch-cifar10.sh fetches CIFAR-10)",
	names10,
	1,
	{10},
	{{5, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"}},
	 {1, {"test_batch.bin"}}}};
static const struct format cifar100 = {
	"cifar100", " (https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz holds it)",
	names100,   2,
	{20, 100},  {{1, {"train.bin"}}, {1, {"test.bin"}}}};

/* What a set's `data` points to. */
struct records {
	uint8_t *pixels; /* [count, 32, 32, 3] */
	int32_t *labels; /* [count] */
};

/* One open file of the set, and how many of its records are wanted. */
struct file {
	char path[PATH_MAX];
	FILE *file;
	int64_t wanted;
};

static size_t record_bytes(const struct format *format)
{
	return (size_t)format->label_bytes + IMAGE_BYTES;
}

static enum sl_err file_open(struct file *f, const char *dir, const char *name, const char *hint, struct sl_fail *fail)
{
	int n = snprintf(f->path, sizeof f->path, "%s%s%s", dir ? dir : "", dir ? "/" : "", name), fd;

	if (n < 0 || (size_t)n >= sizeof f->path)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: file name too long", name);
	fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	f->file = fd < 0 ? NULL : fdopen(fd, "rb");
	if (f->file)
		return SL_OK;
	sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s%s", f->path, strerror(errno), hint);
	if (fd >= 0)
		close(fd);
	return SL_ERR_NOINPUT;
}

static enum sl_err file_count(const struct file *f, const struct format *format, int64_t *records, struct sl_fail *fail)
{
	int64_t record = (int64_t)record_bytes(format);
	struct stat st;

	if (fstat(fileno(f->file), &st))
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", f->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", f->path);
	if (st.st_size == 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: is empty; %s records have %lld bytes each", f->path,
				   format->name, (long long)record);
	if (st.st_size % record)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: truncated: its %lld bytes end %lld bytes into a %s record of %lld", f->path,
				   (long long)st.st_size, (long long)(st.st_size % record), format->name,
				   (long long)record);
	*records = st.st_size / record;
	return SL_OK;
}

static enum sl_err check_labels(const struct file *f, const struct format *format, int64_t record, const uint8_t *label,
				struct sl_fail *fail)
{
	for (int i = 0; i < format->label_bytes; i++)
		if (label[i] >= format->classes[i])
			return sl_fail_set(fail, SL_ERR_DATA, "%s: record %lld: label byte %d is %d, must be below %d",
					   f->path, (long long)record, i, label[i], format->classes[i]);
	return SL_OK;
}

static enum sl_err read_failed(const struct file *f, int64_t record, struct sl_fail *fail)
{
	if (ferror(f->file))
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", f->path, strerror(errno));
	return sl_fail_set(fail, SL_ERR_DATA, "%s: ends within record %lld: it shrank while it was read", f->path,
			   (long long)record);
}

/* out [32, 32, 3] = planes [3, 32, 32] */
static void interleave(uint8_t *out, const uint8_t *planes)
{
	for (int i = 0; i < PLANE; i++)
		for (int c = 0; c < CHANNELS; c++)
			out[i * CHANNELS + c] = planes[c * PLANE + i];
}

static enum sl_err file_read(struct file *f, const struct format *format, uint8_t *pixels, int32_t *labels,
			     struct sl_fail *fail)
{
	uint8_t record[MAX_LABEL_BYTES + IMAGE_BYTES];

	for (int64_t r = 0; r < f->wanted; r++) {
		enum sl_err err;

		if (fread(record, record_bytes(format), 1, f->file) != 1)
			return read_failed(f, r, fail);
		err = check_labels(f, format, r, record, fail);
		if (err)
			return err;
		labels[r] = record[format->label_bytes - 1];
		interleave(pixels + r * IMAGE_BYTES, record + format->label_bytes);
	}
	return SL_OK;
}

/* Checks the labels alone, without reading pixels. */
static enum sl_err file_check(struct file *f, const struct format *format, struct sl_fail *fail)
{
	const off_t step = (off_t)record_bytes(format);
	uint8_t label[MAX_LABEL_BYTES];
	enum sl_err err = SL_OK;

	for (int64_t r = 0; r < f->wanted && !err; r++) {
		ssize_t n = pread(fileno(f->file), label, (size_t)format->label_bytes, r * step);

		if (n < 0)
			return sl_fail_set(fail, SL_ERR_IO, "%s: %s", f->path, strerror(errno));
		if (n != format->label_bytes)
			return read_failed(f, r, fail);
		err = check_labels(f, format, r, label, fail);
	}
	return err;
}

/* Opens files and counts records until all files are open or `max` records are reached. */
static enum sl_err files_open(struct file *files, int *nfiles, int64_t *total, const struct format *format,
			      const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *const *names = spec->files ? spec->files : format->standard[spec->split].names;
	int n = spec->files ? spec->nfiles : format->standard[spec->split].n;
	int64_t max = spec->max_samples ? spec->max_samples : INT64_MAX;

	for (int i = 0; i < n && *total < max; i++) {
		struct file *f = &files[*nfiles];
		int64_t records = 0;
		enum sl_err err = file_open(f, spec->dir, names[i], format->hint, fail);

		if (err)
			return err;
		++*nfiles;
		err = file_count(f, format, &records, fail);
		if (err)
			return err;
		f->wanted = records < max - *total ? records : max - *total;
		*total += f->wanted;
		if (*total > SL_SET_MAX_SAMPLES)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d records in all", f->path,
					   SL_SET_MAX_SAMPLES);
	}
	return SL_OK;
}

static enum sl_err files_read(struct records *set, struct file *files, int nfiles, const struct format *format,
			      struct sl_fail *fail)
{
	int64_t at = 0;

	for (int i = 0; i < nfiles; at += files[i].wanted, i++) {
		enum sl_err err = file_read(&files[i], format, set->pixels + at * IMAGE_BYTES, set->labels + at, fail);

		if (err)
			return err;
	}
	return SL_OK;
}

/* Opens the set's files. The caller closes *files with files_close in any case. */
static enum sl_err files_of(const struct format *format, const struct sl_set_spec *spec, struct file **files,
			    int *nfiles, int64_t *total, struct sl_fail *fail)
{
	*nfiles = 0;
	*total = 0;
	*files = calloc(spec->files ? (size_t)spec->nfiles : MAX_STANDARD_FILES, sizeof **files);
	if (!*files)
		return sl_fail_set(fail, SL_ERR_NOMEM, "data set: out of memory for the list of files");
	return files_open(*files, nfiles, total, format, spec, fail);
}

static void files_close(struct file *files, int nfiles)
{
	for (int i = 0; i < nfiles; i++)
		fclose(files[i].file);
	free(files);
}

static struct sl_set declared(const struct sl_source *self, int64_t count)
{
	const struct format *format = self->format;

	return (struct sl_set){
		.source = self,
		.count = count,
		.classes = format->classes[format->label_bytes - 1],
		.field = {{"image", SL_U8, 3, {SIDE, SIDE, CHANNELS}}, {"label", SL_I32, 0, {0}}},
	};
}

static enum sl_err check(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			 struct sl_fail *fail)
{
	const struct format *format = self->format;
	struct file *files;
	int64_t total;
	int nfiles;
	enum sl_err err = files_of(format, spec, &files, &nfiles, &total, fail);

	for (int i = 0; i < nfiles && !err; i++)
		err = file_check(&files[i], format, fail);
	files_close(files, nfiles);
	if (!err)
		*out = declared(self, total);
	return err;
}

static void records_close(struct records *r)
{
	if (r) {
		free(r->pixels);
		free(r->labels);
		free(r);
	}
}

static struct records *records_open(int64_t count)
{
	struct records *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->pixels = malloc((size_t)count * IMAGE_BYTES);
	r->labels = malloc((size_t)count * sizeof *r->labels);
	if (r->pixels && r->labels)
		return r;
	records_close(r);
	return NULL;
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct records *records = NULL;
	const struct format *format = self->format;
	struct file *files;
	int64_t total;
	int nfiles;
	enum sl_err err = files_of(format, spec, &files, &nfiles, &total, fail);

	if (err)
		goto fail;
	records = records_open(total);
	if (!records) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "data set: out of memory for %lld images", (long long)total);
		goto fail;
	}
	err = files_read(records, files, nfiles, format, fail);
fail:
	files_close(files, nfiles);
	if (err) {
		records_close(records);
		return err;
	}
	*out = declared(self, total);
	out->data = records;
	return SL_OK;
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct records *r = set->data;

	out[SL_FIELD_INPUT] = (struct sl_value){.data = r->pixels + index * IMAGE_BYTES, .dim = {SIDE, SIDE, CHANNELS}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = r->labels + index};
	return SL_OK;
}

static const char *class_name(const struct sl_set *set, int label)
{
	const struct format *format = set->source->format;

	return format->class_name[label];
}

static void close_set(struct sl_set *set)
{
	records_close(set->data);
}

#define SOURCE(text, of)                                                                                            \
	{                                                                                                           \
		.name = text, .format = of, .open = open_set, .check = check, .sample = sample, .close = close_set, \
		.class_name = class_name                                                                            \
	}

/* Binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html). A record is the label bytes
 * (CIFAR-10: one; CIFAR-100: coarse, then fine, which is the label) and 3072 bytes of pixels, all red, then all
 * green, then all blue values, each 32 rows of 32. The set holds all pixels in memory. DATA: the last record is
 * truncated, and *fail has both sizes; or a label is out of range, and *fail has its record's number, from 0 in its
 * file. */
const struct sl_source sl_source_cifar10 = SOURCE("cifar10", &cifar10);
const struct sl_source sl_source_cifar100 = SOURCE("cifar100", &cifar100);
