#include "tests/support/local_run.h"
#include "tests/support/unit.h"

#include "common/base/pool.h"
#include "common/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"

void local_run_open(struct local_run *r, const struct local_run_conf *conf)
{
	struct sl_split_spec *spec = &r->asked.split;
	struct sl_fail fail;
	enum sl_err err;

	*r = (struct local_run){.asked = {.agreement.agreed = sl_agreed_default()}};
	*spec = (struct sl_split_spec){
		.model = {"mobilenet_v2", 0.25, LOCAL_CLASSES, LOCAL_IMAGE, conf->form_cifar, conf->dropout, 0, 0, 0,
			  0},
		.cut = {"1:-1", "", ""},
	};
	r->asked.agreement.agreed.batch = LOCAL_ROWS;
	r->asked.agreement.agreed.chunks = conf->chunks;
	r->asked.agreement.agreed.seed = 7;
	strcpy(spec->insert_head, conf->head);
	strcpy(spec->insert_tail, conf->tail);
	if (asked_settle(&r->asked, &fail))
		fail_msg("%s", fail.text);
	spec->plan.optimizer = conf->optimizer;
	if (plan_open(&r->plan, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_pool_open(&r->pool, conf->threads, &fail), SL_OK);
	err = conf->ref ? sl_ref_backend_open(&r->be, &fail) : sl_cpu_backend_open(&r->be, r->pool, &fail);
	assert_int_equal(err, SL_OK);
	assert_int_equal(sl_weights_open(&r->weights, r->plan->model, &fail), SL_OK);
	sl_weights_init(&r->weights, r->plan->model, spec->plan.seed);
	if (sl_local_open(&r->local, r->plan, &r->asked.agreement, NULL, &r->be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_local_set_weights(r->local, &r->weights, &fail), SL_OK);
}

void local_run_close(struct local_run *r)
{
	sl_local_close(r->local);
	sl_weights_close(&r->weights);
	r->be.ops->close(&r->be);
	sl_pool_close(r->pool);
	sl_plan_close(r->plan);
}

void local_run_batch(const float **images, const int32_t **labels)
{
	static float image[LOCAL_ROWS * LOCAL_IMAGE * LOCAL_IMAGE * 3];
	static int32_t label[LOCAL_ROWS];
	const struct sl_rng_key key = {.seed = 3, .tensor = SL_RNG_TEST};

	for (uint32_t i = 0; i < sizeof image / sizeof image[0]; i++)
		image[i] = 2 * sl_rng_unit(sl_rng_u32(&key, i)) - 1;
	for (int i = 0; i < LOCAL_ROWS; i++)
		label[i] = i % LOCAL_CLASSES;
	*images = image;
	*labels = label;
}

double local_run_step(struct local_run *r, uint64_t number, double lr)
{
	const float *images;
	const int32_t *labels;
	struct sl_step_result result;
	struct sl_fail fail;

	local_run_batch(&images, &labels);
	if (sl_local_step(r->local, &(struct sl_feed){.input = images, .target = labels, .rows = LOCAL_ROWS}, number,
			  lr, &result, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return result.loss;
}
