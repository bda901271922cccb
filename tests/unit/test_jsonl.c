/* log.jsonl: one valid object per line, doubles that keep their value, folders made, errors reported. */

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "client/persist/jsonl.h"
#include "common/base/buf.h"
#include "common/telemetry/chained.h"
#include "tests/support/unit.h"

static char path[4096];

static int setup(void **state)
{
	snprintf(path, sizeof path, "%s/jsonl-%d/a/b/log.jsonl", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
		 (int)getpid());
	return 0;
}

/* Line `index` of the file, as JSON; NULL if the file has no such line. */
static json_t *line(int index)
{
	json_t *json = NULL;
	json_error_t error;
	char text[8192];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	for (int i = 0; fgets(text, sizeof text, file); i++) {
		assert_int_equal(text[strlen(text) - 1], '\n');
		if (i == index)
			json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	}
	fclose(file);
	return json;
}

static double number(const json_t *json, const char *name)
{
	return json_number_value(json_object_get(json, name));
}

static void lines_are_whole_at_once(void **state)
{
	const struct sl_jsonl_step step = {.step = 7,
					   .loss = 0.1 + 0.2,
					   .acc = 1.0 / 3,
					   .lr = 0.4,
					   .grad_norm = 1.5,
					   .wire_tx_bytes = (uint64_t)1 << 40,
					   .wire_rx_bytes = 5,
					   .t_step_s = 0.25,
					   .t_compute_s = 0.125,
					   .t_wait_s = NAN,
					   .t_data_s = 0.0625};
	const struct sl_jsonl_epoch epoch = {
		.epoch = 1, .steps = 391, .train_loss = 1.5, .test_loss = NAN, .test_acc = NAN};
	struct sl_jsonl_summary summary = {.epochs = 2, .steps = 782, .test_acc = 0.5, .outcome = "finished"};
	struct sl_jsonl *log;
	struct sl_fail fail;
	json_t *json;

	summary.direction[0] = (struct sl_jsonl_direction){"head_act", "quant:8", 1000, 900, 3600, 900};
	summary.direction[3] = (struct sl_jsonl_direction){.name = "head_grad", .codec = "none", .raw_bytes = 3};
	assert_int_equal(sl_jsonl_open(&log, path, &fail), SL_OK);
	assert_int_equal(sl_jsonl_step(log, &step), SL_OK);
	json = line(0); /* readable before the log is closed */
	assert_string_equal(json_string_value(json_object_get(json, "type")), "step");
	assert_int_equal(json_integer_value(json_object_get(json, "step")), 7);
	assert_true(number(json, "loss") == 0.1 + 0.2);
	assert_true(number(json, "acc") == 1.0 / 3);
	assert_int_equal(json_integer_value(json_object_get(json, "wire_tx_bytes")), (int64_t)1 << 40);
	assert_true(json_is_null(json_object_get(json, "t_wait_s")));
	assert_true(number(json, "grad_norm") == 1.5);
	assert_true(number(json, "t_data_s") == 0.0625);
	assert_int_equal(json_object_size(json), 13);
	json_decref(json);
	assert_int_equal(sl_jsonl_epoch(log, &epoch), SL_OK);
	assert_int_equal(sl_jsonl_summary(log, &summary), SL_OK);
	assert_int_equal(sl_jsonl_close(log), SL_OK);

	json = line(1);
	assert_string_equal(json_string_value(json_object_get(json, "type")), "epoch");
	assert_true(json_is_null(json_object_get(json, "test_acc")));
	assert_true(number(json, "train_loss") == 1.5);
	json_decref(json);
	json = line(2);
	assert_string_equal(json_string_value(json_object_get(json, "type")), "summary");
	assert_string_equal(json_string_value(json_object_get(json, "outcome")), "finished");
	const json_t *directions = json_object_get(json, "direction");
	assert_int_equal(json_object_size(directions), 2);
	const json_t *head = json_object_get(directions, "head_act");
	assert_string_equal(json_string_value(json_object_get(head, "codec")), "quant:8");
	assert_true(number(head, "wire_bytes") == 1000 && number(head, "payload_bytes") == 900);
	assert_true(number(head, "raw_bytes") == 3600 && number(head, "nominal_bytes") == 900);
	json_decref(json);
	assert_null(line(3));
}

static void append_or_empty(void **state)
{
	const struct sl_jsonl_step step = {.step = 8, .grad_norm = NAN}; /* a NaN is left out of the line */
	struct sl_jsonl *log;
	json_t *json;

	for (int append = 1; append >= 0; append--) {
		assert_int_equal(sl_jsonl_open(&log, path, NULL), SL_OK);
		assert_int_equal(append ? SL_OK : sl_jsonl_empty(log), SL_OK);
		assert_int_equal(sl_jsonl_step(log, &step), SL_OK);
		assert_int_equal(sl_jsonl_close(log), SL_OK);
		json = line(append ? 3 : 0);
		assert_int_equal(json_integer_value(json_object_get(json, "step")), 8);
		json_decref(json);
	}
	assert_null(line(1));
}

