/* A step, call by call. */
#include <inttypes.h>
#include <math.h>

#include "lib/impl.h"

static int take_lengths(struct split_middle *m, int64_t rows, const uint32_t *lengths, split_error *e)
{
	const uint64_t most = (uint64_t)m->plan->spec.row_tokens;
	uint64_t at = 0;

	for (int64_t i = 0; i < rows && most; i++) {
		const uint64_t n = lengths ? lengths[i] : most;

		if (n < 1 || n > most)
			return sl_lib_tell(e, m->step, SL_ERR_USAGE,
					   "row %" PRId64 " has %" PRIu64 " tokens, where rows have 1 to %" PRIu64
					   " (tokens.row)",
					   i, n, most);
		m->begin[i] = (uint32_t)at;
		at += n;
	}
	m->begin[rows] = (uint32_t)at;
	return SPLIT_OK;
}

static int check_chunks(const struct split_middle *m, split_error *e)
{
	const int64_t most = m->plan->spec.chunk_tokens;

	for (int chunk = 0; chunk < m->ask.chunks && most; chunk++) {
		const int64_t row = chunk * m->plan->rows, n = sl_plan_chunk_rows(m->plan, m->ask.rows, chunk);

		if (m->begin[row + n] - m->begin[row] > most)
			return sl_lib_tell(e, m->step, SL_ERR_USAGE,
					   "chunk %d has %u tokens, where a chunk has %" PRId64 " (tokens.chunk)",
					   chunk, m->begin[row + n] - m->begin[row], most);
	}
	return SPLIT_OK;
}

int split_forward(split_middle *m, int training, int64_t rows, const uint32_t *lengths, const float *x, int *call,
		  split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	code = sl_lib_trouble(m, e);
	if (code)
		return sl_lib_leave(m, code);
	if (m->ask.resume)
		return sl_lib_misuse(m, e, "split_resume has not ended: call it again");
	if (m->ask.open)
		return sl_lib_misuse(m, e,
				     m->ask.training ? "is open: call split_step or split_drop first"
						     : "an evaluation is open: take its output, or call split_drop");
	if (rows < 1 || rows > m->plan->spec.batch)
		return sl_lib_leave(m, sl_lib_tell(e, m->step, SL_ERR_USAGE,
						   "a call of %" PRId64 " rows, where train.batch has 1 to %" PRId64,
						   rows, m->plan->spec.batch));
	m->ask.rows = rows;
	m->ask.chunks = sl_plan_chunks_of(m->plan, rows);
	code = take_lengths(m, rows, lengths, e);
	if (!code)
		code = check_chunks(m, e);
	if (code)
		return sl_lib_leave(m, code);
	sl_lib_forget_call(m);
	m->did = (struct sl_lib_did){.up = m->did.up, .fetch = m->did.fetch};
	sl_lib_scatter(m, &m->x, false, x);
	m->ask.open = true;
	m->ask.training = training;
	m->ask.call = *call = m->calls = m->calls % INT32_MAX + 1;
	m->stepped = false;
	sl_lib_leave(m, SPLIT_OK);
	sl_lib_wake(m);
	return SPLIT_OK;
}

static bool is_open(const struct split_middle *m, int call)
{
	return m->ask.open && m->ask.call == call && !m->ask.drop;
}

/* Something was found in the step, and another sentence than "not open" says it. */
static int not_open(struct split_middle *m, int call, split_error *e)
{
	const int code = sl_lib_trouble(m, e);

	if (code)
		return sl_lib_leave(m, code);
	return sl_lib_leave(
		m, sl_lib_tell(e, m->step, SL_ERR_USAGE, "call %d is not open in step %" PRIu64, call, m->step));
}

static bool has_output(const struct split_middle *m)
{
	return !m->ask.open || (m->did.outputs == m->ask.chunks && (m->ask.training || m->did.over));
}

int split_output(split_middle *m, int call, float *y, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!is_open(m, call))
		return not_open(m, call, e);
	code = sl_lib_await(m, has_output, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	sl_lib_gather(m, &m->y, true, y);
	m->y.seen = m->ask.training;
	if (!m->ask.training) {
		sl_lib_forget_call(m);
		m->did.begun = false;
	}
	return sl_lib_leave(m, SPLIT_OK);
}

int split_backward(split_middle *m, int call, const float *dy, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!is_open(m, call) || !m->ask.training)
		return not_open(m, call, e);
	if (!m->y.seen)
		return sl_lib_misuse(m, e, "call split_output before split_backward");
	if (m->ask.grads)
		return sl_lib_leave(m,
				    sl_lib_tell(e, m->step, SL_ERR_USAGE,
						"backward of call %d of step %" PRIu64 " ran already", call, m->step));
	sl_lib_scatter(m, &m->dy, true, dy);
	m->ask.grads = true;
	sl_lib_leave(m, SPLIT_OK);
	sl_lib_wake(m);
	return SPLIT_OK;
}

static bool has_input_grad(const struct split_middle *m)
{
	return !m->ask.open || m->did.inputs == m->ask.chunks;
}

int split_input_grad(split_middle *m, int call, float *dx, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (m->plan->spec.no_grad[0])
		return sl_lib_misuse(m, e, "there is no input's gradient: the conf has input_grad=false");
	if (!is_open(m, call))
		return not_open(m, call, e);
	if (!m->ask.grads)
		return sl_lib_misuse(m, e, "call split_backward before split_input_grad");
	code = sl_lib_await(m, has_input_grad, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	sl_lib_gather(m, &m->dx, false, dx);
	m->dx.seen = true;
	return sl_lib_leave(m, SPLIT_OK);
}

static bool has_norm(const struct split_middle *m)
{
	return !m->ask.open || m->did.norm;
}

int split_norm(split_middle *m, double *norm, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!m->ask.open || !m->ask.grads)
		return sl_lib_misuse(m, e, "there is a norm behind split_backward, before split_step");
	code = sl_lib_await(m, has_norm, timeout_ms, e);
	if (!code)
		*norm = sqrt(m->did.squares);
	return sl_lib_leave(m, code);
}

static bool has_stepped(const struct split_middle *m)
{
	return m->stepped;
}

int split_step(split_middle *m, double lr, double scale, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!(lr >= 0 && lr < 1e6) || !(scale > 0 && scale <= 1))
		return sl_lib_misuse(m, e, "lr is a number from 0 on, and 0 < scale <= 1");
	if (!m->ask.stepping) {
		if (!m->ask.open)
			return not_open(m, m->calls, e);
		if (!m->ask.training || !m->ask.grads)
			return sl_lib_misuse(m, e, "split_step comes behind split_backward");
		m->ask.apply = m->ask.stepping = true;
		m->ask.lr = lr;
		m->ask.scale = scale;
		sl_lib_wake(m);
	}
	code = sl_lib_await(m, has_stepped, timeout_ms, e);
	m->ask.stepping = code == SPLIT_AGAIN || code == SPLIT_UNAVAILABLE;
	return sl_lib_leave(m, code);
}

static bool is_dropped(const struct split_middle *m)
{
	return !m->ask.open || (!m->ask.training && m->did.over);
}

int split_drop(split_middle *m, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	m->ask.drop = m->ask.open && m->ask.training;
	sl_lib_wake(m);
	code = sl_lib_await(m, is_dropped, timeout_ms, e);
	if (!code && m->ask.open) {
		sl_lib_forget_call(m);
		m->did.begun = false;
	}
	return sl_lib_leave(m, code);
}
