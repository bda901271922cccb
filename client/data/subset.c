#include "client/data/subset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/aligned.h"
#include "common/base/rng.h"

struct subset {
	struct sl_source source; /* first: set->source points to it, and so to the subset */
	struct sl_set whole;
	int32_t *index; /* [count] */
	int32_t *group; /* [count], of set->group; NULL: there is none */
};

static const struct subset *subset_of(const struct sl_set *set)
{
	return (const struct subset *)(const void *)set->source;
}

static enum sl_err take_sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			       struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->sample(&s->whole, s->index[index], room, out, fail);
}

static int32_t take_label(const struct sl_set *set, int64_t index)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->label(&s->whole, s->index[index]);
}

static const float *take_targets(const struct sl_set *set, int64_t index)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->targets(&s->whole, s->index[index]);
}

static uint64_t take_key(const struct sl_set *set, int64_t index)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->key(&s->whole, s->index[index]);
}

static const char *take_id(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->id(&s->whole, s->index[index], out, size);
}

static int64_t take_extent(const struct sl_set *set, int64_t index)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->extent(&s->whole, s->index[index]);
}

static int64_t take_file(const struct sl_set *set, int64_t index, struct sl_room *room)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->file(&s->whole, s->index[index], room);
}

static uint64_t take_images(const struct sl_set *set, int64_t index)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->images(&s->whole, s->index[index]);
}

static const char *take_sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->sample_name(&s->whole, s->index[index], out, size);
}

static const char *take_class_name(const struct sl_set *set, int label)
{
	const struct subset *s = subset_of(set);

	return s->whole.source->class_name(&s->whole, label);
}

static void close_subset(struct sl_set *set)
{
	struct subset *s = (struct subset *)(uintptr_t)subset_of(set);

	sl_set_close(&s->whole);
	free(s->index);
	free(s->group);
	free(s);
}

enum sl_err sl_subset_of(struct sl_set *set, int32_t *index, int64_t count, struct sl_fail *fail)
{
	struct subset *s = calloc(1, sizeof *s);

	if (!s)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
	if (set->group) {
		s->group = malloc((size_t)count * sizeof *s->group + 1);
		if (!s->group) {
			free(s);
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
		}
		for (int64_t i = 0; i < count; i++)
			s->group[i] = set->group[index[i]];
	}
	s->whole = *set;
	s->whole.group = NULL; /* the caller's, or its source's */
	s->index = index;
	s->source = *set->source;
	s->source.sample = take_sample;
	s->source.close = close_subset;
	s->source.key = set->source->key ? take_key : NULL;
	s->source.id = set->source->id ? take_id : NULL;
	s->source.extent = set->source->extent ? take_extent : NULL;
	s->source.file = set->source->file ? take_file : NULL;
	s->source.images = set->source->images ? take_images : NULL;
	s->source.sample_name = set->source->sample_name ? take_sample_name : NULL;
	s->source.class_name = set->source->class_name ? take_class_name : NULL;
	s->source.label = set->source->label ? take_label : NULL;
	s->source.targets = set->source->targets ? take_targets : NULL;
	set->source = &s->source;
	set->group = s->group;
	set->count = count;
	return SL_OK;
}

enum sl_err sl_subset_aligned(struct sl_set *set, const struct sl_aligned *a, enum sl_split split, struct sl_fail *fail)
{
	struct sl_names names = {0};
	int32_t *place = NULL;
	enum sl_err err = sl_aligned_names(set, &names, fail);

	if (!err)
		err = sl_aligned_places(a, split, &names, &place, fail);
	if (!err)
		err = sl_subset_of(set, place, a->row[split].n, fail);
	if (err)
		free(place);
	sl_names_close(&names);
	return err;
}

enum sl_err sl_subset_spread(struct sl_set *set, int64_t wanted, struct sl_fail *fail)
{
	int32_t *index = NULL;
	enum sl_err err;

	if (!wanted || wanted >= set->count)
		return SL_OK;
	index = malloc((size_t)wanted * sizeof *index);
	for (int64_t i = 0; i < wanted && index; i++)
		index[i] = (int32_t)sl_set_spread(i, wanted, set->count);
	err = index ? sl_subset_of(set, index, wanted, fail)
		    : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to choose samples");
	if (err)
		free(index);
	return err;
}

/* ---- which samples */

struct deal {
	const struct sl_set *set;
	const struct sl_subset_spec *spec;
	int32_t *order; /* [count], all samples in the order in which they are dealt out */
	int32_t *label; /* [count] */
	int64_t *count; /* [members], samples of each */
	int32_t *own;   /* [n_own], in memory for [count]: this member's samples */
	int64_t n_own;
};

static void shuffle(struct deal *d)
{
	const struct sl_rng_key key = {.seed = d->spec->seed, .tensor = SL_RNG_PARTS};

	for (int64_t i = 0; i < d->set->count; i++)
		d->order[i] = (int32_t)i;
	for (int64_t last = d->set->count - 1; last > 0; last--) {
		const uint32_t other = sl_rng_below(sl_rng_u32(&key, (uint64_t)last), (uint32_t)last + 1);
		const int32_t swap = d->order[last];

		d->order[last] = d->order[other];
		d->order[other] = swap;
	}
}

