#include "client/run/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/run/local.h"
#include "client/run/remote.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/key.h"
#include "kernels/cpu/cpu.h"

enum { SENT, GRADIENT, WATCHED, LONGEST = 4 /* steps of a randomly placed stretch */ };

struct sl_audit {
	const struct sl_setup *setup;
	uint64_t every;
	struct sl_local *local;
	struct sl_client_state client;
	struct sl_carried carried; /* the layout of the state that a Fetch brings */
	float *weights;            /* [weight_count] the middle as computed here; a Fetch brings only its first part */
	uint8_t *room;             /* [carried.bytes] */
	bool on;                   /* a stretch is under way */
	uint64_t begin, end;       /* steps, end excluded, of this stretch or of the next one */
	uint64_t step;             /* the step that is computed */
	char there[SL_WIRE_DEVICE];
	struct sl_key secret; /* key of the hashes: a server that knew it could forge a tensor with the same hash */
	uint64_t seen[WATCHED][SL_PLAN_MAX_CHUNKS]; /* hashes; 0: not computed */
	struct sl_audit_sum sum, held;              /* held: of the stretch under way */
};

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

/* Draws the next stretch: it begins at from + 0 … 2·every - 2, and each further step has a probability of 1/2. */
static void draw(struct sl_audit *a, uint64_t from)
{
	uint64_t length = 1;

	a->begin = a->every ? from + drawn(2 * a->every - 1) : from;
	while (a->every && length < LONGEST && drawn(2))
		length++;
	a->end = a->begin + length;
}

static int watched(enum sl_dir dir)
{
	return dir == SL_DIR_MID_ACT ? SENT : dir == SL_DIR_HEAD_GRAD ? GRADIENT : WATCHED;
}

static uint64_t hash_of(const struct sl_audit *a, const struct sl_tensor *x)
{
	return sl_key_hash(&a->secret, x->data, (size_t)sl_shape_count(&x->shape) * sizeof(float)) | 1;
}

static void crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x)
{
	struct sl_audit *a = arg;
	const int which = watched(dir);

	if (which < WATCHED)
		a->seen[which][chunk] = hash_of(a, x);
}

enum sl_err sl_audit_open(struct sl_audit **out, const struct sl_setup *setup, uint64_t every, struct sl_fail *fail)
{
	const struct sl_ends_use use = sl_setup_use(setup);
	struct sl_audit *a = calloc(1, sizeof *a);
	enum sl_err err;

	if (!a)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for audits");
	a->setup = setup;
	a->every = every;
	if (!setup->be.host_memory) {
		free(a);
		return sl_conf_client_fail(setup->conf, "device", fail,
					   "audits compare bits, and are possible with device: cpu alone");
	}
	err = draw_secret(&a->secret, fail);
	if (!err)
		err = sl_local_open(&a->local, setup->plan, &setup->agreement, NULL,
				    (struct sl_backend *)(uintptr_t)&setup->be, fail);
	if (!err)
		err = sl_local_use(a->local, &use, fail);
	if (err) {
		sl_audit_close(a);
		return err;
	}
	sl_local_listen(a->local, crossed, a);
	draw(a, 0);
	*out = a;
	return SL_OK;
}

void sl_audit_close(struct sl_audit *a)
{
	if (!a)
		return;
	if (a->sum.steps && a->every)
		sl_log(SL_LOG_INFO, "audits",
		       "%" PRIu64 " steps in %" PRIu64 " audits were what was agreed: %.1f s, %.1f MB", a->sum.steps,
		       a->sum.stretches, a->sum.seconds, (double)a->sum.bytes / 1e6);
	sl_local_close(a->local);
	sl_client_state_close(&a->client);
	free(a->weights);
	free(a->room);
	free(a);
}

bool sl_audit_wants(struct sl_audit *a, uint64_t step)
{
	if (a && !a->on && step > a->begin) /* the run has resumed after the step that was drawn */
		draw(a, step);
	return a && (a->on ? step >= a->end : step == a->begin);
}

void sl_audit_drop(struct sl_audit *a)
{
	if (a && a->on)
		a->on = false;
}

/* ---- a stretch */

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

static enum sl_err differs(const struct sl_audit *a, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_AUDIT,
			   "audit: step %" PRIu64
			   ": %s is not what the agreed network, loss, order and codecs give. The "
			   "server computed something else, or not with the kernels that it names (%s; here cpu: %s)",
			   a->step + 1, what, a->there, sl_cpu_describe());
}

