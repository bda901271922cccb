/* usage: bench_loader DIR THREADS SIZE
 * Reads DIR/train once through the loader, in random order, with the default transforms of training for SIZE × SIZE
 * pixels. Prints a line of JSON: the number of samples after the first batch, and the milliseconds that they took. */
#include <stdio.h>
#include <stdlib.h>

#include "client/data/loader.h"
#include "common/base/clock.h"

static int complain(const struct sl_fail *fail)
{
	fprintf(stderr, "%s\n", fail->text);
	return sl_err_exit_status(fail->code);
}

int main(int argc, char **argv)
{
	const int size = argc == 4 ? atoi(argv[3]) : 0;
	const struct sl_set_spec of = {.source = "images", .dir = argv[1], .picture.max_pixels = 100000000};
	struct sl_conf_list list;
	struct sl_transform *transform;
	struct sl_loader *loader;
	struct sl_set set;
	struct sl_fail fail;
	int64_t samples = 0;
	uint64_t began = 0;

	if (argc != 4)
		return 64;
	sl_transform_usual(&list, size, size, true);
	if (sl_set_open(&set, &of, &fail) != SL_OK ||
	    sl_transform_open(&transform,
			      &(struct sl_transform_spec){.step = (const char(*)[SL_CONF_TEXT])list.item,
							  .n = list.n,
							  .out_h = size,
							  .out_w = size,
							  .norm = SL_NORMALIZE_IMAGENET},
			      &fail) != SL_OK)
		return complain(&fail);
	if (sl_loader_open(&loader,
			   &(struct sl_loader_spec){.set = &set,
						    .transform = transform,
						    .batch = 16,
						    .train = true,
						    .prefetch = 4,
						    .threads = atoi(argv[2])},
			   &fail) != SL_OK)
		return complain(&fail);
	for (int64_t i = 0; i < sl_loader_batches(loader); i++) {
		const struct sl_batch *batch;

		if (sl_loader_next(loader, &batch) != SL_OK || batch->err)
			return 65;
		samples += i ? batch->rows : 0;
		began = i ? began : sl_now_ms();
		sl_loader_release(loader, batch);
	}
	printf("{\"samples\": %lld, \"ms\": %llu}\n", (long long)samples, (unsigned long long)(sl_now_ms() - began));
	sl_loader_close(loader);
	sl_transform_close(transform);
	sl_set_close(&set);
	return 0;
}
