/* Learned inserts: layers either side of a cut that make what crosses it smaller.
 * A side's text is a list of items joined with '+', applied in order before the link and undone in reverse behind it:
 *
 *   conv:C[,k=K][,s=S][,p=P]   K×K convolution to C channels, stride S, padding P (1, 1, 0 where left out), with bias;
 *                              undone by the transposed convolution that gives the shape back exactly, which is a
 *                              plain one where K = S = 1
 *   linear:F                   over the last dimension to F features, without bias; both start as (slices of) the
 *                              identity, so that the first F features cross unchanged and the others come back as 0
 *   linear:F,tokens=N          a second pair, too, from the tokens of a row to N and back. As with rate2 below, what
 *                              crosses is [F, N] of each row. The last of its side
 *   decaylinear:rate=R,every=S,times=T[,l1=L][,from=A][,rate2=Q]
 *                              a linear layer to as many features as there are, and one back, which begin as the
 *                              identity and narrow: after every S steps the width w becomes ⌊w·R⌋, T times; rows of
 *                              the first matrix and columns of the second that are to go at the next fall have
 *                              L·sign(w) added to their gradient, once a step. A steps count as done before the
 *                              first. The last of its side. With rate2 there is a second pair, over the tokens of
 *                              a row: at the same steps their number n becomes ⌊n·Q⌋. Rows are then padded to one
 *                              length, and what crosses is [features, tokens] of each row
 *   none                       the same as the empty text
 *   bottleneck:58, :83, :153   alone: two convolutions a side, by which so many times fewer elements cross at 224²
 *                              (MobileNetV2 cut behind its first batch norm and before the classifier). insert.head
 *                              conv:32,k=4,s=4+conv:4, conv:32,k=8,s=8+conv:16, conv:32,k=8,s=8+conv:8; insert.tail
 *                              conv:400+conv:100, conv:300+conv:50, conv:300+conv:30
 *
 * The second pair's matrices are insert.head.0.tokens and insert.head.restore.0.tokens. They lie inside: the features
 * narrow first, and are restored last.
 *
 * Of a decaying pair only the live part takes part in a step; the rest is 0, moments included (decay.h, exec.h). The
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
	int tokens;             /* LINEAR: of a row that cross; 0: tokens as they are */
	int row_tokens;         /* with a second pair: of a row, set as it is built */
	struct sl_decay decay;  /* DECAY; `full` and, with rate2, `tokens` are set as it is built */
	struct sl_shape before; /* of one row, of what comes in; set as it is built */
};

/* The layers of one cut. n 0: none. */
struct sl_insert {
	const char *key; /* "insert.head" or "insert.tail": names, and failures */
	/* Of every row, where rows are all padded to one length; else 0. The caller sets it before it builds. */
	int64_t row_tokens;
	int most; /* of the graph that it is built into (graph.h), for a transpose back */
	int n;
	struct sl_insert_item item[SL_INSERT_MAX_ITEMS];
};

/* CONFIG: the text begins with the key. */
enum sl_err sl_insert_parse(struct sl_insert *out, const char *key, const char *text,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Adds the layers in front of the link behind `value`, in `b`'s graph, and in another builder those that undo them;
 * each returns the value that they make. Parameters are optional in weight files, and stand behind the model's own, so
 * that a seed initialises those as without inserts. Failures go to the builder. */
int sl_insert_build(struct sl_insert *insert, struct sl_build *b, int value);
int sl_insert_restore(const struct sl_insert *insert, struct sl_build *b, int value);
/* The schedule of what crosses, once it is built; full 0: nothing decays. */
struct sl_decay sl_insert_decay(const struct sl_insert *insert);

/* Writes the text without blanks, defaults and presets: equal text, equal insert. CONFIG as above, without the prefix.
 * out [SL_INSERT_TEXT]. The schedule of a decaying layer has begun `steps` steps earlier: what weights that were
 * trained so long fit. INT64_MAX: at its end. */
enum sl_err sl_insert_advance(const char *text, bool tail, int64_t steps, char *out,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
