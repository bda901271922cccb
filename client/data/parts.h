/* One set of data shared out into training, validation and test (data.split). A sample's part follows from its key and
 * the seed alone: XXH3 of the key with the seed, as a fraction u of 2^64. So no other sample matters, and a set that
 * grows keeps the parts of what it has. Samples of one key are all in one part. */
#ifndef SL_CLIENT_DATA_PARTS_H
#define SL_CLIENT_DATA_PARTS_H

#include "client/data/source.h"

enum sl_parts_own { SL_PARTS_TRAIN, SL_PARTS_VAL, SL_PARTS_TEST, SL_PARTS_COUNT };

/* For a message: what to do where there is no set for validation. */
#define SL_PARTS_HINT "data.split shares out a single set, such as data.split: {train: 0.8, val: 0.2}"

struct sl_parts {
	double share[SL_PARTS_COUNT]; /* they add up to 1 */
	/* Above 0: of what is not of test, each of so many folds has as much. Fold number `fold`, from 0, is
	 * validation, and the others are training. share[SL_PARTS_TEST] alone counts then. */
	int folds, fold;
	uint64_t seed;
	/* Of tables and texts a column, whose text is the key. Of pictures a regular expression (POSIX, extended) over
	 * the path below `dir`: the key is what its first group matches, or all of it. "": the key is the sample: the
	 * contents of a row or text, else a file's name, or a sample's number. */
	const char *by;
	enum sl_parts_own own; /* which one is wanted */
};

/* u < 1 − test: training or validation, by u / (1 − test); else test. */
enum sl_parts_own sl_parts_of(const struct sl_parts *parts, uint64_t key);
/* The key of bytes. */
uint64_t sl_parts_key(const void *data, size_t bytes);
/* *set, opened by `spec` as a whole, becomes the own part of it, of which max_samples are spread evenly; it owns what
 * it was. CONFIG: the part has no sample; DATA: a name that `by` does not match; NOMEM. */
enum sl_err sl_parts_take(struct sl_set *set, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

#endif
