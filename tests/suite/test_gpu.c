/* GPU properties that small single ops cannot show: shapes that fill the device, non-finite values,
 * fences, refused memory. Skipped, and counted, if there is no device. */
#include <float.h>
#include <math.h>
#include <semaphore.h>

#include "kernels/module.h"
#include "tests/ref/ref.h"
#include "tests/support/gpu.h"
#include "tests/support/op_run.h"
#include "tests/support/unit.h"

enum { SEED = 11 };

/* ---- shapes of 224² that take many blocks, each with many pieces of work */

#define BN(n_, hw_, c_, act_)                                                            \
	{                                                                                \
		.kind = SL_OP_BATCHNORM, .n = n_, .h = hw_, .w = hw_, .c = c_, .u.bn = { \
			.c = c_,                                                         \
			.eps = 1e-5f,                                                    \
			.momentum = 0.1f,                                                \
			.act = act_                                                      \
		}                                                                        \
	}
#define CONV(n_, hw_, c_, o_, k_, s_, groups_)                                          \
	{                                                                               \
		.kind = SL_OP_CONV2D, .n = n_, .h = hw_, .w = hw_, .c = c_, .u.conv = { \
			.in_c = c_,                                                     \
			.out_c = o_,                                                    \
			.kh = k_,                                                       \
			.kw = k_,                                                       \
			.stride = s_,                                                   \
			.pad = k_ / 2,                                                  \
			.groups = groups_                                               \
		}                                                                       \
	}

static const struct op_case large[] = {
	CONV(4, 112, 96, 96, 3, 1, 96),   CONV(4, 112, 96, 96, 3, 2, 96),  CONV(6, 57, 144, 144, 3, 1, 144),
	CONV(6, 57, 144, 144, 3, 2, 144), CONV(8, 7, 960, 960, 3, 1, 960), CONV(8, 14, 384, 384, 3, 1, 384),
	CONV(4, 112, 16, 96, 1, 1, 1),    CONV(8, 7, 320, 1280, 1, 1, 1),  CONV(4, 64, 3, 32, 3, 2, 1),
	BN(4, 112, 96, SL_ACT_RELU6),     BN(8, 56, 24, SL_ACT_NONE),      BN(8, 14, 576, SL_ACT_RELU),
	BN(8, 17, 576, SL_ACT_RELU6),     BN(8, 7, 1280, SL_ACT_RELU6),    BN(5, 33, 36, SL_ACT_RELU6),
};

static void test_large_shapes_against_ref(void **state)
{
	const struct op_run_how how = {.chunks = 1, .backward = true, .commit = true};
	struct op_log log = {.backend = "cuda", .mode = "large shapes"};
	struct sl_backend ref;
	struct sl_fail fail;

	NEEDS_GPU();
	assert_int_equal(sl_ref_backend_open(&ref, &fail), SL_OK);
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
		struct op_result got = {0}, want = {0};

		if (op_run(&want, &ref, &large[i], SEED, &how, &log) && op_run(&got, &gpu, &large[i], SEED, &how, &log))
			op_result_compare(&got, &want, &log);
		op_result_free(&got);
		op_result_free(&want);
	}
	ref.ops->close(&ref);
	assert_int_equal(log.failures, 0);
}

/* Only NaN and Inf are found, at any place. */
static void test_finite(void **state)
{
	static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
	static const int64_t places[] = {0, 1, 4095, 4096, 99999};
	enum { COUNT = 100000 };
	float *host, *there;
	struct sl_fail fail;
	bool finite = false;

	NEEDS_GPU();
	host = calloc(COUNT, sizeof(float));
	assert_non_null(host);
	for (int i = 0; i < COUNT; i++)
		host[i] = i % 3 ? FLT_MAX : -1e-42f;
	assert_int_equal(gpu.ops->alloc(&gpu, COUNT * sizeof(float), (void **)&there, &fail), SL_OK);
	assert_int_equal(gpu.ops->upload(&gpu, there, host, COUNT * sizeof(float)), SL_OK);
	assert_int_equal(gpu.ops->finite(&gpu, there, COUNT, &finite), SL_OK);
	assert_true(finite);
	for (int i = 0; i < 20; i++) {
		int64_t at = places[i / 4];

		assert_int_equal(gpu.ops->upload(&gpu, there + at, &bad[i % 4], sizeof(float)), SL_OK);
		assert_int_equal(gpu.ops->finite(&gpu, there, COUNT, &finite), SL_OK);
		assert_false(finite);
		assert_int_equal(gpu.ops->upload(&gpu, there + at, &host[at], sizeof(float)), SL_OK);
	}
	assert_int_equal(gpu.ops->finite(&gpu, there, 0, &finite), SL_OK);
	assert_true(finite);
	gpu.ops->free(&gpu, there);
	free(host);
}

