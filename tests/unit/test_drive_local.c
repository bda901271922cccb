/* A run in one process, where any of its calls may fail: what is called then, and with what the run ends. All that it
 * calls is a stub here, which notes its name. */
#include <signal.h>

#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "client/train/drive.h"
#include "client/train/phase.h"
#include "client/train/privacy.h"
#include "tests/support/unit.h"

enum { STEPS = 2, CALLS = 64 };

static struct sl_conf_client conf;
static struct sl_plan plan;
static struct sl_setup setup = {.conf = &conf, .plan = &plan};
static struct sl_batch batch = {.rows = 3, .samples = NULL};
static int thing, data[SL_SPLIT_COUNT]; /* what the pointers point to that nobody looks into */

/* ---- the run that is played, and what it called */

static struct play {
	const char *fails; /* the call that fails; NULL: none */
	enum sl_err how;   /* with this */
	int passage;       /* of its calls, this one */
	bool skips;        /* a step with NaN is skipped */
	bool stops;        /* a signal comes in the first batch */
	int best;          /* evaluations that are the best so far */
	int wanted;        /* batches that the run has asked for */
	bool steps, evaluates, resumes;
	int members; /* of the last sl_local_use */
	int calls, seen;
	const char *call[CALLS];
	const char *outcome;
} play;

static enum sl_err call(const char *name, struct sl_fail *fail)
{
	assert_true(play.calls < CALLS);
	play.call[play.calls++] = name;
	if (!play.fails || strcmp(play.fails, name) != 0 || play.seen++ != play.passage)
		return SL_OK;
	return fail ? sl_fail_set(fail, play.how, "%s fails", name) : play.how;
}

static int count(const char *name)
{
	int n = 0;

	for (int i = 0; i < play.calls; i++)
		n += strcmp(play.call[i], name) == 0;
	return n;
}

/* ---- stubs: the run */

enum sl_err sl_training_open(struct sl_training **out, const struct sl_setup *s, const char *mode, bool eval_only,
			     bool resume, struct sl_fail *fail)
{
	const enum sl_err err = call("open", fail);

	play.resumes = resume;
	if (!err)
		*out = (struct sl_training *)&thing;
	return err;
}

enum sl_err sl_training_begin(struct sl_training *run, struct sl_fail *fail)
{
	return call("begin", fail);
}

void sl_training_close(struct sl_training *run)
{
	(void)call("close run", NULL);
}

void sl_training_hush(struct sl_training *run)
{
	(void)call("hush", NULL);
}

enum sl_want sl_training_next(struct sl_training *run)
{
	const int at = play.wanted++;

	if (play.steps && at < STEPS)
		return SL_WANT_STEP;
	return play.evaluates && at < (play.steps ? STEPS : 0) + 1 ? SL_WANT_EVAL : SL_WANT_FINISH;
}

uint64_t sl_training_number(const struct sl_training *run)
{
	return (uint64_t)play.wanted - 1;
}

double sl_training_lr(const struct sl_training *run)
{
	return 0.5;
}

float *sl_training_outputs(struct sl_training *run)
{
	(void)call("outputs", NULL);
	return NULL;
}

void sl_training_score(struct sl_training *run, const void *target, int64_t rows)
{
	assert_int_equal(rows, batch.rows);
	(void)call("score", NULL);
}

void sl_training_done(struct sl_training *run, const struct sl_step_result *result)
{
	assert_int_equal(result->rows, batch.rows);
	(void)call("done", NULL);
}

bool sl_training_best_due(const struct sl_training *run)
{
	return play.best > 0 && play.best--;
}

void sl_training_best_score(const struct sl_training *run, char out[SL_TRAINING_SCORE])
{
	snprintf(out, SL_TRAINING_SCORE, "1");
}

void sl_training_best_kept(struct sl_training *run, bool written)
{
	(void)call(written ? "best is kept" : "best is missed", NULL);
}

enum sl_err sl_training_abandoned(const struct sl_training *run, const struct sl_fail *why, struct sl_fail *fail)
{
	(void)call("abandoned", NULL);
	assert_string_equal(why->text, "step fails");
	return play.skips ? SL_OK : sl_fail_set(fail, SL_ERR_NONFINITE, "%s: the run stops", why->text);
}

