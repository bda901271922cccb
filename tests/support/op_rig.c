#include "tests/support/op_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/half.h"
#include "tests/support/settle.h"

enum { GUARD_BYTES = 1024, PRINTED_FAILURES = 12 };

/* A quiet NaN as a float; two of them make a quiet NaN as a double. */
static const uint32_t poison_word = 0x7ff8dead;

void op_log_fail(struct op_log *log, const char *fmt, ...)
{
	va_list args;

	if (log->failures++ >= PRINTED_FAILURES)
		return;
	fprintf(stderr, "%s: %s: [%s] ", log->backend, log->mode, log->op);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static size_t image_bytes(const struct op_area *a)
{
	return a->bytes + 2 * GUARD_BYTES;
}

void op_area_open(struct op_area *a, struct sl_backend *be, size_t bytes, const void *init, struct op_log *log)
{
	struct sl_fail fail = {0};
	void *device;

	*a = (struct op_area){.be = be, .bytes = bytes};
	a->want = op_xalloc(image_bytes(a));
	a->seen = op_xalloc(image_bytes(a));
	if (be->ops->alloc(be, image_bytes(a), &device, &fail)) {
		op_log_fail(log, "alloc of %zu bytes: %s", image_bytes(a), fail.text);
		return;
	}
	a->device = device;
	/* No two places of a guard are alike, so that a copied or shifted guard is noticed. */
	for (size_t i = 0; i < GUARD_BYTES; i++) {
		a->want[i] = (unsigned char)(i * 151 + 7);
		a->want[GUARD_BYTES + bytes + i] = (unsigned char)(i * 113 + 91);
	}
	op_area_set(a, init, log);
}

void op_area_close(struct op_area *a)
{
	if (a->device)
		a->be->ops->free(a->be, a->device);
	free(a->want);
	free(a->seen);
	*a = (struct op_area){0};
}

static void poison(unsigned char *payload, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += sizeof(poison_word))
		memcpy(payload + i, &poison_word, bytes - i < sizeof(poison_word) ? bytes - i : sizeof(poison_word));
}

void op_area_set(struct op_area *a, const void *init, struct op_log *log)
{
	unsigned char *payload = a->want + GUARD_BYTES;

	if (!a->device)
		return;
	if (init)
		memcpy(payload, init, a->bytes);
	else
		poison(payload, a->bytes);
	if (a->be->ops->upload(a->be, a->device, a->want, image_bytes(a)))
		op_log_fail(log, "upload of %zu bytes failed", image_bytes(a));
}

void *op_area_data(const struct op_area *a)
{
	return a->device ? a->device + GUARD_BYTES : NULL;
}

const void *op_area_read(struct op_area *a, const char *what, struct op_log *log)
{
	size_t tail = GUARD_BYTES + a->bytes;

	if (!a->device)
		return a->seen + GUARD_BYTES;
	if (a->be->ops->download(a->be, a->seen, a->device, image_bytes(a)))
		op_log_fail(log, "download of %s failed", what);
	if (memcmp(a->seen, a->want, GUARD_BYTES))
		op_log_fail(log, "%s: written to before its begin", what);
	if (memcmp(a->seen + tail, a->want + tail, GUARD_BYTES))
		op_log_fail(log, "%s: written to past its end", what);
	return a->seen + GUARD_BYTES;
}

void op_area_check_same(struct op_area *a, const char *what, struct op_log *log)
{
	const unsigned char *seen;

	if (!a->device)
		return;
	seen = op_area_read(a, what, log);

	if (memcmp(seen, a->want + GUARD_BYTES, a->bytes))
		op_log_fail(log, "%s: changed, but may only be read", what);
}

static enum sl_dtype type_of(const struct op_rig *rig)
{
	return sl_precision_dtype(rig->op.precision);
}

/* Sets an area of activations, stored as the op's precision stores them; NULL: NaNs. */
static void set_values(struct op_rig *rig, struct op_area *a, const float *values)
{
	const enum sl_dtype type = type_of(rig);
	void *stored = values ? op_xalloc(a->bytes) : NULL;

	if (values)
		half_store(type, stored, values, (int64_t)(a->bytes / sl_dtype_bytes(type)));
	op_area_set(a, stored, rig->log);
	free(stored);
}

static void open_values(struct op_rig *rig, struct op_area *a, int64_t count, const float *values)
{
	op_area_open(a, rig->be, (size_t)count * sl_dtype_bytes(type_of(rig)), NULL, rig->log);
	set_values(rig, a, values);
}

