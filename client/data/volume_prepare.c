/* Prepares a case (volume.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "client/data/volume.h"
#include "common/base/newfile.h"
#include "common/codec/loops.h"
#include "common/graph/task.h"

enum { CHANNELS = SL_VOLUME_CHANNELS, CLASSES = SL_VOLUME_CLASSES, LARGEST_HALF = 65504 };

/* A case on its way. All sequences have the same view. */
struct work {
	const struct sl_volume_spec *spec;
	const struct sl_volume_files *files;
	bool unmasked; /* the mask is not read */
	struct sl_nifti sequence[CHANNELS], mask;
	struct sl_nifti_view view;
	struct sl_volume_head head;
	double step[3]; /* from voxel to voxel of what is made, in voxels of the file */
	float *voxel;   /* [D, H, W, channels] */
	uint8_t *label; /* [D, H, W] */
	uint32_t *place;
};

static enum sl_err read_file(const char *path, struct sl_nifti *out, bool whole, struct sl_fail *fail)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
	struct stat st;
	struct sl_fail why = {.text = ""};
	enum sl_err err;

	if (!file)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	err = fstat(fd, &st) || !S_ISREG(st.st_mode) ? sl_fail_set(&why, SL_ERR_NOINPUT, "not a regular file")
						     : sl_nifti_read(out, file, whole, &why);
	fclose(file);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}

/* Whether two files have the same voxels at the same places, though stored in another order. */
static bool only_turned(const struct sl_nifti *a, const struct sl_nifti *b)
{
	struct sl_nifti_view x, y;

	sl_nifti_orient(&x, a, false);
	sl_nifti_orient(&y, b, false);
	return memcmp(x.dim, y.dim, sizeof x.dim) == 0 && sl_world_agrees(&x.affine, &y.affine, x.dim);
}

static enum sl_err agree(const struct sl_nifti *a, const struct sl_nifti *b, const char *path, const char *other,
			 struct sl_fail *fail)
{
	const bool placed = a->placed && b->placed,
		   alike = memcmp(a->dim, b->dim, sizeof a->dim) == 0 &&
			   (!placed || sl_world_agrees(&a->affine, &b->affine, a->dim));

	if (!alike && placed && only_turned(a, b))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: its voxels lie where those of %.200s do, but its axes are stored in another "
				   "order or direction: store both alike, for example with nibabel's "
				   "as_closest_canonical",
				   path, other);
	if (memcmp(a->dim, b->dim, sizeof a->dim) != 0)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: has %" PRId64 " × %" PRId64 " × %" PRId64 " voxels, and %.200s has %" PRId64
				   " × %" PRId64 " × %" PRId64 ": resample one to the other's grid",
				   path, b->dim[0], b->dim[1], b->dim[2], other, a->dim[0], a->dim[1], a->dim[2]);
	if (!alike)
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s: its voxels lie elsewhere than those of %.200s: resample one to the other's grid", path,
			other);
	return SL_OK;
}

static enum sl_err read_case(struct work *w, bool whole, struct sl_fail *fail)
{
	const struct sl_volume_files *f = w->files;
	enum sl_err err = SL_OK;

	for (int c = 0; c < f->n && !err; c++) {
		err = read_file(f->path[c], &w->sequence[c], whole, fail);
		if (!err)
			err = agree(&w->sequence[0], &w->sequence[c], f->path[c], f->path[0], fail);
	}
	w->head.unplaced = !w->sequence[0].placed;
	w->head.disputed = w->sequence[0].disputed;
	if (err || w->unmasked || !f->mask[0])
		return err;
	err = read_file(f->mask, &w->mask, whole, fail);
	return err ? err : agree(&w->sequence[0], &w->mask, f->mask, f->path[0], fail);
}

static void close_work(struct work *w)
{
	for (int c = 0; c < CHANNELS; c++)
		sl_nifti_close(&w->sequence[c]);
	sl_nifti_close(&w->mask);
	free(w->voxel);
	free(w->label);
	free(w->place);
	free(w);
}

