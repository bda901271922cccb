#include "common/link/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>
#include <zmq.h>

#include "common/base/buf.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/text.h"

enum { FILE_BYTES = 4096, Z85 = SL_KEY_TEXT - 1 };

void sl_key_stream(const struct sl_key *key, const void *of, size_t of_bytes, void *out, size_t bytes)
{
	static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
	uint8_t stream_key[crypto_stream_chacha20_KEYBYTES];

	crypto_generichash(stream_key, sizeof stream_key, of, of_bytes, key->byte, sizeof key->byte);
	crypto_stream_chacha20(out, bytes, nonce, stream_key);
}

uint64_t sl_key_hash(const struct sl_key *key, const void *of, size_t bytes)
{
	uint8_t digest[crypto_generichash_BYTES];
	uint64_t hash;

	crypto_generichash(digest, sizeof digest, of, bytes, key->byte, sizeof key->byte);
	memcpy(&hash, digest, sizeof hash);
	return hash;
}

bool sl_key_equal(const struct sl_key *a, const struct sl_key *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

void sl_key_print(const struct sl_key *key, char out[SL_KEY_TEXT])
{
	zmq_z85_encode(out, key->byte, sizeof key->byte);
}

void sl_key_fingerprint(const struct sl_key *public_key, char out[SL_FINGERPRINT])
{
	uint8_t d[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(d, public_key->byte, sizeof public_key->byte);
	snprintf(out, SL_FINGERPRINT, "%02x%02x-%02x%02x-%02x%02x-%02x%02x", d[0], d[1], d[2], d[3], d[4], d[5], d[6],
		 d[7]);
}

bool sl_key_parse(struct sl_key *out, const char *text, size_t len)
{
	char copy[SL_KEY_TEXT], again[SL_KEY_TEXT];
	struct sl_key key;

	if (len != Z85 || memchr(text, 0, len))
		return false;
	memcpy(copy, text, len);
	copy[len] = 0;
	/* decode and encode again: some versions of ZeroMQ's decoder accept characters that are not in Z85 */
	if (!zmq_z85_decode(key.byte, copy))
		return false;
	sl_key_print(&key, again);
	if (memcmp(copy, again, sizeof copy) != 0)
		return false;
	*out = key;
	return true;
}

enum sl_err sl_keypair_make(struct sl_keypair *out, struct sl_fail *fail)
{
	char public_text[SL_KEY_TEXT], secret_text[SL_KEY_TEXT];
	enum sl_err err = SL_OK;

	if (zmq_curve_keypair(public_text, secret_text) < 0)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "this libzmq has no CURVE: %s", zmq_strerror(errno));
	if (!sl_key_parse(&out->public_key, public_text, Z85) || !sl_key_parse(&out->secret_key, secret_text, Z85))
		err = sl_fail_set(fail, SL_ERR_BUG, "ZeroMQ made a key that cannot be read");
	explicit_bzero(secret_text, sizeof secret_text);
	return err;
}

void sl_keypair_wipe(struct sl_keypair *pair)
{
	explicit_bzero(pair, sizeof *pair);
}

/* ---- lines */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Removes the next word from the line, and returns it; length 0: there is none. */
static struct sl_bytes word(const char **line, const char *end)
{
	const char *from;

	*line += sl_text_begin(*line, (size_t)(end - *line));
	from = *line;
	while (*line < end && !is_blank(**line))
		++*line;
	return (struct sl_bytes){(const uint8_t *)from, (size_t)(*line - from)};
}

static bool is_word(struct sl_bytes w, const char *text)
{
	return w.len == strlen(text) && memcmp(w.data, text, w.len) == 0;
}

static bool is_remark(struct sl_bytes w)
{
	return w.len && w.data[0] == '#';
}

static bool is_name(struct sl_bytes w)
{
	if (w.len >= SL_KEY_NAME)
		return false;
	for (size_t i = 0; i < w.len; i++) {
		uint8_t c = w.data[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
		      c == '_' || c == '-' || c == '@'))
			return false;
	}
	return true;
}

