/* What a pass over one batch is given. */
#ifndef SL_CLIENT_RUN_FEED_H
#define SL_CLIENT_RUN_FEED_H

#include "client/data/loader.h"

/* Borrowed until the pass is over. */
struct sl_feed {
	const void *input;      /* images [rows, H, W, C], f32; or the tokens of all rows, i32 */
	const uint32_t *begin;  /* where the tokens of each row begin, [rows + 1]; NULL: the input is images */
	const void *target;     /* [rows]: labels, i32, or numbers to be predicted, f32 */
	int64_t rows;           /* at most the planned batch */
	const int32_t *other;   /* [rows], of mixed rows: see struct sl_batch; NULL: there are none */
	const float *share;     /* [rows] */
	const uint32_t *pieces; /* of padded rows, [2·rows + 1]: see struct sl_dims; NULL: they are not */
	const uint32_t *cached; /* [2·rows]: see struct sl_dims; NULL: rows are whole */
	/* Of masked rows: where each row's chosen tokens begin in `place` and in the target, [rows + 1]; NULL: they are
	 * not. */
	const uint32_t *chosen, *place;
	const int32_t *samples; /* [rows], which of the set they are; NULL: nobody knows */
};

/* Labels, or numbers to be predicted. */
static inline int64_t sl_feed_answers(const struct sl_feed *feed)
{
	return feed->chosen ? (int64_t)feed->chosen[feed->rows] : feed->rows;
}

/* With padding. */
static inline int64_t sl_feed_tokens(const struct sl_feed *feed)
{
	return feed->begin ? (int64_t)feed->begin[feed->rows] : feed->rows;
}

static inline struct sl_feed sl_feed_of(const struct sl_batch *b)
{
	return (struct sl_feed){
		.input = b->field[SL_FIELD_INPUT].data,
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
}

#endif
