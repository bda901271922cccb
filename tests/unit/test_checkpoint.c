/* Checkpoint files: what is written is read back. A damaged file or that of another
 * run is refused with a message. Only the files that are still needed stay. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/checkpoint.h"
#include "tests/support/unit.h"

enum { FLOATS = 5, BYTES = 9, ROOM = 16 };

static char dir[] = "/tmp/test_checkpoint.XXXXXX";

struct state {
	float weights[FLOATS];
	uint8_t codec[ROOM];
	struct sl_checkpoint c;
};

static void open_state(struct state *s, bool reading)
{
	*s = (struct state){.c = {.dir = dir, .prefix = "side"}};
	for (int i = 0; i < FLOATS && !reading; i++)
		s->weights[i] = 0.5f + (float)i;
	for (int i = 0; i < BYTES && !reading; i++)
		s->codec[i] = (uint8_t)(200 + i);
	sl_checkpoint_floats(&s->c, "weights", s->weights, FLOATS);
	sl_checkpoint_bytes(&s->c, "codec", s->codec, reading ? ROOM : BYTES);
	sl_checkpoint_note(&s->c, "plan", "%s", "0123");
	sl_checkpoint_note(&s->c, "session", "%s", reading ? "" : "abc");
}

static void path_of(char out[128], int step, const char *suffix)
{
	snprintf(out, 128, "%s/side-%012d.safetensors%s", dir, step, suffix);
}

static bool there(int step, const char *suffix)
{
	char path[128];

	path_of(path, step, suffix);
	return access(path, F_OK) == 0;
}

static void write_step(int step, const uint64_t *pin, int n_pin)
{
	struct sl_fail fail;
	struct state s;

	open_state(&s, false);
	for (int i = 0; i < n_pin; i++)
		s.c.pin[s.c.n_pin++] = pin[i];
	assert_int_equal(sl_checkpoint_write(&s.c, (uint64_t)step, &fail), SL_OK);
}

static void what_is_written_is_read(void **state)
{
	struct sl_fail fail;
	struct state a, b;

	write_step(7, NULL, 0);
	open_state(&a, false);
	open_state(&b, true);
	assert_int_equal(sl_checkpoint_read(&b.c, 7, &fail), SL_OK);
	assert_memory_equal(a.weights, b.weights, sizeof a.weights);
	assert_int_equal(b.c.part[1].count, BYTES);
	assert_memory_equal(a.codec, b.codec, BYTES);
	assert_string_equal(sl_checkpoint_noted(&b.c, "session"), "abc");
	assert_int_equal(sl_checkpoint_read(&b.c, 8, &fail), SL_ERR_NOINPUT);
}

/* Flips one bit of each byte of the file in turn, and cuts it to each length.
 * The file is read with all its parts, and only checked, without parts. */
static void nothing_damaged_is_read(void **state)
{
	uint8_t image[4096], bad[4096];
	struct sl_fail fail;
	struct state s;
	ssize_t len;
	char path[128];
	int fd;

	path_of(path, 7, "");
	fd = open(path, O_RDONLY);
	len = read(fd, image, sizeof image);
	close(fd);
	assert_true(len > 200 && len < (ssize_t)sizeof image);
	for (ssize_t at = 0; at < 2 * len; at++) {
		ssize_t size = at < len ? len : at - len;

		memcpy(bad, image, (size_t)len);
		if (at < len)
			bad[at] ^= (uint8_t)(1 << at % 8);
		fd = open(path, O_WRONLY | O_TRUNC);
		assert_int_equal(write(fd, bad, (size_t)size), size);
		close(fd);
		open_state(&s, true);
		if (sl_checkpoint_read(&s.c, 7, &fail) == SL_OK)
			fail_msg("%zd of %zd: read", at, len);
		s.c.n_part = 0;
		s.c.n_note = 0;
		if (sl_checkpoint_read(&s.c, 7, &fail) == SL_OK)
			fail_msg("%zd of %zd: checked", at, len);
	}
	/* An intact file under the name of another step. */
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, image, (size_t)len), len);
	close(fd);
	open_state(&s, true);
	assert_int_equal(sl_checkpoint_read(&s.c, 7, &fail), SL_OK);
	path_of((char *)bad, 8, "");
	assert_int_equal(rename(path, (char *)bad), 0);
	open_state(&s, true);
	assert_int_equal(sl_checkpoint_read(&s.c, 8, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "damaged"));
	sl_checkpoint_clear(dir, "side");
}

