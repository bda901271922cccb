/* What a run does after it lost its link, as far as that needs no link: what it offers, after which
 * errors it reconnects, and how soon. */
#include <sys/stat.h>
#include <unistd.h>

#include "client/persist/last_run.h"
#include "client/persist/run_secret.h"
#include "client/train/recover.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

static struct sl_conf_client conf;
static struct sl_setup setup = {.conf = &conf};

struct rig {
	struct sl_loop *loop;
	struct sl_training *run;
	struct sl_recover *recover;
};

static void written(void *arg)
{
	(void)arg;
}

static void missed(void *arg, const struct sl_fail *why, bool needed)
{
	(void)arg;
	(void)needed;
	fail_msg("%s", why->text);
}

static struct rig rig_open(bool resume)
{
	static const struct sl_recover_events events = {missed, written};
	struct sl_fail fail;
	struct rig r;

	conf.agreed.batch = 1;
	conf.train.epochs = 1;
	conf.train.lr = 0.1;
	setup.set[SL_SPLIT_TRAIN].count = setup.set[SL_SPLIT_TEST].count = 8;
	if (sl_loop_open(&r.loop, &fail) || sl_training_open(&r.run, &setup, "remote", false, resume, &fail) ||
	    sl_recover_open(&r.recover, r.loop, &setup, r.run, true, resume ? SL_RECOVER_FILES : SL_RECOVER_ANEW,
			    &events, NULL, &fail))
		fail_msg("%s", fail.text);
	return r;
}

static void rig_close(struct rig *r)
{
	sl_recover_close(r->recover);
	sl_training_close(r->run);
	sl_loop_close(r->loop);
}

/* A run that may begin anew offers step 0, however much it holds; only once, and behind all others. */
static void step_0_has_room_in_an_offer(void **state)
{
	static const uint64_t file[SL_LAST_RUN_STEPS] = {7, 6, 4, 2}, of_begin[] = {2, 0};
	struct sl_offer o = {.epoch = 0};

	for (int n = 0; n <= SL_LAST_RUN_STEPS; n++) {
		sl_offer_fill(&o, 9, 8, file, n, true);
		assert_int_equal(o.n_held, n + 3);
		assert_int_equal(o.held[o.n_held - 1], 0);
		sl_offer_fill(&o, 0, SL_OFFER_NONE, file, n, true);
		assert_int_equal(o.n_held, n + 1);
		assert_int_equal(o.held[o.n_held - 1], 0);
		sl_offer_fill(&o, 0, 8, file, n, false);
		assert_int_equal(o.n_held, n + 1);
		assert_int_not_equal(o.held[o.n_held - 1], 0);
	}
	sl_offer_fill(&o, 9, 8, of_begin, 2, true);
	assert_int_equal(o.n_held, 4);
	assert_int_equal(o.held[3], 0);
}

/* The server accepts only the newest epoch. So no two links may have the same epoch, even if they
 * follow within a millisecond, or the clock is set back. */
static void every_link_has_an_epoch_above_the_last(void **state)
{
	struct rig r = rig_open(false);
	struct sl_offer first = {.epoch = 0}, next = {.epoch = 0};
	uint64_t last;

	sl_recover_offer(r.recover, &first);
	assert_int_equal(first.n_held, 1); /* nothing is kept: the run begins at step 0 */
	assert_int_equal(first.held[0], 0);
	assert_true(first.epoch > 0);
	last = first.epoch;
	for (int i = 0; i < 100000; i++, last = next.epoch) {
		sl_recover_offer(r.recover, &next);
		if (next.epoch <= last)
			fail_msg("epoch %llu behind %llu", (unsigned long long)next.epoch, (unsigned long long)last);
	}
	assert_ptr_equal(next.secret, first.secret);
	assert_true(first.first && next.first); /* none of the links was established */
	rig_close(&r);
}

static bool is_lost(enum sl_err err)
{
	return err == SL_ERR_PEER_LOST || err == SL_ERR_TIMEOUT || err == SL_ERR_UNAVAILABLE || err == SL_ERR_BUSY ||
	       err == SL_ERR_DEVICE;
}

