/* A model's parameters in a safetensors file with torchvision's names, layouts and shapes.
 * `param[i]` is a caller's buffer of sl_shape_count(&model->file[i].shape) floats in memory layout, or NULL for a
 * parameter that this side of the cut does not hold: the file is checked for it, and nothing is read. */
#ifndef SL_CLIENT_MODEL_WEIGHTS_FILE_H
#define SL_CLIENT_MODEL_WEIGHTS_FILE_H

#include "common/graph/model.h"
#include "common/weights/weights.h"

/* Opens `path`, a file, or a folder as sl_st_open_folder reads it; and finds the tensor of a parameter, which the file
 * may call without the model's prefix, and whose LayerNorm an old one may call gamma and beta. NULL: there is none. */
enum sl_err sl_weights_open_file(struct sl_st_file **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
const struct sl_st_tensor *sl_weights_find(const struct sl_model *model, const struct sl_st_file *file,
					   const char *name);

/* One parameter between the order of torchvision's file and that of memory; the buffers do not overlap. */
void sl_param_from_file_order(const struct sl_file_param *p, const float *file, float *memory);
void sl_param_to_file_order(const struct sl_file_param *p, const float *memory, float *file);

/* Reads the tensor called `name` (of any such file: weights, golden gradients). DATA names the tensor and both shapes
 * where they differ; *out is touched only where that check holds. */
enum sl_err sl_weights_read_param(const struct sl_st_file *file, const char *name, const struct sl_file_param *p,
				  float *out, struct sl_fail *fail) SL_MUST_CHECK;

/* A tensor against what a parameter called `name` has in files; t NULL: missing. DATA as above. */
enum sl_err sl_weights_check_tensor(const struct sl_st_tensor *t, const char *name, const struct sl_file_param *p,
				    struct sl_fail *fail) SL_MUST_CHECK;
/* Reads one that was checked. */
enum sl_err sl_weights_read_tensor(const struct sl_st_file *file, const struct sl_st_tensor *t,
				   const struct sl_file_param *p, float *out, struct sl_fail *fail) SL_MUST_CHECK;

/* How much of the model a file must give; flags. */
enum {
	SL_WEIGHTS_STRICT = 0,
	/* Tensors of the model's last unit may be missing or of another shape (a new classifier), and others in its
	 * name are passed over. */
	SL_WEIGHTS_PARTIAL = 1,
	SL_WEIGHTS_NEW_HEAD =
		2, /* all parameters of a head (model.h) may be missing, or none; then those near it may */
	SL_WEIGHTS_NEW_INSERTS = 4 /* parameters of inserts may be missing */
};

/* Strict: a tensor missing, of another shape, not of floats, or unknown to the model is DATA, and named. Passed over
 * are
 * *.num_batches_tracked, and what model->ignored matches, of which one line of the log says. Names may lack
 * model->prefix. Adapters may be missing: new ones change nothing. loaded[i] (of n_param, may be NULL) says which
 * parameters the file gave; the others' buffers are untouched, for sl_param_init to fill. Everything is checked before
 * the first buffer is written; an IO error later leaves them undefined. `param` NULL: nothing is read, only checked.
 * `path`: a file, or a folder as sl_st_open_folder reads it. */
enum sl_err sl_weights_load_file(const struct sl_model *model, const struct sl_st_file *file, unsigned how,
				 float *const *param, bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_weights_load(const struct sl_model *model, const char *path, unsigned how, float *const *param,
			    bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;

/* The note that says how many steps the weights have been trained for. */
#define SL_WEIGHTS_STEPS "steps"
/* What a file's metadata say of `key`, which the caller frees; NULL: nothing, or the file cannot be read. */
char *sl_weights_note(const char *path, const char *key);
/* What it says; INT64_MAX where the file has none or cannot be read. */
int64_t sl_weights_steps(const char *path);

/* Writes the model, but for what is NULL in param[], as torchvision's state_dict: float32, and a num_batches_tracked of
 * `batches_tracked` beside every running_mean, so that its strict load works. `notes` go into __metadata__. */
enum sl_err sl_weights_save(const struct sl_model *model, const char *path, const float *const *param,
			    int64_t batches_tracked, const struct sl_st_note *notes, int n_notes,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* The same of all weights: what is held stays in its 16 bits. */
enum sl_err sl_weights_save_all(const struct sl_model *model, const char *path, const struct sl_weights *weights,
				int64_t batches_tracked, const struct sl_st_note *notes, int n_notes,
				struct sl_fail *fail) SL_MUST_CHECK;

#endif
