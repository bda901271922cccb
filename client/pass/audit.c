#include "client/pass/audit_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/pass/remote.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/key.h"
#include "kernels/cpu/cpu.h"

enum { LONGEST = 4 /* steps of a randomly placed stretch */, MOST_IN_ROW = 3 };

/* A random number below `n` that the server cannot predict. */
static uint64_t drawn(uint64_t n)
{
	uint64_t bits = 0;

	if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
		bits = sl_now_ns();
	return bits % n;
}

static enum sl_err draw_secret(struct sl_key *secret, struct sl_fail *fail)
{
	return getrandom(secret->byte, sizeof secret->byte, 0) == sizeof secret->byte
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no random numbers for audits");
}

/* Draws the next stretch: it begins at from + 0 … 2·every - 2, and each further step has a probability of 1/2. The
 * first one begins with the run, and the last one ends with it. One that is owed begins at once. */
static void draw(struct sl_audit *a, uint64_t from)
{
	uint64_t length = 1, last;

	a->begin = a->every && !a->note.owed && from ? from + drawn(2 * a->every - 1) : from;
	while (a->every && length < LONGEST && drawn(2))
		length++;
	last = a->total > length ? a->total - length : 0;
	if (a->every && a->begin > last)
		a->begin = from > last ? from : last;
	a->end = a->begin + length;
	if (a->every && a->end > a->total)
		a->end = a->total;
}

enum sl_err sl_audit_open(struct sl_audit **out, const struct sl_setup *setup, uint64_t every, uint64_t total,
			  bool resume, struct sl_fail *fail)
{
	static const struct sl_key none;
	const struct sl_ends_use use = sl_setup_use(setup);
	struct sl_audit *a = calloc(1, sizeof *a);
	enum sl_err err;

	if (!a)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for audits");
	a->setup = setup;
	a->every = every;
	a->total = total;
	if (!setup->be.host_memory) {
		free(a);
		return sl_conf_client_fail(setup->conf, "device", fail,
					   "audits compare bits, and are possible with device: cpu alone");
	}
	err = resume ? sl_audit_note_read(&a->note, setup->conf, fail) : SL_OK;
	if (!err && memcmp(&a->note.secret, &none, sizeof none) == 0)
		err = draw_secret(&a->note.secret, fail);
	if (!err)
		err = sl_local_open(&a->local, setup->plan, &setup->agreement, NULL,
				    (struct sl_backend *)(uintptr_t)&setup->be, fail);
	if (!err)
		err = sl_local_use(a->local, &use, fail);
	if (err) {
		sl_audit_close(a);
		return err;
	}
	sl_local_listen(a->local, sl_audit_crossed, a);
	draw(a, 0);
	*out = a;
	return SL_OK;
}

void sl_audit_close(struct sl_audit *a)
{
	if (!a)
		return;
	if (a->sum.steps && a->every)
		sl_log(SL_LOG_INFO, "audits", "%" PRIu64 " step%s in %" PRIu64 " audit%s as agreed: %.1f s, %.1f MB",
		       a->sum.steps, sl_plural(a->sum.steps), a->sum.stretches, sl_plural(a->sum.stretches),
		       a->sum.seconds, (double)a->sum.bytes / 1e6);
	sl_local_close(a->local);
	sl_client_state_close(&a->client);
	free(a->weights);
	free(a->room);
	free(a);
}

static bool stands(const struct sl_audit *a, uint64_t step)
{
	return step == a->done || (step + 1 == a->done && a->held.steps && a->step == step);
}

/* From the Fetch on the server knows of the audit, so it has begun. */
static bool owe(struct sl_audit *a)
{
	if (a->asked)
		return true;
	a->asked = true;
	a->note.begun++;
	a->note.owed = 1;
	sl_audit_note_write(&a->note, a->setup->conf);
	return true;
}

/* One evaluation in `every`, drawn before its first batch. A stretch under way has all of its batches. But behind a
 * lost link the evaluation before its last step may be repeated: then the stretch begins anew with that evaluation. */
static bool wants_evaluation(struct sl_audit *a, uint64_t step)
{
	const bool first = a->evaluated != step + 1, ahead = a->on && a->done != step;

	a->evaluated = step + 1;
	if (a->on && !ahead && first)
		sl_audit_kept(a, step);
	if (!ahead && (a->on || step >= a->total || (!a->note.owed && (!first || drawn(a->every)))))
		return false;
	a->asked |= ahead;
	a->on = false;
	a->begin = step;
	a->end = step + 1;
	return owe(a);
}

bool sl_audit_wants(struct sl_audit *a, uint64_t step, bool evaluates)
{
	if (!a)
		return false;
	if (evaluates)
		return wants_evaluation(a, step);
	if (a->on)
		return step >= a->end;
	if (step && a->note.expects == step) {
		a->asked = true;
		return true;
	}
	if (step > a->begin || a->note.owed) /* the run has resumed after the step that was drawn */
		draw(a, step);
	return step == a->begin && owe(a);
}

