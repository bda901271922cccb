/* Any bytes as a safetensors file: if it opens, every tensor is listed and read, as floats and as raw bytes. If it has
 * a network, that can be cut, or is refused in one line. */
#include <stdlib.h>
#include <string.h>

#include "client/model/network_file.h"
#include "common/conf/networks.h"
#include "common/graph/cut.h"
#include "common/weights/safetensors.h"

enum { MOST_BYTES = 1 << 20 };

static void read_whole(const struct sl_st_file *file, const struct sl_st_tensor *t)
{
	void *out;
	char text[SL_ST_SHAPE_TEXT];
	struct sl_fail fail;

	if (sl_st_find(file, t->name) != t || strlen(sl_st_shape_text(t, text)) >= sizeof(text))
		abort();
	if (!sl_st_dtype_bytes(t->dtype)) { /* its count is not limited by the file's size */
		if (sl_st_read_f32(file, t, NULL, &fail) == SL_OK)
			abort();
		return;
	}
	if (t->bytes > MOST_BYTES)
		abort(); /* it would be larger than the input */
	out = malloc((size_t)t->count * sizeof(int64_t) + 1);
	if (!out)
		return;
	bool floats = sl_st_read_f32(file, t, out, &fail) == SL_OK;
	if (floats != sl_st_is_float(t) || sl_st_read_raw(file, t, 0, out, t->bytes, &fail) != SL_OK)
		abort();
	free(out);
}

static void read_network(const struct sl_st_file *file, const struct sl_model_spec *spec)
{
	struct sl_fail fail = {0};
	struct sl_model *model;
	struct sl_cut cut;

	if (sl_network_file_build(&model, file, "fuzz", spec, &fail) != SL_OK) {
		if (!fail.text[0] || strchr(fail.text, '\n'))
			abort();
		return;
	}
	(void)!sl_cut_find(&cut, model, "1:-1", NULL, NULL, 1, &fail);
	if (model->n_unit < 1 || model->graph.n_param != model->n_plain)
		abort();
	sl_model_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sl_model_spec spec[] = {{.name = SL_CONF_NETWORK},
						    {.name = SL_CONF_NETWORK_ROWS},
						    {.name = SL_CONF_NETWORK_TEXTS, .tokens = 12, .whole_rows = 12}};
	struct sl_st_file *file = NULL;
	struct sl_fail fail = {0};
	uint64_t covered = 0;

	if (size > MOST_BYTES)
		return 0;
	if (sl_st_open_bytes(&file, (struct sl_bytes){data, size}, &fail) != SL_OK) {
		if (file || !fail.text[0])
			abort();
		return 0;
	}
	for (int i = 0; i < sl_st_count(file); i++) {
		read_whole(file, sl_st_at(file, i));
		covered += sl_st_at(file, i)->bytes;
	}
	if (covered > size)
		abort();
	(void)sl_st_metadata(file, "format");
	for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
		read_network(file, &spec[i]);
	sl_st_close(file);
	return 0;
}
