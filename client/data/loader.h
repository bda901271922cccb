/* Batches of network input, prepared ahead on a thread of the loader's own.
 * Batch (epoch, index) is a function of data set, spec and those two numbers alone: the same bits for any number of
 * threads and any prefetch, so that a step can be replayed. Training batches are a permutation of the set that is new
 * in each epoch, augmented, or of rows of like length a permutation of batches of them; evaluation batches are the set
 * in order, not augmented. All calls belong to one thread, the consumer's. None blocks but sl_loader_next and
 * sl_loader_close. */
#ifndef SL_CLIENT_DATA_LOADER_H
#define SL_CLIENT_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/data/augment.h"
#include "client/data/source.h"
#include "client/data/transform.h"
#include "common/base/err.h"

/* How rows of tokens are made as long as each other: not at all, as the longest of the batch, all as `pad_to`. */
enum sl_pad { SL_PAD_NONE, SL_PAD_LONGEST, SL_PAD_MAX };

struct sl_loader_spec {
	const struct sl_set *set;         /* both outlive the loader; the set has at least one sample */
	const struct sl_augment *augment; /* its input has the size of the set's images; NULL: `transform` instead */
	const struct sl_transform *transform; /* NULL with `augment`, and of a set of tokens */
	int64_t batch;                        /* samples; the last batch of an epoch may have fewer */
	bool drop_last;                       /* the last batch is left out where it has fewer */
	bool train;                           /* shuffle and augment */
	/* Above 1: a batch is the member-th part of one of batch × members samples; what makes no such batch is left
	 * out. */
	int members, member;
	/* A sample that cannot be read is named in the log, once, and the next one that can takes its place. Which one
	 * that is depends on the set alone, so that a step can be replayed. False: the batch says so (`err`). */
	bool skip_bad;
	bool balanced;  /* training, where sl_set_has_classes: as many samples of each class that occurs; those of small
			   ones come several times */
	bool by_length; /* of a set of tokens, training: a batch's rows are of like length */
	enum sl_pad pad; /* of a set of tokens */
	int64_t pad_to;  /* tokens of a padded row, at least the set's longest */
	float masked;    /* of a set of tokens: this share of them is masked (mask.h); 0: none */
	bool next;       /* of a set of texts for the next token: each token with a loss guesses the one behind it */
	double mixup;    /* of training: rows are mixed with λ ~ Beta(mixup, mixup) (mixup.h); 0: they are not */
	uint64_t seed;
	int prefetch; /* batches prepared ahead, at least 1 */
	int threads;  /* that prepare a batch together, ≥ 1; 0: the CPUs this process may use */
	/* Called, on any thread, when sl_loader_drain has something to do (uv_async_send). NULL: sl_loader_next only.
	 */
	void (*wake)(void *arg);
	void *wake_arg;
};

/* One field of a batch: images are f32 [rows, out_h, out_w, 3], all else is as the set has it. The rows behind, to
 * spec.batch, are undefined. Tokens lie one row's behind the other's. */
struct sl_batch_field {
	void *data;
	struct sl_field_type type; /* of a row */
};

/* Valid and unchanged until released. */
struct sl_batch {
	struct sl_batch_field field[SL_FIELD_COUNT];
	int64_t rows;
	uint64_t epoch;
	int64_t index;          /* in the epoch, in [0, sl_loader_batches) */
	double waited_s;        /* from the request for it to the batch */
	const int32_t *samples; /* [rows], which samples of the set */
	const uint32_t *begin;  /* [rows + 1], where the tokens of each row begin; NULL: the input is no tokens */
	const uint32_t *pieces; /* [2·rows + 1], of padded rows: see struct sl_dims; NULL: they are not */
	const int32_t *other;   /* [rows], of mixed rows: the labels of what was mixed in; NULL: there are none */
	const float
		*share; /* [rows], what a row's label has of its target, at least half; the other one has the rest */
	/* Of masked rows, and of those that guess the next token: where each row's chosen tokens begin [rows + 1];
	 * which tokens of the batch they are; their labels are the target, in place of the rows'. NULL: they are not.
	 */
	const uint32_t *chosen, *place;
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

/* On sl_loader_drain's thread. The batch is held by the consumer from here on. */
typedef void sl_loader_fn(void *arg, const struct sl_batch *batch);

/* Starts at (epoch 0, index 0). All memory is taken here. CONFIG: the set is not for what is
 * asked, or there is no batch in an epoch; NOMEM, OS. */
enum sl_err sl_loader_open(struct sl_loader **out, const struct sl_loader_spec *spec,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_loader_close(struct sl_loader *loader); /* NULL is fine; waits for the batch in preparation; frees a held one */

int64_t sl_loader_batches(const struct sl_loader *loader); /* per epoch */

/* Makes (epoch, index) the next batch. What was prepared is kept where it is just that, else thrown away; a
 * held batch stays. BUG: index outside the epoch, or a request is open. */
enum sl_err sl_loader_seek(struct sl_loader *loader, uint64_t epoch, int64_t index) SL_MUST_CHECK;

/* Asks for the next batch; behind the last one of an epoch comes the first of the next epoch. `fn` is called once,
 * always from sl_loader_drain, as soon as the batch is ready and none is held.
 * BUSY: the previous request is still open. */
enum sl_err sl_loader_request(struct sl_loader *loader, sl_loader_fn *fn, void *arg) SL_MUST_CHECK;
/* Takes in finished batches and answers the open request. Never called from inside `fn`. */
void sl_loader_drain(struct sl_loader *loader);

/* The blocking form, for a consumer without an event loop. LIMIT: a batch is held; BUSY: a request is open. */
enum sl_err sl_loader_next(struct sl_loader *loader, const struct sl_batch **out) SL_MUST_CHECK;
/* The same for a consumer that a bad sample ends. A failure is told in *fail, nothing is held then, and *out is NULL.
 */
enum sl_err sl_loader_take(struct sl_loader *loader, const struct sl_batch **out, struct sl_fail *fail) SL_MUST_CHECK;

void sl_loader_release(struct sl_loader *loader, const struct sl_batch *batch);

#endif
