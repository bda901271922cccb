/* usage: bench_segments CONFIG [--set key=value]… [--runs N] [--serve] [PIECE…]
 * Measures pieces of a step of CONFIG on this CPU, without a link: milliseconds, medians of N (7) runs after a warm-up
 * run. A line is name, median, min, max and unit, tab-separated. PIECE, by default all:
 *   head, middle, tail  forward and backward of one segment, chunk by chunk, over a batch
 *   step                forward and backward of all three in turn; tensors are copied from one to the next
 *   pair                a step as the two daemons compute it, with codecs and optimizer: the time of each side alone,
 *                       and the bytes that would cross
 * The last line is the peak resident memory of the process. --serve: each line of stdin names a piece; it is run once,
 * and its milliseconds are printed. So another benchmark can alternate with it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/setup/setup.h"
#include "client/step/ends.h"
#include "common/base/clock.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/op_times.h"

enum { MAX_RUNS = 99, MAX_SETS = 64, CLIENT = 0, SERVER = 1, SIDES = 2 };

/* The parts of a `pair` that are timed. */
enum lap {
	LAP_CLIENT,
	LAP_SERVER,
	LAP_ENCODE,
	LAP_DECODE = LAP_ENCODE + SL_DIR_COUNT,
	LAP_COUNT = LAP_DECODE + SL_DIR_COUNT
};

struct bench {
	struct sl_conf_client conf;
	struct sl_setup setup;
	struct sl_ends ends;
	struct sl_exec *middle;
	float *images;
	int32_t *labels;
	struct sl_codec *codec[SIDES][SL_DIR_COUNT];
	struct sl_buf payload;
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	int chunks, runs;
	uint64_t step;
	double lap[LAP_COUNT];
	struct sl_fail fail; /* why a piece failed */
	uint64_t bytes[SL_DIR_COUNT];
};

typedef enum sl_err piece_fn(struct bench *b);

static _Noreturn void die(enum sl_err err, const struct sl_fail *fail)
{
	fprintf(stderr, "bench_segments: %s\n", fail && fail->text[0] ? fail->text : sl_err_text(err));
	exit(sl_err_exit_status(err));
}

static struct sl_exec_call call_of(const struct bench *b, int chunk)
{
	return (struct sl_exec_call){
		.slot = chunk, .chunk = chunk, .dims = sl_dims_rows(b->rows[chunk]), .step = b->step, .training = true};
}

/* ---- pieces */

static enum sl_err both_ways(struct bench *b, struct sl_exec *exec)
{
	enum sl_err err = sl_exec_begin(exec);

	for (int c = 0; c < b->chunks && !err; c++) {
		struct sl_exec_call call = call_of(b, c);

		err = sl_exec_forward(exec, &call, NULL);
		if (!err)
			err = sl_exec_backward(exec, &call, NULL);
	}
	return err;
}

static enum sl_err head(struct bench *b)
{
	return both_ways(b, b->ends.head);
}

static enum sl_err middle(struct bench *b)
{
	return both_ways(b, b->middle);
}

static enum sl_err tail(struct bench *b)
{
	enum sl_err err = sl_exec_begin(b->ends.tail);

	for (int c = 0; c < b->chunks && !err; c++)
		err = sl_ends_tail(&b->ends, c, &b->fail);
	return err;
}

static void copy(struct sl_tensor to, struct sl_tensor from)
{
	memcpy(to.data, from.data, (size_t)sl_shape_count(&from.shape) * sizeof(float));
}

static enum sl_err step_chunk(struct bench *b, int c)
{
	struct sl_exec_call call = call_of(b, c);
	enum sl_err err = sl_exec_forward(b->ends.head, &call, NULL);

	copy(sl_exec_input(b->middle, c, call.dims.rows), sl_exec_output(b->ends.head, c, call.dims.rows));
	if (!err)
		err = sl_exec_forward(b->middle, &call, NULL);
	copy(sl_exec_input(b->ends.tail, c, call.dims.rows), sl_exec_output(b->middle, c, call.dims.rows));
	if (!err)
		err = sl_ends_tail(&b->ends, c, &b->fail);
	copy(sl_exec_dout(b->middle, c, call.dims.rows), sl_exec_din(b->ends.tail, c, call.dims.rows));
	if (!err)
		err = sl_exec_backward(b->middle, &call, NULL);
	copy(sl_exec_dout(b->ends.head, c, call.dims.rows), sl_exec_din(b->middle, c, call.dims.rows));
	return err ? err : sl_exec_backward(b->ends.head, &call, NULL);
}

static enum sl_err step(struct bench *b)
{
	enum sl_err err = sl_exec_begin(b->ends.head);

