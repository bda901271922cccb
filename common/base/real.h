/* Numbers as text that parses to the same number. */
#ifndef SL_BASE_REAL_H
#define SL_BASE_REAL_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

enum { SL_REAL_TEXT = 32 };

/* For uselocale, so that a thread reads and writes numbers with a point whatever locale its program has set. The rest
 * is the program's, as it was at the first call: names in tar files need it. Lives until the process ends. Any thread.
 */
locale_t sl_real_locale(void);

/* Writes x with the fewest significant digits, but at least `least` (1 … 17), from which strtod gives x again.
 * Returns out. Any thread. */
static inline const char *sl_real_text(double x, int least, char out[SL_REAL_TEXT])
{
	for (int digits = least; digits <= 17; digits++) {
		snprintf(out, SL_REAL_TEXT, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			break;
	}
	return out;
}

/* The fewest digits from which strtod gives x again; strtof, for a float. */
static inline const char *sl_double_text(double x, char out[SL_REAL_TEXT])
{
	return sl_real_text(x, 15, out); /* fewer than 15 lose nothing: %g drops zeros at the end */
}

static inline const char *sl_float_text(float x, char out[SL_REAL_TEXT])
{
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(out, SL_REAL_TEXT, "%.*g", digits, (double)x);
		if (strtof(out, NULL) == x)
			break;
	}
	return out;
}

#endif