static void another_plan_is_refused_with_both_named(void **state)
{
	struct sl_fail fail;
	struct state s;

	write_step(7, NULL, 0);
	open_state(&s, true);
	strcpy(s.c.note[0].value, "4567");
	assert_int_equal(sl_checkpoint_read(&s.c, 7, &fail), SL_ERR_MISMATCH);
	assert_non_null(strstr(fail.text, "side-000000000007.safetensors: its plan is 0123, this run's is 4567"));
	open_state(&s, true);
	s.c.part[0].count = FLOATS + 1;
	assert_int_equal(sl_checkpoint_read(&s.c, 7, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "its 'weights' has 5 values of F32, this run's has 6 of F32"));
	sl_checkpoint_clear(dir, "side");
}

/* The file of the step where a phase begins may be of another plan,
 * if its parameters have the same layout. No other file may. */
static void a_border_is_read_by_another_plan(void **state)
{
	struct sl_fail fail;
	struct state s;

	for (int layout = 0; layout < 3; layout++) {
		open_state(&s, false);
		if (layout)
			sl_checkpoint_note(&s.c, "layout", "%s", layout == 1 ? "aa" : "bb");
		assert_int_equal(sl_checkpoint_write(&s.c, 7, &fail), SL_OK);
		for (uint64_t border = 0; border < 9; border++) {
			const bool crosses = border == 7 && layout == 1;

			open_state(&s, true);
			strcpy(s.c.note[0].value, "4567");
			sl_checkpoint_note(&s.c, "layout", "%s", "aa");
			s.c.note[s.c.n_note - 1].may_lack = true;
			s.c.border = border;
			assert_int_equal(sl_checkpoint_read(&s.c, 7, &fail), crosses       ? SL_OK
									     : border != 7 ? SL_ERR_MISMATCH
									     : layout == 2 ? SL_ERR_MISMATCH
											   : SL_ERR_DATA);
			assert_true(!crosses || s.weights[1] == 1.5f);
		}
		sl_checkpoint_clear(dir, "side");
	}
}

/* Parts and notes have other types or lengths than the reader expects. They
 * are refused, and nothing is written outside the reader's buffers. */
static void parts_and_notes_of_other_lengths_are_refused(void **state)
{
	char text[SL_CHECKPOINT_NOTE + 1];
	float longer[ROOM + 1] = {0};
	const struct sl_st_note note[] = {{"plan", "0123"}, {"session", text}};
	const struct {
		int floats, bytes;
		const char *type[2]; /* of the weights and of the codec's state */
		int session;
		const char *why;
	} bad[] = {
		{FLOATS, ROOM, {"F32", "U8"}, 3, "damaged"}, /* everything fits, but there is no valid hash */
		{FLOATS - 1, ROOM, {"F32", "U8"}, 3, "'weights' has 4 values of F32, this run's has 5 of F32"},
		{FLOATS, ROOM + 1, {"F32", "U8"}, 3, "'codec' has 17 values of U8, this run's has at most 16 of U8"},
		{FLOATS, ROOM, {"F32", "F32"}, 3, "'codec' has 16 values of F32, this run's has at most 16 of U8"},
		{FLOATS, ROOM, {"U8", "U8"}, 3, "'weights' has 5 values of U8, this run's has 5 of F32"},
		{FLOATS, ROOM, {"F32", "U8"}, SL_CHECKPOINT_NOTE, "no note 'session'"},
	};
	struct sl_fail fail;
	struct state s;
	char path[128];

	path_of(path, 7, "");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const struct sl_st_item item[] = {
			{.name = "weights", .dtype = bad[i].type[0], .ndim = 1, .dim = {bad[i].floats}, .data = longer},
			{.name = "codec", .dtype = bad[i].type[1], .ndim = 1, .dim = {bad[i].bytes}, .data = longer}};

		memset(text, 'a', sizeof text);
		text[bad[i].session] = '\0';
		assert_int_equal(sl_st_write(path, item, 2, note, 2, SL_FP_NONE, &fail), SL_OK);
		open_state(&s, true);
		assert_int_equal(sl_checkpoint_read(&s.c, 7, &fail), SL_ERR_DATA);
		if (!strstr(fail.text, bad[i].why))
			fail_msg("%zu: %s", i, fail.text);
	}
	sl_checkpoint_clear(dir, "side");
}

