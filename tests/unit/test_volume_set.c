/* Volumes: preparation against a function of the world's coordinates, the cache, and patches. */

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/data/loader.h"
#include "client/data/volume.h"
#include "client/data/volume_step.h"
#include "client/data/volume_warp.h"
#include "common/base/half.h"
#include "common/codec/loops.h"
#include "tests/support/unit.h"

enum { I = 14, J = 11, K = 9, VOXELS = I * J * K, CLASSES = 4, SIDE = 8 };
static char root[64];
static char path[4][256];

static int make_root(void **state)
{
	static const char *const folder[] = {"", "/train", "/test", "/masks", "/masks/train", "/masks/test"};

	snprintf(root, sizeof root, "%s/test_volume_set-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
		 (long)getpid());
	for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
		snprintf(path[0], sizeof path[0], "%s%s", root, folder[i]);
		assert_int_equal(mkdir(path[0], 0755), 0);
	}
	return 0;
}

static int drop_root(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command);
}

/* What a scanner measures at a place in mm: a plane, which linear interpolation keeps. */
static double measured(const struct sl_world *w, double a, double b, double c, int sequence)
{
	double x[3];

	for (int i = 0; i < 3; i++)
		x[i] = w->m[i][0] * a + w->m[i][1] * b + w->m[i][2] * c + w->m[i][3];
	return 500 + (2 + sequence) * x[0] - 3 * x[1] + 1.5 * x[2];
}

static struct sl_world grid(int order, int signs, const double spacing[3], double angle)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	const double c = cos(angle), s = sin(angle), turn[3][3] = {{c, -s, 0}, {s, c, 0}, {0, 0, 1}};
	struct sl_world w = {{{0}}};

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			w.m[i][k] = turn[i][orders[order][k]] * spacing[k] * (signs >> k & 1 ? -1 : 1);
		w.m[i][3] = 4 * i - 3;
	}
	return w;
}

static bool inside(int64_t i, int64_t j, int64_t k)
{
	return i >= 2 && i < I - 1 && j >= 1 && j < J - 2 && k >= 2 && k < K - 2;
}

static uint8_t class_at(int64_t i, int64_t j, int64_t k)
{
	return inside(i, j, k) && (i + j + k) % 5 == 0 ? (uint8_t)(1 + (i + 2 * k) % 3) : 0;
}

/* Writes a case of `n` sequences into a folder; what is not inside is 0. */
static void write_case(const char *folder, const char *name, int n, const struct sl_world *w)
{
	static float x[VOXELS];
	static uint8_t label[VOXELS];
	struct sl_nifti_array a = {.dim = {I, J, K}, .affine = *w, .byte = label};
	struct sl_fail fail;

	for (int c = 0; c <= n; c++) {
		for (int64_t v = 0; v < VOXELS; v++) {
			const int64_t i = v % I, j = v / I % J, k = v / I / J;

			x[v] = inside(i, j, k) ? (float)measured(w, (double)i, (double)j, (double)k, c) : 0;
			label[v] = class_at(i, j, k);
		}
		a.number = c < n ? x : NULL;
		if (c == n)
			snprintf(path[3], sizeof path[3], "%s/masks/%s/%s.nii.gz", root, folder, name);
		else if (n == 1)
			snprintf(path[3], sizeof path[3], "%s/%s/%s.nii.gz", root, folder, name);
		else
			snprintf(path[3], sizeof path[3], "%s/%s/%s_%04d.nii", root, folder, name, c);
		if (sl_nifti_write(path[3], &a, &fail) != SL_OK)
			fail_msg("%s", fail.text);
	}
}

static struct sl_volume_files files_of(const char *folder, const char *name, int n)
{
	struct sl_volume_files f = {.name = name, .n = n};

	for (int c = 0; c < n; c++)
		snprintf(f.path[c], PATH_MAX, n == 1 ? "%s/%s/%s.nii.gz" : "%s/%s/%s_%04d.nii", root, folder, name, c);
	snprintf(f.mask, PATH_MAX, "%s/masks/%s/%s.nii.gz", root, folder, name);
	return f;
}

static float voxel_at(const struct sl_volume *v, const int64_t at[3], int64_t c)
{
	const int64_t *n = v->head->dim;

	return sl_float_of_f16(v->voxel[((at[0] * n[1] + at[1]) * n[2] + at[2]) * v->head->channels + c]);
}

static void prepare_one(struct sl_volume *out, const struct sl_volume_spec *spec, const struct sl_volume_files *files)
{
	struct sl_fail fail = {.text = ""};
	uint64_t hash = 0;
	enum sl_err err = sl_volume_hash(&hash, spec, files, &fail);

	snprintf(path[0], sizeof path[0], "%s/one.vol", root);
	if (!err)
		err = sl_volume_prepare(path[0], hash, spec, files, &fail);
	if (!err)
		err = sl_volume_map(out, path[0], hash, &fail);
	if (err)
		fail_msg("%s", fail.text);
}

