/* What a run keeps of its steps, and where it resumes after it lost its link. The link is a stub
 * that follows the test's orders, so that losses can come in any order. A state is one number. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "client/train/recover.h"
#include "common/weights/safetensors.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

/* ---- the link */

enum { CODED = 0x5a };

struct sl_remote {
	bool ready, torn, applied, in_doubt;
	float state;  /* the state after the steps that it has applied */
	size_t coded; /* size of its codecs' state, of which each byte is CODED */
	int applies;
	uint64_t made;
	struct sl_session session;
};

static void put(struct sl_exec_state *s, enum sl_segment which)
{
	*s = (struct sl_exec_state){.which = which, .weight = calloc(1, sizeof(float)), .weight_count = 1};
	assert_non_null(s->weight);
}

enum sl_err sl_remote_state_open(struct sl_remote *r, struct sl_client_state *s, struct sl_fail *fail)
{
	(void)r, (void)fail;
	*s = (struct sl_client_state){.step = 0};
	put(&s->head, SL_HEAD);
	put(&s->tail, SL_TAIL);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		s->codecs.dir[dir] = (struct sl_buf){malloc(1), 0, 1};
	return SL_OK;
}

enum sl_err sl_remote_take(struct sl_remote *r, struct sl_client_state *s)
{
	s->head.weight[0] = r->state;
	s->codecs.dir[SL_DIR_HEAD_ACT].data[0] = CODED;
	s->codecs.dir[SL_DIR_HEAD_ACT].len = 1;
	return SL_OK;
}

enum sl_err sl_remote_give(struct sl_remote *r, const struct sl_client_state *s)
{
	r->state = s->head.weight[0];
	r->coded = s->codecs.dir[SL_DIR_HEAD_ACT].len;
	assert_true(!r->coded || s->codecs.dir[SL_DIR_HEAD_ACT].data[0] == CODED);
	return SL_OK;
}

enum sl_err sl_remote_take_ends(struct sl_remote *r, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_BUG, "no link of this rig brings heads and tails");
}

enum sl_err sl_remote_apply(struct sl_remote *r, struct sl_fail *fail)
{
	r->applies++;
	r->state++;
	return SL_OK;
}

uint64_t sl_remote_made(const struct sl_remote *r)
{
	return r->made;
}

/* In this rig the remote is its own link. */
struct sl_link *sl_remote_link(const struct sl_remote *r)
{
	return (struct sl_link *)r;
}

const struct sl_session *sl_link_session(const struct sl_link *l)
{
	return &((const struct sl_remote *)l)->session;
}

struct sl_step_result sl_remote_result(const struct sl_remote *r)
{
	return (struct sl_step_result){.step = (uint64_t)r->state - 1, .rows = 1, .loss = (double)r->state};
}

bool sl_link_was_up(const struct sl_link *l)
{
	return ((const struct sl_remote *)l)->ready;
}

bool sl_remote_torn(const struct sl_remote *r)
{
	return r->torn;
}

bool sl_remote_applied(const struct sl_remote *r)
{
	return r->applied;
}

bool sl_remote_in_doubt(const struct sl_remote *r)
{
	return r->in_doubt;
}

/* The server has the last checkpoint on its disk. */
bool sl_remote_kept_there(const struct sl_remote *r, uint64_t step)
{
	return r->session.keep == SL_KEEP_DONE;
}

/* ---- the run */

static char dir[] = "/tmp/test_recover.XXXXXX";
static struct sl_conf_client conf;
static struct sl_setup setup = {.conf = &conf};

static struct rig {
	struct sl_loop *loop;
	struct sl_training *run;
	struct sl_recover *recover;
	struct sl_remote link;
	int missed;
} rig;

static void written(void *arg)
{
	(void)arg;
}

static void missed(void *arg, const struct sl_fail *why, bool needed)
{
	(void)arg;
	(void)needed;
	(void)why;
	rig.missed++;
}

static enum sl_recover_as begins_as = SL_RECOVER_ANEW;

