#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/link/peers.h"

enum { BUCKETS = 4096, SLOT_BITS = 16, FIRST_SLOTS = 64, NONE = -1 };

/* Slots 0 and 1 are the heads of two lists, the oldest peer first; a peer is in at most one of them. */
enum { STRANGERS, FLAGGED, LISTS };

struct slot {
	sl_peer number; /* serial << SLOT_BITS | slot; 0: free */
	uint8_t id[SL_PEER_ID_BYTES];
	bool gone, claimed;
	int fd;            /* descriptor of its connection; -1: unknown */
	uint64_t stamp;    /* from sl_conns_answered, once it is no stranger */
	struct sl_key key; /* if claimed */
	int list;          /* the list that it is in, or NONE */
	int prev, next;    /* in that list; `next` of a free slot: the next free slot */
	int chain;         /* the next slot of its hash bucket */
};

struct sl_peers {
	struct sl_conns *conns;
	struct slot *slot;
	int cap, used, free;
	int count[LISTS];
	uint64_t serial;
	int bucket[BUCKETS];
};

enum sl_err sl_peers_open(struct sl_peers **out, struct sl_conns *conns, struct sl_fail *fail)
{
	struct sl_peers *peers = calloc(1, sizeof *peers);

	if (peers)
		peers->slot = calloc(FIRST_SLOTS, sizeof *peers->slot);
	if (!peers || !peers->slot) {
		free(peers);
		return sl_fail_set(fail, SL_ERR_NOMEM, "peer table: out of memory");
	}
	peers->conns = conns;
	peers->cap = FIRST_SLOTS;
	peers->used = LISTS;
	peers->free = NONE;
	for (int i = 0; i < LISTS; i++)
		peers->slot[i].prev = peers->slot[i].next = i;
	for (int i = 0; i < BUCKETS; i++)
		peers->bucket[i] = NONE;
	*out = peers;
	return SL_OK;
}

void sl_peers_close(struct sl_peers *peers)
{
	if (!peers)
		return;
	free(peers->slot);
	free(peers);
}

/* The lists hold as many peers as they count, and no slot beyond those that were made is in use. */
static void check(const struct sl_peers *peers)
{
	sl_assert(LISTS <= peers->used && peers->used <= peers->cap);
	sl_assert_int(peers->used, <=, SL_TRANSPORT_PEERS + LISTS);
	sl_assert(peers->free == NONE || (peers->free >= LISTS && !peers->slot[peers->free].number));
	sl_assert_int(peers->count[STRANGERS], <=, SL_TRANSPORT_STRANGERS);
	for (int list = 0; list < LISTS; list++) {
		const struct slot *head = &peers->slot[list];

		sl_assert_int(peers->count[list], >=, 0);
		sl_assert((peers->count[list] == 0) == (head->next == list));
		sl_assert(peers->slot[head->next].prev == list && peers->slot[head->prev].next == list);
		sl_assert_if(head->next != list,
			     peers->slot[head->next].number && peers->slot[head->next].list == list);
	}
}

static int bucket_of(const uint8_t id[SL_PEER_ID_BYTES])
{
	uint32_t n;

	memcpy(&n, id + 1, sizeof n);
	return (int)((n * 2654435761u) >> 20); /* multiplies by 2^32 / golden ratio, and takes the top 12 bits */
}

static void list_remove(struct sl_peers *peers, int i)
{
	struct slot *s = &peers->slot[i];

	if (s->list == NONE)
		return;
	peers->slot[s->prev].next = s->next;
	peers->slot[s->next].prev = s->prev;
	peers->count[s->list]--;
	s->list = NONE;
}

static void list_append(struct sl_peers *peers, int list, int i)
{
	struct slot *s = &peers->slot[i], *head = &peers->slot[list];

	sl_assert_int(s->list, ==, NONE); /* a peer is in one list at most */
	s->list = list;
	s->prev = head->prev;
	s->next = list;
	peers->slot[head->prev].next = i;
	head->prev = i;
	peers->count[list]++;
}

static struct slot *find(const struct sl_peers *peers, sl_peer peer)
{
	uint64_t i = peer & ((1u << SLOT_BITS) - 1);

	return peer && i < (uint64_t)peers->used && peers->slot[i].number == peer ? &peers->slot[i] : NULL;
}

static void drop(struct sl_peers *peers, int i)
{
	struct slot *s = &peers->slot[i];
	int *link = &peers->bucket[bucket_of(s->id)];

	sl_assert_int(s->number, !=, 0); /* a slot is given back once */
	while (*link != i)
		link = &peers->slot[*link].chain;
	*link = s->chain;
	if (peers->conns && s->list != STRANGERS)
		sl_conns_forget_peer(peers->conns, s->fd, s->stamp);
	list_remove(peers, i);
	s->number = 0;
	s->next = peers->free;
	peers->free = i;
	check(peers);
}

