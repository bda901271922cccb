/* The figures of a run, compared with hand-counted ones: the order of steps
 * and evaluations, the lines of log.jsonl, and the notes of checkpoints. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "client/train/training.h"
#include "tests/support/unit.h"

static struct sl_conf_client conf;
static struct sl_setup setup = {.conf = &conf};
static char dir[] = "/tmp/test_books.XXXXXX";

/* 2 epochs of 3 training steps: batches of 2, 2 and 1 rows. 3 test images are 2 batches. */
static void configure(int max_steps)
{
	memset(&conf, 0, sizeof conf);
	conf.model.classes = 10;
	conf.agreed.batch = 2;
	conf.train.epochs = 2;
	conf.train.max_steps = max_steps;
	conf.train.eval_every = 1;
	conf.train.lr = 0.1;
	conf.train.schedule.kind = SL_CONF_POLYNOMIAL;
	conf.train.schedule.power = 1;
	snprintf(conf.log.dir, sizeof conf.log.dir, "%s", dir);
	setup.set[SL_SPLIT_TRAIN].count = 5;
	setup.set[SL_SPLIT_TEST].count = 3;
}

static struct sl_training *open_run(void)
{
	struct sl_training *run;
	struct sl_fail fail;

	if (sl_training_open(&run, &setup, "remote", false, false, &fail) || sl_training_begin(run, &fail))
		fail_msg("%s", fail.text);
	return run;
}

/* Expects that the run asks for this batch next, and reports its result with that many rows. */
static void one(struct sl_training *run, enum sl_want want, uint64_t number, int64_t rows, int64_t correct)
{
	struct sl_step_result r = {.step = number,
				   .rows = rows,
				   .answers = rows,
				   .correct = correct,
				   .loss = (double)number + 1,
				   .tx_bytes = 100,
				   .rx_bytes = 7,
				   .t_step_s = 0.5,
				   .t_compute_s = 0.75}; /* a sum over two threads */

	assert_int_equal(sl_training_next(run), want);
	assert_int_equal(sl_training_number(run), number);
	r.lr = sl_training_lr(run);
	assert_true(want == SL_WANT_EVAL ? r.lr == 0 : r.lr > 0);
	sl_training_done(run, &r);
}

static void skipped(struct sl_training *run)
{
	const struct sl_step_result r = {.step = sl_training_number(run),
					 .rows = 2,
					 .skipped = true,
					 .loss = NAN,
					 .tx_bytes = 100,
					 .rx_bytes = 7,
					 .t_step_s = 0.5};

	sl_training_done(run, &r);
}

/* The number-th line of this type in the log. */
static json_t *line_of(const char *type, int number)
{
	char path[64], text[4096];
	json_t *line = NULL;
	FILE *file;

	snprintf(path, sizeof path, "%s/log.jsonl", dir);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(text, sizeof text, file)) {
		json_decref(line);
		line = json_loads(text, 0, NULL);
		assert_non_null(line);
		if (strcmp(json_string_value(json_object_get(line, "type")), type) == 0 && --number == 0)
			break;
	}
	fclose(file);
	assert_int_equal(number, 0);
	return line;
}

static void says(json_t *line, const char *key, double value)
{
	double is = json_number_value(json_object_get(line, key));

	if (!(fabs(is - value) < 1e-9))
		fail_msg("%s is %g, not %g", key, is, value);
}

static void close_run(struct sl_training *run, const char *outcome)
{
	const struct sl_training_link link = {.links = 1};

	sl_training_finish(run, &link, outcome, true);
	sl_training_close(run);
}

/* Traffic adds up over a run's processes, also those that were killed, and is never counted
 * twice. Here log.dir has newer figures than the checkpoint that the run is restored from. */