static int open_rig(void **state)
{
	static const struct sl_recover_events events = {missed, written};
	struct sl_fail fail;

	rig = (struct rig){.link = {.ready = true, .session = {.keep = SL_KEEP_DONE}}};
	if (sl_loop_open(&rig.loop, &fail) || sl_training_open(&rig.run, &setup, "remote", false, false, &fail) ||
	    sl_recover_open(&rig.recover, rig.loop, &setup, rig.run, true, begins_as, &events, NULL, &fail))
		fail_msg("%s", fail.text);
	return 0;
}

static int close_rig(void **state)
{
	assert_true(sl_recover_settle(rig.recover));
	sl_recover_close(rig.recover);
	sl_training_close(rig.run);
	sl_loop_close(rig.loop);
	return 0;
}

static void step(void)
{
	const struct sl_step_result r = {.step = sl_training_state(rig.run).step, .rows = 1, .loss = 1};

	assert_int_equal(sl_training_next(rig.run), SL_WANT_STEP);
	assert_true(sl_recover_due(rig.recover, rig.run) == (r.step % 2 == 1)); /* every second step */
	rig.link.state++;
	sl_training_done(rig.run, &r);
}

/* Steps up to `last`; every second one is kept. */
static void steps_to(uint64_t last)
{
	while (sl_training_state(rig.run).step < last) {
		bool due = sl_recover_due(rig.recover, rig.run);

		step();
		if (due)
			sl_recover_keep(rig.recover, &rig.link, rig.run, false);
		assert_true(sl_recover_settle(rig.recover));
	}
}

static void assert_kept(uint64_t one, uint64_t two)
{
	uint64_t kept[SL_CHECKPOINT_KEPT];

	sl_recover_kept(rig.recover, kept);
	if (kept[0] != one || kept[1] != two)
		fail_msg("%d and %d are kept", (int)kept[0], (int)kept[1]);
}

/* Compares the steps of the files in the folder, as digits, newest first. */
static void assert_files(const char *digits)
{
	uint64_t at = UINT64_MAX;
	char there[16] = "";
	int n = 0;

	while (n < 15 && sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &at))
		there[n++] = (char)('0' + at);
	assert_string_equal(there, digits);
}

static void assert_offer(const char *digits)
{
	struct sl_offer offer = {.epoch = 0};
	char held[SL_WIRE_HELD_MAX + 1] = "";

	sl_recover_offer(rig.recover, &offer);
	for (int i = 0; i < offer.n_held; i++)
		held[i] = (char)('0' + offer.held[i]);
	assert_string_equal(held, digits);
}

/* Loses the link. Returns whether the step under way turned out to be done. */
static bool lose(void)
{
	struct sl_step_result result;
	struct sl_fail fail;
	bool done;

	assert_int_equal(sl_recover_lost(rig.recover, &rig.link, rig.run, &done, &result, &fail), SL_OK);
	if (done)
		sl_training_done(rig.run, &result);
	rig.link = (struct sl_remote){.ready = true, .session = {.keep = SL_KEEP_DONE}, .state = -1};
	return done;
}

static enum sl_restored restore(uint64_t next_step)
{
	struct sl_step_result result;
	enum sl_restored how;
	struct sl_fail fail;

