/* Where samples come from. A source reads one format of data (sl_source_find). A set is one open split of a data set
 * in that format. A sample is a few typed fields, such as a picture and a label. */
#ifndef SL_CLIENT_DATA_SOURCE_H
#define SL_CLIENT_DATA_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/data/mask.h"
#include "client/text/token_next.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/graph/task.h"

enum sl_split { SL_SPLIT_TRAIN, SL_SPLIT_TEST, SL_SPLIT_COUNT };

/* The uses of a sample's fields: the network reads the input, and the loss compares the output with the target.
 * Every set has both. */
enum sl_field_use { SL_FIELD_INPUT, SL_FIELD_TARGET, SL_FIELD_COUNT };

enum {
	SL_FIELD_DIMS = 3,
	SL_SET_MAX_SAMPLES = 1 << 24 /* in all files together */
};

/* One field as a set declares it. Pictures are [H, W, C], masks [H, W], volumes and theirs the same with the slices one
 * below the other: [D·H, W, C] and [D·H, W], tokens and rows of a table [n], several
 * targets [K]. A single label or number has no dimensions. */
struct sl_field_type {
	const char *name; /* "image", "volume", "tokens", "row"; "label", "labels", "number", "mask" */
	enum sl_dtype dtype;
	int ndim;
	int64_t dim[SL_FIELD_DIMS]; /* 0: free, each sample has its own */
};

/* How picture files are decoded. */
struct sl_picture_spec {
	int64_t max_pixels;
	int channels;  /* 1: grey, the luma of colours; 0 or 3: RGB */
	bool deep;     /* keep 16-bit samples, as floats of 0 … 65535 instead of bytes */
	bool exact;    /* a JPEG is not shrunk while it is decoded */
	bool upright;  /* rotate by the EXIF orientation */
	bool windowed; /* show DICOM with `window` (centre, width) instead of the file's own */
	double window[2];
	bool index; /* read a mask: a PNG's 8-bit number of each pixel, without conversion to colours */
};

/* How a table's file is written. Zeroed: cells are separated by commas, and the decimal mark is a point. */
struct sl_csv_form {
	char separator; /* between cells; 0: ',' */
	bool comma;     /* the decimal mark is a comma */
};

/* Rows of a table or texts, in memory. */
struct sl_set_rows {
	struct sl_bytes text; /* borrowed while the set is opened */
	bool json;            /* JSON Lines; else as in a file of any name */
	size_t above;         /* lines before these, for messages */
};

