/* Calls one kernel of one backend as the executor would, and checks what it touches. Every area
 * lies between guard words. Outputs, `saved` and workspace are filled with NaNs before each call.
 * Read-only arguments are compared afterwards. Device memory is accessed through be->ops alone.
 * Every failure is written to the log with the case's name. */
#ifndef SL_TESTS_OP_RIG_H
#define SL_TESTS_OP_RIG_H

#include "common/exec/backend.h"
#include "tests/support/op_case.h"

/* Failures of one test; the first few are printed. */
struct op_log {
	const char *backend, *mode;
	char op[OP_CASE_TEXT];
	int failures;
};

void op_log_fail(struct op_log *log, const char *fmt, ...) SL_PRINTF(2, 3);

/* `bytes` of backend memory between two guards, and the expected content. */
struct op_area {
	struct sl_backend *be;
	unsigned char *device;      /* begins with a guard */
	unsigned char *want, *seen; /* host copies of the whole area with its guards */
	size_t bytes;
};

/* init NULL: filled with NaNs. A failed allocation is logged and leaves an area without memory. */
void op_area_open(struct op_area *a, struct sl_backend *be, size_t bytes, const void *init, struct op_log *log);
void op_area_close(struct op_area *a);
void op_area_set(struct op_area *a, const void *init, struct op_log *log);
void *op_area_data(const struct op_area *a); /* in the backend's memory */
/* Returns the current content; logs an overwritten guard. */
const void *op_area_read(struct op_area *a, const char *what, struct op_log *log);
/* Logs any change since the area was set. */
void op_area_check_same(struct op_area *a, const char *what, struct op_log *log);

struct op_rig {
	struct sl_backend *be;
	const struct op_case *c;
	struct sl_op op; /* shapes have the prepared rows */
	const struct sl_kernel *kernel;
	void *state;
	bool prepared;
	struct sl_op_sizes sizes;
	struct op_log *log;
	struct op_area param[SL_OP_MAX_PARAM], grad[SL_OP_MAX_PARAM], workspace;
	struct op_area low[SL_OP_MAX_PARAM]; /* 16-bit copies of the parameters, if op.precision has 16 bits */
};

struct op_chunk {
	int64_t rows;
	struct op_area in[SL_OP_MAX_IN], din[SL_OP_MAX_IN], out, dout, saved;
	struct op_area begin; /* first tokens of rows, for ops that look at rows of tokens */
	struct op_area place; /* positions, for ops on chosen tokens */
	struct sl_op_call call;
	double loss_sum, dice_sum;
	int64_t correct;
};

/* What backward does with the gradients of the inputs: overwrite, accumulate, or not compute them. */
enum op_din { OP_DIN_SET, OP_DIN_ADD, OP_DIN_NONE };

/* Returns false on a failure, which is logged. Close the rig in any case. */
bool op_rig_open(struct op_rig *rig, struct sl_backend *be, const struct op_case *c, const struct sl_op *op,
		 const struct op_host_params *params, struct op_log *log);
void op_rig_close(struct op_rig *rig);

/* `number` goes into the RNG key. */
void op_chunk_open(struct op_rig *rig, struct op_chunk *chunk, const struct op_host *host, uint16_t number);
void op_chunk_close(struct op_chunk *chunk);

bool op_rig_forward(struct op_rig *rig, struct op_chunk *chunk);
bool op_rig_backward(struct op_rig *rig, struct op_chunk *chunk, const struct op_host *host, enum op_din din);
bool op_rig_commit(struct op_rig *rig, struct op_chunk *chunk);

#endif
