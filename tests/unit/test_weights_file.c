/* Parameters to and from safetensors files: layouts, strict and partial loading, and the names in errors. */
#include <unistd.h>

#include "client/model/source.h"
#include "client/model/weights_file.h"
#include "tests/support/unit.h"
#include "tests/support/whole.h"

enum { MAX_PARAM = 300 };

static char dir[] = "/tmp/split-weights-XXXXXX";
static char path[128];

struct weights {
	struct sl_model *model;
	float *param[MAX_PARAM];
	bool loaded[MAX_PARAM];
};

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/w.safetensors", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void open_weights(struct weights *w, double width, int classes)
{
	const struct sl_model_spec spec = {.name = "mobilenet_v2", .width = width, .classes = classes, .image = 32};
	struct sl_fail fail;

	memset(w, 0, sizeof(*w));
	assert_int_equal(sl_model_open(&w->model, &spec, &fail), SL_OK);
	assert_in_range(w->model->graph.n_param, 1, MAX_PARAM);
	for (int i = 0; i < w->model->graph.n_param; i++) {
		w->param[i] = calloc((size_t)sl_shape_count(&w->model->graph.param[i].shape), sizeof(float));
		assert_non_null(w->param[i]);
	}
}

static void close_weights(struct weights *w)
{
	for (int i = 0; i < w->model->graph.n_param; i++)
		free(w->param[i]);
	sl_model_close(w->model);
}