struct sl_set_spec {
	const char *source; /* a source's name, as in the config's data.kind */
	enum sl_split split;
	const char *dir;          /* NULL: file names are used as they are */
	const char *const *files; /* read in this order; NULL: the usual files of the split */
	int nfiles;
	/* At most so many, spread evenly over all; cifar takes the first ones. 0: all. A source may leave it to
	 * sl_set_open. */
	int64_t max_samples;
	struct sl_picture_spec picture;
	const char *labels; /* pictures: a CSV file with their labels (label_table.h); NULL: their folders are classes,
			       or dir has a table of numbers or labels */
	const char *label_id;     /* its column that names them */
	const char *masks;        /* task PIXELS: the folder in dir that has a mask for each picture */
	int mask_classes;         /* pixels of masks are 0 … mask_classes − 1, or SL_LEARN_IGNORED */
	const char *const *label; /* [nlabels], a file's columns of labels; task PIXELS: names of classes */
	int nlabels;              /* 1, unless `task` has several targets */
	/* [nlabels] of numbers, taken off before they become floats (centre.h); NULL: nothing is */
	const double *centre;
	double *chosen; /* the same array: the set chooses it, from the training file's rows; NULL: it is given */
	const char *const *ignore; /* [nignore], tables: columns to leave out, by name or fnmatch pattern */
	int nignore;
	const char *const *date; /* [ndates], tables: columns of dates */
	int ndates;
	const char *const *id_column; /* [nid_columns], tables: columns of ids, by name or pattern (csv_ids.h) */
	int nid_columns;
	int buckets; /* ids are hashed into so many; 0: they are numbered */
	/* [rooms], tables: the rows in which the network looks up each number of a row; 0: it computes with that. NULL:
	 * not known */
	const int *room;
	int rooms;
	bool fill;                 /* tables: cells may be missing; a number counts as its column's mean then */
	struct sl_csv_form form;   /* tables */
	int max_tokens;            /* texts: a row is cut at so many tokens */
	const char *tokenizer;     /* texts: the tokenizer's folder or file */
	bool cache;                /* texts: keep the tokens in a file beside the text */
	bool types;                /* texts: the network derives token types from the position of `mark` */
	int32_t mark;              /* texts: the token that ends a text */
	const char *const *column; /* [ncolumns], kind text: the column of texts, or the two of pairs */
	const char *const
		*train_files; /* [ntrain_files], kind text: training's files, which define classes; NULL: the usual */
	int ncolumns, ntrain_files;
	bool unlabelled; /* labels are not read, and need not be there */
	bool blind;      /* tables: the input is another party's, so there need not be any feature */
	const char *id;  /* tables: the column that names a row (sl_source.id), and is no feature; "" or NULL: none */
	const struct sl_aligned *aligned; /* tables and images: which rows to read, in which order; NULL: all */
	bool lacking; /* images: a class may have no picture here, since other members of the group have some */
	/* For prediction: files and folders as the user named them, [ngiven]. They replace dir and files, and no
	 * sample has a label. NULL: read a split of the data set. */
	const char *const *given;
	int ngiven;                        /* 0: the set has no sample yet, only its fields */
	const struct sl_set_rows *rows;    /* what the only file in `given` has; NULL: it is read */
	const struct sl_tokenizer *opened; /* texts: borrowed while the set is opened; NULL: `tokenizer` is opened */
	/* Tables: the JSON object that `describe` filled in training, with the names of classes. It defines columns
	 * and classes. NULL: train.csv in dir defines them. */
	const struct json_t *about;
	const struct sl_parts
		*parts; /* only this part of the training files' samples (parts.h); `split` is TRAIN then; NULL: all */
	struct sl_token_next next;           /* texts: how to make rows for a causal language model */
	const struct sl_learn_task *task;    /* what a target is; NULL: a class */
	const struct sl_volume_spec *volume; /* volumes: how they are prepared and cut (volume.h) */
};

struct sl_aligned;
struct sl_source;
struct sl_parts;
struct sl_tokenizer;
struct json_t;

/* Constant once open: any number of threads may use it. */
struct sl_set {
	const struct sl_source *source;
	void *data; /* private to the source */
	int64_t count;
	int64_t passed_over;     /* files in the data folders that are not pictures */
	char passed_kinds[120];  /* how many of each kind, for messages: "35 .gif, 2 .dcm" */
	int classes;             /* labels lie in [0, classes); 0: there are numbers, or several labels, instead */
	int vocab;               /* tokens lie in [0, vocab); 0: the input is no tokens */
	uint64_t tokenizer;      /* hash of the tokenizer's files; 0: there is none */
	bool next;               /* causal language model: a target is the index of the row's first token with a loss */
	int32_t pad;             /* the token that rows are padded with */
	struct sl_mask_ids mask; /* texts: the mask token, and the special tokens, which are not masked */
	const char *part;        /* of an evaluation's usual files: their part, as sl_set_part_of says; NULL: unknown */
	/* [count], in which group of data.split.by a sample is, 0 … groups − 1; NULL: in none. It belongs to the
	 * source */
	const int32_t *group;
	int groups;
	const char *const *metrics; /* metrics of these data, beside those of every evaluation; NULL: none */
	struct sl_field_type field[SL_FIELD_COUNT];
};

/* A part of a picture, in pixels, and the size that a transform will resize it to. out_h and out_w 0: it is not
 * resized. */
struct sl_window {
	int top, left, h, w;
	int out_h, out_w;
};

/* Which part of a picture must be decoded. Once a decoder knows the size, it calls `choose` with *window set to the
 * whole picture, and `choose` narrows *window to what is needed. The decoder may decode more. It may also shrink the
 * picture, as long as the part keeps at least out_h × out_w pixels. */
struct sl_wanted {
	void (*choose)(void *arg, struct sl_window *window);
	void *arg;
};

