/* The memory that a session's port announces covers what it allocates: payload buffers; codecs of all four
 * tensors, on the CPU, on a device, or half and half; and those that a decaying insert opens beside them. */

#include <math.h>

#include "common/session/port.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/codec_stage.h"
#include "tests/support/counted/counted.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

enum { SLACK = 4096, CHUNKS = 4, PART = 4096 };

static const char *const quadruples[][SL_DIR_COUNT] = {
	{"none", "none", "none", "none"},
	{"quant:8", "quant:8", "quant:8", "quant:8"},
	{"topk:0.2|quant:8", "topk:0.1", "topk:0.1", "topk:0.2|quant:8"},
	{"topk:0.2,ef=true|quant:8|zstd:3", "none", "f16", "topk:0.2,ef=true|quant:4"},
	{"lowrank:1,warm=true", "quant:4,block=64", "terngrad", "lowrank:1,warm=true"},
	{"topk:0.2|quant:8,block=64", "qsgd:7,bucket=64", "none|zstd:1", "topk:0.2"},
};
enum { QUADRUPLES = sizeof quadruples / sizeof quadruples[0] };

static struct sl_backend cpu;
static float tensor[1];

static float *place(void *arg, enum sl_dir dir, int chunk)
{
	(void)arg;
	(void)dir;
	(void)chunk;
	return tensor;
}

static float *range(void *arg)
{
	(void)arg;
	return tensor;
}

static void hold(const char *what, int which, uint64_t said, uint64_t got)
{
	if (said < got || said > got + SLACK)
		fail_msg("quadruple %d: %s: %llu bytes were said, %llu taken", which, what, (unsigned long long)said,
			 (unsigned long long)got);
}

static struct sl_memory most_of(struct sl_memory a, struct sl_memory b)
{
	return (struct sl_memory){a.host > b.host ? a.host : b.host, a.device > b.device ? a.device : b.device};
}

