/* Bytes from an unknown peer in place of ZMTP's greeting, or as one. They may come in any pieces:
 * the verdict does not change when more bytes come, and it is there before a greeting ends. */
#include <stdlib.h>
#include <string.h>

#include "common/link/greeting.h"

static void must(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum sl_greeting verdict = SL_GREETING_PART;

	for (size_t len = 0; len <= size && len <= SL_GREETING_BYTES; len++) {
		uint8_t *heard = malloc(len + !len); /* of its exact size, so that reading past it is noticed */
		enum sl_greeting now;

		must(heard != NULL);
		if (len)
			memcpy(heard, data, len);
		now = sl_greeting_read((struct sl_bytes){heard, len});
		free(heard);
		must((unsigned)now < SL_GREETING_COUNT && sl_greeting_text(now)[0]);
		must(verdict == SL_GREETING_PART || now == verdict);
		must(now != SL_GREETING_PART || len < SL_GREETING_BYTES);
		verdict = now;
	}
	must(sl_greeting_read((struct sl_bytes){data, size}) == verdict);
	for (int keys = 0; keys < 2; keys++) {
		struct sl_fail fail = {0};
		enum sl_err err = sl_greeting_judge(verdict, keys, NULL, "tcp://h:1", &fail);

		must(fail.code == err && (err == SL_OK || err == SL_ERR_AUTH));
		must((err == SL_ERR_AUTH) == (verdict == (keys ? SL_GREETING_NULL : SL_GREETING_CURVE)));
	}
	return 0;
}
