/* Numbers as text that reads back. */
#ifndef SL_BASE_REAL_H
#define SL_BASE_REAL_H

#include <stdio.h>
#include <stdlib.h>

enum { SL_REAL_TEXT = 32 };

/* x in as few significant digits as strtod reads back as x, but not in fewer than `least` (1 … 17) of them. Returns
 * out. Any thread. */
static inline const char *sl_real_text(double x, int least, char out[SL_REAL_TEXT])
{
	for (int digits = least; digits <= 17; digits++) {
		snprintf(out, SL_REAL_TEXT, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			break;
	}
	return out;
}

#endif