/* Returns the bytes that sl_port_equip took, plus the most that a later sl_port_set_done took. */
static struct sl_memory equip(const struct sl_plan *plan, struct sl_backend *be, enum sl_session_role role,
			      const struct sl_codec_spec spec[SL_DIR_COUNT])
{
	static const struct sl_port_events events = {.place = place, .range = range};
	struct sl_backend *host_be = be->host_memory ? NULL : &cpu;
	struct sl_memory all, narrower = {0};
	struct sl_loop *loop;
	struct sl_port *port;
	struct sl_fail fail;

	assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
	assert_int_equal(sl_port_open(&port, loop, NULL, 1, NULL, &events, NULL, &fail), SL_OK);
	sl_port_session(port)->role = role;
	sl_port_session(port)->hello.part_bytes = PART;
	counted_begin();
	if (sl_port_equip(port, plan, be, host_be, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	all = counted_end();
	for (uint64_t done = 1; plan->decay[0].full && done <= 12; done++) {
		counted_begin();
		if (sl_port_set_done(port, done, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		narrower = most_of(narrower, counted_end());
	}
	sl_memory_add(&all, narrower);
	sl_port_discard(port);
	sl_loop_close(loop);
	return all;
}

/* Five rows in at most four chunks of two rows make three chunks. A free step must not get a fourth
 * one, for which there is no memory. */
static void as_many_chunks_as_there_is_memory_for(void **state)
{
	static const struct sl_port_events events = {.place = place, .range = range};
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.2, 0, 0, 0, 0},
				     .cut = {.partition = "1:-1"},
				     .plan.batch = 5,
				     .plan.chunks = 4,
				     .plan.free_calls = true};
	struct sl_codec_spec codec[SL_DIR_COUNT];
	struct sl_loop *loop;
	struct sl_port *port;
	struct sl_plan *plan;
	struct sl_fail fail;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		assert_int_equal(sl_codec_parse("none", &codec[dir], &fail), SL_OK);
	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_plan_chunks_of(plan, 5), 3);
	assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
	assert_int_equal(sl_port_open(&port, loop, NULL, 1, NULL, &events, NULL, &fail), SL_OK);
	sl_port_session(port)->role = SL_SESSION_SERVER;
	sl_port_session(port)->hello.part_bytes = PART;
	if (sl_port_equip(port, plan, &cpu, NULL, codec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_port_session(port)->limits.chunks, 3);
	sl_port_discard(port);
	sl_loop_close(loop);
	sl_plan_close(plan);
}

static void compare(const struct sl_plan *plan, struct sl_backend *be)
{
	struct sl_backend *host_be = be->host_memory ? NULL : &cpu;
	struct sl_codec_spec spec[SL_DIR_COUNT];
	struct sl_port_memory need;
	struct sl_memory said, got;
	struct sl_fail fail;

	for (int q = 0; q < QUADRUPLES; q++)
		for (int role = SL_SESSION_CLIENT; role <= SL_SESSION_SERVER; role++) {
			for (int dir = 0; dir < SL_DIR_COUNT; dir++)
				assert_int_equal(sl_codec_parse(quadruples[q][dir], &spec[dir], &fail), SL_OK);
			counted_begin();
			if (sl_port_memory(plan, be, host_be, spec, (enum sl_session_role)role, &need, &fail) != SL_OK)
				fail_msg("%s", fail.text);
			got = counted_end();
			assert_int_equal(got.host + got.device, 0);
			said = need.weights;
			sl_memory_add(&said, need.codecs);
			sl_memory_add(&said, need.payloads);
			got = equip(plan, be, (enum sl_session_role)role, spec);
			hold("host", q, said.host, got.host);
			hold("device", q, said.device, got.device);
		}
}

static struct sl_plan *decaying_plan(void)
{
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.2, 0, 0, 0, 0},
				     .cut = {.partition = "1:-1"},
				     .insert_head = "decaylinear:rate=0.7,every=3,times=4",
				     .plan.batch = SMALL_BATCH,
				     .plan.chunks = CHUNKS};
	struct sl_plan *plan;
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

/* Decaying inserts along features and tokens. Rows cross with the lengths of their tokens, so only
 * the codecs' tensors shrink. */
static struct sl_plan *paired_plan(void)
{
	struct sl_split_spec spec = {.model = {.name = "token_mlp",
					       .width = 1,
					       .classes = SMALL_CLASSES,
					       .features = 24,
					       .vocab = 40,
					       .tokens = 16,
					       .whole_rows = 11},
				     .cut = {.partition = "1:-1"},
				     .insert_head = "decaylinear:rate=0.7,every=3,times=4,rate2=0.6",
				     .plan.batch = SMALL_BATCH,
				     .plan.chunks = CHUNKS,
				     .plan.row_tokens = 11,
				     .plan.chunk_tokens = (int64_t)(SMALL_BATCH + CHUNKS - 1) / CHUNKS * 11,
				     .plan.padded = true};
	struct sl_plan *plan;
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_true(plan->whole_rows && sl_plan_lengths_cross(plan));
	return plan;
}

/* Only one gradient, or none, crosses. */
static struct sl_plan *ungraded_plan(bool mid)
{
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.2, 0, 0, 0, 0},
				     .cut = {.partition = "1:-1"},
				     .plan.batch = SMALL_BATCH,
				     .plan.chunks = CHUNKS,
				     .plan.no_grad = {true, mid}};
	struct sl_plan *plan;
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

/* A Fetch carries only trainable parameters. */
static struct sl_plan *frozen_plan(void)
{
	static const struct sl_conf_list freeze = {1, {"features.*"}};
	const struct sl_optimizer sgd = {.momentum = 0.9};
	struct sl_plan *plan = small_plan_open_freezing("1:-1", CHUNKS, &sgd, "", &freeze);
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];

	assert_true((size_t)(s->weight_count - sl_plan_fetch_count(s)) * sizeof(float) > 4 * SLACK);
	return plan;
}

