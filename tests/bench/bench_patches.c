/* usage: bench_patches CONFIG OUT EPOCHS [key=value]…
 * Writes what `splitc train CONFIG` feeds its network in the first EPOCHS epochs, in order, and once what it evaluates:
 * OUT/train.x and OUT/test.x, f32 as common/graph/op.h lays out inputs, and OUT/train.y and OUT/test.y, i32. So another
 * program can train with the same patches. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/setup/setup.h"

static _Noreturn void die(enum sl_err err, const struct sl_fail *fail)
{
	fprintf(stderr, "bench_patches: %s\n", fail->text[0] ? fail->text : sl_err_text(err));
	exit(sl_err_exit_status(err));
}

static void append(FILE *to, const struct sl_batch_field *field, int64_t rows)
{
	size_t n = (size_t)rows;

	for (int i = 0; i < field->type.ndim; i++)
		n *= (size_t)field->type.dim[i];
	if (fwrite(field->data, sizeof(float), n, to) != n)
		die(SL_ERR_IO, &(struct sl_fail){.text = "a file cannot be written"});
}

static FILE *created(const char *dir, const char *name)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (!f)
		die(SL_ERR_CANTCREATE, &(struct sl_fail){.text = "a file cannot be made"});
	return f;
}

static void dump(const struct sl_setup *s, enum sl_split split, const char *dir, int64_t epochs)
{
	FILE *to[] = {created(dir, split == SL_SPLIT_TRAIN ? "train.x" : "test.x"),
		      created(dir, split == SL_SPLIT_TRAIN ? "train.y" : "test.y")};
	struct sl_fail fail = {.text = ""};
	const struct sl_batch *batch;
	struct sl_loader *loader;
	enum sl_err err = sl_setup_loader(s, split, NULL, NULL, &loader, &fail);

	if (err)
		die(err, &fail);
	for (int64_t i = 0; i < epochs * sl_loader_batches(loader); i++) {
		err = sl_loader_take(loader, &batch, &fail);
		if (err)
			die(err, &fail);
		append(to[0], &batch->field[SL_FIELD_INPUT], batch->rows);
		append(to[1], &batch->field[SL_FIELD_TARGET], batch->rows);
		sl_loader_release(loader, batch);
	}
	sl_loader_close(loader);
	if (fclose(to[0]) || fclose(to[1]))
		die(SL_ERR_IO, &(struct sl_fail){.text = "a file cannot be written"});
}

int main(int argc, char **argv)
{
	static struct sl_conf_client conf;
	static struct sl_setup setup;
	struct sl_fail fail = {.text = ""};
	enum sl_err err;

	if (argc < 4)
		return 64;
	err = sl_conf_client_load(&conf, argv[1], (const char **)(uintptr_t)(argv + 4), argc - 4, &fail);
	setup.reads = SL_READS_ALL;
	if (!err)
		err = sl_setup_sizes(&conf, &fail);
	if (!err)
		err = sl_setup_plan(&setup, &conf, &fail);
	if (!err)
		err = sl_setup_data(&setup, true, &fail);
	if (err)
		die(err, &fail);
	dump(&setup, SL_SPLIT_TRAIN, argv[2], atoll(argv[3]));
	dump(&setup, SL_SPLIT_TEST, argv[2], 1);
	sl_setup_close(&setup);
	return 0;
}
