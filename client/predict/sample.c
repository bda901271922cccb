#define _GNU_SOURCE
#include "client/predict/sample.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"

enum sl_err sl_sample_open(struct sl_sample_room *room, int vocab, struct sl_fail *fail)
{
	room->vocab = vocab;
	room->score = calloc((size_t)vocab, sizeof *room->score);
	room->order = calloc((size_t)vocab, sizeof *room->order);
	return room->score && room->order ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a vocabulary");
}

void sl_sample_close(struct sl_sample_room *room)
{
	free(room->score);
	free(room->order);
	*room = (struct sl_sample_room){0};
}

/* Falling scores, and rising ids of equal ones. */
static int by_score(const void *a, const void *b, void *score)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	const double u = ((const double *)score)[x], v = ((const double *)score)[y];

	return u != v ? (u < v ? 1 : -1) : x - y;
}

/* Penalizes each token of the row once, however often it occurs. */
static void penalize(struct sl_sample_room *room, double penalty, const float *logits, const int32_t *id, int64_t n)
{
	for (int64_t i = 0; i < n && penalty != 1; i++) {
		const double z = (double)logits[id[i]];

		room->score[id[i]] = z > 0 ? z / penalty : z * penalty;
	}
}

static int32_t largest(const struct sl_sample_room *room)
{
	int32_t best = 0;

	for (int32_t i = 1; i < room->vocab; i++)
		if (room->score[i] > room->score[best])
			best = i;
	return best;
}

/* Sorts the tokens by score, and turns scores into probabilities times a constant. Returns how many tokens top_k and
 * top_p keep; *sum is their sum. */
static int weigh(struct sl_sample_room *room, const struct sl_sampling *how, double *sum)
{
	int n = room->vocab, kept = 0;
	double all = 0, top;

	for (int32_t i = 0; i < n; i++)
		room->order[i] = i;
	qsort_r(room->order, (size_t)n, sizeof *room->order, by_score, room->score);
	n = how->top_k && how->top_k < n ? how->top_k : n;
	top = room->score[room->order[0]];
	for (int i = 0; i < n; i++) {
		double *s = &room->score[room->order[i]];

		*s = exp((*s - top) / how->temperature);
		all += *s;
	}
	for (*sum = 0; kept < n && (kept == 0 || *sum < how->top_p * all); kept++)
		*sum += room->score[room->order[kept]];
	return kept;
}

static int32_t draw(struct sl_sample_room *room, const struct sl_sampling *how, uint64_t prompt, uint64_t place)
{
	const struct sl_rng_key key = {.seed = how->seed, .step = prompt, .tensor = SL_RNG_GENERATE};
	double sum, left;
	const int n = weigh(room, how, &sum);

	left = (double)sl_rng_u32(&key, place) * 0x1p-32 * sum;
	for (int i = 0; i + 1 < n; i++) {
		left -= room->score[room->order[i]];
		if (left < 0)
			return room->order[i];
	}
	return room->order[n - 1];
}

enum sl_err sl_sample_next(struct sl_sample_room *room, const struct sl_sampling *how, const float *logits,
			   const int32_t *id, int64_t n, uint64_t prompt, int32_t *out)
{
	for (int i = 0; i < room->vocab; i++) {
		if (!isfinite(logits[i]))
			return SL_ERR_NONFINITE;
		room->score[i] = (double)logits[i];
	}
	penalize(room, how->penalty, logits, id, n);
	*out = how->temperature > 0 ? draw(room, how, prompt, (uint64_t)n) : largest(room);
	return SL_OK;
}
