/* ZMTP's greeting: the 64 bytes that each end of a connection sends first, and which say, before any key counts, by
 * what mechanism it authenticates. */
#ifndef SL_LINK_GREETING_H
#define SL_LINK_GREETING_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum sl_greeting {
	SL_GREETING_PART,  /* a greeting so far; what it says is yet to come */
	SL_GREETING_NULL,  /* of an end without keys */
	SL_GREETING_CURVE, /* of an end with keys */
	SL_GREETING_OTHER, /* of an end with a mechanism that Split does not have */
	SL_GREETING_OLD,   /* ZMTP before 3.0, which has no mechanisms */
	SL_GREETING_ALIEN, /* not ZMTP */
	SL_GREETING_COUNT,
};

enum { SL_GREETING_BYTES = 64 };

/* What makes the other end send all of its greeting, and wait for the rest of ours: signature and version. With less
 * ZeroMQ sends no mechanism, and behind more it may close, which can take its greeting along. */
extern const struct sl_bytes sl_greeting_opening;

/* The first bytes that came, of any length. Once it is not PART, more bytes do not change it; it never is with all
 * SL_GREETING_BYTES of them. */
enum sl_greeting sl_greeting_read(struct sl_bytes bytes);
/* Of who listens at an endpoint. */
const char *sl_greeting_text(enum sl_greeting greeting);

/* AUTH with a sentence for the connecting end, where one of the two has keys and the other has not; else OK, and *fail
 * stays as it is. `keys`: this end has; `print`: the fingerprint of its own, or NULL. */
enum sl_err sl_greeting_judge(enum sl_greeting theirs, bool keys, const char *print, const char *endpoint,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
