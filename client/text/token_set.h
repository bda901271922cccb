/* A set of texts as token ids, all in memory, from which a source of samples for a text model reads. Ids take 2 bytes
 * each if the vocabulary allows it, else 4. */
#ifndef SL_CLIENT_TEXT_TOKEN_SET_H
#define SL_CLIENT_TEXT_TOKEN_SET_H

#include "client/text/label.h"
#include "client/text/records.h"
#include "client/text/token_next.h"

enum { SL_TOKEN_SET_MOST = 1 << 24 /* rows */, SL_TOKEN_SET_PARTS = 3 };

/* Divides a set: of(arg, key) is the part, below SL_TOKEN_SET_PARTS, of texts with that key (sl_token_set_key). `of`
 * NULL: there is one part. */
struct sl_token_parts {
	int (*of)(const void *arg, uint64_t key);
	const void *arg;
	uint64_t hash; /* differs if the parts differ */
};

struct sl_token_set_spec {
	const struct sl_tokenizer *tokenizer; /* only while the set is opened */
	struct sl_records_spec records;       /* label.number -1 and no name: the set has no labels */
	struct sl_labels labels;
	int32_t max_length;          /* 0: no limit */
	struct sl_token_next next;   /* on: rows are for a causal language model, and have no labels */
	struct sl_token_parts parts; /* no row of joined texts has texts of two parts */
	bool cache;                  /* keep the ids in a file beside the text, FILE.tokens */
	struct sl_bytes text;        /* what records.path has; data NULL: the file is read */
};

/* Constant once open: any number of threads may use it. */
struct sl_token_set;

/* One row. */
struct sl_token_sample {
	int32_t n;     /* ids */
	int32_t first; /* ids [0, first) have token type 0, the others 1; with `next` they have no loss */
	int32_t whole; /* number of ids before the cut at max_length */
	union sl_label value;
};

/* Takes the ids from the cache, if it was written for the same text, tokenizer and settings, and is not damaged.
 * Otherwise it reads the text, and writes the cache; if that fails a line of the log says so. NOINPUT; DATA: a row is
 * malformed, is no UTF-8, has an empty text or an unknown label, and *fail names file and line, or there are
 * more than SL_TOKEN_SET_MOST rows; IO, NOMEM. */
enum sl_err sl_token_set_open(struct sl_token_set **out, const struct sl_token_set_spec *spec,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_token_set_close(struct sl_token_set *set); /* NULL is fine */

int64_t sl_token_set_count(const struct sl_token_set *set);
int32_t sl_token_set_longest(const struct sl_token_set *set); /* ids of the longest row */
/* A hash of all ids and labels, chained to `seed`. */
uint64_t sl_token_set_hash(const struct sl_token_set *set, uint64_t seed);
/* A hash of the row's texts as the file has them, not of their ids. A row of joined texts has that of one of them. */
uint64_t sl_token_set_key(const struct sl_token_set *set, int64_t index);
/* The number of ids of row `index`, in [0, count). */
int32_t sl_token_set_length(const struct sl_token_set *set, int64_t index);
/* The label of row `index`, which the set owns. */
const union sl_label *sl_token_set_value(const struct sl_token_set *set, int64_t index);
/* Writes the row's ids to id[0 … length). The result depends on `index` alone. */
struct sl_token_sample sl_token_set_sample(const struct sl_token_set *set, int64_t index, int32_t *id);

#endif