static enum sl_err no_memory(const struct work *w, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory to prepare it", w->files->path[0]);
}

static struct work *begin_work(const struct sl_volume_spec *spec, const struct sl_volume_files *files,
			       struct sl_fail *fail)
{
	struct work *w = calloc(1, sizeof *w);

	if (!w) {
		(void)!sl_fail_set(fail, SL_ERR_NOMEM, "no memory to read %s", files->path[0]);
		return NULL;
	}
	w->spec = spec;
	w->files = files;
	memcpy(w->head.magic, SL_VOLUME_MAGIC, sizeof w->head.magic);
	w->head.channels = files->n;
	return w;
}

/* ---- the cut */

static enum sl_err check_mask(const struct work *w, struct sl_fail *fail)
{
	const struct sl_nifti *m = &w->mask;
	const int64_t n = m->voxel ? m->dim[0] * m->dim[1] * m->dim[2] : 0;

	for (int64_t i = 0; i < n; i++)
		if (!(m->voxel[i] >= 0 && m->voxel[i] < CLASSES) || m->voxel[i] != floorf(m->voxel[i]))
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s: voxel (%" PRId64 ", %" PRId64 ", %" PRId64
					   ") is %g: a mask has whole numbers from 0 to %d",
					   w->files->mask, i % m->dim[0], i / m->dim[0] % m->dim[1],
					   i / m->dim[0] / m->dim[1], (double)m->voxel[i], CLASSES - 1);
	return SL_OK;
}

static bool is_background(const struct work *w, int64_t at)
{
	const struct sl_conf_intensity *x = &w->spec->intensity;

	for (int c = 0; c < w->files->n; c++) {
		const float v = w->sequence[c].voxel[at];

		if (x->kind == SL_INTENSITY_CT ? (double)v > x->low : v != 0)
			return false;
	}
	return !w->mask.voxel || w->mask.voxel[at] == 0;
}

/* Finds the box outside of which all is background. */
static enum sl_err cut(struct work *w, struct sl_fail *fail)
{
	const struct sl_nifti_view *v = &w->view;
	int64_t low[3] = {INT64_MAX, INT64_MAX, INT64_MAX}, high[3] = {-1, -1, -1};

	for (int64_t d = 0; d < v->dim[0]; d++)
		for (int64_t h = 0; h < v->dim[1]; h++)
			for (int64_t x = 0; x < v->dim[2]; x++) {
				const int64_t at[3] = {d, h, x};

				if (is_background(w, v->first + d * v->step[0] + h * v->step[1] + x * v->step[2]))
					continue;
				for (int axis = 0; axis < 3; axis++) {
					low[axis] = at[axis] < low[axis] ? at[axis] : low[axis];
					high[axis] = at[axis] > high[axis] ? at[axis] : high[axis];
				}
			}
	if (high[0] < 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: all of its voxels are background%s", w->files->path[0],
				   w->spec->intensity.kind == SL_INTENSITY_CT ? ", the lowest of data.intensity" : "");
	for (int axis = 0; axis < 3; axis++) {
		w->head.whole[axis] = v->dim[axis];
		w->head.crop[axis] = low[axis];
		w->head.kept[axis] = high[axis] - low[axis] + 1;
	}
	return SL_OK;
}

/* ---- resampling */

/* Chooses the size and the place of what is made. Its first voxel begins where that of the cut does. */
static enum sl_err choose_grid(struct work *w, struct sl_fail *fail)
{
	struct sl_volume_head *h = &w->head;
	double *step = w->step;
	int64_t voxels = 1;

	h->of_whole = h->world = w->view.affine;
	for (int axis = 0; axis < 3; axis++) {
		const double has = sl_world_spacing(&w->view.affine, axis), wants = w->spec->spacing[axis];
		const double begin = (double)h->crop[axis];

		step[axis] = wants > 0 && fabs(wants / has - 1) > 1e-4 ? wants / has : 1;
		h->dim[axis] = (int64_t)fmax(1, floor((double)h->kept[axis] / step[axis] + 0.5));
		if (h->dim[axis] > SL_NIFTI_MOST / voxels)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s: at this data.spacing it has too many voxels: at most %d",
					   w->files->path[0], SL_NIFTI_MOST);
		voxels *= h->dim[axis];
		for (int i = 0; i < 3; i++) {
			h->world.m[i][3] += w->view.affine.m[i][axis] * (begin + step[axis] / 2 - 0.5);
			h->world.m[i][axis] *= step[axis];
		}
	}
	return SL_OK;
}

