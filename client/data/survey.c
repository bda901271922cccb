#include "client/data/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, BLOCK = 8 };

/* The results of one sample. They are added up in order once all are read, so the sum does not depend on threads. */
struct seen {
	enum sl_err err;
	int32_t label;
	int h, w;
	double mean[CHANNELS], square[CHANNELS];
};

struct taking {
	const struct sl_set *set;
	const struct sl_transform *transform;
	float mean[CHANNELS], std[CHANNELS]; /* of the transform's normalisation */
	struct seen *seen;                   /* [count] */
	struct sl_room *room;                /* [threads], as `work`; image: [threads, floats] */
	struct sl_transform_work *work;
	float *image;
	size_t floats;
	size_t channels;
};

static enum sl_err read_sample(const struct taking *t, int64_t i, int thread, struct seen *seen, struct sl_fail *fail)
{
	struct sl_value value[SL_FIELD_COUNT] = {0};
	const struct sl_value *picture = &value[SL_FIELD_INPUT], *target = &value[SL_FIELD_TARGET];
	float *image = t->image + (size_t)thread * t->floats;
	struct sl_fail why = {0};
	enum sl_err err;

	t->room[thread].wanted = sl_transform_begin(t->transform, &t->work[thread], 0, 0, i);
	err = t->set->source->sample(t->set, i, &t->room[thread], value, fail);
	if (err)
		return err;
	err = sl_transform_apply(&t->work[thread], image, picture, &why);
	if (err)
		return sl_set_blame(t->set, i, err, &why, fail);
	if (!target->dim[1])
		seen->label = *(const int32_t *)target->data;
	seen->h = picture->part.shrink ? picture->part.h : (int)picture->dim[0];
	seen->w = picture->part.shrink ? picture->part.w : (int)picture->dim[1];
	for (size_t k = 0; k < t->floats; k++) {
		const size_t c = k % t->channels;
		const double x = (double)(image[k] * t->std[c] + t->mean[c]);

		seen->mean[c] += x * (double)t->channels / (double)t->floats;
		seen->square[c] += x * x * (double)t->channels / (double)t->floats;
	}
	if (target->dim[1]) /* a mask, which must fit its picture */
		err = sl_transform_mask(&t->work[thread], (int32_t *)(void *)image, target, &why);
	return sl_set_blame(t->set, i, err, &why, fail);
}

static void read_block(void *arg, int64_t block, int thread)
{
	const struct taking *t = arg;

	for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK && i < t->set->count; i++)
		t->seen[i].err = read_sample(t, i, thread, &t->seen[i], NULL);
}