enum sl_key_line sl_key_read_line(const char *line, size_t len, struct sl_key *key, char name[SL_KEY_NAME],
				  const char **why)
{
	const char *end = line + len;
	struct sl_bytes text = word(&line, end), called, rest;

	if (!text.len || is_remark(text))
		return SL_KEY_LINE_BLANK;
	if (is_word(text, "secret")) {
		*why = "a secret key does not belong in this file: list public keys only";
		return SL_KEY_LINE_BAD;
	}
	if (!sl_key_parse(key, (const char *)text.data, text.len)) {
		*why = "must begin with a public key, 40 characters of Z85, or with \"#\"";
		return SL_KEY_LINE_BAD;
	}
	called = word(&line, end);
	if (is_remark(called))
		called.len = 0;
	else if (rest = word(&line, end), rest.len && !is_remark(rest))
		called.len = SL_KEY_NAME;
	if (!is_name(called)) {
		*why = "must be KEY NAME, the name one word of at most 63 letters, digits and . _ - @";
		return SL_KEY_LINE_BAD;
	}
	memcpy(name, called.data, called.len);
	name[called.len] = 0;
	return SL_KEY_LINE_KEY;
}

/* ---- files */

static enum sl_err write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return SL_ERR_IO;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) ? SL_ERR_IO : SL_OK;
}

enum sl_err sl_keypair_save(const struct sl_keypair *pair, const char *path, struct sl_fail *fail)
{
	char public_text[SL_KEY_TEXT], secret_text[SL_KEY_TEXT], print[SL_FINGERPRINT], text[FILE_BYTES];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	enum sl_err err;
	int n;

	if (fd < 0 && errno == EEXIST)
		return sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "%s is there already, and a key is never overwritten: move it away, or name another "
				   "file with --out",
				   path);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	sl_key_print(&pair->public_key, public_text);
	sl_key_print(&pair->secret_key, secret_text);
	sl_key_fingerprint(&pair->public_key, print);
	n = snprintf(text, sizeof text,
		     "# Keep this file to yourself. Fingerprint of the public key: %s\npublic %s\nsecret %s\n", print,
		     public_text, secret_text);
	err = write_all(fd, text, (size_t)n);
	if (err)
		sl_fail_set(fail, err, "%s: %s", path, strerror(errno));
	explicit_bzero(secret_text, sizeof secret_text);
	explicit_bzero(text, sizeof text);
	if (close(fd) && !err)
		err = sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
	/* the public key may be in use as soon as it is shown, so the secret one must survive a crash */
	if (!err && sl_folder_sync_of(path) != 0)
		err = sl_fail_set(fail, SL_ERR_IO, "the folder of %s: %s", path, strerror(errno));
	if (err)
		unlink(path);
	return err;
}

/* Whether the file is a systemd credential (LoadCredential=), whose ACL shows as mode 0440. */
static bool is_credential(const char *path)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	size_t len = dir ? strlen(dir) : 0;

	return len > 1 && strncmp(path, dir, len) == 0 && path[len] == '/' && !strstr(path + len, "/..");
}

static enum sl_err check_private(int fd, const char *path, struct sl_fail *fail)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", path);
	if (!is_credential(path) && sl_guard_is_foreign(st.st_uid))
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"%s: another user (uid %u) owns this secret key and may know it: make a key of your own with "
			"keygen, or chown the file to uid %u if you trust them",
			path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (is_credential(path) ? 037 : 077))
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"%s: others than its owner may use this secret key (mode %04o): chmod 600 it, and make "
			"a new key if they could have read it",
			path, (unsigned)st.st_mode & 07777);
	return SL_OK;
}

/* Reads a line "public KEY" or "secret KEY"; each may occur once. Returns what is wrong; NULL: nothing. */
static const char *read_pair_line(const char *line, size_t len, struct sl_keypair *pair, bool have[2])
{
	const char *end = line + len;
	struct sl_bytes kind = word(&line, end), text = word(&line, end), rest = word(&line, end);
	bool secret = is_word(kind, "secret");

	if (!kind.len || is_remark(kind))
		return NULL;
	if ((!secret && !is_word(kind, "public")) || rest.len)
		return "must be \"public KEY\", \"secret KEY\", or begin with \"#\"";
	if (have[secret])
		return "is there twice";
	have[secret] = true;
	if (!sl_key_parse(secret ? &pair->secret_key : &pair->public_key, (const char *)text.data, text.len))
		return "has no key of 40 characters of Z85";
	return NULL;
}

static enum sl_err parse_pair(struct sl_keypair *out, const char *path, const char *text, size_t len,
			      struct sl_fail *fail)
{
	char secret_text[SL_KEY_TEXT], derived[SL_KEY_TEXT];
	struct sl_key public_key;
	bool have[2] = {false, false}, fits;
	int line = 0;