/* ---- how a stretch ends */

static void note_found(struct sl_audit *a, const char *what)
{
	a->has_found = true;
	a->found = (struct sl_jsonl_audit){a->begin + 1, a->held.steps, a->held.bytes, a->held.seconds, {0}};
	snprintf(a->found.found, sizeof a->found.found, "%s", what);
}

bool sl_audit_found(struct sl_audit *a, struct sl_jsonl_audit *out)
{
	const bool has = a && a->has_found;

	if (has) {
		*out = a->found;
		a->has_found = false;
	}
	return has;
}

static enum sl_err too_many(const struct sl_audit *a, uint64_t n, const char *what, const char *why,
			    struct sl_fail *fail)
{
	if (n < MOST_IN_ROW)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_AUDIT,
			   "audit: %" PRIu64 " %s in a row, the last one of step %" PRIu64
			   " (%.200s): find out whether the server does that to escape",
			   n, what, a->begin + 1, why);
}

/* The stretch was ended by the link or the server. */
static enum sl_err count_broken(struct sl_audit *a, const char *why, struct sl_fail *fail)
{
	char text[sizeof a->found.found];

	snprintf(text, sizeof text, "not ended: %.490s", why);
	note_found(a, text);
	a->on = a->asked = false;
	a->note.in_row++;
	sl_audit_note_write(&a->note, a->setup->conf);
	return too_many(a, a->note.in_row, "audits were begun and not ended", why, fail);
}

enum sl_err sl_audit_linked(struct sl_audit *a, uint64_t step, struct sl_fail *fail)
{
	char why[80];

	if (a && sl_audit_note_back(&a->note, step))
		sl_audit_note_write(&a->note, a->setup->conf);
	if (!a || !a->on || stands(a, step))
		return SL_OK;
	snprintf(why, sizeof why, "the server went back to step %" PRIu64, step);
	return count_broken(a, why, fail);
}

enum sl_err sl_audit_abandoned(struct sl_audit *a, uint64_t step, const char *why, struct sl_fail *fail)
{
	if (!a || !a->on || (a->held.steps && a->step == step && a->nonfinite))
		return SL_OK;
	a->on = false;
	sl_fail_set(fail, SL_ERR_AUDIT,
		    "audit: step %" PRIu64 " was abandoned (%.200s), and this host finds neither NaN nor Inf in it",
		    step + 1, why);
	note_found(a, fail->text);
	return SL_ERR_AUDIT;
}

enum sl_err sl_audit_lost(struct sl_audit *a, bool for_good, struct sl_fail *fail)
{
	const struct sl_fail why = *fail;

	if (a && why.code == SL_ERR_AUDIT) {
		note_found(a, why.text);
	} else if (a && (a->on || a->asked) && for_good) {
		sl_audit_park(a);
		(void)count_broken(a, why.text, fail);
	} else if (a && (a->on || a->asked)) {
		sl_audit_kept(a, a->done); /* it may be kept before the next link */
		(void)too_many(a, ++a->cuts, "links were lost in an audit", why.text, fail);
	}
	return fail->code;
}

enum sl_err sl_audit_done(const struct sl_audit *a, struct sl_fail *fail)
{
	if (!a || !a->note.owed)
		return SL_OK;
	if (a->note.in_row)
		return sl_fail_set(fail, SL_ERR_AUDIT,
				   "audit: the run is done, and its last audit was begun and not ended");
	sl_log(SL_LOG_WARN, "audit-open", "the last audit was not ended, since splitc was killed in it");
	return SL_OK;
}

/* ---- a stretch */

static uint64_t hash_of_state(const struct sl_audit *a, const float *weights, const uint8_t *carried)
{
	const int64_t count = sl_plan_fetch_count(&a->setup->plan->segment[SL_MIDDLE]);
	const uint64_t both[] = {sl_key_hash(&a->note.secret, weights, (size_t)count * sizeof *weights),
				 sl_key_hash(&a->note.secret, carried, a->carried.bytes)};

	return sl_key_hash(&a->note.secret, both, sizeof both);
}

/* Gets the hash of the state that was computed here. */
static bool hash_here(struct sl_audit *a, uint64_t *hash)
{
	if (!a->on || !a->held.steps || a->nonfinite ||
	    sl_local_take_middle(a->local, &a->carried, a->weights, a->room))
		return false;
	*hash = hash_of_state(a, a->weights, a->room);
	return true;
}

void sl_audit_park(struct sl_audit *a)
{
	if (!a || !hash_here(a, &a->note.hash))
		return;
	a->note.expects = a->done;
	sl_audit_note_write(&a->note, a->setup->conf);
}