enum sl_err sl_volume_check(int64_t dim[3], const struct sl_volume_spec *spec, const struct sl_volume_files *files,
			    struct sl_fail *fail)
{
	struct work *w = begin_work(spec, files, fail);
	enum sl_err err;

	if (!w)
		return SL_ERR_NOMEM;
	err = read_case(w, false, fail);
	if (!err) {
		sl_volume_warn_of_place(w->head.unplaced, w->head.disputed, files->path[0]);
		sl_nifti_orient(&w->view, &w->sequence[0], spec->xyz);
		memcpy(w->head.kept, w->view.dim, sizeof w->head.kept);
		err = choose_grid(w, fail);
	}
	if (!err)
		memcpy(dim, w->head.dim, sizeof w->head.dim);
	close_work(w);
	return err;
}

void sl_between_lay(struct sl_between *out, int64_t n, double step, int64_t side)
{
	for (int64_t i = 0; i < n; i++) {
		const double x = fmin(fmax(((double)i + 0.5) * step - 0.5, 0), (double)(side - 1));

		out[i].low = (int64_t)x;
		out[i].high = out[i].low + 1 < side ? out[i].low + 1 : out[i].low;
		out[i].nearest = (int64_t)(x + 0.5);
		out[i].share = (float)(x - (double)out[i].low);
	}
}

/* A row along the width: `corner` are the starts of the four rows in the file around it, `down` and `across` how near
 * it is to the second of each pair. */
static void resample_row(float *out, int64_t n, int64_t channels, const float *const corner[4], float down,
			 float across, const struct sl_between *x, int64_t step)
{
	for (int64_t i = 0; i < n; i++, x++) {
		float row[4];

		for (int k = 0; k < 4; k++) {
			const float low = corner[k][x->low * step], high = corner[k][x->high * step];

			row[k] = low + (high - low) * x->share;
		}
		row[0] += (row[1] - row[0]) * across;
		row[2] += (row[3] - row[2]) * across;
		out[i * channels] = row[0] + (row[2] - row[0]) * down;
	}
}

static void resample(const struct work *w, struct sl_between *const axis[3])
{
	const int64_t *n = w->head.dim, *step = w->view.step, channels = w->files->n;
	int64_t begin = w->view.first;

	for (int k = 0; k < 3; k++)
		begin += w->head.crop[k] * step[k];
	for (int64_t r = 0; r < n[0] * n[1]; r++) {
		const struct sl_between *d = &axis[0][r / n[1]], *h = &axis[1][r % n[1]];
		const int64_t label = begin + d->nearest * step[0] + h->nearest * step[1];

		for (int c = 0; c < channels; c++) {
			const float *from = w->sequence[c].voxel + begin;
			const float *const corner[4] = {from + d->low * step[0] + h->low * step[1],
							from + d->low * step[0] + h->high * step[1],
							from + d->high * step[0] + h->low * step[1],
							from + d->high * step[0] + h->high * step[1]};

			resample_row(w->voxel + r * n[2] * channels + c, n[2], channels, corner, d->share, h->share,
				     axis[2], step[2]);
		}
		for (int64_t x = 0; x < n[2] && w->mask.voxel; x++)
			w->label[r * n[2] + x] = (uint8_t)w->mask.voxel[label + axis[2][x].nearest * step[2]];
	}
}

static enum sl_err make_voxels(struct work *w, struct sl_fail *fail)
{
	const int64_t *n = w->head.dim, voxels = n[0] * n[1] * n[2];
	struct sl_between *axis[3] = {NULL};
	bool fine = true;

