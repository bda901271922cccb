#include "common/link/sealed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

_Static_assert((int)SL_SEALED_NONCE == (int)crypto_secretbox_NONCEBYTES, "a nonce of a secretbox");
_Static_assert((int)SL_SEALED_TAG == (int)crypto_secretbox_MACBYTES, "a tag of a secretbox");

struct keys {
	uint8_t box[crypto_secretbox_KEYBYTES], hash[crypto_generichash_KEYBYTES];
};

/* A group's name is the last word, and has no blanks. */
static struct keys derive(const struct sl_sealed *s)
{
	struct keys keys;
	char of[128];
	const int n = snprintf(of, sizeof of, "split seal %" PRIu64 " %" PRIu64 " %.64s", s->step, s->branch, s->group);

	sl_key_stream(s->secret, of, (size_t)n, &keys, sizeof keys);
	return keys;
}

static void hash_run(const struct keys *keys, const uint8_t *run, size_t bytes, uint8_t nonce[SL_SEALED_NONCE])
{
	crypto_generichash(nonce, SL_SEALED_NONCE, run, bytes, keys->hash, sizeof keys->hash);
}

void sl_sealed_hash(const struct sl_sealed *s, struct sl_bytes run, uint8_t *out, size_t bytes)
{
	struct keys keys = derive(s);
	uint8_t nonce[SL_SEALED_NONCE];

	hash_run(&keys, run.data, run.len, nonce);
	memcpy(out, nonce, bytes);
	explicit_bzero(&keys, sizeof keys);
}

void sl_sealed_close(const struct sl_sealed *s, uint8_t *run, size_t bytes)
{
	struct keys keys = derive(s);
	uint8_t *text = run + SL_SEALED_BYTES;

	hash_run(&keys, text, bytes, run);
	crypto_secretbox_detached(text, run + SL_SEALED_NONCE, text, bytes, run, keys.box);
	explicit_bzero(&keys, sizeof keys);
}

enum sl_err sl_sealed_open(const struct sl_sealed *s, uint8_t *run, size_t bytes)
{
	struct keys keys = derive(s);
	uint8_t *text = run + SL_SEALED_BYTES, nonce[SL_SEALED_NONCE];
	bool opens = crypto_secretbox_open_detached(text, text, run + SL_SEALED_NONCE, bytes, run, keys.box) == 0;

	/* else a member could send another run than the one whose hash the others confirm */
	if (opens) {
		hash_run(&keys, text, bytes, nonce);
		opens = sodium_memcmp(nonce, run, sizeof nonce) == 0;
	}
	explicit_bzero(&keys, sizeof keys);
	return opens ? SL_OK : SL_ERR_PAYLOAD;
}
