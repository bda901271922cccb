/* Curve25519 keys, as ZeroMQ's CURVE uses them: 32 bytes, written as 40 characters of Z85 (rfc.zeromq.org/spec/32).
 * People compare fingerprints of public keys. Text of a key file, where "#" begins a remark (no key begins with it,
 * though "#" is a digit of Z85):
 *
 *   public KEY
 *   secret KEY
 */
#ifndef SL_LINK_KEY_H
#define SL_LINK_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

enum {
	SL_KEY_BYTES = 32,
	SL_KEY_TEXT = 41,    /* Z85 and NUL */
	SL_FINGERPRINT = 20, /* "0123-4567-89ab-cdef" and NUL: 64 bits of the public key's SHA-256 */
	SL_KEY_NAME = 64     /* letters, digits, and . _ - @; with NUL */
};

struct sl_key {
	uint8_t byte[SL_KEY_BYTES];
};

struct sl_keypair {
	struct sl_key public_key, secret_key;
};

bool sl_key_equal(const struct sl_key *a, const struct sl_key *b); /* for public keys: not constant-time */
void sl_key_print(const struct sl_key *key, char out[SL_KEY_TEXT]);
void sl_key_fingerprint(const struct sl_key *public_key, char out[SL_FINGERPRINT]);
/* False: not exactly 40 characters of Z85. */
bool sl_key_parse(struct sl_key *out, const char *text, size_t len);

/* Makes a new pair. UNAVAILABLE: this libzmq has no CURVE. */
enum sl_err sl_keypair_make(struct sl_keypair *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes a new file with mode 0600. CANTCREATE: something exists at `path`, or it cannot be created; IO. */
enum sl_err sl_keypair_save(const struct sl_keypair *pair, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* NOINPUT: no such file; CONFIG: another user owns the file, or may read or write it; DATA: not a key file, or the two
 * keys do not belong together; IO. *fail repeats no text of the file. */
enum sl_err sl_keypair_load(struct sl_keypair *out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* out [bytes] = a pseudo-random function of the key and `of`, which looks random to anybody who lacks the key. It is
 * ChaCha20 with BLAKE2b(of), keyed with `key`, as its key. */
void sl_key_stream(const struct sl_key *key, const void *of, size_t of_bytes, void *out, size_t bytes);
/* A keyed hash (BLAKE2b): without the key nobody can construct bytes with a given hash, as is possible for XXH3. */
uint64_t sl_key_hash(const struct sl_key *key, const void *of, size_t bytes);
void sl_keypair_wipe(struct sl_keypair *pair);
/* For daemons: keeps this process, which holds `pair`, out of core dumps and away from debuggers of its user. With
 * SPLIT_DUMPABLE in the environment it hides no more than the pages of `pair` from dumps. */
void sl_keypair_hide(const struct sl_keypair *pair);

/* `text` is the path of a file that has one line KEY or KEY NAME; if there is no such file, a public key. */
enum sl_err sl_key_load_public(struct sl_key *out, const char *text, struct sl_fail *fail) SL_MUST_CHECK;

/* Reads one line of such a file, without its newline. */
enum sl_key_line { SL_KEY_LINE_BLANK, SL_KEY_LINE_KEY, SL_KEY_LINE_BAD };
/* KEY: *key and `name` are filled (name "": none is given). BAD: *why is a sentence. */
enum sl_key_line sl_key_read_line(const char *line, size_t len, struct sl_key *key, char name[SL_KEY_NAME],
				  const char **why);

/* The sub-command keygen: writes a new pair to `path`, its public key and a newline to `out`, a message to stderr. */
enum sl_err sl_keygen(const char *path, FILE *out, struct sl_fail *fail) SL_MUST_CHECK;

#endif
