#include "common/link/seal.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

enum { HEADER = crypto_secretstream_xchacha20poly1305_HEADERBYTES, KEY = SL_KEY_BYTES };

_Static_assert((int)SL_SEAL_EXTRA == HEADER + (int)crypto_secretstream_xchacha20poly1305_ABYTES, "a letter's size");
_Static_assert(KEY == (int)crypto_kx_PUBLICKEYBYTES && KEY == (int)crypto_kx_SECRETKEYBYTES &&
		       KEY == (int)crypto_kx_SESSIONKEYBYTES &&
		       KEY == (int)crypto_secretstream_xchacha20poly1305_KEYBYTES,
	       "all keys have 32 bytes");

static const char label[] = "split letter 1";

/* The streams' keys, received and sent. */
struct keys {
	uint8_t rx[KEY], tx[KEY];
};

struct sl_seal {
	struct sl_keypair fresh;
	struct keys lasting; /* from the CURVE keys */
	bool first, wrote, read;
	char about[64];
	crypto_secretstream_xchacha20poly1305_state in, out;
	struct keys keys;
};

static enum sl_err agree(struct keys *out, const struct sl_keypair *own, const uint8_t *other, bool first,
			 struct sl_fail *fail)
{
	const uint8_t *public = own->public_key.byte, *secret = own->secret_key.byte;
	const int bad = first ? crypto_kx_client_session_keys(out->rx, out->tx, public, secret, other)
			      : crypto_kx_server_session_keys(out->rx, out->tx, public, secret, other);

	return bad ? sl_fail_set(fail, SL_ERR_AUTH, "the other member's public key is not a valid X25519 key") : SL_OK;
}

enum sl_err sl_seal_open(struct sl_seal **out, const struct sl_keypair *own, const struct sl_key *other, bool first,
			 const char *about, struct sl_fail *fail)
{
	struct sl_seal *s = calloc(1, sizeof *s);
	enum sl_err err;

	if (!s || sodium_init() < 0) {
		free(s);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for letters");
	}
	s->first = first;
	strncpy(s->about, about, sizeof s->about - 1);
	crypto_kx_keypair(s->fresh.public_key.byte, s->fresh.secret_key.byte);
	err = agree(&s->lasting, own, other->byte, first, fail);
	if (err)
		sl_seal_close(s);
	else
		*out = s;
	return err;
}

void sl_seal_close(struct sl_seal *s)
{
	if (s)
		sodium_memzero(s, sizeof *s);
	free(s);
}

void sl_seal_fresh(const struct sl_seal *s, uint8_t out[SL_KEY_BYTES])
{
	memcpy(out, s->fresh.public_key.byte, KEY);
}

/* One key of both: BLAKE2b of the fresh one and of all that is public, keyed with the lasting one. */
static void join(uint8_t out[KEY], const uint8_t lasting[KEY], const uint8_t fresh[KEY], const uint8_t *first,
		 const uint8_t *second, const char about[64])
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, lasting, KEY, KEY);
	crypto_generichash_update(&state, (const uint8_t *)label, sizeof label);
	crypto_generichash_update(&state, fresh, KEY);
	crypto_generichash_update(&state, first, KEY);
	crypto_generichash_update(&state, second, KEY);
	crypto_generichash_update(&state, (const uint8_t *)about, 64);
	crypto_generichash_final(&state, out, KEY);
}

enum sl_err sl_seal_meet(struct sl_seal *s, const uint8_t theirs[SL_KEY_BYTES], struct sl_fail *fail)
{
	const uint8_t *own = s->fresh.public_key.byte;
	const uint8_t *first = s->first ? own : theirs, *second = s->first ? theirs : own;
	struct keys fresh;
	enum sl_err err = agree(&fresh, &s->fresh, theirs, s->first, fail);

	if (err)
		return err;
	join(s->keys.rx, s->lasting.rx, fresh.rx, first, second, s->about);
	join(s->keys.tx, s->lasting.tx, fresh.tx, first, second, s->about);
	sodium_memzero(&fresh, sizeof fresh);
	sodium_memzero(&s->fresh.secret_key, sizeof s->fresh.secret_key);
	return SL_OK;
}

/* The stream's header is in front of its first letter; those behind have zeros there. */
void sl_seal_write(struct sl_seal *s, const uint8_t *content, size_t len, uint8_t *letter)
{
	memset(letter, 0, HEADER);
	if (!s->wrote)
		crypto_secretstream_xchacha20poly1305_init_push(&s->out, letter, s->keys.tx);
	s->wrote = true;
	crypto_secretstream_xchacha20poly1305_push(&s->out, letter + HEADER, NULL, content, len, letter, HEADER, 0);
}

enum sl_err sl_seal_read(struct sl_seal *s, struct sl_bytes letter, uint8_t *content, struct sl_fail *fail)
{
	uint8_t tag;

	if (!s->read && letter.len >= SL_SEAL_EXTRA)
		(void)crypto_secretstream_xchacha20poly1305_init_pull(&s->in, letter.data, s->keys.rx);
	s->read = true;
	if (letter.len < SL_SEAL_EXTRA ||
	    crypto_secretstream_xchacha20poly1305_pull(&s->in, content, NULL, &tag, letter.data + HEADER,
						       letter.len - HEADER, letter.data, HEADER) != 0)
		return sl_fail_set(fail, SL_ERR_AUTH,
				   "a letter does not open: its sender has another key than share.peers says, or the "
				   "server lost, repeated or changed a letter");
	return SL_OK;
}
