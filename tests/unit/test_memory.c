/* Sessions that are refused for memory: for good if the host or its device could never hold them,
 * else only until other sessions or programs have ended. */
#include <malloc.h>
#include <sys/resource.h>

#include "common/base/folder.h"
#include "common/base/pool.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "server/trunk/memory.h"
#include "tests/support/unit.h"

static uint64_t device_left, device_all;

static enum sl_err free_bytes(struct sl_backend *be, uint64_t *left, uint64_t *all)
{
	(void)be;
	*left = device_left;
	*all = device_all;
	return SL_OK;
}

static struct sl_fail fail;
static struct sl_memory back; /* memory of the client's older link, which the server gives back first */

/* Checks a session of `host` and `device` bytes while `used` bytes are taken, on a GPU with `left`
 * of `all` bytes free. No limit is set. */
static enum sl_err asks(uint64_t host, uint64_t device, uint64_t left, uint64_t all, uint64_t used)
{
	const struct sl_backend_ops ops = {.free_bytes = free_bytes};
	struct sl_backend be = {.ops = &ops};
	const struct sl_session_memory m = {.weights = {host, device}};
	const struct sl_budget budget = {.used = used};

	device_left = left;
	device_all = all;
	memset(&fail, 0, sizeof fail);
	return sl_session_memory_check(&m, &be, "cuda:0: a device", &budget, back, &fail);
}

static void a_device_that_is_too_small_is_so_for_good(void **state)
{
	for (uint64_t used = 0; used < 2; used++) {
		assert_int_equal(asks(1, 1001, 1000, 1000, used), SL_ERR_LIMIT);
		assert_non_null(strstr(fail.text,
				       "the session needs 1002 bytes, 1001 of them on cuda:0 (1.0 kB: weights 1002,"));
		assert_non_null(strstr(fail.text, "the device has 1000 (1.0 kB): take a smaller batch"));
	}
}

/* No session is open here: memory that is not free belongs to another program, which may end. */
static void what_another_program_holds_is_worth_waiting_for(void **state)
{
	for (uint64_t used = 0; used < 2; used++) {
		assert_int_equal(asks(1, 1000, 999, 1000, used), SL_ERR_BUSY);
		assert_non_null(
			strstr(fail.text,
			       "the device has 999 free of 1000 (999 B of 1.0 kB): come back when others have ended"));
	}
	assert_int_equal(asks(1, 999, 999, 1000, 0), SL_OK);
}

static void a_host_that_is_too_small_is_so_for_good(void **state)
{
	static const int bound[] = {RLIMIT_AS, RLIMIT_DATA};
	struct rlimit old, low;
	enum sl_err err;

	assert_int_equal(asks(UINT64_MAX, 0, 1, 1, 0), SL_ERR_LIMIT);
	assert_non_null(strstr(fail.text, "the host has "));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(getrlimit(bound[i], &old), 0);
		low = (struct rlimit){1 << 19, old.rlim_max};
		assert_int_equal(asks(1 << 20, 0, 1, 1, 0), SL_OK);
		assert_int_equal(setrlimit(bound[i], &low), 0);
		err = asks(1 << 20, 0, 1, 1, 0);
		assert_int_equal(setrlimit(bound[i], &old), 0);
		assert_int_equal(err, SL_ERR_LIMIT);
		assert_non_null(strstr(fail.text, "the host has 524288 (524.3 kB): take a smaller batch"));
	}
}

/* The memory of a client's own older link counts as free: the server gives it back before it takes any. */
static void an_older_link_s_memory_counts_as_free(void **state)
{
	back = (struct sl_memory){.device = 500};
	assert_int_equal(asks(1, 1000, 499, 1000, 0), SL_ERR_BUSY);
	assert_int_equal(asks(1, 1000, 500, 1000, 0), SL_OK);
	assert_int_equal(asks(1, 1000, 1000, 1000, 0), SL_OK);
	assert_int_equal(asks(1, 1001, 1000, 1000, 0), SL_ERR_LIMIT);
	back = (struct sl_memory){0};
}