	if (sl_recover_restore(rig.recover, &rig.link, rig.run, next_step, &how, &result, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return how;
}

static void finish(uint64_t at)
{
	struct sl_fail fail;

	assert_int_equal(sl_recover_finish(rig.recover, &rig.link, at, &fail), SL_OK);
}

/* ---- tests */

static void the_two_newest_are_kept_and_named(void **state)
{
	assert_kept(0, 0);
	steps_to(2);
	assert_kept(2, 0);
	steps_to(7);
	assert_kept(6, 4);
	assert_files("64");
	step();
	sl_recover_keep(rig.recover, &rig.link, rig.run, false); /* named while it is still being written */
	assert_kept(8, 6);
	assert_true(sl_recover_settle(rig.recover));
	assert_kept(8, 6);
	assert_files("86");
	assert_int_equal(rig.missed, 0);
	finish(9); /* the last state is of another step: not kept */
	assert_kept(0, 0);
	assert_files("");
	assert_false(sl_past_run(dir).resumable);
}

/* In a group, the last checkpoint must be on the disk before the next is due: the others keep none older. */
static void a_member_has_the_last_one_on_its_disk_first(void **state)
{
	steps_to(1);
	step();
	sl_recover_keep(rig.recover, &rig.link, rig.run, false);
	assert_false(sl_recover_must_wait(rig.recover, rig.run)); /* the next step is not due */
	step();
	assert_false(sl_recover_must_wait(rig.recover, rig.run)); /* a single client does not wait */
	snprintf(conf.agreed.share.group, sizeof conf.agreed.share.group, "g");
	assert_true(sl_recover_must_wait(rig.recover, rig.run));
	assert_true(sl_recover_settle(rig.recover));
	assert_false(sl_recover_must_wait(rig.recover, rig.run));
	conf.agreed.share.group[0] = 0;
}

/* The last state stays after the run, under another name, if the server has its half too. */
static void the_last_state_stays(void **state)
{
	uint64_t at = UINT64_MAX;

	steps_to(4);
	finish(4);
	assert_kept(0, 0);
	assert_files("");
	assert_true(sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &at));
	assert_true(at == 4);
	steps_to(6);
	finish(6); /* of a longer run: it replaces the one before */
	at = UINT64_MAX;
	assert_true(sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &at));
	assert_true(at == 6);
	assert_false(sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &at));
	steps_to(8);
	rig.link.session.keep = SL_KEEP_NOT;
	finish(8);
	at = UINT64_MAX;
	assert_false(sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &at));
}

/* A run that is done has a model, of which only the name is asked here. */
static void put_model(bool there)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "%s/" SL_MODEL_FILE, dir);
	if (!there) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* Whether a refusal is explained as that of a run that is made longer. */
static bool is_longer(void)
{
	struct sl_fail fail = {SL_ERR_MISMATCH, "", "why"};

	sl_recover_explain(rig.recover, &fail);
	return strstr(fail.text, "made longer");
}

/* A longer run begins with the file of the end before it. Its own files have the usual name. */
static void a_longer_run_has_files_of_both_names(void **state)
{
	assert_int_equal(restore(0), SL_RESTORED_BACK); /* the first link: log.dir has the session's secret */
	steps_to(4);
	finish(4);
	put_model(true);
	begins_as = SL_RECOVER_FILES;
	assert_int_equal(close_rig(state) + open_rig(state), 0); /* the next process */
	begins_as = SL_RECOVER_ANEW;
	assert_true(is_longer());
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_true(rig.link.state == 4);
	steps_to(7);
	rig.link.torn = true;
	assert_false(lose());
	assert_int_equal(restore(6), SL_RESTORED_BACK);
	assert_true(rig.link.state == 6);
	finish(9);
	put_model(false);
}

/* Each file of a run that was resumed has the usual name, also the older one. */
static void a_resumed_run_can_read_its_older_file(void **state)
{
	assert_int_equal(restore(0), SL_RESTORED_BACK); /* the first link: log.dir has the session's secret */
	steps_to(7);
	begins_as = SL_RECOVER_FILES;
	assert_int_equal(close_rig(state) + open_rig(state), 0); /* the next process */
	begins_as = SL_RECOVER_ANEW;
	assert_false(is_longer());
	assert_offer("64");
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_true(rig.link.state == 4);
	finish(9);
}

