#include "client/data/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "client/data/source.h"
#include "common/base/guard.h"
#include "common/base/rng.h"
#include "common/codec/loops.h"
#include "common/graph/task.h"

uint64_t sl_volume_spec_hash(const struct sl_volume_spec *spec)
{
	const struct sl_conf_intensity *x = &spec->intensity;
	const double steps[] = {spec->spacing[0], spec->spacing[1], spec->spacing[2], spec->xyz,   x->kind,
				x->low,           x->high,          x->mean,          x->deviation};

	return XXH3_64bits(steps, sizeof steps);
}

enum sl_err sl_volume_hash(uint64_t *out, const struct sl_volume_spec *spec, const struct sl_volume_files *files,
			   struct sl_fail *fail)
{
	uint64_t hash = sl_volume_spec_hash(spec);

	for (int c = 0; c < files->n + (files->mask[0] != 0); c++) {
		const char *path = c < files->n ? files->path[c] : files->mask;
		struct stat st;

		if (stat(path, &st) != 0)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
		const int64_t is[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};

		hash = XXH3_64bits_withSeed(is, sizeof is, hash);
		hash = XXH3_64bits_withSeed(path, strlen(path), hash);
	}
	*out = hash;
	return SL_OK;
}

/* Whether the file has what its head says, and nothing else. */
static bool fits(const struct sl_volume_head *h, size_t bytes, uint64_t hash)
{
	int64_t voxels = 1, places = 0;

	if (bytes < sizeof *h || memcmp(h->magic, SL_VOLUME_MAGIC, sizeof h->magic) != 0 || h->hash != hash ||
	    h->channels < 1 || h->channels > SL_VOLUME_CHANNELS)
		return false;
	for (int axis = 0; axis < 3; axis++) {
		if (h->dim[axis] < 1 || h->dim[axis] > SL_NIFTI_MOST / voxels)
			return false;
		voxels *= h->dim[axis];
	}
	for (int k = 0; k < SL_VOLUME_CLASSES; k++) {
		if (h->places[k] < 0 || h->places[k] > SL_VOLUME_PLACES)
			return false;
		places += h->places[k];
	}
	voxels *= 2 * h->channels + 1; /* bytes of voxels and mask */
	return bytes == sizeof *h + (size_t)((voxels + 3) & ~INT64_C(3)) + (size_t)places * sizeof(uint32_t);
}

enum sl_err sl_volume_map(struct sl_volume *out, const char *path, uint64_t hash, struct sl_fail *fail)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const struct sl_volume_head *h = MAP_FAILED;
	struct stat st = {.st_size = 0};
	int64_t voxels;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && !sl_guard_is_foreign(st.st_uid))
		h = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (h == MAP_FAILED || !fits(h, (size_t)st.st_size, hash)) {
		if (h != MAP_FAILED)
			munmap((void *)(uintptr_t)h, (size_t)st.st_size);
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: no prepared case of these files and steps", path);
	}
	voxels = h->dim[0] * h->dim[1] * h->dim[2];
	out->head = h;
	out->bytes = (size_t)st.st_size;
	out->voxel = (const uint16_t *)(const void *)(h + 1);
	out->mask = (const uint8_t *)(out->voxel + voxels * h->channels);
	out->place = (const uint32_t *)(const void *)((const uint8_t *)h + out->bytes);
	for (int k = 0; k < SL_VOLUME_CLASSES; k++)
		out->place -= h->places[k];
	return SL_OK;
}

bool sl_volume_is_sound(const struct sl_volume *volume)
{
	struct sl_volume_head head = *volume->head;

	head.kept_hash = 0;
	return volume->head->kept_hash ==
	       XXH3_64bits_withSeed(volume->head + 1, volume->bytes - sizeof head, XXH3_64bits(&head, sizeof head));
}

void sl_volume_close(struct sl_volume *volume)
{
	if (volume->head)
		munmap((void *)(uintptr_t)volume->head, volume->bytes);
	*volume = (struct sl_volume){.head = NULL};
}

int64_t sl_patch_around(int64_t at, int64_t patch, int64_t side)
{
	const int64_t begin = at - patch / 2;

	if (side <= patch)
		return -(patch - side) / 2;
	return begin < 0 ? 0 : begin > side - patch ? side - patch : begin;
}

int64_t sl_patch_count(int64_t patch, int64_t side)
{
	return (side + patch - 1) / patch;
}

int64_t sl_patch_begin(int64_t i, int64_t patch, int64_t side)
{
	const int64_t n = sl_patch_count(patch, side);

	return n > 1 ? i * (side - patch) / (n - 1) : sl_patch_around(0, patch, side);
}

