#include "common/codec/sized.h"

bool sl_sized_always(const double *arg)
{
	return true;
}

bool sl_token_always(const double *arg, int64_t features)
{
	return true;
}

size_t sl_sized_bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return 0;
}

enum sl_err sl_sized_parse(const char *name, const struct sl_extent *ys, struct sl_bytes side, int64_t count,
			   struct sl_fail *fail)
{
	if (side.len != 0 || count != sl_shape_count(&ys->shape))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "%s: %lld values, expected %lld", name, (long long)count,
				   (long long)sl_shape_count(&ys->shape));
	return SL_OK;
}
