/* Splits one data set into training, validation and test (data.split). Samples with the same key are all in one part.
 * By hash, a key's part depends on key and seed alone: XXH3 of the key with the seed, as a fraction u of 2^64. So other
 * samples do not matter. By class, each class's keys are ordered by that hash, and u is a key's place among them: the
 * middle of its samples. A key of several classes counts for the rarest. So parts have equal shares of each class, as
 * far as keys allow, whatever the order of the samples; where the set grows, few keys near a border change parts. */
#ifndef SL_CLIENT_DATA_PARTS_H
#define SL_CLIENT_DATA_PARTS_H

#include "client/data/name_list.h"
#include "client/data/source.h"

enum sl_parts_own { SL_PARTS_TRAIN, SL_PARTS_VAL, SL_PARTS_TEST, SL_PARTS_COUNT };

/* Advice for messages, where there is no validation set. */
#define SL_PARTS_HINT "data.split shares out a single set, such as data.split: {train: 0.8, val: 0.2}"

struct sl_parts {
	double share[SL_PARTS_COUNT]; /* they add up to 1 */
	/* folds > 0: cross-validation. All but the test part is divided into equal folds. Fold number `fold`, from
	 * 0, is validation, and the others are training. Of `share` only share[SL_PARTS_TEST] counts then. */
	int folds, fold;
	uint64_t seed;
	bool by_place; /* the key is a sample's place in the set, whatever it holds */
	/* What gives a sample its key. Tables and texts: the name of a column, whose text is the key. Pictures: a
	 * POSIX extended regular expression over the path below `dir`; the key is what its first group matches, or
	 * the whole match. "": the key is the contents of a row or text, else the file's path below its class's
	 * folder, or the sample's number. */
	const char *by;
	enum sl_parts_own own; /* the part that is wanted */
	bool by_class;         /* as above, where the set has classes; else by hash */
};

/* The part of a key: training or validation, by u / (1 − test), if u < 1 − test; else test. */
enum sl_parts_own sl_parts_of(const struct sl_parts *parts, uint64_t key);
/* Hashes bytes to a key. */
uint64_t sl_parts_key(const void *data, size_t bytes);
/* keys [names->n]: of what data.split.by matches in each name, or of the whole names without it. */
enum sl_err sl_parts_name_keys(const struct sl_set_spec *spec, const struct sl_names *names, uint64_t *keys,
			       struct sl_fail *fail) SL_MUST_CHECK;
struct sl_parts_row {
	double number; /* 0 for texts */
	uint64_t value, label;
	int64_t at;
};

/* Notes in row->value what stands before the last number of a file's name, such as p012_03.png; *name: without its
 * folder. False: there is none. */
bool sl_parts_note_beginning(struct sl_parts_row *row, const char *path, const char **name);
/* Warns if most names of cases tell that several are of one patient, and data.split divides them one by one. */
void sl_parts_warn_of_cases(const struct sl_set_spec *spec, const struct sl_names *names);
/* Whether training's samples are divided one by one, without `by`. */
bool sl_parts_divides_rows(const struct sl_set_spec *spec);

/* Patients at least, of tables and pictures, and of cases: their names tell no class, and sets are small. */
enum { SL_PARTS_LEAST = 20, SL_PARTS_LEAST_CASES = 3, SL_PARTS_MOST_ROWS = 50 };

/* Whether n rows seem to be several of each patient or customer, whom `value` names. Sorts them, and counts *values.
 * Fewer than `least` values are kinds; SL_PARTS_LEAST is for tables and for folders of pictures. So are values of more
 * than 50 rows each, such as an age in a large table. Below 2 rows each, or where most have one, hardly any are
 * divided. `numbers`, which are whole, are names rather than quantities if rows of one follow each other, or have one
 * label where the next number's have another: a quantity's neighbours resemble it, and those of noise differ no more
 * than its own rows. */
bool sl_parts_repeat(struct sl_parts_row *row, int64_t n, int64_t least, bool numbers, int64_t *values);
/* Replaces *set, the whole set that `spec` opened, by its part spec->parts->own. The new set owns the old one. CONFIG:
 * the part has no sample, or `by` is not a regular expression; DATA: a name that `by` does not match; NOMEM. On failure
 * *set is unchanged. */
enum sl_err sl_parts_take(struct sl_set *set, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

#endif
