/* The list of the device's codec stages. */
#include "kernels/cuda/codec_stage.h"

extern const struct sl_codec_stage cu_stage_none, cu_stage_f16, cu_stage_bf16, cu_stage_topk, cu_stage_threshold,
	cu_stage_sortquant, cu_stage_lowrank, cu_stage_quant_groups, cu_stage_qsgd_groups, cu_stage_terngrad_groups;

const struct sl_codec_stage *const cu_codec_stages[] = {&cu_stage_none,
							&cu_stage_f16,
							&cu_stage_bf16,
							&cu_stage_quant_groups,
							&cu_stage_qsgd_groups,
							&cu_stage_terngrad_groups,
							&cu_stage_topk,
							&cu_stage_threshold,
							&cu_stage_sortquant,
							&cu_stage_lowrank,
							NULL};
