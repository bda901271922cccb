/* What the loader's files share. The consumer's thread has the queue of slots (loader.c), the worker fills one slot at
 * a time (loader_fill.c), in an order of samples (loader_order.c). */
#ifndef SL_CLIENT_DATA_LOADER_IMPL_H
#define SL_CLIENT_DATA_LOADER_IMPL_H

#include <stdatomic.h>

#include "client/data/loader.h"
#include "common/base/arena.h"
#include "common/base/pool.h"
#include "common/base/worker.h"

/* FREE → QUEUED (posted to the worker) → READY → HELD (the consumer's) → FREE. The state is the consumer's thread's;
 * the rest of a slot is the worker's while it is QUEUED. */
enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_READY, SLOT_HELD };

struct slot {
	struct sl_job job; /* first: the worker hands it back */
	struct sl_loader *loader;
	enum slot_state state;
	unsigned generation;
	struct sl_batch batch;
	int32_t *samples;         /* = batch.samples */
	uint32_t *begin;          /* = batch.begin */
	uint32_t *pieces;         /* = batch.pieces */
	uint8_t *row_err;         /* [rows], enum sl_err */
	int32_t *other;           /* = batch.other */
	float *share;             /* = batch.share */
	uint32_t *chosen, *place; /* = batch.… */
};

struct position {
	uint64_t epoch;
	int64_t index;
};

/* A sample of a set of tokens, while batches of like length are made. */
struct sl_placed {
	int32_t length, place, sample; /* place: in the shuffled order */
};

struct sl_loader {
	struct sl_loader_spec spec;
	int64_t batches;
	struct sl_field_type type[SL_FIELD_COUNT]; /* of a batch's rows */
	size_t row_bytes[SL_FIELD_COUNT];          /* of tokens: of one of them */
	int64_t most_tokens;                       /* of a batch; 0: the input is no tokens */
	int64_t longest;                           /* tokens of a row at most */
	struct sl_mask_draw *draw;                 /* [longest], while a row is masked */
	struct position next;                      /* to be given out */
	struct position ahead;                     /* to be prepared */
	atomic_uint generation; /* counts seeks: the worker skips what was queued before the last one */
	sl_loader_fn *waiting;  /* the open request */
	void *waiting_arg;
	uint64_t asked_ns; /* the last request began to wait */
	bool held;         /* the consumer has a batch */
	int nslots;
	struct slot *slots;

	/* the worker's */
	int32_t *order;           /* [set->count] permutation of epoch order_epoch */
	struct sl_placed *placed; /* [set->count], with spec.by_length; and batches in their order */
	int32_t *turn;
	struct sl_balance *balance; /* with spec.balanced */
	uint64_t order_epoch;
	bool order_known;
	float *scratch; /* one area per thread of the pool, one room, and one work */
	size_t scratch_floats;
	struct sl_room *room;
	struct sl_transform_work *work;
	int threads;
	atomic_uchar *named; /* [set->count], with skip_bad: the log has named this sample */
	atomic_llong n_named;

	struct sl_arena arena;
	struct sl_pool *pool; /* NULL: the worker alone */
	struct sl_worker *worker;
	int wake_fd; /* an eventfd: what sl_loader_next sleeps on */
};

/* The first of a batch's rows among the epoch's samples in their order. */
int64_t sl_loader_first_row(const struct sl_loader *loader, int64_t index);
/* loader_balance.c: the samples of each class. Reads every label, and no picture where the source has labels apart.
 * CONFIG: the set has no classes. */
enum sl_err sl_balance_open(struct sl_balance **out, const struct sl_set *set, struct sl_fail *fail) SL_MUST_CHECK;
void sl_balance_close(struct sl_balance *balance); /* NULL is fine */
/* Makes of a shuffled order of all samples one with as many places, in which classes take turns. With C classes, each
 * run of C places has every class once. The samples of a class come in their shuffled order, again and again. */
void sl_balance_order(struct sl_balance *balance, int32_t *order, uint64_t seed, uint64_t epoch);
/* How often the sample at a place of that order came before it in the epoch. */
uint32_t sl_balance_again(const struct sl_balance *balance, int64_t place);
/* Fills `order` for that epoch. The worker's thread. */
void sl_loader_order(struct sl_loader *loader, uint64_t epoch);
/* Fills the slot's batch. A row that cannot be read is in batch.err and batch.why. The worker's thread. */
void sl_loader_fill(struct slot *slot);

#endif