void sl_training_eval_nonfinite(const struct sl_training *run, struct sl_fail *fail)
{
	(void)call("evaluation has NaN", NULL);
}

void sl_training_finish(struct sl_training *run, const struct sl_training_link *link, const char *outcome, bool json)
{
	(void)call("summary", NULL);
	play.outcome = outcome;
}

enum sl_err sl_training_unfinished(const struct sl_training *run, const char *how, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_BUSY, "stopped");
}

void sl_training_save(const struct sl_training *run, struct sl_checkpoint *c)
{
	(void)call("save", NULL);
}

enum sl_err sl_training_restore(struct sl_training *run, const struct sl_checkpoint *c, struct sl_fail *fail)
{
	return call("restore", fail);
}

enum sl_err sl_training_seek(const struct sl_training *run, struct sl_loader *const loader[SL_SPLIT_COUNT],
			     struct sl_fail *fail)
{
	return call("seek", fail);
}

void sl_training_end_phase(struct sl_training *run)
{
	(void)call("end phase", NULL);
}

struct sl_training_state sl_training_state(const struct sl_training *run)
{
	return (struct sl_training_state){.step = (uint64_t)count("step"), .total_steps = STEPS};
}

struct sl_about_reached sl_training_reached(const struct sl_training *run, bool best, uint64_t made)
{
	return (struct sl_about_reached){.best = best};
}

enum sl_err sl_run_privacy_end(const struct sl_training *r, struct sl_fail *fail)
{
	return call("privacy", fail);
}

/* ---- stubs: data, files */

enum sl_err sl_setup_loader(const struct sl_setup *s, enum sl_split split, void (*wake)(void *arg), void *arg,
			    struct sl_loader **out, struct sl_fail *fail)
{
	const enum sl_err err = call(split == SL_SPLIT_TRAIN ? "train loader" : "test loader", fail);

	if (!err)
		*out = (struct sl_loader *)&data[split];
	return err;
}

int sl_setup_place(const struct sl_setup *s, const struct sl_conf_client *c)
{
	return 0;
}

struct sl_ends_use sl_setup_use(const struct sl_setup *s)
{
	return (struct sl_ends_use){0};
}

void sl_setup_blame(const struct sl_setup *s, struct sl_fail *fail)
{
	(void)call("blame", NULL);
}

enum sl_err sl_loader_take(struct sl_loader *loader, const struct sl_batch **out, struct sl_fail *fail)
{
	*out = &batch;
	assert_ptr_equal(loader, &data[play.steps && play.wanted <= STEPS ? SL_SPLIT_TRAIN : SL_SPLIT_TEST]);
	return call("take", fail);
}

void sl_loader_release(struct sl_loader *loader, const struct sl_batch *b)
{
	(void)call("release", NULL);
}

void sl_loader_close(struct sl_loader *loader)
{
	if (loader)
		(void)call("close loader", NULL);
}

void sl_predict_batch(struct sl_predict *p, const void *target, const int32_t *samples, const struct sl_fail *row_fail,
		      int64_t rows)
{
	(void)call("predict", NULL);
}

char *sl_about_text(const struct sl_setup *s, const struct sl_about_reached *at)
{
	return NULL;
}

enum sl_err sl_model_file_write(const struct sl_conf_client *c, const struct sl_plan *p,
				const struct sl_weights *weights, const char *about, const char *best, const char *name,
				uint64_t steps, struct sl_fail *fail)
{
	return call(best ? "best file" : "model", fail);
}

/* ---- stubs: the three segments */

enum sl_err sl_local_open(struct sl_local **out, const struct sl_plan *p, const struct sl_agreement *agreement,
			  const struct sl_exec *trunk, struct sl_backend *be, struct sl_fail *fail)
{
	const enum sl_err err = call("segments", fail);

	if (!err)
		*out = (struct sl_local *)&thing;
	return err;
}

void sl_local_close(struct sl_local *l)
{
	(void)call("close segments", NULL);
}

enum sl_err sl_local_use(struct sl_local *l, const struct sl_ends_use *use, struct sl_fail *fail)
{
	play.members = use->members;
	return call("use", fail);
}

