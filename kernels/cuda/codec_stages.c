/* The list of the device's codec stages. */
#include "kernels/cuda/codec_stage.h"

#define SL_STAGE_ROW(KIND, id, stage, device, ...) device
#define SL_ON_HOST

#define SL_ON_DEVICE(stage) extern const struct sl_codec_stage cu_stage_##stage;
#include "common/codec/stages.def"
#undef SL_ON_DEVICE

const struct sl_codec_stage *const cu_codec_stages[] = {
#define SL_STAGE_ROW(KIND, id, stage, device, ...) device
#define SL_ON_DEVICE(stage)                        &cu_stage_##stage,
#include "common/codec/stages.def"
	NULL};
