/* usage: bench_batches CONFIG EPOCHS [KEY=VALUE]…
 * Writes the batches that a run of CONFIG feeds to its network to stdout, so that another program can train on them:
 * those of EPOCHS epochs of training or, if EPOCHS is 0, those of one evaluation. A batch is, in the machine's byte
 * order: i32 rows, i32 height, i32 width, f32 images [rows, height, width, 3], i32 labels [rows]. */
#include <stdio.h>
#include <stdlib.h>

#include "client/setup/setup.h"

enum { CHANNELS = 3, MOST_SETS = 32 };

static int complain(const struct sl_fail *fail)
{
	fprintf(stderr, "bench_batches: %s\n", fail->text);
	return sl_err_exit_status(fail->code);
}

static bool put(const struct sl_batch *b)
{
	const int64_t *dim = b->field[SL_FIELD_INPUT].type.dim;
	const int32_t head[] = {(int32_t)b->rows, (int32_t)dim[0], (int32_t)dim[1]};
	const size_t rows = (size_t)b->rows, floats = (size_t)(dim[0] * dim[1]) * CHANNELS;

	return fwrite(head, sizeof head, 1, stdout) == 1 &&
	       fwrite(sl_batch_images(b), floats * sizeof(float), rows, stdout) == rows &&
	       fwrite(sl_batch_labels(b), sizeof(int32_t), rows, stdout) == rows;
}

/* Returns the exit status. */
static int put_all(struct sl_loader *loader, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const struct sl_batch *batch;

		if (sl_loader_next(loader, &batch) != SL_OK)
			return 70;
		if (batch->err)
			return complain(&batch->why);
		if (!put(batch))
			return 74;
		sl_loader_release(loader, batch);
	}
	return fflush(stdout) == 0 ? 0 : 74;
}

int main(int argc, char **argv)
{
	const int epochs = argc >= 3 ? atoi(argv[2]) : 0;
	struct sl_conf_client conf;
	struct sl_setup setup = {.conf = &conf, .reads = SL_READS_ALL};
	struct sl_loader *loader = NULL;
	struct sl_fail fail;
	int status;

	if (argc < 3 || argc - 3 > MOST_SETS)
		return 64;
	if (sl_conf_client_load(&conf, argv[1], (const char *const *)argv + 3, argc - 3, &fail) != SL_OK ||
	    sl_setup_share(&setup, &fail) != SL_OK || /* a member of a group has its own part of the data */
	    sl_setup_data(&setup, true, &fail) != SL_OK ||
	    sl_setup_loader(&setup, epochs ? SL_SPLIT_TRAIN : SL_SPLIT_TEST, NULL, NULL, &loader, &fail) != SL_OK)
		return complain(&fail);
	status = put_all(loader, sl_loader_batches(loader) * (epochs ? epochs : 1));
	sl_loader_close(loader);
	sl_setup_close(&setup);
	return status;
}
