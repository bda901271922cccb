#include "common/link/arrivals.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <xxhash.h>

#include "common/base/assert.h"

enum { SETS = 1024, WAYS = 4, DEBT_S = 60, MILLI = 1000 };

/* A token bucket. Its unit is a thousandth of a token; a connection costs one token. */
struct bucket {
	int64_t left;   /* negative: a debt, which the following seconds repay */
	uint64_t at_ms; /* time for which `left` holds */
	bool shut;      /* blocked until it is half full */
};

struct entry {
	struct sl_address address;
	struct bucket bucket;
	bool used;
};

struct budget {
	int per_s, burst;
};

struct sl_arrivals {
	struct budget in_all, of_address;
	struct entry entry[SETS][WAYS]; /* an address' hash selects its set */
	struct bucket all;
	struct sl_address shut[SL_ARRIVALS_SHUT]; /* the blocked addresses */
	int n_shut;
	bool changed;
	uint64_t seed; /* of the hash, so that nobody can choose addresses that share a set */
};

struct sl_address sl_address_of(const struct sockaddr *from)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)from;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;
	struct sl_address a = {0};

	if (from->sa_family == AF_INET) {
		a.byte[10] = a.byte[11] = 0xff;
		memcpy(a.byte + 12, &four->sin_addr, 4);
	} else if (from->sa_family == AF_INET6) {
		memcpy(a.byte, &six->sin6_addr, IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) ? 16 : 8);
	}
	return a;
}

enum sl_err sl_arrivals_open(struct sl_arrivals **out, int per_s, uint64_t now_ms, struct sl_fail *fail)
{
	struct sl_arrivals *a = calloc(1, sizeof *a);

	if (!a || getrandom(&a->seed, sizeof a->seed, 0) != sizeof a->seed) {
		free(a);
		return sl_fail_set(fail, SL_ERR_NOMEM, "table of addresses: no memory, or no random bytes");
	}
	a->in_all = (struct budget){per_s, per_s * SL_ARRIVALS_BURST_S};
	a->of_address = (struct budget){per_s / 2, per_s / 2 * SL_ARRIVALS_ADDRESS_BURST_S};
	a->all = (struct bucket){(int64_t)a->in_all.burst * MILLI, now_ms, false};
	*out = a;
	return SL_OK;
}

void sl_arrivals_close(struct sl_arrivals *a)
{
	free(a);
}

static void refill(struct bucket *b, const struct budget *of, uint64_t now_ms)
{
	uint64_t ms = now_ms - b->at_ms,
		 most = (uint64_t)DEBT_S * MILLI + (uint64_t)of->burst * MILLI / (uint64_t)of->per_s;

	b->left += (int64_t)(ms < most ? ms : most) * of->per_s;
	if (b->left > (int64_t)of->burst * MILLI)
		b->left = (int64_t)of->burst * MILLI;
	b->at_ms = now_ms;
}

/* Takes a token, even from an empty bucket; false: it was empty. */
static bool spend(struct bucket *b, const struct budget *of, uint64_t now_ms)
{
	bool had;

	refill(b, of, now_ms);
	had = b->left >= MILLI;
	b->left -= MILLI;
	if (b->left < -(int64_t)DEBT_S * of->per_s * MILLI)
		b->left = -(int64_t)DEBT_S * of->per_s * MILLI;
	sl_assert_int(b->left, <, (int64_t)of->burst * MILLI); /* a token was taken */
	return had;
}

static bool is_back(struct bucket *b, const struct budget *of, uint64_t now_ms)
{
	refill(b, of, now_ms);
	return b->left >= (int64_t)of->burst * MILLI / 2;
}

static struct entry *find(struct sl_arrivals *a, const struct sl_address *address)
{
	struct entry *set = a->entry[XXH3_64bits_withSeed(address, sizeof *address, a->seed) % SETS];

	for (int i = 0; i < WAYS; i++)
		if (set[i].used && memcmp(&set[i].address, address, sizeof *address) == 0)
			return &set[i];
	return NULL;
}

/* Makes an entry. If the set is full, replaces the fullest bucket, whose loss matters least. */
static struct entry *add(struct sl_arrivals *a, const struct sl_address *address, uint64_t now_ms)
{
	struct entry *set = a->entry[XXH3_64bits_withSeed(address, sizeof *address, a->seed) % SETS], *e = set;

	for (int i = 0; i < WAYS; i++) {
		if (!set[i].used) {
			e = &set[i];
			break;
		}
		refill(&set[i].bucket, &a->of_address, now_ms);
		if (set[i].bucket.left > e->bucket.left)
			e = &set[i];
	}
	*e = (struct entry){*address, {(int64_t)a->of_address.burst * MILLI, now_ms, false}, true};
	return e;
}

static void shut_out(struct sl_arrivals *a, struct entry *e)
{
	if (e->bucket.shut || a->n_shut == SL_ARRIVALS_SHUT)
		return; /* if too many addresses are blocked, only the limit for all holds for the others */
	e->bucket.shut = a->changed = true;
	a->shut[a->n_shut++] = e->address;
}

bool sl_arrivals_admit(struct sl_arrivals *a, const struct sl_address *from, uint64_t now_ms)
{
	struct entry *e = find(a, from);

	if (!e)
		e = add(a, from, now_ms);
	if (!spend(&e->bucket, &a->of_address, now_ms)) {
		shut_out(a, e);
		return false;
	}
	if (spend(&a->all, &a->in_all, now_ms))
		return true;
	a->changed |= !a->all.shut;
	a->all.shut = true;
	return false;
}

bool sl_arrivals_shut(struct sl_arrivals *a, uint64_t now_ms, struct sl_shut *out)
{
	bool changed;

	for (int i = a->n_shut - 1; i >= 0; i--) {
		struct entry *e = find(a, &a->shut[i]);

		if (e && !is_back(&e->bucket, &a->of_address, now_ms))
			continue;
		if (e)
			e->bucket.shut = false;
		a->shut[i] = a->shut[--a->n_shut];
		a->changed = true;
	}
	if (a->all.shut && is_back(&a->all, &a->in_all, now_ms)) {
		a->all.shut = false;
		a->changed = true;
	}
	sl_assert(0 <= a->n_shut && a->n_shut <= SL_ARRIVALS_SHUT);
	changed = a->changed;
	a->changed = false;
	out->all = a->all.shut;
	out->n = a->n_shut;
	memcpy(out->address, a->shut, (size_t)a->n_shut * sizeof *a->shut);
	return changed;
}