/* The index of a free slot, or NONE. */
static int take_slot(struct sl_peers *peers)
{
	int i = peers->free;

	if (i != NONE) {
		peers->free = peers->slot[i].next;
		return i;
	}
	if (peers->used == SL_TRANSPORT_PEERS + LISTS)
		return NONE;
	if (peers->used == peers->cap) {
		struct slot *grown = realloc(peers->slot, 2 * (size_t)peers->cap * sizeof *grown);

		if (!grown)
			return NONE;
		peers->slot = grown;
		peers->cap *= 2;
	}
	return peers->used++;
}

/* The slot of the peer with this id, or NONE. */
static int slot_of(const struct sl_peers *peers, const void *id)
{
	int i = peers->bucket[bucket_of(id)];

	while (i != NONE && memcmp(peers->slot[i].id, id, SL_PEER_ID_BYTES) != 0)
		i = peers->slot[i].chain;
	return i;
}

static bool is_id(const void *id, size_t len)
{
	return len == SL_PEER_ID_BYTES && *(const uint8_t *)id == 0;
}

bool sl_peers_know(const struct sl_peers *peers, const void *id, size_t len)
{
	return is_id(id, len) && slot_of(peers, id) != NONE;
}

sl_peer sl_peers_seen(struct sl_peers *peers, const void *id, size_t len, int fd)
{
	struct slot *s;
	int i, *link;

	if (!is_id(id, len))
		return 0;
	i = slot_of(peers, id);
	if (i != NONE) {
		if (peers->slot[i].list == STRANGERS) {
			list_remove(peers, i);
			list_append(peers, STRANGERS, i);
		}
		return peers->slot[i].number;
	}
	if (peers->count[STRANGERS] == SL_TRANSPORT_STRANGERS)
		drop(peers, peers->slot[STRANGERS].next);
	i = take_slot(peers);
	if (i == NONE)
		return 0;
	s = &peers->slot[i];
	link = &peers->bucket[bucket_of(id)];
	*s = (struct slot){
		.number = ++peers->serial << SLOT_BITS | (uint64_t)i, .fd = fd, .list = NONE, .chain = *link};
	memcpy(s->id, id, SL_PEER_ID_BYTES);
	*link = i;
	list_append(peers, STRANGERS, i);
	check(peers);
	return s->number;
}

const uint8_t *sl_peers_address(struct sl_peers *peers, sl_peer peer)
{
	struct slot *s = find(peers, peer);

	if (!s)
		return NULL;
	if (s->list == STRANGERS) {
		list_remove(peers, (int)(s - peers->slot));
		if (peers->conns)
			s->stamp = sl_conns_answered(peers->conns, s->fd);
	}
	return s->id;
}

sl_peer sl_peers_on(const struct sl_peers *peers, int fd, uint64_t stamp, int *at)
{
	for (int i = *at < LISTS ? LISTS : *at; i < peers->used; i++) {
		const struct slot *s = &peers->slot[i];

		if (!s->number || s->list == STRANGERS || s->fd != fd || s->stamp != stamp)
			continue;
		*at = i + 1;
		return s->number;
	}
	return 0;
}

bool sl_peers_claim(struct sl_peers *peers, sl_peer peer, const struct sl_key *key)
{
	struct slot *s = find(peers, peer);

	if (!s)
		return false;
	if (s->claimed)
		return sl_key_equal(&s->key, key);
	s->claimed = true;
	s->key = *key;
	return true;
}

const struct sl_key *sl_peers_key(const struct sl_peers *peers, sl_peer peer)
{
	const struct slot *s = find(peers, peer);

	return s && s->claimed ? &s->key : NULL;
}

uint64_t sl_peers_arrived(const struct sl_peers *peers, sl_peer peer)
{
	const struct slot *s = find(peers, peer);

	return s && peers->conns ? sl_conns_arrived(peers->conns, s->fd, s->stamp) : 0;
}

void sl_peers_host(const struct sl_peers *peers, sl_peer peer, char out[SL_TRANSPORT_HOST])
{
	const struct slot *s = find(peers, peer);

	out[0] = '\0';
	if (s && peers->conns)
		sl_conns_host(peers->conns, s->fd, s->stamp, out);
}

void sl_peers_forget(struct sl_peers *peers, sl_peer peer)
{
	struct slot *s = find(peers, peer);

	if (s)
		drop(peers, (int)(s - peers->slot));
}

void sl_peers_flag(struct sl_peers *peers, sl_peer peer, bool gone)
{
	struct slot *s = find(peers, peer);

	if (!s)
		return;
	s->gone |= gone;
	if (s->list == FLAGGED)
		return;
	list_remove(peers, (int)(s - peers->slot));
	list_append(peers, FLAGGED, (int)(s - peers->slot));
	check(peers);
}

sl_peer sl_peers_take_flagged(struct sl_peers *peers, bool *gone)
{
	int i = peers->slot[FLAGGED].next;
	struct slot *s = &peers->slot[i];

	if (i == FLAGGED)
		return 0;
	*gone = s->gone;
	s->gone = false;
	list_remove(peers, i);
	check(peers);
	return s->number;
}

size_t sl_peers_flagged(const struct sl_peers *peers)
{
	return (size_t)peers->count[FLAGGED];
}