/* Every voxel that is not at an edge of the cut must have what was measured at its own place in the world. */
static void has_the_worlds_numbers(const struct sl_volume *v, const struct sl_volume_spec *spec)
{
	const struct sl_volume_head *h = v->head;
	int64_t compared = 0;

	for (int axis = 0; axis < 3; axis++)
		assert_true(fabs(sl_world_spacing(&h->world, axis) - spec->spacing[axis]) < 1e-6 ||
			    !(spec->spacing[axis] > 0));
	for (int64_t i = 0; i < h->dim[0] * h->dim[1] * h->dim[2]; i++) {
		const int64_t at[3] = {i / h->dim[2] / h->dim[1], i / h->dim[2] % h->dim[1], i % h->dim[2]};
		bool edge = false;

		for (int axis = 0; axis < 3; axis++) {
			const double step = (double)h->kept[axis] / (double)h->dim[axis];

			edge |= at[axis] * step < 1 || (at[axis] + 1) * step > (double)h->kept[axis] - 1;
		}
		for (int c = 0; c < h->channels && !edge; c++, compared++) {
			const double want = measured(&h->world, (double)at[0], (double)at[1], (double)at[2], c);

			if (fabs((double)voxel_at(v, at, c) - want) > 0.3) /* of 16 bits */
				fail_msg("%g, not %g", (double)voxel_at(v, at, c), want);
		}
	}
	assert_true(compared > 20);
}

static void voxels_keep_their_places(void **state)
{
	static const double has[3] = {1.2, 1.5, 2}, wants[3][3] = {{0}, {1.5, 1.5, 1.5}, {2.2, 1, 0.8}};

	for (int k = 0; k < 6 * 8; k++)
		for (int s = 0; s < 3; s++) {
			const struct sl_world w = grid(k % 6, k / 6, has, s ? 0.3 : 0);
			struct sl_volume_spec spec = {.xyz = (k + s) % 2};
			const struct sl_volume_files files = files_of("train", "a", 2);
			struct sl_volume v;

			if (s != 1 && k % 5) /* each writes and syncs three files */
				continue;
			memcpy(spec.spacing, wants[s], sizeof spec.spacing);
			write_case("train", "a", 2, &w);
			prepare_one(&v, &spec, &files);
			assert_int_equal(v.head->kept[0] * v.head->kept[1] * v.head->kept[2],
					 (I - 3) * (J - 3) * (K - 4));
			assert_int_equal(v.head->whole[0] * v.head->whole[1] * v.head->whole[2], VOXELS);
			has_the_worlds_numbers(&v, &spec);
			sl_volume_close(&v);
		}
}

/* The mask and the places of its classes, on the file's own grid. */
static void masks_are_kept(void **state)
{
	const struct sl_world w = grid(5, 0, (const double[]){1, 1, 1}, 0); /* file axes: z, y, x */
	const struct sl_volume_spec spec = {.xyz = true};
	const struct sl_volume_files files = files_of("train", "m", 1);
	const uint32_t *place;
	struct sl_volume v;

	write_case("train", "m", 1, &w);
	prepare_one(&v, &spec, &files);
	place = v.place;
	for (int64_t i = 0; i < v.head->dim[0] * v.head->dim[1] * v.head->dim[2]; i++) {
		const int64_t *n = v.head->dim, *crop = v.head->crop;
		const int64_t x = crop[0] + i / n[2] / n[1], y = crop[1] + i / n[2] % n[1], z = crop[2] + i % n[2];

		assert_int_equal(v.mask[i], class_at(z, y, x));
	}
	for (int k = 0; k < SL_VOLUME_CLASSES; k++) {
		assert_int_equal(v.head->places[k], k ? v.head->voxels[k] : 0);
		for (int64_t i = 0; i < v.head->places[k]; i++)
			assert_int_equal(v.mask[*place++], k);
	}
	assert_true(v.head->voxels[1] && v.head->voxels[3] &&
		    place == v.place + v.head->voxels[1] + v.head->voxels[2] + v.head->voxels[3]);
	sl_volume_close(&v);
}

/* A class of more voxels than are named: the places are spread over all. */
static void many_places_are_spread(void **state)
{
	enum { LONG = 30, ALL = LONG * LONG * LONG };
	static uint8_t label[ALL];
	static float x[ALL];
	const struct sl_world w = grid(0, 0, (const double[]){1, 1, 1}, 0);
	struct sl_nifti_array a = {.dim = {LONG, LONG, LONG}, .affine = w, .byte = label};
	const struct sl_volume_spec spec = {.xyz = false};
	const struct sl_volume_files files = files_of("train", "l", 1);
	struct sl_volume v;

	for (int i = 0; i < ALL; i++) {
		label[i] = i % 10 ? 2 : 0;
		x[i] = (float)(1 + i % 2);
	}
	assert_int_equal(sl_nifti_write(files.mask, &a, NULL), SL_OK);
	a.number = x;
	assert_int_equal(sl_nifti_write(files.path[0], &a, NULL), SL_OK);
	prepare_one(&v, &spec, &files);
	assert_int_equal(v.head->places[2], SL_VOLUME_PLACES);
	for (int i = 0; i < SL_VOLUME_PLACES; i++) {
		assert_true(v.mask[v.place[i]] == 2 && (!i || v.place[i] > v.place[i - 1]));
		assert_true(fabs((double)v.place[i] - (i + 1) * (double)ALL / SL_VOLUME_PLACES) < 5);
	}
	sl_volume_close(&v);
}

