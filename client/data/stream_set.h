/* Lines that come one by one, as a set of samples to predict: a batch's lines at a time. The source that reads a file
 * of such rows reads each line, so both become the same input. A line that cannot be read fails alone.
 *
 *   pictures   the path of a file, or {"file": PATH}.
 *   tables     an object with a member for each column, or a row of CSV. `header` names the row's columns.
 *   texts      the text, two with a tab between them, or an object with the members that data.columns names. */
#ifndef SL_CLIENT_DATA_STREAM_SET_H
#define SL_CLIENT_DATA_STREAM_SET_H

#include "client/data/source.h"

struct sl_stream_line {
	struct sl_bytes text; /* data NULL: the line was too long */
	uint64_t number;      /* from 0, in its stream */
	bool json;
	struct sl_bytes header; /* of a row of CSV, which is not the stream's first line; data NULL: there is none */
};

struct sl_stream_set_spec {
	int64_t most;          /* lines of a batch */
	bool pictures;         /* a line names a file */
	const char *tokenizer; /* texts: its folder or file; NULL: others */
	int64_t most_tokens;   /* texts: of a row */
	/* Opens the set of one sample: what *rows has or, of a picture, the file `name`. `name` NULL: the set without a
	 * sample. Any thread. */
	enum sl_err (*open)(const void *arg, const char *name, const struct sl_set_rows *rows,
			    const struct sl_tokenizer *tokenizer, struct sl_set *out, struct sl_fail *fail);
	const void *arg; /* outlives the set */
};

/* Opens a set of spec->most samples, without lines yet. Errors: those of spec->open and of opening the tokenizer. */
enum sl_err sl_stream_set_open(struct sl_set *out, const struct sl_stream_set_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* Makes a copy of a line the sample `index`, and the last one. If there is no memory, it cannot be read. */
void sl_stream_set_put(struct sl_set *set, int64_t index, const struct sl_stream_line *line);

#endif