static void compare_plans(struct sl_backend *be)
{
	struct sl_plan *plan = small_plan_open("1:-1", CHUNKS), *decaying = decaying_plan(), *paired = paired_plan();
	struct sl_plan *frozen = frozen_plan();

	compare(frozen, be);
	frozen->spec.shared = true; /* a group's member receives an upload into memory of its port */
	compare(frozen, be);
	sl_plan_close(frozen);
	compare(plan, be);
	compare(decaying, be);
	compare(paired, be);
	for (int mid = 0; mid < 2; mid++) {
		struct sl_plan *ungraded = ungraded_plan(mid);

		compare(ungraded, be);
		sl_plan_close(ungraded);
	}
	sl_plan_close(plan);
	sl_plan_close(decaying);
	sl_plan_close(paired);
}

static void on_the_cpu(void **state)
{
	compare_plans(&cpu);
}

static void on_a_device(void **state)
{
	struct sl_backend be = counted_backend(false);

	compare_plans(&be);
}

/* A device with the proven codec stages only (codec_stage.c), then with none; the host computes the others. */
static void on_a_device_that_lacks_codecs(void **state)
{
	struct sl_backend be = counted_backend(false);
	struct sl_backend_ops ops = *be.ops;

	ops.codec_stages = cu_codec_stages;
	be.ops = &ops;
	compare_plans(&be);
	ops.codec_stages = NULL;
	compare_plans(&be);
}

static int downloads;

static enum sl_err count_download(struct sl_backend *be, void *to, const void *from, size_t bytes)
{
	downloads++;
	memcpy(to, from, bytes);
	return SL_OK;
}

/* A device that queues its work, and lacks a codec: what the host encodes is read back first. */
static void what_the_host_encodes_is_read_back(void **state)
{
	static const struct sl_port_events events = {.place = place, .range = range};
	struct sl_backend be = counted_backend(true);
	struct sl_backend_ops ops = *be.ops;
	struct sl_plan *plan = small_plan_open("1:-1", CHUNKS);
	struct sl_codec_spec spec[SL_DIR_COUNT];
	struct sl_tensor x = {.shape = plan->segment[SL_MIDDLE].out_shape};
	struct sl_loop *loop;
	struct sl_port *port;
	struct sl_fail fail;

	ops.codec_stages = NULL;
	ops.download = count_download;
	be.ops = &ops;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		assert_int_equal(sl_codec_parse("quant:8", &spec[dir], &fail), SL_OK);
	assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
	assert_int_equal(sl_port_open(&port, loop, NULL, 1, NULL, &events, NULL, &fail), SL_OK);
	sl_port_session(port)->role = SL_SESSION_SERVER;
	sl_port_session(port)->hello.part_bytes = PART;
	if (sl_port_equip(port, plan, &be, &cpu, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	x.shape.dim[0] = plan->rows;
	x.data = calloc((size_t)sl_shape_count(&x.shape), sizeof(float));
	assert_non_null(x.data);
	assert_int_equal(sl_port_encode(port, SL_DIR_MID_ACT, 0, &x, &fail), SL_OK);
	assert_int_equal(downloads, 1);
	((float *)x.data)[0] = NAN;
	assert_int_equal(sl_port_encode(port, SL_DIR_MID_ACT, 0, &x, &fail), SL_ERR_NONFINITE);
	assert_string_equal(fail.text, "NaN or Inf in mid_act of chunk 0");
	free(x.data);
	sl_port_discard(port);
	sl_loop_close(loop);
	sl_plan_close(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_host_encodes_is_read_back),
		cmocka_unit_test(as_many_chunks_as_there_is_memory_for),
		cmocka_unit_test(on_the_cpu),
		cmocka_unit_test(on_a_device),
		cmocka_unit_test(on_a_device_that_lacks_codecs),
	};
	struct sl_fail fail;
	int failed;

	if (sl_cpu_backend_open(&cpu, NULL, &fail) != SL_OK)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	cpu.ops->close(&cpu);
	return failed;
}
