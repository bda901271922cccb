/* A group's checkpoints: the trunk's state, then for each member its step and the state of its codecs.
 * On the worker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "server/group/group_check.h"

/* The first bytes of a group's part of the file. Files of version 0.2 and before do not have it. */
static const uint8_t mark[8] = "split-g4";

/* A member's record in the file, in order of members. Behind each are its codecs' states, of bytes[] bytes. The log is
 * behind all. */
struct member_record {
	uint64_t number, made, pin[SL_WIRE_KEPT], has_files, bytes[SL_DIR_COUNT];
	uint8_t session[SL_SESSION_BYTES], owner[SL_KEY_BYTES]; /* as in struct sl_group_seat */
	uint64_t ends_at, rows, empty, clipped, turns;
	uint64_t applied; /* in rounds with `share.moments: keep`: steps that its copy's optimizer has applied; the
			     moments themselves come last */
};

int64_t sl_group_own_moments(const struct sl_group *g)
{
	const struct sl_plan_segment *s = &g->trunk.plan->segment[SL_MIDDLE];

	return sl_group_has_rounds(g) && g->agreed.share.moments == SL_SHARE_KEEP ? s->moments * s->trainable_count : 0;
}

static size_t moment_bytes(const struct sl_group *g)
{
	return (size_t)sl_group_own_moments(g) * sizeof(float);
}

static size_t records_bytes(const struct sl_group *g)
{
	size_t bytes = sizeof mark + sl_group_log_size(&g->log);

	for (int k = 0; k < g->n; k++) {
		bytes += sizeof(struct member_record) + moment_bytes(g);
		for (int dir = 0; dir < SL_DIR_COUNT && g->seat[k].kept; dir++)
			bytes += g->seat[k].codecs.dir[dir].len;
	}
	bytes += g->ends ? sl_end_coder_state_bytes(g->ends->sum.coder) : 0;
	return bytes;
}

/* The state of a seat's codecs outlives its links. It counts in `budget`, the member's. LIMIT, BUSY. */
static enum sl_err count_codecs(struct sl_group *g, int k, uint64_t bytes, struct sl_budget *budget,
				struct sl_fail *fail)
{
	struct sl_group_seat *seat = &g->seat[k];
	const uint64_t more = bytes > seat->codec_bytes ? bytes - seat->codec_bytes : 0;
	char what[SL_CONF_SHARE_TEXT + 60];
	enum sl_err err;

	if (!more || !budget)
		return SL_OK;
	snprintf(what, sizeof what, "what the codecs of member %d of group %s keep", k, g->name);
	err = sl_memory_reserve(&seat->charge, budget, more, what, fail);
	if (!err)
		seat->codec_bytes = bytes;
	return err;
}

enum sl_err sl_group_open(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_group *g = m->group;
	struct sl_codec *const *codec = sl_port_codecs(m->port);
	const int k = sl_group_seat_of(m);
	struct sl_codecs_state *held = &g->seat[k].codecs;
	uint64_t bytes = 0;
	enum sl_err err;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) { /* buffers only grow */
		const size_t need = sl_codec_state_bytes(codec[dir]);

		bytes += need > held->dir[dir].cap ? need : held->dir[dir].cap;
	}
	err = count_codecs(g, k, bytes, m->env.memory, fail);
	if (!err && !held->dir[0].data && sl_codecs_state_open(held, codec))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what the codecs of member %d keep", k);
	return err;
}

enum sl_err sl_group_hold_codecs(struct sl_group_seat *seat)
{
	enum sl_err err;

	if (seat->fresh)
		return SL_OK;
	err = sl_codecs_state_take(&seat->codecs, sl_port_codecs(seat->m->port));
	seat->kept = !err;
	return err;
}

/* Appends a copy's moments as floats; copy NULL: zeros. */
static enum sl_err write_moments(const struct sl_group *g, struct sl_exec *copy, struct sl_buf *out)
{
	const struct sl_plan_segment *s = &g->trunk.plan->segment[SL_MIDDLE];
	const size_t bytes = (size_t)s->trainable_count * sizeof(float);
	float *x = malloc(bytes + 1);
	enum sl_err err = x ? SL_OK : SL_ERR_NOMEM;

	if (x)
		memset(x, 0, bytes);
	for (int i = 0; i < s->moments && !err; i++) {
		err = copy ? sl_exec_get_moment(copy, i, x) : SL_OK; /* a member without a copy needs no moments */
		if (!err)
			err = sl_buf_put(out, x, bytes);
	}
	free(x);
	return err;
}

static enum sl_err read_moments(const struct sl_group *g, struct sl_exec *copy, uint64_t applied, const uint8_t *at)
{
	const struct sl_plan_segment *s = &g->trunk.plan->segment[SL_MIDDLE];
	const size_t bytes = (size_t)s->trainable_count * sizeof(float);
	float *x = malloc(bytes + 1);
	enum sl_err err = x ? SL_OK : SL_ERR_NOMEM;