enum sl_err sl_local_set_weights(struct sl_local *l, const struct sl_weights *weights, struct sl_fail *fail)
{
	return call("set weights", fail);
}

enum sl_err sl_local_get_weights(struct sl_local *l, struct sl_weights *weights)
{
	return call("get weights", NULL);
}

enum sl_err sl_local_take(struct sl_local *l, struct sl_local_state *state)
{
	return call("take state", NULL);
}

enum sl_err sl_local_give(struct sl_local *l, const struct sl_local_state *state, uint64_t done, struct sl_fail *fail)
{
	return call("give state", fail);
}

enum sl_err sl_local_set_done(struct sl_local *l, uint64_t done, struct sl_fail *fail)
{
	assert_int_equal(done, play.wanted);
	return call("set done", fail);
}

void sl_local_payload(const struct sl_local *l, uint64_t payload[SL_CROSS_COUNT], double nominal[SL_CROSS_COUNT])
{
}

enum sl_err sl_local_step(struct sl_local *l, const struct sl_feed *feed, uint64_t number, double lr,
			  struct sl_step_result *result, struct sl_fail *fail)
{
	*result = (struct sl_step_result){.rows = feed->rows};
	if (play.stops)
		raise(SIGTERM);
	return call("step", fail);
}

enum sl_err sl_local_eval(struct sl_local *l, const struct sl_feed *feed, uint64_t number,
			  struct sl_step_result *result, struct sl_fail *fail)
{
	*result = (struct sl_step_result){.rows = feed->rows};
	return call("eval", fail);
}

/* ---- tests */

/* The run's error, whose text is of the call that failed. */
static enum sl_err run(struct play p, const struct sl_drive_options *options)
{
	struct sl_fail fail = {0};
	enum sl_err err;

	play = p;
	play.steps = !options->eval_only;
	play.evaluates = true;
	err = sl_drive_local(&setup, options, &fail);
	assert_int_equal(count("close run"), 1);
	assert_int_equal(count("close segments"), 1);
	assert_int_equal(count("close loader"),
			 count("train loader") + count("test loader") - (p.fails && strstr(p.fails, "loader") ? 1 : 0));
	assert_int_equal(count("release"), count("take") - (p.fails && strcmp(p.fails, "take") == 0));
	if (err && err != SL_ERR_BUSY)
		assert_memory_equal(fail.text, p.fails, strlen(p.fails));
	return err;
}

static void a_run_ends_with_its_model(void **state)
{
	assert_int_equal(run((struct play){0}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(count("step"), STEPS);
	assert_int_equal(count("eval"), 1);
	assert_int_equal(count("done"), STEPS + 1);
	assert_int_equal(count("score"), STEPS + 1);
	assert_int_equal(count("model"), 1);
	assert_int_equal(count("privacy"), 1);
	assert_int_equal(count("best file") + count("blame") + count("hush") + count("give state"), 0);
	assert_string_equal(play.outcome, "finished");
}

/* Behind a call that failed nothing is called but what closes things. */
static void what_fails_ends_the_run(void **state)
{
	static const char *const before[] = {"open",        "train loader", "test loader", "segments",
					     "set weights", "use",          "begin"};
	static const char *const later[] = {"take", "step", "eval"};

	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		const struct play p = {.fails = before[i], .how = SL_ERR_IO};

		assert_int_equal(run(p, &(struct sl_drive_options){0}), SL_ERR_IO);
		for (size_t j = i + 1; j < sizeof before / sizeof *before; j++)
			assert_int_equal(count(before[j]), 0);
		assert_int_equal(count("take") + count("model") + count("summary") + count("privacy"), 0);
	}
	for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
		const struct play p = {.fails = later[i], .how = SL_ERR_IO};

		assert_int_equal(run(p, &(struct sl_drive_options){0}), SL_ERR_IO);
		assert_string_equal(play.call[play.calls - 1], "close run");
		assert_int_equal(count("model") + count("summary") + count("privacy"), 0);
	}
}

