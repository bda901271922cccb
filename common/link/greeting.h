/* ZMTP's greeting: the 64 bytes that each end of a connection sends first. They name the end's authentication
 * mechanism, before any key is used. */
#ifndef SL_LINK_GREETING_H
#define SL_LINK_GREETING_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum sl_greeting {
	SL_GREETING_PART,  /* the beginning of a greeting; the mechanism has not come yet */
	SL_GREETING_NULL,  /* the end has no keys */
	SL_GREETING_CURVE, /* the end has keys */
	SL_GREETING_OTHER, /* the end has a mechanism that Split does not support */
	SL_GREETING_OLD,   /* ZMTP before 3.0, which has no mechanisms */
	SL_GREETING_ALIEN, /* not ZMTP */
	SL_GREETING_COUNT,
};

enum { SL_GREETING_BYTES = 64 };

/* Signature and version: the bytes after which the peer sends all of its greeting and waits for the rest of ours. After
 * fewer, ZeroMQ does not send its mechanism. After more, it may close the connection, and its greeting may be lost. */
extern const struct sl_bytes sl_greeting_opening;

/* Reads the first bytes that came, of any number. If the result is not PART, more bytes do not change it. With
 * SL_GREETING_BYTES bytes it is never PART. */
enum sl_greeting sl_greeting_read(struct sl_bytes bytes);
/* A sentence about the peer that listens at an endpoint. */
const char *sl_greeting_text(enum sl_greeting greeting);

/* AUTH, with a sentence for the connecting end, if one end has keys and the other has none; else OK, and *fail does not
 * change. `keys`: whether this end has keys; `print`: the fingerprint of its own key, or NULL. */
enum sl_err sl_greeting_judge(enum sl_greeting theirs, bool keys, const char *print, const char *endpoint,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
