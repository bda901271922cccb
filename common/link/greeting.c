#include "common/link/greeting.h"

#include <string.h>

/* Offsets and lengths of https://rfc.zeromq.org/spec/23: signature, version, mechanism padded with zeros. The rest does
 * not matter here: whether this end is the mechanism's server, and filler. */
enum { SIGNATURE = 10, MAJOR = 10, MECHANISM = 12, MECHANISM_BYTES = 20, MAJOR_MIN = 3 };

static const uint8_t opening[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, MAJOR_MIN};

const struct sl_bytes sl_greeting_opening = {opening, sizeof opening};

static bool is(const uint8_t *mechanism, const char *name)
{
	return strncmp((const char *)mechanism, name, MECHANISM_BYTES) == 0;
}

enum sl_greeting sl_greeting_read(struct sl_bytes b)
{
	const uint8_t *mechanism;

	if (b.len > 0 && b.data[0] != 0xff)
		return SL_GREETING_ALIEN;
	if (b.len >= SIGNATURE && !(b.data[SIGNATURE - 1] & 1))
		return SL_GREETING_ALIEN;
	if (b.len > MAJOR && b.data[MAJOR] < MAJOR_MIN)
		return SL_GREETING_OLD;
	if (b.len < MECHANISM + MECHANISM_BYTES)
		return SL_GREETING_PART;
	mechanism = b.data + MECHANISM;
	return is(mechanism, "NULL")    ? SL_GREETING_NULL
	       : is(mechanism, "CURVE") ? SL_GREETING_CURVE
					: SL_GREETING_OTHER;
}

const char *sl_greeting_text(enum sl_greeting greeting)
{
	static const char *const text[SL_GREETING_COUNT] = {
		[SL_GREETING_PART] = "the peer started a ZMTP greeting but did not finish it",
		[SL_GREETING_NULL] = "a ZeroMQ program without keys listens there",
		[SL_GREETING_CURVE] = "a ZeroMQ program with keys listens there",
		[SL_GREETING_OTHER] =
			"another service listens there: it speaks ZeroMQ, but offers neither NULL nor CURVE",
		[SL_GREETING_OLD] = "another service listens there: it speaks a ZMTP older than 3.0",
		[SL_GREETING_ALIEN] = "another service listens there: it does not speak ZMTP",
	};

	return text[greeting];
}

enum sl_err sl_greeting_judge(enum sl_greeting theirs, bool keys, const char *print, const char *endpoint,
			      struct sl_fail *fail)
{
	if (theirs == SL_GREETING_CURVE && !keys)
		return sl_fail_set(fail, SL_ERR_AUTH,
				   "%s accepts only clients with keys, but this client's config has no auth section",
				   endpoint);
	if (theirs != SL_GREETING_NULL || !keys)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_AUTH,
			   "%s does not authenticate: its config has no auth section, but this client's has one%s%s%s",
			   endpoint, print ? " (the fingerprint of its key is " : "", print ? print : "",
			   print ? ")" : "");
}
