/* Labelled images in memory, read from the binary files of CIFAR-10 and CIFAR-100
 * (https://www.cs.toronto.edu/~kriz/cifar.html). A record is the label bytes (CIFAR-10: one; CIFAR-100: coarse, then
 * fine) and 3072 bytes of pixels, all red, then all green, then all blue values, each 32 rows of 32. */
#ifndef SL_CLIENT_DATA_DATASET_H
#define SL_CLIENT_DATA_DATASET_H

#include <stdint.h>

#include "common/base/err.h"

enum sl_dataset_kind { SL_DATASET_CIFAR10, SL_DATASET_CIFAR100, SL_DATASET_KIND_COUNT };
enum sl_dataset_split { SL_SPLIT_TRAIN, SL_SPLIT_TEST, SL_SPLIT_COUNT };

enum {
	SL_IMAGE_SIDE = 32,
	SL_IMAGE_CHANNELS = 3,
	SL_IMAGE_PIXELS = SL_IMAGE_SIDE * SL_IMAGE_SIDE,
	SL_IMAGE_BYTES = SL_IMAGE_CHANNELS * SL_IMAGE_PIXELS,
	SL_DATASET_MAX_RECORDS = 1 << 24 /* in all files together: 48 GiB of pixels */
};

struct sl_dataset_spec {
	enum sl_dataset_kind kind;
	enum sl_dataset_split split;
	const char *dir;          /* NULL: file names are used as they are */
	const char *const *files; /* read in this order; NULL: the standard files of the split */
	int nfiles;
	int64_t max_records; /* only the first so many (files behind them are not opened); 0: all */
};

/* Constant once open: any number of threads may read it. */
struct sl_dataset {
	uint8_t *pixels; /* [count, 3, 32, 32], as in the files */
	int32_t *labels; /* [count], each in [0, classes); of CIFAR-100 the fine ones */
	int64_t count;
	int classes;
};

/* A file holds one or more whole records. NOINPUT: a file cannot be opened; DATA: no record, a last one that is cut off
 * (both sizes are named), or a label out of range (the record is named, counted from 0 in its file); LIMIT: more than
 * SL_DATASET_MAX_RECORDS; IO; NOMEM. */
enum sl_err sl_dataset_open(struct sl_dataset *out, const struct sl_dataset_spec *spec,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* How many records it would have: all of its checks, and its errors. Reads the labels alone. */
enum sl_err sl_dataset_check(int64_t *count, const struct sl_dataset_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
int sl_dataset_classes(enum sl_dataset_kind kind);
void sl_dataset_close(struct sl_dataset *set); /* idempotent; a zeroed one is fine */

const char *sl_dataset_kind_name(enum sl_dataset_kind kind); /* "cifar10", "cifar100" */

#endif
