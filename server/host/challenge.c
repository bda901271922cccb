#include "server/host/challenge.h"

#include <stdlib.h>
#include <sys/random.h>

struct entry {
	sl_peer peer;
	uint64_t since_ms;
	uint8_t nonce[SL_NONCE_BYTES];
};

struct sl_challenges {
	struct entry entry[SL_CHALLENGES];
	int n;
};

enum sl_err sl_challenges_open(struct sl_challenges **out, struct sl_fail *fail)
{
	*out = calloc(1, sizeof **out);
	return *out ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a table of challenges");
}

void sl_challenges_close(struct sl_challenges *c)
{
	free(c);
}

static int index_of(const struct sl_challenges *c, sl_peer peer)
{
	for (int i = 0; i < c->n; i++)
		if (c->entry[i].peer == peer)
			return i;
	return -1;
}

static int oldest(const struct sl_challenges *c)
{
	int old = 0;

	for (int i = 1; i < c->n; i++)
		if (c->entry[i].since_ms < c->entry[old].since_ms)
			old = i;
	return old;
}

static sl_peer take_out(struct sl_challenges *c, int i)
{
	sl_peer peer = c->entry[i].peer;

	c->entry[i] = c->entry[--c->n];
	return peer;
}

const uint8_t *sl_challenges_find(const struct sl_challenges *c, sl_peer peer)
{
	int i = index_of(c, peer);

	return i < 0 ? NULL : c->entry[i].nonce;
}

const uint8_t *sl_challenges_make(struct sl_challenges *c, sl_peer peer, uint64_t now_ms, sl_peer *gone)
{
	const uint8_t *nonce = sl_challenges_find(c, peer);
	struct entry fresh = {.peer = peer, .since_ms = now_ms};

	*gone = 0;
	if (nonce)
		return nonce;
	if (getrandom(fresh.nonce, sizeof fresh.nonce, 0) != sizeof fresh.nonce)
		return NULL;
	if (c->n == SL_CHALLENGES)
		*gone = take_out(c, oldest(c));
	c->entry[c->n] = fresh;
	return c->entry[c->n++].nonce;
}

void sl_challenges_end(struct sl_challenges *c, sl_peer peer)
{
	int i = index_of(c, peer);

	if (i >= 0)
		(void)take_out(c, i);
}

sl_peer sl_challenges_late(struct sl_challenges *c, uint64_t now_ms)
{
	int old = c->n ? oldest(c) : -1;

	return old >= 0 && now_ms - c->entry[old].since_ms > SL_CHALLENGE_MS ? take_out(c, old) : 0;
}