static void keep_done(void)
{
	struct sl_fail fail;

	if (sl_recover_keep_done(rig.recover, &rig.link, rig.run, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

/* What a run writes behind its last step: nothing without checkpoints, or where the server has not kept its side and
 * others can go on without this one. */
static void the_last_file_is_written_where_it_is_of_use(void **state)
{
	steps_to(1);
	rig.link.session.keep = SL_KEEP_NOT;
	keep_done();
	assert_files("");
	snprintf(conf.agreed.share.group, sizeof conf.agreed.share.group, "g");
	conf.agreed.share.least = 1;
	conf.train.checkpoint_every = 0;
	keep_done();
	assert_files("");
	assert_true(sl_recover_has_end(rig.recover, &rig.link, rig.run));
	conf.train.checkpoint_every = 2;
	assert_false(sl_recover_has_end(rig.recover, &rig.link, rig.run));
	keep_done();
	assert_files("1");
	assert_false(sl_recover_has_end(rig.recover, &rig.link, rig.run)); /* the server has not */
	rig.link.session.keep = SL_KEEP_DONE;
	assert_true(sl_recover_has_end(rig.recover, &rig.link, rig.run));
	conf.agreed.share.group[0] = '\0';
	conf.agreed.share.least = 0;
	finish(9);
}

/* A file is of no use without the server's half. */
static void what_the_server_lacks_is_not_kept(void **state)
{
	steps_to(2);
	rig.link.session.keep = SL_KEEP_NOT;
	steps_to(4);
	assert_int_equal(rig.missed, 1);
	assert_kept(2, 0);
	assert_files("2");
	assert_int_equal(sl_recover_state(rig.recover).missed, 4);
}

static void a_step_in_doubt_is_offered_both_ways(void **state)
{
	steps_to(5);
	rig.link.in_doubt = true;
	assert_false(lose());
	assert_offer("6542");
	rig.link.ready = false; /* a link that was never up takes no state away */
	assert_false(lose());
	assert_int_equal(restore(6), SL_RESTORED_AHEAD);
	assert_true(rig.link.state == 6);
	rig.link.ready = true;
	assert_false(lose());
	assert_offer("542");
	assert_int_equal(restore(5), SL_RESTORED_SAME);
}

static void a_step_that_was_applied_is_done(void **state)
{
	steps_to(5);
	rig.link.applied = true;
	rig.link.state = 6;
	assert_true(lose());
	assert_int_equal(sl_training_state(rig.run).step, 6);
	assert_offer("642");
	assert_int_equal(restore(6), SL_RESTORED_SAME);
	assert_true(rig.link.state == 6);
}

/* A state of the same step that another link made is refused: another process went on with this run. */
static void a_state_that_another_link_made_is_refused(void **state)
{
	struct sl_step_result result;
	enum sl_restored how;
	struct sl_fail fail;

	rig.link.made = 7;
	steps_to(5);
	assert_false(lose());
	rig.link.made = 8;
	assert_int_equal(sl_recover_restore(rig.recover, &rig.link, rig.run, 5, &how, &result, &fail), SL_ERR_MISMATCH);
	assert_non_null(strstr(fail.text, "is not the one that this run left there"));
	assert_int_equal(sl_recover_restore(rig.recover, &rig.link, rig.run, 4, &how, &result, &fail), SL_ERR_MISMATCH);
	assert_non_null(strstr(fail.text, "--fresh"));
}

/* The server may raise a link's epoch above those that the client remembers. Later links must be above it. */
static void later_links_are_above_one_that_rose(void **state)
{
	struct sl_offer offer = {.epoch = 0};

	sl_recover_offer(rig.recover, &offer);
	assert_true(offer.first);
	rig.link.session.epoch = offer.epoch + (1u << 30);
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	sl_recover_offer(rig.recover, &offer);
	assert_false(offer.first);
	assert_int_equal(offer.epoch, rig.link.session.epoch + 1);
	assert_int_equal(close_rig(state) + open_rig(state), 0); /* the next process */
	sl_recover_offer(rig.recover, &offer);
	assert_true(offer.epoch > rig.link.session.epoch);
}

/* Once both sides have had a checkpoint, no link of the process offers step 0 either: a server whose store is gone
 * would begin anew, and the run would overwrite what it has. A group needs two, as only then all members have the
 * first. */
static void a_confirmed_checkpoint_is_not_begun_anew(void **state)
{
	struct sl_fail fail;

	assert_offer("0");
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_OK); /* a pause at step 0 */
	rig.link.session.keep = SL_KEEP_NOT;
	rig.link.torn = true;
	assert_false(lose());
	assert_offer("0");
	steps_to(1);
	rig.link.session.keep = SL_KEEP_NOT;
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_OK);
	assert_offer("10"); /* the server may never have had its side */
	rig.link.session.keep = SL_KEEP_DONE;
	steps_to(2);
	assert_offer("21");
	snprintf(conf.agreed.share.group, sizeof conf.agreed.share.group, "g");
	assert_offer("210");
	steps_to(4);
	assert_offer("42");
	conf.agreed.share.group[0] = '\0';
}

/* A step that was applied in part is not offered: files are. */
static void a_torn_step_is_offered_by_nobody(void **state)
{
	steps_to(5);
	assert_false(lose());
	assert_int_equal(restore(5), SL_RESTORED_SAME);
	rig.link.torn = true;
	assert_false(lose());
	assert_offer("42");
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_true(rig.link.state == 4);
	assert_int_equal(sl_training_state(rig.run).step, 4);
}

/* Going back to a step removes all later files at once, since they belong to another history. */
static void going_back_leaves_what_was_later(void **state)
{
	steps_to(7);
	assert_false(lose());
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_true(rig.link.state == 4 && rig.link.coded == 1);
	assert_files("4");
	assert_kept(4, 0);
	assert_false(lose());
	assert_offer("4");
	steps_to(6);
	assert_kept(6, 4);
}

/* From step 0 on, old files stay until a new one is written: the client may have reached the wrong server. */
static void from_the_beginning_files_stay_until_others_come(void **state)
{
	steps_to(7);
	assert_false(lose());
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	assert_files("64");
	assert_kept(0, 0);
	rig.link.state = 0;
	steps_to(1);
	assert_files("64");
	steps_to(2);
	assert_files("2");
	assert_kept(2, 0);
}

static const char *path_of(int step)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s-%012d.safetensors", dir, SL_CHECKPOINT_CLIENT, step);
	return path;
}