	for (int i = 0; i < s->moments && !err; i++) {
		memcpy(x, at + (size_t)i * bytes, bytes);
		err = sl_exec_set_moment(copy, i, x);
	}
	if (!err)
		sl_exec_set_applied(copy, applied);
	free(x);
	return err;
}

static enum sl_err write_records(const struct sl_group *g, struct sl_buf *out)
{
	enum sl_err err = sl_buf_put(out, mark, sizeof mark);

	for (int k = 0; k < g->n && !err; k++) {
		const struct sl_group_seat *seat = &g->seat[k];
		struct sl_exec *copy = g->fold.part[k].copy;
		struct member_record r = {.number = g->trunk.r.seat[k].number,
					  .made = seat->made,
					  .ends_at = g->trunk.r.seat[k].ends_at,
					  .rows = g->trunk.r.seat[k].rows,
					  .empty = g->trunk.r.seat[k].empty,
					  .clipped = g->trunk.r.seat[k].clipped,
					  .turns = seat->turns,
					  .has_files = g->trunk.r.seat[k].has_files};

		memcpy(r.pin, g->trunk.r.seat[k].pin, sizeof r.pin);
		memcpy(r.session, seat->session, sizeof r.session);
		memcpy(r.owner, seat->owner.byte, sizeof r.owner);
		for (int dir = 0; dir < SL_DIR_COUNT && seat->kept; dir++)
			r.bytes[dir] = seat->codecs.dir[dir].len;
		r.applied = moment_bytes(g) && copy ? sl_exec_applied(copy) : 0;
		err = sl_buf_put(out, &r, sizeof r);
		for (int dir = 0; dir < SL_DIR_COUNT && seat->kept && !err; dir++)
			err = sl_buf_put(out, seat->codecs.dir[dir].data, seat->codecs.dir[dir].len);
		if (!err && moment_bytes(g))
			err = write_moments(g, copy, out);
	}
	if (!err)
		err = sl_group_log_write(&g->log, out);
	return err || !g->ends ? err : sl_end_coder_save(g->ends->sum.coder, out);
}

static void note_left(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		g->trunk.keep.left[k] = sl_record_note(&g->trunk.r, k);
	g->trunk.keep.left[g->n] = '\0';
}

bool sl_group_keep(struct sl_group *g)
{
	char whose[SL_CONF_SHARE_TEXT + 8];
	struct sl_buf records = {0};
	struct sl_fail fail;
	enum sl_err err = SL_OK;

	snprintf(whose, sizeof whose, "group %s", g->name);
	if (!sl_trunk_has_store(&g->trunk, whose))
		return false;
	sl_trunk_check_whole(&g->trunk);
	sl_group_check_border(g);
	SL_FAILPOINT(SL_FP_SERVER_KEEP);
	for (int k = 0; k < g->n && !err; k++)
		err = g->seat[k].m ? sl_group_hold_codecs(&g->seat[k]) : SL_OK;
	records.cap = records_bytes(g);
	records.data = malloc(records.cap + 1);
	if (!err)
		err = records.data ? write_records(g, &records) : SL_ERR_NOMEM;
	if (err)
		sl_fail_set(&fail, err, "no memory for a checkpoint");
	if (!err) {
		sl_group_check_records(g, &records);
		sl_trunk_pin(&g->trunk);
		sl_trunk_pin_step(&g->trunk.keep, g->due); /* its head and tail are on their way */
		note_left(g);
		g->trunk.keep.made = g->branch;
		memcpy(g->trunk.keep.asked, g->trunk.r.asked, sizeof g->trunk.r.asked);
		err = sl_keep_write(&g->trunk.keep, g->trunk.r.done, g->trunk.exec, NULL, &records, &fail);
	}
	free(records.data);
	if (!sl_trunk_wrote(&g->trunk, whose, err, &fail))
		return false;
	if (!sl_group_gives(g))
		g->trunk.r.complete = g->trunk.r.done;
	return true;
}

bool sl_group_keep_left(struct sl_group *g)
{
	char before[SL_KEEP_SEATS];

	memcpy(before, g->trunk.keep.left, sizeof before);
	note_left(g);
	if (g->trunk.state != SL_TRUNK_WHOLE || !g->trunk.keep.dir[0] || g->trunk.r.done != g->trunk.r.on_disk ||
	    strcmp(before, g->trunk.keep.left) == 0 || sl_group_keep(g))
		return true;
	memcpy(g->trunk.keep.left, before, sizeof before); /* as the file says */
	return false;
}

