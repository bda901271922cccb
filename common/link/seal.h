/* Letters between two parties, sealed end to end: the server that carries them can neither read nor change, repeat,
 * drop or reorder one without the receiver's notice, nor write one. Both parties know each other's CURVE key. Each end
 * first sends a fresh key in clear. The streams' keys come from both pairs (crypto_kx). So letters of an earlier stream
 * do not open in this one. Stolen CURVE keys do not open letters of the past. Each direction is a
 * crypto_secretstream. One caller at a time. */
#ifndef SL_LINK_SEAL_H
#define SL_LINK_SEAL_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/link/key.h"

enum { SL_SEAL_EXTRA = 24 + 17 }; /* a letter is so many bytes longer than its content */

struct sl_seal;

/* `first`: of the two ends, exactly one is. `about`: both ends have the same text. */
enum sl_err sl_seal_open(struct sl_seal **out, const struct sl_keypair *own, const struct sl_key *other, bool first,
			 const char *about, struct sl_fail *fail) SL_MUST_CHECK;
void sl_seal_close(struct sl_seal *seal); /* wipes the keys; NULL is fine */
/* The content of the first letter in clear. */
void sl_seal_fresh(const struct sl_seal *seal, uint8_t out[SL_KEY_BYTES]);
/* Takes the other end's. AUTH: no key. */
enum sl_err sl_seal_meet(struct sl_seal *seal, const uint8_t theirs[SL_KEY_BYTES], struct sl_fail *fail) SL_MUST_CHECK;
/* Only after sl_seal_meet. letter [len + SL_SEAL_EXTRA]. */
void sl_seal_write(struct sl_seal *seal, const uint8_t *content, size_t len, uint8_t *letter);
/* content [letter.len - SL_SEAL_EXTRA]. AUTH: the letter is not the next one of the other end. */
enum sl_err sl_seal_read(struct sl_seal *seal, struct sl_bytes letter, uint8_t *content,
			 struct sl_fail *fail) SL_MUST_CHECK;

#endif