static void a_plan_that_cannot_be_has_a_place_in_the_config(void **state)
{
	for (enum sl_err how = SL_ERR_CONFIG; how; how = how == SL_ERR_CONFIG ? SL_ERR_NOMEM : SL_OK) {
		assert_int_equal(run((struct play){.fails = "segments", .how = how}, &(struct sl_drive_options){0}),
				 how);
		assert_int_equal(count("blame"), how == SL_ERR_CONFIG);
	}
}

/* Only the test's data, and no file. */
static void an_evaluation_writes_nothing(void **state)
{
	const struct sl_drive_options eval = {.eval_only = true};

	assert_int_equal(run((struct play){0}, &eval), SL_OK);
	assert_int_equal(count("train loader") + count("model") + count("privacy") + count("hush"), 0);
	assert_int_equal(count("eval"), 1);
	assert_int_equal(count("summary"), 1);
	assert_int_equal(count("outputs"), 1);
	assert_int_equal(run((struct play){.fails = "eval", .how = SL_ERR_NONFINITE}, &eval), SL_ERR_NONFINITE);
	assert_int_equal(count("evaluation has NaN"), 1);
	assert_int_equal(count("abandoned"), 0);
}

static void a_prediction_prints_lines_alone(void **state)
{
	struct sl_predict predict = {0};
	const struct sl_drive_options options = {.eval_only = true, .predict = &predict};

	assert_int_equal(run((struct play){0}, &options), SL_OK);
	assert_int_equal(count("predict"), 1);
	assert_int_equal(count("hush"), 1);
	assert_int_equal(count("score") + count("summary") + count("outputs") + count("privacy"), 0);
	assert_int_equal(run((struct play){.fails = "use", .how = SL_ERR_IO}, &options), SL_ERR_IO);
	assert_int_equal(count("hush"), 0);
	assert_int_equal(run((struct play){.fails = "eval", .how = SL_ERR_IO}, &options), SL_ERR_IO);
	assert_int_equal(count("predict"), 0);
}