/* The old files are removed before the first file of the new history is written: both never exist together. */
static void files_of_two_pasts_never_lie_side_by_side(void **state)
{
	steps_to(7);
	assert_false(lose());
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	assert_int_equal(mkdir(path_of(2), 0700), 0); /* a folder in its place makes the write fail */
	steps_to(2);
	assert_int_equal(rig.missed, 1);
	assert_files("2");
	assert_kept(0, 0);
	assert_int_equal(rmdir(path_of(2)), 0);
}

/* The model of a pause, whose checkpoint the server does not have. */
static void put_model_of(const char *steps)
{
	const float value = 0;
	const struct sl_st_item item = {"w", "F32", 1, {1}, &value};
	const struct sl_st_note note = {"steps", steps};
	char path[64];
	struct sl_fail fail;

	snprintf(path, sizeof path, "%s/" SL_MODEL_FILE, dir);
	assert_int_equal(sl_st_write(path, &item, 1, &note, 1, SL_FP_NONE, &fail), SL_OK);
}

/* Begins anew behind a pause of `model` steps, and stops behind `step` of them without a checkpoint. */
static void stop_in_vain(const char *model, uint64_t step, bool leaves_model)
{
	struct sl_fail fail;

	put_model_of(model);
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	rig.link.session.keep = SL_KEEP_NOT;
	steps_to(step);
	assert_int_equal(mkdir(path_of((int)step), 0700), 0); /* a folder in its place makes the write fail */
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_ERR_IO);
	assert_int_equal(rmdir(path_of((int)step)), 0);
	assert_files("");
	assert_true((sl_model_file_steps(&conf, SL_MODEL_FILE) != INT64_MAX) == leaves_model);
}

/* Without a checkpoint that model would pass for one of a run that is done: also where the run stops at the same step
 * again. */
static void a_run_that_begins_anew_leaves_no_model_of_a_pause(void **state)
{
	stop_in_vain("3", 3, false);
	rig.link.torn = true;
	assert_false(lose());
	stop_in_vain("4", 3, false);
	conf.train.max_steps = 4;
	assert_int_equal(close_rig(state) + open_rig(state), 0);
	stop_in_vain("4", 4, true); /* it is the last step */
	conf.train.max_steps = 0;
	put_model(false);
}

