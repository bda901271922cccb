/* Transforms that send no side bytes, and whose number of values follows from the shape. */
#ifndef SL_CODEC_SIZED_H
#define SL_CODEC_SIZED_H

#include "common/codec/stage.h"

/* For sl_codec_stage.by_sample: true. */
bool sl_sized_always(const double *arg);
/* For sl_codec_stage.by_token: true. */
bool sl_token_always(const double *arg, int64_t features);
/* For sl_codec_stage.bound: 0. */
size_t sl_sized_bound(const double *arg, bool paired, const struct sl_extent *in);
/* For sl_codec_stage.parse: PAYLOAD if there are side bytes, or `count` is not the number of values of `ys`. */
enum sl_err sl_sized_parse(const char *name, const struct sl_extent *ys, struct sl_bytes side, int64_t count,
			   struct sl_fail *fail);

#endif