static void save(struct weights *w, uint64_t seed)
{
	struct sl_fail fail = {0};

	for (int i = 0; i < w->model->graph.n_param; i++)
		sl_param_init(&w->model->graph.param[i], seed, w->param[i]);
	if (sl_weights_save(w->model, path, (const float *const *)w->param, 3, NULL, 0, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static int index_of(const struct sl_model *m, const char *name)
{
	for (int i = 0; i < m->graph.n_param; i++)
		if (!strcmp(m->graph.param[i].name, name))
			return i;
	fail_msg("no parameter %s", name);
	return -1;
}

static void layouts_of_both_convolutions(void **state)
{
	/* file[o][i][h][w] = 1000 o + 100 i + 10 h + w */
	struct sl_file_param dense = {.shape = {4, {2, 4, 2, 3}}, .layout = SL_LAYOUT_OHWI_FROM_OIHW};
	struct sl_file_param flat = {.shape = {2, {2, 24}}, .layout = SL_LAYOUT_HWC_FROM_CHW, .channels = 4};
	struct sl_file_param depth = {.shape = {4, {5, 1, 2, 3}}, .layout = SL_LAYOUT_HWC_FROM_C1HW};
	struct sl_file_param pixels = {.shape = {3, {4, 2, 3}}, .layout = SL_LAYOUT_HWC_FROM_C1HW};
	struct sl_file_param signal = {.shape = {3, {2, 4, 6, 1}}, .layout = SL_LAYOUT_OHWI_FROM_OIHW};
	float file[48], memory[48], back[48];

	for (int o = 0, n = 0; o < 2; o++)
		for (int i = 0; i < 4; i++)
			for (int h = 0; h < 2; h++)
				for (int w = 0; w < 3; w++)
					file[n++] = (float)(1000 * o + 100 * i + 10 * h + w);
	sl_param_from_file_order(&dense, file, memory);
	assert_true(memory[((1 * 2 + 0) * 3 + 2) * 4 + 3] == 1302.0f);
	assert_true(memory[((0 * 2 + 1) * 3 + 0) * 4 + 1] == 110.0f);
	sl_param_to_file_order(&dense, memory, back);
	assert_memory_equal(file, back, sizeof(file));
	sl_param_from_file_order(&signal, file, memory);
	assert_true(memory[(1 * 6 + 5) * 4 + 3] == 1312.0f);
	sl_param_from_file_order(&flat, file, memory); /* the same order, in two dimensions */
	assert_true(memory[((1 * 2 + 0) * 3 + 2) * 4 + 3] == 1302.0f);
	sl_param_to_file_order(&flat, memory, back);
	assert_memory_equal(file, back, sizeof(file));
	sl_param_from_file_order(&pixels, file, memory);
	assert_true(memory[(1 * 3 + 2) * 4 + 3] == 312.0f);
	sl_param_to_file_order(&pixels, memory, back);
	assert_memory_equal(file, back, 24 * sizeof(float));
	sl_param_from_file_order(&depth, file, memory);
	assert_true(memory[(1 * 3 + 2) * 5 + 4] == file[4 * 6 + 1 * 3 + 2]);
	assert_true(memory[(0 * 3 + 1) * 5 + 3] == file[3 * 6 + 0 * 3 + 1]);
	sl_param_to_file_order(&depth, memory, back);
	assert_memory_equal(file, back, 30 * sizeof(float));
}

static void what_is_saved_is_loaded(void **state)
{
	struct weights w, v;
	struct sl_st_file *file;
	struct sl_fail fail = {0};
	int64_t tracked = 0;

	open_weights(&w, 0.1, 10);
	open_weights(&v, 0.1, 10);
	save(&w, 5);
	v.param[4] = (free(v.param[4]), NULL); /* not on this side of the cut */
	if (sl_weights_load(v.model, path, false, v.param, v.loaded, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < w.model->graph.n_param; i++) {
		assert_true(v.loaded[i]);
		if (i != 4)
			assert_memory_equal(w.param[i], v.param[i],
					    (size_t)sl_shape_count(&w.model->graph.param[i].shape) * sizeof(float));
	}
	assert_int_equal(sl_st_open(&file, path, &fail), SL_OK);
	assert_int_equal(sl_st_count(file), w.model->graph.n_param + 52);
	const struct sl_st_tensor *t = sl_st_find(file, "features.1.conv.0.1.num_batches_tracked");
	assert_non_null(t);
	assert_int_equal(t->ndim, 0);
	assert_int_equal(whole_read(file, t, &tracked, &fail), SL_OK);
	assert_int_equal(tracked, 3);
	assert_int_equal(sl_st_find(file, "features.1.conv.0.0.weight")->dim[1], 1); /* [C,1,3,3] */
	sl_st_close(file);
	close_weights(&w);
	close_weights(&v);
}

static void assert_refused(struct weights *w, bool partial, const char *says, const char *and_says)
{
	struct sl_fail fail = {0};

	assert_int_equal(sl_weights_load(w->model, path, partial, w->param, w->loaded, &fail), SL_ERR_DATA);
	if (!strstr(fail.text, says) || !strstr(fail.text, and_says))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", fail.text, says, and_says);
}

static void a_new_classifier_needs_partial(void **state)
{
	struct weights w, v;
	struct sl_fail fail = {0};

	open_weights(&w, 0.1, 10);
	open_weights(&v, 0.1, 100);
	save(&w, 5);
	assert_refused(&v, false, "\"classifier.1.weight\" is [10,1280]", "[100,1280]");
	assert_int_equal(sl_weights_load(v.model, path, SL_WEIGHTS_NEW_INSERTS, v.param, v.loaded, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "[100,1280] in the model; with model.partial: true the last unit begins"));
	assert_int_equal(sl_weights_load(v.model, path, SL_WEIGHTS_STRICT, v.param, v.loaded, &fail), SL_ERR_DATA);
	assert_null(strstr(fail.text, "model.partial"));
	assert_int_equal(sl_weights_load(v.model, path, true, v.param, v.loaded, &fail), SL_OK);
	for (int i = 0; i < v.model->graph.n_param; i++) {
		const bool backbone = !strncmp(v.model->graph.param[i].name, "features.", 9);

		assert_int_equal(v.loaded[i], backbone);
		if (backbone)
			assert_memory_equal(w.param[i], v.param[i],
					    (size_t)sl_shape_count(&w.model->graph.param[i].shape) * sizeof(float));
		else
			assert_true(v.param[i][0] == 0.0f);
	}
	close_weights(&v);
	/* other parameters must have the right shape even then */
	open_weights(&v, 0.35, 10);
	assert_refused(&v, true, "\"features.0.0.weight\" is [8,3,3,3]", "[16,3,3,3]");
	close_weights(&v);
	close_weights(&w);
}

/* Writes the saved file again, with one tensor left out, renamed or of another type. */
static void rewrite(const char *name, const char *new_name, const char *dtype)
{
	struct sl_st_item item[2 * MAX_PARAM];
	struct sl_st_file *file;
	struct sl_fail fail = {0};
	uint8_t *image;
	size_t len;
	uint64_t header;
	int n = 0;

	assert_int_equal(sl_file_read(path, 1 << 24, &image, &len, &fail), SL_OK);
	assert_int_equal(sl_st_open_bytes(&file, (struct sl_bytes){image, len}, &fail), SL_OK);
	memcpy(&header, image, 8);
	for (int i = 0; i < sl_st_count(file); i++) {
		const struct sl_st_tensor *t = sl_st_at(file, i);
		bool chosen = !strcmp(t->name, name);

		if (chosen && !new_name)
			continue;
		item[n] = (struct sl_st_item){.name = chosen ? new_name : t->name,
					      .dtype = chosen ? dtype : t->dtype,
					      .ndim = t->ndim,
					      .data = image + 8 + header + t->offset};
		memcpy(item[n].dim, t->dim, sizeof(t->dim));
		n++;
	}
	assert_int_equal(sl_st_write(path, item, n, NULL, 0, SL_FP_MODEL_OPEN, &fail), SL_OK);
	sl_st_close(file);
	free(image);
}

static void missing_extra_and_mistyped_tensors_are_named(void **state)
{
	static const char bn[] = "features.2.conv.1.1.running_var";
	struct weights w;
	struct sl_fail fail = {0};

	open_weights(&w, 0.1, 10);
	for (int partial = 0; partial < 2; partial++) {
		save(&w, 5);
		rewrite(bn, NULL, NULL);
		assert_refused(&w, partial, bn, "missing");
		save(&w, 5);
		rewrite(bn, "features.2.conv.9.weight", "F32");
		assert_refused(&w, partial, bn, "missing");
		save(&w, 5);
		rewrite("features.0.1.num_batches_tracked", "features.99.weight", "I64");
		assert_refused(&w, partial, "1 tensor of the file is not of mobilenet_v2", "\"features.99.weight\"");
		save(&w, 5);
		rewrite("features.0.1.num_batches_tracked", "classifiers.1.weight", "I64");
		assert_refused(&w, partial, "1 tensor of the file is not of mobilenet_v2", "\"classifiers.1.weight\"");
		save(&w, 5);
		rewrite(bn, bn, "I32");
		assert_refused(&w, partial, bn, "I32");
	}
	save(&w, 5);
	rewrite("features.0.1.num_batches_tracked", NULL, NULL);
	assert_int_equal(sl_weights_load(w.model, path, false, w.param, NULL, &fail), SL_OK);
	save(&w, 5);
	rewrite("classifier.1.bias", NULL, NULL);
	assert_refused(&w, false, "classifier.1.bias", "missing");
	assert_int_equal(sl_weights_load(w.model, path, true, w.param, w.loaded, &fail), SL_OK);
	assert_false(w.loaded[index_of(w.model, "classifier.1.bias")]);
	assert_true(w.loaded[index_of(w.model, "classifier.1.weight")]);
	save(&w, 5);
	rewrite("classifier.1.bias", "classifier.3.bias", "F32");
	assert_int_equal(sl_weights_load(w.model, path, true, w.param, w.loaded, &fail), SL_OK);
	close_weights(&w);
}

/* A state_dict of torch that is loaded and saved again has the same tensors, except for the
 * counters, which are Split's own. */
static void torchs_state_dict_comes_back(void **state)
{
	struct weights w;
	struct sl_st_file *theirs, *ours;
	struct sl_fail fail = {0};
	enum { MOST = 1280 * 32 };
	float *x = malloc(MOST * sizeof(*x)), *y = malloc(MOST * sizeof(*y));

	open_weights(&w, 0.1, 10);
	if (sl_weights_load(w.model, "tests/golden/mobilenet_v2_init.safetensors", false, w.param, NULL, &fail) !=
	    SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_weights_save(w.model, path, (const float *const *)w.param, 0, NULL, 0, &fail), SL_OK);
	assert_int_equal(sl_st_open(&theirs, "tests/golden/mobilenet_v2_init.safetensors", &fail), SL_OK);
	assert_int_equal(sl_st_open(&ours, path, &fail), SL_OK);
	assert_int_equal(sl_st_count(theirs), sl_st_count(ours));
	for (int i = 0; i < sl_st_count(ours); i++) {
		const struct sl_st_tensor *t = sl_st_at(theirs, i), *o = sl_st_at(ours, i);
		char a[SL_ST_SHAPE_TEXT], b[SL_ST_SHAPE_TEXT];

		assert_string_equal(t->name, o->name);
		assert_string_equal(sl_st_shape_text(t, a), sl_st_shape_text(o, b));
		assert_string_equal(t->dtype, o->dtype);
		if (!sl_st_is_float(t))
			continue;
		assert_in_range(t->count, 1, MOST);
		assert_int_equal(sl_st_read_f32(theirs, t, x, &fail), SL_OK);
		assert_int_equal(sl_st_read_f32(ours, o, y, &fail), SL_OK);
		assert_memory_equal(x, y, (size_t)t->count * sizeof(*x));
	}
	free(x);
	free(y);
	sl_st_close(theirs);
	sl_st_close(ours);
	close_weights(&w);
}

/* Runs if the pretrained backbone exists: at SPLIT_BACKBONE, or where the fetch script puts it. */
static void the_imagenet_backbone_loads(void **state)
{
	const char *file = getenv("SPLIT_BACKBONE");
	struct weights w;
	struct sl_fail fail = {0};

	file = file ? file : "data/mobilenet_v2_imagenet_backbone.safetensors";
	if (access(file, R_OK) != 0)
		skip();
	open_weights(&w, 1.0, 10);
	assert_int_equal(sl_weights_load(w.model, file, false, w.param, w.loaded, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "classifier.1.weight"));
	if (sl_weights_load(w.model, file, true, w.param, w.loaded, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < w.model->graph.n_param; i++)
		assert_int_equal(w.loaded[i], !strncmp(w.model->graph.param[i].name, "features.", 9));
	close_weights(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_of_both_convolutions),
		cmocka_unit_test(what_is_saved_is_loaded),
		cmocka_unit_test(a_new_classifier_needs_partial),
		cmocka_unit_test(missing_extra_and_mistyped_tensors_are_named),
		cmocka_unit_test(torchs_state_dict_comes_back),
		cmocka_unit_test(the_imagenet_backbone_loads),
	};

	return cmocka_run_group_tests_name("weights_file", tests, make_dir, remove_dir);
}