	w->voxel = calloc((size_t)(voxels * w->files->n), sizeof *w->voxel);
	w->label = calloc((size_t)voxels, sizeof *w->label);
	for (int k = 0; k < 3; k++) {
		axis[k] = calloc((size_t)n[k], sizeof *axis[k]);
		fine = fine && axis[k];
	}
	if (fine && w->voxel && w->label) {
		for (int k = 0; k < 3; k++)
			sl_between_lay(axis[k], n[k], w->step[k], w->head.kept[k]);
		resample(w, axis);
	}
	for (int k = 0; k < 3; k++)
		free(axis[k]);
	return fine && w->voxel && w->label ? SL_OK : no_memory(w, fail);
}

/* ---- numbers */

/* Scales one channel. Sums are in the order of voxels. */
static void scale(float *x, int64_t n, int64_t channels, const struct sl_conf_intensity *by)
{
	double sum = 0, square = 0, count = 0, mean = by->mean, deviation = by->deviation;

	for (int64_t i = 0; i < n && by->kind == SL_INTENSITY_MRI; i++) {
		const double v = (double)x[i * channels];

		count += v != 0;
		sum += v;
	}
	mean = by->kind == SL_INTENSITY_MRI && count > 0 ? sum / count : mean;
	for (int64_t i = 0; i < n && by->kind == SL_INTENSITY_MRI; i++) {
		const double v = (double)x[i * channels];

		square += v != 0 ? (v - mean) * (v - mean) : 0;
	}
	if (by->kind == SL_INTENSITY_MRI)
		deviation = square > 0 ? sqrt(square / count) : 1;
	for (int64_t i = 0; i < n && by->kind != SL_INTENSITY_NONE; i++) {
		const double v = (double)x[i * channels];

		if (by->kind == SL_INTENSITY_CT)
			x[i * channels] = (float)((fmin(fmax(v, by->low), by->high) - mean) / deviation);
		else if (v != 0)
			x[i * channels] = (float)((v - mean) / deviation);
	}
}

static enum sl_err check_range(const struct work *w, struct sl_fail *fail)
{
	const int64_t channels = w->head.channels, *dim = w->head.dim, n = dim[0] * dim[1] * dim[2] * channels;
	float most = 0;
	bool differs = false;

	for (int64_t i = 0; i < n; i++) {
		most = fmaxf(most, fabsf(w->voxel[i]));
		differs = differs || w->voxel[i] != w->voxel[i % channels];
	}
	if (!differs)
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s: all of its %" PRId64 " × %" PRId64 " × %" PRId64
			" prepared voxels have one number, and tell a network nothing: look at the file, the "
			"distances of its voxels, and data.intensity",
			w->files->path[0], dim[0], dim[1], dim[2]);
	return most <= LARGEST_HALF ? SL_OK
				    : sl_fail_set(fail, SL_ERR_DATA,
						  "%s: has numbers such as %g, and 16 bits hold at most %d: let "
						  "data.intensity scale them",
						  w->files->path[0], (double)most, LARGEST_HALF);
}

/* Counts the mask's classes, and notes places of all but class 0. */
static enum sl_err note_places(struct work *w, int64_t *n, struct sl_fail *fail)
{
	struct sl_volume_head *h = &w->head;
	const int64_t voxels = h->dim[0] * h->dim[1] * h->dim[2];
	int64_t begin[CLASSES], seen[CLASSES] = {0};

	for (int64_t i = 0; i < voxels; i++)
		h->voxels[w->label[i]]++;
	for (int k = 1; k < SL_LEARN_IGNORED; k++)
		h->places[k] = h->voxels[k] < SL_VOLUME_PLACES ? h->voxels[k] : SL_VOLUME_PLACES;
	*n = 0;
	for (int k = 0; k < CLASSES; k++) {
		begin[k] = *n;
		*n += h->places[k];
	}
	w->place = malloc((size_t)*n * sizeof *w->place + 1);
	if (!w->place)
		return no_memory(w, fail);
	for (int64_t i = 0; i < voxels; i++) {
		const int k = w->label[i];
		const int64_t at = h->places[k] ? seen[k] * h->places[k] / h->voxels[k] : 0;

		/* every voxel, or the last one before each further place */
		if (h->places[k] && (seen[k] + 1) * h->places[k] / h->voxels[k] > at)
			w->place[begin[k] + at] = (uint32_t)i;
		seen[k]++;
	}
	return SL_OK;
}

