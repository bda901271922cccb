/* Shared by the loader's files. The consumer's thread has the queue of slots (loader.c). The worker fills one slot
 * at a time (loader_fill.c), in the order of samples that loader_order.c makes. */
#ifndef SL_CLIENT_DATA_LOADER_IMPL_H
#define SL_CLIENT_DATA_LOADER_IMPL_H

#include <stdatomic.h>

#include "client/data/loader.h"
#include "common/base/arena.h"
#include "common/base/pool.h"
#include "common/base/worker.h"

/* FREE → QUEUED (posted to the worker) → READY → HELD (by the consumer) → FREE. Only the consumer's thread uses the
 * state. The rest of a slot belongs to the worker while it is QUEUED. */
enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_READY, SLOT_HELD };

struct slot {
	struct sl_job job; /* first, so that a pointer to it is one to the slot */
	struct sl_loader *loader;
	enum slot_state state;
	unsigned generation;
	struct sl_batch batch;
	void *input[1 + SL_CUT_VALUES]; /* the field INPUT, then those of further sources */
	int32_t *samples;               /* = batch.samples */
	uint32_t *begin;                /* = batch.begin */
	uint32_t *pieces;               /* = batch.pieces */
	uint8_t *row_err;               /* [rows], enum sl_err */
	struct sl_fail *row_fail;       /* = batch.row_fail */
	int32_t *other;                 /* = batch.other */
	float *share;                   /* = batch.share */
	uint32_t *chosen, *place;       /* = batch.… */
};

struct position {
	uint64_t epoch;
	int64_t index;
};

/* A sample of a set of tokens, while batches of similar length are made. */
struct sl_placed {
	int32_t length, place, sample; /* place: in the shuffled order */
};

struct sl_loader {
	struct sl_loader_spec spec;
	int64_t batches;
	struct sl_loader_input input[1 + SL_CUT_VALUES]; /* the first is spec's own set */
	int n_input;
	size_t input_bytes[1 + SL_CUT_VALUES];     /* of a row */
	struct sl_field_type type[SL_FIELD_COUNT]; /* of a batch's rows */
	size_t row_bytes[SL_FIELD_COUNT];          /* of tokens: bytes of one token */
	int64_t most_tokens;                       /* of a batch; 0: the input is not tokens */
	int64_t longest;                           /* tokens of a row at most */
	struct sl_mask_draw *draw;                 /* [longest], scratch while a row is masked */
	struct position next;                      /* the batch that the consumer gets next */
	struct position ahead;                     /* the batch to prepare next */
	atomic_uint generation; /* counts seeks: the worker skips what was queued before the last one */
	sl_loader_fn *waiting;  /* the open request */
	void *waiting_arg;
	uint64_t asked_ns; /* when the last request was made */
	bool held;         /* the consumer has a batch */
	int nslots;
	struct slot *slots;

	/* used by the worker alone */
	int32_t *order;             /* [set->count] permutation of epoch order_epoch */
	struct sl_placed *placed;   /* [set->count], with spec.by_length */
	int32_t *turn;              /* [set->count], with spec.by_length: the order of batches */
	struct sl_balance *balance; /* with spec.balanced */
	uint64_t order_epoch;
	bool order_known;
	float *scratch; /* [threads][scratch_floats], for augment */
	size_t scratch_floats;
	struct sl_room *room;
	struct sl_transform_work *work;
	int threads;
	atomic_uchar *named; /* [set->count]: the log has named this sample */
	atomic_llong n_named;

	struct sl_arena arena;
	struct sl_pool *pool; /* NULL: the worker alone */
	struct sl_worker *worker;
	int wake_fd; /* an eventfd: what sl_loader_next sleeps on */
};

/* The position of a batch's first row in the epoch's order of samples. */
int64_t sl_loader_first_row(const struct sl_loader *loader, int64_t index);
/* loader_balance.c: lists the samples of each class. Reads every label, and with it the sample if the source has no
 * `label`. The set must have classes (sl_set_has_classes). NOMEM; errors of reading a sample. */
enum sl_err sl_balance_open(struct sl_balance **out, const struct sl_set *set, struct sl_fail *fail) SL_MUST_CHECK;
void sl_balance_close(struct sl_balance *balance); /* NULL is fine */
/* Rewrites a shuffled order of all samples, in place, so that classes alternate: with C classes, each run of C
 * places has every class once. The samples of a class keep their shuffled order, and repeat when they run out. */
void sl_balance_order(struct sl_balance *balance, int32_t *order, uint64_t seed, uint64_t epoch);
/* How often the sample at position `place` of that order occurred before it in the epoch. */
uint32_t sl_balance_again(const struct sl_balance *balance, int64_t place);
/* Fills loader->order for that epoch. Called on the worker's thread. */
void sl_loader_order(struct sl_loader *loader, uint64_t epoch);
/* Fills the slot's batch. If a row cannot be read, batch.err and batch.why say so. Called on the worker's thread. */
void sl_loader_fill(struct slot *slot);

#endif
