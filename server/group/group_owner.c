/* Which client a seat of a group belongs to. On the worker; what the operator's list says of it, on the loop.
 *
 * Anybody can claim to hold a step, so a step's number gives no right to a seat. The session's id does, since the
 * member has proven that it has the session's secret (link/proof.h). A seat notes the session that was last welcomed
 * there, and with auth that client's key. Another session may begin the seat anew, if a member without checkpoints
 * could do so; it can never go on with the seat's run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "server/group/group_work.h"

/* The seat belongs to nobody: no public key is all zeros. */
static bool is_zero(const uint8_t id[SL_SESSION_BYTES])
{
	static const uint8_t zeros[SL_SESSION_BYTES];

	return memcmp(id, zeros, sizeof zeros) == 0;
}

bool sl_group_is_foreign(const struct sl_group *g, int k)
{
	const struct sl_group_seat *seat = &g->seat[k];

	return !is_zero(seat->session) &&
	       memcmp(seat->session, sl_group_hello(g, k)->session, sizeof seat->session) != 0;
}

_Static_assert((int)SL_KEY_BYTES == (int)SL_SESSION_BYTES, "both are public keys");

static bool has_other_key(const struct sl_group_seat *seat)
{
	return seat->m->owned && !is_zero(seat->owner.byte) && !sl_key_equal(&seat->owner, &seat->m->owner);
}

/* Nobody has had the seat, or its run is done. */
static bool is_free(const struct sl_record *record)
{
	return record->state == SL_SEAT_NEVER || record->state == SL_SEAT_DONE;
}

/* It is done before its run's end. */
bool sl_group_is_off(const struct sl_group *g, int k)
{
	const struct sl_record *s = &g->trunk.r.seat[k];

	return s->state == SL_SEAT_DONE && s->number < s->ends_at;
}

enum sl_err sl_group_check_owner(const struct sl_group *g, int k, struct sl_fail *fail)
{
	const struct sl_group_seat *seat = &g->seat[k];
	const struct sl_record *record = &g->trunk.r.seat[k];
	const struct sl_hello *hello = sl_group_hello(g, k);

	if (!sl_group_is_foreign(g, k))
		return SL_OK;
	if (sl_group_is_off(g, k) && (!seat->m->owned || has_other_key(seat)))
		return sl_fail_at(fail, "share.member", SL_ERR_MISMATCH,
				  "member %d of group %s was taken off the list of clients, and its seat is closed to "
				  "others: this client needs another number, or a group that begins anew with --fresh",
				  k, g->name);
	if (is_free(record))
		return SL_OK;
	/* The same key is the same site, which may have lost its files. Without keys one that could begin anew may have
	 * done so, before a server that died could note it; it gets nothing of the seat's run. Where each step needs
	 * all, a seat whose member has files is not free for it. */
	if ((sl_record_can_begin_anew(record) || seat->m->owned ||
	     (sl_hello_holds(hello, 0) && !(sl_trunk_needs_all(&g->t) && record->has_files))) &&
	    !has_other_key(seat))
		return SL_OK;
	return sl_fail_at(fail, "share.member", SL_ERR_MISMATCH,
			  "member %d of group %s is the run of another client: "
			  "--resume goes on with that run's log.dir%s, and another client needs another number",
			  k, g->name,
			  sl_trunk_needs_all(&g->t) ? "; if it is lost, all members begin anew with --fresh" : "");
}

void sl_group_list_read(struct sl_group_list *gs,
			bool (*may_join)(void *arg, const struct sl_key *key, const char *group), void *arg)
{
	gs->may_join = may_join;
	gs->may_join_arg = arg;
	gs->lists++;
}

void sl_group_take_off(struct sl_group *g)
{
	const struct sl_group_list *gs = g->groups;
	bool ending = false;

	if (!gs->may_join || g->listed == gs->lists || sl_trunk_needs_all(&g->t))
		return;
	for (int k = 0; k < g->n; k++) {
		enum sl_seat_state *state = &g->t.seat[k].state;
		const struct sl_key *owner = &g->seat[k].owner;

		if (is_zero(owner->byte) || (*state != SL_SEAT_IN && *state != SL_SEAT_AWAY) ||
		    gs->may_join(gs->may_join_arg, owner, g->name))
			continue;
		ending = ending || g->member[k].m;
		if (g->member[k].m)
			continue;
		*state = g->trunk.r.seat[k].state = SL_SEAT_DONE;
		sl_log(SL_LOG_WARN, "group-off",
		       "group %s goes on without member %d behind step %" PRIu64
		       ": it was taken off the list of clients",
		       g->name, k, g->t.step);
	}
	if (!ending)
		g->listed = gs->lists;
}

