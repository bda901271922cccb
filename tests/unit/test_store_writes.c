/* Weights that are being written while their job yields. Meanwhile other sessions and the housekeeping do not remove
 * them, do not see half of them, and do not take the store over its limit. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/worker.h"
#include "common/weights/weights.h"
#include "server/store/store.h"
#include "tests/support/unit.h"

enum { COUNT = 9 << 20, BYTES = 4 * COUNT }; /* written in two parts; a job yields after the first */

static char dir[] = "/tmp/test_store_writes.XXXXXX";
static float *weights[2], *got[2];
static uint8_t hash[2][16];
static struct sl_retention retention;
static struct sl_worker *worker;

struct task {
	struct sl_job job; /* must be the first member */
	struct sl_share share;
	int which;
	float *got;
	uint64_t longer_ns; /* time beyond its slice, before it writes */
	bool met_half, kept, over;
};

static const char *path_of(int which, const char *suffix)
{
	static _Thread_local char path[128];
	char hex[SL_HEX16_TEXT];

	snprintf(path, sizeof path, "%s/%s%s", dir, sl_hex16(hash[which], hex), suffix);
	return path;
}

/* Computes until the job has to yield at its next turn, and for longer_ns more. */
static void use_up(const struct task *t)
{
	while (!sl_worker_turn_due(worker))
		;
	for (uint64_t from = sl_now_ns(); sl_now_ns() - from < t->longer_ns;)
		;
}

static void put(struct sl_job *job)
{
	struct task *t = (struct task *)job;

	use_up(t);
	t->met_half = access(path_of(0, ".f32.tmp"), F_OK) == 0;
	sl_store_put(dir, &retention, NULL, hash[t->which], weights[t->which], COUNT);
	t->kept = sl_store_get(dir, NULL, hash[t->which], t->got, COUNT);
}

static void make_room(struct sl_job *job)
{
	struct task *t = (struct task *)job;

	t->met_half = access(path_of(0, ".f32.tmp"), F_OK) == 0;
	sl_retention_run(&retention, (int64_t)time(NULL) + 1000);
}

static void over(struct sl_job *job)
{
	((struct task *)job)->over = true;
}

/* The first task starts; the second starts when the first yields. */
static void run_both(struct task *first, struct task *second)
{
	first->got = got[0];
	second->got = got[1];
	first->job.share = &first->share;
	second->job.share = &second->share;
	first->job.done = second->job.done = over;
	sl_worker_post(worker, &first->job);
	sl_worker_post(worker, &second->job);
	while (!first->over || !second->over) {
		sl_worker_drain(worker);
		usleep(500);
	}
	assert_true(second->met_half);
	assert_null(retention.writing);
	assert_int_equal(access(path_of(0, ".f32.tmp"), F_OK), -1);
	assert_int_equal(access(path_of(1, ".f32.tmp"), F_OK), -1);
}

static void another_one_s_room_is_not_made_of_it(void **state)
{
	struct task a = {.job.run = put}, b = {.job.run = put, .which = 1};

	retention.bytes = BYTES + (1 << 20);
	run_both(&a, &b);
	assert_true(a.kept);
	assert_false(b.kept);
	assert_int_equal(retention.not_stored, 1);
}

static void both_fit_where_there_is_room(void **state)
{
	struct task a = {.job.run = put}, b = {.job.run = put, .which = 1};

	retention.bytes = 2 * (int64_t)BYTES;
	run_both(&a, &b);
	assert_true(a.kept && sl_store_get(dir, NULL, hash[1], got[0], COUNT));
}

/* The second has used more time when it yields, so the first ends before the second continues. */
static void the_same_weights_are_never_there_in_part(void **state)
{
	struct task a = {.job.run = put}, b = {.job.run = put, .longer_ns = 200000000};

	run_both(&a, &b);
	assert_true(a.kept);
	assert_true(sl_store_get(dir, NULL, hash[0], got[0], COUNT));
}

static void housekeeping_leaves_it(void **state)
{
	struct task a = {.job.run = put}, b = {.job.run = make_room};

	retention.ttl_s = 100;
	run_both(&a, &b);
	assert_true(a.kept);
}

static int setup(void **state)
{
	retention = (struct sl_retention){.dir = dir};
	for (int i = 0; i < 2; i++)
		unlink(path_of(i, ".f32"));
	return sl_worker_open(&worker, "test", NULL, NULL, NULL);
}

static int teardown(void **state)
{
	sl_worker_close(worker);
	return 0;
}

static int begin(void **state)
{
	for (int i = 0; i < 2; i++) {
		got[i] = malloc(BYTES);
		weights[i] = malloc(BYTES);
		if (!got[i] || !weights[i])
			return -1;
		for (int k = 0; k < COUNT; k++)
			weights[i][k] = (float)(i + k % 1000);
		sl_weights_hash(weights[i], COUNT, hash[i]);
	}
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	char command[64];

	for (int i = 0; i < 2; i++) {
		free(weights[i]);
		free(got[i]);
	}
	snprintf(command, sizeof command, "rm -r %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_one_s_room_is_not_made_of_it, setup, teardown),
		cmocka_unit_test_setup_teardown(both_fit_where_there_is_room, setup, teardown),
		cmocka_unit_test_setup_teardown(the_same_weights_are_never_there_in_part, setup, teardown),
		cmocka_unit_test_setup_teardown(housekeeping_leaves_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
