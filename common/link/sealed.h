/* What members of a group hand to one another through the server, so that it cannot read it: their head and tail,
 * sealed by share.secret. A sealed run has a nonce, a tag and the run, encrypted (XSalsa20 and Poly1305). Its key
 * follows from the secret and from what the run is of, so it does not open as anything else. The nonce is a keyed hash
 * of the run, so two members with the same run seal it to the same bytes. A hash of the same kind tells the server
 * which members have the same run. Without the secret it cannot try a guess. Any thread. */
#ifndef SL_LINK_SEALED_H
#define SL_LINK_SEALED_H

#include "common/base/buf.h"
#include "common/link/key.h"

enum { SL_SEALED_NONCE = 24, SL_SEALED_TAG = 16, SL_SEALED_BYTES = SL_SEALED_NONCE + SL_SEALED_TAG };

/* What a run is of. All members that seal or open it need the same. */
struct sl_sealed {
	const struct sl_key *secret;
	const char *group; /* its name */
	uint64_t step, branch;
};

/* The first `bytes` of the nonce with which that run is sealed, 16 to SL_SEALED_NONCE. */
void sl_sealed_hash(const struct sl_sealed *as, struct sl_bytes run, uint8_t *out, size_t bytes);
/* run [SL_SEALED_BYTES + bytes], from the byte SL_SEALED_BYTES on: what is sealed, in place. */
void sl_sealed_close(const struct sl_sealed *as, uint8_t *run, size_t bytes);
/* The opposite. PAYLOAD, and nothing is to be read there: it is of something else, of another secret, or forged. */
enum sl_err sl_sealed_open(const struct sl_sealed *as, uint8_t *run, size_t bytes) SL_MUST_CHECK;

#endif