void sl_group_hear_owners(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		memcpy(g->member[k].owner.session, g->seat[k].session, sizeof g->seat[k].session);
		g->member[k].owner.key = g->seat[k].owner;
	}
}

static struct sl_group_client client_of(const struct sl_middle *m)
{
	struct sl_group_client c = {0};

	if (m->owned)
		c.key = m->owner;
	memcpy(c.session, sl_port_session(m->port)->hello.session, sizeof c.session);
	return c;
}

static bool is_other(const struct sl_group_client *owner, const struct sl_group_client *client)
{
	if (is_zero(owner->session))
		return false;
	return !is_zero(owner->key.byte) && !is_zero(client->key.byte)
		       ? !sl_key_equal(&owner->key, &client->key)
		       : memcmp(owner->session, client->session, sizeof owner->session) != 0;
}

bool sl_group_is_strangers(const struct sl_group *g, int k, const struct sl_middle *m)
{
	const struct sl_group_client client = client_of(m);

	return is_other(&g->member[k].owner, &client);
}

void sl_group_note_refused(struct sl_group *g, int k, const struct sl_middle *m, const char *why)
{
	struct sl_group_member *p = &g->member[k];

	if (sl_group_was_refused(g, k)[0] && sl_group_is_strangers(g, k, m))
		return;
	p->asked_for = client_of(m);
	snprintf(p->refused, sizeof p->refused, "%.199s", why);
}

const char *sl_group_was_refused(const struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];
	const bool unread = is_zero(p->owner.session) && g->t.seat[k].state != SL_SEAT_NEVER;

	return unread || is_other(&p->owner, &p->asked_for) ? "" : p->refused;
}

void sl_group_note_owner(struct sl_group *g, int k)
{
	struct sl_group_seat *seat = &g->seat[k];
	const struct sl_hello *h = sl_group_hello(g, k);

	memcpy(seat->session, h->session, sizeof seat->session);
	seat->owner = seat->m->owner;
	seat->turns = (uint64_t)seat->m->agreement.agreed.share.turns;
}

bool sl_group_begins_anew(const struct sl_group *g, int k, const struct sl_hello *hello)
{
	return sl_hello_is_new(hello) && memcmp(g->seat[k].session, hello->session, sizeof hello->session) != 0;
}

bool sl_group_is_another_run(const struct sl_group *g, int k, const struct sl_hello *hello)
{
	const struct sl_records *r = &g->trunk.r;
	bool over = false;

	for (int j = 0; j < g->n; j++)
		over = over || (r->seat[j].state == SL_SEAT_DONE && r->seat[j].ends_at == r->done);
	return sl_group_begins_anew(g, k, hello) &&
	       ((r->seat[k].state == SL_SEAT_DONE && !sl_group_is_off(g, k)) ||
		(over && hello->run_steps != r->done && hello->run_steps != r->seat[k].ends_at));
}

bool sl_group_asks_anew(const struct sl_group *g, int k, const struct sl_middle *m)
{
	return m && g->t.least > 0 && m->agreement.agreed.share.fresh &&
	       memcmp(g->seat[k].session, sl_port_session(m->port)->hello.session, SL_SESSION_BYTES) != 0;
}

enum sl_err sl_group_check_anew(const struct sl_group *g, int k, struct sl_fail *fail)
{
	char others[120] = "";
	size_t at = 0;

	if (!sl_group_asks_anew(g, k, g->seat[k].m))
		return SL_OK;
	for (int i = 0; i < g->n && at < sizeof others - 8; i++)
		if (!sl_group_asks_anew(g, i, g->seat[i].m))
			at += (size_t)snprintf(others + at, sizeof others - at, "%s%d", at ? ", " : "", i);
	return sl_fail_at(
		fail, "share.member", SL_ERR_MISMATCH,
		"group %s begins anew only if all members come with --fresh, and members %s have not: stop "
		"those, and start all with it. To come into the run under way, leave --fresh out: --resume goes "
		"on with this member's log.dir, and if that is lost, an empty one will do",
		g->name, others);
}
