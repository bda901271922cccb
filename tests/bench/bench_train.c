/* usage: bench_train CONFIG [--set key=value]…
 * Runs whole steps of CONFIG on this CPU as `splitc train --local` does: head, middle and tail with their codecs, and
 * the optimizer, over batches of the config's data. The initial weights are random, from train.seed. For each line of
 * stdin it runs a step and prints its milliseconds; "cpu" asks for CPU time. With data of tokens, the number of tokens
 * of each row follows on the line. So another benchmark can alternate with it. At the end it prints the peak resident
 * memory to stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/pass/local.h"
#include "client/setup/setup.h"
#include "common/base/clock.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/op_times.h"

enum { MAX_SETS = 64 };

struct bench {
	struct sl_conf_client conf;
	struct sl_setup setup;
	struct sl_loader *loader;
	struct sl_local *local;
	uint64_t step;
};

static _Noreturn void die(enum sl_err err, const struct sl_fail *fail)
{
	fprintf(stderr, "bench_train: %s\n", fail->text[0] ? fail->text : sl_err_text(err));
	exit(sl_err_exit_status(err));
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: bench_train CONFIG [--set key=value]…\n");
	exit(64);
}

static void open_all(struct bench *b)
{
	struct sl_fail fail = {.text = ""};
	struct sl_setup *s = &b->setup;
	enum sl_err err;

	s->reads = SL_READS_ALL;
	err = sl_setup_plan(s, &b->conf, &fail);
	if (!err)
		err = sl_setup_weights(s, "", false, &fail);
	if (!err)
		err = sl_setup_data(s, true, &fail);
	if (!err)
		err = sl_setup_backend(s, &fail);
	if (!err)
		err = sl_setup_loader(s, SL_SPLIT_TRAIN, NULL, NULL, &b->loader, &fail);
	if (!err)
		err = sl_local_open(&b->local, s->plan, &s->agreement, NULL, &s->be, &fail);
	if (!err)
		err = sl_local_set_weights(b->local, &s->weights, &fail);
	if (err)
		die(err, &fail);
}

static void step(struct bench *b, bool cpu)
{
	struct sl_fail fail = {.text = ""};
	const struct sl_batch *batch;
	struct sl_step_result result;
	struct sl_feed feed;
	enum sl_err err = sl_loader_next(b->loader, &batch);
	double began;
	uint64_t start;

	if (err || batch->err)
		die(err ? err : batch->err, err ? &fail : &batch->why);
	feed = sl_feed_of(batch);
	began = cpu_ms();
	start = sl_now_ns();
	err = sl_local_step(b->local, &feed, b->step++, 1e-6, &result, &fail);
	if (err)
		die(err, &fail);
	printf("%.4f", cpu ? cpu_ms() - began : sl_seconds_since(start) * 1e3);
	for (int64_t r = 0; feed.begin && r < feed.rows; r++)
		printf(" %u", feed.begin[r + 1] - feed.begin[r]);
	printf("\n");
	fflush(stdout);
	sl_loader_release(b->loader, batch);
}

int main(int argc, char **argv)
{
	static struct bench b;
	const char *set[MAX_SETS], *config = NULL;
	struct sl_fail fail;
	char line[64];
	int n = 0;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--set") == 0 && i + 1 < argc && n < MAX_SETS)
			set[n++] = argv[++i];
		else if (!config)
			config = argv[i];
		else
			usage();
	if (!config)
		usage();
	if (sl_conf_client_load(&b.conf, config, set, n, &fail) != SL_OK)
		die(fail.code, &fail);
	open_all(&b);
	while (fgets(line, sizeof line, stdin))
		step(&b, strncmp(line, "cpu", 3) == 0);
	fprintf(stderr, "bench_train: %s, peak resident %.0f MB\n", sl_cpu_describe(), peak_resident_mb());
	sl_local_close(b.local);
	sl_loader_close(b.loader);
	sl_setup_close(&b.setup);
	return 0;
}