static int by_size(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Least, median and largest of one side of all pictures. */
static enum sl_err sizes(const struct taking *t, bool height, int64_t n, int *least, int *median, int *most)
{
	int *side = malloc((size_t)(n ? n : 1) * sizeof *side);
	int64_t k = 0;

	if (!side)
		return SL_ERR_NOMEM;
	for (int64_t i = 0; i < t->set->count; i++)
		if (!t->seen[i].err)
			side[k++] = height ? t->seen[i].h : t->seen[i].w;
	qsort(side, (size_t)n, sizeof *side, by_size);
	*least = n ? side[0] : 0;
	*median = n ? side[(n - 1) / 2] : 0;
	*most = n ? side[n - 1] : 0;
	free(side);
	return SL_OK;
}

/* Counts the sample in its class, or in each of several labels that it has. Targets that are numbers do not count. */
static void count_class(struct sl_survey *s, const struct sl_set *set, int64_t index, const int32_t *label)
{
	const float *has = set->classes || !s->classes ? NULL : set->source->targets(set, index);

	if (set->classes && s->classes)
		s->of_class[*label]++;
	for (int k = 0; has && k < s->classes; k++)
		s->of_class[k] += has[k] > 0.5f;
}

/* How many classes or labels there are to count; 0: targets are numbers. */
static int counted(const struct sl_set *set)
{
	const struct sl_field_type *target = &set->field[SL_FIELD_TARGET];

	return set->classes                                                                  ? set->classes
	       : target->ndim && set->source->targets && strcmp(target->name, "labels") == 0 ? (int)sl_set_targets(set)
											     : 0;
}

static enum sl_err sum_up(const struct taking *t, struct sl_survey *s, struct sl_fail *fail)
{
	const struct sl_set *set = t->set;
	double square[CHANNELS] = {0};
	int64_t n = 0;
	enum sl_err err;

	for (int64_t i = 0; i < set->count; i++) {
		const struct seen *seen = &t->seen[i];
		struct sl_fail why = {0};

		if (!seen->err) {
			n++;
			count_class(s, set, i, &seen->label);
			for (int c = 0; c < CHANNELS; c++) {
				s->mean[c] += seen->mean[c];
				square[c] += seen->square[c];
			}
			continue;
		}
		err = s->n_why < SL_SURVEY_NAMED ? read_sample(t, i, 0, &(struct seen){0}, &why) : SL_OK;
		if (seen->err != SL_ERR_DATA && seen->err != SL_ERR_NOINPUT)
			return sl_fail_set(fail, seen->err, "%s", err ? why.text : sl_err_text(seen->err));
		s->bad++;
		if (err)
			s->why[s->n_why++] = why;
	}
	for (int c = 0; c < CHANNELS && n; c++) {
		s->mean[c] /= (double)n;
		s->deviation[c] = sqrt(fmax(square[c] / (double)n - s->mean[c] * s->mean[c], 0));
	}
	err = sizes(t, true, n, &s->least_h, &s->median_h, &s->most_h);
	if (!err)
		err = sizes(t, false, n, &s->least_w, &s->median_w, &s->most_w);
	return err ? sl_fail_set(fail, err, "no memory for sizes") : SL_OK;
}

enum sl_err sl_survey_take(struct sl_survey *out, const struct sl_set *set, const struct sl_transform *transform,
			   struct sl_pool *pool, struct sl_fail *fail)
{
	const int threads = pool ? sl_pool_threads(pool) : 1;
	struct taking t = {.set = set,
			   .transform = transform,
			   .floats = (size_t)sl_transform_height(transform) * (size_t)sl_transform_width(transform) *
				     (size_t)sl_transform_channels(transform),
			   .channels = (size_t)sl_transform_channels(transform)};
	struct sl_survey s = {.samples = set->count,
			      .classes = set->field[SL_FIELD_TARGET].ndim > 1 ? 0 : set->classes, /* masks: none */
			      .channels = (int)t.channels};
	enum sl_err err;

	sl_transform_norm(transform, t.mean, t.std);
	t.seen = calloc((size_t)set->count, sizeof *t.seen);
	t.room = calloc((size_t)threads, sizeof *t.room);
	t.work = calloc((size_t)threads, sizeof *t.work);
	t.image = calloc((size_t)threads * t.floats, sizeof *t.image);
	s.of_class = calloc((size_t)s.classes + 1, sizeof *s.of_class);
	if (!t.seen || !t.room || !t.work || !t.image || !s.of_class) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to look at %lld samples", (long long)set->count);
	} else {
		sl_pool_run(pool, (set->count + BLOCK - 1) / BLOCK, read_block, &t);
		err = sum_up(&t, &s, fail);
	}
	for (int i = 0; i < threads && t.room && t.work; i++) {
		sl_room_close(&t.room[i]);
		sl_transform_work_close(&t.work[i]);
	}
	free(t.seen);
	free(t.room);
	free(t.work);
	free(t.image);
	if (err)
		sl_survey_close(&s);
	else
		*out = s;
	return err;
}

enum sl_err sl_survey_rows(struct sl_survey *out, const struct sl_set *set, struct sl_fail *fail)
{
	struct sl_survey s = {.samples = set->count, .classes = counted(set)};
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	s.of_class = calloc((size_t)s.classes + 1, sizeof *s.of_class);
	if (!s.of_class)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to look at %lld samples", (long long)set->count);
	for (int64_t i = 0; i < set->count && !err; i++) {
		struct sl_value value[SL_FIELD_COUNT] = {0};

		err = set->source->sample(set, i, &room, value, fail);
		if (!err)
			count_class(&s, set, i, value[SL_FIELD_TARGET].data);
	}
	sl_room_close(&room);
	if (err)
		sl_survey_close(&s);
	else
		*out = s;
	return err;
}

void sl_survey_close(struct sl_survey *survey)
{
	free(survey->of_class);
	*survey = (struct sl_survey){0};
}
