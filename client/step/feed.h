/* A batch as a pass over it reads it. */
#ifndef SL_CLIENT_STEP_FEED_H
#define SL_CLIENT_STEP_FEED_H

#include "client/data/loader.h"
#include "common/graph/cut.h"

/* The arrays are borrowed until the pass is over. */
struct sl_feed {
	const void *more[SL_CUT_VALUES - 1]; /* of a network with several inputs those behind the first, f32 */
	const void *input;                   /* images [rows, H, W, C], f32; or the tokens of all rows, i32 */
	const uint32_t *begin;               /* [rows + 1] offset of each row's tokens; NULL: the input has no tokens */
	const void *target;                  /* [rows]: labels, i32, or numbers to be predicted, f32 */
	int64_t rows;                        /* at most the planned batch */
	const int32_t *other;   /* [rows] for mixup, with `share`: see struct sl_batch; NULL: rows are not mixed */
	const float *share;     /* [rows] */
	const uint32_t *pieces; /* [2·rows + 1], for padding: see struct sl_dims; NULL: rows are not padded */
	const uint32_t *cached; /* [2·rows]: see struct sl_dims; NULL: no part of a row is cached */
	/* For rows of which only some tokens have a target: chosen [rows + 1] is where each row's begin in `place` and
	 * in the target. place has their positions among the batch's tokens. NULL: targets are by row. */
	const uint32_t *chosen, *place;
	const int32_t *samples; /* [rows] their indices in the set; NULL: unknown */
};

/* Chosen tokens or, where none are chosen, rows. */
static inline int64_t sl_feed_answers(const struct sl_feed *feed)
{
	return feed->chosen ? (int64_t)feed->chosen[feed->rows] : feed->rows;
}

/* Tokens with padding or, where there are none, rows. */
static inline int64_t sl_feed_tokens(const struct sl_feed *feed)
{
	return feed->begin ? (int64_t)feed->begin[feed->rows] : feed->rows;
}

static inline struct sl_feed sl_feed_of(const struct sl_batch *b)
{
	struct sl_feed feed = {
		.input = b->input[0],
		.begin = b->begin,
		.target = sl_batch_target(b),
		.rows = b->rows,
		.other = b->other,
		.share = b->share,
		.pieces = b->pieces,
		.chosen = b->chosen,
		.place = b->place,
		.samples = b->samples,
	};

	for (int k = 1; k < SL_CUT_VALUES; k++)
		feed.more[k - 1] = b->input[k];
	return feed;
}

#endif
