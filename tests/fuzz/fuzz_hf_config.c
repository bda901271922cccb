/* config.json of a Hugging Face folder from an unknown source. It makes a graph, or is refused in
 * one line; the graph is small enough to be built. */
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
	bool decoder;

	if (sl_hf_config_parse(&config, "fuzz", (struct sl_bytes){data, size}, &fail) != SL_OK) {
		if (!fail.text[0] || strchr(fail.text, '\n'))
			abort();
		return 0;
	}
	decoder = sl_hf_is_decoder(config.family);
	if (decoder ? config.heads % config.kv || config.head % 2 || config.row_most < 1 ||
			      (config.n_end && config.end[0] >= config.vocab)
		    : config.features % config.heads || config.first >= config.positions)
		abort();
	if (sl_build_open_tokens(&b, "fuzz", 1, config.vocab,
				 &sl_learn_tasks[decoder ? SL_LEARN_NEXT : SL_LEARN_CLASSES],
				 decoder ? config.vocab : 2, &fail) != SL_OK)
		abort();
	if (decoder)
		sl_hf_decoder(&b, &config);
	else
		sl_hf_encoder(&b, &config, 2);
	if (sl_build_finish(&b, &model) == SL_OK)
		sl_model_close(model);
	else if (!fail.text[0] || strchr(fail.text, '\n'))
		abort();
	return 0;
}
