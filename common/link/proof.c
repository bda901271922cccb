#include "common/link/proof.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sodium.h>

_Static_assert((int)SL_SESSION_BYTES == (int)crypto_sign_PUBLICKEYBYTES, "a session's id is a public key");
_Static_assert((int)SL_PROOF_BYTES == (int)crypto_sign_BYTES, "a proof is a signature");
_Static_assert((int)SL_SECRET_BYTES == (int)crypto_sign_SEEDBYTES, "a secret is a key's seed");

/* Labels, so that a signature or a hash for one purpose is not valid for another. */
static const char proof_label[] = "split session proof", name_label[] = "split session name";

struct statement {
	uint8_t byte[sizeof proof_label + SL_NONCE_BYTES + SL_WIRE_HEADER_MAX];
	size_t len;
};

/* Makes the signed bytes: the label, the nonce, and the Hello's header with a proof of zeros. */
static enum sl_err state(struct statement *s, const struct sl_hello *hello, const uint8_t nonce[SL_NONCE_BYTES])
{
	struct sl_frame bare = {.kind = SL_FRAME_HELLO, .epoch = hello->epoch, .u.hello = *hello};
	size_t at = sizeof proof_label, len;
	enum sl_err err;

	memcpy(s->byte, proof_label, at);
	memcpy(s->byte + at, nonce, SL_NONCE_BYTES);
	at += SL_NONCE_BYTES;
	memset(bare.u.hello.proof, 0, sizeof bare.u.hello.proof);
	err = sl_wire_encode(&bare, s->byte + at, &len);
	s->len = at + len;
	return err;
}

void sl_secret_from(struct sl_secret *secret, const uint8_t seed[SL_SECRET_BYTES])
{
	uint8_t pair[crypto_sign_SECRETKEYBYTES];

	memmove(secret->seed, seed, sizeof secret->seed);
	crypto_sign_seed_keypair(secret->session, pair, secret->seed);
	sodium_memzero(pair, sizeof pair);
}

enum sl_err sl_secret_make(struct sl_secret *secret, struct sl_fail *fail)
{
	uint8_t seed[SL_SECRET_BYTES];

	if (getrandom(seed, sizeof seed, 0) != sizeof seed)
		return sl_fail_set(fail, SL_ERR_OS, "no random bytes for the session's secret");
	sl_secret_from(secret, seed);
	sodium_memzero(seed, sizeof seed);
	return SL_OK;
}

void sl_secret_wipe(struct sl_secret *secret)
{
	sodium_memzero(secret, sizeof *secret);
}

enum sl_err sl_proof_make(struct sl_hello *hello, const struct sl_secret *secret, const uint8_t nonce[SL_NONCE_BYTES])
{
	uint8_t pair[crypto_sign_SECRETKEYBYTES], session[SL_SESSION_BYTES];
	struct statement s;
	enum sl_err err = state(&s, hello, nonce);

	if (err)
		return err;
	crypto_sign_seed_keypair(session, pair, secret->seed);
	crypto_sign_detached(hello->proof, NULL, s.byte, s.len, pair);
	sodium_memzero(pair, sizeof pair);
	return SL_OK;
}

bool sl_proof_holds(const struct sl_hello *hello, const uint8_t nonce[SL_NONCE_BYTES])
{
	struct statement s;

	return state(&s, hello, nonce) == SL_OK &&
	       crypto_sign_verify_detached(hello->proof, s.byte, s.len, hello->session) == 0;
}

/* What a report's signature is of: a label with the member, a zero byte, and the text. */
static size_t state_report(const struct sl_wire_report *r, const char *group, int member,
			   char out[128 + SL_WIRE_REPORT])
{
	const int n = snprintf(out, 128, "split report %d %.64s", member, group) + 1;
	const size_t len = strnlen(r->text, SL_WIRE_REPORT);

	memcpy(out + n, r->text, len);
	return (size_t)n + len;
}

void sl_report_sign(struct sl_wire_report *r, const struct sl_secret *secret, const char *group, int member)
{
	uint8_t pair[crypto_sign_SECRETKEYBYTES], session[SL_SESSION_BYTES];
	char of[128 + SL_WIRE_REPORT];
	const size_t len = state_report(r, group, member, of);

	crypto_sign_seed_keypair(session, pair, secret->seed);
	crypto_sign_detached(r->signature, NULL, (const uint8_t *)of, len, pair);
	sodium_memzero(pair, sizeof pair);
}

bool sl_report_holds(const struct sl_wire_report *r, const uint8_t session[SL_SESSION_BYTES], const char *group,
		     int member)
{
	char of[128 + SL_WIRE_REPORT];
	const size_t len = state_report(r, group, member, of);

	return crypto_sign_verify_detached(r->signature, (const uint8_t *)of, len, session) == 0;
}

bool sl_proof_lacks(const struct sl_hello *hello)
{
	return sodium_is_zero(hello->proof, sizeof hello->proof);
}

void sl_group_name(const char *group, uint8_t name[16])
{
	static const char label[] = "split group name";
	uint8_t text[sizeof label + 64] = {0}, digest[crypto_hash_sha256_BYTES];
	const size_t len = strnlen(group, 64);

	memcpy(text, label, sizeof label);
	memcpy(text + sizeof label, group, len);
	crypto_hash_sha256(digest, text, sizeof label + len);
	memcpy(name, digest, 16);
}

void sl_session_name(const uint8_t session[SL_SESSION_BYTES], uint8_t name[16])
{
	uint8_t text[sizeof name_label + SL_SESSION_BYTES], digest[crypto_hash_sha256_BYTES];

	memcpy(text, name_label, sizeof name_label);
	memcpy(text + sizeof name_label, session, SL_SESSION_BYTES);
	crypto_hash_sha256(digest, text, sizeof text);
	memcpy(name, digest, 16);
}