	for (const char *at = text, *end = text + len; at < end; line++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at)), *why;

		if (!eol)
			eol = end;
		why = read_pair_line(at, (size_t)(eol - at), out, have);
		if (why)
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%d: line %s", path, line + 1, why);
		at = eol + 1;
	}
	if (!have[0] || !have[1])
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no line \"%s KEY\": `keygen` makes key files", path,
				   have[0] ? "secret" : "public");
	sl_key_print(&out->secret_key, secret_text);
	fits = zmq_curve_public(derived, secret_text) == 0 && sl_key_parse(&public_key, derived, Z85) &&
	       sl_key_equal(&public_key, &out->public_key);
	explicit_bzero(secret_text, sizeof secret_text);
	return fits ? SL_OK : sl_fail_set(fail, SL_ERR_DATA, "%s: the public key is not that of the secret one", path);
}

enum sl_err sl_keypair_load(struct sl_keypair *out, const char *path, struct sl_fail *fail)
{
	char text[FILE_BYTES];
	struct sl_keypair pair = {0};
	size_t len = 0;
	ssize_t n;
	/* O_NONBLOCK: opening a FIFO must not wait for a writer */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum sl_err err;

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	err = check_private(fd, path, fail);
	while (!err && len < sizeof text && (n = read(fd, text + len, sizeof text - len)) != 0) {
		if (n > 0)
			len += (size_t)n;
		else if (errno != EINTR)
			err = sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
	}
	close(fd);
	if (!err && len == sizeof text)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: too long for a key file", path);
	if (!err)
		err = parse_pair(&pair, path, text, len, fail);
	if (!err)
		*out = pair;
	explicit_bzero(text, sizeof text);
	sl_keypair_wipe(&pair);
	return err;
}

void sl_keypair_hide(const struct sl_keypair *pair)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)pair / page * page;

	/* Neither can fail; without them a dump holds more. */
	(void)madvise((void *)from, (uintptr_t)(pair + 1) - from, MADV_DONTDUMP);
#ifndef SL_SANITIZED /* which look for leaks as a debugger does */
	if (!getenv("SPLIT_DUMPABLE"))
		(void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

static enum sl_err parse_public(struct sl_key *out, const char *path, const char *text, size_t len,
				struct sl_fail *fail)
{
	char name[SL_KEY_NAME];
	struct sl_key key;
	int line = 0, keys = 0;

	for (const char *at = text, *end = text + len; at < end; line++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at)), *why;
		enum sl_key_line kind;

		if (!eol)
			eol = end;
		kind = sl_key_read_line(at, (size_t)(eol - at), &key, name, &why);
		if (kind == SL_KEY_LINE_BAD)
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%d: line %s", path, line + 1, why);
		keys += kind == SL_KEY_LINE_KEY;
		at = eol + 1;
	}
	if (keys != 1)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: holds %d public keys, must be one", path, keys);
	*out = key;
	return SL_OK;
}

enum sl_err sl_key_load_public(struct sl_key *out, const char *text, struct sl_fail *fail)
{
	uint8_t *data;
	size_t len;
	enum sl_err err;

	if (access(text, F_OK) != 0 && sl_key_parse(out, text, strlen(text)))
		return SL_OK;
	err = sl_file_read_guarded(text, FILE_BYTES, &data, &len, fail);
	if (err)
		return err;
	err = parse_public(out, text, (const char *)data, len, fail);
	free(data);
	return err;
}

enum sl_err sl_keygen(const char *path, FILE *out, struct sl_fail *fail)
{
	char text[SL_KEY_TEXT], print[SL_FINGERPRINT];
	struct sl_keypair pair;
	enum sl_err err = sl_keypair_make(&pair, fail);

	if (!err)
		err = sl_keypair_save(&pair, path, fail);
	if (!err) {
		sl_key_print(&pair.public_key, text);
		sl_key_fingerprint(&pair.public_key, print);
		fprintf(stderr, "%s: a new secret key; the public one, below, has the fingerprint %s\n", path, print);
		if (fprintf(out, "%s\n", text) < 0 || fflush(out))
			err = sl_fail_set(fail, SL_ERR_IO, "the public key could not be printed: %s", strerror(errno));
	}
	sl_keypair_wipe(&pair);
	return err;
}