/* Chooses a class that the case has and the network knows, and one of its voxels. False: it has none. */
static bool draw_place(const struct sl_volume *of, int classes, const uint32_t word[2], int64_t at[3])
{
	const struct sl_volume_head *h = of->head;
	const uint32_t *place = of->place;
	int has = 0, chosen;

	for (int k = 1; k < classes && k < SL_LEARN_IGNORED; k++)
		has += h->places[k] > 0;
	if (!has)
		return false;
	chosen = (int)sl_rng_below(word[0], (uint32_t)has);
	for (int k = 1;; place += h->places[k++])
		if (h->places[k] && !chosen--) {
			const int64_t voxel = place[sl_rng_below(word[1], (uint32_t)h->places[k])];

			at[0] = voxel / h->dim[2] / h->dim[1];
			at[1] = voxel / h->dim[2] % h->dim[1];
			at[2] = voxel % h->dim[2];
			return true;
		}
}

/* Elements 64 · sample: whether around a voxel of a class; the class; the voxel. From + 4 on: the place otherwise. */
void sl_patch_draw(const struct sl_volume *of, const struct sl_volume_spec *spec, int classes,
		   const struct sl_sample_draw *draw, int64_t sample, int64_t at[3])
{
	const struct sl_rng_key key = {.seed = draw->seed, .step = draw->epoch, .tensor = SL_RNG_PATCH};
	const int64_t *patch = spec->patch, *dim = of->head->dim;
	uint32_t choice[4], where[4];
	bool around;

	sl_rng_quad(&key, (uint32_t)(sample * SL_VOLUME_QUADS), choice);
	sl_rng_quad(&key, (uint32_t)(sample * SL_VOLUME_QUADS + 1), where);
	around = (double)sl_rng_unit(choice[0]) < spec->foreground && draw_place(of, classes, choice + 1, at);
	for (int axis = 0; axis < 3; axis++) {
		const int64_t more = dim[axis] - patch[axis];

		at[axis] = around     ? sl_patch_around(at[axis], patch[axis], dim[axis])
			   : more > 0 ? (int64_t)sl_rng_below(where[axis], (uint32_t)more + 1)
				      : sl_patch_around(0, patch[axis], dim[axis]);
	}
}

void sl_patch_place(const struct sl_volume *of, const struct sl_volume_spec *spec, int64_t i, int64_t at[3])
{
	for (int axis = 2; axis >= 0; axis--) {
		const int64_t n = sl_patch_count(spec->patch[axis], of->head->dim[axis]);

		at[axis] = sl_patch_begin(i % n, spec->patch[axis], of->head->dim[axis]);
		i /= n;
	}
}

float sl_volume_background(const struct sl_conf_intensity *x)
{
	return x->kind == SL_INTENSITY_CT ? (float)((x->low - x->mean) / x->deviation) : 0;
}

static void fill(float *x, int64_t n, float value)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = value;
}

enum sl_err sl_volume_cut(const struct sl_volume *volume, const struct sl_volume_spec *spec, const int64_t at[3],
			  int classes, float *voxel, int32_t *mask, struct sl_fail *fail)
{
	const struct sl_volume_head *h = volume->head;
	const int64_t *n = spec->patch, c = h->channels;
	const int64_t first = at[2] < 0 ? -at[2] : 0; /* of a row, in the patch; `inside` are in the volume */
	const int64_t inside = (h->dim[2] - at[2] < n[2] ? h->dim[2] - at[2] : n[2]) - first;
	const float background = sl_volume_background(&spec->intensity);

	for (int64_t r = 0; r < n[0] * n[1]; r++, voxel += n[2] * c, mask += mask ? n[2] : 0) {
		const int64_t d = at[0] + r / n[1], y = at[1] + r % n[1];
		const int64_t from = (d * h->dim[1] + y) * h->dim[2] + at[2] + first;
		const bool there = d >= 0 && d < h->dim[0] && y >= 0 && y < h->dim[1];

		if (!there || inside < n[2]) {
			fill(voxel, n[2] * c, background);
			for (int64_t i = 0; i < n[2] && mask; i++)
				mask[i] = SL_LEARN_IGNORED;
		}
		if (!there)
			continue;
		sl_codec_loops_c.from_f16((const uint8_t *)(volume->voxel + from * c), inside * c, voxel + first * c);
		for (int64_t i = 0; i < inside && mask; i++) {
			const int label = volume->mask[from + i];

			if (label >= classes && label != SL_LEARN_IGNORED)
				return sl_fail_set(fail, SL_ERR_DATA, "its mask " SL_VOLUME_CLASS, label, classes - 1,
						   SL_LEARN_IGNORED);
			mask[first + i] = label;
		}
	}
	return SL_OK;
}
