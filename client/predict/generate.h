/* Generates text that continues prompts, token by token. Each pass evaluates the rows that are not done, and the logits
 * of a row's last token give its next token. If keys and values are cached, a pass has only what the cache lacks of
 * each row, otherwise all of it. The client holds all tokens, so it can fill a lost cache again. */
#ifndef SL_CLIENT_PREDICT_GENERATE_H
#define SL_CLIENT_PREDICT_GENERATE_H

#include "client/predict/sample.h"
#include "client/setup/setup.h"
#include "client/step/feed.h"

enum sl_generate_end {
	SL_GENERATE_GOES_ON,
	SL_GENERATE_END,   /* an end token came, which is not part of the text */
	SL_GENERATE_LENGTH /* the text, or its row, has the most tokens that it may have */
};

struct sl_generate_row {
	int32_t *id;   /* [n], the prompt first */
	int n, prompt; /* tokens; of these, the prompt's */
	enum sl_generate_end end;
	int cached; /* tokens that both sides have in their caches */
};

struct sl_generate_spec {
	struct sl_sampling how;
	int max_tokens;     /* most tokens of a text, without its prompt */
	const int32_t *end; /* [n_end] tokens that end a text */
	int n_end;
	int vocab, batch, row_tokens; /* as in the plan */
	bool caches;                  /* keys and values are cached */
	/* Called for each row that is done, in order. */
	void (*done)(void *arg, int number, const struct sl_generate_row *row);
	void *arg;
};

struct sl_generate;

/* Prompts are copied: prompt i is id[begin[i] … begin[i + 1]). DATA: one is empty, or leaves no room in its row. */
enum sl_err sl_generate_open(struct sl_generate **out, const struct sl_generate_spec *spec, const int32_t *id,
			     const int64_t *begin, int prompts, struct sl_fail *fail) SL_MUST_CHECK;
void sl_generate_close(struct sl_generate *g); /* NULL is fine */

/* Prepares the next pass; false: all rows are done. *feed is valid until the next call. */
bool sl_generate_feed(struct sl_generate *g, struct sl_feed *feed);
/* Where a pass writes its logits, [batch, vocab]. */
float *sl_generate_logits(struct sl_generate *g);
/* A link's caches are lost: the next pass has the whole of each row. */
void sl_generate_forget(struct sl_generate *g);
/* After a pass: appends a token to each of its rows, and calls `done`. NONFINITE: a logit is NaN or Inf. */
enum sl_err sl_generate_take(struct sl_generate *g, struct sl_fail *fail) SL_MUST_CHECK;

/* generate_run.c: runs all passes, with the server or (local) in this process. `setup` has its plan, weights and
 * backend. If link.on_server_lost says so, a new link takes the place of a lost one, and repeats the pass under way. */
enum sl_err sl_generate_run(struct sl_setup *setup, struct sl_generate *g, bool local,
			    struct sl_fail *fail) SL_MUST_CHECK;

#endif