/* The link is lost while a file is being written: the next one offers that file, too. */
static void a_file_that_is_being_written_is_offered(void **state)
{
	steps_to(5);
	step();
	sl_recover_keep(rig.recover, &rig.link, rig.run, false);
	rig.link.torn = true;
	assert_false(lose());
	assert_offer("64");
}

/* Of a group that needs all its members. */
static void join_group(bool in)
{
	snprintf(conf.agreed.share.group, sizeof conf.agreed.share.group, "%s", in ? "g" : "");
	conf.agreed.share.least = in;
}

/* Loses the link behind `last`, and writes what it held. */
static void lose_behind(uint64_t last)
{
	struct sl_remote link;

	steps_to(last);
	link = rig.link;
	assert_false(lose());
	link.session.keep = SL_KEEP_NOT;
	rig.link = link;
	sl_recover_keep_held(rig.recover, &rig.link, rig.run);
}

/* Another member may still be writing the newest that fell due. */
static void a_file_of_a_lost_link_leaves_two_that_fell_due(void **state)
{
	join_group(true);
	steps_to(4);
	assert_files("42");
	lose_behind(5);
	assert_files("542");
	join_group(false);
}

/* The server's disk is full: later files are of links that other members did not lose. Those of steps that were given
 * up do not count. */
static void the_last_file_that_all_were_asked_for_stays(void **state)
{
	join_group(true);
	steps_to(6);
	assert_false(lose());
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_files("4");
	rig.link.session.keep = SL_KEEP_NOT;
	lose_behind(6);
	assert_files("64");
	assert_int_equal(restore(6), SL_RESTORED_SAME);
	lose_behind(8);
	assert_files("864");
	join_group(false);
}

/* All went back to a file of a pause, which others had in memory alone. */
static void the_file_that_all_went_on_from_stays(void **state)
{
	join_group(true);
	lose_behind(3);
	assert_files("32");
	rig.link.session.common = true;
	rig.link.session.keep = SL_KEEP_DONE;
	assert_int_equal(restore(3), SL_RESTORED_SAME);
	steps_to(4);
	assert_files("432");
	rig.link.torn = true;
	assert_false(lose());
	assert_offer("432");
	join_group(false);
}

/* A client alone that has trained takes an older state of the server's for one that was put back: it goes back, too. */
static void an_older_state_of_the_server_is_followed(void **state)
{
	struct sl_step_result result;
	enum sl_restored how;
	struct sl_fail fail;

	rig.link.made = 7;
	steps_to(5);
	assert_false(lose());
	rig.link.made = 8;
	assert_int_equal(sl_recover_restore(rig.recover, &rig.link, rig.run, 5, &how, &result, &fail), SL_ERR_MISMATCH);
	assert_false(sl_recover_refuse(rig.recover, 5, SL_ERR_MISMATCH));
	assert_offer("542");
	rig.link.made = 6;
	assert_int_equal(sl_recover_restore(rig.recover, &rig.link, rig.run, 5, &how, &result, &fail), SL_ERR_MISMATCH);
	assert_true(sl_recover_refuse(rig.recover, 5, SL_ERR_MISMATCH));
	assert_offer("42");
}

static void a_file_that_comes_behind_going_back_is_not_kept(void **state)
{
	steps_to(7);
	step();
	sl_recover_keep(rig.recover, &rig.link, rig.run, false);
	assert_false(lose());
	assert_int_equal(restore(6), SL_RESTORED_BACK); /* only step 6 stays, even if the write of step 8 ends later */
	assert_true(sl_recover_settle(rig.recover));
	assert_files("6");
	assert_kept(6, 0);
}

/* A restore reads into the state in memory: if it fails, that state is lost too, and not offered. */
static void a_file_that_cannot_be_read_leaves_no_state(void **state)
{
	struct sl_step_result result;
	enum sl_restored how;
	struct sl_fail fail;

	steps_to(7);
	assert_false(lose());
	assert_offer("764");
	assert_int_equal(truncate(path_of(4), 40), 0);
	assert_int_equal(sl_recover_restore(rig.recover, &rig.link, rig.run, 4, &how, &result, &fail), SL_ERR_DATA);
	assert_true(sl_recover_refuse(rig.recover, 4, SL_ERR_DATA));
	assert_offer("6");
}

