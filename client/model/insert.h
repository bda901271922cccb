/* Learned inserts: layers either side of a cut that make what crosses it smaller.
 * The text of a cut is a list of items joined with '+'. They are applied in order before the link, and undone in
 * reverse order after it:
 *
 *   conv:C[,k=K][,s=S][,p=P]   K×K convolution to C channels, stride S, padding P (1, 1, 0 where left out), with bias;
 *                              undone by a transposed convolution that restores the exact shape, or by a plain one
 *                              if K = S = 1. Of volumes K, S and P count along the depth, too: K×K×K. The transposed
 *                              one then has K biases for a channel, one for each place along the depth
 *   linear:F                   over the last dimension to F features, without bias; both start as (slices of) the
 *                              identity, so that the first F features cross unchanged and the others come back as 0
 *   linear:F,tokens=N          also a second pair of layers, from the tokens of a row to N and back. As with rate2
 *                              below, each row crosses as [F, N]. It must be the last item
 *   decaylinear:rate=R,every=S,times=T[,l1=L][,from=A][,rate2=Q]
 *                              a linear layer to as many features as there are, and one back, which begin as the
 *                              identity and narrow: after every S steps the width w becomes ⌊w·R⌋, T times; rows of
 *                              the first matrix and columns of the second that the next narrowing removes have
 *                              L·sign(w) added to their gradient, once a step. The schedule starts as if A steps
 *                              were done. It must be the last item. With rate2 there is a second pair, over the
 *                              tokens of a row: at the same steps their number n becomes ⌊n·Q⌋. Rows are then
 *                              padded to one length, and each crosses as [features, tokens]
 *   none                       the same as the empty text
 *   bottleneck:58, :83, :153   the only item: two convolutions; so many times fewer elements cross at 224²
 *                              (MobileNetV2 cut after its first batch norm and before the classifier). insert.head
 *                              conv:32,k=4,s=4+conv:4, conv:32,k=8,s=8+conv:16, conv:32,k=8,s=8+conv:8; insert.tail
 *                              conv:400+conv:100, conv:300+conv:50, conv:300+conv:30
 *
 * The second pair's matrices are insert.head.0.tokens and insert.head.restore.0.tokens. They lie inside: the features
 * narrow first, and are restored last.
 *
 * In a decaying pair only the live part is used in a step; the rest is 0, moments included (decay.h, exec.h). The
 * second matrix is stored transposed, [features that cross, features], so that the live part is the front of both.
 *
 * The items of `head` end the head and begin the middle; those of `tail` end the middle and begin the tail. Ops and
 * parameters are called insert.head.0, insert.head.restore.0 (which undoes item 0), insert.tail.0 and so on. */
#ifndef SL_CLIENT_MODEL_INSERT_H
#define SL_CLIENT_MODEL_INSERT_H

#include "common/graph/model.h"

enum { SL_INSERT_TEXT = 128, SL_INSERT_MAX_ITEMS = 4 };

enum sl_insert_kind { SL_INSERT_CONV, SL_INSERT_LINEAR, SL_INSERT_DECAY };

struct sl_insert_item {
	enum sl_insert_kind kind;
	int c; /* channels or features that cross */
	int k, stride, pad;
	int slices, made;       /* CONV of volumes: of its input and output; 0: pictures. Set by sl_insert_build */
	int tokens;             /* LINEAR: how many of a row cross; 0: there is no second pair */
	int row_tokens;         /* with a second pair: tokens of a row; set by sl_insert_build */
	struct sl_decay decay;  /* DECAY; sl_insert_build sets `full` and, with rate2, `tokens` */
	struct sl_shape before; /* of the item's input, for one row; set by sl_insert_build */
};

/* The layers of one cut. n 0: none. */
struct sl_insert {
	const char *key; /* "insert.head" or "insert.tail", for names and errors */
	/* Tokens of every row, if all are padded to one length; else 0. The caller sets it before sl_insert_build. */
	int64_t row_tokens;
	/* Slices of the value at the cut; 0: it is a picture; -1: a volume, of which no layer says how many. The caller
	 * sets it before sl_insert_build. */
	int slices;
	int most; /* `most` of the graph that it is built into (graph.h), for the transpose back */
	int n;
	struct sl_insert_item item[SL_INSERT_MAX_ITEMS];
};

/* Parses the text of a cut. Errors are CONFIG at `key`. */
enum sl_err sl_insert_parse(struct sl_insert *out, const char *key, const char *text,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* sl_insert_build adds the layers in front of the link behind `value`; sl_insert_restore adds the layers that undo them
 * to another builder's graph. Each returns its last value. The parameters are optional in weight files, and stand
 * behind the model's own, so that a seed initialises those as without inserts. Failures go to the builder. */
int sl_insert_build(struct sl_insert *insert, struct sl_build *b, int value);
int sl_insert_restore(const struct sl_insert *insert, struct sl_build *b, int value);
/* The schedule by which a built insert narrows; full 0: it does not. */
struct sl_decay sl_insert_decay(const struct sl_insert *insert);

/* Writes the text to out [SL_INSERT_TEXT] without blanks, defaults and presets, so that equal inserts have equal text.
 * The schedule of a decaying layer is advanced by `steps`, or with INT64_MAX to its end, so that the text fits weights
 * that were trained for so long. CONFIG as above, without the key. */
enum sl_err sl_insert_advance(const char *text, bool tail, int64_t steps, char *out,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