/* Gives the states at `at` to the codecs of the seat's session; if there is none, the seat keeps them. */
static enum sl_err read_codecs(struct sl_group_seat *seat, const struct member_record *r, const uint8_t *at,
			       struct sl_fail *fail)
{
	struct sl_codecs_state state = {0};

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		state.dir[dir] = (struct sl_buf){(uint8_t *)(uintptr_t)at, r->bytes[dir], r->bytes[dir]};
		at += r->bytes[dir];
	}
	if (seat->m)
		return sl_codecs_state_give(&state, sl_port_codecs(seat->m->port))
			       ? sl_fail_set(fail, SL_ERR_DATA, "its state does not fit a member's codecs")
			       : SL_OK;
	sl_codecs_state_close(&seat->codecs);
	if (sl_codecs_state_copy(&seat->codecs, &state))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a member's codecs");
	seat->kept = true;
	return SL_OK;
}

static enum sl_err read_records(struct sl_group *g, uint64_t step, const struct sl_buf *in, struct sl_fail *fail)
{
	size_t at = sizeof mark, used = 0;

	if (in->len < sizeof mark || memcmp(in->data, mark, sizeof mark) != 0)
		return sl_fail_set(
			fail, SL_ERR_VERSION,
			"it is of an earlier version of Split: finish this run with that version, or let all "
			"begin anew with --fresh");
	for (int k = 0; k < g->n; k++) {
		struct sl_group_seat *seat = &g->seat[k];
		struct member_record r;
		size_t bytes = 0;
		enum sl_err err = SL_OK;

		if (in->len - at < sizeof r)
			return sl_fail_set(fail, SL_ERR_DATA, "its members are cut off");
		memcpy(&r, in->data + at, sizeof r);
		at += sizeof r;
		if (r.number > step)
			return sl_fail_set(fail, SL_ERR_DATA, "member %d has done more steps than the group", k);
		for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
			if (r.bytes[dir] > in->len - at - bytes)
				return sl_fail_set(fail, SL_ERR_DATA, "its members are cut off");
			bytes += r.bytes[dir];
		}
		if (moment_bytes(g) > in->len - at - bytes)
			return sl_fail_set(fail, SL_ERR_DATA, "its members are cut off");
		memcpy(seat->session, r.session, sizeof seat->session);
		memcpy(seat->owner.byte, r.owner, sizeof r.owner);
		seat->kept = false;
		seat->fresh = seat->fresh && !seat->m;
		if (bytes && !seat->m)
			err = count_codecs(g, k, bytes, seat->charge.budget ? seat->charge.budget : g->charge.budget,
					   fail);
		if (!err && bytes && !(seat->m && sl_group_is_foreign(g, k)))
			err = read_codecs(seat, &r, in->data + at, fail);
		if (!err && moment_bytes(g) && g->fold.part[k].copy &&
		    read_moments(g, g->fold.part[k].copy, r.applied, in->data + at + bytes))
			err = sl_fail_set(fail, SL_ERR_DEVICE, "a member's moments could not be set");
		seat->copied = g->fold.part[k].copy != NULL;
		if (err)
			return err;
		at += bytes + moment_bytes(g);
		g->trunk.r.seat[k].number = r.number;
		g->trunk.r.seat[k].ends_at = r.ends_at;
		g->trunk.r.seat[k].rows = r.rows;
		g->trunk.r.seat[k].empty = r.empty;
		g->trunk.r.seat[k].clipped = r.clipped;
		seat->turns = seat->turns ? seat->turns : r.turns;
		seat->made = r.made;
		memcpy(g->trunk.r.seat[k].pin, r.pin, sizeof r.pin);
		g->trunk.r.seat[k].has_files = r.has_files != 0;
	}
	if (sl_group_log_read(&g->log, (struct sl_bytes){in->data + at, in->len - at}, &used))
		return sl_fail_set(fail, SL_ERR_DATA, "its log cannot be read");
	if (g->log.end != step)
		return sl_fail_set(fail, SL_ERR_DATA, "its log does not tell of all steps of the group");
	at += used;
	if (g->ends && sl_end_coder_load(g->ends->sum.coder, (struct sl_bytes){in->data + at, in->len - at}))
		return sl_fail_set(fail, SL_ERR_DATA, "it has no state of shared heads and tails");
	return g->ends || at == in->len ? SL_OK : sl_fail_set(fail, SL_ERR_DATA, "it has more members than the group");
}

enum sl_err sl_group_read(struct sl_group *g, uint64_t step, struct sl_fail *fail)
{
	struct sl_buf records = {0};
	enum sl_err err;

	records.cap = (size_t)sl_keep_file_bytes(&g->trunk.keep, step); /* at most */
	records.data = malloc(records.cap + 1);
	err = records.data ? SL_OK : SL_ERR_NOMEM;
	if (!err)
		err = sl_keep_read(&g->trunk.keep, step, g->trunk.exec, NULL, &records, fail);
	if (!err)
		err = read_records(g, step, &records, fail);
	if (!err)
		memcpy(g->trunk.r.asked, g->trunk.keep.asked, sizeof g->trunk.r.asked);
	free(records.data);
	return err;
}
