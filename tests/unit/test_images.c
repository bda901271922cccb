/* Folders of pictures: the order in which pictures are listed, limits, and errors in the layout of a folder. */

#include <sys/stat.h>
#include <unistd.h>

#include "client/data/parts.h"
#include "client/data/source.h"
#include "tests/support/unit.h"

static char root[64];

/* Makes a picture of one pixel, and the folders of its path. `path` is relative to `root`. */
static void make(const char *path)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof whole, "%s/%s", root, path);
	for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(whole, 0755);
		*slash = '/';
	}
	file = fopen(whole, "wb");
	assert_non_null(file);
	fputs("P6 1 1 255 abc", file);
	fclose(file);
}

static void make_folder(const char *path)
{
	char whole[256];

	snprintf(whole, sizeof whole, "%s/%s", root, path);
	assert_int_equal(mkdir(whole, 0755), 0);
}

static enum sl_err open_split(struct sl_set *set, enum sl_split split, int64_t most, struct sl_fail *fail)
{
	const struct sl_set_spec spec = {
		.source = "images", .split = split, .dir = root, .max_samples = most, .picture.max_pixels = 1024};

	return sl_set_open(set, &spec, fail);
}

/* The path of picture i relative to `root`, such as "train/a/1.ppm". */
static const char *name(const struct sl_set *set, int64_t i)
{
	static char out[256];

	return set->source->sample_name(set, i, out, sizeof out) + strlen(root) + 1;
}