static enum sl_err read_labels(struct deal *d, struct sl_fail *fail)
{
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	if (d->set->field[SL_FIELD_TARGET].dtype != SL_I32 || !d->set->classes)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the set has no labels: take iid");
	for (int64_t i = 0; i < d->set->count && !err; i++)
		err = sl_set_label(d->set, i, &room, &d->label[i], fail);
	sl_room_close(&room);
	return err;
}

/* Sorts the order by label. Samples of one label keep their order. */
static void sort_by_label(struct deal *d, int32_t *sorted)
{
	int64_t n = 0;

	for (int label = 0; label < d->set->classes; label++)
		for (int64_t i = 0; i < d->set->count; i++)
			if (d->label[d->order[i]] == label)
				sorted[n++] = d->order[i];
	memcpy(d->order, sorted, (size_t)n * sizeof *sorted);
}

/* Gives samples [from, to) of the order to one member. */
static void deal_samples(struct deal *d, int member, int64_t from, int64_t to)
{
	d->count[member] += to - from;
	for (int64_t i = from; i < to && member == d->spec->member; i++)
		d->own[d->n_own++] = d->order[i];
}

static void deal_equally(struct deal *d)
{
	const int n = d->spec->members;

	for (int m = 0; m < n; m++)
		deal_samples(d, m, d->set->count * m / n, d->set->count * (m + 1) / n);
}

/* Uniform in (0, 1). */
static double uniform(const struct sl_rng_key *key, uint64_t *draw)
{
	return ((double)sl_rng_u32(key, (*draw)++) + 0.5) * 0x1p-32;
}

/* The logarithm of a gamma variable (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
 * With a small alpha the variable itself would underflow. */
static double log_gamma_variable(const struct sl_rng_key *key, uint64_t *draw, double alpha)
{
	const double least = alpha < 1 ? alpha + 1 : alpha, d = least - 1.0 / 3, c = 1 / sqrt(9 * d);
	const double more = alpha < 1 ? log(uniform(key, draw)) / alpha : 0;

	for (;;) {
		const double r = sqrt(-2 * log(uniform(key, draw))), x = r * cos(2 * M_PI * uniform(key, draw));
		const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);

		if (v > 0 && log(uniform(key, draw)) < 0.5 * x * x + d - d * v + d * log(v))
			return log(d * v) + more;
	}
}

/* Deals out the samples of one label, [from, to) of the order, by shares from a Dirichlet distribution. */
static void deal_label(struct deal *d, int label, int64_t from, int64_t to, double *share)
{
	const struct sl_rng_key key = {.seed = d->spec->seed, .step = (uint64_t)label + 1, .tensor = SL_RNG_PARTS};
	const int n = d->spec->members;
	double most = -INFINITY, sum = 0, up_to = 0;
	int64_t at = from;
	uint64_t draw = 0;

	for (int m = 0; m < n; m++) {
		share[m] = log_gamma_variable(&key, &draw, d->spec->parts.alpha);
		most = fmax(most, share[m]);
	}
	for (int m = 0; m < n; m++)
		sum += share[m] = exp(share[m] - most);
	for (int m = 0; m < n; m++) {
		int64_t end;

		up_to += share[m];
		end = m == n - 1 ? to : from + (int64_t)((double)(to - from) * (up_to / sum));
		deal_samples(d, m, at, end);
		at = end;
	}
}

static enum sl_err deal_dirichlet(struct deal *d, struct sl_fail *fail)
{
	double *share = malloc((size_t)d->spec->members * sizeof *share);
	int64_t from = 0;

	if (!share)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
	while (from < d->set->count) {
		const int label = d->label[d->order[from]];
		int64_t to = from;

		while (to < d->set->count && d->label[d->order[to]] == label)
			to++;
		deal_label(d, label, from, to, share);
		from = to;
	}
	free(share);
	return SL_OK;
}

static enum sl_err deal_out(struct deal *d, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	memset(d->count, 0, (size_t)d->spec->members * sizeof *d->count);
	shuffle(d);
	if (d->spec->parts.kind != SL_PARTS_IID) {
		err = read_labels(d, fail);
		if (err)
			return err;
		sort_by_label(d, d->own);
	}
	if (d->spec->parts.kind == SL_PARTS_DIRICHLET)
		err = deal_dirichlet(d, fail);
	else
		deal_equally(d);
	for (int m = 0; m < d->spec->members && !err; m++)
		if (!d->count[m])
			err = sl_fail_set(fail, SL_ERR_CONFIG, "member %d of %d gets none of %lld samples", m,
					  d->spec->members, (long long)d->set->count);
	return err;
}

static int by_number(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

enum sl_err sl_subset_open(struct sl_set *set, const struct sl_subset_spec *spec, int64_t *count, struct sl_fail *fail)
{
	const size_t bytes = (size_t)set->count * sizeof(int32_t) + 1;
	struct deal d = {.set = set, .spec = spec, .count = count};
	enum sl_err err;

	d.order = malloc(bytes);
	d.label = malloc(bytes);
	d.own = malloc(bytes);
	err = d.order && d.label && d.own ? deal_out(&d, fail)
					  : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
	free(d.order);
	free(d.label);
	if (!err) {
		qsort(d.own, (size_t)d.n_own, sizeof *d.own, by_number);
		err = sl_subset_of(set, d.own, d.n_own, fail);
	}
	if (err)
		free(d.own);
	return err;
}