	if (!err)
		err = sl_exec_begin(b->middle);
	if (!err)
		err = sl_exec_begin(b->ends.tail);
	for (int c = 0; c < b->chunks && !err; c++)
		err = step_chunk(b, c);
	return err;
}

static void lap(struct bench *b, int side, uint64_t *since)
{
	uint64_t now = sl_now_ns();

	b->lap[side] += (double)(now - *since) * 1e-6;
	*since = now;
}

static enum sl_err cross(struct bench *b, enum sl_dir dir, int chunk, struct sl_tensor from, struct sl_tensor to)
{
	bool up = dir == SL_DIR_HEAD_ACT || dir == SL_DIR_MID_GRAD;
	const struct sl_codec_call call = {.slot = chunk, .step = b->step, .chunk = (uint16_t)chunk, .training = true};
	uint64_t at = sl_now_ns();
	struct sl_fail fail;
	enum sl_err err;

	b->payload.len = 0;
	err = sl_codec_encode(b->codec[up ? CLIENT : SERVER][dir], &call, &from, &b->payload);
	b->lap[LAP_ENCODE + dir] += sl_seconds_since(at) * 1e3;
	lap(b, up ? LAP_CLIENT : LAP_SERVER, &at);
	if (err)
		return err;
	b->bytes[dir] += b->payload.len;
	err = sl_codec_decode(b->codec[up ? SERVER : CLIENT][dir], &call,
			      (struct sl_bytes){b->payload.data, b->payload.len}, &to, &fail);
	b->lap[LAP_DECODE + dir] += sl_seconds_since(at) * 1e3;
	lap(b, up ? LAP_SERVER : LAP_CLIENT, &at);
	return err;
}

static enum sl_err pair_chunk(struct bench *b, int c)
{
	struct sl_exec_call call = call_of(b, c);
	uint64_t at = sl_now_ns();
	enum sl_err err = sl_ends_head_forward(&b->ends, c);

	lap(b, LAP_CLIENT, &at);
	if (!err)
		err = cross(b, SL_DIR_HEAD_ACT, c, sl_exec_output(b->ends.head, c, call.dims.rows),
			    sl_exec_input(b->middle, c, call.dims.rows));
	at = sl_now_ns();
	if (!err)
		err = sl_exec_forward(b->middle, &call, NULL);
	lap(b, LAP_SERVER, &at);
	if (!err)
		err = cross(b, SL_DIR_MID_ACT, c, sl_exec_output(b->middle, c, call.dims.rows),
			    sl_exec_input(b->ends.tail, c, call.dims.rows));
	at = sl_now_ns();
	if (!err)
		err = sl_ends_tail(&b->ends, c, &b->fail);
	lap(b, LAP_CLIENT, &at);
	if (!err)
		err = cross(b, SL_DIR_MID_GRAD, c, sl_exec_din(b->ends.tail, c, call.dims.rows),
			    sl_exec_dout(b->middle, c, call.dims.rows));
	at = sl_now_ns();
	if (!err)
		err = sl_exec_backward(b->middle, &call, NULL);
	lap(b, LAP_SERVER, &at);
	if (!err)
		err = cross(b, SL_DIR_HEAD_GRAD, c, sl_exec_din(b->middle, c, call.dims.rows),
			    sl_exec_dout(b->ends.head, c, call.dims.rows));
	at = sl_now_ns();
	if (!err)
		err = sl_ends_head_backward(&b->ends, c);
	lap(b, LAP_CLIENT, &at);
	return err;
}

static enum sl_err pair(struct bench *b)
{
	enum sl_err err = sl_exec_begin(b->middle);
	uint64_t at;

	memset(b->lap, 0, sizeof b->lap);
	memset(b->bytes, 0, sizeof b->bytes);
	for (int c = 0; c < b->chunks && !err; c++)
		err = pair_chunk(b, c);
	at = sl_now_ns();
	if (!err)
		err = sl_exec_commit(b->middle, 1e-4, b->rows, b->chunks);
	lap(b, LAP_SERVER, &at);
	if (!err)
		err = sl_ends_commit(&b->ends, 1e-4, 0);
	lap(b, LAP_CLIENT, &at);
	for (int i = 0; i < SIDES * SL_DIR_COUNT && !err; i++)
		sl_codec_commit(b->codec[i / SL_DIR_COUNT][i % SL_DIR_COUNT]);
	return err;
}

enum { NEEDS_ENDS = 1, NEEDS_MIDDLE = 2, NEEDS_CODECS = 4 };

static const struct piece {
	const char *name;
	piece_fn *run;
	unsigned needs;
} pieces[] = {
	{"head", head, NEEDS_ENDS},
	{"middle", middle, NEEDS_MIDDLE},
	{"tail", tail, NEEDS_ENDS},
	{"step", step, NEEDS_ENDS | NEEDS_MIDDLE},
	{"pair", pair, NEEDS_ENDS | NEEDS_MIDDLE | NEEDS_CODECS},
};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