/* A run reconnects after errors that time may mend, and not after others. A peer that breaks every
 * frame is no accident. */
static void a_run_comes_back_after_what_may_pass(void **state)
{
	for (int err = SL_OK + 1; err < SL_ERR_COUNT; err++) {
		bool broken = err == SL_ERR_PROTOCOL || err == SL_ERR_PAYLOAD;
		struct sl_retry r = {.lost = 0};

		for (int failed = 0; failed < 9; failed++)
			if (sl_retry_failed(&r, (enum sl_err)err) !=
			    (is_lost((enum sl_err)err) || (broken && failed < 5)))
				fail_msg("%s after %d links", sl_err_name((enum sl_err)err), failed);
	}
}

/* A server that is unreachable for long does not count as one that breaks frames. */
static void links_that_are_lost_are_no_broken_frames(void **state)
{
	struct sl_retry r = {.lost = 0};

	for (int broken = 0; broken < 5; broken++) {
		for (int lost = 0; lost < 20; lost++)
			assert_true(sl_retry_failed(&r, SL_ERR_PEER_LOST));
		assert_true(sl_retry_failed(&r, broken % 2 ? SL_ERR_PROTOCOL : SL_ERR_PAYLOAD));
	}
	assert_true(sl_retry_failed(&r, SL_ERR_TIMEOUT));
	assert_false(sl_retry_failed(&r, SL_ERR_PROTOCOL));
	r = (struct sl_retry){.lost = 0};
	for (int broken = 0; broken < 5; broken++)
		assert_true(sl_retry_failed(&r, SL_ERR_PROTOCOL));
	assert_false(sl_retry_failed(&r, SL_ERR_PROTOCOL));
}

/* Back-off: 1, 2, 4 … times the configured pause, at most 32 s. Jitter keeps the clients of a
 * server from coming back all at once. */
static void pauses_double_and_differ(void **state)
{
	struct sl_retry r = {.lost = 0};
	int shorter = 0;

	for (int failed = 1; failed < 40; failed++) {
		uint64_t whole = failed < 6 ? 1000u << (failed - 1) : 32000, ms;

		assert_true(sl_retry_failed(&r, SL_ERR_PEER_LOST));
		ms = sl_retry_pause_ms(&r, 1000, 3, 0);
		assert_in_range(ms, whole - whole / 4, whole);
		shorter += ms < whole - 10;
	}
	assert_true(shorter > 20);
}

/* ---- files of an earlier process */

static char dir[] = "/tmp/test_recover.XXXXXX";

