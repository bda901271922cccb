/* The memory that a codec announces covers what it allocates, and little more: for every method and for
 * chains, alone and in pairs, with and without error feedback and zstd, on the host and on a simulated
 * device. Every malloc, arena and backend allocation is counted where it is requested (--wrap). */

#include "common/base/pool.h"
#include "common/codec/frame.h"
#include "common/codec/stage.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/codec.h"
#include "tests/support/counted/counted.h"
#include "tests/support/gpu_codecs/sim.h"
#include "tests/support/unit.h"

/* Upper bound of what is announced beyond what is allocated: structs of states that share an
 * estimate, and rounding. */
enum { SLACK = 1024, SLOTS = 5 };

static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##memory(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* ---- announced against allocated memory */

static void hold(const char *what, const char *text, uint64_t said, uint64_t got)
{
	if (said < got || said > got + SLACK)
		fail_msg("%s: %s: %llu bytes were said, %llu taken", text, what, (unsigned long long)said,
			 (unsigned long long)got);
}

static struct sl_codec *open_counted(const char *text, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
				     enum sl_codec_pairing pairing, struct sl_memory *said, struct sl_memory *taken)
{
	struct sl_codec_need need;
	struct sl_codec *codec;
	struct sl_memory none;
	struct sl_fail fail;

