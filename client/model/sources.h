/* The built-in networks, one file each: each adds its units and nodes to a builder that was opened. */
#ifndef SL_CLIENT_MODEL_SOURCES_H
#define SL_CLIENT_MODEL_SOURCES_H

#include <math.h>

#include "client/model/source.h"
#include "common/conf/networks.h"

/* `c` channels at this width: the nearest multiple of 8, and at least 8. */
static inline int sl_source_channels(int c, double width)
{
	const int rounded = (int)lround(c * width / 8) * 8;

	return rounded < 8 ? 8 : rounded;
}

#define SL_SOURCE(name, has) void sl_source_##name(struct sl_build *b, const struct sl_model_spec *spec);
SL_BUILT_IN_NETWORKS(SL_SOURCE)

#endif
