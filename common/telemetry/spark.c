#include "common/telemetry/spark.h"

#include <math.h>
#include <string.h>

enum { LEVELS = 8 };

void sl_spark_add(struct sl_spark *spark, double value)
{
	if (!isfinite(value))
		return;
	if (spark->n == SL_SPARK_VALUES)
		memmove(spark->value, spark->value + 1, (size_t)--spark->n * sizeof *spark->value);
	spark->value[spark->n++] = value;
}

const char *sl_spark_text(const struct sl_spark *spark, bool unicode, char text[SL_SPARK_TEXT])
{
	static const char ascii[LEVELS + 1] = "_.-:=+*#";
	double low = INFINITY, high = -INFINITY;
	char *at = text;

	for (int i = 0; i < spark->n; i++) {
		low = fmin(low, spark->value[i]);
		high = fmax(high, spark->value[i]);
	}
	for (int i = 0; i < spark->n; i++) {
		double part = high > low ? (spark->value[i] - low) / (high - low) : 0;
		int level = (int)fmin(part * LEVELS, LEVELS - 1);

		if (!unicode) {
			*at++ = ascii[level];
			continue;
		}
		memcpy(at, "\xe2\x96\x81", 3); /* U+2581, the lowest of eight */
		at[2] = (char)(at[2] + level);
		at += 3;
	}
	*at = '\0';
	return text;
}
