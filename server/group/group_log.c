#include "server/group/group_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/grow.h"

void sl_group_log_close(struct sl_group_log *l)
{
	free(l->range);
	free(l->back);
	*l = (struct sl_group_log){0};
}

/* Ranges and returns are in the order of their steps, and end where the log ends. */
static void check_end(const struct sl_group_log *l)
{
	const struct sl_group_range *range = l->range + l->n_range;
	const struct sl_group_return *back = l->back + l->n_back;

	if (l->n_range)
		sl_assert_int(range[-1].from, <, l->end);
	if (l->n_range > 1)
		sl_assert_int(range[-2].from, <, range[-1].from);
	if (l->n_back)
		sl_assert_int(back[-1].step, <=, l->end);
	if (l->n_back > 1)
		sl_assert_int(back[-2].step, <=, back[-1].step);
}

enum sl_err sl_group_log_step(struct sl_group_log *l, uint64_t steps, const struct sl_group_set *with)
{
	const bool same = l->n_range && memcmp(&l->range[l->n_range - 1].with, with, sizeof *with) == 0;

	if (!same && !sl_grow(&l->range, &l->cap_range, l->n_range + 1, sizeof *l->range))
		return SL_ERR_NOMEM;
	if (!same)
		l->range[l->n_range++] = (struct sl_group_range){.from = l->end, .with = *with};
	l->end += steps;
	check_end(l);
	return SL_OK;
}

enum sl_err sl_group_log_return(struct sl_group_log *l, int member, uint64_t own)
{
	for (size_t i = l->n_back; i && l->back[i - 1].step == l->end; i--) /* it comes again before the same step */
		if (l->back[i - 1].member == member) {
			l->back[i - 1].own = own;
			return SL_OK;
		}
	if (!sl_grow(&l->back, &l->cap_back, l->n_back + 1, sizeof *l->back))
		return SL_ERR_NOMEM;
	l->back[l->n_back++] = (struct sl_group_return){.step = l->end, .own = own, .member = member};
	check_end(l);
	return SL_OK;
}

enum sl_err sl_group_log_alone(struct sl_group_log *l, int member, uint64_t steps, uint64_t did)
{
	const uint64_t step = l->end - steps + did;
	size_t at = l->n_back;

	sl_assert_int(steps, <=, l->end);
	sl_assert(did > 0 && did < steps); /* with none it was late, with all it would have been in the round */
	if (!sl_grow(&l->back, &l->cap_back, l->n_back + 1, sizeof *l->back))
		return SL_ERR_NOMEM;
	for (; at && l->back[at - 1].step > step; at--)
		l->back[at] = l->back[at - 1];
	l->back[at] = (struct sl_group_return){step, SL_GROUP_ALONE, member, (int32_t)did};
	l->n_back++;
	check_end(l);
	return SL_OK;
}

void sl_group_log_cut(struct sl_group_log *l, uint64_t step)
{
	while (l->n_range && l->range[l->n_range - 1].from >= step)
		l->n_range--;
	while (l->n_back && l->back[l->n_back - 1].step > step)
		l->n_back--;
	l->end = l->end < step ? l->end : step;
	check_end(l);
}

/* The step behind range i. */
static uint64_t behind(const struct sl_group_log *l, size_t i)
{
	return i + 1 < l->n_range ? l->range[i + 1].from : l->end;
}

uint64_t sl_group_log_last(const struct sl_group_log *l, int member)
{
	for (size_t i = l->n_range; i; i--)
		if (sl_group_set_has(&l->range[i - 1].with, member))
			return behind(l, i - 1);
	return 0;
}

uint64_t sl_group_log_missed(const struct sl_group_log *l, int member)
{
	uint64_t n = 0;

	for (size_t i = 0; i < l->n_range; i++)
		if (!sl_group_set_has(&l->range[i].with, member))
			n += behind(l, i) - l->range[i].from;
	return n;
}

/* ---- the list */

static enum sl_err put(struct sl_buf *out, const char *text)
{
	const size_t len = strlen(text);

	if (!sl_grow(&out->data, &out->cap, out->len + len + 1, 1))
		return SL_ERR_NOMEM;
	memcpy(out->data + out->len, text, len + 1);
	out->len += len;
	return SL_OK;
}

/* Whether the member did the step, though its round ended without it. */
static bool did_alone(const struct sl_group_log *l, int member, uint64_t step)
{
	for (size_t i = 0; i < l->n_back; i++)
		if (l->back[i].member == member && l->back[i].own == SL_GROUP_ALONE && step < l->back[i].step &&
		    step + (uint64_t)l->back[i].did >= l->back[i].step)
			return true;
	return false;
}

static bool does_any(const struct sl_group_log *l, int member, uint64_t from, uint64_t to)
{
	while (from < to && !did_alone(l, member, from))
		from++;
	return from < to;
}

/* Steps from `from` on, up to the one before `to`, that the member missed; `back`: then it came back, NULL: it did not.
 * In the list steps count from 1. */
