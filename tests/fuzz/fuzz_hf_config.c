/* config.json of a Hugging Face folder from anywhere. What is read makes a graph, or is refused in one line; a graph is
 * small enough to be built. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/huggingface.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_hf_config config;
	struct sl_fail fail = {0};
	struct sl_model *model;
	struct sl_build b;

	if (sl_hf_config_parse(&config, "fuzz", (struct sl_bytes){data, size}, &fail) != SL_OK) {
		if (!fail.text[0] || strchr(fail.text, '\n'))
			abort();
		return 0;
	}
	if (config.features % config.heads || config.first >= config.positions)
		abort();
	if (sl_build_open_tokens(&b, "fuzz", 1, config.vocab, &sl_learn_tasks[SL_LEARN_CLASSES], 2, &fail) != SL_OK)
		abort();
	sl_hf_encoder(&b, &config, 2);
	if (sl_build_finish(&b, &model) == SL_OK)
		sl_model_close(model);
	else if (!fail.text[0] || strchr(fail.text, '\n'))
		abort();
	return 0;
}