static size_t given_out(void)
{
	const struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* The count covers what malloc gives for the plan of a long network and its executor, and exceeds
 * it by at most half. */
static void a_plan_is_counted(void **state)
{
	enum { NODES = 4000, LINE = 64 };
	const struct sl_plan_spec spec = {.batch = 2, .chunks = 1};
	struct sl_codec_spec codec[SL_DIR_COUNT];
	struct sl_session_memory few, many;
	char *text = malloc((size_t)NODES * LINE);
	struct sl_plan *plan = NULL;
	struct sl_exec *exec = NULL;
	struct sl_pool *pool;
	struct sl_backend be;
	size_t before = 0, took = 0;

	assert_int_equal(sl_pool_open(&pool, 1, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		assert_int_equal(sl_codec_parse("none", &codec[dir], &fail), SL_OK);
	for (int nodes = 1; nodes <= NODES; nodes += NODES - 1) {
		struct sl_graph g = {0};
		int n = sprintf(text, "graph 1\nin x f32 R[1,4]\nparam w [4,4] zero\nnode l linear %%0 &0\n");

		for (int i = 0; i < nodes; i++)
			n += sprintf(text + n, "node n%d act %%%d\n", i, i + 1);
		n += sprintf(text + n, "out y %%%d\n", nodes + 1);
		before = given_out();
		if (sl_graph_read(&g, text, (size_t)n, &fail) ||
		    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) ||
		    sl_exec_prepare(&exec, plan, SL_MIDDLE, &be, &fail))
			fail_msg("%s", fail.text);
		took = given_out() - before;
		assert_int_equal(sl_session_memory(nodes > 1 ? &many : &few, (const struct sl_exec *[]){exec},
						   SL_SESSION_SERVER, false, &be, NULL, codec, &fail),
				 SL_OK);
		sl_exec_close(exec);
		sl_plan_close(plan);
	}
#ifdef SL_SANITIZED /* a sanitizer's allocator does not report what it has given out */
	(void)took;
#else
	assert_in_range(many.weights.host - few.weights.host, took - took / 10, took + took / 2);
#endif
	free(text);
	be.ops->close(&be);
	sl_pool_close(pool);
}

/* Prepares a middle of attention for rows of at most row_tokens tokens. The graph would allow many more. */
static struct sl_exec *prepare_attention(struct sl_backend *be, int64_t row_tokens, bool rotary, size_t *took)
{
	const struct sl_plan_spec spec = {
		.batch = 1, .chunks = 1, .row_tokens = row_tokens, .chunk_tokens = row_tokens};
	static struct sl_plan *plan;
	struct sl_exec *exec = NULL;
	struct sl_graph g = {0};
	char text[200];
	int n = sprintf(text,
			"graph 1\nin x f32 T[64] most=60000\nparam w [1,64] zero\nnode a attention %%0 %%0 %%0%s\n"
			"node l linear %%1 &0\nout y %%2\n",
			rotary ? " rope=1e+04" : "");

	sl_plan_close(plan);
	plan = NULL;
	if (sl_graph_read(&g, text, (size_t)n, &fail) || sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail))
		fail_msg("%s", fail.text);
	*took = given_out();
	assert_int_equal(sl_exec_prepare(&exec, plan, SL_MIDDLE, be, &fail), SL_OK);
	*took = given_out() - *took;
	return exec;
}

/* Tables of rotary positions are counted before they are allocated, and only for tokens that a row can have. */
static void rotary_positions_are_counted_before_they_are_made(void **state)
{
	static const int64_t row[] = {1, 5000};
	struct sl_backend be;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	for (int i = 0; i < 2; i++) {
		const size_t table = (size_t)row[i] * 64 * sizeof(float);
		size_t plain, took, made;
		struct sl_exec *exec = prepare_attention(&be, row[i], false, &took);

		plain = sl_exec_memory(exec).total;
		sl_exec_close(exec);
		exec = prepare_attention(&be, row[i], true, &took);
		assert_int_equal(sl_exec_memory(exec).total, plain + table);
		made = given_out();
		assert_int_equal(sl_exec_allocate(exec, &fail), SL_OK);
		made = given_out() - made;
#ifndef SL_SANITIZED
		assert_in_range(took, 0, 100000);
		assert_in_range(made, table, table + 100000); /* little else is malloc'ed: tensors are in arenas */
#endif
		sl_exec_close(exec);
	}
	be.ops->close(&be);
}

static void write_text(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* A process may have no more than its own cgroup and each one above it. */
static void cgroups_bound_the_host(void **state)
{
	static const struct {
		const char *list;
		uint64_t bytes;
	} cases[] = {{"4:memory:/x\n0::/slice/unit\n", 3000},
		     {"0::/slice\n", 5000},
		     {"0::/\n", 7000},
		     {"0::/slice/none\n", 5000},
		     {"4:memory:/slice\n", UINT64_MAX},
		     {"", UINT64_MAX}};
	char top[] = "/tmp/cgroups-XXXXXX", path[256], list[256];

	assert_non_null(mkdtemp(top));
	snprintf(path, sizeof path, "%s/slice/unit", top);
	assert_int_equal(sl_folder_make(path, 0700, &fail), SL_OK);
	write_text(top, "/memory.max", "7000\n");
	write_text(top, "/slice/memory.max", "5000\n");
	write_text(top, "/slice/unit/memory.max", "3000\n");
	snprintf(list, sizeof list, "%s/list", top);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		write_text(top, "/list", cases[i].list);
		assert_true(sl_cgroup_bytes(list, top) == cases[i].bytes);
	}
	write_text(top, "/slice/unit/memory.max", "max\n");
	write_text(top, "/list", cases[0].list);
	assert_true(sl_cgroup_bytes(list, top) == 5000);
	assert_true(sl_cgroup_bytes("/none", top) == UINT64_MAX);
	snprintf(path, sizeof path, "rm -r %s", top);
	assert_int_equal(system(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_is_counted),
		cmocka_unit_test(rotary_positions_are_counted_before_they_are_made),
		cmocka_unit_test(an_older_link_s_memory_counts_as_free),
		cmocka_unit_test(a_device_that_is_too_small_is_so_for_good),
		cmocka_unit_test(what_another_program_holds_is_worth_waiting_for),
		cmocka_unit_test(cgroups_bound_the_host),
		cmocka_unit_test(a_host_that_is_too_small_is_so_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