static const char *numbered(char out[24], const char *what, int i)
{
	snprintf(out, 24, "%s[%d]", what, i);
	return out;
}

bool op_rig_open(struct op_rig *rig, struct sl_backend *be, const struct op_case *c, const struct sl_op *op,
		 const struct op_host_params *params, struct op_log *log)
{
	struct sl_fail fail = {0};
	struct sl_op_prepare p = {.be = be, .op = &rig->op, .fail = &fail};
	int before = log->failures;

	*rig = (struct op_rig){.be = be, .c = c, .op = *op, .kernel = be->ops->kernel[op->kind], .log = log};
	if (!rig->kernel) {
		op_log_fail(log, "the backend has no such op");
		return false;
	}
	if (sl_kernel_open(rig->kernel, &p)) {
		op_log_fail(log, "prepare: %s", fail.text);
		return false;
	}
	rig->prepared = true;
	rig->state = p.state;
	rig->sizes = p.sizes;
	for (int i = 0; i < op->n_param; i++) {
		size_t bytes = (size_t)op_param_count(op, i) * sizeof(float);

		op_area_open(&rig->param[i], be, bytes, params->param[i], log);
		op_area_open(&rig->grad[i], be, bytes, params->grad_start[i], log);
		if (type_of(rig) != SL_F32)
			open_values(rig, &rig->low[i], op_param_count(op, i), params->param[i]);
	}
	op_area_open(&rig->workspace, be, rig->sizes.workspace_bytes, NULL, log);
	return log->failures == before;
}

void op_rig_close(struct op_rig *rig)
{
	for (int i = 0; i < SL_OP_MAX_PARAM; i++) {
		op_area_close(&rig->param[i]);
		op_area_close(&rig->grad[i]);
		op_area_close(&rig->low[i]);
	}
	op_area_close(&rig->workspace);
	if (rig->prepared && rig->kernel->release)
		rig->kernel->release(rig->state);
	*rig = (struct op_rig){0};
}

/* Opens an input; ids are integers. */
static void open_input(struct op_rig *rig, struct op_area *a, int64_t count, const float *values)
{
	int32_t *id;

	if (rig->op.kind != SL_OP_EMBEDDING) {
		open_values(rig, a, count, values);
		return;
	}
	id = op_xalloc((size_t)count * sizeof *id);
	for (int64_t i = 0; i < count; i++)
		id[i] = (int32_t)values[i];
	op_area_open(a, rig->be, (size_t)count * sizeof *id, id, rig->log);
	free(id);
}

/* For an op that counts values by token: rows of three tokens, the last one with the rest. */
static void open_threes(struct op_rig *rig, struct op_chunk *chunk)
{
	const int64_t tokens = chunk->rows, rows = (tokens + 2) / 3;
	uint32_t *begin = op_xalloc((size_t)(rows + 1) * sizeof *begin);

	for (int64_t i = 1; i <= rows; i++)
		begin[i] = (uint32_t)(3 * i < tokens ? 3 * i : tokens);
	op_area_open(&chunk->begin, rig->be, (size_t)(rows + 1) * sizeof *begin, begin, rig->log);
	free(begin);
	chunk->call.dims = (struct sl_dims){.rows = rows, .tokens = tokens, .begin = op_area_data(&chunk->begin)};
}

/* For an op that looks at the tokens of rows: S on average, with neighbours of different lengths. */
static void open_tokens(struct op_rig *rig, struct op_chunk *chunk)
{
	const int64_t rows = chunk->rows, s = rig->c->h;
	uint32_t *begin = op_xalloc((size_t)(rows + 1) * sizeof *begin);

	for (int64_t i = 1; i <= rows; i++)
		begin[i] = (uint32_t)(i * s - (i < rows && i % 2 ? s / 2 : 0));
	op_area_open(&chunk->begin, rig->be, (size_t)(rows + 1) * sizeof *begin, begin, rig->log);
	free(begin);
	chunk->call.dims = (struct sl_dims){.rows = rows, .tokens = rows * s, .begin = op_area_data(&chunk->begin)};
}

/* Chooses one token of every S. */
static void open_chosen(struct op_rig *rig, struct op_chunk *chunk)
{
	const int64_t rows = chunk->rows, s = rig->c->h;
	uint32_t *place = op_xalloc((size_t)rows * sizeof *place);

	for (int64_t i = 0; i < rows; i++)
		place[i] = (uint32_t)(i * s + i * 5 % s);
	op_area_open(&chunk->place, rig->be, (size_t)rows * sizeof *place, place, rig->log);
	free(place);
	chunk->call.dims.chosen = rows;
	chunk->call.dims.place = op_area_data(&chunk->place);
}