/* ---- opening */

static void fill(struct sl_tensor t, uint64_t seed)
{
	const struct sl_rng_key key = {seed, 1, 0, SL_RNG_TEST};

	for (int64_t i = 0; t.data && i < sl_shape_count(&t.shape); i++)
		((float *)t.data)[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.5f;
}

static enum sl_err open_ends(struct bench *b, struct sl_fail *fail)
{
	const struct sl_plan *plan = b->setup.plan;
	struct sl_shape shape = plan->segment[SL_HEAD].in_shape;
	enum sl_err err = sl_ends_open(&b->ends, plan, &b->setup.be, fail);

	if (err)
		return err;
	shape.dim[0] = plan->spec.batch;
	b->images = malloc((size_t)sl_shape_count(&shape) * sizeof *b->images);
	b->labels = malloc((size_t)plan->spec.batch * sizeof *b->labels);
	if (!b->images || !b->labels)
		return SL_ERR_NOMEM;
	fill((struct sl_tensor){SL_F32, shape, b->images, NULL}, 2);
	for (int64_t i = 0; i < plan->spec.batch; i++)
		b->labels[i] = (int32_t)(i % plan->model->classes);
	sl_ends_take(&b->ends, &(struct sl_feed){.input = b->images, .target = b->labels, .rows = plan->spec.batch},
		     b->step, true);
	for (int c = 0; c < b->chunks; c++) {
		fill(sl_exec_input(b->ends.head, c, b->rows[c]), 3);
		fill(sl_exec_dout(b->ends.head, c, b->rows[c]), 4);
		fill(sl_exec_input(b->ends.tail, c, b->rows[c]), 5);
	}
	return sl_ends_set_weights(&b->ends, &b->setup.weights);
}

static enum sl_err open_middle(struct bench *b, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &b->setup.plan->segment[SL_MIDDLE];
	float *w = malloc((size_t)s->weight_count * sizeof *w);
	enum sl_err err = sl_exec_open(&b->middle, b->setup.plan, SL_MIDDLE, &b->setup.be, fail);

	if (!err && !w)
		err = SL_ERR_NOMEM;
	if (!err) {
		sl_weights_pack(&b->setup.weights, s, w);
		err = sl_exec_set_weights(b->middle, w);
	}
	free(w);
	for (int c = 0; c < b->chunks && !err; c++) {
		fill(sl_exec_input(b->middle, c, b->rows[c]), 6);
		fill(sl_exec_dout(b->middle, c, b->rows[c]), 7);
	}
	return err;
}

static enum sl_err open_codecs(struct bench *b, int side, struct sl_fail *fail)
{
	const struct sl_codec_spec *spec = b->setup.agreement.codec;
	const struct sl_plan *plan = b->setup.plan;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		enum sl_dir act = mid ? SL_DIR_MID_ACT : SL_DIR_HEAD_ACT;
		bool paired = (enum sl_dir)dir != act && sl_codec_spec_pairs(&spec[act], &spec[dir]);
		struct sl_codec_env env = {
			.be = &b->setup.be,
			.shape = sl_plan_cut_shape(plan, mid, plan->rows),
			.slots = b->chunks,
			.seed = plan->spec.seed,
			.dir = (enum sl_dir)dir,
			.pair = paired ? b->codec[side][act] : NULL,
		};
		enum sl_err err = sl_codec_open(&b->codec[side][dir], &spec[dir], &env, fail);
		size_t bound = err ? 0 : sl_codec_bound(b->codec[side][dir], plan->rows);

		if (err)
			return err;
		b->payload.cap = bound > b->payload.cap ? bound : b->payload.cap;
	}
	return SL_OK;
}

static void open_all(struct bench *b, unsigned needs)
{
	struct sl_fail fail = {.text = ""};
	enum sl_err err = sl_setup_plan(&b->setup, &b->conf, &fail);

	if (!err)
		err = sl_setup_weights(&b->setup, b->conf.model.weights, false, &fail);
	if (!err)
		err = sl_setup_backend(&b->setup, &fail);
	if (err)
		die(err, &fail);
	b->chunks = sl_plan_split(b->setup.plan, b->setup.plan->spec.batch, b->rows);
	if (needs & NEEDS_ENDS)
		err = open_ends(b, &fail);
	if (!err && needs & NEEDS_MIDDLE)
		err = open_middle(b, &fail);
	for (int side = 0; side < SIDES && !err && needs & NEEDS_CODECS; side++)
		err = open_codecs(b, side, &fail);
	b->payload.data = malloc(b->payload.cap + 1);
	if (err || !b->payload.data)
		die(err ? err : SL_ERR_NOMEM, &fail);
}

