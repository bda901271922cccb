/* The calls of a step. */
#include <inttypes.h>
#include <math.h>

#include "lib/impl.h"

static int take_lengths(struct split_middle *m, const struct sl_lib_call *c, const uint32_t *lengths, split_error *e)
{
	const uint64_t most = (uint64_t)m->plan->spec.row_tokens;
	uint32_t *begin = sl_lib_begin(m, c->first);
	uint64_t at = 0;

	begin[0] = 0;
	for (int64_t i = 0; i < c->rows && most; i++) {
		const uint64_t n = lengths ? lengths[i] : most;

		if (n < 1 || n > most)
			return sl_lib_tell(e, m->step, SL_ERR_USAGE,
					   "row %" PRId64 " has %" PRIu64 " tokens, where rows have 1 to %" PRIu64
					   " (tokens.row)",
					   i, n, most);
		at += n;
		begin[i + 1] = (uint32_t)at;
	}
	return SPLIT_OK;
}

static int check_chunks(const struct split_middle *m, const struct sl_lib_call *c, split_error *e)
{
	const uint32_t *begin = sl_lib_begin(m, c->first);
	const int64_t most = m->plan->spec.chunk_tokens;

	for (int i = 0; i < c->chunks && most; i++) {
		const int64_t row = i * m->plan->rows, n = sl_plan_chunk_rows(m->plan, c->rows, i);

		if (begin[row + n] - begin[row] > most)
			return sl_lib_tell(e, m->step, SL_ERR_USAGE,
					   "chunk %d has %u tokens, where a chunk has %" PRId64 " (tokens.chunk)", i,
					   begin[row + n] - begin[row], most);
	}
	return SPLIT_OK;
}

/* Whether a call can begin now. */
static int check_turn(struct split_middle *m, int training, int64_t rows, split_error *e)
{
	const int chunks = sl_plan_chunks_of(m->plan, rows);
	int code = sl_lib_trouble(m, e);

	if (code)
		return code;
	if (m->ask.resume)
		return sl_lib_tell(e, m->step, SL_ERR_USAGE, "split_resume has not ended: call it again");
	if (m->ask.open && !m->ask.training)
		return sl_lib_tell(e, m->step, SL_ERR_USAGE,
				   "an evaluation is open: take its output, or call split_drop");
	if (m->ask.open && (!training || m->ask.apply || m->ask.drop))
		return sl_lib_tell(e, m->step, SL_ERR_USAGE,
				   "step %" PRIu64 " is open: call split_step or split_drop first", m->step);
	if (rows < 1 || rows > m->rows)
		return sl_lib_tell(e, m->step, SL_ERR_USAGE,
				   "a call of %" PRId64 " rows, where train.batch has 1 to %" PRId64, rows, m->rows);
	if (m->ask.open && m->ask.chunks + chunks > m->plan->spec.chunks)
		return sl_lib_tell(e, m->step, SL_ERR_USAGE,
				   "step %" PRIu64
				   " is open, and has room for %d chunks (calls times train.chunks): call "
				   "split_step or split_drop first",
				   m->step, m->plan->spec.chunks);
	return SPLIT_OK;
}

static void begin_step(struct split_middle *m, bool training)
{
	sl_lib_forget_call(m);
	m->did = (struct sl_lib_did){.up = m->did.up, .fetch = m->did.fetch};
	m->ask.open = true;
	m->ask.training = training;
	/* a split_step or split_resume that its caller stopped waiting for has ended */
	m->stepped = m->ask.stepping = false;
	m->ask.resuming = 0;
}

/* A call that takes one array per value must have all of them. */
static int check_arrays(const struct split_middle *m, int n, const float *const all[], const char *name, split_error *e)
{
	for (int v = 0; v < n; v++)
		if (!all || !all[v])
			return sl_lib_tell(e, m->step, SL_ERR_USAGE, "an argument is NULL: %s has %d arrays here", name,
					   n);
	return SPLIT_OK;
}