/* The steps of 1 … 9 that have a file, as a string of digits. */
static const char *steps(void)
{
	static char out[16];
	int n = 0;

	for (int step = 1; step <= 9; step++)
		if (there(step, ""))
			out[n++] = (char)('0' + step);
	out[n] = '\0';
	return out;
}

static void the_newest_two_and_the_pinned_stay(void **state)
{
	const uint64_t pin[] = {1, 3};
	uint64_t step = UINT64_MAX;
	char path[128];

	for (int s = 1; s <= 3; s++)
		write_step(s, NULL, 0);
	assert_string_equal(steps(), "23");
	write_step(1, NULL, 0); /* the run went back to step 1: later files are removed */
	assert_string_equal(steps(), "1");
	for (int s = 2; s <= 6; s++)
		write_step(s, pin, 2);
	assert_string_equal(steps(), "1356");
	for (const char *left = "6531"; *left; left++) {
		assert_true(sl_checkpoint_older(dir, "side", &step));
		assert_int_equal(step, *left - '0');
	}
	assert_false(sl_checkpoint_older(dir, "side", &step));
	assert_int_equal(step, 1);
	write_step(4, pin, 2);
	assert_string_equal(steps(), "134");
	write_step(7, NULL, 0);
	assert_string_equal(steps(), "47");
	/* Files that a killed process left behind, and files of other programs. */
	path_of(path, 9, ".tmp");
	close(open(path, O_WRONLY | O_CREAT, 0600));
	path_of(path, 5, ".old");
	close(open(path, O_WRONLY | O_CREAT, 0600));
	write_step(8, NULL, 0);
	assert_string_equal(steps(), "78");
	assert_false(there(9, ".tmp"));
	assert_true(there(5, ".old"));
	path_of(path, 9, ".tmp");
	close(open(path, O_WRONLY | O_CREAT, 0600));
	sl_checkpoint_clear(dir, "side");
	assert_string_equal(steps(), "");
	assert_false(there(9, ".tmp"));
	assert_true(there(5, ".old"));
	path_of(path, 5, ".old");
	unlink(path);
}

static int syncs;

/* Replaces libc's fsync, to count the calls. */
int fsync(int fd)
{
	syncs++;
	return fdatasync(fd);
}

/* A run that goes back to a step keeps that step's file and earlier
 * ones. Later files are removed, and the folder is synced. */
static void going_back_leaves_what_is_gone_back_to(void **state)
{
	const uint64_t pin[] = {1, 2, 3};
	uint64_t any = UINT64_MAX;
	char path[128];

	for (int step = 1; step <= 4; step++)
		write_step(step, pin, 3);
	syncs = 0;
	sl_checkpoint_leave(dir, "side", UINT64_MAX);
	sl_checkpoint_leave(dir, "side", 4);
	assert_string_equal(steps(), "1234");
	assert_int_equal(syncs, 0);
	sl_checkpoint_leave(dir, "side", 2);
	assert_string_equal(steps(), "12");
	assert_int_equal(syncs, 1);
	sl_checkpoint_clear(dir, "side");
	/* A name that only resembles a checkpoint's. */
	snprintf(path, sizeof path, "%s/side-12abcdefghij.safetensors", dir);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_false(sl_checkpoint_older(dir, "side", &any));
	unlink(path);
}