static int32_t label(const struct sl_set *set, int64_t i, struct sl_room *room)
{
	struct sl_value v[SL_FIELD_COUNT];
	struct sl_fail fail;

	if (set->source->sample(set, i, room, v, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return *(const int32_t *)v[SL_FIELD_TARGET].data;
}

static void are_listed_in_order(void **state)
{
	static const struct {
		const char *path;
		int32_t label;
	} want[] = {{"train/B/1.ppm", 0}, {"train/a b/1.ppm", 1}, {"train/a-b/z.JPEG", 2},  {"train/b/10.png", 3},
		    {"train/b/9.ppm", 3}, {"train/b/x/0.ppm", 3}, {"train/b/x-y/0.ppm", 3}, {"train/b/x/z/0.ppm", 3}};
	enum { N = sizeof want / sizeof *want };
	struct sl_room room = {0};
	struct sl_set set;
	struct sl_fail fail;

	for (int i = N - 1; i >= 0; i--)
		make(want[i].path);
	make("train/b/notes.txt");
	make("train/loose.ppm");
	make("val/b/5.ppm");
	make("val/B/1.ppm");
	assert_int_equal(open_split(&set, SL_SPLIT_TRAIN, 0, &fail), SL_OK);
	assert_int_equal(set.count, N);
	assert_int_equal(set.classes, 4);
	for (int i = 0; i < N; i++) {
		assert_string_equal(name(&set, i), want[i].path);
		assert_int_equal(label(&set, i, &room), want[i].label);
	}
	assert_string_equal(set.source->class_name(&set, 2), "a-b");
	sl_set_close(&set);

	/* Classes are numbered by the training set: one that the test set lacks keeps its number. */
	assert_int_equal(open_split(&set, SL_SPLIT_TEST, 0, &fail), SL_OK);
	assert_int_equal(set.count, 2);
	assert_int_equal(set.classes, 4);
	assert_int_equal(label(&set, 1, &room), 3);
	sl_set_close(&set);

	/* A limit on the number of pictures leaves every class its share. */
	assert_int_equal(open_split(&set, SL_SPLIT_TRAIN, 4, &fail), SL_OK);
	assert_int_equal(set.count, 4);
	assert_string_equal(name(&set, 0), want[0].path);
	assert_string_equal(name(&set, 3), want[6].path);
	sl_set_close(&set);
	sl_room_close(&room);
}

static void links_are_followed(void **state)
{
	char from[128], to[128];
	struct sl_set set;
	struct sl_fail fail;

	make("elsewhere/1.ppm");
	make("train/a/1.ppm");
	snprintf(from, sizeof from, "%s/elsewhere", root);
	snprintf(to, sizeof to, "%s/train/link", root);
	assert_int_equal(symlink(from, to), 0);
	assert_int_equal(open_split(&set, SL_SPLIT_TRAIN, 0, &fail), SL_OK);
	assert_int_equal(set.count, 2);
	sl_set_close(&set);

	snprintf(to, sizeof to, "%s/elsewhere/again", root);
	assert_int_equal(symlink(from, to), 0);
	assert_int_equal(open_split(&set, SL_SPLIT_TRAIN, 0, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "in a circle"));
}

static void refuses(enum sl_split split, enum sl_err want, const char *says)
{
	struct sl_set set = {0};
	struct sl_fail fail = {0};
	enum sl_err err = open_split(&set, split, 0, &fail);

	if (err != want || !strstr(fail.text, says))
		fail_msg("%s, \"%s\": not %s, \"%s\"", sl_err_name(err), fail.text, sl_err_name(want), says);
	assert_null(set.source);
}

static void wrong_folders_are_named(void **state)
{
	const struct sl_set_spec member = {
		.source = "images", .split = SL_SPLIT_TRAIN, .dir = root, .picture.max_pixels = 1024, .lacking = true};
	struct sl_set lacks;
	struct sl_fail fail;
	char path[128];

	refuses(SL_SPLIT_TRAIN, SL_ERR_NOINPUT, "no folder train in it");
	refuses(SL_SPLIT_TEST, SL_ERR_NOINPUT, "no folder val or test in it");
	make_folder("train");
	refuses(SL_SPLIT_TRAIN, SL_ERR_DATA, "/train: no class folders; a classifier needs two classes");
	make("train/cats/1.ppm");
	refuses(SL_SPLIT_TRAIN, SL_ERR_DATA, "/train: only one class; a classifier needs two classes");
	make_folder("train/dogs");
	refuses(SL_SPLIT_TRAIN, SL_ERR_DATA, "/train/dogs: the class has no picture");
	assert_int_equal(sl_set_open(&lacks, &member, &fail), SL_OK); /* another member of the group has dogs */
	assert_int_equal(lacks.count, 1);
	assert_int_equal(lacks.classes, 2);
	sl_set_close(&lacks);
	make("train/dogs/1.ppm");
	make_folder("test");
	refuses(SL_SPLIT_TEST, SL_ERR_DATA, "/test: no class folders with pictures");
	make("test/mice/1.ppm");
	refuses(SL_SPLIT_TEST, SL_ERR_DATA, "/test/mice: train/ has no class of this name");
	if (getuid() == 0)
		return;
	snprintf(path, sizeof path, "%s/train/dogs", root);
	assert_int_equal(chmod(path, 0), 0);
	refuses(SL_SPLIT_TRAIN, SL_ERR_NOINPUT, "/train/dogs: Permission denied");
}

static void wrong_files_are_named(void **state)
{
	struct sl_value v[SL_FIELD_COUNT];
	struct sl_room room = {0};
	struct sl_set set;
	struct sl_fail fail;
	char path[128];
	FILE *file;

	make("train/a/1.ppm");
	make("train/b/1.ppm");
	make("train/b/2.ppm");
	assert_int_equal(open_split(&set, SL_SPLIT_TRAIN, 0, &fail), SL_OK);
	snprintf(path, sizeof path, "%s/train/b/1.ppm", root);
	file = fopen(path, "w");
	fputs("P6 100 100 255 abc", file);
	fclose(file);
	assert_int_equal(set.source->sample(&set, 1, &room, v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "/train/b/1.ppm: 100 x 100 pixels are too many: data.max_pixels is 1024"));
	unlink(path);
	assert_int_equal(set.source->sample(&set, 1, &room, v, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "/train/b/1.ppm: No such file"));
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(set.source->sample(&set, 1, &room, v, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "/train/b/1.ppm: not a regular file"));
	assert_int_equal(label(&set, 2, &room), 1);
	sl_set_close(&set);
	sl_room_close(&room);
}

/* Other usual names of the two folders are known if both folders are there. A class may be called Train. */
static void other_usual_names_are_known(void **state)
{
	const struct sl_parts parts = {.share = {0.5, 0.5}, .by = "", .own = SL_PARTS_TRAIN};
	const struct sl_set_spec spec = {
		.source = "images", .split = SL_SPLIT_TRAIN, .dir = root, .parts = &parts, .picture.max_pixels = 1024};
	struct sl_set set;
	struct sl_fail fail;

	for (int i = 0; i < 20; i++) {
		char path[64];

		snprintf(path, sizeof path, "%s/%d.ppm", i % 2 ? "Train/a" : "Bus", i);
		make(path);
	}
	assert_int_equal(sl_set_open(&set, &spec, &fail), SL_OK);
	assert_string_equal(set.source->class_name(&set, 1), "Train");
	sl_set_close(&set);
	make("Train/b/1.ppm");
	make("Validation/b/1.ppm");
	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		assert_int_equal(open_split(&set, split, 0, &fail), SL_OK);
		assert_int_equal(set.count, split == SL_SPLIT_TRAIN ? 11 : 1);
		assert_string_equal(set.source->class_name(&set, 1), "b");
		sl_set_close(&set);
	}
	assert_int_equal(sl_set_open(&set, &spec, &fail), SL_OK);
	assert_string_equal(set.source->class_name(&set, 1), "b");
	sl_set_close(&set);
	make("val/a/1.ppm");
	make("val/a/2.ppm");
	assert_int_equal(open_split(&set, SL_SPLIT_TEST, 0, &fail), SL_OK);
	assert_int_equal(set.count, 2); /* val/ is preferred to Validation/ */
	sl_set_close(&set);
}

static int make_root(void **state)
{
	strcpy(root, "/tmp/split-images-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
	char command[256];

	snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", root, root);
	return system(command);
}

/* data.split without `by`: files of one name in the folders of several patients are samples of their own. A picture
 * that moves to another class stays in its part. */
static void patients_files_may_have_equal_names(void **state)
{
	static const struct sl_parts parts = {.share = {0.5, 0.5}, .by = "", .own = SL_PARTS_TRAIN, .seed = 1};
	static const struct sl_set_spec spec = {
		.source = "images", .dir = root, .parts = &parts, .picture.max_pixels = 1024};
	enum { PATIENTS = 20 };
	int in[2][PATIENTS] = {{0}}, scans = 0;
	char path[64], class;
	struct sl_set set;
	struct sl_fail fail;

	for (int i = 0; i < PATIENTS * 4; i++) {
		snprintf(path, sizeof path, "%c/p%d/%s.ppm", 'a' + i % 2, i / 4, i / 2 % 2 ? "scan" : "other");
		make(path);
	}
	if (sl_set_open(&set, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int64_t i = 0; i < set.count; i++) {
		int patient;

		assert_int_equal(sscanf(name(&set, i), "%c/p%d/", &class, &patient), 2);
		in[class - 'a'][patient] += strstr(name(&set, i), "scan") ? 1 : 2;
		scans += strstr(name(&set, i), "scan") != NULL;
	}
	sl_set_close(&set);
	assert_true(scans > PATIENTS / 2 && scans < PATIENTS * 3 / 2);
	assert_memory_equal(in[0], in[1], sizeof in[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(are_listed_in_order, make_root, drop_root),
		cmocka_unit_test_setup_teardown(links_are_followed, make_root, drop_root),
		cmocka_unit_test_setup_teardown(other_usual_names_are_known, make_root, drop_root),
		cmocka_unit_test_setup_teardown(wrong_folders_are_named, make_root, drop_root),
		cmocka_unit_test_setup_teardown(wrong_files_are_named, make_root, drop_root),
		cmocka_unit_test_setup_teardown(patients_files_may_have_equal_names, make_root, drop_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
