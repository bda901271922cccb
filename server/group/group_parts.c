/* Who took part in a group's steps, as members and the log hear it. On the loop, while no job runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/telemetry/json.h"
#include "server/group/group_impl.h"

/* Steps that the member's gradient is in. In serial it is in the member's own turns alone, which stand for all steps.
 */
static uint64_t steps_of(const struct sl_group *g, int k)
{
	const bool serial = g->agreed.share.mode == SL_SHARE_SERIAL;
	const uint64_t turns = serial ? sl_turns_before(&g->turns, k, g->log.end) : 0;
	const uint64_t in = g->log.end - sl_group_log_missed(&g->log, k), none = g->trunk.r.seat[k].empty;
	const uint64_t empty = turns ? none * g->log.end / turns : none;

	return in > empty ? in - empty : 0;
}

static json_t *count(uint64_t steps)
{
	return steps ? json_integer((json_int_t)steps) : NULL;
}

/* A member's share of all rows. Others do not hear rows, since those of a last batch tell the size of a data set. */
static double rows_percent(const struct sl_group *g, int k)
{
	uint64_t all = 0;

	for (int i = 0; i < g->n; i++)
		all += g->trunk.r.seat[i].rows;
	return all ? 100.0 * (double)g->trunk.r.seat[k].rows / (double)all : 0;
}

/* The record as JSON: {"steps": 12, "least": 0.9, "absent": "1:3", "members": [{"steps": 12, "rows": 50.0}, …]}, with
 * "off": true for a member that was taken off the list, "waits": "2" while it waits for that one, and "unkept": true if
 * no checkpoint holds the group's state. NULL: no memory. The caller frees it. */
static char *write_record(const struct sl_group *g)
{
	struct sl_buf absent = {0};
	json_t *members = json_array(), *root = NULL;
	char *out;

	for (int k = 0; k < g->n; k++)
		json_array_append_new(members, json_pack("{sIsfso*so*so*}", "steps", (json_int_t)steps_of(g, k), "rows",
							 round(10 * rows_percent(g, k)) / 10, "off",
							 sl_group_is_off(g, k) ? json_true() : NULL, "empty",
							 count(g->trunk.r.seat[k].empty), "clipped",
							 count(g->trunk.r.seat[k].clipped)));
	if (!sl_group_log_text(&g->log, g->n, &absent))
		root = json_pack("{sIsfsssOso*so*so*}", "steps", (json_int_t)g->log.end, "least", g->agreed.share.least,
				 "absent", (const char *)absent.data, "members", members, "waits",
				 g->waits[0] ? sl_json_text(g->waits) : NULL, "away",
				 g->away[0] ? sl_json_text(g->away) : NULL, "unkept", g->t.keeps ? NULL : json_true());
	out = sl_json_dump(root, JSON_COMPACT);
	json_decref(members);
	json_decref(root);
	free(absent.data);
	return out;
}

static void tell(struct sl_group *g, int k, const char *record)
{
	for (size_t at = 0, len = strlen(record); at < len && g->member[k].m; at += SL_WIRE_RECORD) {
		char piece[SL_WIRE_RECORD + 1];

		snprintf(piece, sizeof piece, "%s", record + at);
		sl_port_event(g->member[k].m->port,
			      &(struct sl_event){.kind = SL_EV_TELL, .text = piece, .more = at + SL_WIRE_RECORD < len});
	}
}

void sl_group_tell_record(struct sl_group *g, int who)
{
	char *record = g->groups->ranks ? NULL : write_record(g);

	for (int k = 0; k < g->n && record; k++)
		if ((who < 0 || k == who) && g->t.seat[k].link == SL_LINK_OPEN)
			tell(g, k, record);
	free(g->record);
	g->record = record;
}

json_t *sl_group_list_records(const struct sl_group_list *gs)
{
	json_t *all = json_object();

	for (const struct sl_group *g = gs->first; g; g = g->next)
		if (g->record)
			json_object_set_new(all, g->name, json_loads(g->record, 0, NULL));
	return all;
}

/* Items of the list, as many to a line as fit. */
static void say_absent(const struct sl_group *g, const char *list)
{
	enum { MOST = 3000 };

	for (size_t len; *list; list += len + (list[len] == ',')) {
		len = strlen(list);
		if (len > MOST)
			for (len = MOST; len > 1 && list[len] != ','; len--) {
			}
		sl_log(SL_LOG_INFO, "group-absent", "group %s: --local --absent %.*s%s", g->name, (int)len, list,
		       list[len] ? ",  and the next line" : " repeats the run, if members' configs are equal");
	}
}

enum { PARTS_LINE = 12 }; /* members that a line of the log has room for */

void sl_group_say_parts(struct sl_group *g)
{
	struct sl_buf absent = {0};
	char list[1000];
	size_t at = 0;

	if (g->groups->ranks || !g->log.end || (g->said.end == g->log.end && g->said.n_back == g->log.n_back))
		return;
	g->said.end = g->log.end;
	g->said.n_back = g->log.n_back;
	for (int k = 0, less = 0; k < g->n; k++) {
		const struct sl_record *r = &g->trunk.r.seat[k];

		less |= (double)(g->log.end - steps_of(g, k)) > (1 - g->agreed.share.least) * (double)r->ends_at + 1e-9;
		at += (size_t)snprintf(list + at, sizeof list - at,
				       "%s member %d %.1f %% of the steps, %.1f %% of the rows%s", at ? "," : "", k,
				       100 * (double)steps_of(g, k) / (double)g->log.end, rows_percent(g, k),
				       sl_group_is_off(g, k) ? " (taken off the list)" : "");
		if (k + 1 < g->n && (k + 1) % PARTS_LINE)
			continue;
		sl_log(less ? SL_LOG_WARN : SL_LOG_INFO, "group-parts", "group %s, %" PRIu64 " steps:%s", g->name,
		       g->log.end, list);
		at = 0;
		less = 0;
	}
	for (int k = 0; k < g->n; k++)
		if (g->trunk.r.seat[k].empty || g->trunk.r.seat[k].clipped)
			sl_log(SL_LOG_WARN, "group-norms",
			       "group %s: in %" PRIu64 " steps member %d had no gradient (NaN, Inf or above "
			       "share.member_norm), and in %" PRIu64 " one that was clipped",
			       g->name, g->trunk.r.seat[k].empty, k, g->trunk.r.seat[k].clipped);
	if (!sl_group_log_text(&g->log, g->n, &absent) && absent.len)
		say_absent(g, (const char *)absent.data);
	free(absent.data);
}