static void what_could_not_be_written_leaves_the_rest(void **state)
{
	struct sl_checkpoint_state shown = {0};
	struct sl_fail fail;
	struct state s;
	char path[128];

	write_step(2, NULL, 0);
	write_step(3, NULL, 0);
	sl_checkpoint_good(&shown, 3);
	path_of(path, 5, ""); /* a folder has the name of the file to write */
	assert_int_equal(mkdir(path, 0700), 0);
	open_state(&s, false);
	assert_int_equal(sl_checkpoint_write(&s.c, 5, &fail), SL_ERR_CANTCREATE);
	assert_false(there(5, ".tmp"));
	assert_true(there(2, "") && there(3, "")); /* both stay: the newer one may prove unreadable */
	sl_checkpoint_missed(&shown, 5, &fail);
	assert_int_equal(shown.good, 3);
	assert_int_equal(shown.missed, 5);
	assert_string_equal(shown.why, "side-000000000005.safetensors: Is a directory");
	sl_checkpoint_good(&shown, 6); /* the next good one clears the failure */
	assert_int_equal(shown.missed, 0);
	assert_string_equal(shown.why, "");
	rmdir(path);
	open_state(&s, true);
	assert_int_equal(sl_checkpoint_read(&s.c, 3, &fail), SL_OK);
	sl_checkpoint_clear(dir, "side");
}

/* As many parts or notes as there is room for are accepted. One
 * more is dropped, and then neither write nor read succeeds. */
static void more_than_fit_are_a_bug(void **state)
{
	static char name[SL_CHECKPOINT_MAX_NOTES + 1][4]; /* enough names for parts, too */
	struct sl_fail fail;

	for (int i = 0; i <= SL_CHECKPOINT_MAX_NOTES; i++)
		snprintf(name[i], sizeof name[i], "%02d", i);

	for (int notes = 0; notes <= 1; notes++) {
		const int most = notes ? SL_CHECKPOINT_MAX_NOTES : SL_CHECKPOINT_MAX_PARTS;
		struct guarded {
			struct sl_checkpoint c;
			uint64_t guard;
		} g = {.c = {.dir = dir, .prefix = "side"}, .guard = 42};
		uint8_t byte = 1;

		for (int i = 0; i < most; i++)
			notes ? sl_checkpoint_note(&g.c, name[i], "%d", i)
			      : sl_checkpoint_bytes(&g.c, name[i], &byte, 1);
		assert_int_equal(sl_checkpoint_write(&g.c, 3, &fail), SL_OK);
		assert_int_equal(sl_checkpoint_read(&g.c, 3, &fail), SL_OK);
		for (int i = 0; i < 3; i++)
			notes ? sl_checkpoint_note(&g.c, name[most], "%d", i)
			: i   ? sl_checkpoint_bytes(&g.c, name[most], &byte, 1)
			      : sl_checkpoint_floats(&g.c, name[most], NULL, 0);
		assert_int_equal(notes ? g.c.n_note : g.c.n_part, most);
		assert_int_equal(notes ? g.c.n_part : g.c.n_note, 0);
		assert_int_equal(g.guard, 42);
		assert_int_equal(sl_checkpoint_write(&g.c, 4, &fail), SL_ERR_BUG);
		assert_non_null(strstr(fail.text, "more than 20 parts or 24 notes"));
		assert_false(there(4, ""));
		assert_int_equal(sl_checkpoint_read(&g.c, 3, &fail), SL_ERR_BUG);
		sl_checkpoint_clear(dir, "side");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(nothing_damaged_is_read),
		cmocka_unit_test(another_plan_is_refused_with_both_named),
		cmocka_unit_test(a_border_is_read_by_another_plan),
		cmocka_unit_test(parts_and_notes_of_other_lengths_are_refused),
		cmocka_unit_test(the_newest_two_and_the_pinned_stay),
		cmocka_unit_test(going_back_leaves_what_is_gone_back_to),
		cmocka_unit_test(what_could_not_be_written_leaves_the_rest),
		cmocka_unit_test(more_than_fit_are_a_bug),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
