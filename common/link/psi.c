#include "common/link/psi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

_Static_assert((int)SL_PSI_POINT == (int)crypto_core_ristretto255_BYTES, "a point is its encoding");

enum { BLOCK = 64 }; /* points that a thread takes at a time */

/* So that the points of another protocol, or another version of this one, are others. */
static const char domain[] = "split align 1";

struct sl_psi {
	const struct sl_psi_name *name;
	int64_t n, all;
	struct sl_pool *pool;
	uint32_t *order; /* [all]: the name of each place; from n on it has none */
	uint8_t scalar[crypto_core_ristretto255_SCALARBYTES];
};

static void shuffle(uint32_t *places, int64_t n)
{
	for (int64_t last = n - 1; last > 0; last--) {
		const uint32_t other = randombytes_uniform((uint32_t)last + 1), swap = places[last];

		places[last] = places[other];
		places[other] = swap;
	}
}

enum sl_err sl_psi_open(struct sl_psi **out, const struct sl_psi_name *name, int64_t n, int64_t all,
			struct sl_pool *pool, struct sl_fail *fail)
{
	struct sl_psi *p = calloc(1, sizeof *p);

	if (p)
		p->order = malloc((size_t)all * sizeof *p->order + 1);
	if (!p || !p->order || sodium_init() < 0) {
		sl_psi_close(p);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %lld points", (long long)all);
	}
	p->name = name;
	p->n = n;
	p->all = all;
	p->pool = pool;
	for (int64_t i = 0; i < all; i++)
		p->order[i] = (uint32_t)i;
	shuffle(p->order, all);
	crypto_core_ristretto255_scalar_random(p->scalar);
	*out = p;
	return SL_OK;
}

void sl_psi_close(struct sl_psi *p)
{
	if (!p)
		return;
	sodium_memzero(p->scalar, sizeof p->scalar);
	free(p->order);
	free(p);
}

int64_t sl_psi_name_at(const struct sl_psi *p, int64_t place)
{
	return p->order[place] < p->n ? (int64_t)p->order[place] : -1;
}

static void hash(const struct sl_psi_name *name, uint8_t point[SL_PSI_POINT])
{
	const uint8_t list = (uint8_t)name->list;
	uint8_t digest[crypto_hash_sha512_BYTES];
	crypto_hash_sha512_state state;

	crypto_hash_sha512_init(&state);
	crypto_hash_sha512_update(&state, (const uint8_t *)domain, sizeof domain);
	crypto_hash_sha512_update(&state, &list, 1);
	crypto_hash_sha512_update(&state, (const uint8_t *)name->text, strlen(name->text));
	crypto_hash_sha512_final(&state, digest);
	crypto_core_ristretto255_from_hash(point, digest);
}

struct points {
	const struct sl_psi *psi;
	const uint8_t *in; /* NULL: own names */
	uint8_t *out;
	int64_t from, count;
	_Atomic int64_t bad; /* the number of a point that is none; -1 */
};

static bool compute(const struct points *p, int64_t i)
{
	uint8_t *out = p->out + i * SL_PSI_POINT, point[SL_PSI_POINT];
	int64_t name;

	if (p->in)
		return crypto_scalarmult_ristretto255(out, p->psi->scalar, p->in + i * SL_PSI_POINT) == 0;
	name = sl_psi_name_at(p->psi, p->from + i);
	if (name < 0) {
		crypto_core_ristretto255_random(out);
		return true;
	}
	hash(&p->psi->name[name], point);
	return crypto_scalarmult_ristretto255(out, p->psi->scalar, point) == 0;
}

static void run_block(void *arg, int64_t block, int worker)
{
	struct points *p = arg;
	const int64_t end = (block + 1) * BLOCK < p->count ? (block + 1) * BLOCK : p->count;

	for (int64_t i = block * BLOCK; i < end; i++)
		if (!compute(p, i))
			atomic_store(&p->bad, i);
}

static bool run(struct points *p)
{
	atomic_init(&p->bad, -1);
	sl_pool_run(p->psi->pool, (p->count + BLOCK - 1) / BLOCK, run_block, p);
	return atomic_load(&p->bad) < 0;
}

void sl_psi_blind(const struct sl_psi *psi, int64_t from, int64_t count, uint8_t *out)
{
	struct points p = {.psi = psi, .out = out, .from = from, .count = count};

	(void)run(&p); /* the hash of a name is zero with probability 2^-250 */
}

enum sl_err sl_psi_multiply(const struct sl_psi *psi, const uint8_t *in, int64_t count, uint8_t *out,
			    struct sl_fail *fail)
{
	struct points p = {.psi = psi, .in = in, .out = out, .count = count};

	return run(&p) ? SL_OK
		       : sl_fail_set(fail, SL_ERR_DATA, "point %lld is no element of ristretto255, or is zero",
				     (long long)atomic_load(&p.bad));
}
