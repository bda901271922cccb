/* Events for TensorBoard, read back by a reader of our own: checksums,
 * values, the order of files, steps that are run again, full disks. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <math.h>

#include "client/persist/events.h"
#include "common/base/buf.h"
#include "common/base/folder.h"
#include "tests/support/events.h"
#include "tests/support/unit.h"

enum { MOST = 64 };

static char dir[200];

static int set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/events.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	return 0;
}

static int by_name(const struct dirent *e)
{
	return strstr(e->d_name, "tfevents") != NULL;
}

/* Paths of the event files, in the order in which they are read. */
static int list(char path[MOST][512])
{
	struct dirent **entry;
	int n = scandir(dir, &entry, by_name, alphasort);

	assert_true(n >= 0 && n < MOST);
	for (int i = 0; i < n; i++) {
		snprintf(path[i], 512, "%s/%s", dir, entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
	return n;
}

static int tear_down(void **state)
{
	char path[MOST][512];
	int n = list(path);

	for (int i = 0; i < n; i++)
		unlink(path[i]);
	return rmdir(dir);
}

/* Reads all events of one file, and returns how the reading ended. */
static enum event_read read_file(const char *path, struct event event[MOST], int *n)
{
	struct event_bytes left;
	enum event_read read = EVENT_READ;
	struct sl_fail fail;
	uint8_t *data;

	if (sl_file_read(path, 1 << 20, &data, &left.len, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	left.at = data;
	for (*n = 0; *n < MOST && read == EVENT_READ; *n += read == EVENT_READ)
		read = event_next(&left, &event[*n]);
	free(data);
	return read;
}

static struct sl_events *open_events(bool anew)
{
	struct sl_events *events;
	struct sl_fail fail;

	if (sl_events_open(&events, dir, anew, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return events;
}

static enum sl_err put_step(struct sl_events *events, uint64_t step)
{
	const struct sl_jsonl_step line = {
		.step = step, .loss = (double)step / 3, .acc = NAN, .lr = 0.1, .wire_tx_bytes = 1 << 20};

	return sl_events_step(events, &line);
}

static void checksums(void **state)
{
	uint8_t bytes[32];

	assert_int_equal(sl_crc32c("", 0), 0);
	assert_int_equal(sl_crc32c("123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof bytes);
	assert_int_equal(sl_crc32c(bytes, sizeof bytes), 0x8a9136aa);
	memset(bytes, 0xff, sizeof bytes);
	assert_int_equal(sl_crc32c(bytes, sizeof bytes), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(sl_crc32c(bytes, sizeof bytes), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_int_equal(sl_crc32c(bytes, sizeof bytes), 0x113fdb5c);
}

static float value_of(const struct event *event, const char *tag)
{
	for (int i = 0; i < event->n; i++)
		if (strcmp(event->value[i].tag, tag) == 0)
			return event->value[i].value;
	return NAN;
}

static void what_is_logged_is_read(void **state)
{
	const struct sl_jsonl_step step = {.step = 300,
					   .loss = 1.25,
					   .acc = 0.5,
					   .lr = 0.1,
					   .grad_norm = 1.5,
					   .wire_tx_bytes = 3000000000,
					   .wire_rx_bytes = 7,
					   .t_step_s = 0.25,
					   .t_compute_s = 0.125,
					   .t_wait_s = 0.0625};
	const struct sl_jsonl_step skipped = {
		.step = (uint64_t)1 << 40, .skipped = true, .loss = NAN, .acc = NAN, .lr = 0.1, .grad_norm = NAN};
	const struct sl_jsonl_epoch epoch = {.epoch = 2,
					     .steps = 300,
					     .train_loss = 2,
					     .train_acc = 0.75,
					     .test_loss = 3,
					     .test_acc = 0.875,
					     .wire_tx_bytes = 5,
					     .wire_rx_bytes = 6,
					     .t_train_s = 8,
					     .t_eval_s = 9,
					     .samples_per_s = INFINITY};
	/* every event file begins with a length of 24 and its checksum */
	static const uint8_t begins[] = {24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09};
	struct sl_events *events = open_events(true);
	struct event event[MOST];
	char path[MOST][512];
	struct sl_fail fail;
	uint8_t *data;
	size_t len;
	int n;

	assert_int_equal(list(path), 0); /* no file before the first event */
	assert_int_equal(sl_events_step(events, &step), SL_OK);
	assert_int_equal(sl_events_epoch(events, &epoch), SL_OK);
	assert_int_equal(sl_events_step(events, &skipped), SL_OK);
	assert_int_equal(list(path), 1);
	assert_int_equal(read_file(path[0], event, &n), EVENT_END); /* readable before close */
	assert_int_equal(n, 4);
	assert_string_equal(event[0].version, "brain.Event:2");
	assert_true(fabs(event[0].wall_time - (double)time(NULL)) < 60);
	assert_int_equal(event[1].step, 300);
	assert_int_equal(event[1].n, 9);
	assert_true(value_of(&event[1], "train/grad_norm") == 1.5f);
	assert_true(value_of(&event[1], "train/loss") == 1.25f && value_of(&event[1], "train/acc") == 0.5f);
	assert_true(value_of(&event[1], "lr") == 0.1f && value_of(&event[1], "wire/tx_bytes") == 3e9f);
	assert_true(value_of(&event[1], "wire/rx_bytes") == 7 && value_of(&event[1], "time/step_s") == 0.25f);
	assert_true(value_of(&event[1], "time/compute_s") == 0.125f);
	assert_true(value_of(&event[1], "time/wait_s") == 0.0625f);
	assert_int_equal(event[2].step, 300);
	assert_int_equal(event[2].n, 8); /* samples_per_s is infinite, and left out */
	assert_true(value_of(&event[2], "epoch/train_loss") == 2 && value_of(&event[2], "epoch/train_acc") == 0.75f);
	assert_true(value_of(&event[2], "eval/loss") == 3 && value_of(&event[2], "eval/acc") == 0.875f);
	assert_true(value_of(&event[2], "epoch/tx_bytes") == 5 && value_of(&event[2], "epoch/rx_bytes") == 6);
	assert_true(value_of(&event[2], "epoch/train_s") == 8 && value_of(&event[2], "epoch/eval_s") == 9);
	assert_true(event[3].step == (uint64_t)1 << 40 && event[3].n == 6);
	assert_true(isnan(value_of(&event[3], "train/loss")) && value_of(&event[3], "lr") == 0.1f);
	assert_int_equal(sl_events_sync(events), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	assert_int_equal(sl_file_read(path[0], 1 << 20, &data, &len, &fail), SL_OK);
	assert_memory_equal(data, begins, sizeof begins);
	free(data);
}

/* A second process writes a file that sorts behind the first one, whatever the clock says, and
 * that names the step from which it counts. A crash may have torn the first file's last record. */
static void what_is_run_again_comes_behind(void **state)
{
	struct sl_events *events = open_events(true);
	struct event event[MOST];
	char path[MOST][512], ahead[512];
	int n;

	sl_events_start(events, 1);
	for (uint64_t step = 1; step <= 5; step++)
		assert_int_equal(put_step(events, step), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	assert_int_equal(list(path), 1);
	assert_int_equal(read_file(path[0], event, &n), EVENT_END);
	assert_true(n == 7 && event[1].start && event[1].step == 1);
	for (off_t cut = 1; cut < 150; cut++) { /* the last record, torn anywhere */
		struct stat st;

		assert_int_equal(stat(path[0], &st), 0);
		assert_int_equal(truncate(path[0], st.st_size - 1), 0);
		assert_int_equal(read_file(path[0], event, &n), EVENT_CUT_OFF);
		assert_int_equal(n, 6);
	}
	snprintf(ahead, sizeof ahead, "%s/events.out.tfevents.%010ld.other.1.splitc", dir, time(NULL) + 100000);
	assert_int_equal(rename(path[0], ahead), 0); /* the clock has gone back since */
	for (int again = 1; again <= 3; again++) {
		events = open_events(false);
		sl_events_start(events, 3);
		assert_int_equal(put_step(events, 3), SL_OK);
		sl_events_start(events, 2); /* a link was lost: the same process goes back a step */
		assert_int_equal(put_step(events, 2), SL_OK);
		assert_int_equal(sl_events_close(events), SL_OK);
		assert_int_equal(list(path), 1 + again);
		assert_string_equal(path[0], ahead);
		assert_int_equal(read_file(path[again], event, &n), EVENT_END);
		assert_int_equal(n, 5);
		assert_true(event[0].version[0] && event[1].start && event[1].step == 3 && event[2].step == 3);
		assert_true(event[3].start && event[3].step == 2 && event[4].step == 2 && event[4].n > 0);
	}
}

static void a_run_that_begins_anew_removes_what_was(void **state)
{
	static const char *const others[] = {
		"events.out.tfevents.backup",
		"my.tfevents.1234567890.host.1.splitc",
		"events.out.tfevents.123.host.1.splitc",
		"events.out.tfevents.1700000000.host",        /* TensorFlow 1 */
		"events.out.tfevents.1700000000.host.1.0.v2", /* TensorFlow 2 */
		"events.out.tfevents.1700000000.host.1.0",    /* PyTorch */
	};
	enum { OTHERS = sizeof others / sizeof others[0] };
	struct sl_events *events = open_events(true);
	char path[MOST][512], other[512];

	assert_int_equal(put_step(events, 1), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	for (int i = 0; i < OTHERS; i++) {
		snprintf(other, sizeof other, "%s/%s", dir, others[i]);
		fclose(fopen(other, "w"));
	}
	assert_int_equal(list(path), OTHERS + 1);
	assert_int_equal(sl_events_close(open_events(false)), SL_OK); /* no event: no file */
	assert_int_equal(list(path), OTHERS + 1);
	assert_int_equal(sl_events_close(open_events(true)), SL_OK);
	assert_int_equal(list(path), OTHERS); /* other programs' files stay */
	events = open_events(true);
	assert_int_equal(put_step(events, 1), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	assert_int_equal(list(path), OTHERS + 1);
}

static void set_limit(rlim_t most)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Wherever in a record the disk becomes full: the records before
 * are whole, and so are those written once there is room. */
static void a_full_disk_costs_what_finds_no_room(void **state)
{
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t room = 0; room < 500; room += 7) {
		struct sl_events *events = open_events(true);
		struct event event[MOST];
		char path[MOST][512];
		int n, written = 0;

		sl_events_start(events, 1);
		set_limit(room);
		for (uint64_t step = 1; step <= 4; step++) {
			enum sl_err err = put_step(events, step);

			assert_true(err == SL_OK || err == SL_ERR_IO);
			written += err == SL_OK;
		}
		set_limit(RLIM_INFINITY);
		assert_true(written < 4);
		assert_int_equal(list(path), 1);
		assert_int_equal(read_file(path[0], event, &n), EVENT_END);
		assert_int_equal(put_step(events, 9), SL_OK);
		assert_int_equal(sl_events_close(events), SL_OK);
		assert_int_equal(read_file(path[0], event, &n), EVENT_END);
		assert_int_equal(n, 2 + written + 1);
		assert_true(event[0].version[0] && event[1].start && event[n - 1].step == 9);
		for (int i = 0; i < written; i++)
			assert_int_equal(event[2 + i].step, i + 1);
	}
}

static void a_folder_that_is_gone(void **state)
{
	struct sl_events *events;
	char path[MOST][512];

	events = open_events(false);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(put_step(events, 1), SL_ERR_CANTCREATE);
	assert_int_equal(mkdir(dir, 0777), 0);
	assert_int_equal(put_step(events, 2), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	assert_int_equal(list(path), 1);
	assert_int_equal(put_step(NULL, 1), SL_OK); /* a run without events */
	sl_events_start(NULL, 1);
	assert_int_equal(sl_events_close(NULL), SL_OK);
}

/* Under the run's name there is another folder, as another run makes it: this one writes nothing there. */
static void a_folder_that_is_another_one(void **state)
{
	struct sl_events *events;
	char moved[210], path[MOST][512];

	snprintf(moved, sizeof moved, "%s-moved", dir);
	events = open_events(false);
	sl_folder_hold(dir);
	assert_int_equal(rename(dir, moved) + mkdir(dir, 0777), 0);
	assert_int_equal(put_step(events, 1), SL_ERR_CANTCREATE);
	assert_int_equal(list(path), 0);
	assert_int_equal(rmdir(dir) + rename(moved, dir), 0);
	assert_int_equal(put_step(events, 2), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	assert_int_equal(list(path), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums),
		cmocka_unit_test_setup_teardown(what_is_logged_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_run_again_comes_behind, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_run_that_begins_anew_removes_what_was, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_disk_costs_what_finds_no_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_folder_that_is_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_folder_that_is_another_one, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