static enum sl_err end_stretch(struct sl_audit *a, const float *weights, const uint8_t *carried, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	char what[200] = "the middle";
	enum sl_err err = sl_local_take_middle(a->local, &a->carried, a->weights, a->room);

	if (err)
		return sl_fail_set(fail, err, "the middle that was computed here could not be read");
	a->on = false;
	if (memcmp(a->weights, weights, (size_t)sl_plan_fetch_count(s) * sizeof *weights) != 0) {
		name_weight(a, weights, what, sizeof what);
		return differs(a, what, fail);
	}
	if (memcmp(a->room, carried, a->carried.bytes) != 0)
		return differs(a, "the state of the middle's optimizer or codecs", fail);
	a->sum.steps += a->held.steps;
	a->sum.seconds += a->held.seconds;
	a->sum.bytes += a->held.bytes;
	a->sum.stretches++;
	sl_log(SL_LOG_INFO, "audited",
	       "%" PRIu64 " step%s to step %" PRIu64
	       ": the server computed what was agreed, to the bit (%.3g s, %.3g MB)",
	       a->held.steps, a->held.steps == 1 ? "" : "s", a->step + 1, a->held.seconds, (double)a->held.bytes / 1e6);
	return SL_OK;
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
	return a->client.head.weight ? SL_OK : sl_remote_state_open(remote, &a->client, fail);
}

static enum sl_err begin_stretch(struct sl_audit *a, struct sl_remote *remote, uint64_t step, const float *weights,
				 const uint8_t *carried, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &a->setup->plan->segment[SL_MIDDLE];
	enum sl_err err = sl_remote_take(remote, &a->client);

	memcpy(a->weights, weights, (size_t)sl_plan_fetch_count(s) * sizeof *weights);
	if (!err)
		err = sl_local_set_done(a->local, step, fail);
	if (!err)
		err = sl_local_give_all(a->local, &a->client, &a->carried, a->weights, carried);
	if (err)
		return sl_fail_set(fail, err, "audit: the state before step %" PRIu64 " could not be set", step + 1);
	a->on = true;
	a->held = (struct sl_audit_sum){.bytes = 0};
	return SL_OK;
}

enum sl_err sl_audit_fetched(struct sl_audit *a, struct sl_remote *remote, uint64_t step, struct sl_fail *fail)
{
	const struct sl_carried *layout;
	const uint8_t *carried;
	const float *weights;
	bool ended = false; /* one Fetch can end a stretch and begin the next */
	uint64_t bytes;
	enum sl_err err = a ? sl_link_weights(sl_remote_link(remote), &weights, fail) : SL_OK;

	if (!a || err)
		return err;
	carried = sl_port_carried(sl_link_port(sl_remote_link(remote)), &layout);
	bytes = sl_remote_session(remote)->limits.run_bytes[SL_PART_WEIGHTS];
	if (a->on && a->held.steps) {
		a->held.bytes += bytes;
		ended = true;
		err = end_stretch(a, weights, carried, fail);
		if (!err)
			draw(a, step);
	}
	if (err || a->on || step != a->begin)
		return err;
	err = check_kernels(a, remote, fail);
	if (!err)
		err = open_rooms(a, remote, layout, fail);
	if (!err)
		err = begin_stretch(a, remote, step, weights, carried, fail);
	a->held.bytes += ended ? 0 : bytes;
	return err;
}

/* ---- a step of a stretch */

enum sl_err sl_audit_repeat(struct sl_audit *a, const struct sl_feed *feed, uint64_t step, double lr,
			    struct sl_fail *fail)
{
	struct sl_step_result result;
	const uint64_t began = sl_now_ns();
	enum sl_err err;

	if (!a || !a->on)
		return SL_OK;
	memset(a->seen, 0, sizeof a->seen);
	a->step = step;
	err = sl_local_step(a->local, feed, step, lr, &result, fail);
	a->held.seconds += sl_seconds_since(began);
	a->held.steps++;
	return err == SL_ERR_NONFINITE ? SL_OK : err; /* the step with the server will find it, too */
}

enum sl_err sl_audit_compare(const struct sl_audit *a, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			     struct sl_fail *fail)
{
	const int which = watched(dir);
	char what[64];

	if (!a || !a->on || !a->seen[which][chunk] || a->seen[which][chunk] == hash_of(a, x))
		return SL_OK;
	snprintf(what, sizeof what, "%s of chunk %d", sl_dir_name(dir), chunk);
	return differs(a, what, fail);
}

struct sl_audit_sum sl_audit_sum(const struct sl_audit *a)
{
	return a ? a->sum : (struct sl_audit_sum){.steps = 0};
}
