/* Numbers in JSON, which has neither NaN nor Inf. */
#ifndef SL_TELEMETRY_JSON_H
#define SL_TELEMETRY_JSON_H

#include <jansson.h>
#include <math.h>

/* A new reference; null where x is not finite; NULL: no memory. */
static inline json_t *sl_json_real(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

#endif
