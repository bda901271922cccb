/* Reading weights, making tokens, and resuming from them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/wire.h"
#include "lib/token.h"

static bool has_fetched(const struct split_middle *m)
{
	return m->fetched_at == m->step + 1;
}

static int await_weights(struct split_middle *m, int timeout_ms, split_error *e)
{
	if (m->ask.open)
		return sl_lib_tell(e, m->step, SL_ERR_USAGE,
				   "step %" PRIu64 " is open: call split_step or split_drop first", m->step);
	if (!has_fetched(m)) {
		m->ask.fetch = true;
		sl_lib_wake(m);
	}
	return sl_lib_await(m, has_fetched, timeout_ms, e);
}

int split_weight(split_middle *m, const char *param, float *values, size_t n, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);
	const struct sl_plan_segment *segment;

	if (code)
		return code;
	if (!param || (n && !values))
		return sl_lib_leave(m, sl_lib_null(e, "param and values"));
	code = await_weights(m, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	segment = &m->plan->segment[SL_MIDDLE];
	for (int i = 0; i < segment->n_param; i++) {
		const struct sl_segment_param *p = &segment->param[i];

		if (strcmp(segment->graph.param[p->graph_param].name, param) == 0 && n == (size_t)p->count) {
			memcpy(values, m->fetched + p->offset, n * sizeof *values);
			return sl_lib_leave(m, SPLIT_OK);
		}
	}
	return sl_lib_leave(
		m, sl_lib_tell(e, m->step, SL_ERR_USAGE, "the graph has no parameter %.100s of %zu values", param, n));
}

static void fill_token(struct split_middle *m, struct sl_token *t)
{
	memcpy(t->seed, m->secret.seed, sizeof t->seed);
	memcpy(t->plan_hash, m->plan->middle_hash, sizeof t->plan_hash);
	t->epoch = m->epoch;
	t->step = m->step;
	t->made = m->live.made;
	t->train_seed = (uint64_t)m->conf.agreed.seed;
	t->frozen = sl_token_frozen(m, m->step);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		t->codec[dir] = (struct sl_bytes){m->live.codecs.dir[dir].data, m->live.codecs.dir[dir].len};
}

int split_keep(split_middle *m, void *token, size_t *n, int timeout_ms, split_error *e)
{
	struct sl_token t;
	size_t bytes;
	int code = sl_lib_enter(m, e);

	if (code)
		return code;
	if (!n)
		return sl_lib_leave(m, sl_lib_null(e, "n"));
	code = await_weights(m, timeout_ms, e);
	if (code)
		return sl_lib_leave(m, code);
	if (!m->kept_there && m->step)
		return sl_lib_leave(
			m, sl_lib_tell(e, m->step, SL_ERR_IO,
				       "the server could not keep step %" PRIu64
				       ": its config must name a `store`, and its log says what is wrong there",
				       m->step));
	fill_token(m, &t);
	bytes = sl_token_bytes(&t);
	if (!token || *n < bytes) {
		code = sl_lib_tell(e, m->step, SL_ERR_LIMIT, "a token takes %zu bytes", bytes);
		*n = bytes;
		return sl_lib_leave(m, code);
	}
	*n = bytes;
	sl_token_write(&t, token);
	if (!m->n_token || m->token[0] != m->step)
		sl_lib_set_token_step(m, m->step);
	return sl_lib_leave(m, SPLIT_OK);
}

static int begin_resume(struct split_middle *m, const void *token, size_t n, split_error *e)
{
	struct sl_fail fail;
	struct sl_token t;
	uint8_t *copy;

	if (sl_token_read(&t, token, n, &fail) || sl_lib_token_check(m, &t, &fail))
		return sl_lib_error(e, &fail, m->step);
	copy = malloc(n);
	if (!copy)
		return sl_lib_tell(e, m->step, SL_ERR_NOMEM, "no memory for a token");
	memcpy(copy, token, n);
	free(m->pending);
	m->pending = copy;
	m->pending_bytes = n;
	m->ask.resume = m->ask.relink = true;
	sl_lib_wake(m);
	return SPLIT_OK;
}

static bool has_resumed(const struct split_middle *m)
{
	return !m->ask.resume;
}

int split_resume(split_middle *m, const void *token, size_t n, int timeout_ms, split_error *e)
{
	int code = sl_lib_enter(m, e);
	uint64_t hash;

	if (code)
		return code;
	if (!token)
		return sl_lib_leave(m, sl_lib_null(e, "token"));
	hash = sl_wire_hash((struct sl_bytes){token, n}) | 1;
	if (m->ask.resuming != hash)
		code = begin_resume(m, token, n, e);
	if (!code)
		code = sl_lib_await(m, has_resumed, timeout_ms, e);
	m->ask.resuming = code == SPLIT_AGAIN || code == SPLIT_UNAVAILABLE ? hash : 0;
	return sl_lib_leave(m, code);
}
