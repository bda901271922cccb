/* Adapters in PEFT's format: a folder with adapter_config.json and adapter_model.safetensors, which has the adapters
 * and the head. */
#ifndef SL_CLIENT_MODEL_ADAPTER_FILE_H
#define SL_CLIENT_MODEL_ADAPTER_FILE_H

#include "client/model/lora.h"
#include "common/weights/safetensors.h"

/* Reads the tensors of the model's adapters and head. DATA: a tensor is missing, of another shape or unknown. The head
 * may be missing as a whole; *head says whether it was there. CONFIG: the adapters have another rank or alpha, or are
 * no LoRA of this form. Everything is checked before the first buffer is written. `param` as in weights_file.h. */
enum sl_err sl_adapter_read(const struct sl_model *model, const struct sl_lora *lora, const char *dir,
			    float *const *param, bool *head, struct sl_fail *fail) SL_MUST_CHECK;
/* Warns if the folder of a network has adapters beside its weights, which nobody has asked for. */
void sl_adapter_note_unread(const char *dir);
/* Writes both files, and makes the folder if there is none. `base`: the network to which the adapters belong, for
 * base_model_name_or_path. `about`: a note for the tensors' file, or NULL. */
enum sl_err sl_adapter_write(const struct sl_model *model, const struct sl_lora *lora, const char *dir,
			     const char *base, const float *const *param, const struct sl_st_note *about,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* How many parameters are neither among those that sl_adapter_write writes, nor in the weights of the folder `base`
 * with these values. *first becomes the name of the first one. */
int sl_adapter_lacks(const struct sl_model *model, const char *base, const float *const *param, const char **first);

#endif