static void numbers_are_scaled(void **state)
{
	const struct sl_world w = grid(0, 0, (const double[]){1, 1, 1}, 0);
	struct sl_volume_spec spec = {.xyz = true};
	const struct sl_volume_files files = files_of("train", "s", 1);
	struct sl_volume plain, v;
	double sum = 0, square = 0;
	int64_t n;

	write_case("train", "s", 1, &w);
	prepare_one(&plain, &spec, &files);
	n = plain.head->dim[0] * plain.head->dim[1] * plain.head->dim[2];
	assert_true(sl_conf_intensity_read("ct:490,510", &spec.intensity));
	prepare_one(&v, &spec, &files);
	for (int64_t i = 0; i < n; i++) {
		const double x = ((double)sl_float_of_f16(plain.voxel[i]) - 490) / 20;

		assert_true(fabs((double)sl_float_of_f16(v.voxel[i]) - fmin(fmax(x, 0), 1)) < 0.02);
	}
	sl_volume_close(&v);
	assert_true(sl_conf_intensity_read("mri", &spec.intensity));
	prepare_one(&v, &spec, &files);
	for (int64_t i = 0; i < n; i++) {
		sum += (double)sl_float_of_f16(v.voxel[i]);
		square += pow((double)sl_float_of_f16(v.voxel[i]), 2);
	}
	assert_true(fabs(sum / (double)n) < 1e-3 && fabs(square / (double)n - 1) < 1e-2);
	sl_volume_close(&v);
	sl_volume_close(&plain);
	assert_true(sl_volume_background(&(struct sl_conf_intensity){SL_INTENSITY_CT, -10, 10, 5, 3}) == -5);
}

static void intensities_are_spelled(void **state)
{
	static const char *const bad[] = {"",        "ct",           "ct:",         "ct:1",     "ct:1,2,3", "ct:2,1",
					  "ct:1,1",  "ct:1,2,3,0",   "ct:1,2,3,-4", "ct:1,nan", "mri:1,2",  "CT:1,2",
					  "ct:1,2x", "ct:1,2,3,4,5", "ct:1,1e300",  "ct:auto",  "ct: ,"};
	struct sl_conf_intensity x;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(sl_conf_intensity_read(bad[i], &x));
	assert_true(sl_conf_intensity_read("ct:-57,164,80.5,39", &x));
	assert_true(x.kind == SL_INTENSITY_CT && x.low == -57 && x.high == 164 && x.mean == 80.5 && x.deviation == 39);
	assert_true(sl_conf_intensity_read("none", &x) && x.kind == SL_INTENSITY_NONE);
}

static void damaged_caches_are_made_anew(void **state)
{
	const struct sl_world w = grid(0, 0, (const double[]){1, 1, 1}, 0);
	const struct sl_volume_spec spec = {.xyz = true};
	struct sl_volume_spec other = {.spacing = {1, 2, 1}, .xyz = true};
	const struct sl_volume_files files = files_of("train", "d", 1);
	static uint8_t bytes[1 << 16];
	uint64_t hash, changed;
	struct sl_volume v;
	size_t n;
	FILE *file;

	write_case("train", "d", 1, &w);
	prepare_one(&v, &spec, &files);
	hash = v.head->hash;
	sl_volume_close(&v);
	file = fopen(path[0], "rb");
	n = fread(bytes, 1, sizeof bytes, file);
	fclose(file);
	assert_true(n > sizeof(struct sl_volume_head) && n < sizeof bytes);
	for (size_t at = 0; at < sizeof(struct sl_volume_head); at++) {
		const bool guarded =
			at < offsetof(struct sl_volume_head, whole) || at >= offsetof(struct sl_volume_head, places);

		bytes[at] ^= 0x41;
		file = fopen(path[0], "wb");
		assert_int_equal(fwrite(bytes, 1, n, file), n);
		fclose(file);
		bytes[at] ^= 0x41;
		if (sl_volume_map(&v, path[0], hash, NULL) == SL_OK) {
			assert_false(guarded || sl_volume_is_sound(&v));
			sl_volume_close(&v);
		}
	}
	for (size_t at = sizeof(struct sl_volume_head); at < n; at += 7) {
		bytes[at] ^= 0x10;
		file = fopen(path[0], "wb");
		assert_int_equal(fwrite(bytes, 1, n, file), n);
		fclose(file);
		bytes[at] ^= 0x10;
		assert_int_equal(sl_volume_map(&v, path[0], hash, NULL), SL_OK);
		assert_false(sl_volume_is_sound(&v));
		sl_volume_close(&v);
	}
	file = fopen(path[0], "wb");
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	fclose(file);
	assert_int_equal(sl_volume_map(&v, path[0], hash, NULL), SL_OK);
	assert_true(sl_volume_is_sound(&v));
	sl_volume_close(&v);
	for (size_t less = 1; less <= n; less += 97) {
		file = fopen(path[0], "wb");
		assert_int_equal(fwrite(bytes, 1, n - less, file), n - less);
		fclose(file);
		assert_int_equal(sl_volume_map(&v, path[0], hash, NULL), SL_ERR_NOINPUT);
	}
	assert_int_equal(sl_volume_hash(&changed, &other, &files, NULL), SL_OK);
	assert_true(changed != hash);
	assert_int_equal(sl_volume_hash(&changed, &spec, &files, NULL), SL_OK);
	assert_true(changed == hash);
	for (int k = 0; k < 3; k++) { /* the same bytes at another time, in seconds or nanoseconds */
		static const struct timespec time[3] = {{1000, 500}, {1001, 500}, {1001, 501}};
		const uint64_t before = changed;

		assert_int_equal(utimensat(AT_FDCWD, files.mask, (const struct timespec[2]){time[k], time[k]}, 0), 0);
		assert_int_equal(sl_volume_hash(&changed, &spec, &files, NULL), SL_OK);
		assert_true(changed != before);
	}
}

