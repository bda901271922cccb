/* Where samples come from. A source is one format of data (sl_source_find); a set is one split of a data set in
 * that format, open. A sample is a few typed fields: a picture, a label. */
#ifndef SL_CLIENT_DATA_SOURCE_H
#define SL_CLIENT_DATA_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/data/mask.h"
#include "client/text/token_next.h"
#include "common/base/err.h"
#include "common/graph/task.h"

enum sl_split { SL_SPLIT_TRAIN, SL_SPLIT_TEST, SL_SPLIT_COUNT };

/* What a network reads of a sample, and what its output is compared with. Every set has both. */
enum sl_field_use { SL_FIELD_INPUT, SL_FIELD_TARGET, SL_FIELD_COUNT };

enum {
	SL_FIELD_DIMS = 3,
	SL_SET_MAX_SAMPLES = 1 << 24 /* in all files together */
};

/* One field as a set declares it. Pictures are [H, W, C], tokens [n]; labels have no dimensions. */
struct sl_field_type {
	const char *name; /* "image", "tokens", "row"; "label", "number" */
	enum sl_dtype dtype;
	int ndim;
	int64_t dim[SL_FIELD_DIMS]; /* 0: free, each sample has its own */
};

/* How picture files are decoded. */
struct sl_picture_spec {
	int64_t max_pixels;
	int channels;  /* 1: grey, of colours their luma; 0 or 3: RGB */
	bool deep;     /* keep 16 bits: floats of 0 … 65535, in place of bytes */
	bool exact;    /* a JPEG is not shrunk while it is decoded */
	bool upright;  /* turned as EXIF says */
	bool windowed; /* DICOM is shown by `window`, centre and width, and not as the file says */
	double window[2];
	bool index; /* a mask: a PNG's own numbers, one of 8 bits for each pixel, and neither colours nor luma */
};

struct sl_set_spec {
	const char *source; /* a source's name, as in the config's data.kind */
	enum sl_split split;
	const char *dir;          /* NULL: file names are used as they are */
	const char *const *files; /* read in this order; NULL: the usual files of the split */
	int nfiles;
	int64_t max_samples; /* only so many; 0: all */
	struct sl_picture_spec picture;
	const char *masks;         /* of `task` PIXELS: folder in dir with a mask of each picture, */
	int mask_classes;          /* whose pixels are 0 … mask_classes − 1, or SL_LEARN_IGNORED */
	const char *const *label;  /* of a table and of own texts: the columns of labels, [nlabels] */
	int nlabels;               /* 1, unless `task` has several targets */
	const char *const *ignore; /* of a table: columns that are left out, [nignore] */
	int nignore;
	bool fill;                 /* of a table: cells may be missing, and count as their column's mean */
	int max_tokens;            /* of a row: the rest is left out */
	const char *tokenizer;     /* of texts: its folder or file */
	bool cache;                /* of texts: keep their tokens in a file beside them */
	bool types;                /* of texts: the network tells tokens' types by where `mark` stands */
	int32_t mark;              /* of texts: the token that ends one */
	const char *const *column; /* of own texts: one column, or two of pairs, [ncolumns] */
	const char *const *
		train_files; /* of own texts: the files whose labels are the classes, [ntrain_files]; NULL: the usual */
	int ncolumns, ntrain_files;
	bool unlabelled; /* labels are not read, and need not be there */
	bool lacking;    /* of folders of classes: one may have no picture, since others of a group have them */
	/* What is to be predicted: files and folders as a user names them, [ngiven], in place of dir and files. Nothing
	 * has a label. NULL: it is a split of the data set. */
	const char *const *given;
	int ngiven;
	/* Of tables: a JSON object that `describe` filled in training, with its classes; these are the columns. NULL:
	 * they are those of train.csv in dir. */
	const struct json_t *about;
	const struct sl_parts
		*parts; /* a part of the training files' samples (parts.h), and `split` is TRAIN; NULL: all */
	struct sl_token_next next;        /* of texts: rows are for a causal language model */
	const struct sl_learn_task *task; /* of own texts and tables: what labels are; NULL: classes */
};

