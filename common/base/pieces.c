#include "common/base/pieces.h"

#include <string.h>

#include "common/base/worker.h"

void sl_copy(void *to, const void *from, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n) {
		n = sl_piece(bytes - at);
		memcpy((char *)to + at, (const char *)from + at, n);
		sl_worker_turn();
	}
}

void sl_clear(void *to, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n) {
		n = sl_piece(bytes - at);
		memset((char *)to + at, 0, n);
		sl_worker_turn();
	}
}