static enum sl_err put_absence(const struct sl_group_log *l, int member, uint64_t from, uint64_t to,
			       const struct sl_group_return *back, struct sl_buf *out)
{
	char text[96], own[32] = "";
	bool late = !back;
	enum sl_err err = SL_OK;

	while (late && from < to && did_alone(l, member, from))
		from++;
	if (back && back->own != SL_GROUP_GIVEN)
		snprintf(own, sizeof own, "@%" PRIu64, back->own);
	if (to == l->end && to - from > 1) /* it is away, unless it has done some step since */
		late = late && does_any(l, member, from, to);
	if (!late) {
		snprintf(text, sizeof text, "%s%d:%" PRIu64 "-%" PRIu64 "%s", out->len ? "," : "", member, from + 1, to,
			 own);
		return put(out, text);
	}
	for (; from < to && !err; from++) { /* it was late, and went on with what it had */
		if (did_alone(l, member, from))
			continue;
		snprintf(text, sizeof text, "%s%d:%" PRIu64, out->len ? "," : "", member, from + 1);
		err = put(out, text);
	}
	return err;
}

/* It came before a step that is not done yet, with the group's head and tail: no step so far differs by it. */
static bool changes_nothing(const struct sl_group_log *l, const struct sl_group_return *back)
{
	return back->own == SL_GROUP_GIVEN && back->step == l->end;
}

/* The first return of the member from entry *i on that the list tells of. */
static const struct sl_group_return *next_return(const struct sl_group_log *l, int member, size_t *i)
{
	while (*i < l->n_back &&
	       (l->back[*i].member != member || l->back[*i].own == SL_GROUP_ALONE || changes_nothing(l, &l->back[*i])))
		++*i;
	return *i < l->n_back ? &l->back[*i] : NULL;
}

static enum sl_err put_member(const struct sl_group_log *l, int member, struct sl_buf *out)
{
	const struct sl_group_return *back;
	uint64_t from = 0; /* of steps that it missed, up to `at` */
	size_t at_back = 0;
	bool misses = false;
	enum sl_err err = SL_OK;

	for (size_t i = 0; i <= l->n_range && !err; i++) {
		const uint64_t at = i < l->n_range ? l->range[i].from : l->end;
		const bool has = i < l->n_range && sl_group_set_has(&l->range[i].with, member);

		for (; (back = next_return(l, member, &at_back)) && back->step <= at && !err; at_back++) {
			err = put_absence(l, member, misses ? from : back->step, back->step, back, out);
			from = back->step;
		}
		if (misses && (has || i == l->n_range) && from < at && !err)
			err = put_absence(l, member, from, at, NULL, out);
		from = misses && !has ? from : at;
		misses = !has;
	}
	return err;
}

enum sl_err sl_group_log_text(const struct sl_group_log *l, int n, struct sl_buf *out)
{
	enum sl_err err = put(out, "");

	for (int k = 0; k < n && !err; k++)
		err = put_member(l, k, out);
	return err;
}

/* ---- in a checkpoint */

struct head {
	uint64_t end, n_range, n_back;
};

size_t sl_group_log_size(const struct sl_group_log *l)
{
	return sizeof(struct head) + l->n_range * sizeof *l->range + l->n_back * sizeof *l->back;
}

enum sl_err sl_group_log_write(const struct sl_group_log *l, struct sl_buf *out)
{
	const struct head h = {l->end, l->n_range, l->n_back};
	const size_t before = out->len;
	enum sl_err err = sl_buf_put(out, &h, sizeof h);

	if (!err)
		err = sl_buf_put(out, l->range, l->n_range * sizeof *l->range);
	if (!err)
		err = sl_buf_put(out, l->back, l->n_back * sizeof *l->back);
	if (!err)
		sl_assert_int(out->len - before, ==, sl_group_log_size(l));
	return err;
}

/* Whether ranges and returns are in order. */
static bool is_in_order(const struct sl_group_log *l)
{
	for (size_t i = 0; i < l->n_range; i++)
		if (behind(l, i) <= l->range[i].from || (!i && l->range[i].from))
			return false;
	for (size_t i = 0; i < l->n_back; i++)
		if (l->back[i].member < 0 || l->back[i].member >= SL_CONF_SHARE_CLIENTS || l->back[i].step > l->end ||
		    (i && l->back[i].step < l->back[i - 1].step))
			return false;
	return l->n_range || !l->end;
}

enum sl_err sl_group_log_read(struct sl_group_log *l, struct sl_bytes in, size_t *used)
{
	struct sl_group_log read = {0};
	struct head h;
	size_t at = sizeof h;

	if (in.len < sizeof h)
		return SL_ERR_DATA;
	memcpy(&h, in.data, sizeof h);
	if (h.n_range > in.len / sizeof *read.range || h.n_back > in.len / sizeof *read.back ||
	    h.n_range * sizeof *read.range + h.n_back * sizeof *read.back > in.len - at)
		return SL_ERR_DATA;
	if (!sl_grow(&read.range, &read.cap_range, (size_t)h.n_range + 1, sizeof *read.range) ||
	    !sl_grow(&read.back, &read.cap_back, (size_t)h.n_back + 1, sizeof *read.back)) {
		sl_group_log_close(&read);
		return SL_ERR_NOMEM;
	}
	read.end = h.end;
	read.n_range = (size_t)h.n_range;
	read.n_back = (size_t)h.n_back;
	memcpy(read.range, in.data + at, read.n_range * sizeof *read.range);
	at += read.n_range * sizeof *read.range;
	memcpy(read.back, in.data + at, read.n_back * sizeof *read.back);
	at += read.n_back * sizeof *read.back;
	if (!is_in_order(&read)) {
		sl_group_log_close(&read);
		return SL_ERR_DATA;
	}
	sl_group_log_close(l);
	*l = read;
	*used = at;
	return SL_OK;
}
