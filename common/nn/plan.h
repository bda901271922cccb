/* The plan: everything that can be known before the first step. From the model, the cut and the chunk shape it derives
 * the three segments with their ops (batchnorm and activation fused), parameters and MACs, and one hash that both
 * sides must agree on. Pure; immutable once opened; may be shared between threads. */
#ifndef SL_NN_PLAN_H
#define SL_NN_PLAN_H

#include "common/nn/cut.h"
#include "common/nn/insert.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"

enum { SL_PLAN_MAX_CHUNKS = 256, SL_PLAN_HASH_BYTES = 16, SL_PLAN_MAX_BATCH = 1 << 20, SL_PLAN_NOTE_MAX = 768 };

/* The cut as users write it (cut.h says what each means); "" where it is not given. */
struct sl_cut_spec {
	char partition[32];
	char head_end[SL_NAME_MAX], tail_begin[SL_NAME_MAX];
};

/* What both sides must agree on. `note` is text that is hashed with the rest and that this room does not interpret:
 * codecs, and the optimizer's text. */
struct sl_plan_spec {
	struct sl_model_spec model;
	struct sl_cut_spec cut;
	char insert_head[SL_INSERT_TEXT], insert_tail[SL_INSERT_TEXT]; /* insert.h; "": none */
	int64_t batch;                                                 /* rows of a full batch */
	int chunks;                                                    /* that it is cut into; 1 … batch */
	uint64_t seed;
	enum sl_precision precision; /* of the middle; head and tail are FP32 */
	struct sl_optimizer optimizer;
	char note[SL_PLAN_NOTE_MAX];
};

struct sl_segment_op {
	struct sl_op op;             /* a copy, shapes with the most rows of a chunk; in/out are values of the model */
	bool din_want[SL_OP_MAX_IN]; /* backward: somebody needs this input's gradient */
	bool din_add[SL_OP_MAX_IN];  /* … and a later consumer of the same value has already written it */
	int param[SL_OP_MAX_PARAM];  /* index into the segment's parameters */
	bool narrows;                /* a decaying insert's: shapes are those of its schedule's beginning */
};

/* A parameter's place in the segment's weight range, in floats; the same offset serves its gradient and moments. */
struct sl_segment_param {
	int model_param; /* index into model->param */
	int64_t offset, count;
};

/* The weight range: trainable parameters first, then running statistics; every parameter starts on a cache line and
 * the gap behind it is zero. This range is what SL_PART_WEIGHTS carries and what a store's hash is taken of. */
struct sl_plan_segment {
	enum sl_segment which;
	enum sl_precision precision;
	struct sl_segment_op *op;
	int n_op;
	struct sl_segment_param *param;
	int n_param;
	int moments;                         /* of the optimizer, each of trainable_count floats */
	int64_t trainable_count;             /* floats of the range's trainable front, padding included */
	int64_t weight_count;                /* floats of the whole range */
	int in_value, out_value;             /* of the model; the tail's out_value is its loss (one float) */
	struct sl_shape in_shape, out_shape; /* with `rows` rows */
	int64_t macs;                        /* forward, of one row */
};

struct sl_plan {
	struct sl_plan_spec spec;
	struct sl_model *model;
	struct sl_cut cut;
	int64_t rows;             /* of a full chunk: ceil(batch / chunks) */
	struct sl_shape plain[2]; /* of one row, at the head's end and the tail's begin, without inserts */
	struct sl_decay decay[2]; /* of what crosses there */
	struct sl_plan_segment segment[SL_SEGMENT_COUNT];
	uint8_t hash[SL_PLAN_HASH_BYTES];
};

enum sl_err sl_plan_open(struct sl_plan **out, const struct sl_plan_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
void sl_plan_close(struct sl_plan *plan); /* NULL is fine */

/* How `batch_rows` ≤ spec.batch rows fall into chunks: full ones, then a ragged last one. */
int sl_plan_chunks_of(const struct sl_plan *plan, int64_t batch_rows);
int64_t sl_plan_chunk_rows(const struct sl_plan *plan, int64_t batch_rows, int chunk);

/* Shape of a tensor that crosses the cut for `rows` rows: mid = false at the head's end, true at the tail's begin. It
 * is the largest of the run: decaying inserts make it narrower. _after: of the pass that follows `done` steps. */
struct sl_shape sl_plan_cut_shape(const struct sl_plan *plan, bool mid, int64_t rows);
struct sl_shape sl_plan_cut_shape_after(const struct sl_plan *plan, bool mid, int64_t rows, uint64_t done);
/* Elements per row of the tensor that would cross without inserts. */
int64_t sl_plan_plain_count(const struct sl_plan *plan, bool mid);

#endif
