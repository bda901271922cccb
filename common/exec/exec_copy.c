#include <string.h>

#include "common/exec/exec_impl.h"

enum sl_err sl_exec_lower(struct sl_exec *e)
{
	return e->weight_low ? e->be->ops->convert(e->be, e->weight_low, sl_precision_dtype(e->segment->precision),
						   e->weight, SL_F32, NULL, e->segment->trainable_count)
			     : SL_OK;
}

enum sl_err sl_exec_copy(struct sl_exec *e, float *to, const float *from, int64_t count)
{
	if (!e->be->host_memory)
		return e->be->ops->convert(e->be, to, SL_F32, from, SL_F32, NULL, count);
	memcpy(to, from, (size_t)count * sizeof *to);
	return SL_OK;
}
