#include "common/link/psi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

_Static_assert((int)SL_PSI_POINT == (int)crypto_core_ristretto255_BYTES, "a point is its encoding");

enum { BLOCK = 64 }; /* points that a thread takes at a time */

/* So that the points of another protocol, or another version of this one, are others. */
static const char domain[] = "split align 2";

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
	const uint8_t
		*seed; /* of weights: `in` are multiplied by these, and each block is added up. NULL: by the scalar */
	uint8_t *out;
	int64_t from, count;
	_Atomic int64_t bad; /* the number of a point that is none; -1 */
};

/* Weights of 128 bits. */
static void weigh(const uint8_t seed[crypto_hash_sha512_BYTES], int64_t i, uint8_t weight[])
{
	uint8_t digest[crypto_hash_sha512_BYTES];
	crypto_hash_sha512_state state;

	crypto_hash_sha512_init(&state);
	crypto_hash_sha512_update(&state, seed, crypto_hash_sha512_BYTES);
	crypto_hash_sha512_update(&state, (const uint8_t *)&i, sizeof i);
	crypto_hash_sha512_final(&state, digest);
	memset(weight, 0, crypto_core_ristretto255_SCALARBYTES);
	memcpy(weight, digest, 16);
}

static bool compute(const struct points *p, int64_t i)
{
	uint8_t *out = p->out + i * SL_PSI_POINT, point[SL_PSI_POINT], weight[crypto_core_ristretto255_SCALARBYTES];
	int64_t name;

	if (p->seed) {
		weigh(p->seed, i, weight);
		return crypto_scalarmult_ristretto255(out, weight, p->in + i * SL_PSI_POINT) == 0;
	}
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
	uint8_t *first = p->out + block * BLOCK * SL_PSI_POINT;

	for (int64_t i = block * BLOCK; i < end; i++)
		if (!compute(p, i) || (p->seed && i > block * BLOCK &&
				       crypto_core_ristretto255_add(first, first, p->out + i * SL_PSI_POINT)))
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

/* ---- proofs */

enum sl_err sl_psi_sums(const struct sl_psi *psi, const uint8_t *f, const uint8_t *l, const uint8_t *q, int64_t n,
			uint8_t sum[2][SL_PSI_POINT], struct sl_fail *fail)
{
	const uint8_t *const all[] = {f, l, q};
	uint8_t seed[crypto_hash_sha512_BYTES], *room = malloc((size_t)n * SL_PSI_POINT + 1);
	crypto_hash_sha512_state state;
	bool good = true;

	if (!room)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a proof of common rows");
	crypto_hash_sha512_init(&state);
	crypto_hash_sha512_update(&state, (const uint8_t *)domain, sizeof domain);
	for (int k = 0; k < 3; k++)
		crypto_hash_sha512_update(&state, all[k], (size_t)n * SL_PSI_POINT);
	crypto_hash_sha512_final(&state, seed);
	for (int k = 0; k < 2; k++) {
		struct points p = {.psi = psi, .in = all[k], .seed = seed, .out = room, .count = n};

		good = good && run(&p);
		memset(sum[k], 0, SL_PSI_POINT);
		for (int64_t i = 0; i < n && good; i += BLOCK)
			good = crypto_core_ristretto255_add(sum[k], sum[k], room + i * SL_PSI_POINT) == 0;
	}
	free(room);
	return good ? SL_OK : sl_fail_set(fail, SL_ERR_DATA, "a common point is no element of ristretto255");
}

/* What a proof is about: the party's scalar times the base, the sum, its product; and both times a random scalar. */
struct claim {
	uint8_t base[SL_PSI_POINT], sum[SL_PSI_POINT], product[SL_PSI_POINT];
	uint8_t random_base[SL_PSI_POINT], random_sum[SL_PSI_POINT];
};

static void challenge(const struct claim *c, uint8_t out[crypto_core_ristretto255_SCALARBYTES])
{
	uint8_t digest[crypto_hash_sha512_BYTES];
	crypto_hash_sha512_state state;

	crypto_hash_sha512_init(&state);
	crypto_hash_sha512_update(&state, (const uint8_t *)domain, sizeof domain);
	crypto_hash_sha512_update(&state, (const uint8_t *)c, sizeof *c);
	crypto_hash_sha512_final(&state, digest);
	crypto_core_ristretto255_scalar_reduce(out, digest);
}

void sl_psi_prove(const struct sl_psi *psi, const uint8_t sum[SL_PSI_POINT], uint8_t proof[SL_PSI_PROOF])
{
	uint8_t random[crypto_core_ristretto255_SCALARBYTES], part[crypto_core_ristretto255_SCALARBYTES];
	uint8_t *hash = proof + SL_PSI_POINT, *answer = hash + SL_PSI_POINT;
	struct claim c;

	memcpy(c.sum, sum, SL_PSI_POINT);
	crypto_core_ristretto255_scalar_random(random);
	/* none of these is zero but with probability 2^-250, and then the proof does not hold */
	(void)!crypto_scalarmult_ristretto255_base(c.base, psi->scalar);
	(void)!crypto_scalarmult_ristretto255(c.product, psi->scalar, sum);
	(void)!crypto_scalarmult_ristretto255_base(c.random_base, random);
	(void)!crypto_scalarmult_ristretto255(c.random_sum, random, sum);
	memcpy(proof, c.base, SL_PSI_POINT);
	challenge(&c, hash);
	crypto_core_ristretto255_scalar_mul(part, hash, psi->scalar);
	crypto_core_ristretto255_scalar_sub(answer, random, part);
	sodium_memzero(random, sizeof random);
	sodium_memzero(part, sizeof part);
}

/* out = a · P + b · Q, where P NULL is the base. */
static bool combine(uint8_t out[SL_PSI_POINT], const uint8_t *a, const uint8_t *p, const uint8_t *b, const uint8_t *q)
{
	uint8_t x[SL_PSI_POINT], y[SL_PSI_POINT];

	return (p ? crypto_scalarmult_ristretto255(x, a, p) : crypto_scalarmult_ristretto255_base(x, a)) == 0 &&
	       crypto_scalarmult_ristretto255(y, b, q) == 0 && crypto_core_ristretto255_add(out, x, y) == 0;
}

bool sl_psi_proven(const struct sl_psi *psi, const uint8_t sum[2][SL_PSI_POINT], int own,
		   const uint8_t proof[SL_PSI_PROOF])
{
	const uint8_t *hash = proof + SL_PSI_POINT, *answer = hash + SL_PSI_POINT;
	uint8_t wanted[crypto_core_ristretto255_SCALARBYTES];
	struct claim c;

	memcpy(c.base, proof, SL_PSI_POINT);
	memcpy(c.sum, sum[own], SL_PSI_POINT);
	if (crypto_scalarmult_ristretto255(c.product, psi->scalar, sum[!own]) ||
	    !combine(c.random_base, answer, NULL, hash, c.base) ||
	    !combine(c.random_sum, answer, c.sum, hash, c.product))
		return false;
	challenge(&c, wanted);
	return memcmp(wanted, hash, sizeof wanted) == 0;
}