static void close_all(struct bench *b)
{
	for (int side = 0; side < SIDES; side++)
		for (int dir = SL_DIR_COUNT - 1; dir >= 0; dir--)
			sl_codec_close(b->codec[side][dir]);
	sl_exec_close(b->middle);
	sl_ends_close(&b->ends);
	free(b->payload.data);
	free(b->images);
	free(b->labels);
	sl_setup_close(&b->setup);
}

/* ---- measuring */

static double run_once(struct bench *b, const struct piece *p)
{
	uint64_t start = sl_now_ns();
	enum sl_err err = p->run(b);
	double ms = sl_seconds_since(start) * 1e3;

	b->step++;
	b->ends.step = b->step;
	if (err)
		die(err, NULL);
	return ms;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void row(const char *name, const char *of, double *t, int n, const char *unit)
{
	qsort(t, (size_t)n, sizeof *t, by_value);
	printf("%s%s\t%.4f\t%.4f\t%.4f\t%s\n", name, of, t[n / 2], t[0], t[n - 1], unit);
}

static void measure(struct bench *b, const struct piece *p)
{
	double ms[MAX_RUNS], part[LAP_COUNT][MAX_RUNS];

	for (int r = -1; r < b->runs; r++) {
		int i = r < 0 ? 0 : r;

		ms[i] = run_once(b, p);
		for (int l = 0; l < LAP_COUNT; l++)
			part[l][i] = b->lap[l];
	}
	row(p->name, "", ms, b->runs, "ms");
	if (p->run != pair)
		return;
	row("client", "", part[LAP_CLIENT], b->runs, "ms");
	row("server", "", part[LAP_SERVER], b->runs, "ms");
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const char *name = sl_dir_name((enum sl_dir)dir);
		double mb = (double)b->bytes[dir] * 1e-6;

		row("encode ", name, part[LAP_ENCODE + dir], b->runs, "ms");
		row("decode ", name, part[LAP_DECODE + dir], b->runs, "ms");
		row("payload ", name, &mb, 1, "MB");
	}
}

static const struct piece *piece_named(const char *name)
{
	for (int i = 0; i < PIECES; i++)
		if (strcmp(pieces[i].name, name) == 0)
			return &pieces[i];
	return NULL;
}

static void serve(struct bench *b)
{
	char line[64];

	while (fgets(line, sizeof line, stdin)) {
		const struct piece *p;

		line[strcspn(line, "\n")] = '\0';
		p = piece_named(line);
		printf("%.4f\n", p ? run_once(b, p) : -1.0);
		fflush(stdout);
	}
}

static _Noreturn void usage(void)
{
	fprintf(stderr,
		"usage: bench_segments CONFIG [--set key=value]… [--runs N ≤ %d] [--serve] [head] [middle] [tail] "
		"[step] [pair]\n",
		MAX_RUNS);
	exit(64);
}

struct request {
	const char *config, *set[MAX_SETS];
	const struct piece *piece[PIECES];
	int n_set, n_piece;
	unsigned needs;
	bool serve;
};

static void add_piece(struct request *q, const struct piece *p)
{
	if (!p || q->n_piece == PIECES)
		usage();
	q->piece[q->n_piece++] = p;
	q->needs |= p->needs;
}

static void read_arguments(struct request *q, struct bench *b, int argc, char **argv)
{
	b->runs = 7;
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (strcmp(argv[i], "--set") == 0 && more && q->n_set < MAX_SETS)
			q->set[q->n_set++] = argv[++i];
		else if (strcmp(argv[i], "--runs") == 0 && more)
			b->runs = atoi(argv[++i]);
		else if (strcmp(argv[i], "--serve") == 0)
			q->serve = true;
		else if (!q->config)
			q->config = argv[i];
		else
			add_piece(q, piece_named(argv[i]));
	}
	for (int i = 0; i < PIECES && q->n_piece == i; i++)
		add_piece(q, &pieces[i]);
	if (!q->config || b->runs < 1 || b->runs > MAX_RUNS)
		usage();
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct request q = {0};
	struct sl_fail fail;
	double mb;

	read_arguments(&q, &b, argc, argv);
	if (sl_conf_client_load(&b.conf, q.config, q.set, q.n_set, &fail) != SL_OK)
		die(fail.code, &fail);
	open_all(&b, q.needs);
	fprintf(stderr, "bench_segments: %s\n", sl_cpu_describe());
	if (q.serve)
		serve(&b);
	for (int i = 0; i < q.n_piece && !q.serve; i++)
		measure(&b, q.piece[i]);
	mb = peak_resident_mb();
	row("peak resident", "", &mb, 1, "MB");
	close_all(&b);
	return 0;
}