void op_chunk_open(struct op_rig *rig, struct op_chunk *chunk, const struct op_host *host, uint16_t number)
{
	struct sl_backend *be = rig->be;
	struct op_log *log = rig->log;

	*chunk = (struct op_chunk){.rows = host->rows};
	for (int i = 0; i < rig->op.n_in; i++) {
		open_input(rig, &chunk->in[i], host->in_count[i], host->in[i]);
		open_values(rig, &chunk->din[i], host->in_count[i], NULL);
	}
	open_values(rig, &chunk->out, host->out_count, NULL);
	open_values(rig, &chunk->dout, host->out_count, host->dout);
	op_area_open(&chunk->saved, be, rig->sizes.saved_bytes, NULL, log);
	chunk->call = (struct sl_op_call){
		.be = be,
		.op = &rig->op,
		.state = rig->state,
		.rng = {.seed = 0x5eed0005eedull, .step = 1234567890123ull, .chunk = number, .tensor = rig->op.stream},
		.training = !rig->c->eval,
		.saved = op_area_data(&chunk->saved),
		.workspace = op_area_data(&rig->workspace),
		.rule = rig->c->rule,
		.labels = host->labels,
		.targets = host->targets,
		.loss_scale = 1.0f / 37,
		.loss_sum = &chunk->loss_sum,
		.dice_sum = &chunk->dice_sum,
		.correct = &chunk->correct,
	};
	if (rig->c->weighted)
		chunk->call.rule.weight = host->weight;
	if (rig->c->mixed) {
		chunk->call.rule.other = host->other;
		chunk->call.rule.share = host->share;
	}
	if (rig->op.kind == SL_OP_EMBEDDING)
		open_threes(rig, chunk);
	else if (sl_op_reads_rows(rig->op.kind))
		open_tokens(rig, chunk);
	if (rig->op.kind == SL_OP_GATHER)
		open_chosen(rig, chunk);
	for (int i = 0; i < rig->op.n_param; i++) {
		bool running = rig->op.kind == SL_OP_BATCHNORM && i >= 2;

		chunk->call.param[i] = op_area_data(&rig->param[i]);
		chunk->call.grad[i] = running ? NULL : op_area_data(&rig->grad[i]);
		chunk->call.param_low[i] = running ? NULL : op_area_data(&rig->low[i]);
	}
}

void op_chunk_close(struct op_chunk *chunk)
{
	for (int i = 0; i < SL_OP_MAX_IN; i++) {
		op_area_close(&chunk->in[i]);
		op_area_close(&chunk->din[i]);
	}
	op_area_close(&chunk->out);
	op_area_close(&chunk->dout);
	op_area_close(&chunk->saved);
	op_area_close(&chunk->begin);
	op_area_close(&chunk->place);
	*chunk = (struct op_chunk){0};
}

/* Waits until the queued work is done, as the executor would. */
static bool settle(struct op_rig *rig, const char *what, enum sl_err err)
{
	if (!err)
		err = backend_settle(rig->be);
	if (err)
		op_log_fail(rig->log, "%s: %s", what, sl_err_name(err));
	return !err;
}

/* Checks what only commit may change. */
static void check_read_only(struct op_rig *rig, struct op_chunk *chunk, const char *after)
{
	char what[64], number[24];

	for (int i = 0; i < rig->op.n_param; i++) {
		snprintf(what, sizeof(what), "%s after %s", numbered(number, "param", i), after);
		op_area_check_same(&rig->param[i], what, rig->log);
		op_area_check_same(&rig->low[i], what, rig->log);
	}
	for (int i = 0; i < rig->op.n_in; i++) {
		snprintf(what, sizeof(what), "%s after %s", numbered(number, "in", i), after);
		op_area_check_same(&chunk->in[i], what, rig->log);
	}
	snprintf(what, sizeof(what), "dout after %s", after);
	op_area_check_same(&chunk->dout, what, rig->log);
	snprintf(what, sizeof(what), "workspace after %s", after);
	op_area_read(&rig->workspace, what, rig->log);
	snprintf(what, sizeof(what), "saved after %s", after);
	op_area_read(&chunk->saved, what, rig->log);
}