static void half_a_step_is_not_kept(void **state)
{
	struct sl_fail fail;

	steps_to(3);
	rig.link.torn = true;
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_ERR_IO);
	assert_files("2");
	rig.link.torn = false;
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_OK);
	assert_files("32");
}

/* Whoever asks for the last file gets its error, which is said there alone. */
static void a_last_file_that_cannot_be_written_is_said_once(void **state)
{
	struct sl_fail fail;

	steps_to(3);
	assert_int_equal(mkdir(path_of(3), 0700), 0);
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_ERR_IO);
	assert_non_null(strstr(fail.text, "step 3 could not be kept: "));
	assert_int_equal(rig.missed, 0);
	assert_int_equal(rmdir(path_of(3)), 0);
}

/* A file that cannot be read is not offered again. A plan that differs is not the file's fault. */
static void a_refused_file_is_offered_no_more(void **state)
{
	steps_to(7);
	rig.link.torn = true;
	assert_false(lose());
	assert_offer("64");
	assert_false(sl_recover_refuse(rig.recover, 6, SL_ERR_MISMATCH));
	assert_false(sl_recover_refuse(rig.recover, 5, SL_ERR_DATA)); /* no file has this step */
	assert_true(sl_recover_refuse(rig.recover, 6, SL_ERR_IO));
	assert_offer("4");
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	steps_to(6);
	assert_kept(6, 4);
	assert_files("64");
}

/* A run that ends with its link keeps the steps that it has done, unless a COMMIT has no answer. */
static void a_lost_run_keeps_what_it_has_done(void **state)
{
	steps_to(5);
	rig.link.in_doubt = true;
	sl_recover_end(rig.recover, &rig.link, rig.run, SL_ERR_PEER_LOST);
	assert_files("42");
	rig.link.in_doubt = false;
	sl_recover_end(rig.recover, &rig.link, rig.run, SL_ERR_CONFIG);
	assert_files("42");
	rig.link.applied = true; /* applied, but not yet reported to the run */
	rig.link.state = 6;
	sl_recover_end(rig.recover, &rig.link, rig.run, SL_ERR_PEER_LOST);
	assert_files("64");
	rig.link.applied = false;
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_true(rig.link.state == 4);
	sl_recover_end(rig.recover, &rig.link, rig.run, SL_ERR_PEER_LOST); /* that file exists already */
	assert_files("4");
}

static void assert_newest(uint64_t step, bool resumes)
{
	const char *words = sl_recover_outlook(rig.recover);

	assert_int_equal(sl_recover_state(rig.recover).good, step);
	assert_string_equal(words, resumes ? "; --resume goes on from the last checkpoint"
					   : "; there is no checkpoint to --resume from");
}

/* The newest checkpoint that a status and a run's last message name must exist. */
static void the_newest_is_one_that_is_there(void **state)
{
	struct sl_last_run last;
	struct sl_fail fail;

	assert_string_equal(sl_recover_outlook(NULL), "");
	assert_newest(0, false);
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	assert_int_equal(sl_recover_keep_last(rig.recover, &rig.link, rig.run, &fail), SL_OK);
	assert_files("0");
	assert_newest(0, true); /* a run that pauses before its first step can be resumed */
	assert_int_equal(sl_last_run_read(&last, setup.conf, setup.plan, 9, &fail), SL_OK);
	assert_true(last.n == 1 && last.step[0] == 0);
	steps_to(7);
	assert_newest(6, true);
	assert_false(lose());
	assert_int_equal(restore(4), SL_RESTORED_BACK);
	assert_newest(4, true);
	rig.link.torn = true;
	assert_false(lose());
	assert_false(sl_recover_refuse(rig.recover, 4, SL_ERR_DATA)); /* the run does not begin anew behind it */
	assert_newest(0, false);
	rig.link = (struct sl_remote){.ready = true, .session = {.keep = SL_KEEP_DONE}};
	steps_to(8);
	assert_newest(8, true);
	rig.link.session.keep = SL_KEEP_NOT;
	finish(8);
	assert_newest(0, false);
}