static void what_processes_carried_adds_up(void **state)
{
	static const struct sl_traffic carried[SL_WAYS] = {{1000, 3, 2, 1}, {200, 6, 5, 4}};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_status_session now;
	struct sl_training *run;
	struct sl_fail fail;

	configure(5);
	run = open_run();
	sl_training_save(run, &c);
	sl_training_carried(run, carried);
	sl_training_close(run);
	for (int again = 1; again <= 2; again++) {
		assert_int_equal(sl_training_open(&run, &setup, "remote", false, true, &fail), SL_OK);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		sl_training_carried(run, carried);
		sl_training_save(run, &c);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		sl_training_report(run, &now);
		assert_int_equal(now.wire_tx_bytes, 1000 * (again + 1));
		assert_int_equal(now.curve_tx_bytes, again + 1);
		assert_int_equal(now.weights_rx_bytes, 6 * (again + 1));
		sl_training_close(run);
	}
	run = open_run(); /* a new run starts at 0 */
	sl_training_carried(run, carried);
	sl_training_report(run, &now);
	assert_int_equal(now.wire_tx_bytes, 1000);
	sl_training_close(run);
}

/* train.max_steps ends the second epoch early. The first evaluation has the better accuracy. */
static void every_figure_is_what_was_counted(void **state)
{
	static const struct sl_traffic carried[SL_WAYS] = {{900, 400, 30, 20}, {63, 3, 2, 1}};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_status_session now;
	struct sl_training *run;
	json_t *line;

	configure(5);
	run = open_run();
	one(run, SL_WANT_STEP, 0, 2, 1);
	sl_training_report(run, &now);
	assert_true(fabs(now.left_s - 4 * 2 * 0.25) < 1e-9);
	assert_int_equal(now.epochs, 2);
	one(run, SL_WANT_STEP, 1, 2, 2);
	one(run, SL_WANT_STEP, 2, 1, 1);
	one(run, SL_WANT_EVAL, 0, 2, 2);
	one(run, SL_WANT_EVAL, 1, 1, 1);
	one(run, SL_WANT_STEP, 3, 2, 1);
	one(run, SL_WANT_STEP, 4, 2, 1);
	sl_training_carried(run, carried);
	sl_training_save(run, &c);
	one(run, SL_WANT_EVAL, 0, 2, 1);
	one(run, SL_WANT_EVAL, 1, 1, 0);
	assert_int_equal(sl_training_next(run), SL_WANT_FINISH);
	close_run(run, "finished");
	line = line_of("epoch", 1);
	says(line, "train_loss", (1 * 2 + 2 * 2 + 3 * 1) / 5.0);
	says(line, "train_acc", 4 / 5.0);
	says(line, "test_loss", (1 * 2 + 2 * 1) / 3.0);
	says(line, "test_acc", 1);
	says(line, "lr", 0.1 * 3 / 5);
	says(line, "wire_tx_bytes", 300);
	says(line, "samples_per_s", 5 / 1.5);
	assert_int_equal(json_object_size(json_object_get(line, "test_metrics")), 1);              /* only top5 */
	assert_true(json_is_null(json_object_get(json_object_get(line, "test_metrics"), "top5"))); /* no outputs */
	json_decref(line);
	line = line_of("epoch", 2);
	says(line, "steps", 5);
	says(line, "train_loss", (4 * 2 + 5 * 2) / 4.0);
	says(line, "test_loss", (1 * 2 + 2 * 1) / 3.0);
	says(line, "test_acc", 1 / 3.0);
	says(line, "lr", 0.1 * 1 / 5);
	json_decref(line);
	line = line_of("step", 3);
	says(line, "step", 3);
	says(line, "acc", 1); /* the batch has one row */
	says(line, "t_wait_s", 0);
	json_decref(line);
	line = line_of("summary", 1);
	says(line, "epochs", 2);
	says(line, "steps", 5);
	says(line, "samples", 9 + 6);
	says(line, "test_acc", 1 / 3.0);
	says(line, "best_test_acc", 1);
	says(line, "wire_tx_bytes", 900);
	says(line, "wire_rx_bytes", 63);
	says(line, "weights_tx_bytes", 400);
	says(line, "framing_tx_bytes", 30);
	says(line, "curve_rx_bytes", 1);
	assert_true(json_number_value(json_object_get(line, "t_total_s")) > 0);
	json_decref(line);
	assert_int_equal(strncmp(sl_checkpoint_noted(&c, "position"), "5 1 2 ", 6), 0);
	/* Samples: all, of training, of evaluations. Bytes sent and received: all, of training. */
	assert_int_equal(strncmp(sl_checkpoint_noted(&c, "totals"), "12 9 3 700 49 500 35 ", 21), 0);
	assert_string_equal(sl_checkpoint_noted(&c, "skipped"), "0 0");
}

