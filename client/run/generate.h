/* Text behind prompts, token by token: each pass is an evaluation of the rows that are not done, whose last tokens'
 * logits give the next token of each. Where keys and values are cached, a pass has what the cache lacks of each row,
 * else all of it. All tokens stay here, so a cache that is lost is filled again. */
#ifndef SL_CLIENT_RUN_GENERATE_H
#define SL_CLIENT_RUN_GENERATE_H

#include "client/run/feed.h"
#include "client/run/sample.h"
#include "client/run/setup.h"

enum sl_generate_end {
	SL_GENERATE_GOES_ON,
	SL_GENERATE_END,   /* by the end token, which is no part of the text */
	SL_GENERATE_LENGTH /* by the most tokens that a text or a row may have */
};

struct sl_generate_row {
	int32_t *id;   /* [n], the prompt first */
	int n, prompt; /* tokens; of these, the prompt's */
	enum sl_generate_end end;
	int cached; /* tokens that both sides have in their caches */
};

struct sl_generate_spec {
	struct sl_sampling how;
	int max_tokens;     /* of a text, behind its prompt */
	const int32_t *end; /* tokens that end a text [n_end] */
	int n_end;
	int vocab, batch, row_tokens; /* as planned */
	bool caches;
	/* Called for each row that is done, in order. */
	void (*done)(void *arg, int number, const struct sl_generate_row *row);
	void *arg;
};

struct sl_generate;

/* Prompts are copied: prompt i is id[begin[i] … begin[i + 1]), none empty, and shorter than a row may be. */
enum sl_err sl_generate_open(struct sl_generate **out, const struct sl_generate_spec *spec, const int32_t *id,
			     const int64_t *begin, int prompts, struct sl_fail *fail) SL_MUST_CHECK;
void sl_generate_close(struct sl_generate *g); /* NULL is fine */

/* The next pass; false: all rows are done. *feed is valid until the next call. */
bool sl_generate_feed(struct sl_generate *g, struct sl_feed *feed);
/* Where a pass writes its logits, [batch, vocab]. */
float *sl_generate_logits(struct sl_generate *g);
/* A link's caches are gone: rows begin anew. */
void sl_generate_forget(struct sl_generate *g);
/* Of the pass that was fed last. NONFINITE. */
enum sl_err sl_generate_take(struct sl_generate *g, struct sl_fail *fail) SL_MUST_CHECK;

/* All passes, in this process or with the server. `setup` has its plan, weights and backend. */
enum sl_err sl_generate_local(struct sl_setup *setup, struct sl_generate *g, struct sl_fail *fail) SL_MUST_CHECK;
/* A link that is lost is made anew, as link.on_server_lost says, and the pass under way is made again. */
enum sl_err sl_generate_remote(struct sl_setup *setup, struct sl_generate *g, struct sl_fail *fail) SL_MUST_CHECK;

#endif
