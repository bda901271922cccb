/* usage: bench_rounding [IN OUT CHUNKS]
 * Split's side of bench_rounding.py. Runs the steps of IN_run.safetensors from the weights of IN_init.safetensors
 * (golden.py describes these files) on the CPU backend, with the batch in CHUNKS chunks. Writes OUT_grad.safetensors
 * (the gradients of the first step) and OUT_first.safetensors (weights and running statistics after it), and prints the
 * losses, a line each. Without arguments it prints the CPU's SIMD level and BLAS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/weights_file.h"
#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/asked.h"
#include "tests/support/local_gradients.h"
#include "tests/support/whole.h"

enum { MOST_STEPS = 64, PATH = 512 };

struct run {
	struct asked asked;
	struct sl_plan *plan;
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_local *local;
	struct sl_weights weights;
	float *images;
	int32_t *labels;
	int64_t rows, steps;
	float lr[MOST_STEPS];
};

static struct sl_fail why;

static void must(enum sl_err err)
{
	if (err == SL_OK)
		return;
	fprintf(stderr, "bench_rounding: %s\n", why.text[0] ? why.text : sl_err_text(err));
	exit(sl_err_exit_status(err));
}

static const char *path_of(char path[PATH], const char *prefix, const char *part)
{
	snprintf(path, PATH, "%s_%s.safetensors", prefix, part);
	return path;
}

static double meta(const struct sl_st_file *file, const char *key)
{
	const char *text = sl_st_metadata(file, key);

	if (text == NULL) {
		sl_fail_set(&why, SL_ERR_DATA, "the run's metadata lack \"%s\"", key);
		must(SL_ERR_DATA);
	}
	return strtod(text, NULL);
}

static const struct sl_st_tensor *tensor(const struct sl_st_file *file, const char *name)
{
	const struct sl_st_tensor *t = sl_st_find(file, name);

	if (t == NULL) {
		sl_fail_set(&why, SL_ERR_DATA, "the run lacks \"%s\"", name);
		must(SL_ERR_DATA);
	}
	return t;
}

/* Reads the batch, the learning rates and the settings of the plan. */
static void read_run(struct run *r, const char *prefix, int chunks)
{
	struct sl_split_spec *spec = &r->asked.split;
	struct sl_agreed *agreed = &r->asked.agreement.agreed;
	struct sl_st_file *file;
	int64_t *wide;
	char path[PATH];

	must(sl_st_open(&file, path_of(path, prefix, "run"), &why));
	r->rows = tensor(file, "label")->count;
	r->steps = tensor(file, "lr")->count;
	if (r->steps > MOST_STEPS)
		must(SL_ERR_DATA);
	r->images = malloc((size_t)tensor(file, "input")->count * sizeof *r->images);
	r->labels = malloc((size_t)r->rows * sizeof *r->labels);
	wide = malloc((size_t)r->rows * sizeof *wide);
	must(sl_st_read_f32(file, tensor(file, "input"), r->images, &why));
	must(sl_st_read_f32(file, tensor(file, "lr"), r->lr, &why));
	must(whole_read(file, tensor(file, "label"), wide, &why));
	for (int64_t i = 0; i < r->rows; i++)
		r->labels[i] = (int32_t)wide[i];
	free(wide);
	spec->model = (struct sl_model_spec){.name = "mobilenet_v2",
					     .width = meta(file, "width"),
					     .classes = (int)meta(file, "classes"),
					     .image = (int)meta(file, "image"),
					     .cifar_stem = meta(file, "cifar_stem") != 0};
	snprintf(spec->cut.head_end, sizeof spec->cut.head_end, "features.0.1");
	*agreed = sl_agreed_default();
	agreed->batch = (int)r->rows;
	agreed->chunks = chunks;
	agreed->optimizer.momentum = meta(file, "momentum");
	agreed->optimizer.weight_decay = meta(file, "weight_decay");
	sl_st_close(file);
}

static void open_run(struct run *r, const char *prefix, int chunks)
{
	char path[PATH];

	read_run(r, prefix, chunks);
	must(asked_settle(&r->asked, &why));
	must(plan_open(&r->plan, &r->asked.split, &why));
	must(sl_pool_open(&r->pool, 2, &why));
	must(sl_cpu_backend_open(&r->be, r->pool, &why));
	must(sl_local_open(&r->local, r->plan, &r->asked.agreement, NULL, &r->be, &why));
	must(sl_weights_open(&r->weights, r->plan->model, &why));
	must(sl_weights_load(r->plan->model, path_of(path, prefix, "init"), false, r->weights.value, NULL, &why));
	must(sl_local_set_weights(r->local, &r->weights, &why));
}

static void close_run(struct run *r)
{
	sl_local_close(r->local);
	r->be.ops->close(&r->be);
	sl_pool_close(r->pool);
	sl_weights_close(&r->weights);
	sl_plan_close(r->plan);
	free(r->images);
	free(r->labels);
}

static struct sl_st_item item_of(const char *name, const struct sl_file_param *p, const float *memory)
{
	struct sl_st_item item = {.name = name, .dtype = "F32", .ndim = p->shape.ndim};
	float *file = malloc((size_t)sl_shape_count(&p->shape) * sizeof *file);

	memcpy(item.dim, p->shape.dim, (size_t)item.ndim * sizeof item.dim[0]);
	sl_param_to_file_order(p, memory, file);
	item.data = file;
	return item;
}

static void write_gradients(const struct run *r, const char *path)
{
	const struct sl_model *m = r->plan->model;
	struct sl_st_item *items = calloc((size_t)m->graph.n_param, sizeof *items);
	int n = 0;

	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &r->plan->segment[which];
		float *range = malloc((size_t)s->trainable_count * sizeof *range + 1);

		must(local_gradients(r->local, (enum sl_segment)which, range));
		for (int i = 0; i < s->n_param; i++)
			if (m->graph.param[s->param[i].model_param].role != SL_STATISTIC)
				items[n++] = item_of(m->graph.param[s->param[i].model_param].name,
						     &m->file[s->param[i].model_param], range + s->param[i].offset);
		free(range);
	}
	must(sl_st_write(path, items, n, NULL, 0, SL_FP_NONE, &why));
	for (int i = 0; i < n; i++)
		free((void *)items[i].data);
	free(items);
}

int main(int argc, char **argv)
{
	struct run r = {0};
	char path[PATH];

	if (argc == 1)
		return puts(sl_cpu_describe()) < 0;
	if (argc != 4) {
		fputs("usage: bench_rounding [IN OUT CHUNKS]\n", stderr);
		return 64;
	}
	open_run(&r, argv[1], atoi(argv[3]));
	for (int64_t step = 0; step < r.steps; step++) {
		struct sl_step_result result;

		must(sl_local_step(r.local, &(struct sl_feed){.input = r.images, .target = r.labels, .rows = r.rows},
				   (uint64_t)step, (double)r.lr[step], &result, &why));
		printf("%.17g\n", result.loss);
		if (step > 0)
			continue;
		write_gradients(&r, path_of(path, argv[2], "grad"));
		must(sl_local_get_weights(r.local, &r.weights));
		must(sl_weights_save(r.plan->model, path_of(path, argv[2], "first"),
				     (const float *const *)r.weights.value, 1, NULL, 0, &why));
	}
	close_run(&r);
	return 0;
}
