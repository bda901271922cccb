#include "common/exec/leases.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/assert.h"

struct search {
	/* [n]; and [n_busy] placed buffers that live at the same time as the one to be placed, in any order */
	struct sl_lease **by_birth, **busy;
	int n, n_busy, leaves;
	int *latest; /* [2 * leaves]: a tree over by_birth with the latest death of placed buffers; INT_MIN: none */
	long looks;  /* comparisons left */
};

static int by_size(const void *a, const void *b)
{
	const struct sl_lease *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->birth - y->birth;
}

static int by_offset(const void *a, const void *b)
{
	const struct sl_lease *const *x = a, *const *y = b;

	return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

static int by_birth(const void *a, const void *b)
{
	const struct sl_lease *const *x = a, *const *y = b;

	if ((*x)->birth != (*y)->birth)
		return (*x)->birth < (*y)->birth ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

/* Appends to `busy` the placed buffers that live at the same time as `l`, below a node of the tree. The node has
 * `width` leaves from leaf `at` on. */
static void find_busy(struct search *s, const struct sl_lease *l, int node, int at, int width)
{
	if (at >= s->n || s->latest[node] < l->birth || s->by_birth[at]->birth > l->death)
		return;
	if (width == 1) {
		s->busy[s->n_busy++] = s->by_birth[at];
		return;
	}
	find_busy(s, l, 2 * node, at, width / 2);
	find_busy(s, l, 2 * node + 1, at + width / 2, width / 2);
}

/* The lowest offset at which `l` overlaps no placed buffer that lives at the same time. */
static size_t first_fit(struct search *s, const struct sl_lease *l)
{
	size_t at = 0;

	s->n_busy = 0;
	find_busy(s, l, 1, 0, s->leaves);
	s->looks -= s->n_busy;
	qsort(s->busy, (size_t)s->n_busy, sizeof *s->busy, by_offset);
	for (int i = 0; i < s->n_busy; i++) {
		if (at + l->bytes <= s->busy[i]->offset)
			break;
		if (s->busy[i]->offset + s->busy[i]->bytes > at)
			at = s->busy[i]->offset + s->busy[i]->bytes;
	}
	for (int i = 0; i < s->n_busy; i++) /* what lives at the same time shares no byte */
		sl_assert(at + l->bytes <= s->busy[i]->offset || at >= s->busy[i]->offset + s->busy[i]->bytes);
	return at;
}

static void note_placed(struct search *s, struct sl_lease *l)
{
	struct sl_lease **place = bsearch(&l, s->by_birth, (size_t)s->n, sizeof l, by_birth);

	for (int node = s->leaves + (int)(place - s->by_birth); node > 0 && s->latest[node] < l->death; node /= 2)
		s->latest[node] = l->death;
}

static enum sl_err open_search(struct search *s, struct sl_lease *lease, int n)
{
	*s = (struct search){.n = n, .leaves = 1, .looks = SL_LEASES_LOOKS};
	while (s->leaves < n)
		s->leaves *= 2;
	s->by_birth = malloc(2 * ((size_t)n + 1) * sizeof *s->by_birth);
	s->latest = malloc(2 * (size_t)s->leaves * sizeof *s->latest);
	if (!s->by_birth || !s->latest)
		return SL_ERR_NOMEM;
	s->busy = s->by_birth + n;
	for (int i = 0; i < 2 * s->leaves; i++)
		s->latest[i] = INT_MIN;
	for (int i = 0; i < n; i++)
		s->by_birth[i] = &lease[i];
	qsort(s->by_birth, (size_t)n, sizeof *s->by_birth, by_birth);
	return SL_OK;
}

enum sl_err sl_leases_place(struct sl_lease *lease, int n, size_t *bytes)
{
	struct search s;
	enum sl_err err;

	qsort(lease, (size_t)n, sizeof *lease, by_size);
	err = open_search(&s, lease, n);
	*bytes = 0;
	for (int i = 0; i < n && !err; i++) {
		lease[i].offset = s.looks > 0 ? first_fit(&s, &lease[i]) : *bytes;
		if (lease[i].offset + lease[i].bytes > *bytes)
			*bytes = lease[i].offset + lease[i].bytes;
		if (s.looks > 0)
			note_placed(&s, &lease[i]);
	}
	free(s.by_birth);
	free(s.latest);
	return err;
}
