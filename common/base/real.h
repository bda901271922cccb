/* Numbers as text that parses to the same number. */
#ifndef SL_BASE_REAL_H
#define SL_BASE_REAL_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

enum { SL_REAL_TEXT = 32 };

/* From now on the calling thread reads and writes numbers with a point, whatever locale the program has set. The rest
 * of the locale stays: names in tar files need it. Returns what sl_real_undo takes. */
static inline locale_t sl_real_with_point(void)
{
	return uselocale(newlocale(LC_NUMERIC_MASK, "C", duplocale(uselocale((locale_t)0))));
}
static inline void sl_real_undo(locale_t before)
{
	const locale_t own = uselocale(before);

	if (own != before)
		freelocale(own);
}

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
