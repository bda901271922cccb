/* Whether a member that comes back can have all others go back with it. A member says by itself which steps it holds,
 * and it may have lost its files, have a full disk, or lie. So what it says takes effect only where the store has the
 * same step, and most of the others hold it, too: else one member could have all begin anew, or end. */
#include "server/group_impl.h"

/* One that crashes again and again would have the others do the same steps for ever. */
enum { BACK_MOST = 5 };

/* Each member keeps two checkpoints, and said so with its last step. */
static bool has_later(const struct sl_group *g, int k, uint64_t step)
{
	const uint64_t older = g->seat[k].pin[SL_WIRE_KEPT - 1];

	return older > step;
}

bool sl_group_others_are_past(const struct sl_group *g, int k, uint64_t step)
{
	int others = 0, later = 0;

	for (int i = g->first; i < g->end; i++) {
		if (i == k || !g->seat[i].m)
			continue;
		others++;
		later += has_later(g, i, step);
	}
	return 2 * later > others;
}

bool sl_group_lost_files(const struct sl_group *g, int k)
{
	return sl_group_is_new(sl_group_hello(g, k)) && (g->seat[k].has_files || sl_group_others_are_past(g, k, 0));
}

static bool is_stored(const struct sl_group *g, uint64_t step)
{
	uint64_t file = UINT64_MAX;

	while (g->keep.dir[0] && sl_checkpoint_older(g->keep.dir, g->keep.prefix, &file))
		if (file == step)
			return true;
	return false;
}

bool sl_group_can_go_back(const struct sl_group *g, int k, uint64_t *step)
{
	const struct sl_hello *h = sl_group_hello(g, k);
	bool can = false;

	*step = 0;
	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] < g->seat[k].number && (!h->held[i] || is_stored(g, h->held[i])) &&
		    !sl_group_others_are_past(g, k, h->held[i])) {
			can = true;
			*step = h->held[i] > *step ? h->held[i] : *step;
		}
	return can;
}

/* The count begins anew behind a later checkpoint alone: else two steps named in turns would have no end. */
bool sl_group_may_go_back(struct sl_group *g, int k)
{
	struct sl_group_seat *seat = &g->seat[k];
	uint64_t step;

	if (sl_group_lost_files(g, k) || !sl_group_can_go_back(g, k, &step))
		return false;
	if (step > seat->back_to) {
		seat->back_to = step;
		seat->backs = 0;
	}
	return seat->backs++ < BACK_MOST;
}

static int lacks(const struct sl_group *g, uint64_t step, int *who)
{
	int n = 0;

	for (int k = g->first; k < g->end; k++)
		if (g->seat[k].m && !sl_hello_holds(sl_group_hello(g, k), step)) {
			*who = k;
			n++;
		}
	return n;
}

int sl_group_odd_one(const struct sl_group *g)
{
	uint64_t file = UINT64_MAX;
	int odd = -1, who;

	while (sl_checkpoint_older(g->keep.dir, g->keep.prefix, &file)) {
		const int n = lacks(g, file, &who);

		if (!n)
			return -1; /* all can go on from there */
		if (n == 1 && odd < 0)
			odd = who;
	}
	return odd >= 0 && sl_group_others_are_past(g, odd, 0) ? odd : -1;
}
