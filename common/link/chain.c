#include "common/link/chain.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

enum { HASH = (SL_CHAIN_TEXT - 1) / 2, PIECE = 1 << 16 };

void sl_chain_begin(char head[SL_CHAIN_TEXT])
{
	memset(head, '0', SL_CHAIN_TEXT - 1);
	head[SL_CHAIN_TEXT - 1] = '\0';
}

void sl_chain_next(char head[SL_CHAIN_TEXT], const char *line, size_t len)
{
	uint8_t hash[HASH];

	crypto_generichash(hash, sizeof hash, (const uint8_t *)line, len, NULL, 0);
	sodium_bin2hex(head, SL_CHAIN_TEXT, hash, sizeof hash);
}

enum sl_err sl_chain_file(char out[SL_CHAIN_TEXT], const char *path, struct sl_fail *fail)
{
	FILE *f = fopen(path, "re");
	crypto_generichash_state state;
	uint8_t hash[HASH], piece[PIECE];
	bool failed;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	crypto_generichash_init(&state, NULL, 0, sizeof hash);
	for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
		crypto_generichash_update(&state, piece, n);
	crypto_generichash_final(&state, hash, sizeof hash);
	failed = ferror(f);
	fclose(f);
	if (failed)
		return sl_fail_set(fail, SL_ERR_IO, "%s cannot be read", path);
	sodium_bin2hex(out, SL_CHAIN_TEXT, hash, sizeof hash);
	return SL_OK;
}
