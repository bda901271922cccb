#include "client/train/absent.h"

#include <inttypes.h>
#include <stdio.h>

struct item {
	uint64_t member, from, to, own; /* own: UINT64_MAX: none */
	bool range;
};

/* Reads the item at `at`, and returns where the next one begins; NULL: it is malformed. */
static const char *read_item(const char *at, struct item *item)
{
	int used = 0, more = 0, last = 0;

	if (sscanf(at, "%" SCNu64 ":%" SCNu64 "%n", &item->member, &item->from, &used) != 2 || item->from < 1)
		return NULL;
	item->range = sscanf(at + used, "-%" SCNu64 "%n", &item->to, &more) == 1;
	if (!item->range)
		item->to = item->from;
	item->own = UINT64_MAX;
	if (item->range && sscanf(at + used + more, "@%" SCNu64 "%n", &item->own, &last) != 1)
		last = 0;
	at += used + more + last;
	return item->to + 1 < item->from || (last && item->own > item->to) || (*at && *at != ',') ? NULL
												  : at + (*at == ',');
}

enum sl_err sl_absent_check(const char *list, int clients, struct sl_fail *fail)
{
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (!at)
			return sl_fail_set(fail, SL_ERR_USAGE,
					   "--absent needs MEMBER:STEP, MEMBER:FROM-TO or MEMBER:FROM-TO@STEP, such as "
					   "1:3,2:10-25, got "
					   "'%.80s'",
					   list);
		if (item.member >= (uint64_t)clients)
			return sl_fail_set(fail, SL_ERR_USAGE,
					   "--absent %.80s: there is no member %" PRIu64 " in a group of %d, see "
					   "--clients",
					   list, item.member, clients);
	}
	return SL_OK;
}

enum sl_absence sl_absent_look(const char *list, int member, uint64_t step)
{
	enum sl_absence how = SL_PRESENT;
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (!at || item.member != (uint64_t)member || step + 1 < item.from || step + 1 > item.to)
			continue;
		if (item.range)
			return SL_AWAY;
		how = SL_LATE;
	}
	return how;
}

uint64_t sl_absent_own(const char *list, int member, const struct sl_turns *turns)
{
	uint64_t steps = 0;
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (!at || item.member != (uint64_t)member || item.to < item.from)
			continue;
		steps += turns ? sl_turns_before(turns, member, item.to) - sl_turns_before(turns, member, item.from - 1)
			       : item.to - item.from + 1;
	}
	return steps;
}

bool sl_absent_returns(const char *list, int member, uint64_t step, uint64_t *own)
{
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (!at || item.member != (uint64_t)member || !item.range || item.to != step)
			continue;
		*own = item.own < UINT64_MAX ? item.own : step;
		return true;
	}
	return false;
}

bool sl_absent_needs(const char *list, int member, uint64_t step)
{
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (at && item.member == (uint64_t)member && item.own == step)
			return true;
	}
	return false;
}

uint64_t sl_absent_last(const char *list)
{
	uint64_t last = 0;
	struct item item;

	for (const char *at = list; at && *at;) {
		at = read_item(at, &item);
		if (at && item.from > last && item.to >= item.from)
			last = item.from;
	}
	return last;
}