/* Where a prepared case goes: into its file, or only into a hash. */
struct sink {
	struct sl_newfile *file;
	XXH3_state_t *hash;
};

static enum sl_err put(const struct sink *to, const void *from, size_t len, struct sl_fail *fail)
{
	if (to->file)
		return sl_newfile_write(to->file, from, len, fail);
	XXH3_64bits_update(to->hash, from, len);
	return SL_OK;
}

/* Puts all that is behind the head. */
static enum sl_err put_body(const struct sink *to, const struct work *w, int64_t places, struct sl_fail *fail)
{
	const int64_t voxels = w->head.dim[0] * w->head.dim[1] * w->head.dim[2], all = voxels * w->head.channels;
	uint16_t half[4096];
	enum { SOME = sizeof half / sizeof *half };
	enum sl_err err = SL_OK;

	for (int64_t at = 0; at < all && !err; at += SOME) {
		const int64_t n = all - at < SOME ? all - at : SOME;

		(void)sl_codec_loops_c.to_f16(w->voxel + at, n, (uint8_t *)half);
		err = put(to, half, (size_t)n * sizeof *half, fail);
	}
	if (!err)
		err = put(to, w->label, (size_t)voxels, fail);
	if (!err)
		err = put(to, (const char[4]){0}, (size_t)(-(2 * all + voxels) & 3), fail);
	return err ? err : put(to, w->place, (size_t)places * sizeof *w->place, fail);
}

/* Sets the head's last number, by which a reader knows whether the file still has what was written. */
static enum sl_err hash_file(struct work *w, int64_t places, struct sl_fail *fail)
{
	const struct sink to = {.hash = XXH3_createState()};
	enum sl_err err;

	if (!to.hash)
		return no_memory(w, fail);
	XXH3_64bits_reset_withSeed(to.hash, XXH3_64bits(&w->head, sizeof w->head));
	err = put_body(&to, w, places, fail);
	w->head.kept_hash = XXH3_64bits_digest(to.hash);
	XXH3_freeState(to.hash);
	return err;
}

static enum sl_err write_case(struct work *w, const char *path, int64_t places, struct sl_fail *fail)
{
	struct sl_newfile file;
	const struct sink to = {.file = &file};
	enum sl_err err = hash_file(w, places, fail);

	err = err ? err : sl_newfile_open(&file, path, 0600, SL_FP_NONE, fail);
	if (!err)
		err = put(&to, &w->head, sizeof w->head, fail);
	if (!err)
		err = put_body(&to, w, places, fail);
	return err ? err : sl_newfile_finish(&file, fail);
}

/* All that goes before `places`. */
static enum sl_err make(struct work *w, struct sl_fail *fail)
{
	const struct sl_volume_files *files = w->files;
	enum sl_err err = read_case(w, true, fail);

	if (!err)
		err = check_mask(w, fail);
	if (!err) {
		sl_nifti_orient(&w->view, &w->sequence[0], w->spec->xyz);
		err = cut(w, fail);
	}
	if (!err)
		err = choose_grid(w, fail);
	if (!err)
		err = make_voxels(w, fail);
	for (int c = 0; c < files->n && !err; c++)
		scale(w->voxel + c, w->head.dim[0] * w->head.dim[1] * w->head.dim[2], files->n, &w->spec->intensity);
	return err ? err : check_range(w, fail);
}