void sl_audit_kept(struct sl_audit *a, uint64_t step)
{
	uint64_t hash;

	if (!a || step != a->done || !hash_here(a, &hash))
		return;
	sl_audit_note_know(&a->note, step, hash);
	sl_audit_note_write(&a->note, a->setup->conf);
}

/* Names the parameter that has the first difference, and counts the differences. */
static void name_weight(const struct sl_audit *a, const float *theirs, char *out, size_t size)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	int64_t at = 0, differ = 0;

	for (int64_t i = sl_plan_fetch_count(s); i-- > 0;)
		if (memcmp(&a->weights[i], &theirs[i], sizeof *theirs) != 0) {
			at = i;
			differ++;
		}
	for (int i = 0; i < s->n_param; i++)
		if (at >= s->param[i].offset && at < s->param[i].offset + s->param[i].count)
			snprintf(out, size, "%s (%" PRId64 " of %" PRId64 " numbers of the middle differ)",
				 s->graph.param[s->param[i].graph_param].name, differ, s->weight_count);
}

static void stretch_ended(struct sl_audit *a)
{
	sl_assert_int(a->note.ended, <, a->note.begun); /* an audit that has begun ends once */
	a->on = a->asked = false;
	a->note.ended++;
	a->note.in_row = a->note.owed = a->note.expects = 0;
	sl_audit_note_write(&a->note, a->setup->conf);
	note_found(a, "as agreed");
}

/* A stretch of an earlier process, which has noted what this Fetch must bring. */
static enum sl_err end_noted(struct sl_audit *a, uint64_t step, const float *weights, const uint8_t *carried,
			     struct sl_fail *fail)
{
	a->step = step - 1;
	a->begin = step;
	a->held = (struct sl_audit_sum){.bytes = 0};
	if (hash_of_state(a, weights, carried) != a->note.hash)
		return sl_audit_differs(a, "the middle, or the state of its optimizer or codecs,", fail);
	stretch_ended(a);
	return SL_OK;
}

static enum sl_err compare_middle(struct sl_audit *a, const float *weights, const uint8_t *carried,
				  struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	char what[200] = "the middle";
	enum sl_err err = sl_local_take_middle(a->local, &a->carried, a->weights, a->room);

	if (err)
		return sl_fail_set(fail, err, "the middle that was computed here could not be read");
	if (memcmp(a->weights, weights, (size_t)sl_plan_fetch_count(s) * sizeof *weights) != 0) {
		name_weight(a, weights, what, sizeof what);
		return sl_audit_differs(a, what, fail);
	}
	if (memcmp(a->room, carried, a->carried.bytes) != 0)
		return sl_audit_differs(a, "the state of the middle's optimizer or codecs", fail);
	return SL_OK;
}

static void end_stretch(struct sl_audit *a)
{
	a->sum.steps += a->held.steps;
	a->sum.seconds += a->held.seconds;
	a->sum.bytes += a->held.bytes;
	a->sum.stretches++;
	stretch_ended(a);
	sl_log(SL_LOG_INFO, "audited",
	       "%" PRIu64 " step%s to step %" PRIu64
	       ": the server computed what was agreed, to the bit (%.3g s, %.3g MB)",
	       a->held.steps, sl_plural(a->held.steps), a->step + 1, a->held.seconds, (double)a->held.bytes / 1e6);
}

/* A server that states beforehand that it has other kernels is honest, but cannot be audited. */
static enum sl_err check_kernels(struct sl_audit *a, const struct sl_remote *remote, struct sl_fail *fail)
{
	char here[SL_WIRE_DEVICE];

	snprintf(here, sizeof here, "cpu: %s", sl_cpu_describe());
	snprintf(a->there, sizeof a->there, "%s", sl_remote_session(remote)->there);
	if (strcmp(here, a->there) == 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "audits compare bits, and the server computes on %s, this host on %s: leave out "
			   "train.audit.every, or run both on hosts with the same kernels",
			   a->there, here);
}

static enum sl_err open_rooms(struct sl_audit *a, struct sl_remote *remote, const struct sl_carried *layout,
			      struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	enum sl_err err;

	a->carried = *layout;
	if (!a->weights) {
		a->weights = malloc((size_t)s->weight_count * sizeof(float) + 1);
		if (a->weights) /* the part that no Fetch brings keeps these values */
			sl_weights_pack(&a->setup->weights, s, a->weights);
	}
	if (!a->room)
		a->room = malloc(layout->bytes);
	if (!a->weights || !a->room)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for audits");
	if (!a->first) { /* nothing was computed here yet */
		err = sl_local_set_weights(a->local, &a->setup->weights, fail);
		if (!err && sl_local_take_middle(a->local, &a->carried, a->weights, a->room))
			err = sl_fail_set(fail, SL_ERR_DEVICE, "the first middle could not be read back");
		if (err)
			return err;
		a->first = hash_of_state(a, a->weights, a->room);
	}
	return a->client.head.weight ? SL_OK : sl_remote_state_open(remote, &a->client, fail);
}