/* Writes a checkpoint of `session`, which may be the one of the folder's secret or another. */
static void write_file_of(const char *core, bool unsure, uint64_t step, const char *session)
{
	struct sl_checkpoint c;
	struct sl_fail fail;

	sl_client_checkpoint(&c, dir, setup.plan);
	for (int i = 0; i < c.n_note && core; i++)
		if (strcmp(c.note[i].key, "core") == 0)
			snprintf(c.note[i].value, sizeof c.note[i].value, "%s", core);
	sl_checkpoint_note(&c, "session", "%s", session);
	if (unsure)
		sl_checkpoint_note(&c, SL_LAST_RUN_UNSURE, "%s", "the server was gone");
	c.pin[c.n_pin++] = 9;
	if (sl_checkpoint_write(&c, step, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void write_file(uint64_t step, const char *session)
{
	write_file_of(NULL, false, step, session);
}

static enum sl_err resume(struct sl_last_run *run, struct sl_fail *fail)
{
	enum sl_err err;

	snprintf(conf.log.dir, sizeof conf.log.dir, "%s", dir);
	err = sl_last_run_read(run, &conf, setup.plan, 8, fail);
	conf.log.dir[0] = 0;
	return err;
}

static void offers(const struct sl_secret *secret, uint64_t first, uint64_t second, int n)
{
	struct rig r;
	struct sl_offer offer = {.epoch = 0};

	snprintf(conf.log.dir, sizeof conf.log.dir, "%s", dir);
	r = rig_open(true);
	sl_recover_offer(r.recover, &offer);
	assert_memory_equal(offer.secret, secret, sizeof *secret);
	assert_int_equal(offer.n_held, n);
	assert_true(offer.held[0] == first && offer.held[1] == second);
	rig_close(&r);
	conf.log.dir[0] = 0;
}

static void name_of(const struct sl_secret *secret, char out[SL_HEX16_TEXT])
{
	uint8_t name[16];

	sl_session_name(secret->session, name);
	sl_hex16(name, out);
}

/* The folder's secret says which session the run belongs to. A checkpoint of another session is not
 * offered, however good it is. */
static void a_run_goes_on_with_one_session(void **state)
{
	char one[SL_HEX16_TEXT], path[64];
	struct sl_last_run run;
	struct sl_secret secret;
	struct sl_fail fail;
	struct stat st;
	FILE *file;

	assert_non_null(mkdtemp(dir));
	setup.plan = small_plan_open("1:-1", 1);
	assert_int_equal(sl_secret_make(&secret, &fail), SL_OK);
	assert_int_equal(sl_run_secret_keep(dir, &secret, &fail), SL_OK);
	name_of(&secret, one);
	write_file(5, one);
	write_file(9, one);
	offers(&secret, 9, 5, 2); /* not step 0: good checkpoints are not given up for it */
	write_file(9, "00000000000000000000000000000002");
	offers(&secret, 5, 0, 1);
	snprintf(path, sizeof path, "%s/%s-000000000009.safetensors", dir, SL_CHECKPOINT_CLIENT);
	file = fopen(path, "r+"); /* truncated */
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 40), 0);
	fclose(file);
	offers(&secret, 5, 0, 1);
	write_file_of("another core, whose bits are others", false, 9, one);
	offers(&secret, 5, 0, 1);
	write_file_of(NULL, true, 5, one);
	offers(&secret, 5, 0, 2); /* the server may never have got its half */
	snprintf(path, sizeof path, "%s/session-key", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(resume(&run, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "other users may read"));
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, 63), 0);
	assert_int_equal(resume(&run, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "is not the secret of a session"));
	assert_int_equal(sl_secret_make(&secret, &fail), SL_OK); /* the secret of another run */
	assert_int_equal(sl_run_secret_keep(dir, &secret, &fail), SL_OK);
	assert_int_equal(resume(&run, &fail), SL_ERR_MISMATCH); /* the newest file is of another core */
	sl_checkpoint_leave(dir, SL_CHECKPOINT_CLIENT, 5);
	assert_int_equal(resume(&run, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "step 5 belongs to another session"));
	sl_run_secret_remove(dir);
	assert_int_equal(resume(&run, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "session-key"));
	sl_checkpoint_clear(dir, SL_CHECKPOINT_CLIENT);
	sl_plan_close(setup.plan);
	setup.plan = NULL;
}

static void without_a_file_there_is_nothing_to_resume(void **state)
{
	static const struct sl_recover_events events = {missed, written};
	struct sl_recover *recover;
	struct rig r = rig_open(false);
	struct sl_fail fail;

	assert_int_equal(sl_recover_open(&recover, r.loop, &setup, r.run, true, SL_RECOVER_FILES, &events, NULL, &fail),
			 SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "without --resume a run begins there"));
	rig_close(&r);
}

static int remove_folder(void **state)
{
	static const char *const left[] = {"log.jsonl", "sessions.jsonl", "link-epoch", "session-key", "traffic"};
	char path[64];

	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, left[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(step_0_has_room_in_an_offer),
		cmocka_unit_test(every_link_has_an_epoch_above_the_last),
		cmocka_unit_test(a_run_comes_back_after_what_may_pass),
		cmocka_unit_test(links_that_are_lost_are_no_broken_frames),
		cmocka_unit_test(pauses_double_and_differ),
		cmocka_unit_test(a_run_goes_on_with_one_session),
		cmocka_unit_test(without_a_file_there_is_nothing_to_resume),
	};

	return cmocka_run_group_tests(tests, NULL, remove_folder);
}
