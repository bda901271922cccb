#include "common/session/port_check.h"

#include "common/base/assert.h"

/* How many buffers there are for runs of this kind. */
static int slots_of(const struct sl_port *p, uint32_t what)
{
	return what < SL_PART_WEIGHTS ? p->slots : 1;
}

void sl_port_check_waiting(const struct lane_out *w, enum sl_task task)
{
	sl_assert_int(w->count, >=, 0);
	sl_assert_int(w->count, <, SL_SESSION_MAX_CHUNKS);
	if (w->count)
		sl_assert_int(w->task, ==, task);
}

void sl_port_check_post(const struct sl_port *p, enum sl_part_what what, int chunk)
{
	const struct run_slot *slot = &p->run[what][chunk];

	sl_assert(!p->dead && p->run[what]);
	sl_assert_int(chunk, >=, 0);
	sl_assert_int(chunk, <, slots_of(p, what));
	sl_assert(slot->port == p);
	sl_assert(!slot->busy); /* the transport may still read what is in it */
	if (slot->rest)
		sl_assert_int(slot->rest_at, <=, slot->len);
	if (!slot->rest && what != SL_PART_WEIGHTS)
		sl_assert_int(slot->len, <=, slot->cap);
}

void sl_port_check_store(const struct sl_port *p, const struct sl_action *a, size_t len)
{
	const struct run_slot *slot = &p->run[a->what][a->chunk];

	sl_assert(p->run[a->what]);
	sl_assert(sl_part_is_state(a->what) || sl_port_receives(p->session.role, (int)a->what));
	sl_assert_int(a->chunk, >=, 0);
	sl_assert_int(a->chunk, <, slots_of(p, a->what));
	sl_assert_int(a->offset + len, <=, a->total);
	sl_assert(a->whole == (a->offset + len == a->total));
	if (!slot->tensor)
		sl_assert_int(a->total, <=, slot->cap);
}

void sl_port_check_dispatch(const struct sl_port *p, enum sl_task task, int chunk)
{
	sl_assert_int(chunk, >=, 0);
	sl_assert_int(chunk, <, p->job_count[task]);
	sl_assert(!p->job[task][chunk].posted);
}