/* What a source draws random numbers from: for training data of which it makes other samples in each epoch. */
struct sl_sample_draw {
	uint64_t seed, epoch;
};

/* One thread's buffers for the samples that it reads. They grow to what the largest sample needs. Begins zeroed. */
struct sl_room {
	uint8_t *data;
	size_t bytes;
	uint8_t *file; /* a file's bytes before they are decoded */
	size_t file_bytes;
	uint8_t *deep; /* 16-bit pixels as floats, or a rotated picture */
	size_t deep_bytes;
	const struct sl_wanted *wanted;    /* asks for parts of pictures; NULL: whole pictures */
	const struct sl_sample_draw *draw; /* of a source that draws; NULL: as in the first epoch of seed 0 */
	struct sl_room *mask;              /* buffers for the picture's mask; NULL: none was read yet */
};

/* One field of one sample. `data` lies in the set or in the room: valid until the room is used again. Numbers of a
 * picture are bytes, or floats of 0 … 65535 (deep). `part` says which part of the file's picture, of h × w, this is.
 * That picture was shrunk by `shrink` in both directions (sides rounded up), and the part begins at (top, left) of
 * the result. shrink 0: this is the whole picture. */
struct sl_value {
	const void *data;
	bool deep;
	int64_t dim[SL_FIELD_DIMS];
	struct {
		int top, left, h, w, shrink;
	} part;
};

/* A source's functions. On failure `open` leaves *out unchanged. */
struct sl_source {
	const char *name;
	const void *format; /* private to the source */
	/* NOINPUT: a file cannot be opened; DATA: a file is not of this format, or there are more than
	 * SL_SET_MAX_SAMPLES; CONFIG, IO, NOMEM. */
	enum sl_err (*open)(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail);
	/* Does all checks of `open`, with the same errors, and fills count, classes and fields without reading the
	 * samples. NULL: `open` reads no more than that; sl_set_check opens the set and closes it again. */
	enum sl_err (*check)(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			     struct sl_fail *fail);
	bool checks_parts; /* `check` also knows spec->parts, and counts the samples of that part */
	/* Reads a sample: a function of `index`, and of room->draw, for any thread, at any time. DATA, NOINPUT: this
	 * sample cannot be read, and *fail names its file; IO, NOMEM. */
	enum sl_err (*sample)(const struct sl_set *set, int64_t index, struct sl_room *room,
			      struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail);
	void (*close)(struct sl_set *set);
	/* Names for messages: of a sample, written to `out` and returned, and of a class, or of a label or number of
	 * the target. NULL: there are no names. */
	const char *(*sample_name)(const struct sl_set *set, int64_t index, char *out, size_t size);
	const char *(*class_name)(const struct sl_set *set, int label);
	/* A hash that tells this set from others: of the contents of tables and texts, of the names and file sizes
	 * of pictures. NULL: the data are a standard set. */
	uint64_t (*fingerprint)(const struct sl_set *set);
	/* A sample's key, by which data.split assigns it to a part (parts.h). NULL: its name or number is the key. */
	uint64_t (*key)(const struct sl_set *set, int64_t index);
	/* What names a sample for other parties: with spec.id the cell of that column; a picture's file name without
	 * its ending. NULL: samples have no such name. */
	const char *(*id)(const struct sl_set *set, int64_t index, char *out, size_t size);
	/* Adds to a JSON object what the set learned from the training samples and needs to read others. NULL:
	 * nothing. */
	void (*describe)(const struct sl_set *set, struct json_t *about);
	/* A sample's label, without reading the sample. NULL: only `sample` has it. */
	int32_t (*label)(const struct sl_set *set, int64_t index);
	/* The same for a target of several numbers or labels. NULL: only `sample` has them. */
	const float *(*targets)(const struct sl_set *set, int64_t index);
	/* Of pictures: the size of a sample's file, -1: unknown; with `room` its bytes, too, in room->file. Any thread.
	 * NULL: samples are no files. */
	int64_t (*file)(const struct sl_set *set, int64_t index, struct sl_room *room);
	/* Of patches: a hash of the images from which a sample is cut, which is one for all of a case. NULL: samples
	 * are not cut from anything. */
	uint64_t (*images)(const struct sl_set *set, int64_t index);
	/* The number of tokens of a sample, 1 … 65535: a function of `index` alone, for any thread. NULL: the input
	 * is not tokens. */
	int64_t (*extent)(const struct sl_set *set, int64_t index);
};