static void a_step_with_nan_is_skipped_or_ends_the_run(void **state)
{
	struct play p = {.fails = "step", .how = SL_ERR_NONFINITE, .skips = true};

	assert_int_equal(run(p, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(count("set done"), 1);
	assert_int_equal(count("done"), STEPS + 1);
	assert_int_equal(count("score"), STEPS);
	p.skips = false;
	assert_int_equal(run(p, &(struct sl_drive_options){0}), SL_ERR_NONFINITE);
	assert_int_equal(count("set done") + count("done") + count("evaluation has NaN"), 0);
	assert_int_equal(count("model"), 1);
	assert_int_equal(count("privacy"), 0);
	assert_string_equal(play.outcome, "nonfinite");
}

static void a_model_that_cannot_be_written_fails_the_run(void **state)
{
	assert_int_equal(run((struct play){.fails = "model", .how = SL_ERR_IO}, &(struct sl_drive_options){0}),
			 SL_ERR_IO);
	assert_int_equal(count("summary"), 1);
	assert_int_equal(count("privacy"), 0);
	assert_int_equal(run((struct play){.fails = "privacy", .how = SL_ERR_IO}, &(struct sl_drive_options){0}),
			 SL_ERR_IO);
}

static void the_best_weights_may_be_missed(void **state)
{
	assert_int_equal(run((struct play){.best = 1}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(count("best is kept"), 1);
	assert_int_equal(
		run((struct play){.best = 1, .fails = "best file", .how = SL_ERR_IO}, &(struct sl_drive_options){0}),
		SL_OK);
	assert_int_equal(count("best is missed"), 1);
	assert_int_equal(count("model"), 1);
}

static void a_phase_hands_its_end_to_the_next(void **state)
{
	struct sl_phase_end end = {0};
	const struct sl_drive_options options = {.end = &end};
	static const char *const of_a_phase[] = {"give state", "restore", "seek"};
	struct sl_phase_end none = {0};

	assert_int_equal(run((struct play){0}, &options), SL_OK);
	assert_true(end.done);
	assert_int_equal(end.step, STEPS);
	assert_false(play.resumes);
	assert_int_equal(count("give state"), 0);
	assert_int_equal(count("end phase"), 1);
	assert_int_equal(count("take state"), 1);
	setup.phase.index = 1;
	assert_int_equal(run((struct play){0}, &options), SL_OK);
	assert_true(play.resumes);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(run((struct play){.fails = of_a_phase[i], .how = SL_ERR_IO}, &options), SL_ERR_IO);
		for (int j = 0; j < 3; j++)
			assert_int_equal(count(of_a_phase[j]), j <= i);
		assert_int_equal(count("use"), 0);
	}
	setup.phase.index = 0;
	assert_int_equal(
		run((struct play){.fails = "step", .how = SL_ERR_NONFINITE}, &(struct sl_drive_options){.end = &none}),
		SL_ERR_NONFINITE);
	assert_false(none.done);
}

/* The weights are those that the segments have at the end. */
static void weights_that_cannot_be_read_fail_the_run(void **state)
{
	struct sl_fail fail = {0};

	assert_int_equal(run((struct play){0}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(count("get weights"), 1);
	assert_int_equal(run((struct play){.fails = "step", .how = SL_ERR_NONFINITE}, &(struct sl_drive_options){0}),
			 SL_ERR_NONFINITE);
	assert_int_equal(count("get weights"), 1);
	assert_int_equal(run((struct play){.fails = "step", .how = SL_ERR_IO}, &(struct sl_drive_options){0}),
			 SL_ERR_IO);
	assert_int_equal(count("get weights"), 0);
	play = (struct play){.fails = "get weights", .how = SL_ERR_IO};
	assert_int_equal(sl_drive_local(&setup, &(struct sl_drive_options){0}, &fail), SL_ERR_DEVICE);
	assert_string_equal(fail.text, "the weights could not be read back");
	assert_int_equal(count("model"), 0);
}

/* Only a run that has all parties of a vertical group is told of members. */
static void parties_in_one_process_are_members(void **state)
{
	struct sl_setup further = {.conf = &conf};
	const struct sl_setup party = {.conf = &conf};

	assert_int_equal(run((struct play){0}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(play.members, 0);
	setup.n_features = 1;
	setup.features = &party;
	assert_int_equal(run((struct play){0}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(play.members, SL_CONF_PARTIES);
	setup.further = &further;
	assert_int_equal(run((struct play){0}, &(struct sl_drive_options){0}), SL_OK);
	assert_int_equal(play.members, 0);
	setup.further = NULL;
	setup.n_features = 0;
}

/* nohup ignores SIGHUP, which stays so. */
static void nohup_is_respected(void **state)
{
	signal(SIGHUP, SIG_IGN);
	sl_drive_catch_signals();
	assert_ptr_equal(signal(SIGHUP, SIG_DFL), SIG_IGN);
	sl_drive_catch_signals();
	assert_ptr_not_equal(signal(SIGHUP, SIG_DFL), SIG_IGN);
}

/* Last, since the signal stays asked for. */
static void a_signal_ends_the_run_behind_its_step(void **state)
{
	assert_int_equal(run((struct play){.stops = true}, &(struct sl_drive_options){0}), SL_ERR_BUSY);
	assert_int_equal(count("step"), 1);
	assert_int_equal(count("done"), 1);
	assert_int_equal(count("model"), 1);
	assert_int_equal(count("privacy"), 0);
	assert_string_equal(play.outcome, "interrupted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_ends_with_its_model),
		cmocka_unit_test(what_fails_ends_the_run),
		cmocka_unit_test(a_plan_that_cannot_be_has_a_place_in_the_config),
		cmocka_unit_test(an_evaluation_writes_nothing),
		cmocka_unit_test(a_prediction_prints_lines_alone),
		cmocka_unit_test(a_step_with_nan_is_skipped_or_ends_the_run),
		cmocka_unit_test(a_model_that_cannot_be_written_fails_the_run),
		cmocka_unit_test(the_best_weights_may_be_missed),
		cmocka_unit_test(a_phase_hands_its_end_to_the_next),
		cmocka_unit_test(weights_that_cannot_be_read_fail_the_run),
		cmocka_unit_test(parties_in_one_process_are_members),
		cmocka_unit_test(nohup_is_respected),
		cmocka_unit_test(a_signal_ends_the_run_behind_its_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
