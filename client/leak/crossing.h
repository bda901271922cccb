/* Collects the tensors that cross the link, as the server gets them: of samples of the test set, after the real codec.
 * Head, middle and tail are computed in training mode, chunk by chunk, as --local does, with a learning rate of 0. */
#ifndef SL_CLIENT_LEAK_CROSSING_H
#define SL_CLIENT_LEAK_CROSSING_H

#include "client/setup/setup.h"

/* What the network reads, and what a row of struct sl_crossed is: a picture, a token, or a row of a table. The first
 * and last token of a text are left out, since the tokenizer adds them. */
enum sl_crossing_kind { SL_CROSSING_PICTURES, SL_CROSSING_TOKENS, SL_CROSSING_TABLE };

/* How the values that cross at a cut lie in a row of struct sl_crossed. Several lie position by position, one behind
 * the other, each of `width` floats from `first` on. Of pictures, the head's smaller maps are repeated to the size of
 * the largest, so that a decoder sees all values of a place together; elsewhere there is one position. */
struct sl_joint {
	int n;
	struct sl_shape row; /* [1, …] of all */
	int64_t all;         /* floats of a position */
	struct {
		struct sl_shape shape; /* [1, …] as it crosses */
		int64_t first, width;
	} value[SL_CUT_VALUES];
};

/* Of volumes: how many slices they have, which middle ones a decoder reconstructs, and the slices of head_act; 0: its
 * value is no volume. depth 0: the samples are no volumes. */
enum { SL_CROSSED_SLICES = 3 };
struct sl_crossed_depth {
	int depth, first, n, act;
};

/* Samples, and what crossed of them, row by row. A step that NaN or Inf ended has NaN for what did not cross. */
struct sl_crossed {
	int64_t n, most;                    /* rows, and the most that there is memory for */
	struct sl_joint joint[2];           /* of the head's end, of the tail's start */
	struct sl_shape head, mid, picture; /* of one sample, all values joined */
	float *act[SL_DIR_COUNT];           /* NULL: it does not cross, or is not kept; head_grad of a vertical pair */
	/* [n, picture]: pixels in [0, 1]; the token's row of the embedding table; the row's features. Of volumes the
	 * middle slices, [H, W, slices · channels]; where they are read from files, 0 and 1 are the least and the
	 * largest number of each channel in `aux`. */
	float *image;
	struct sl_crossed_depth volume;
	int32_t *label; /* of texts the token */
	float *mask;    /* [n, masks]: 1 at the class of each pixel; NULL: sl_crossing_masks has none */
	struct sl_shape masks;
};

struct sl_joint sl_joint_of(const struct sl_plan *plan, bool mid, bool pictures);
void sl_joint_put(const struct sl_joint *joint, const struct sl_tensor *x, float *to); /* joins the values x [n] */
/* The number `value` of the joined rows x [n, …], as rows of its own; the caller frees them. NULL: no memory. */
float *sl_joint_value(const struct sl_joint *joint, const float *x, int64_t n, int value);

void sl_crossed_close(struct sl_crossed *c); /* idempotent; a zeroed one is fine */
/* What crossed up of the slices around the middle ones, [n, shape]: side by side in the channels. *shape is that of one
 * sample. The caller frees it. NULL: no memory. */
float *sl_crossed_middle(const struct sl_crossed *c, struct sl_shape *shape);

enum sl_crossing_kind sl_crossing_kind(const struct sl_setup *setup); /* of an open test set */
/* Classes of a sample's label: those of the task, or 2 for a single yes or no. 0: the labels are others. */
int sl_crossing_classes(const struct sl_setup *setup);
/* Of a vertical pair whose labels are pixels: [1, height, width, classes]. Else of no dimension. */
struct sl_shape sl_crossing_masks(const struct sl_setup *setup);
/* The word embedding table in setup->weights, [vocab, *features]; NULL: the network reads no texts. */
const float *sl_crossing_words(const struct sl_setup *setup, int64_t *features);

/* Collects what crosses of two parts of the test set, with setup->weights. `victim` gets all tensors (of texts head_act
 * alone), `aux` gets head_act; both get images and labels. They have `victims` and `aux_rows` rows; a smaller test set
 * is divided in that ratio. Of a vertical pair, `aux` gets mid_act, too, and with masks head_grad. `text`, with texts:
 * at most `victims` of them, with their own labels, no image, and all tensors; where a tensor has a row for each token,
 * the mean of the text's rows. victim NULL: its samples are skipped. The caller closes all, after an error too. CONFIG:
 * pictures have neither one nor three channels, what crosses of a text has no row for each token, or that of a volume
 * has no slices. */
enum sl_err sl_crossing_collect(struct sl_setup *setup, int64_t victims, int64_t aux_rows, struct sl_crossed *victim,
				struct sl_crossed *aux, struct sl_crossed *text, struct sl_fail *fail) SL_MUST_CHECK;

#endif
