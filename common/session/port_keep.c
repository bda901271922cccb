/* Rows of head_act that the server keeps, so that the client sends each only once (codec/lengths.h). A row's home is
 * the place of its first token in the store. `kept` at that home says how many of the row's tokens are stored. Both
 * sides begin with nothing: on a new link, after a crash or a pause, everything is sent again. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/session/port_keep.h"

int64_t sl_port_keeps(const struct sl_plan *plan)
{
	return sl_plan_cut_per_token(plan, false) ? plan->spec.keep_tokens : 0;
}

static int64_t features_of(const struct sl_plan *plan)
{
	const struct sl_shape one = sl_plan_cut_shape(plan, false, 1);

	return sl_shape_row(&one);
}

void sl_port_keep_memory(const struct sl_plan *plan, enum sl_session_role role, struct sl_memory *need)
{
	const uint64_t row = role == SL_SESSION_SERVER ? (uint64_t)features_of(plan) * sizeof(float) : 0;

	if (sl_port_keeps(plan))
		sl_need(&need->host, (uint64_t)sl_port_keeps(plan), row + sizeof(uint16_t));
}

enum sl_err sl_port_keep_open(struct sl_port *p, struct sl_fail *fail)
{
	const size_t tokens = (size_t)sl_port_keeps(p->plan), row = (size_t)features_of(p->plan) * sizeof(float);
	const bool server = p->session.role == SL_SESSION_SERVER;

	if (!tokens)
		return SL_OK;
	p->kept = calloc(tokens, sizeof *p->kept);
	p->store = server ? calloc(tokens, row) : NULL;
	return p->kept && (p->store || !server) ? SL_OK
						: sl_fail_set(fail, SL_ERR_NOMEM, "no memory for rows that are kept");
}

void sl_port_keep_close(struct sl_port *p)
{
	free(p->kept);
	free(p->store);
	p->kept = NULL;
	p->store = NULL;
}

static uint16_t length_of(const struct sl_port *p, int chunk, int64_t row)
{
	const uint32_t *begin = sl_port_begin(p, chunk);

	return (uint16_t)(begin[row + 1] - begin[row]);
}

bool sl_port_keep_has(const struct sl_port *p, int chunk, int64_t *missing)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk);
	const uint32_t *home = p->kept ? sl_port_homes(p, chunk) : NULL;

	for (int64_t i = 0; home && i < rows; i++) {
		*missing = i;
		if (!home[i] || p->kept[home[i] - 1] != length_of(p, chunk, i))
			return false;
	}
	return home != NULL;
}

void sl_port_keep_note(struct sl_port *p, int chunk)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk);
	const uint32_t *home = p->kept ? sl_port_homes(p, chunk) : NULL;

	for (int64_t i = 0; home && i < rows; i++)
		if (home[i])
			p->kept[home[i] - 1] = length_of(p, chunk, i);
}

void sl_port_keep_write(const struct sl_port *p, int chunk, uint8_t *at)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk);

	memset(at, 0, sl_homes_bytes(rows));
	memcpy(at, sl_port_homes(p, chunk), (size_t)rows * sizeof(uint32_t));
}

enum sl_err sl_port_keep_take(struct sl_port *p, int chunk, struct sl_bytes *in, struct sl_fail *fail)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk), most = sl_port_keeps(p->plan);
	uint32_t *home = sl_port_homes(p, chunk);
	struct sl_bytes homes;

	memset(home, 0, (size_t)rows * sizeof *home);
	if (sl_bytes_take(in, sl_homes_bytes(rows), &homes) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload is shorter than the homes of %lld rows",
				   (long long)rows);
	for (int64_t i = 0; i < (int64_t)sl_homes_bytes(rows) / 4; i++) {
		const uint32_t at = sl_get_u32(homes.data + 4 * i);

		if (at && (i >= rows || (int64_t)at - 1 + length_of(p, chunk, i) > most))
			return sl_fail_set(fail, SL_ERR_PAYLOAD,
					   "row %lld is to be kept at token %u, of %lld that the agreement has",
					   (long long)i, at - 1, (long long)most);
	}
	memcpy(home, homes.data, (size_t)rows * sizeof *home);
	return SL_OK;
}

/* Copies rows from the store to a tensor; `out`: to the store. */
static enum sl_err copy_rows(struct sl_port *p, int chunk, const struct sl_tensor *x, bool out)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk), features = sl_shape_row(&x->shape);
	const uint32_t *home = sl_port_homes(p, chunk), *begin = sl_port_begin(p, chunk);
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < rows && !err; i++) {
		float *there = (float *)x->data + (int64_t)begin[i] * features;
		const size_t bytes = (size_t)(length_of(p, chunk, i) * features) * sizeof(float);
		float *here = home[i] ? p->store + (int64_t)(home[i] - 1) * features : NULL;

		if (here) /* the homes of a payload were checked, those of this side are its own */
			sl_assert_int((int64_t)home[i] - 1 + length_of(p, chunk, i), <=, sl_port_keeps(p->plan));
		if (here)
			err = out ? p->be->ops->download(p->be, here, there, bytes)
				  : p->be->ops->upload(p->be, there, here, bytes);
	}
	return err;
}

enum sl_err sl_port_keep_store(struct sl_port *p, int chunk, const struct sl_tensor *x)
{
	enum sl_err err = copy_rows(p, chunk, x, true);

	if (!err)
		sl_port_keep_note(p, chunk);
	return err;
}

enum sl_err sl_port_keep_restore(struct sl_port *p, int chunk, const struct sl_tensor *x, struct sl_fail *fail)
{
	int64_t missing = 0;

	if (!p->session.training || !sl_port_keep_has(p, chunk, &missing))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "head_act of chunk %d has no tensor, and row %lld of it is not kept", chunk,
				   (long long)missing);
	return copy_rows(p, chunk, x, false);
}