	counted_begin();
	if (sl_codec_need(spec, env, pairing, &need, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	none = counted_end();
	assert_int_equal(sl_memory_total(none), 0);
	counted_begin();
	if (sl_codec_open(&codec, spec, env, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	sl_memory_add(taken, counted_end());
	sl_memory_add(said, need.memory);
	if (need.bound != sl_codec_bound(codec, env->shape.dim[0]) || need.plain != sl_codec_is_plain(codec))
		fail_msg("%s: payloads are not those that were said", text);
	if (strstr(text, "warm=true") ? need.state < sl_codec_state_bytes(codec)
				      : need.state != sl_codec_state_bytes(codec))
		fail_msg("%s: a state of %zu bytes was said, and it has %zu", text, need.state,
			 sl_codec_state_bytes(codec));
	return codec;
}

static void compare(const char *text, const struct sl_codec_env *env)
{
	struct sl_codec_env grad_env = *env;
	struct sl_codec *act, *grad = NULL;
	struct sl_memory said, taken;
	struct sl_codec_spec spec;
	struct sl_fail fail;
	bool pairs;

	if (sl_codec_parse(text, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int paired = 0; paired < 2; paired++) {
		pairs = paired && sl_codec_spec_pairs(&spec, &spec);
		if (paired && !pairs)
			return;
		said = taken = (struct sl_memory){0};
		act = open_counted(text, &spec, env, pairs ? SL_CODEC_KEEPS : SL_CODEC_ALONE, &said, &taken);
		if (pairs) {
			grad_env.dir = SL_DIR_HEAD_GRAD;
			grad_env.pair = act;
			grad = open_counted(text, &spec, &grad_env, SL_CODEC_PAIRED, &said, &taken);
		}
		hold(pairs ? "host, a pair" : "host", text, said.host, taken.host);
		hold(pairs ? "device, a pair" : "device", text, said.device, taken.device);
		sl_codec_close(pairs ? grad : NULL);
		sl_codec_close(act);
	}
}

/* Writes the spec, with ef=true on the first stage if `feedback`. */
static void spell(char text[SL_CODEC_SPEC_MAX], const char *spec, bool feedback, const char *bytes)
{
	int first = (int)strcspn(spec, "|");

	snprintf(text, SL_CODEC_SPEC_MAX, "%.*s%s%s%s", first, spec, feedback ? ",ef=true" : "", spec + first, bytes);
}

/* A method that the device has no stage for is refused there; the host must then code it. */
static bool nowhere_but_here(const char *text, struct sl_backend *be)
{
	struct sl_codec_env env = {.be = be, .shape = sl_shape4(3, 4, 5, 6), .slots = 1, .dir = SL_DIR_HEAD_ACT};
	struct sl_codec_need need;
	struct sl_codec_spec spec;
	struct sl_fail fail;

	if (!be || !be->ops->codec_stages || !codec_is_host_only(text))
		return false;
	assert_int_equal(sl_codec_parse(text, &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_need(&spec, &env, SL_CODEC_ALONE, &need, &fail), SL_ERR_UNAVAILABLE);
	return true;
}

static void compare_all(struct sl_backend *be)
{
	static const int64_t dims[][4] = {{3, 4, 5, 6}, {1, 7, 9, 3}, {4, 33, 65, 9}};

	for (size_t shape = 0; shape < sizeof dims / sizeof dims[0]; shape++)
		for (int p = 0; p < SPECS; p++)
			for (int with = 0; with < 4; with++) {
				const int64_t *d = dims[shape];
				const struct sl_codec_env env = {.be = be,
								 .shape = sl_shape4(d[0], d[1], d[2], d[3]),
								 .slots = SLOTS,
								 .dir = SL_DIR_HEAD_ACT};
				char text[SL_CODEC_SPEC_MAX];

				spell(text, specs[p], with & 1, with & 2 ? "|zstd:3" : "");
				if (!nowhere_but_here(specs[p], be))
					compare(text, &env);
			}
}

/* A codec of changes is refused where it would run on a device. */
static void kept_tokens_are_counted(void **state)
{
	struct sl_codec_env env = {.shape = sl_shape2(50, 24),
				   .row_tokens = 10,
				   .rows = 8,
				   .keep_tokens = 3000,
				   .slots = SLOTS,
				   .dir = SL_DIR_MID_ACT};
	struct sl_codec_need need;
	struct sl_codec_spec spec;
	struct sl_fail fail;

	compare("quant:6,change=4", &env);
	compare("quant:6,change=9,eval=8|zstd:3", &env);
	assert_int_equal(sl_codec_parse("quant:6,change=4", &spec, &fail), SL_OK);
	env.be = &sim_codec_backend_ahead;
	assert_int_equal(sl_codec_need(&spec, &env, SL_CODEC_ALONE, &need, &fail), SL_ERR_UNAVAILABLE);
	env.be = NULL;
	env.keep_tokens = (int64_t)1 << 60;
	assert_int_equal(sl_codec_need(&spec, &env, SL_CODEC_ALONE, &need, &fail), SL_OK);
	assert_true(sl_memory_total(need.memory) >= (uint64_t)1 << 62);
}

/* With rows of different lengths, the device lacks the stages that depend on where a row begins. */
static bool unavailable(const char *text, const struct sl_codec_env *env)
{
	const bool by_row = strstr(text, "per=sample") || strstr(text, "lowrank") || codec_is_host_only(text);
	struct sl_codec_need need;
	struct sl_codec_spec spec;
	struct sl_fail fail;
	enum sl_err err;

	assert_int_equal(sl_codec_parse(text, &spec, &fail), SL_OK);
	err = sl_codec_need(&spec, env, SL_CODEC_ALONE, &need, &fail);
	assert_int_equal(err, by_row && env->be && env->be->ops->codec_stages ? SL_ERR_UNAVAILABLE : SL_OK);
	return err != SL_OK;
}

/* Rows of different lengths; the tensors are [tokens, features]. */
static void compare_ragged(struct sl_backend *be)
{
	static const int64_t dims[][4] = {{25, 6, 6, 9}, {3000, 48, 5, 2000}, {7, 3, 7, 4}};

	for (size_t shape = 0; shape < sizeof dims / sizeof dims[0]; shape++)
		for (int p = 0; p < SPECS; p++)
			for (int with = 0; with < 4; with++) {
				const struct sl_codec_env env = {.be = be,
								 .shape = sl_shape2(dims[shape][0], dims[shape][1]),
								 .rows = dims[shape][2],
								 .row_tokens = dims[shape][3],
								 .slots = SLOTS,
								 .dir = SL_DIR_HEAD_ACT};
				char text[SL_CODEC_SPEC_MAX];

				spell(text, specs[p], with & 1, with & 2 ? "|zstd:3" : "");
				if (!unavailable(text, &env))
					compare(text, &env);
			}
}

static void on_the_host(void **state)
{
	compare_all(NULL);
	compare_ragged(NULL);
}

static void on_the_cpu_with_threads(void **state)
{
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(&pool, 3, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	compare_all(&be);
	compare_ragged(&be);
	be.ops->close(&be);
	sl_pool_close(pool);
}

static void on_a_device(void **state)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		struct sl_backend be = counted_backend(ahead);

		compare_all(&be);
		compare_ragged(&be);
	}
}

/* A method in the registry must be among the specs of this test. */
static void every_method_is_tried(void **state)
{
	for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s; s++) {
		bool found = strcmp((*s)->name, "zstd") == 0;

		for (int p = 0; p < SPECS; p++)
			found = found || strncmp(specs[p], (*s)->name, strlen((*s)->name)) == 0;
		if (!found)
			fail_msg("%s is in no specification", (*s)->name);
		assert_true((*s)->size || (*s)->memory || !(*s)->open);
	}
}

/* ---- sizes that a peer may ask for */

static void wild_sizes_wrap_nowhere(void **state)
{
	static const int64_t most = INT64_MAX;
	static const struct sl_shape refused[] = {
		{4, {1 << 30, 1, 1, 1}}, {4, {most, most, most, most}}, {4, {most, 2, 1, 1}},
		{3, {0, 4, 4}},          {4, {-1, -1, -1, -1}},         {0, {1, 1, 1, 1}},
		{SL_MAX_DIMS + 1, {1}},  {4, {1, 1, 1, most}},          {4, {1 << 20, 1 << 20, 1, 1}},
	};
	static const struct sl_shape large[] = {{4, {1 << 29, 1, 1, 1}},
						{4, {1, 1, 1, 1 << 29}},
						{4, {1, 1 << 15, 1 << 14, 1}},
						{1, {1 << 29}},
						{3, {2, 1 << 27, 2}}};
	struct sl_codec_env env = {.dir = SL_DIR_HEAD_ACT};
	struct sl_backend *backends[] = {NULL, &sim_codec_backend_ahead};
	struct sl_codec_need need;
	struct sl_memory none;
	struct sl_fail fail;

	for (int p = 0; p < 2 * SPECS; p++) {
		struct sl_codec_spec spec;
		char text[SL_CODEC_SPEC_MAX];

		spell(text, specs[p / 2], p & 1, p & 1 ? "|zstd:19" : "");
		assert_int_equal(sl_codec_parse(text, &spec, &fail), SL_OK);
		counted_begin();
		env.slots = 1;
		for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
			env.shape = refused[i];
			assert_int_equal(sl_codec_need(&spec, &env, SL_CODEC_ALONE, &need, &fail), SL_ERR_LIMIT);
		}
		for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
			for (int b = 0; b < 2 && !(b && codec_is_host_only(specs[p / 2])); b++)
				for (int k = SL_CODEC_ALONE; k <= SL_CODEC_PAIRED; k++) {
					uint64_t one;

					env.be = backends[b];
					env.shape = large[i];
					env.slots = 1;
					assert_int_equal(
						sl_codec_need(&spec, &env, (enum sl_codec_pairing)k, &need, &fail),
						SL_OK);
					one = sl_memory_total(need.memory);
					env.slots = INT32_MAX;
					assert_int_equal(
						sl_codec_need(&spec, &env, (enum sl_codec_pairing)k, &need, &fail),
						SL_OK);
					/* two residuals per slot, or a saturated sum */
					assert_true(sl_memory_total(need.memory) >= one);
					if (spec.error_feedback)
						assert_true(sl_memory_total(need.memory) >= (uint64_t)1 << 62);
				}
		none = counted_end();
		assert_int_equal(sl_memory_total(none), 0);
	}
}

static void wild_lengths_wrap_nowhere(void **state)
{
	static const int64_t most = INT64_MAX;
	static const struct {
		int64_t tokens, features, rows, row_tokens;
		bool good;
	} cases[] = {
		{1 << 29, 1, 1 << 29, 1, true},
		{1 << 29, 1, 1 << 20, UINT16_MAX, true},
		{UINT16_MAX, 1 << 13, 1, UINT16_MAX, true},
		{1, 1 << 29, 1, 1, true},
		{1 << 29, 1, most, most, false},
		{1 << 20, 1, most, UINT16_MAX, false},
		{1 << 20, 1, -1, UINT16_MAX, false},
		{1 << 20, 1, 1, most, false},
		{1 << 20, 1 << 20, 1 << 20, 1, false},
	};
	struct sl_codec_env env = {.dir = SL_DIR_HEAD_ACT, .slots = INT32_MAX};
	struct sl_memory none;
	struct sl_fail fail;

	for (int p = 0; p < SPECS; p++) {
		struct sl_codec_need need;
		struct sl_codec_spec spec;

		assert_int_equal(sl_codec_parse(specs[p], &spec, &fail), SL_OK);
		counted_begin();
		for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
			enum sl_err err;

			env.shape = sl_shape2(cases[i].tokens, cases[i].features);
			env.rows = cases[i].rows;
			env.row_tokens = cases[i].row_tokens;
			err = sl_codec_need(&spec, &env, SL_CODEC_ALONE, &need, &fail);
			assert_int_equal(err, cases[i].good ? SL_OK : SL_ERR_LIMIT);
			/* at least what a payload is assembled in */
			assert_true(err != SL_OK || need.bound >= SL_FRAME_BYTES);
		}
		none = counted_end();
		assert_int_equal(sl_memory_total(none), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_the_host),
		cmocka_unit_test(on_the_cpu_with_threads),
		cmocka_unit_test(on_a_device),
		cmocka_unit_test(kept_tokens_are_counted),
		cmocka_unit_test(every_method_is_tried),
		cmocka_unit_test(wild_sizes_wrap_nowhere),
		cmocka_unit_test(wild_lengths_wrap_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