/* What was fetched before `step`, where this host knows what it must be: the first weights, or a checkpoint's. A phase
 * begins with a state that another plan made. */
static enum sl_err compare_known(struct sl_audit *a, uint64_t step, const float *weights, const uint8_t *carried,
				 struct sl_fail *fail)
{
	const struct sl_audit_known *known = sl_audit_note_find(&a->note, step);
	const uint64_t hash = step ? known ? known->hash : 0 : a->first;

	a->step = step;
	if (!hash || (step && step == a->setup->plan->spec.phase_step) || hash == hash_of_state(a, weights, carried))
		return SL_OK;
	return sl_audit_differs(a,
				step ? "the middle, or the state of its optimizer or codecs, of this checkpoint"
				     : "the first middle, or the state of its optimizer or codecs,",
				fail);
}

static enum sl_err begin_stretch(struct sl_audit *a, struct sl_remote *remote, uint64_t step, const float *weights,
				 const uint8_t *carried, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	enum sl_err err = compare_known(a, step, weights, carried, fail);

	if (err)
		return err;
	err = sl_remote_take(remote, &a->client);
	memcpy(a->weights, weights, (size_t)sl_plan_fetch_count(s) * sizeof *weights);
	if (!err)
		err = sl_local_set_done(a->local, step, fail);
	if (!err)
		err = sl_local_give_all(a->local, &a->client, &a->carried, a->weights, carried);
	if (err)
		return sl_fail_set(fail, err, "audit: the state before step %" PRIu64 " could not be set", step + 1);
	sl_assert(!a->on && step == a->begin);
	a->on = true;
	a->done = step;
	a->nonfinite = false;
	a->held = (struct sl_audit_sum){.bytes = 0};
	a->note.expects = 0;
	owe(a);
	a->asked = false;
	return SL_OK;
}

/* Compares what was fetched. *ended: a stretch has ended with it; the last one ends with the last Fetch alone. */
static enum sl_err end_due(struct sl_audit *a, uint64_t step, bool goes_on, const float *weights,
			   const uint8_t *carried, bool *ended, struct sl_fail *fail)
{
	const bool noted = !a->on && step && a->note.expects == step, due = a->on && (a->held.steps || !goes_on);
	enum sl_err err = SL_OK;

	if (due)
		err = compare_middle(a, weights, carried, fail);
	else if (noted)
		err = end_noted(a, step, weights, carried, fail);
	*ended = !err && (noted || (due && !(goes_on && step >= a->total)));
	if (*ended && !noted)
		end_stretch(a);
	if (*ended && !goes_on) { /* --resume may begin with this state */
		sl_audit_note_know(&a->note, step, hash_of_state(a, weights, carried));
		sl_audit_note_write(&a->note, a->setup->conf);
	}
	if (*ended && a->every)
		draw(a, step);
	return err;
}

enum sl_err sl_audit_fetched(struct sl_audit *a, struct sl_remote *remote, uint64_t step, bool goes_on,
			     struct sl_fail *fail)
{
	const struct sl_carried *layout;
	const uint8_t *carried;
	const float *weights;
	bool ended = false;
	uint64_t bytes;
	enum sl_err err = a ? sl_link_weights(sl_remote_link(remote), &weights, fail) : SL_OK;

	if (!a || err || (!a->on && !a->note.owed))
		return err;
	err = sl_audit_pass_over(a, step, fail);
	if (err)
		return err;
	carried = sl_port_carried(sl_link_port(sl_remote_link(remote)), &layout);
	bytes = sl_remote_session(remote)->limits.run_bytes[SL_PART_WEIGHTS];
	a->cuts = 0;
	a->evaluates = false;
	err = check_kernels(a, remote, fail);
	if (!err)
		err = open_rooms(a, remote, layout, fail);
	if (!err && a->on && a->held.steps)
		a->held.bytes += bytes;
	if (!err)
		err = end_due(a, step, goes_on, weights, carried, &ended, fail);
	if (err || !goes_on || a->on || step != a->begin || step >= a->total)
		return err;
	err = begin_stretch(a, remote, step, weights, carried, fail);
	a->held.bytes += ended ? 0 : bytes;
	return err;
}

struct sl_audit_sum sl_audit_sum(const struct sl_audit *a)
{
	return a ? a->sum : (struct sl_audit_sum){.steps = 0};
}

struct sl_audit_share sl_audit_share(const struct sl_audit *a)
{
	struct sl_audit_share share = {.begun = 0};

	if (a) {
		share = a->share;
		share.begun = a->note.begun;
		share.ended = a->note.ended;
	}
	return share;
}
