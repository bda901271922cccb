#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/wire.h"
#include "lib/token.h"

/* A token: magic, seed, epoch, step, made, train.seed, frozen, plan hash, the states of four codecs with their lengths,
 * and XXH3-64 of everything before it. */
static const uint8_t magic[8] = {'s', 'p', 'l', 'i', 't', 't', 'k', '2'};
static const uint64_t SEED_MOST = (uint64_t)1 << 53; /* the largest train.seed */
enum { NUMBER = 8, FIXED = sizeof magic + SL_SECRET_BYTES + 5 * NUMBER + SL_PLAN_HASH_BYTES };

static uint8_t *put(uint8_t *at, const void *data, size_t len)
{
	if (len)
		memcpy(at, data, len);
	return at + len;
}

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
	for (int i = 0; i < NUMBER; i++)
		at[i] = (uint8_t)(number >> (8 * i));
	return at + NUMBER;
}

uint64_t sl_token_frozen(const struct split_middle *m, uint64_t step)
{
	return step ? m->frozen : m->first;
}

size_t sl_token_bytes(const struct sl_token *t)
{
	size_t bytes = FIXED + NUMBER;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		bytes += NUMBER + t->codec[dir].len;
	return bytes;
}

void sl_token_write(const struct sl_token *t, uint8_t *out)
{
	uint8_t *at = put(out, magic, sizeof magic);

	at = put(at, t->seed, sizeof t->seed);
	at = put_number(at, t->epoch);
	at = put_number(at, t->step);
	at = put_number(at, t->made);
	at = put_number(at, t->train_seed);
	at = put_number(at, t->frozen);
	at = put(at, t->plan_hash, sizeof t->plan_hash);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		at = put_number(at, t->codec[dir].len);
		at = put(at, t->codec[dir].data, t->codec[dir].len);
	}
	put_number(at, sl_wire_hash((struct sl_bytes){out, (size_t)(at - out)}));
}

static bool take(struct sl_bytes *in, void *out, size_t len)
{
	struct sl_bytes part;

	if (sl_bytes_take(in, len, &part))
		return false;
	memcpy(out, part.data, len);
	return true;
}

static bool take_number(struct sl_bytes *in, uint64_t *out)
{
	uint8_t bytes[NUMBER];

	if (!take(in, bytes, sizeof bytes))
		return false;
	*out = 0;
	for (int i = 0; i < NUMBER; i++)
		*out |= (uint64_t)bytes[i] << (8 * i);
	return true;
}

static bool take_all(struct sl_token *t, struct sl_bytes in)
{
	uint8_t begin[sizeof magic];
	uint64_t len;

	if (!take(&in, begin, sizeof begin) || memcmp(begin, magic, sizeof magic) != 0 ||
	    !take(&in, t->seed, sizeof t->seed) || !take_number(&in, &t->epoch) || !take_number(&in, &t->step) ||
	    !take_number(&in, &t->made) || !take_number(&in, &t->train_seed) || !take_number(&in, &t->frozen) ||
	    !take(&in, t->plan_hash, sizeof t->plan_hash) || t->train_seed > SEED_MOST ||
	    t->epoch > SL_SESSION_EPOCH_MOST || t->step > SL_SESSION_EPOCH_MOST)
		return false;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		if (!take_number(&in, &len) || len > in.len || sl_bytes_take(&in, (size_t)len, &t->codec[dir]))
			return false;
	return in.len == 0;
}

enum sl_err sl_token_read(struct sl_token *token, const void *data, size_t len, struct sl_fail *fail)
{
	struct sl_bytes sum = {data, len}, body;
	struct sl_token t;
	uint64_t hash;

	if (len < FIXED || sl_bytes_take(&sum, len - NUMBER, &body) || !take_number(&sum, &hash) ||
	    hash != sl_wire_hash(body) || !take_all(&t, body))
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"this is no token of split_keep, or it is damaged: %zu bytes; take the file before it", len);
	*token = t;
	return SL_OK;
}

/* ---- a token's state becomes this side's ---- */

void sl_lib_set_token_step(struct split_middle *m, uint64_t step)
{
	const uint64_t before = m->n_token && m->token[0] < step ? m->token[0] : m->n_token > 1 ? m->token[1] : 0;

	m->token[0] = step;
	m->token[1] = before < step ? before : 0;
	m->n_token = m->token[1] ? 2 : step != 0;
}

enum sl_err sl_lib_token_check(const struct split_middle *m, const struct sl_token *t, struct sl_fail *fail)
{
	if (memcmp(t->plan_hash, m->plan->middle_hash, sizeof t->plan_hash) != 0)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"the token of step %" PRIu64 " is of another network or other settings: the graph, codec.*, "
			"train.batch, train.chunks, train.seed, train.precision, train.optimizer.* but lr, group.*, "
			"calls and tokens.* must be those that it was made with",
			t->step);
	if (t->frozen != sl_token_frozen(m, t->step))
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "the token of step %" PRIu64
				   " is of other %s: give the middle those that the run began with",
				   t->step,
				   t->step ? "frozen parameters or constant buffers"
					   : "weights, which no server has before the first step");
	return SL_OK;
}

enum sl_err sl_lib_set_state(struct split_middle *m, const struct sl_token *t, struct sl_fail *fail)
{
	struct sl_codecs_state codecs, theirs = {0};
	enum sl_err err = sl_lib_token_check(m, t, fail);

	if (err)
		return err;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		theirs.dir[dir] = (struct sl_buf){(uint8_t *)(uintptr_t)t->codec[dir].data, t->codec[dir].len, 0};
	if (sl_codecs_state_copy(&codecs, &theirs))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a token's state");
	sl_codecs_state_close(&m->live.codecs);
	sl_secret_from(&m->secret, t->seed);
	m->live = (struct sl_lib_state){t->step, t->made, codecs, true};
	m->ahead.has = false;
	m->step = t->step;
	m->epoch = m->epoch > t->epoch ? m->epoch : t->epoch;
	sl_lib_set_token_step(m, t->step);
	m->rolled = false;
	m->fetched_at = 0;
	sl_lib_forget_call(m);
	return SL_OK;
}