/* A call that takes one array: USAGE if the middle has several values there. */
static int check_one(const struct split_middle *m, bool mid, const float *x, const char *name, const char *all,
		     split_error *e)
{
	const int n = m ? sl_plan_cut_values(m->plan, mid) : 1;

	if (!x)
		return sl_lib_null(e, name);
	return n == 1 ? SPLIT_OK
		      : sl_lib_tell(e, m->step, SL_ERR_USAGE, "this middle has %d %s: call %s", n,
				    mid ? "outputs" : "inputs", all);
}

int split_forward_all(split_middle *m, int training, int64_t rows, const uint32_t *lengths, const float *const x[],
		      int *call, split_error *e)
{
	struct sl_lib_call c = {.rows = rows};
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	code = call ? check_arrays(m, m->x.n, x, "x", e) : sl_lib_null(e, "call");
	if (!code)
		code = check_turn(m, training, rows, e);
	if (code)
		return sl_lib_leave(m, code);
	c.first = m->ask.open ? m->ask.chunks : 0;
	c.chunks = sl_plan_chunks_of(m->plan, rows);
	code = take_lengths(m, &c, lengths, e);
	if (!code)
		code = check_chunks(m, &c, e);
	if (code)
		return sl_lib_leave(m, code);
	if (!m->ask.open)
		begin_step(m, training);
	sl_lib_scatter(m, &c, &m->x, x);
	c.number = *call = m->calls = m->calls % INT32_MAX + 1;
	m->ask.call[m->ask.calls++] = c;
	m->ask.chunks += c.chunks;
	sl_lib_leave(m, SPLIT_OK);
	sl_lib_wake(m);
	return SPLIT_OK;
}

int split_forward(split_middle *m, int training, int64_t rows, const uint32_t *lengths, const float *x, int *call,
		  split_error *e)
{
	const int code = check_one(m, false, call ? x : NULL, "x and call", "split_forward_all", e);

	return code ? code : split_forward_all(m, training, rows, lengths, &x, call, e);
}

/* The open call with this number; NULL: there is none. */
static struct sl_lib_call *call_of(struct split_middle *m, int number)
{
	for (int i = 0; i < m->ask.calls && m->ask.open && !m->ask.drop; i++)
		if (m->ask.call[i].number == number)
			return &m->ask.call[i];
	return NULL;
}

/* Reports that a call is not open, or the reason why: something was found in its step. */
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
	const struct sl_lib_call *c = m->ask.waits;

	return !m->ask.open || (m->did.outputs >= c->first + c->chunks && (m->ask.training || m->did.over));
}

static void see(const struct sl_lib_call *c, struct sl_lib_slots *s)
{
	for (int i = 0; i < c->chunks; i++)
		s->seen[c->first + i] = true;
}

int split_output_all(split_middle *m, int call, float *const y[], int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);
	struct sl_lib_call *c;

	if (code)
		return code;
	code = check_arrays(m, m->y.n, (const float *const *)y, "y", e);
	if (code)
		return sl_lib_leave(m, code);
	m->ask.waits = c = call_of(m, call);
	if (!c)
		return not_open(m, call, e);
	code = sl_lib_await(m, has_output, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	sl_lib_gather(m, c, &m->y, y);
	c->output = true;
	if (m->ask.training)
		see(c, &m->y);
	else
		sl_lib_forget_call(m);
	return sl_lib_leave(m, SPLIT_OK);
}

int split_output(split_middle *m, int call, float *y, int timeout_ms, split_error *e)
{
	const int code = check_one(m, true, y, "y", "split_output_all", e);

	return code ? code : split_output_all(m, call, &y, timeout_ms, e);
}

static bool is_any(const float *const all[], int n)
{
	bool any = false;

	for (int v = 0; v < n && all; v++)
		any = any || all[v];
	return any;
}