struct sl_source;
struct sl_parts;
struct json_t;

/* Constant once open: any number of threads may use it. */
struct sl_set {
	const struct sl_source *source;
	void *data; /* the source's own */
	int64_t count;
	int64_t passed_over;        /* files beside the samples' that are no pictures */
	char passed_kinds[120];     /* how many of each kind, for messages: "35 .gif, 2 .dcm" */
	int classes;                /* labels lie in [0, classes); 0: there are numbers, or several labels, instead */
	int vocab;                  /* tokens lie in [0, vocab); 0: the input is no tokens */
	uint64_t tokenizer;         /* hash of its files; 0: there is none */
	bool next;                  /* targets say with which of a row's tokens the loss begins */
	int32_t pad;                /* the token that rows are padded with */
	struct sl_mask_ids mask;    /* of texts: the token that hides others, and the bounds of random ones */
	const char *const *metrics; /* that belong to the data, beside those that every evaluation has; NULL: none */
	struct sl_field_type field[SL_FIELD_COUNT];
};

/* A part of a picture, in pixels, and the size that the reader will resize it to; out_h and out_w 0: to none. */
struct sl_window {
	int top, left, h, w;
	int out_h, out_w;
};

/* What a reader needs of a picture. A source that decodes calls `choose` once it knows the size: *window is the whole
 * picture then, and what remains of it is what must be decoded; more may be, and it may be shrunk, though never below
 * out_h × out_w. */
struct sl_wanted {
	void (*choose)(void *arg, struct sl_window *window);
	void *arg;
};

/* Memory of one thread for the samples that it reads; grows to what the largest of them needs. Begins zeroed. */
struct sl_room {
	uint8_t *data;
	size_t bytes;
	uint8_t *file; /* a file's bytes before they are decoded */
	size_t file_bytes;
	uint8_t *deep; /* pixels of 16 bits, or turned ones */
	size_t deep_bytes;
	const struct sl_wanted *wanted; /* NULL: whole pictures */
	struct sl_room *mask;           /* of the picture's mask; NULL: none was read yet */
};

/* One field of one sample. `data` lies in the set or in the room: valid until the room is used again. Of a picture it
 * may be a part: its first pixel is (top, left) of the whole, h × w, after that was shrunk by `shrink` in both
 * directions (sides rounded up). shrink 0: it is the whole. Its numbers are bytes, or floats of 0 … 65535 (deep). */
struct sl_value {
	const void *data;
	bool deep;
	int64_t dim[SL_FIELD_DIMS];
	struct {
		int top, left, h, w, shrink;
	} part;
};

/* The table of a source. `open` leaves *out as it was where it fails. */
struct sl_source {
	const char *name;
	const void *format; /* the source's own */
	/* NOINPUT: a file cannot be opened; DATA: a file is not of this format; LIMIT: more than SL_SET_MAX_SAMPLES;
	 * CONFIG, IO, NOMEM. */
	enum sl_err (*open)(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail);
	/* All checks and errors of `open`, and how many samples and classes there would be, without reading samples.
	 * NULL: `open` reads no more than that; it is called and closed again. */
	enum sl_err (*check)(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			     struct sl_fail *fail);
	/* The same for any thread, at any time: a function of `index` alone. DATA: this sample cannot be read, and
	 * *fail names its file; NOMEM. */
	enum sl_err (*sample)(const struct sl_set *set, int64_t index, struct sl_room *room,
			      struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail);
	void (*close)(struct sl_set *set);
	/* What a sample and a class, label or number are called, for messages; NULL: they have numbers alone. */
	const char *(*sample_name)(const struct sl_set *set, int64_t index, char *out, size_t size);
	const char *(*class_name)(const struct sl_set *set, int label);
	/* A number that another set of samples has not: of a table and of texts by their contents, of pictures by their
	 * names and sizes. NULL: the data are standard. */
	uint64_t (*fingerprint)(const struct sl_set *set);
	/* What decides which part of data.split a sample is in; NULL: its name or number does. */
	uint64_t (*key)(const struct sl_set *set, int64_t index);
	/* What it has learned of training's samples and needs for others: members of a JSON object. NULL: nothing. */
	void (*describe)(const struct sl_set *set, struct json_t *about);
	/* Its label alone, where that needs no reading of the sample. NULL: `sample` says it. */
	int32_t (*label)(const struct sl_set *set, int64_t index);
	/* The same of its several numbers or labels; NULL: `sample` says them. */
	const float *(*targets)(const struct sl_set *set, int64_t index);
	/* Of a set of tokens: how many a sample has, 1 … 65535; as `sample`, though it cannot fail. NULL: of another.
	 */
	int64_t (*extent)(const struct sl_set *set, int64_t index);
};