/* Hashes what the files hold, whatever their names, times and compression. */
static void hash_contents(struct work *w)
{
	const struct sl_nifti *first = &w->sequence[0];
	const size_t n = (size_t)(first->dim[0] * first->dim[1] * first->dim[2]);
	uint64_t hash = XXH3_64bits(first->dim, sizeof first->dim);

	for (int c = 0; c < w->files->n; c++)
		hash = XXH3_64bits_withSeed(w->sequence[c].voxel, n * sizeof(float), hash);
	w->head.images = hash;
	if (w->mask.voxel)
		hash = XXH3_64bits_withSeed(w->mask.voxel, n * sizeof(float), hash);
	hash = XXH3_64bits_withSeed(&first->affine, sizeof first->affine, hash);
	w->head.contents = hash ^ sl_volume_spec_hash(w->spec);
}

enum sl_err sl_volume_prepare(const char *path, uint64_t hash, const struct sl_volume_spec *spec,
			      const struct sl_volume_files *files, struct sl_fail *fail)
{
	struct work *w = begin_work(spec, files, fail);
	int64_t places = 0;
	enum sl_err err;

	if (!w)
		return SL_ERR_NOMEM;
	w->head.hash = hash;
	err = make(w, fail);
	if (!err) {
		hash_contents(w);
		err = note_places(w, &places, fail);
	}
	if (!err)
		err = write_case(w, path, places, fail);
	close_work(w);
	return err;
}

/* ---- for prediction */

/* Lays a case into memory as its file has it, but for places. */
static enum sl_err keep(const struct work *w, struct sl_volume *out, struct sl_fail *fail)
{
	const int64_t voxels = w->head.dim[0] * w->head.dim[1] * w->head.dim[2], all = voxels * w->head.channels;
	const size_t bytes = sizeof w->head + (size_t)(2 * all + voxels);
	uint8_t *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (to == MAP_FAILED)
		return no_memory(w, fail);
	memcpy(to, &w->head, sizeof w->head);
	(void)sl_codec_loops_c.to_f16(w->voxel, all, to + sizeof w->head);
	*out = (struct sl_volume){.head = (const void *)to,
				  .voxel = (const void *)(to + sizeof w->head),
				  .mask = to + sizeof w->head + 2 * all,
				  .bytes = bytes};
	return SL_OK;
}

enum sl_err sl_volume_prepare_here(struct sl_volume *out, struct sl_volume_back *back,
				   const struct sl_volume_spec *spec, const struct sl_volume_files *files,
				   struct sl_fail *fail)
{
	struct work *w = begin_work(spec, files, fail);
	enum sl_err err;

	if (!w)
		return SL_ERR_NOMEM;
	w->unmasked = true;
	err = make(w, fail);
	if (!err) {
		sl_volume_warn_of_place(w->head.unplaced, w->head.disputed, files->path[0]);
		err = keep(w, out, fail);
	}
	*back = (struct sl_volume_back){.file = w->sequence[0], .view = w->view};
	back->file.voxel = NULL;
	memcpy(back->step, w->step, sizeof back->step);
	close_work(w);
	return err;
}

enum sl_err sl_volume_read_mask(uint8_t **out, const struct sl_volume_back *back, const struct sl_volume_files *files,
				int classes, struct sl_fail *fail)
{
	const int64_t *dim = back->file.dim, n = dim[0] * dim[1] * dim[2];
	struct work *w = begin_work(NULL, files, fail);
	uint8_t *label = w ? malloc((size_t)n) : NULL;
	enum sl_err err = !w ? SL_ERR_NOMEM : label ? SL_OK : no_memory(w, fail);

	if (!err)
		err = read_file(files->mask, &w->mask, true, fail);
	if (!err)
		err = agree(&back->file, &w->mask, files->mask, files->path[0], fail);
	if (!err)
		err = check_mask(w, fail);
	for (int64_t i = 0; i < n && !err; i++) {
		label[i] = (uint8_t)w->mask.voxel[i];
		if (label[i] >= classes && label[i] != SL_LEARN_IGNORED)
			err = sl_fail_set(fail, SL_ERR_DATA, "%s: " SL_VOLUME_CLASS, files->mask, label[i], classes - 1,
					  SL_LEARN_IGNORED);
	}
	if (w)
		close_work(w);
	if (err)
		free(label);
	else
		*out = label;
	return err;
}