/* ---- sets */

static struct sl_volume_spec set_volume = {.patch = {SIDE, SIDE, SIDE}, .patches = 5, .foreground = 0.5};

static struct sl_set_spec set_spec(enum sl_split split)
{
	static char cache[128];
	static const char *const label[] = {"label"};

	snprintf(cache, sizeof cache, "%s/cache", root);
	set_volume.cache = cache;
	return (struct sl_set_spec){.source = "volumes",
				    .split = split,
				    .dir = root,
				    .masks = "masks",
				    .mask_classes = CLASSES,
				    .label = label,
				    .nlabels = 1,
				    .task = &sl_learn_tasks[SL_LEARN_PIXELS],
				    .volume = &set_volume};
}

static void write_set(void)
{
	static const double spacing[3] = {1.2, 1.5, 2};

	for (int i = 0; i < 3; i++) {
		const struct sl_world w = grid(i, i, spacing, 0.1 * i);
		char name[8];

		snprintf(name, sizeof name, "p%d", i);
		write_case("train", name, 2, &w);
		write_case("test", name, 2, &w);
	}
}

static void open_split(struct sl_set *set, enum sl_split split)
{
	const struct sl_set_spec spec = set_spec(split);
	struct sl_fail fail;

	if (sl_set_open(set, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

/* The numbers and masks of an epoch, prepared by `threads`. */
static void read_epoch(const struct sl_set *set, int threads, uint64_t epoch, float *voxel, int32_t *mask)
{
	const struct sl_loader_spec spec = {
		.set = set, .batch = 4, .train = true, .seed = 9, .prefetch = 2, .threads = threads};
	const size_t floats = SIDE * SIDE * SIDE * 2, labels = floats / 2;
	const struct sl_batch *batch;
	struct sl_loader *loader;
	struct sl_fail fail;

	assert_int_equal(sl_loader_open(&loader, &spec, &fail), SL_OK);
	assert_int_equal(sl_loader_seek(loader, epoch, 0), SL_OK);
	for (int64_t i = 0; i < sl_loader_batches(loader); i++) {
		if (sl_loader_take(loader, &batch, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		memcpy(voxel, batch->input[0], (size_t)batch->rows * floats * sizeof *voxel);
		memcpy(mask, sl_batch_labels(batch), (size_t)batch->rows * labels * sizeof *mask);
		voxel += (size_t)batch->rows * floats;
		mask += (size_t)batch->rows * labels;
		sl_loader_release(loader, batch);
	}
	sl_loader_close(loader);
}

static void patches_do_not_depend_on_threads(void **state)
{
	enum { ROWS = 15, FLOATS = ROWS * SIDE * SIDE * SIDE * 2 };
	static const char step[4][SL_CONF_TEXT] = {"RandomFlip()", "RandomGamma(p=0.5)", "RandomNoise(0.2, p=0.5)",
						   "RandomIntensity(0.2, 0.1, p=0.5)"};
	static float voxel[3][FLOATS];
	static int32_t mask[3][FLOATS / 2];
	struct sl_set set;

	write_set();
	set_volume.step = step;
	set_volume.steps = 4;
	open_split(&set, SL_SPLIT_TRAIN);
	assert_int_equal(set.count, ROWS);
	read_epoch(&set, 1, 3, voxel[0], mask[0]);
	read_epoch(&set, 3, 3, voxel[1], mask[1]);
	read_epoch(&set, 1, 4, voxel[2], mask[2]);
	assert_memory_equal(voxel[0], voxel[1], sizeof voxel[0]);
	assert_memory_equal(mask[0], mask[1], sizeof mask[0]);
	assert_true(memcmp(mask[0], mask[2], sizeof mask[0]) != 0);
	for (int i = 0; i < FLOATS; i++)
		assert_true(isfinite(voxel[0][i]));
	sl_set_close(&set);
	set_volume.steps = 0;
}

/* Of all patches, half are around a voxel with a class, and each class of the case is as often in the middle. */
static void classes_are_drawn_alike(void **state)
{
	enum { EPOCHS = 200 };
	struct sl_room room = {0};
	int64_t middle[CLASSES] = {0}, all = 0;
	struct sl_set set;
	struct sl_fail fail;

	write_set();
	set_volume.patch[0] = set_volume.patch[1] = set_volume.patch[2] = 1; /* its middle is the voxel */
	open_split(&set, SL_SPLIT_TRAIN);
	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
		for (int64_t i = 0; i < set.count; i++, all++) {
			const struct sl_sample_draw draw = {5, epoch};
			struct sl_value v[SL_FIELD_COUNT];

			room.draw = &draw;
			assert_int_equal(set.source->sample(&set, i, &room, v, &fail), SL_OK);
			middle[*(const int32_t *)v[SL_FIELD_TARGET].data]++;
		}
	for (int k = 1; k < CLASSES; k++) { /* a fifth of the voxels at random has a class, too */
		const double share = (double)middle[k] / (double)all;

		if (share < 0.17 || share > 0.25)
			fail_msg("class %d: %g", k, share);
	}
	sl_room_close(&room);
	sl_set_close(&set);
	for (int axis = 0; axis < 3; axis++)
		set_volume.patch[axis] = SIDE;
}

static void an_evaluation_sees_every_voxel(void **state)
{
	struct sl_room room = {0};
	int64_t counted[256] = {0}, want[256] = {0};
	struct sl_set set;
	struct sl_fail fail;

	write_set();
	set_volume.patch[0] = 64; /* larger than the volume: what is outside is not counted */
	set_volume.patch[1] = 1;
	set_volume.patch[2] = 1;
	open_split(&set, SL_SPLIT_TEST);
	for (int64_t i = 0; i < set.count; i++) {
		struct sl_value v[SL_FIELD_COUNT];

		assert_int_equal(set.source->sample(&set, i, &room, v, &fail), SL_OK);
		for (int k = 0; k < 64; k++)
			counted[((const int32_t *)v[SL_FIELD_TARGET].data)[k]]++;
	}
	for (int64_t v = 0; v < VOXELS; v++)
		if (inside(v % I, v / I % J, v / I / J))
			want[class_at(v % I, v / I % J, v / I / J)] += 3;
	for (int k = 0; k < CLASSES; k++)
		assert_int_equal(counted[k], want[k]);
	assert_int_equal(counted[SL_LEARN_IGNORED], set.count * 64 - 3 * (int64_t)((I - 3) * (J - 3) * (K - 4)));
	sl_room_close(&room);
	sl_set_close(&set);
	for (int axis = 0; axis < 3; axis++)
		set_volume.patch[axis] = SIDE;
	for (int64_t side = 1; side < 40; side++)
		for (int64_t patch = 1; patch < 40; patch++) {
			int64_t end = 0;

			for (int64_t i = 0; i < sl_patch_count(patch, side); i++) {
				const int64_t begin = sl_patch_begin(i, patch, side);

				assert_true(begin <= end && (begin >= 0 || patch > side));
				assert_true(begin + patch <= side || patch > side);
				end = begin + patch;
			}
			assert_true(end >= side);
			for (int64_t at = 0; at < side; at++) {
				const int64_t begin = sl_patch_around(at, patch, side);

				assert_true(begin <= at && at < begin + patch);
				assert_true(patch > side || (begin >= 0 && begin + patch <= side));
			}
		}
}

/* With a class each, a sample is a whole case: what is too large is cut about its centre, and what is too small lies in
 * the middle of background. */
static void whole_cases_have_one_size(void **state)
{
	static const double spacing[3] = {1, 1, 1};
	static const int64_t size[3] = {K - 5, 3 * J, I - 5};
	const struct sl_world w = grid(0, 0, spacing, 0);
	struct sl_volume_spec whole = {.patch = {size[0], size[1], size[2]}, .whole = true};
	struct sl_set_spec spec = set_spec(SL_SPLIT_TRAIN);
	char dir[160];
	struct sl_room room = {0};
	struct sl_value v[SL_FIELD_COUNT];
	struct sl_volume of;
	struct sl_set set;
	struct sl_fail fail;

	for (int k = 0; k < 2; k++) {
		static const char *const folder[] = {"whole/train/a", "whole/train/b"};

		snprintf(path[0], sizeof path[0], "mkdir -p %s/%s %s/masks/%s", root, folder[k], root, folder[k]);
		assert_int_equal(system(path[0]), 0);
		write_case(folder[k], "p", 2, &w);
	}
	snprintf(dir, sizeof dir, "%s/whole", root);
	whole.cache = spec.volume->cache;
	spec.dir = dir;
	spec.volume = &whole;
	spec.task = NULL;
	if (sl_set_open(&set, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_true(set.count == 2 && set.classes == 2 && !set.field[SL_FIELD_TARGET].ndim);
	for (int64_t i = 0; i < 2; i++) {
		struct sl_volume_files all = {.name = "p", .n = 2};
		const float *x;
		int64_t compared = 0;

		for (int c = 0; c < 2; c++)
			snprintf(all.path[c], PATH_MAX, "%s/train/%c/p_%04d.nii", dir, "ab"[i], c);
		prepare_one(&of, &whole, &all);
		assert_int_equal(set.source->sample(&set, i, &room, v, &fail), SL_OK);
		assert_int_equal(*(const int32_t *)v[SL_FIELD_TARGET].data, i);
		x = v[SL_FIELD_INPUT].data;
		for (int64_t n = 0; n < size[0] * size[1] * size[2]; n++) {
			int64_t at[3] = {n / size[2] / size[1], n / size[2] % size[1], n % size[2]};
			bool there = true;

			for (int axis = 0; axis < 3; axis++) {
				const int64_t has = of.head->dim[axis];

				at[axis] += has > size[axis] ? has / 2 - size[axis] / 2 : -((size[axis] - has) / 2);
				there &= at[axis] >= 0 && at[axis] < has;
			}
			for (int c = 0; c < 2; c++)
				assert_true(x[2 * n + c] == (there ? voxel_at(&of, at, c) : 0));
			compared += there;
		}
		assert_true(compared > 20 && compared < size[0] * size[1] * size[2]);
		sl_volume_close(&of);
	}
	sl_room_close(&room);
	sl_set_close(&set);
}

/* A cache whose places are damaged gives patches all the same. */
static void wrong_places_are_passed_over(void **state)
{
	struct sl_room room = {0};
	struct sl_volume_head head;
	struct sl_value v[SL_FIELD_COUNT];
	struct sl_set set;
	struct sl_fail fail;
	FILE *file;

	write_set();
	open_split(&set, SL_SPLIT_TRAIN);
	sl_set_close(&set);
	snprintf(path[1], sizeof path[1], "%s/cache/train-p1.vol", root);
	file = fopen(path[1], "r+b");
	assert_int_equal(fread(&head, sizeof head, 1, file), 1);
	for (int64_t i = 1; i <= head.places[1] + head.places[2] + head.places[3]; i++) {
		assert_int_equal(fseek(file, (long)(-4 * i), SEEK_END), 0);
		assert_int_equal(fwrite(&(uint32_t){i % 2 ? UINT32_MAX : (uint32_t)1 << 31}, 4, 1, file), 1);
	}
	fclose(file);
	open_split(&set, SL_SPLIT_TRAIN);
	for (uint64_t epoch = 0; epoch < 20; epoch++)
		for (int64_t i = 0; i < set.count; i++) {
			room.draw = &(struct sl_sample_draw){5, epoch};
			assert_int_equal(set.source->sample(&set, i, &room, v, &fail), SL_OK);
		}
	sl_room_close(&room);
	sl_set_close(&set);
}

/* A mask is turned with its voxels. */
static void masks_are_turned_along(void **state)
{
	static const char step[1][SL_CONF_TEXT] = {"RandomFlip(axes=(0, 2), p=1)"};
	const struct sl_volume_spec spec = {.step = step, .steps = 1};
	const int64_t dim[3] = {3, 4, 5};
	struct sl_step read[SL_VOLUME_STEPS];
	float voxel[3 * 4 * 5 * 2] = {0};
	int32_t mask[3 * 4 * 5];
	struct sl_fail fail;

	assert_int_equal(sl_volume_steps_read(read, &spec, &fail), SL_OK);
	for (int64_t sample = 0, turned = 0; sample < 40; sample++) { /* samples of an epoch draw apart */
		static const char half[1][SL_CONF_TEXT] = {"RandomFlip(2)"};
		const struct sl_volume_spec some = {.step = half, .steps = 1};

		assert_int_equal(sl_volume_steps_read(read, &some, &fail), SL_OK);
		for (int i = 0; i < 60; i++)
			mask[i] = i;
		sl_volume_steps_apply(read, 1, &(struct sl_sample_draw){1, 1}, sample, voxel, mask, dim, 2);
		assert_true(mask[0] == 0 || mask[0] == 4);
		turned += mask[0] == 4;
		assert_true(sample < 39 || (turned > 8 && turned < 32));
	}
	assert_int_equal(sl_volume_steps_read(read, &spec, &fail), SL_OK);
	for (int i = 0; i < 60; i++) {
		mask[i] = i;
		voxel[2 * i] = (float)i;
		voxel[2 * i + 1] = (float)-i;
	}
	sl_volume_steps_apply(read, 1, &(struct sl_sample_draw){1, 1}, 7, voxel, mask, dim, 2);
	for (int d = 0; d < 3; d++)
		for (int h = 0; h < 4; h++)
			for (int w = 0; w < 5; w++) {
				const int at = (d * 4 + h) * 5 + w, from = ((2 - d) * 4 + h) * 5 + 4 - w;

				assert_int_equal(mask[at], from);
				assert_true(voxel[2 * at] == (float)from && voxel[2 * at + 1] == (float)-from);
			}
}

/* The middle of a patch of voxels that hold their own places, and labels of these: what RandomAffine3d cuts out tells
 * where each voxel came from. That is a rotation in mm and a size, both within their bounds. */
static void affine_steps_turn_in_mm(void **state)
{
	enum { D = 20, H = 30, W = 34, ALL = D * H * W, ROWS = 6 * 8 * 10 };
	static const double spacing[3] = {3, 1, 1.25};
	static const char step[][SL_CONF_TEXT] = {"RandomAffine3d(degrees=(20, 10, 5), scale=0.2, p=1)",
						  "RandomAffine3d(degrees=0, scale=0, p=1)", "RandomAffine3d(p=0)",
						  "RandomAffine3d(degrees=(25, 0, 0), scale=0, p=1)"};
	static struct sl_volume_head head = {.dim = {D, H, W}, .channels = 3};
	static uint16_t voxel[3 * ALL];
	static uint8_t mask[ALL];
	const struct sl_volume of = {.head = &head, .voxel = voxel, .mask = mask};
	const int64_t at[3] = {7, 11, 12}, deep[3] = {-22, 11, 12};
	struct sl_volume_spec spec = {.patch = {6, 8, 10}, .steps = 1};
	struct sl_step read[SL_VOLUME_STEPS];
	float cut[3 * ROWS], x[3 * ROWS];
	int32_t cut_label[ROWS], label[ROWS];
	double m[3][3], most = 0, least = 9;
	struct sl_fail fail;

	for (int axis = 0; axis < 3; axis++)
		head.world.m[2 - axis][axis] = spacing[axis];
	for (int64_t v = 0; v < ALL; v++) {
		const float place[3] = {(float)(v / W / H), (float)(v / W % H), (float)(v % W)};

		(void)sl_codec_loops_c.to_f16(place, 3, (uint8_t *)(voxel + 3 * v));
		mask[v] = (uint8_t)(v % 7);
	}
	assert_int_equal(sl_volume_cut(&of, &spec, at, 7, cut, cut_label, &fail), SL_OK);
	for (int64_t sample = 0; sample < 400; sample++) {
		const int kind = (int)(sample % 4);
		const struct sl_sample_draw draw = {5, (uint64_t)sample / 100};
		double turned[3][3], size = 0;

		spec.step = &step[kind];
		assert_int_equal(sl_volume_steps_read(read, &spec, &fail), SL_OK);
		assert_int_equal(sl_volume_warp_draw(m, read, &draw, sample, &of), kind != 2);
		if (kind == 2)
			continue;
		assert_int_equal(sl_volume_warp(&of, &spec, at, m, 7, x, label, &fail), SL_OK);
		if (kind == 1) {
			assert_memory_equal(x, cut, sizeof x);
			assert_memory_equal(label, cut_label, sizeof label);
			continue;
		}
		for (int64_t v = 0; v < ROWS; v++) {
			const float *p = &x[3 * v], *opposite = &x[3 * (ROWS - 1 - v)];
			const int64_t near = (llrintf(p[0]) * H + llrintf(p[1])) * W + llrintf(p[2]);
			bool clear = true;

			for (int i = 0; i < 3; i++) {
				assert_true(fabsf((p[i] + opposite[i]) / 2 - (float)at[i] -
						  (float)(spec.patch[i] - 1) / 2) < 1e-3f);
				clear = clear && fabsf(p[i] - floorf(p[i]) - 0.5f) > 1e-3f;
			}
			assert_true(!clear || label[v] == near % 7);
			assert_true(kind != 3 || fabsf(p[0] - cut[3 * v]) < 1e-3f); /* about the depth alone */
		}
		for (int k = 0; k < 3; k++) { /* one voxel further on axis k, in mm */
			const int64_t next = k == 0 ? 80 : k == 1 ? 10 : 1;

			for (int i = 0; i < 3; i++)
				turned[i][k] = (double)(x[3 * next + i] - x[i]) * spacing[i] / spacing[k];
		}
		for (int k = 0; k < 3; k++)
			size += turned[k][0] * turned[k][0];
		size = sqrt(size);
		for (int a = 0; a < 3; a++)
			for (int b = 0; b < 3; b++) {
				const double dot = turned[0][a] * turned[0][b] + turned[1][a] * turned[1][b] +
						   turned[2][a] * turned[2][b];

				assert_true(fabs(dot / size / size - (a == b)) < 1e-3);
			}
		assert_true(1 / size > (kind == 3 ? 0.999 : 0.799) && 1 / size < (kind == 3 ? 1.001 : 1.201));
		if (kind == 3) {
			const double angle = atan2(turned[1][2], turned[1][1]) * 180 / M_PI;

			most = fmax(most, angle);
			least = fmin(least, angle);
		}
	}
	assert_true(most > 20 && most <= 25.01 && least < -20 && least >= -25.01);
	spec.patch[0] = 64; /* beyond the case nothing counts */
	static float far[3 * 64 * 80];
	static int32_t ignored[64 * 80];

	spec.step = &step[0];
	assert_int_equal(sl_volume_steps_read(read, &spec, &fail), SL_OK);
	assert_true(sl_volume_warp_draw(m, read, &(struct sl_sample_draw){1, 1}, 1, &of));
	assert_int_equal(sl_volume_warp(&of, &spec, deep, m, 7, far, ignored, &fail), SL_OK);
	assert_true(ignored[0] == SL_LEARN_IGNORED && far[0] == 0 && ignored[64 * 80 - 1] == SL_LEARN_IGNORED);
	assert_int_equal(sl_volume_warp(&of, &spec, deep, m, 3, far, ignored, &fail), SL_ERR_DATA);
}

static void affine_steps_come_first(void **state)
{
	static const char step[][SL_CONF_TEXT] = {"RandomFlip()", "RandomAffine3d()", "RandomAffine3d(degrees=(1, 2))",
						  "RandomAffine3d(scale=0.95)"};
	static const char *const why[] = {"must be the first step", "three, about depth, height and width",
					  "from 0 to 0.9"};
	struct sl_step read[SL_VOLUME_STEPS];
	struct sl_fail fail;

	for (int i = 0; i < 3; i++) {
		const struct sl_volume_spec spec = {.step = i ? &step[i + 1] : step, .steps = i ? 1 : 2};

		assert_int_equal(sl_volume_steps_read(read, &spec, &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, why[i]));
	}
}

/* Two processes prepare one folder at once: both have the same samples, and nothing is left but the cases. */
static void two_processes_share_a_cache(void **state)
{
	pid_t child[2];
	int status;

	write_set();
	for (int k = 0; k < 2; k++) {
		child[k] = fork();
		if (!child[k]) {
			const struct sl_set_spec spec = set_spec(SL_SPLIT_TRAIN);
			struct sl_set set;
			struct sl_fail fail;

			_exit(sl_set_open(&set, &spec, &fail) == SL_OK && set.count == 15 ? 0 : 1);
		}
	}
	for (int k = 0; k < 2; k++)
		assert_true(waitpid(child[k], &status, 0) == child[k] && status == 0);
	snprintf(path[1], sizeof path[1], "test $(ls %s/cache | wc -l) = 4", root); /* and the lock */
	assert_int_equal(system(path[1]), 0);
}

static void refuses(enum sl_split split, const char *why)
{
	const struct sl_set_spec spec = set_spec(split);
	struct sl_set set;
	struct sl_fail fail[2];

	assert_int_not_equal(sl_set_open(&set, &spec, &fail[0]), SL_OK);
	if (!strstr(fail[0].text, why))
		fail_msg("\"%s\", and not \"%s\"", fail[0].text, why);
	(void)!sl_set_check(&set, &spec, &fail[1]); /* the same, or only the voxels are wrong */
}

static void run(const char *command)
{
	char whole[256];

	snprintf(whole, sizeof whole, "cd %s && %s", root, command);
	assert_int_equal(system(whole), 0);
}

static void wrong_folders_are_named(void **state)
{
	const struct sl_world w = grid(0, 0, (const double[]){1, 1, 1}, 0),
			      other = grid(1, 0, (const double[]){1, 1, 1}, 0);
	static uint8_t label[VOXELS] = {9};
	struct sl_nifti_array a = {.dim = {I, J, K}, .affine = w, .byte = label};

	refuses(SL_SPLIT_TRAIN, "no NIfTI file in it");
	run("touch train/1.dcm");
	refuses(SL_SPLIT_TRAIN, "dcm2niix");
	run("rm train/1.dcm");
	write_case("train", "a", 1, &w);
	run("mv masks/train/a.nii.gz m");
	refuses(SL_SPLIT_TRAIN, "each case needs its mask");
	run("mkfifo masks/train/a.nii.gz");
	refuses(SL_SPLIT_TRAIN, "not a regular file");
	run("mv m masks/train/a.nii.gz; mkfifo train/p.nii");
	write_case("train", "b", 2, &w);
	refuses(SL_SPLIT_TRAIN, "case b has 2 sequences, and a has 1");
	run("rm train/b_0000.nii");
	refuses(SL_SPLIT_TRAIN, "by its name it is sequence 0001 of case b, whose sequence b_0000 is not there");
	run("rm train/b_* train/a.nii.gz");
	write_case("train", "b", 2, &w);
	run("cp train/b_0000.nii x");
	write_case("train", "b", 2, &other);
	run("mv x train/b_0000.nii");
	refuses(SL_SPLIT_TRAIN, "lie elsewhere");
	a.dim[2] = K - 1;
	snprintf(path[1], sizeof path[1], "%s/train/b_0001.nii", root);
	assert_int_equal(sl_nifti_write(path[1], &a, NULL), SL_OK);
	refuses(SL_SPLIT_TRAIN, "has 14 × 11 × 8 voxels, and");
	run("rm train/*");
	write_case("train", "a", 1, &w);
	run("printf x >train/a.nii.gz");
	refuses(SL_SPLIT_TRAIN, "/train/a.nii.gz: ");
	a.dim[2] = K;
	write_case("train", "a", 1, &w);
	snprintf(path[1], sizeof path[1], "%s/train/a.nii.gz", root);
	label[0] = 0;
	assert_int_equal(sl_nifti_write(path[1], &a, NULL), SL_OK);
	run("cp train/a.nii.gz masks/train/a.nii.gz");
	refuses(SL_SPLIT_TRAIN, "all of its voxels are background");
	refuses(SL_SPLIT_TEST, "no NIfTI file in it");
}

/* A class that the network lacks is found once the case is prepared, also by a check alone; and by a patch. */
static void unknown_classes_are_named(void **state)
{
	static const char class[] = "has class 3: the network has the classes 0 to 2";
	static float voxel[SIDE * SIDE * SIDE * 2];
	static int32_t mask[SIDE * SIDE * SIDE];
	struct sl_set_spec spec;
	struct sl_set set;
	struct sl_fail fail = {.text = ""};
	struct sl_volume v;
	const struct sl_volume_files files = files_of("test", "p0", 2);

	write_set();
	spec = set_spec(SL_SPLIT_TEST);
	spec.mask_classes = 3;
	assert_int_equal(sl_set_check(&set, &spec, &fail), SL_OK);
	assert_int_equal(sl_set_open(&set, &spec, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, class));
	assert_non_null(strstr(fail.text, "masks/test/p0"));
	fail.text[0] = 0;
	assert_int_equal(sl_set_check(&set, &spec, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, class));
	prepare_one(&v, &set_volume, &files);
	assert_int_equal(sl_volume_cut(&v, &set_volume, (const int64_t[]){1, 1, 1}, 3, voxel, mask, &fail),
			 SL_ERR_DATA);
	assert_non_null(strstr(fail.text, class));
	sl_volume_close(&v);
}

int main(void)
{
#define ROOTED(test) cmocka_unit_test_setup_teardown(test, make_root, drop_root)
	const struct CMUnitTest tests[] = {
		ROOTED(voxels_keep_their_places),
		ROOTED(masks_are_kept),
		ROOTED(many_places_are_spread),
		ROOTED(numbers_are_scaled),
		cmocka_unit_test(intensities_are_spelled),
		ROOTED(damaged_caches_are_made_anew),
		ROOTED(patches_do_not_depend_on_threads),
		ROOTED(classes_are_drawn_alike),
		ROOTED(whole_cases_have_one_size),
		ROOTED(wrong_places_are_passed_over),
		ROOTED(an_evaluation_sees_every_voxel),
		cmocka_unit_test(masks_are_turned_along),
		cmocka_unit_test(affine_steps_turn_in_mm),
		cmocka_unit_test(affine_steps_come_first),
		ROOTED(two_processes_share_a_cache),
		ROOTED(wrong_folders_are_named),
		ROOTED(unknown_classes_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