/* An evaluation follows every train.eval_every epochs, and the last epoch. */
static void evaluations_come_when_they_are_due(void **state)
{
	static const char *const all[] = {"SSSSSSSSSSSSEE", "SSSEESSSEESSSEESSSEE", "SSSSSSEESSSSSSEE",
					  "SSSSSSSSSEESSSEE"};

	for (int every = 0; every < 4; every++) {
		struct sl_training *run;
		char done[32] = "";
		int n = 0;

		configure(0);
		conf.train.epochs = 4;
		conf.train.eval_every = every;
		run = open_run();
		for (enum sl_want want; n < 31 && (want = sl_training_next(run)) != SL_WANT_FINISH;) {
			one(run, want, sl_training_number(run), 1, 1);
			done[n++] = want == SL_WANT_STEP ? 'S' : 'E';
		}
		assert_string_equal(done, all[every]);
		close_run(run, "finished");
	}
}

static void an_epoch_that_is_interrupted_is_none(void **state)
{
	struct sl_training *run;
	json_t *line;

	configure(0);
	run = open_run();
	for (uint64_t step = 0; step < 3; step++)
		one(run, SL_WANT_STEP, step, 2, 1);
	for (uint64_t batch = 0; batch < 2; batch++)
		one(run, SL_WANT_EVAL, batch, 2, 1);
	one(run, SL_WANT_STEP, 3, 2, 1);
	close_run(run, "interrupted");
	line = line_of("summary", 1);
	says(line, "epochs", 1);
	says(line, "steps", 4);
	json_decref(line);
}

/* The link is lost during the evaluation, and the run goes back to the step before it. */
static void an_evaluation_that_is_interrupted_begins_anew(void **state)
{
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;
	json_t *line;

	configure(3);
	run = open_run();
	for (uint64_t step = 0; step < 3; step++)
		one(run, SL_WANT_STEP, step, 2, 1);
	sl_training_save(run, &c);
	one(run, SL_WANT_EVAL, 0, 2, 2);
	assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
	one(run, SL_WANT_EVAL, 0, 2, 1);
	one(run, SL_WANT_EVAL, 1, 1, 0);
	assert_int_equal(sl_training_next(run), SL_WANT_FINISH);
	close_run(run, "finished");
	line = line_of("epoch", 1);
	says(line, "test_acc", 1 / 3.0);
	json_decref(line);
	line = line_of("summary", 1);
	says(line, "samples", 6 + 3);
	json_decref(line);
}

/* A checkpoint whose notes have more batches of an epoch than steps is refused, also where a phase began anywhere. */
static void notes_that_cannot_be_are_refused(void **state)
{
	static const char *const bad[] = {"1 0 2 0", "1 -1 0 0", "1 0 -1 0", "7 0 0 0", "1 0"};
	struct sl_training *run;
	struct sl_fail fail;

	configure(3);
	run = open_run();
	setup.phase.count = 1;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sl_checkpoint c = {.dir = "", .prefix = ""};

		sl_training_save(run, &c);
		snprintf(c.note[0].value, sizeof c.note[0].value, "%s", bad[i]);
		assert_string_equal(sl_checkpoint_noted(&c, "position"), bad[i]);
		assert_int_not_equal(sl_training_restore(run, &c, &fail), SL_OK);
	}
	setup.phase.count = 0;
	sl_training_close(run);
}

/* A train.max_steps above the steps of all epochs changes nothing. */
static void more_steps_than_there_are_are_none(void **state)
{
	struct sl_fail fail;
	uint64_t steps;

	configure(100);
	assert_int_equal(sl_training_steps(&conf, NULL, 5, 0, &steps, &fail), SL_OK);
	assert_int_equal(steps, 6);
	configure(4);
	assert_int_equal(sl_training_steps(&conf, NULL, 5, 0, &steps, &fail), SL_OK);
	assert_int_equal(steps, 4);
}