static void the_newest_is_none_where_those_of_another_past_are_gone(void **state)
{
	steps_to(7);
	assert_false(lose());
	assert_int_equal(restore(0), SL_RESTORED_BACK);
	assert_newest(6, true); /* until a new file is written */
	assert_int_equal(mkdir(path_of(2), 0700), 0);
	steps_to(2);
	assert_int_equal(rmdir(path_of(2)), 0);
	assert_files("");
	assert_newest(0, false);
}

static void the_newest_is_not_what_a_run_went_back_behind(void **state)
{
	steps_to(7);
	step();
	sl_recover_keep(rig.recover, &rig.link, rig.run, false);
	assert_false(lose());
	assert_int_equal(restore(6), SL_RESTORED_BACK);
	assert_true(sl_recover_settle(rig.recover));
	assert_files("6");
	assert_newest(6, true);
}

static int make_all(void **state)
{
	conf.agreed.batch = 1;
	conf.train.epochs = 1;
	conf.train.checkpoint_every = 2;
	conf.train.lr = 0.1;
	setup.set[SL_SPLIT_TRAIN].count = 9;
	setup.set[SL_SPLIT_TEST].count = 1;
	setup.plan = small_plan_open("1:-1", 1);
	if (!mkdtemp(dir))
		return -1;
	snprintf(conf.log.dir, sizeof conf.log.dir, "%s", dir);
	return 0;
}

static int remove_all(void **state)
{
	static const char *const left[] = {"log.jsonl", "sessions.jsonl", "link-epoch", "session-key", "traffic"};
	char path[64];

	sl_checkpoint_clear(dir, SL_CHECKPOINT_CLIENT);
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, left[i]);
		unlink(path);
	}
	sl_plan_close(setup.plan);
	return rmdir(dir);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_two_newest_are_kept_and_named),
		CASE(a_member_has_the_last_one_on_its_disk_first),
		CASE(the_last_state_stays),
		CASE(a_longer_run_has_files_of_both_names),
		CASE(a_resumed_run_can_read_its_older_file),
		CASE(the_last_file_is_written_where_it_is_of_use),
		CASE(what_the_server_lacks_is_not_kept),
		CASE(a_step_in_doubt_is_offered_both_ways),
		CASE(a_step_that_was_applied_is_done),
		CASE(a_state_that_another_link_made_is_refused),
		CASE(later_links_are_above_one_that_rose),
		CASE(a_torn_step_is_offered_by_nobody),
		CASE(going_back_leaves_what_was_later),
		CASE(from_the_beginning_files_stay_until_others_come),
		CASE(files_of_two_pasts_never_lie_side_by_side),
		CASE(a_run_that_begins_anew_leaves_no_model_of_a_pause),
		CASE(a_file_that_is_being_written_is_offered),
		CASE(a_file_of_a_lost_link_leaves_two_that_fell_due),
		CASE(the_last_file_that_all_were_asked_for_stays),
		CASE(the_file_that_all_went_on_from_stays),
		CASE(an_older_state_of_the_server_is_followed),
		CASE(a_file_that_comes_behind_going_back_is_not_kept),
		CASE(a_file_that_cannot_be_read_leaves_no_state),
		CASE(half_a_step_is_not_kept),
		CASE(a_last_file_that_cannot_be_written_is_said_once),
		CASE(a_confirmed_checkpoint_is_not_begun_anew),
		CASE(a_refused_file_is_offered_no_more),
		CASE(a_lost_run_keeps_what_it_has_done),
		CASE(the_newest_is_one_that_is_there),
		CASE(the_newest_is_none_where_those_of_another_past_are_gone),
		CASE(the_newest_is_not_what_a_run_went_back_behind),
	};

	return cmocka_run_group_tests(tests, make_all, remove_all);
}
