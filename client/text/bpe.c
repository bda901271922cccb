#include "client/text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Words of more tokens use a heap of candidates. In shorter ones each merge looks at all pairs. */
enum { SHORT = 48 };

static const struct sl_bpe_pair no_pair = {0, UINT32_MAX, -1};

static uint32_t first_place(const struct sl_bpe *bpe, uint64_t key)
{
	key *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(key >> 32) & bpe->mask;
}

static uint64_t key_of(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static struct sl_bpe_pair *place(const struct sl_bpe *bpe, uint64_t key)
{
	uint32_t p = first_place(bpe, key);

	while (bpe->pair[p].made >= 0 && bpe->pair[p].key != key)
		p = (p + 1) & bpe->mask;
	return &bpe->pair[p];
}

/* The merge of two tokens; rank UINT32_MAX: there is none. */
static const struct sl_bpe_pair *find(const struct sl_bpe *bpe, int32_t left, int32_t right)
{
	const struct sl_bpe_pair *p = place(bpe, key_of(left, right));

	return p->made < 0 ? &no_pair : p;
}

enum sl_err sl_bpe_make(struct sl_bpe *bpe, const struct sl_tok_merge *merge, int32_t n)
{
	uint32_t places = 16;

	while (places < 2u * (uint32_t)n)
		places *= 2;
	bpe->mask = places - 1;
	bpe->pair = malloc(places * sizeof *bpe->pair);
	if (!bpe->pair)
		return SL_ERR_NOMEM;
	for (uint32_t i = 0; i < places; i++)
		bpe->pair[i] = no_pair;
	for (int32_t i = 0; i < n; i++) /* if a pair comes twice its later rank counts, as upstream */
		*place(bpe, key_of(merge[i].left, merge[i].right)) =
			(struct sl_bpe_pair){key_of(merge[i].left, merge[i].right), (uint32_t)i, merge[i].made};
	return SL_OK;
}

void sl_bpe_free(struct sl_bpe *bpe)
{
	free(bpe->pair);
	*bpe = (struct sl_bpe){0};
}

static void merge_short(const struct sl_bpe *bpe, int32_t *id, size_t *count)
{
	const struct sl_bpe_pair *pair[SHORT]; /* of id[i] and id[i + 1] */
	size_t n = *count;

	for (size_t i = 0; i + 1 < n; i++)
		pair[i] = find(bpe, id[i], id[i + 1]);
	while (n > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			if (pair[i]->rank < pair[best]->rank)
				best = i;
		if (pair[best]->rank == UINT32_MAX)
			break;
		id[best] = pair[best]->made;
		n--;
		memmove(id + best + 1, id + best + 2, (n - best - 1) * sizeof *id);
		if (best + 1 < n) {
			memmove(pair + best + 1, pair + best + 2, (n - best - 2) * sizeof *pair);
			pair[best] = find(bpe, id[best], id[best + 1]);
		}
		if (best > 0)
			pair[best - 1] = find(bpe, id[best - 1], id[best]);
	}
	*count = n;
}

/* A possible merge: of the pair that stood at `at` when it was found, and may have changed since. */
struct candidate {
	uint32_t rank, at;
	int32_t left, right, made;
};

/* A long word: its tokens as a list, and a heap of candidates by rank, then by position. */
struct list {
	const struct sl_bpe *bpe;
	int32_t *id; /* -1: it was merged into the one before */
	uint32_t *next, *prev;
	struct candidate *heap;
	size_t n, n_heap;
};

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void push(struct list *l, uint32_t at)
{
	const struct sl_bpe_pair *p;
	struct candidate c;
	size_t i = l->n_heap;

	if (l->next[at] >= l->n)
		return;
	p = find(l->bpe, l->id[at], l->id[l->next[at]]);
	if (p->made < 0)
		return;
	c = (struct candidate){p->rank, at, l->id[at], l->id[l->next[at]], p->made};
	for (l->n_heap++; i > 0 && before(&c, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
		l->heap[i] = l->heap[(i - 1) / 2];
	l->heap[i] = c;
}

static struct candidate pop(struct list *l)
{
	struct candidate top = l->heap[0], last = l->heap[--l->n_heap];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < l->n_heap; i = child) {
		if (child + 1 < l->n_heap && before(&l->heap[child + 1], &l->heap[child]))
			child++;
		if (!before(&l->heap[child], &last))
			break;
		l->heap[i] = l->heap[child];
	}
	l->heap[i] = last;
	return top;
}

static void join(struct list *l, const struct candidate *c)
{
	uint32_t gone = l->next[c->at];

	l->id[c->at] = c->made;
	l->id[gone] = -1;
	l->next[c->at] = l->next[gone];
	if (l->next[gone] < l->n)
		l->prev[l->next[gone]] = c->at;
	push(l, c->at);
	if (c->at > 0)
		push(l, l->prev[c->at]);
}

/* Gets memory for the list. Each merge removes a token and adds at most two candidates, so 3 n of them are enough. */
static enum sl_err open_list(struct list *l, struct sl_bpe_room *room)
{
	size_t need = 3 * l->n * sizeof(struct candidate) + 2 * l->n * sizeof(uint32_t);

	if (need > room->bytes) {
		free(room->data);
		room->data = malloc(need);
		room->bytes = room->data ? need : 0;
	}
	if (!room->data)
		return SL_ERR_NOMEM;
	l->heap = room->data;
	l->next = (uint32_t *)(l->heap + 3 * l->n);
	l->prev = l->next + l->n;
	for (size_t i = 0; i < l->n; i++) {
		l->next[i] = (uint32_t)i + 1;
		l->prev[i] = (uint32_t)i - 1;
	}
	return SL_OK;
}

static enum sl_err merge_long(const struct sl_bpe *bpe, int32_t *id, size_t *n, struct sl_bpe_room *room)
{
	struct list l = {.bpe = bpe, .id = id, .n = *n};
	enum sl_err err = open_list(&l, room);
	size_t kept = 0;

	if (err)
		return err;
	for (size_t i = 0; i + 1 < l.n; i++)
		push(&l, (uint32_t)i);
	while (l.n_heap > 0) {
		struct candidate c = pop(&l);

		if (id[c.at] == c.left && l.next[c.at] < l.n && id[l.next[c.at]] == c.right)
			join(&l, &c);
	}
	for (size_t i = 0; i < l.n; i++)
		if (id[i] >= 0)
			id[kept++] = id[i];
	*n = kept;
	return SL_OK;
}

enum sl_err sl_bpe_merge(const struct sl_bpe *bpe, int32_t *id, size_t *n, struct sl_bpe_room *room)
{
	if (*n > SHORT)
		return merge_long(bpe, id, n, room);
	merge_short(bpe, id, n);
	return SL_OK;
}