int split_backward_all(split_middle *m, int call, const float *const dy[], split_error *e)
{
	int code = sl_lib_enter(m, e);
	struct sl_lib_call *c;

	if (code)
		return code;
	if (!is_any(dy, m->dy.n))
		return sl_lib_misuse(m, e, "no output has a gradient: dy has NULL alone");
	c = call_of(m, call);
	if (!c || !m->ask.training || m->ask.apply)
		return not_open(m, call, e);
	if (!c->output)
		return sl_lib_misuse(m, e, "call split_output before split_backward");
	if (c->back)
		return sl_lib_leave(m,
				    sl_lib_tell(e, m->step, SL_ERR_USAGE,
						"backward of call %d of step %" PRIu64 " ran already", call, m->step));
	sl_lib_scatter(m, c, &m->dy, dy);
	c->back = true;
	m->ask.order[m->ask.backs++] = (uint16_t)(c - m->ask.call);
	m->ask.norm = false;
	sl_lib_leave(m, SPLIT_OK);
	sl_lib_wake(m);
	return SPLIT_OK;
}

int split_backward(split_middle *m, int call, const float *dy, split_error *e)
{
	const int code = check_one(m, true, dy, "dy", "split_backward_all", e);

	return code ? code : split_backward_all(m, call, &dy, e);
}

static bool has_input_grad(const struct split_middle *m)
{
	const struct sl_lib_call *c = m->ask.waits;

	for (int i = 0; i < c->chunks && m->ask.open; i++)
		if (!m->did.dx[c->first + i])
			return false;
	return true;
}

int split_input_grad_all(split_middle *m, int call, float *const dx[], int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);
	struct sl_lib_call *c;

	if (code)
		return code;
	if (!dx)
		return sl_lib_leave(m, sl_lib_null(e, "dx"));
	if (m->plan->spec.no_grad[0])
		return sl_lib_misuse(m, e, "there is no input's gradient: the conf has input_grad=false");
	for (int v = 0; v < m->dx.n; v++)
		if (dx[v] && !m->dx.value[v].data)
			return sl_lib_misuse(m, e, "an input that the graph calls still has no gradient: give NULL");
	m->ask.waits = c = call_of(m, call);
	if (!c)
		return not_open(m, call, e);
	if (!c->back)
		return sl_lib_misuse(m, e, "call split_backward before split_input_grad");
	code = sl_lib_await(m, has_input_grad, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	sl_lib_gather(m, c, &m->dx, dx);
	see(c, &m->dx);
	return sl_lib_leave(m, SPLIT_OK);
}

int split_input_grad(split_middle *m, int call, float *dx, int timeout_ms, split_error *e)
{
	const int code = check_one(m, false, dx, "dx", "split_input_grad_all", e);

	return code ? code : split_input_grad_all(m, call, &dx, timeout_ms, e);
}

static bool has_norm(const struct split_middle *m)
{
	return !m->ask.open || (!m->did.norm && m->did.norm_of == m->ask.backs);
}

int split_norm(split_middle *m, double *norm, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!norm)
		return sl_lib_leave(m, sl_lib_null(e, "norm"));
	if (!m->ask.open || !m->ask.backs)
		return sl_lib_misuse(m, e, "there is a norm behind split_backward, before split_step");
	if (!has_norm(m)) {
		m->ask.norm = true;
		sl_lib_wake(m);
	}
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
		return sl_lib_misuse(
			m, e, "lr is 0 or more, and 0 < scale <= 1: after a norm that is Inf or NaN, drop the step");
	if (!m->ask.stepping) {
		if (!m->ask.open)
			return not_open(m, m->calls, e);
		if (!m->ask.training || !m->ask.backs)
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
	m->ask.stepping = false;
	sl_lib_wake(m);
	code = sl_lib_await(m, is_dropped, timeout_ms, e);
	if (!code && m->ask.open)
		sl_lib_forget_call(m);
	return sl_lib_leave(m, code);
}