const struct sl_source *sl_source_find(const char *name); /* a word of data.kind; NULL: there is none */

/* CONFIG also where spec->source is none of them. */
enum sl_err sl_set_open(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Fills count, classes and fields of *out; there is nothing to close. */
enum sl_err sl_set_check(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* A split's usual folder in `dir`, or with `end` (".csv") its file: train, or val, valid, validation, dev, test, or
 * one of those as "Test" or "TEST". false: none is there. */
bool sl_set_usual(char out[PATH_MAX], const char *dir, enum sl_split split, const char *end);
/* Labels are one of several classes, and no numbers. */
static inline bool sl_set_has_classes(const struct sl_set *set)
{
	return set->field[SL_FIELD_TARGET].dtype == SL_I32 && set->classes > 1;
}

/* The label of a sample of a set of classes; reads the sample where the source has no other way. */
enum sl_err sl_set_label(const struct sl_set *set, int64_t index, struct sl_room *room, int32_t *out,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* `err`, with what was said of a sample's picture behind its name. */
enum sl_err sl_set_blame(const struct sl_set *set, int64_t index, enum sl_err err, const struct sl_fail *why,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_set_close(struct sl_set *set); /* idempotent; a zeroed one is fine */

/* CONFIG where the set has no field of this name, number of dimensions or channels (a picture's last dimension), with
 * what the network takes and what would fit. A picture's height and width may differ: transforms see to them. */
enum sl_err sl_set_fits(const struct sl_set *set, enum sl_field_use use, const struct sl_field_type *wanted,
			struct sl_fail *fail) SL_MUST_CHECK;

/* Of a set of tokens: what `rows` samples, whichever they are, have together at most; fewer samples count as they are.
 */
enum sl_err sl_set_most_tokens(const struct sl_set *set, int64_t rows, int64_t *out,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* How many numbers or labels a target has; of a class 1. */
static inline int64_t sl_set_targets(const struct sl_set *set)
{
	return set->field[SL_FIELD_TARGET].ndim ? set->field[SL_FIELD_TARGET].dim[0] : 1;
}

/* The target of a sample that has none: a label or a number that nobody looks at. */
static inline struct sl_value sl_value_unlabelled(void)
{
	static const int64_t none;

	return (struct sl_value){.data = &none};
}

/* Where not all of `all` samples are wanted, they are spread evenly over the list: the place of the index-th. */
static inline int64_t sl_set_spread(int64_t index, int64_t wanted, int64_t all)
{
	return wanted == all ? index : index * all / wanted;
}

/* At least so many bytes at room->data; what was there is lost. NOMEM. */
enum sl_err sl_room_need(struct sl_room *room, size_t bytes) SL_MUST_CHECK;
enum sl_err sl_room_need_file(struct sl_room *room, size_t bytes) SL_MUST_CHECK; /* the same at room->file */
enum sl_err sl_room_need_deep(struct sl_room *room, size_t bytes) SL_MUST_CHECK; /* the same at room->deep */
void sl_room_close(struct sl_room *room);

#endif