const struct sl_source *sl_source_find(const char *name); /* a word of data.kind; NULL: there is none */

/* Opens a set, with the errors of the source's `open`; CONFIG also for an unknown spec->source. */
enum sl_err sl_set_open(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Fills count, classes and fields of *out; there is nothing to close. */
enum sl_err sl_set_check(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Finds a split's usual folder in `dir` or, with `end` (".csv"), its file: train or training; val, valid,
 * validation, dev, test or testing; also as "Test" or "TEST". false: none is there, or the path is too long. */
bool sl_set_usual(char out[PATH_MAX], const char *dir, enum sl_split split, const char *end);
/* Whether a path below `dir` is in such a folder, of either split. */
bool sl_set_in_part(const char *path);
/* The part that the evaluation's files or folder are, by their usual name: "validation" or "test"; NULL: it is another
 * name. */
const char *sl_set_part_of(const char *path);
/* How many cases the samples are cut from; 0: from none. */
int64_t sl_set_cases(const struct sl_set *set);
/* Whether samples are patches of cases, not whole ones. */
static inline bool sl_set_has_patches(const struct sl_set *set)
{
	return set->source->images && set->field[SL_FIELD_TARGET].ndim;
}
/* Whether a label is one of several classes, and not a number. */
static inline bool sl_set_has_classes(const struct sl_set *set)
{
	return set->field[SL_FIELD_TARGET].dtype == SL_I32 && set->classes > 1;
}

/* The label of a sample, in a set with classes. Reads the sample if the source has no `label`. */
enum sl_err sl_set_label(const struct sl_set *set, int64_t index, struct sl_room *room, int32_t *out,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Returns `err`. If it is an error and *why has a text, *fail becomes the sample's name and that text. */
enum sl_err sl_set_blame(const struct sl_set *set, int64_t index, enum sl_err err, const struct sl_fail *why,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_set_close(struct sl_set *set); /* idempotent; a zeroed one is fine */

/* Checks a field of the set against what the network takes. CONFIG: its name, number of dimensions or channels (last
 * dimension) differ, and *fail says what would fit. Sizes of pictures are not compared: transforms resize them. */
enum sl_err sl_set_fits(const struct sl_set *set, enum sl_field_use use, const struct sl_field_type *wanted,
			struct sl_fail *fail) SL_MUST_CHECK;

/* In a set of tokens: the most tokens that any `rows` samples have together. A smaller set counts as a whole. NOMEM. */
enum sl_err sl_set_most_tokens(const struct sl_set *set, int64_t rows, int64_t *out,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* How many numbers or labels a target has; 1 for a class. */
static inline int64_t sl_set_targets(const struct sl_set *set)
{
	return set->field[SL_FIELD_TARGET].ndim ? set->field[SL_FIELD_TARGET].dim[0] : 1;
}

/* A placeholder target, 0, for a sample without a label. Its value is not used. */
static inline struct sl_value sl_value_unlabelled(void)
{
	static const int64_t none;

	return (struct sl_value){.data = &none};
}

/* If only `wanted` of `all` samples are used, they are spread evenly over the list. Returns the position of the
 * index-th. */
static inline int64_t sl_set_spread(int64_t index, int64_t wanted, int64_t all)
{
	return wanted == all ? index : index * all / wanted;
}

/* Makes room->data at least `bytes` large. Its contents may be lost. NOMEM. */
enum sl_err sl_room_need(struct sl_room *room, size_t bytes) SL_MUST_CHECK;
enum sl_err sl_room_need_file(struct sl_room *room, size_t bytes) SL_MUST_CHECK; /* the same at room->file */
enum sl_err sl_room_need_deep(struct sl_room *room, size_t bytes) SL_MUST_CHECK; /* the same at room->deep */
void sl_room_close(struct sl_room *room);

#endif
