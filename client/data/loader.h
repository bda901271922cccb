/* Batches of network input, prepared ahead on the loader's own thread.
 * Batch (epoch, index) is a function of data set, spec and those two numbers alone: the same bits for any number of
 * threads and any prefetch, so that a step can be replayed. Training takes a new permutation of the set in each
 * epoch (with by_length, of batches of rows of similar length), and augments. Evaluation takes the set in order, and
 * does not augment. All calls belong to one thread, the consumer's. Only sl_loader_next, sl_loader_take and
 * sl_loader_close block. */
#ifndef SL_CLIENT_DATA_LOADER_H
#define SL_CLIENT_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/data/augment.h"
#include "client/data/source.h"
#include "client/data/transform.h"
#include "common/base/err.h"
#include "common/graph/cut.h"

/* A source of one of the network's inputs. */
struct sl_loader_input {
	const struct sl_set *set;
	const struct sl_augment *augment;     /* as in struct sl_loader_spec */
	const struct sl_transform *transform; /* the same */
	int place;                            /* of the input among the network's */
	bool skip_bad;                        /* the same */
};

/* How rows of tokens are padded: not at all, to the longest of the batch, all to `pad_to`. */
enum sl_pad { SL_PAD_NONE, SL_PAD_LONGEST, SL_PAD_MAX };

struct sl_loader_spec {
	const struct sl_set *set; /* set, augment and transform outlive the loader; the set has at least one sample */
	const struct sl_augment *augment;     /* takes images of the set's size; NULL: `transform` instead */
	const struct sl_transform *transform; /* NULL with `augment`, and for sets without pictures */
	int place;                            /* as in struct sl_loader_input */
	/* [n_more], further sources: their sample i belongs to sample i of `set`. One in the place of `set`, which has
	 * labels alone then, gives the input. */
	struct sl_loader_input more[SL_CUT_VALUES];
	int n_more;
	int64_t batch;  /* samples; the last batch of an epoch may have fewer */
	bool drop_last; /* leave out a last batch that has fewer */
	bool train;     /* shuffle and augment */
	bool predict;   /* files of a user: a sample that cannot be read gets no prediction */
	/* members > 1: a batch is part number `member` of a joint batch of batch × members samples. Samples that do
	 * not fill a joint batch are left out. */
	int members, member;
	/* True: a sample that this source cannot read is named in the log, once, and the next one that all can read
	 * replaces it. Which one that is depends on the sets alone, so that a step can be replayed. False: the batch
	 * has the error (`err`). */
	bool skip_bad;
	bool apart;     /* a sample that cannot be read spoils its row alone: see sl_batch.row_fail */
	bool balanced;  /* training on classes: each class that occurs has equally many places, so samples may repeat */
	bool by_length; /* training on tokens: the rows of a batch are of similar length */
	enum sl_pad pad; /* tokens: how rows are padded */
	int64_t pad_to;  /* SL_PAD_MAX: tokens of a row, at least the set's longest */
	float masked;    /* tokens: the share of them that is masked (mask.h); 0: none */
	bool next;       /* causal language model: the label of a token is the next one; as set->next */
	double mixup;    /* training: rows are mixed with λ ~ Beta(mixup, mixup) (mixup.h); 0: they are not */
	uint64_t seed;
	/* Batches prepared ahead. 0: a batch is prepared once sl_loader_request asks for it, and the consumer may
	 * change the set while no request is open. */
	int prefetch;
	int threads; /* that prepare a batch together, ≥ 1; 0: one for each CPU that this process may use */
	/* Called, on any thread, when sl_loader_drain has something to do (uv_async_send). NULL: the consumer uses
	 * sl_loader_next. */
	void (*wake)(void *arg);
	void *wake_arg;
};

/* One field of a batch. Images are f32 [rows, out_h, out_w, channels]; other fields are as the set declares them.
 * Rows from `rows` to spec.batch are undefined. Tokens of all rows are contiguous. */
