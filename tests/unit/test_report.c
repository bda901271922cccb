/* What the client reports about its links while it runs, and the sums over links that have ended.
 * The link is a stub that only holds figures. */
#include <jansson.h>
#include <time.h>

#include "client/train/report.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

struct sl_remote {
	struct sl_session session;
	struct sl_port_stats stats;
	bool lost;
};

/* In this test the remote is its own link. */
struct sl_link *sl_remote_link(const struct sl_remote *r)
{
	return (struct sl_link *)r;
}

const struct sl_session *sl_link_session(const struct sl_link *l)
{
	return &((const struct sl_remote *)l)->session;
}

bool sl_link_is_lost(const struct sl_link *l)
{
	return ((const struct sl_remote *)l)->lost;
}

void sl_link_count(struct sl_link *l)
{
	(void)l;
}

struct sl_port_stats sl_remote_stats(const struct sl_remote *r)
{
	return r->stats;
}

const char *sl_remote_record(const struct sl_remote *r)
{
	(void)r;
	return "{}";
}

static struct sl_remote figures(void)
{
	return (struct sl_remote){
		.session = {.state = SL_SESSION_STEP,
			    .epoch = 9,
			    .counts = {.frames = 11, .parts = 7, .stale_frames = 3, .refused_frames = 2}},
		.stats = {.tx_bytes = 1000,
			  .rx_bytes = 200,
			  .wire = {1, 2, 3, 4},
			  .payload = {5, 6, 7, 8},
			  .nominal = {0.5, 1.5, 2.5, 3.5},
			  .peak_tx = 30,
			  .peak_rx = 40},
	};
}

static void links_that_are_over_are_summed(void **state)
{
	struct sl_remote first = figures(), second = figures();
	struct sl_training_link link = {.rate = {.n = 3}};

	second.stats.peak_tx = 20;
	second.stats.peak_rx = 50;
	sl_report_add(&link, &first);
	assert_int_equal(link.rate.n, 0); /* the next link counts from 0 */
	sl_report_add(&link, &second);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		assert_int_equal(link.wire[dir], 2 * first.stats.wire[dir]);
		assert_int_equal(link.payload[dir], 2 * first.stats.payload[dir]);
		assert_true(link.nominal[dir] == 2 * first.stats.nominal[dir]);
	}
	assert_true(link.peak_tx == 30 && link.peak_rx == 50);
	assert_int_equal(link.frames, 22);
	assert_int_equal(link.bytes, 400); /* bytes received */
	assert_int_equal(link.rejected, 4);
	assert_int_equal(link.stale, 6);
}

static int64_t whole(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void the_status_has_both_ways_apart(void **state)
{
	struct sl_conf_client conf = {.agreed = {.batch = 1}, .train = {.epochs = 1, .lr = 0.1}};
	struct sl_setup setup = {.conf = &conf, .plan = small_plan_open("1:-1", 1)};
	const struct sl_checkpoint_state checkpoint = {.good = 20, .missed = 40, .why = "no room"};
	struct sl_training_link link = {.links = 3, .lost = 2, .frames = 100, .bytes = 1, .rejected = 1, .stale = 1};
	const struct timespec moment = {0, 50000000};
	struct sl_remote remote = figures();
	struct sl_training *run;
	const json_t *session;
	struct sl_fail fail;
	json_t *root;
	char *text;

	setup.set[SL_SPLIT_TRAIN].count = setup.set[SL_SPLIT_TEST].count = 4;
	if (sl_pool_open(&setup.pool, 1, &fail) || sl_cpu_backend_open(&setup.be, setup.pool, &fail) ||
	    sl_training_open(&run, &setup, "remote", false, false, &fail))
		fail_msg("%s", fail.text);
	sl_report_watch(&link, &remote);
	nanosleep(&moment, NULL);
	remote.stats.tx_bytes += 4000000;
	remote.stats.rx_bytes += 1000000;
	assert_null(sl_report_status(&setup, run, &remote, &link, &checkpoint, "what?"));
	text = sl_report_status(&setup, run, &remote, &link, &checkpoint, "status");
	root = json_loads(text, 0, NULL);
	session = json_array_get(json_object_get(root, "sessions"), 0);
	assert_non_null(session);
	assert_int_equal(whole(root, "links"), 3);
	assert_int_equal(whole(root, "lost"), 2);
	assert_int_equal(whole(root, "frames"), 111);
	assert_int_equal(whole(root, "bytes"), 1000201);
	assert_int_equal(whole(root, "rejected"), 3);
	assert_int_equal(whole(root, "stale"), 4);
	assert_int_equal(whole(session, "tx_bytes"), 4001000);
	assert_int_equal(whole(session, "rx_bytes"), 1000200);
	assert_int_equal(whole(session, "link_epoch"), 9);
	assert_int_equal(whole(session, "stale_frames"), 3);
	assert_int_equal(whole(session, "checkpoint_step"), 20);
	assert_int_equal(whole(session, "checkpoint_missed"), 40);
	assert_true(json_real_value(json_object_get(session, "tx_mb_s")) > 0);
	assert_float_equal(json_real_value(json_object_get(session, "tx_mb_s")),
			   4 * json_real_value(json_object_get(session, "rx_mb_s")), 1e-3);
	assert_string_equal(json_string_value(json_object_get(session, "phase")), "train");
	assert_int_equal(whole(root, "ready"), 1);
	json_decref(root);
	free(text);
	remote.lost = true; /* reported long before link.timeout_ms ends the session */
	text = sl_report_status(&setup, run, &remote, &link, &checkpoint, "status");
	root = json_loads(text, 0, NULL);
	session = json_array_get(json_object_get(root, "sessions"), 0);
	assert_string_equal(json_string_value(json_object_get(session, "phase")), "connect");
	assert_int_equal(whole(root, "ready"), 0);
	json_decref(root);
	free(text);
	sl_training_close(run);
	setup.be.ops->close(&setup.be);
	sl_pool_close(setup.pool);
	sl_plan_close(setup.plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_that_are_over_are_summed),
		cmocka_unit_test(the_status_has_both_ways_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
