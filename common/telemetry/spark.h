/* A sparkline: the last values of a quantity as a row of bars, one character each. */
#ifndef SL_TELEMETRY_SPARK_H
#define SL_TELEMETRY_SPARK_H

#include <stdbool.h>

enum { SL_SPARK_VALUES = 48, SL_SPARK_TEXT = 4 * SL_SPARK_VALUES };

struct sl_spark {
	double value[SL_SPARK_VALUES]; /* the newest last */
	int n;
};

/* Drops the oldest value if it is full. Values that are not finite are left out. */
void sl_spark_add(struct sl_spark *spark, double value);
/* The smallest value is the lowest bar, the largest the highest. `unicode`: block elements in UTF-8, else ASCII.
 * Returns `text`. */
const char *sl_spark_text(const struct sl_spark *spark, bool unicode, char text[SL_SPARK_TEXT]);

#endif