struct sl_batch_field {
	void *data;
	struct sl_field_type type; /* of a row */
};

/* Valid and unchanged until released. */
struct sl_batch {
	struct sl_batch_field field[SL_FIELD_COUNT];
	const void *input[SL_CUT_VALUES]; /* by the places of spec: the field INPUT, or that of a further source */
	int64_t rows;
	uint64_t epoch;
	int64_t index;          /* in the epoch, in [0, sl_loader_batches) */
	double waited_s;        /* seconds from the request to the batch */
	const int32_t *samples; /* [rows], which samples of the set */
	const uint32_t *begin;  /* [rows + 1], where the tokens of each row begin; NULL: the input is no tokens */
	const uint32_t *pieces; /* [2·rows + 1], for padded rows: see struct sl_dims; NULL: rows are not padded */
	const int32_t *other;   /* [rows], the second label of each mixed row; NULL: rows are not mixed */
	const float *share; /* [rows], weight of a mixed row's first label, at least half; the second has the rest */
	/* For language models, masked or causal: the chosen tokens of row r are place[chosen[r] … chosen[r + 1]), as
	 * indices into the batch's tokens. The target has a label for each chosen token, and not for each row. NULL:
	 * other tasks. */
	const uint32_t *chosen, *place;
	const struct sl_fail *row_fail; /* [rows] with spec.apart; code not OK: why the row is zeros */
	enum sl_err err; /* not OK: the batch has no rows, since a sample could not be read; `why` names it */
	struct sl_fail why;
};

static inline const float *sl_batch_images(const struct sl_batch *b)
{
	return b->field[SL_FIELD_INPUT].data;
}

static inline const void *sl_batch_target(const struct sl_batch *b)
{
	return b->field[SL_FIELD_TARGET].data;
}

static inline const int32_t *sl_batch_labels(const struct sl_batch *b)
{
	return sl_batch_target(b);
}

struct sl_loader;

/* Called by sl_loader_drain. From then on the consumer holds the batch, until sl_loader_release. */
typedef void sl_loader_fn(void *arg, const struct sl_batch *batch);

/* The first batch is (epoch 0, index 0). All memory is taken here, but for what sources read into. CONFIG: the set
 * does not suit the spec, or an epoch would have no batch; LIMIT: a batch may have too many tokens; NOMEM, OS. */
enum sl_err sl_loader_open(struct sl_loader **out, const struct sl_loader_spec *spec,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_loader_close(struct sl_loader *loader); /* NULL is fine; waits for the batch in preparation; frees a held one */

int64_t sl_loader_batches(const struct sl_loader *loader); /* per epoch */

/* Makes (epoch, index) the next batch. Discards what was prepared, unless that is the next batch already. A held
 * batch stays. BUG: index outside the epoch, or a request is open. */
enum sl_err sl_loader_seek(struct sl_loader *loader, uint64_t epoch, int64_t index) SL_MUST_CHECK;

/* Asks for the next batch; the first of the next epoch follows the last of an epoch. `fn` is called once, always
 * from sl_loader_drain, as soon as the batch is ready and none is held. BUSY: the previous request is still open. */
enum sl_err sl_loader_request(struct sl_loader *loader, sl_loader_fn *fn, void *arg) SL_MUST_CHECK;
/* Collects finished batches and answers the open request. Must not be called from inside `fn`. */
void sl_loader_drain(struct sl_loader *loader);

/* The blocking form, for a consumer without an event loop. LIMIT: a batch is held; BUSY: a request is open. */
enum sl_err sl_loader_next(struct sl_loader *loader, const struct sl_batch **out) SL_MUST_CHECK;
/* The same for a consumer that stops at a bad sample: a batch with `err` is a failure, too. On failure *fail says
 * why, *out is NULL, and no batch is held. */
enum sl_err sl_loader_take(struct sl_loader *loader, const struct sl_batch **out, struct sl_fail *fail) SL_MUST_CHECK;

void sl_loader_release(struct sl_loader *loader, const struct sl_batch *batch);

#endif
