/* The state of a run: what its checkpoints record, wherever the run is interrupted. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "client/persist/model_file.h"
#include "client/persist/same_run.h"
#include "client/train/training.h"
#include "common/base/buf.h"
#include "tests/support/events.h"
#include "tests/support/printed.h"
#include "tests/support/unit.h"

enum { BATCH = 2, STEPS = 3, EVALS = 2, EPOCHS = 3, TEXT = 1 << 16 };

static struct sl_conf_client conf;
static struct sl_setup setup = {.conf = &conf};

static void configure(const char *name, int eval_every)
{
	const char *tmp = getenv("TMPDIR");

	memset(&conf, 0, sizeof conf);
	conf.log.tensorboard = true;
	conf.agreed.batch = BATCH;
	conf.train.epochs = EPOCHS;
	conf.train.eval_every = eval_every;
	conf.train.lr = 0.1;
	snprintf(conf.log.dir, sizeof conf.log.dir, "%s/training-%d-%s", tmp ? tmp : "/tmp", (int)getpid(), name);
	setup.set[SL_SPLIT_TRAIN].count = STEPS * BATCH;
	setup.set[SL_SPLIT_TEST].count = EVALS * BATCH;
}

static struct sl_training *open_run(bool resume)
{
	struct sl_training *run;
	struct sl_fail fail;

	if (sl_training_open(&run, &setup, "remote", false, resume, &fail) || sl_training_begin(run, &fail))
		fail_msg("%s", fail.text);
	return run;
}

static bool takes_turns; /* every second step belongs to another member */
static bool undefined;   /* evaluations have no loss */

/* Runs batches until the end, or `most` of them. Results depend on the batch alone. */
static int go_on(struct sl_training *run, int most)
{
	int done = 0;

	for (; done < most; done++) {
		enum sl_want want = sl_training_next(run);
		struct sl_step_result r = {.rows = BATCH,
					   .answers = BATCH,
					   .correct = 1,
					   .tx_bytes = 100,
					   .rx_bytes = 50,
					   .grad_norm = NAN,
					   .t_step_s = 0.5,
					   .t_server_s = NAN};

		if (want == SL_WANT_FINISH)
			break;
		r.step = sl_training_number(run);
		if (want == SL_WANT_STEP) { /* distinct times: each step and evaluation takes another */
			r.t_step_s = 1 + (double)r.step;
			r.t_compute_s = r.t_step_s / 4;
			r.t_server_s = r.t_step_s / 2;
			r.passed = takes_turns && r.step % 2;
		}
		r.loss = (want == SL_WANT_STEP ? 3 : undefined ? (double)NAN : 7) + (double)r.step / 8;
		sl_training_done(run, &r);
	}
	return done;
}

static char *log_text(void)
{
	static char text[2][TEXT];
	static int which;
	char path[sizeof conf.log.dir + 16];
	FILE *file;
	size_t len;

	which = !which;
	snprintf(path, sizeof path, "%s/log.jsonl", conf.log.dir);
	file = fopen(path, "r");
	assert_non_null(file);
	len = fread(text[which], 1, TEXT - 1, file);
	text[which][len] = 0;
	fclose(file);
	unlink(path);
	rmdir(conf.log.dir);
	return text[which];
}

/* ---- events */

enum { POINTS = 1024 };

struct points {
	int n;
	struct {
		char tag[EVENT_TEXT];
		uint64_t step;
		float value;
	} point[POINTS];
};

static void drop(struct points *p, const char *tag, uint64_t from)
{
	int n = 0;

	for (int i = 0; i < p->n; i++)
		if (p->point[i].step < from || (tag && strcmp(p->point[i].tag, tag) != 0))
			p->point[n++] = p->point[i];
	memset(&p->point[n], 0, (size_t)(p->n - n) * sizeof p->point[0]);
	p->n = n;
}

static void take(struct points *p, const struct event *event, bool heeds_start, bool first_start)
{
	if (event->start && heeds_start && !first_start)
		drop(p, NULL, event->step);
	for (int i = 0; i < event->n; i++) {
		if (!heeds_start)
			drop(p, event->value[i].tag, event->step);
		assert_true(p->n < POINTS);
		memcpy(p->point[p->n].tag, event->value[i].tag, EVENT_TEXT); /* with its trailing zeros */
		p->point[p->n].step = event->step;
		p->point[p->n++].value = event->value[i].value;
	}
}