/* What a power cut left of five lines: `zeros` at byte `at` of the last but one, and `more` behind the end. The next
 * process goes on behind line `kept`, and the chain holds. */
static void is_mended(int at, int zeros, const char *more, int kept)
{
	char dir[] = "/tmp/split-jsonl.XXXXXX", file[64];
	struct sl_chain chain = {.name = "log.jsonl"};
	uint64_t begin = 0, last = 0;
	struct sl_jsonl *log;
	struct sl_fail fail;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof file, "%s/log.jsonl", dir);
	assert_int_equal(sl_jsonl_open(&log, file, &fail), SL_OK);
	for (uint64_t i = 1; i <= 5; i++) {
		begin = last;
		assert_int_equal(sl_jsonl_tell(log, &last), SL_OK);
		assert_int_equal(sl_jsonl_step(log, &(struct sl_jsonl_step){.step = i}), SL_OK);
	}
	assert_int_equal(sl_jsonl_close(log), SL_OK);
	fd = open(file, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, more, strlen(more)), strlen(more));
	close(fd);
	fd = open(file, O_WRONLY);
	for (int i = 0; i < zeros; i++)
		assert_int_equal(pwrite(fd, "", 1, (off_t)begin + at + i), 1);
	close(fd);
	assert_int_equal(sl_jsonl_open(&log, file, &fail), SL_OK);
	assert_int_equal(sl_jsonl_step(log, &(struct sl_jsonl_step){.step = 6}), SL_OK);
	assert_int_equal(sl_jsonl_close(log), SL_OK);
	if (sl_chain_read(&chain, dir, NULL, NULL, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(chain.n, kept + 1);
	free(chain.after);
	unlink(file);
	rmdir(dir);
}

static void lines_that_a_power_cut_tore_are_cut_off(void **state)
{
	is_mended(0, 0, "", 5);
	is_mended(0, 0, "{\"type\":\"st", 5);
	is_mended(0, 1, "", 3);
	is_mended(40, 30, "", 3); /* in the midst of a line, and the line behind it is whole */
	is_mended(5, 4096, "", 3);
}

/* A second run on the same log is refused before it changes what the first one writes. */
static void a_second_run_is_turned_away(void)
{
	const struct sl_jsonl_step line = {.step = 1};
	char path[] = "/tmp/split-jsonl.XXXXXX";
	struct sl_jsonl *log, *second;
	struct sl_fail fail;
	uint64_t end;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sl_jsonl_open(&log, path, &fail), SL_OK);
	assert_int_equal(sl_jsonl_step(log, &line), SL_OK);
	assert_int_equal(sl_jsonl_open(&second, path, &fail), SL_ERR_BUSY);
	assert_int_equal(sl_jsonl_tell(log, &end), SL_OK);
	assert_true(end > 10);
	assert_int_equal(sl_jsonl_close(log), SL_OK);
	assert_int_equal(sl_jsonl_open(&second, path, &fail), SL_OK);
	assert_int_equal(sl_jsonl_close(second), SL_OK);
	unlink(path);
}

static void faults_are_told(void **state)
{
	const struct sl_jsonl_step step = {.step = 1};
	struct sl_jsonl *log = NULL;
	struct sl_fail fail;

	assert_int_equal(sl_jsonl_open(&log, "/proc/nowhere/log.jsonl", &fail), SL_ERR_CANTCREATE);
	assert_int_equal(sl_jsonl_open(&log, "/", &fail), SL_ERR_CANTCREATE);
	a_second_run_is_turned_away();
	assert_null(log);
	if (access("/dev/full", W_OK) == 0) {
		assert_int_equal(sl_jsonl_open(&log, "/dev/full", &fail), SL_OK);
		assert_int_equal(sl_jsonl_step(log, &step), SL_ERR_IO);
		assert_int_equal(sl_jsonl_close(log), SL_OK);
	}
}

static void no_log_is_fine(void **state)
{
	const struct sl_jsonl_summary summary = {0};
	const struct sl_jsonl_epoch epoch = {0};
	const struct sl_jsonl_step step = {0};

	assert_int_equal(sl_jsonl_step(NULL, &step), SL_OK);
	assert_int_equal(sl_jsonl_epoch(NULL, &epoch), SL_OK);
	assert_int_equal(sl_jsonl_summary(NULL, &summary), SL_OK);
	assert_int_equal(sl_jsonl_close(NULL), SL_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_whole_at_once),
		cmocka_unit_test(append_or_empty),
		cmocka_unit_test(lines_that_a_power_cut_tore_are_cut_off),
		cmocka_unit_test(faults_are_told),
		cmocka_unit_test(no_log_is_fine),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
