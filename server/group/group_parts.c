/* Who took part in a group's steps, as members and the log hear it. On the loop, while no job runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/grow.h"
#include "common/base/log.h"
#include "server/group/group_impl.h"

static uint64_t steps_of(const struct sl_group *g, int k)
{
	return g->log.end - sl_group_log_missed(&g->log, k);
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
 * "off": true for a member that was taken off the list, and "waits": "2" while it waits for that one. NULL: no memory.
 * The caller frees it. */
static char *write_record(const struct sl_group *g)
{
	json_t *text = g->waits[0] ? json_string(g->waits) : NULL;
	char *waits = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
	struct sl_buf absent = {0};
	char *out = NULL;
	size_t cap = 0, at = 0;

	if (!sl_group_log_text(&g->log, g->n, &absent) &&
	    sl_grow(&out, &cap, absent.len + 200 + (waits ? strlen(waits) : 0) + 80 * (size_t)g->n, 1)) {
		at += (size_t)snprintf(out, cap, "{\"steps\":%" PRIu64 ",\"least\":%g,\"absent\":\"%s\",\"members\":[",
				       g->log.end, g->agreed.share.least, (const char *)absent.data);
		for (int k = 0; k < g->n; k++)
			at += (size_t)snprintf(out + at, cap - at, "%s{\"steps\":%" PRIu64 ",\"rows\":%.1f%s}",
					       k ? "," : "", steps_of(g, k), rows_percent(g, k),
					       sl_group_is_off(g, k) ? ",\"off\":true" : "");
		snprintf(out + at, cap - at, "]%s%s}", waits ? ",\"waits\":" : "", waits ? waits : "");
	}
	free(waits);
	json_decref(text);
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
	free(record);
}

void sl_group_say_parts(const struct sl_group *g)
{
	char list[900] = "";
	struct sl_buf absent = {0};
	bool less = false;
	size_t at = 0;

	if (g->groups->ranks || !g->log.end)
		return;
	for (int k = 0; k < g->n && at < sizeof list - 110; k++) {
		const double part = (double)steps_of(g, k) / (double)g->log.end;

		less = less || (double)sl_group_log_missed(&g->log, k) >
				       (1 - g->agreed.share.least) * (double)g->trunk.r.seat[k].ends_at + 1e-9;
		at += (size_t)snprintf(list + at, sizeof list - at,
				       "%s member %d %.1f %% of the steps, %.1f %% of the rows%s", k ? "," : "", k,
				       100 * part, rows_percent(g, k),
				       sl_group_is_off(g, k) ? " (taken off the list)" : "");
	}
	sl_log(less ? SL_LOG_WARN : SL_LOG_INFO, "group-parts", "group %s, %" PRIu64 " steps:%s", g->name, g->log.end,
	       list);
	if (!sl_group_log_text(&g->log, g->n, &absent) && absent.len)
		sl_log(SL_LOG_INFO, "group-absent", "group %s: --local --absent %.3000s repeats the run", g->name,
		       (const char *)absent.data);
	free(absent.data);
}