static int by_tag(const void *a, const void *b)
{
	return memcmp(a, b, sizeof((struct points *)0)->point[0]);
}

static int is_events(const struct dirent *entry)
{
	return strncmp(entry->d_name, "events.out.tfevents.", 20) == 0;
}

/* Reads the events in log.dir that count; with heeds_start it also removes the files. In TensorBoard's Python reader
 * every START but the first drops what the run repeats. In the Rust reader a value drops later ones of its tag. */
static struct points *see_events(bool heeds_start)
{
	static struct points seen[2];
	struct points *p = &seen[heeds_start];
	struct dirent **entry;
	int n = scandir(conf.log.dir, &entry, is_events, alphasort), starts = 0;

	memset(p, 0, sizeof *p);
	for (int i = 0; i < n; i++) {
		char path[sizeof conf.log.dir + 300];
		struct event_bytes left;
		struct event event;
		struct sl_fail fail;
		uint8_t *data;

		snprintf(path, sizeof path, "%s/%s", conf.log.dir, entry[i]->d_name);
		assert_int_equal(sl_file_read(path, 1 << 20, &data, &left.len, &fail), SL_OK);
		for (left.at = data; left.len;) {
			assert_int_equal(event_next(&left, &event), EVENT_READ);
			take(p, &event, heeds_start, starts == 0);
			starts += event.start;
		}
		free(data);
		if (heeds_start)
			unlink(path);
		free(entry[i]);
	}
	free(entry);
	qsort(p->point, (size_t)p->n, sizeof p->point[0], by_tag);
	return p;
}

static void forget_events(struct points *rust, struct points *python)
{
	*rust = *see_events(false);
	*python = *see_events(true);
}

static struct sl_status_session report_of(const struct sl_training *run)
{
	struct sl_status_session s;

	sl_training_report(run, &s);
	return s;
}

/* A run that is interrupted after any batch and resumed has the same log and the same figures. */
static void check_every_place(int eval_every, int evals)
{
	static struct points rust, python, rust_again, python_again;
	const struct sl_training_link none = {.links = 1};
	struct sl_status_session whole, state;
	struct sl_training *run;
	char *undisturbed;
	int batches;

	configure("whole", eval_every);
	run = open_run(false);
	batches = go_on(run, 1000);
	whole = report_of(run);
	sl_training_close(run);
	forget_events(&rust, &python);
	assert_true(python.n == (8 * STEPS * EPOCHS + 7 * EPOCHS + 2 * evals));
	assert_memory_equal(&rust, &python, sizeof rust);
	undisturbed = strdup(log_text());
	for (int at = 0; at <= batches; at++) {
		struct sl_checkpoint c = {.dir = "", .prefix = ""};
		struct sl_fail fail;

		configure("again", eval_every);
		run = open_run(false);
		assert_int_equal(go_on(run, at), at);
		sl_training_save(run, &c);
		sl_training_finish(run, &none, "interrupted", true);
		sl_training_close(run);
		run = open_run(true);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		go_on(run, 1000);
		state = report_of(run);
		sl_training_close(run);
		forget_events(&rust_again, &python_again);
		assert_int_equal(python_again.n, python.n);
		assert_memory_equal(&python_again, &python, sizeof python);
		assert_memory_equal(&rust_again, &rust, sizeof rust);
		assert_string_equal(log_text(), undisturbed);
		assert_true(state.step == whole.step && state.loss == whole.loss);
	}
	free(undisturbed);
}

/* A figure from the summary at the end of log.jsonl. */
static double figure(const char *name)
{
	char path[sizeof conf.log.dir + 16];
	json_t *line = NULL;
	char text[4096];
	double value;
	FILE *file;

	snprintf(path, sizeof path, "%s/log.jsonl", conf.log.dir);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(text, sizeof text, file)) {
		json_decref(line);
		line = json_loads(text, 0, NULL);
	}
	fclose(file);
	assert_string_equal(json_string_value(json_object_get(line, "type")), "summary");
	assert_true(json_is_number(json_object_get(line, name)));
	value = json_number_value(json_object_get(line, name));
	json_decref(line);
	return value;
}

/* However many processes a run had, and however long its evaluations took: the time per batch and both of its shares
 * cover all of the run's own steps, and none of another member. */
