/* What is doubtful about prepared cases (volume.h, volume_list.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/volume_list.h"
#include "common/base/log.h"

void sl_volume_warn_of_place(bool unplaced, bool disputed, const char *path)
{
	if (unplaced)
		sl_log_limited(SL_LOG_WARN, "unplaced",
			       "%s: has neither sform nor qform, so its axes are taken to go to the right, the front "
			       "and the head: if they do not, write the file with an affine",
			       path);
	if (disputed)
		sl_log_limited(SL_LOG_WARN, "placed-twice",
			       "%s: its sform and qform turn the axes in other ways, or have other distances of "
			       "voxels. sform is read; programs that read qform see another case: write both alike",
			       path);
}

/* What whole cases have. */
struct sizes {
	int64_t cut, small,
		least;       /* cases of which less than half is read; that fill next to nothing; of both, the worst */
	double read, filled; /* the least */
	int64_t smallest;
};

/* The share of one axis that both have. */
static double common(int64_t of, int64_t with)
{
	return of > with ? (double)with / (double)of : 1;
}

static void add(struct sizes *s, const struct sl_volume_head *h, const int64_t size[3], int64_t i)
{
	double read = 1, filled = 1;
	bool flat = false;

	for (int axis = 0; axis < 3; axis++) {
		read *= common(h->dim[axis], size[axis]);
		filled *= common(size[axis], h->dim[axis]);
		flat = flat || (h->dim[axis] == 1 && size[axis] > 1);
	}
	s->cut += read < 0.5;
	s->small += filled < SL_VOLUME_SMALL || flat;
	if (read < s->read) {
		s->read = read;
		s->least = i;
	}
	if (filled < s->filled) {
		s->filled = filled;
		s->smallest = i;
	}
}

void sl_volume_warn_of_sizes(const struct sl_volume *at, int64_t n, const struct sl_volume_spec *spec,
			     const struct sl_volume_list *list, int64_t first)
{
	struct sizes s = {.read = 1, .filled = 1};
	const int64_t *d;
	char name[PATH_MAX];

	for (int64_t i = 0; i < n && spec->whole; i++)
		add(&s, at[i].head, spec->patch, i);
	if (s.cut) {
		d = at[s.least].head->dim;
		sl_volume_list_name(list, first + s.least, name, sizeof name);
		sl_log_limited(SL_LOG_WARN, "cut-off",
			       "data.size reads less than half of the voxels of %" PRId64 " of %" PRId64
			       " case%s: %.2g %% of %s, which has %" PRId64 " × %" PRId64 " × %" PRId64
			       " at this data.spacing. The network does not see what lies farther from the middle: a "
			       "wider data.spacing or a larger data.size shows more",
			       s.cut, n, sl_plural(n), 100 * s.read, name, d[0], d[1], d[2]);
	}
	if (s.small) {
		d = at[s.smallest].head->dim;
		sl_volume_list_name(list, first + s.smallest, name, sizeof name);
		sl_log_limited(SL_LOG_WARN, "small-case",
			       "%" PRId64 " of %" PRId64 " case%s fill%s less than 1/64 of data.size, or only one "
			       "voxel along an axis, such as %s with %" PRId64 " × %" PRId64 " × %" PRId64
			       " at this data.spacing: are the distances of voxels in its file right, in mm?",
			       s.small, n, sl_plural(n), s.small == 1 ? "s" : "", name, d[0], d[1], d[2]);
	}
}

void sl_volume_warn_of_classes(const struct sl_volume *at, const struct sl_volume_list *list,
			       const struct sl_names *classes)
{
	for (int64_t k = 0; k < classes->n; k++) {
		int64_t n = 0;

		for (int64_t i = 0; i < list->cases.n; i++)
			n += at[i].head->voxels[k];
		if (!n)
			sl_log(SL_LOG_WARN, "class-missing", "class \"%.60s\": no mask in %s has it",
			       sl_name(classes, k), list->masks);
	}
}

/* A case by the hash of its images. */
struct image {
	uint64_t hash;
	int64_t at;
};

static int by_hash(const void *a, const void *b)
{
	const struct image *x = a, *y = b;

	return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->at > y->at) - (x->at < y->at);
}

/* Whether two cases of one image have other classes, or other masks. */
static bool differ(const struct sl_volume *at, const struct sl_volume_list *list, int64_t a, int64_t b)
{
	const struct sl_volume_head *x = at[a].head, *y = at[b].head;

	if (list->label)
		return list->label[a] != list->label[b];
	return list->masks[0] && (memcmp(x->dim, y->dim, sizeof x->dim) != 0 ||
				  memcmp(at[a].mask, at[b].mask, (size_t)(x->dim[0] * x->dim[1] * x->dim[2])) != 0);
}

/* What the cases of one image are: how many of them have an earlier one, and the pair to be named. */
struct pairs {
	int64_t same, apart; /* apart: with another class or mask than the earlier one */
	int64_t pair[2];     /* one that is apart, if there is one */
};

static void count_pairs(struct pairs *p, const struct image *image, int64_t n, const struct sl_volume *at,
			const struct sl_volume_list *list)
{
	int64_t first = 0;

	for (int64_t i = 1; i < n; i++) {
		bool apart;

		if (image[i].hash != image[first].hash) {
			first = i;
			continue;
		}
		apart = differ(at, list, image[first].at, image[i].at);
		if (!p->same || (apart && !p->apart)) {
			p->pair[0] = image[first].at;
			p->pair[1] = image[i].at;
		}
		p->same++;
		p->apart += apart;
	}
}

void sl_volume_warn_of_same(const struct sl_volume *at, const struct sl_volume_list *list)
{
	const int64_t n = list->cases.n;
	struct image *image = malloc((size_t)n * sizeof *image + 1);
	struct pairs p = {.same = 0};
	char name[2][PATH_MAX], apart[96] = "";

	for (int64_t i = 0; i < n && image; i++)
		image[i] = (struct image){at[i].head->images, i};
	if (image) {
		qsort(image, (size_t)n, sizeof *image, by_hash);
		count_pairs(&p, image, n, at, list);
	}
	free(image);
	if (!p.same)
		return;
	for (int k = 0; k < 2; k++)
		sl_volume_list_name(list, p.pair[k], name[k], sizeof name[k]);
	if (p.apart)
		snprintf(apart, sizeof apart, ", %" PRId64 " of them with another %s", p.apart,
			 list->label ? "class" : "mask");
	sl_log(SL_LOG_WARN, "same-images",
	       "%s: %" PRId64 " of %" PRId64
	       " cases have the images of another case%s, such as %s and %s: take all but "
	       "one of them out",
	       list->root, p.same, n, apart, name[0], name[1]);
}
