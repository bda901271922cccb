/* The arithmetic of private set intersection over ristretto255 (RFC 9496). A name becomes a point by a hash. Each party
 * multiplies points by a secret scalar; a · (b · P) = b · (a · P). So two parties find which names both have, and of
 * the others no more than their number. Without a party's scalar nobody can try names. Who sends which points, is in
 * client/align/align_talk.h. One caller at a time. */
#ifndef SL_LINK_PSI_H
#define SL_LINK_PSI_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/pool.h"

enum { SL_PSI_POINT = 32, SL_PSI_PROOF = 3 * SL_PSI_POINT };

/* Names of other lists never match, even if their texts are equal. */
struct sl_psi_name {
	const char *text;
	int list;
};

struct sl_psi;

/* Draws a scalar, and an order of `all` places: those of the names [n], which are borrowed, and of random points. */
enum sl_err sl_psi_open(struct sl_psi **out, const struct sl_psi_name *name, int64_t n, int64_t all,
			struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;
void sl_psi_close(struct sl_psi *psi); /* wipes the scalar; NULL is fine */
/* out [count, SL_PSI_POINT] = the points of the places from `from` on, times the scalar. */
void sl_psi_blind(const struct sl_psi *psi, int64_t from, int64_t count, uint8_t *out);
/* out = scalar · in, of `count` points. DATA: one is no encoding of a point, or is zero. */
enum sl_err sl_psi_multiply(const struct sl_psi *psi, const uint8_t *in, int64_t count, uint8_t *out,
			    struct sl_fail *fail) SL_MUST_CHECK;

/* Proves that points which both parties call common are so. f and l: each party's own points of the common rows, times
 * its scalar, [n, SL_PSI_POINT]; q: the same rows' points times both. A party could write any q beside an f. So each
 * proves, by its own scalar, that the other's points lead to these q: with weights that follow from all f, l and q one
 * proof covers all rows (Chaum and Pedersen, 1992; batches as in RFC 9497). */

/* sum[0] = Σ w · f, sum[1] = Σ w · l. NOMEM; DATA: a point is none. */
enum sl_err sl_psi_sums(const struct sl_psi *psi, const uint8_t *f, const uint8_t *l, const uint8_t *q, int64_t n,
			uint8_t sum[2][SL_PSI_POINT], struct sl_fail *fail) SL_MUST_CHECK;
/* That this scalar multiplies the other's `sum`. */
void sl_psi_prove(const struct sl_psi *psi, const uint8_t sum[SL_PSI_POINT], uint8_t proof[SL_PSI_PROOF]);
/* Whether the other party's proof of own sum[own] holds: its product is that of sum[!own] and this scalar. */
bool sl_psi_proven(const struct sl_psi *psi, const uint8_t sum[2][SL_PSI_POINT], int own,
		   const uint8_t proof[SL_PSI_PROOF]);
int64_t sl_psi_name_at(const struct sl_psi *psi, int64_t place); /* number of its name; -1: a random point */

#endif