static struct sl_tensor tensor_of(struct op_rig *rig, const struct sl_shape *shape, int64_t rows, void *data)
{
	return (struct sl_tensor){
		.dtype = type_of(rig), .shape = sl_shape_rows(*shape, rows), .data = data, .be = rig->be};
}

/* A loss goes to the host, so the op has no output tensor. */
static struct sl_tensor output_of(struct op_rig *rig, struct op_chunk *chunk, const struct op_area *area)
{
	if (sl_op_is_loss(rig->op.kind))
		return tensor_of(rig, &rig->op.out_shape, 1, NULL);
	return tensor_of(rig, &rig->op.out_shape, chunk->rows, area ? op_area_data(area) : NULL);
}

bool op_rig_forward(struct op_rig *rig, struct op_chunk *chunk)
{
	struct sl_op_call call = chunk->call;
	int before = rig->log->failures;

	for (int i = 0; i < rig->op.n_in; i++)
		call.in[i] = tensor_of(rig, &rig->op.in_shape[i], chunk->rows, op_area_data(&chunk->in[i]));
	call.out = output_of(rig, chunk, &chunk->out);
	op_area_set(&rig->workspace, NULL, rig->log);
	op_area_set(&chunk->out, NULL, rig->log);
	op_area_set(&chunk->saved, NULL, rig->log);
	chunk->loss_sum = -1;
	chunk->correct = -1;
	if (!settle(rig, "forward", rig->kernel->forward(&call)))
		return false;
	check_read_only(rig, chunk, "forward");
	op_area_read(&chunk->out, "out after forward", rig->log);
	return rig->log->failures == before;
}

bool op_rig_backward(struct op_rig *rig, struct op_chunk *chunk, const struct op_host *host, enum op_din mode)
{
	struct sl_op_call call = chunk->call;
	int before = rig->log->failures;

	for (int i = 0; i < rig->op.n_in; i++) {
		const struct sl_shape *shape = &rig->op.in_shape[i];
		bool kept = i < sl_op_saves_inputs(&rig->op, call.grad[0] || call.grad[1]);

		call.in[i] = tensor_of(rig, shape, chunk->rows, kept ? op_area_data(&chunk->in[i]) : NULL);
		call.din[i] =
			tensor_of(rig, shape, chunk->rows, mode == OP_DIN_NONE ? NULL : op_area_data(&chunk->din[i]));
		call.din_add[i] = mode == OP_DIN_ADD;
		set_values(rig, &chunk->din[i], mode == OP_DIN_ADD ? host->din_start[i] : NULL);
	}
	call.out = output_of(rig, chunk, NULL);
	call.dout = output_of(rig, chunk, &chunk->dout);
	op_area_set(&rig->workspace, NULL, rig->log);
	if (!settle(rig, "backward", rig->kernel->backward(&call)))
		return false;
	check_read_only(rig, chunk, "backward");
	for (int i = 0; i < rig->op.n_in; i++) {
		char number[24];

		op_area_read(&chunk->din[i], numbered(number, "din", i), rig->log);
		if (mode == OP_DIN_NONE)
			op_area_check_same(&chunk->din[i], "din that was not asked for", rig->log);
	}
	for (int i = 0; i < rig->op.n_param; i++) {
		char number[24];

		op_area_read(&rig->grad[i], numbered(number, "grad", i), rig->log);
		if (!chunk->call.grad[i])
			op_area_check_same(&rig->grad[i], "a gradient that was not asked for", rig->log);
	}
	return rig->log->failures == before;
}

bool op_rig_commit(struct op_rig *rig, struct op_chunk *chunk)
{
	struct sl_op_call call = chunk->call;
	int before = rig->log->failures;

	if (!rig->kernel->commit)
		return true;
	for (int i = 0; i < rig->op.n_in; i++)
		call.in[i] = tensor_of(rig, &rig->op.in_shape[i], chunk->rows, NULL);
	call.out = output_of(rig, chunk, NULL);
	op_area_set(&rig->workspace, NULL, rig->log);
	if (!settle(rig, "commit", rig->kernel->commit(&call)))
		return false;
	for (int i = 0; i < rig->op.n_param; i++) {
		char number[24];
		const void *now = op_area_read(&rig->param[i], numbered(number, "param", i), rig->log);

		if (i >= 2) /* the running statistics are what commit may change */
			op_area_set(&rig->param[i], now, rig->log);
	}
	check_read_only(rig, chunk, "commit");
	return rig->log->failures == before;
}
