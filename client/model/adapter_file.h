/* Adapters as PEFT keeps them: a folder with adapter_config.json and adapter_model.safetensors, which holds the
 * adapters and the head. */
#ifndef SL_CLIENT_MODEL_ADAPTER_FILE_H
#define SL_CLIENT_MODEL_ADAPTER_FILE_H

#include "client/model/lora.h"

/* Reads what the model has adapters and a head for. DATA: a tensor is missing, of another shape or unknown; the head
 * may be missing as a whole: *head says whether it was there. CONFIG: it is not of this rank or alpha, or no LoRA of
 * this form. Everything is checked before the first buffer is written. `param` as in weights_file.h. */
enum sl_err sl_adapter_read(const struct sl_model *model, const struct sl_lora *lora, const char *dir,
			    float *const *param, bool *head, struct sl_fail *fail) SL_MUST_CHECK;
/* Makes the folder where there is none. `base`: what the adapters belong to, for base_model_name_or_path. */
enum sl_err sl_adapter_write(const struct sl_model *model, const struct sl_lora *lora, const char *dir,
			     const char *base, const float *const *param, struct sl_fail *fail) SL_MUST_CHECK;

#endif