/* ---- fences and memory */

struct order {
	sem_t all;
	int next, wrong, expect;
};

struct ticket {
	struct order *order;
	int number;
};

static void arrive(void *arg)
{
	struct ticket *t = arg;

	t->order->wrong += t->number != t->order->next++;
	if (t->order->next == t->order->expect)
		sem_post(&t->order->all);
}

static void test_fences_arrive_in_order(void **state)
{
	enum { MANY = 200, ROUNDS = 3 };
	const size_t bytes = (size_t)64 << 20;
	struct sl_fail fail;
	void *memory;

	NEEDS_GPU();
	assert_int_equal(gpu.ops->alloc(&gpu, bytes, &memory, &fail), SL_OK);
	for (int round = 0; round < ROUNDS; round++) {
		struct order order = {.expect = MANY};
		struct ticket ticket[MANY];

		sem_init(&order.all, 0, 0);
		for (int i = 0; i < MANY; i++) {
			ticket[i] = (struct ticket){&order, i};
			assert_int_equal(gpu.ops->zero(&gpu, memory, bytes), SL_OK);
			assert_int_equal(gpu.ops->fence(&gpu, arrive, &ticket[i]), SL_OK);
		}
		sem_wait(&order.all);
		assert_int_equal(order.wrong, 0);
		assert_int_equal(order.next, MANY);
		sem_destroy(&order.all);
	}
	gpu.ops->free(&gpu, memory);
}

static void test_refused_memory_is_not_fatal(void **state)
{
	struct sl_fail fail;
	void *memory = &fail;
	uint32_t word = 0xffffffffu;

	NEEDS_GPU();
	assert_int_equal(gpu.ops->alloc(&gpu, (size_t)1 << 50, &memory, &fail), SL_ERR_NOMEM);
	assert_int_equal(fail.code, SL_ERR_NOMEM);
	assert_ptr_equal(memory, &fail);
	assert_int_equal(gpu.ops->alloc(&gpu, 4, &memory, &fail), SL_OK);
	assert_int_equal(gpu.ops->download(&gpu, &word, memory, 4), SL_OK);
	assert_int_equal(word, 0);
	gpu.ops->free(&gpu, memory);
}

/* One thread uses two backends in turn, each on its own device. */
static void test_two_devices(void **state)
{
	const uint32_t words[] = {0x3f800000u, 0x40000000u};
	const struct sl_module *module;
	struct sl_backend be[2] = {gpu, {0}};
	struct sl_fail fail;
	uint32_t *there[2];
	char text[SL_MODULE_TEXT];

	NEEDS_GPU();
	assert_int_equal(sl_module_load(NULL, &module, &fail), SL_OK);
	if (module->describe(1, text, &fail) != SL_OK) {
		print_message("SKIP there is one device\n");
		skip();
	}
	assert_int_equal(gpu.ops->alloc(&be[0], sizeof words, (void **)&there[0], &fail), SL_OK);
	assert_int_equal(sl_module_open(NULL, &be[1], 1, &fail), SL_OK);
	assert_int_equal(gpu.ops->upload(&be[0], there[0], words, sizeof words), SL_OK);
	assert_int_equal(be[1].ops->alloc(&be[1], sizeof words, (void **)&there[1], &fail), SL_OK);
	assert_int_equal(be[1].ops->upload(&be[1], there[1], words, sizeof words), SL_OK);
	for (int i = 0; i < 2; i++) {
		uint32_t back[2] = {0};

		assert_int_equal(be[i].ops->download(&be[i], back, there[i], sizeof back), SL_OK);
		assert_memory_equal(back, words, sizeof words);
		be[i].ops->free(&be[i], there[i]);
	}
	be[1].ops->close(&be[1]);
}

/* usage: test_gpu [TEST], such as '*fences*' */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_shapes_against_ref),
		cmocka_unit_test(test_finite),
		cmocka_unit_test(test_fences_arrive_in_order),
		cmocka_unit_test(test_refused_memory_is_not_fatal),
		cmocka_unit_test(test_two_devices),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("gpu", tests, gpu_open, gpu_close);
}
