/* A model's parameters in a safetensors file with torchvision's names, layouts and shapes.
 * `param[i]` is a caller's buffer of sl_shape_count(&model->file[i].shape) floats in memory layout, or NULL for a
 * parameter that this side of the cut does not hold. Such a parameter is checked in the file, but not read. */
#ifndef SL_CLIENT_MODEL_WEIGHTS_FILE_H
#define SL_CLIENT_MODEL_WEIGHTS_FILE_H

#include "common/graph/model.h"
#include "common/weights/weights.h"

/* sl_weights_open_file opens `path`, a file, or a folder as sl_st_open_folder reads it. sl_weights_find finds the
 * tensor of a parameter; NULL: there is none. The file's names may lack the model's prefix, and an old file may call
 * the parameters of a LayerNorm gamma and beta. */
enum sl_err sl_weights_open_file(struct sl_st_file **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
const struct sl_st_tensor *sl_weights_find(const struct sl_model *model, const struct sl_st_file *file,
					   const char *name);

/* Copy one parameter between torchvision's order, in the file, and that of memory. The buffers must not overlap. */
void sl_param_from_file_order(const struct sl_file_param *p, const float *file, float *memory);
void sl_param_to_file_order(const struct sl_file_param *p, const float *memory, float *file);

/* Reads the tensor called `name` (of any such file: weights, golden gradients). DATA names the tensor and both shapes
 * where they differ; *out is written only if they agree. */
enum sl_err sl_weights_read_param(const struct sl_st_file *file, const char *name, const struct sl_file_param *p,
				  float *out, struct sl_fail *fail) SL_MUST_CHECK;

/* Checks a tensor against the shape that parameter `name` has in files; t NULL: it is missing. DATA as above. */
enum sl_err sl_weights_check_tensor(const struct sl_st_tensor *t, const char *name, const struct sl_file_param *p,
				    struct sl_fail *fail) SL_MUST_CHECK;
/* Reads a tensor that was checked. */
enum sl_err sl_weights_read_tensor(const struct sl_st_file *file, const struct sl_st_tensor *t,
				   const struct sl_file_param *p, float *out, struct sl_fail *fail) SL_MUST_CHECK;

/* How much of the model a file must give; flags. */
enum {
	SL_WEIGHTS_STRICT = 0,
	/* Tensors of the model's last unit may be missing or of another shape (a new classifier), and unknown tensors
	 * in that unit are passed over. */
	SL_WEIGHTS_PARTIAL = 1,
	SL_WEIGHTS_NEW_HEAD =
		2, /* all parameters of a head (model.h) may be missing together; then those near it may be, too */
	SL_WEIGHTS_NEW_INSERTS = 4, /* parameters of inserts may be missing */
	SL_WEIGHTS_OF_PARTY = 8     /* any may be missing: the file has the part of a vertical group's member */
};

/* Loads weights. Strict: a tensor that is missing, of another shape, not of floats, or unknown to the model is DATA,
 * and is named. Tensors called *.num_batches_tracked, and those that model->ignored matches, are passed over; a line of
 * the log counts the latter. Names may lack model->prefix. Adapters may be missing: new ones change nothing. loaded[i]
 * (of n_param, may be NULL) says which parameters the file gave; the others' buffers are untouched, for sl_param_init
 * to fill. Everything is checked before the first buffer is written; an IO error after that leaves the buffers
 * undefined. `param` NULL: the file is only checked. `path`: a file, or a folder as sl_st_open_folder reads it. */
enum sl_err sl_weights_load_file(const struct sl_model *model, const struct sl_st_file *file, unsigned how,
				 float *const *param, bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_weights_load(const struct sl_model *model, const char *path, unsigned how, float *const *param,
			    bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;

/* DATA if a parameter that `weights` holds has NaN or Inf; *fail names it. */
enum sl_err sl_weights_check_finite(const struct sl_model *model, const struct sl_weights *weights,
				    struct sl_fail *fail) SL_MUST_CHECK;

/* Loads the parameters whose names begin with `prefix`, and passes over other tensors of the file. Every tensor with
 * that prefix must be a parameter of the model, of its shape, that is not loaded[i] (of n_param) yet; it is set then.
 * DATA otherwise, also if there is no such tensor. Buffers of other parameters are untouched; `param` NULL: the file is
 * only checked. */
enum sl_err sl_weights_load_part(const struct sl_model *model, const char *path, const char *prefix,
				 float *const *param, bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;

/* The note that says how many steps the weights have been trained for. */
#define SL_WEIGHTS_STEPS "steps"
/* The value of `key` in a file's metadata, which the caller frees; NULL: there is none, or the file cannot be read. */
char *sl_weights_note(const char *path, const char *key);
/* The number of steps in that note; INT64_MAX: the file has none, or cannot be read. */
int64_t sl_weights_steps(const char *path);

/* Writes the model as torchvision's state_dict, in float32. Parameters that are NULL in param[] are left out. Beside
 * every running_mean it writes a num_batches_tracked of `batches_tracked`, so that torch's strict load works. `notes`
 * go into __metadata__. */
enum sl_err sl_weights_save(const struct sl_model *model, const char *path, const float *const *param,
			    int64_t batches_tracked, const struct sl_st_note *notes, int n_notes,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* The same for all weights; held ones are written in their 16 bits. */
enum sl_err sl_weights_save_all(const struct sl_model *model, const char *path, const struct sl_weights *weights,
				int64_t batches_tracked, const struct sl_st_note *notes, int n_notes,
				struct sl_fail *fail) SL_MUST_CHECK;

#endif
