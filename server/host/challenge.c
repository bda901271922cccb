#include "server/host/challenge.h"

#include <sys/random.h>

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
	struct sl_challenges_entry fresh = {.peer = peer, .since_ms = now_ms};

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