static void times_are_of_the_whole_run(void **state)
{
	const struct sl_training_link none = {.links = 1};
	const int steps = STEPS * EPOCHS, own = (steps + 1) / 2;
	const double mean = takes_turns ? own : (steps + 1) / 2.0;

	for (int at = 0; at <= (STEPS + EVALS) * EPOCHS; at++) {
		struct sl_checkpoint c = {.dir = "", .prefix = ""};
		struct sl_training *run;
		struct sl_fail fail;

		configure("times", 1);
		run = open_run(false);
		go_on(run, at);
		sl_training_save(run, &c);
		sl_training_close(run);
		run = open_run(true);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		go_on(run, 1000);
		sl_training_finish(run, &none, "finished", true);
		sl_training_close(run);
		assert_float_equal(figure("t_per_batch_s"), mean, 1e-9);
		assert_float_equal(figure("t_compute_per_batch_s"), mean / 4 + mean / 2, 1e-9);
		assert_float_equal(figure("avg_mb_s"), 100e-6 / (mean * 3 / 4), 1e-9);
		see_events(true);
		log_text();
	}
}

static void times_are_of_own_steps(void **state)
{
	takes_turns = true;
	times_are_of_the_whole_run(state);
	takes_turns = false;
}

/* Three steps were done when the member comes back; `absent` says which of them it has missed. */
static void steps_without_lines_are_told(void **state)
{
	static const struct sl_training_link none;
	static const struct {
		const char *absent, *text;
		bool took, late; /* late: it comes when all steps are done, without files */
	} row[] = {
		/* the process lists all its warnings, so those without one come first; without a record none is known
		 */
		{"", NULL, false, false},
		{"0:3-5", NULL, true, false},
		{"", "no lines of 3 steps", true, false},
		{"0:3,1:4", "no lines of 2 steps", true, false},
		{"0:3-4", "no lines of 1 step ", true, false},
		{"", "nothing was trained here: by the server's record this member has done its ", true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		struct sl_training *run;
		const char *log;

		configure("lines", 1);
		run = open_run(false);
		if (!row[i].late)
			go_on(run, 2);
		sl_training_join(run, row[i].late ? STEPS * EPOCHS : 5, true);
		go_on(run, 1000);
		sl_training_took_part(run, row[i].took, row[i].absent);
		sl_training_finish(run, &none, "finished", true);
		sl_training_close(run);
		see_events(true);
		log = log_text();
		assert_int_equal(strstr(log, "steps-without-lines") != NULL, row[i].text != NULL);
		assert_true(!row[i].text || strstr(log, row[i].text));
	}
}

/* Runs evaluations of epochs from … to-1, with correct[epoch] right answers. `due`: those whose weights are kept. */
static void evaluate(struct sl_training *run, const int *correct, int from, int to, const char *due)
{
	for (int epoch = from; epoch < to; epoch++) {
		for (int i = 0; i < STEPS + EVALS; i++) {
			enum sl_want want = sl_training_next(run);
			const struct sl_step_result r = {.step = sl_training_number(run),
							 .rows = BATCH,
							 .answers = BATCH,
							 .correct = want == SL_WANT_EVAL && i == STEPS ? correct[epoch]
												       : 0,
							 .loss = 1,
							 .t_server_s = NAN};

			assert_false(sl_training_best_due(run));
			sl_training_done(run, &r);
		}
		assert_int_equal(sl_training_best_due(run), due[epoch] != '.');
		if (due[epoch] != '.')
			sl_training_best_kept(run, due[epoch] == 'k');
	}
}

/* Writes the header of a model file of these steps, with the note of its evaluation (NULL: none). */
static void put_best(uint64_t steps, const char *score)
{
	static struct sl_model none = {.graph = {.n_param = 0}};
	static const struct sl_weights nothing = {.n_param = 0};
	struct sl_plan plan = {.model = &none};
	struct sl_setup s = {.conf = &conf, .plan = &plan};
	struct sl_fail fail;

	if (sl_model_file_write(s.conf, s.plan, &nothing, NULL, score, SL_MODEL_BEST, steps, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

/* A run of one epoch is done, and its last evaluation came after its checkpoint. With train.eval_every: 2 a longer run
 * does not repeat that evaluation, and no worse one replaces its weights. */
static void a_longer_run_keeps_the_best(void)
{
	static const int correct[EPOCHS] = {2, 1, 1};
	struct sl_checkpoint c = {.dir = "", .prefix = SL_CHECKPOINT_DONE};
	char score[SL_TRAINING_SCORE];
	struct sl_training *run;
	struct sl_fail fail;

	conf.train.eval_every = 2;
	conf.train.epochs = 1;
	run = open_run(false);
	go_on(run, STEPS);
	sl_training_save(run, &c);
	sl_training_close(run);
	run = open_run(false);
	evaluate(run, correct, 0, 1, "k");
	sl_training_best_score(run, score);
	sl_training_close(run);
	put_best(STEPS, score);
	conf.train.epochs = 2;
	run = open_run(true);
	assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
	assert_int_equal(report_of(run).best_step, STEPS);
	evaluate(run, correct, 1, 2, "..");
	assert_int_equal(report_of(run).best_step, STEPS);
	sl_training_close(run);
	conf.train.eval_every = 1;
	conf.train.epochs = EPOCHS;
}

/* Of equally good evaluations the first is kept; one that could not be written does not count. After a restore a file
 * counts only if it is the one that the checkpoint names. */
static void best_weights_are_kept_once(void **state)
{
	static const int correct[EPOCHS] = {1, 1, 2};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;

	configure("best", 1);
	run = open_run(false);
	evaluate(run, correct, 0, EPOCHS, "...");
	sl_training_close(run);
	conf.train.keep_best = true;
	run = open_run(false);
	evaluate(run, correct, 0, EPOCHS, "fk!");
	assert_int_equal(report_of(run).best_step, 2 * STEPS);
	sl_training_close(run);
	for (int there = 0; there < 3; there++) {
		const uint64_t best[3] = {0, STEPS, 2 * STEPS}; /* no file, the right one, one of a later step */

		run = open_run(false);
		evaluate(run, correct, 0, 1, "k");
		go_on(run, 1);
		c.n_note = 0;
		sl_training_save(run, &c);
		sl_training_close(run);
		if (best[there])
			put_best(best[there], NULL);
		run = open_run(true);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		assert_int_equal(report_of(run).best_step, there == 1 ? STEPS : 0);
		assert_int_equal(sl_training_state(run).step, STEPS + 1);
		sl_training_close(run);
	}
	a_longer_run_keeps_the_best();
	run = open_run(false); /* a new run removes it */
	assert_true(sl_model_file_steps(&conf, SL_MODEL_BEST) == INT64_MAX);
	sl_training_close(run);
	see_events(true);
	log_text();
}

/* A batch counts by its labels in cross-entropy, and by its pictures in the Dice loss, also over a checkpoint. */
static void a_loss_weighs_by_what_it_is_a_mean_of(void **state)
{
	static const struct {
		int64_t rows, answers;
		double entropy, dice;
	} batch[] = {{4, 10, 2, 0.5}, {1, 40, 4, 0.25}, {3, 0, 0, 0.75}, {9, 9, 9, 9}};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	const double want = (10 * 2 + 40 * 4) / 50. + (4 * 0.5 + 0.25 + 3 * 0.75) / 8;
	struct sl_training *run;
	struct sl_fail fail;
	char *text;

	configure("weighs", 1);
	conf.train.epochs = 1;
	setup.set[SL_SPLIT_TRAIN].count = 4 * BATCH;
	setup.set[SL_SPLIT_TEST].count = 3 * BATCH;
	run = open_run(false);
	for (int i = 0; i < 7; i++) { /* four steps, of which the last is skipped; three batches of an evaluation */
		struct sl_step_result r = {.rows = batch[i % 4].rows,
					   .answers = batch[i % 4].answers,
					   .loss = batch[i % 4].entropy + batch[i % 4].dice,
					   .dice = batch[i % 4].dice,
					   .skipped = i == 3,
					   .grad_norm = NAN,
					   .t_server_s = NAN};

		assert_int_equal(sl_training_next(run), i < 4 ? SL_WANT_STEP : SL_WANT_EVAL);
		r.step = sl_training_number(run);
		sl_training_done(run, &r);
		if (i > 1)
			continue;
		sl_training_save(run, &c);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		c.n_note = 0;
	}
	assert_true(fabs(report_of(run).test_loss - want) < 1e-12);
	sl_training_close(run);
	see_events(true);
	text = strstr(log_text(), "\"train_loss\":");
	assert_non_null(text);
	assert_true(fabs(strtod(text + strlen("\"train_loss\":"), NULL) - want) < 1e-12);
}

/* An evaluation whose loss is NaN has no accuracy, and is never the best. */
static void an_undefined_figure_is_never_the_best(void **state)
{
	static const char *const by[] = {"accuracy", "loss"};
	static const double loss[] = {(double)NAN, (double)INFINITY, 1, (double)NAN};
	struct sl_status_session s;
	struct sl_training *run;

	for (int metric = 0; metric < 2; metric++) {
		configure("undefined", 1);
		conf.train.epochs = 4;
		conf.train.keep_best = true;
		snprintf(conf.train.best_metric, sizeof conf.train.best_metric, "%s", by[metric]);
		run = open_run(false);
		for (int epoch = 0; epoch < 4; epoch++) {
			for (int i = 0; i < STEPS + EVALS; i++) {
				const bool eval = sl_training_next(run) == SL_WANT_EVAL;

				sl_training_done(run, &(struct sl_step_result){.step = sl_training_number(run),
									       .rows = BATCH,
									       .answers = BATCH,
									       .correct = epoch == 2 ? 1 : 2,
									       .loss = eval ? loss[epoch] : 1,
									       .grad_norm = NAN,
									       .t_server_s = NAN});
			}
			s = report_of(run);
			assert_int_equal(isnan(s.test_acc), isnan(loss[epoch]));
			/* Inf is a loss, and no NaN: predictions are there, and only the loss has no figure */
			assert_int_equal(sl_training_best_due(run), metric ? epoch == 2 : epoch == 1);
			if (sl_training_best_due(run))
				sl_training_best_kept(run, true);
		}
		assert_int_equal(s.best_step, metric ? 3 * STEPS : 2 * STEPS);
		assert_true(s.best_acc == 1);
		sl_training_close(run);
		see_events(true);
		log_text();
	}
}

/* Notes that a file with a right hash may hold. */
static void places_that_are_none_are_refused(void **state)
{
	static const char *const place[] = {"1 0 -1 0", "1 -1 1 0", "1 0 100000 0", "100000 0 1 0", "one"};
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;

	configure("places", 1);
	run = open_run(false);
	sl_training_save(run, &c);
	assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
	for (size_t i = 0; i < sizeof place / sizeof place[0]; i++) {
		snprintf(c.note[0].value, sizeof c.note[0].value, "%s", place[i]);
		if (sl_training_restore(run, &c, &fail) == SL_OK)
			fail_msg("a run goes on at '%s'", place[i]);
	}
	sl_training_close(run);
}

/* An epoch with another number of batches would end the run in another epoch than train.epochs says. */
static void epochs_of_another_length_are_refused(void **state)
{
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;

	for (int done = 0; done <= 2; done++) {
		configure("length", 1);
		run = open_run(false);
		go_on(run, done * (STEPS + EVALS));
		c.n_note = 0;
		sl_training_save(run, &c);
		sl_training_close(run);
		setup.set[SL_SPLIT_TRAIN].count = (STEPS + 1) * BATCH;
		run = open_run(true);
		assert_int_equal(sl_training_restore(run, &c, &fail), done == 2 ? SL_ERR_MISMATCH : SL_OK);
		assert_true(done < 2 || strstr(fail.text, "train.drop_last")); /* the first epoch only ends later */
		sl_training_close(run);
		see_events(true);
		log_text();
	}
}

static void a_run_goes_on_from_anywhere(void **state)
{
	check_every_place(1, EPOCHS);
}

/* A run that is done evaluates after its last epoch. Made longer, it goes on as if it had always been so long, also
 * where no evaluation follows that epoch any more. */
static void a_longer_run_has_all_epochs(void **state)
{
	static struct points rust, python, rust_whole, python_whole;
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;
	char *whole;

	configure("long", 2);
	run = open_run(false);
	go_on(run, 1000);
	sl_training_close(run);
	forget_events(&rust_whole, &python_whole);
	whole = strdup(log_text());
	configure("longer", 2);
	conf.train.epochs = 1;
	run = open_run(false);
	go_on(run, 1000);
	sl_training_save(run, &c);
	sl_training_close(run);
	conf.train.epochs = EPOCHS;
	run = open_run(true);
	assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
	go_on(run, 1000);
	sl_training_close(run);
	forget_events(&rust, &python);
	assert_string_equal(log_text(), whole);
	assert_memory_equal(&python, &python_whole, sizeof python); /* Rust's reader keeps that evaluation */
	free(whole);
}

static void and_where_few_epochs_are_evaluated(void **state)
{
	check_every_place(2, 2);
	check_every_place(0, 1);
}

/* train.stop: accuracy never changes, so the two evaluations after the first are not better. An interrupted run ends
 * at the same step. */
static void an_early_stop_is_at_the_same_step(void **state)
{
	enum { PATIENCE = 2, STOPS = (1 + PATIENCE) * STEPS, BATCHES = (1 + PATIENCE) * (STEPS + EVALS) };
	const struct sl_training_link none = {.links = 1};

	for (int at = 0; at <= BATCHES; at++) {
		struct sl_checkpoint c = {.dir = "", .prefix = ""};
		struct sl_training *run;
		struct sl_fail fail;

		configure("stop", 1);
		conf.train.epochs = 2 * EPOCHS;
		conf.train.stop.patience = PATIENCE;
		run = open_run(false);
		assert_int_equal(go_on(run, at), at);
		assert_int_equal(sl_training_may_end(run), at > BATCHES - EVALS - 2 && at <= BATCHES - EVALS - 1);
		sl_training_save(run, &c);
		sl_training_close(run);
		run = open_run(true);
		assert_int_equal(sl_training_restore(run, &c, &fail), SL_OK);
		go_on(run, 1000);
		assert_int_equal(sl_training_state(run).step, STOPS);
		assert_int_equal(sl_training_state(run).total_steps, STOPS);
		sl_training_finish(run, &none, "finished", true);
		sl_training_close(run);
		assert_float_equal(figure("steps"), STOPS, 0);
		see_events(true);
		log_text();
	}
}

/* A loss is better if it is lower by more than min_delta. Another metric starts the comparison anew. A value that is
 * not defined is never better, not even as the first one. */
static void an_early_stop_goes_by_its_metric(void **state)
{
	static const struct {
		const char *metric;
		double min_delta;
		uint64_t steps;
		bool undefined;
	} cases[] = {{"loss", 0, 2 * STEPS, false},
		     {"accuracy", 0, 2 * STEPS, false},
		     {"loss", 10, 2 * STEPS, false},
		     {"loss", 0, STEPS, true}};
	struct sl_training *run;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) { /* the test loss of go_on() rises */
		configure("metric", 1);
		conf.train.stop.patience = 1;
		conf.train.stop.min_delta = cases[i].min_delta;
		snprintf(conf.train.stop.metric, sizeof conf.train.stop.metric, "%s", cases[i].metric);
		snprintf(conf.train.best_metric, sizeof conf.train.best_metric, "loss");
		conf.train.keep_best = true;
		undefined = cases[i].undefined;
		run = open_run(false);
		go_on(run, 1000);
		assert_int_equal(sl_training_state(run).step, cases[i].steps);
		assert_false(cases[i].undefined && sl_training_best_due(run));
		sl_training_close(run);
		undefined = false;
		see_events(true);
		log_text();
	}
}

/* Settings that changed between two processes of a run are named, but not those that an older file does not record. */
static void changed_settings_are_named(void **state)
{
	char then[SL_CHECKPOINT_NOTE], text[SL_SAME_RUN_TEXT];

	configure("changed", 1);
	snprintf(conf.data.train_files.item[0], sizeof conf.data.train_files.item[0], "a b.bin");
	conf.data.train_files.n = 1;
	sl_same_run_note(&conf, then);
	assert_false(sl_same_run_changed(&conf, then, text));
	assert_false(sl_same_run_changed(&conf, "", text));
	/* notes of other versions: unknown keys, and no known ones */
	assert_false(sl_same_run_changed(&conf, "2 0 0.1 constant", text));
	assert_true(sl_same_run_changed(&conf, "train.gone=1\ntrain.epochs=7\ntrain.epochs_too=1", text));
	assert_non_null(strstr(text, "train.epochs was 7, is "));
	conf.train.lr = 0.05;
	conf.data.train_limit = 100;
	assert_true(sl_same_run_changed(&conf, then, text));
	assert_string_equal(text, "train.optimizer.lr was 0.1, is 0.05; data.train_limit was 0, is 100");
	conf.data.train_limit = 0;
	conf.train.lr = 0.1;
	conf.data.train_files.n = 0;
	assert_true(sl_same_run_changed(&conf, then, text));
	assert_string_equal(text, "data.train_files was [\"a b.bin\"], is []");
	conf.data.exif = !conf.data.exif;
	conf.data.bits = SL_BITS_16;
	conf.data.jpeg = SL_JPEG_EXACT;
	conf.data.channels = SL_CHANNELS_GREY;
	conf.data.window.n = conf.data.test_transforms.n = 1;
	conf.noise.head_act = 0.5;
	snprintf(conf.data.test_transforms.item[0], sizeof conf.data.test_transforms.item[0], "Resize((32, 32))");
	snprintf(conf.data.window.item[0], sizeof conf.data.window.item[0], "40");
	sl_same_run_note(&conf, then);
	configure("changed", 1);
	assert_true(sl_same_run_changed(&conf, then, text));
	assert_string_equal(text,
			    "data.channels was 1, is network; data.bits was 16, is 8; data.exif was true, is "
			    "false; data.jpeg was exact, is fast; data.window was [\"40\"], is []; "
			    "noise.head_act was 0.5, is 0; data.test_transforms was [\"Resize((32, 32))\"], is []");
	/* a value of which the other is a prefix */
	conf.train.lr = 0.15;
	sl_same_run_note(&conf, then);
	conf.train.lr = 0.1;
	assert_true(sl_same_run_changed(&conf, then, text));
	assert_string_equal(text, "train.optimizer.lr was 0.15, is 0.1");
	/* more files than a note has room for: the note is truncated, and equal to itself */
	conf.data.train_files.n = SL_CONF_LIST_MAX;
	for (int i = 0; i < SL_CONF_LIST_MAX; i++)
		snprintf(conf.data.train_files.item[i], sizeof conf.data.train_files.item[i],
			 "a-file-of-the-data-that-has-a-longer-name-%d.bin", i);
	sl_same_run_note(&conf, then);
	assert_true(strlen(then) < sizeof then && strlen(then) > sizeof then / 2);
	assert_false(sl_same_run_changed(&conf, then, text));
}

/* Names of files are UTF-8, and so are notes: a note is valid UTF-8 wherever it was truncated. */
static void a_note_that_is_cut_off_is_text(void **state)
{
	const struct sl_training_link none = {.links = 1};
	struct sl_training *run;
	struct sl_fail fail;

	for (int shift = 0; shift < 3; shift++) {
		struct sl_checkpoint c = {.dir = conf.log.dir, .prefix = SL_CHECKPOINT_CLIENT};

		configure("utf8", 1);
		conf.data.train_files.n = SL_CHECKPOINT_NOTE / SL_CONF_TEXT + 1; /* more than a note has room for */
		for (int i = 0; i < conf.data.train_files.n; i++) {
			char *name = conf.data.train_files.item[i];

			snprintf(name, SL_CONF_TEXT, "%.*s", i ? 0 : shift, "xxx");
			while (strlen(name) < SL_CONF_TEXT - 4)
				strcat(name, "€");
		}
		run = open_run(false);
		sl_training_save(run, &c);
		if (sl_checkpoint_write(&c, 1, &fail) != SL_OK)
			fail_msg("%d bytes in front: %s", shift, fail.text);
		assert_int_equal(sl_checkpoint_read(&c, 1, &fail), SL_OK);
		sl_checkpoint_clear(c.dir, c.prefix);
		sl_training_finish(run, &none, "interrupted", true);
		sl_training_close(run);
		log_text();
	}
}

/* Returns what a run that ends now prints as JSON. */
static json_t *said_by(struct sl_training *run)
{
	const struct sl_training_link none = {.links = 1};
	const struct printed printed = printed_begin();
	FILE *file;
	json_t *said;

	sl_training_finish(run, &none, "interrupted", true);
	file = printed_end(&printed);
	said = json_loadf(file, 0, NULL);
	fclose(file);
	assert_non_null(said);
	return said;
}

/* Runs an epoch's steps, and `batches` batches of its evaluation, with two labels. */
static void epoch_of_labels(struct sl_training *run, int batches)
{
	static const float right[BATCH * 2] = {1, 0, 0, 1}, said[BATCH * 2] = {1, -1, 1, 1};

	assert_int_equal(go_on(run, STEPS), STEPS);
	for (int i = 0; i < batches; i++) {
		assert_int_equal(sl_training_next(run), SL_WANT_EVAL);
		memcpy(sl_training_outputs(run), said, sizeof said);
		sl_training_score(run, right, BATCH);
		go_on(run, 1);
	}
}

/* Each label has its own figures, but only for whole evaluations. */
static void a_part_of_an_evaluation_has_no_figures(void **state)
{
	for (int batches = 1; batches <= EVALS; batches++) {
		struct sl_training *run;
		json_t *summary;

		configure("part", 1);
		conf.model.task = SL_CONF_SEVERAL_LABELS;
		conf.model.classes = 2;
		run = open_run(false);
		epoch_of_labels(run, EVALS);
		epoch_of_labels(run, batches);
		summary = said_by(run);
		assert_int_equal(json_array_size(json_object_get(summary, "targets")), batches == EVALS ? 2 : 0);
		json_decref(summary);
		sl_training_close(run);
		see_events(true);
		log_text();
	}
}

/* A run goes on from no step behind its end. */
static void a_run_that_became_shorter_is_refused(void **state)
{
	struct sl_checkpoint c = {.dir = "", .prefix = ""};
	struct sl_training *run;
	struct sl_fail fail;

	configure("shorter", 1);
	run = open_run(false);
	go_on(run, 2 * (STEPS + EVALS));
	sl_training_save(run, &c);
	sl_training_close(run);
	conf.train.epochs = 1;
	run = open_run(true);
	assert_int_equal(sl_training_restore(run, &c, &fail), SL_ERR_MISMATCH);
	assert_non_null(strstr(fail.text, "the run ends at"));
	sl_training_close(run);
	see_events(true);
	log_text();
}

/* Each refusal names the key that is wrong. */
static void schedules_that_are_none_are_refused(void **state)
{
	struct sl_fail fail;
	uint64_t steps;

	configure("schedule", 1);
	assert_int_equal(sl_training_steps(&conf, NULL, STEPS * BATCH, 0, &steps, &fail), SL_OK);
	assert_true(steps == STEPS * EPOCHS);
	conf.train.schedule.warmup_epochs = EPOCHS;
	assert_int_equal(sl_training_steps(&conf, NULL, STEPS * BATCH, 0, &steps, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "train.schedule.warmup_epochs (default): "));
	configure("schedule", 1);
	conf.train.drop_last = true;
	assert_int_equal(sl_training_steps(&conf, NULL, BATCH - 1, 0, &steps, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "train.batch (default): "));
	configure("schedule", 1);
	conf.agreed.share.mode = SL_SHARE_ROUNDS;
	conf.agreed.share.round = STEPS * EPOCHS;
	assert_int_equal(sl_training_steps(&conf, NULL, STEPS * BATCH, STEPS, &steps, &fail), SL_OK);
	conf.agreed.share.round--;
	assert_int_equal(sl_training_steps(&conf, NULL, STEPS * BATCH, STEPS, &steps, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "share.round"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_loss_weighs_by_what_it_is_a_mean_of),
		cmocka_unit_test(an_undefined_figure_is_never_the_best),
		cmocka_unit_test(places_that_are_none_are_refused),
		cmocka_unit_test(epochs_of_another_length_are_refused),
		cmocka_unit_test(changed_settings_are_named),
		cmocka_unit_test(a_note_that_is_cut_off_is_text),
		cmocka_unit_test(a_run_goes_on_from_anywhere),
		cmocka_unit_test(times_are_of_the_whole_run),
		cmocka_unit_test(times_are_of_own_steps),
		cmocka_unit_test(steps_without_lines_are_told),
		cmocka_unit_test(best_weights_are_kept_once),
		cmocka_unit_test(an_early_stop_is_at_the_same_step),
		cmocka_unit_test(an_early_stop_goes_by_its_metric),
		cmocka_unit_test(and_where_few_epochs_are_evaluated),
		cmocka_unit_test(a_longer_run_has_all_epochs),
		cmocka_unit_test(a_part_of_an_evaluation_has_no_figures),
		cmocka_unit_test(a_run_that_became_shorter_is_refused),
		cmocka_unit_test(schedules_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
