/* Any bytes as a run of shared heads and tails: a table's rows among parameters, and statistics. An
 * accepted run, written again, gives the same bytes, except for rows of zeros. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/mean.h"
#include "common/session/mean_rows.h"

enum { ROWS = 9, FEATURES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	float x[ROWS * FEATURES], again[ROWS * FEATURES];
	uint8_t bytes[4 + ROWS * (4 + FEATURES * 4)];
	struct sl_buf out = {bytes, 0, sizeof bytes};
	struct sl_fail fail;

	if (sl_rows_read(x, ROWS, FEATURES, (struct sl_bytes){data, size}, &fail))
		return 0;
	if (sl_rows_write(x, ROWS, FEATURES, &out) || out.len > size ||
	    sl_rows_read(again, ROWS, FEATURES, (struct sl_bytes){bytes, out.len}, &fail) ||
	    memcmp(x, again, sizeof x) != 0)
		abort();
	return 0;
}