/* Only steps skipped in a row count towards the limit: an applied step resets the count, and so does a restore. */
static void so_many_steps_are_skipped_in_a_row(void **state)
{
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN"};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;

	configure(0);
	conf.train.epochs = 20;
	conf.train.on_nan = SL_NAN_SKIP;
	setup.set[SL_SPLIT_TRAIN].count = 200;
	run = open_run();
	assert_int_equal(sl_training_next(run), SL_WANT_STEP);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < SL_TRAINING_MAX_SKIPPED; i++) {
			assert_int_equal(sl_training_abandoned(run, &why, &fail), SL_OK);
			skipped(run);
		}
		assert_int_equal(sl_training_abandoned(run, &why, &fail), SL_ERR_NONFINITE);
		if (turn == 0)
			one(run, SL_WANT_STEP, 10, 2, 1);
		if (turn == 1) {
			sl_training_save(run, &c);
			assert_string_equal(sl_checkpoint_noted(&c, "skipped"), "20 10");
			assert_null(strstr(sl_checkpoint_noted(&c, "train"), "nan"));
			assert_int_equal(sl_training_restore(run, NULL, &fail), SL_OK);
			assert_int_equal(sl_training_next(run), SL_WANT_STEP);
		}
	}
	close_run(run, "nonfinite");
}

/* A skipped step has no loss, but its bytes and its time count. */
static void an_epoch_counts_what_skipped_steps_sent(void **state)
{
	struct sl_training *run;
	json_t *line;

	configure(3);
	run = open_run();
	one(run, SL_WANT_STEP, 0, 2, 1);
	assert_int_equal(sl_training_next(run), SL_WANT_STEP);
	skipped(run);
	one(run, SL_WANT_STEP, 2, 1, 1);
	one(run, SL_WANT_EVAL, 0, 2, 0);
	one(run, SL_WANT_EVAL, 1, 1, 0);
	close_run(run, "finished");
	line = line_of("epoch", 1);
	says(line, "wire_tx_bytes", 300);
	says(line, "wire_rx_bytes", 21);
	says(line, "t_train_s", 1.5);
	says(line, "samples_per_s", 5 / 1.5);
	says(line, "train_loss", (2 * 1 + 1 * 3) / 3.0);
	says(line, "train_acc", 2 / 3.0);
	json_decref(line);
}

/* In fp16 the steps that are skipped while the loss scale is being found are allowed in addition. */
static void a_scaled_loss_may_skip_more(void **state)
{
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN"};
	struct sl_training *run;
	struct sl_fail fail;

	configure(0);
	conf.train.epochs = 20;
	conf.train.on_nan = SL_NAN_SKIP;
	conf.agreed.precision = SL_CONF_FP16;
	setup.set[SL_SPLIT_TRAIN].count = 200;
	run = open_run();
	assert_int_equal(sl_training_next(run), SL_WANT_STEP);
	for (int i = 0; i < SL_TRAINING_MAX_SKIPPED + SL_TRAINING_MAX_SCALED; i++) {
		assert_int_equal(sl_training_abandoned(run, &why, &fail), SL_OK);
		skipped(run);
	}
	assert_int_equal(sl_training_abandoned(run, &why, &fail), SL_ERR_NONFINITE);
	close_run(run, "nonfinite");
}

static int make_folder(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[64];

	snprintf(path, sizeof path, "%s/log.jsonl", dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/sessions.jsonl", dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/traffic", dir);
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_processes_carried_adds_up),
		cmocka_unit_test(every_figure_is_what_was_counted),
		cmocka_unit_test(evaluations_come_when_they_are_due),
		cmocka_unit_test(an_epoch_that_is_interrupted_is_none),
		cmocka_unit_test(an_evaluation_that_is_interrupted_begins_anew),
		cmocka_unit_test(notes_that_cannot_be_are_refused),
		cmocka_unit_test(more_steps_than_there_are_are_none),
		cmocka_unit_test(so_many_steps_are_skipped_in_a_row),
		cmocka_unit_test(an_epoch_counts_what_skipped_steps_sent),
		cmocka_unit_test(a_scaled_loss_may_skip_more),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
