#include "client/cmd/before.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/child.h"
#include "client/link/auth.h"
#include "client/link/letters.h"
#include "common/base/clock.h"
#include "common/base/wrap.h"
#include "common/link/probe.h"
#include "common/session/port.h"
#include "common/telemetry/json.h"
#include "kernels/cpu/cpu.h"

enum { PROBES = 3, ROUND_TRIPS = 2 /* of a connection and its greeting */, STEPS = 3 /* of a trial */ };

/* ---- bytes */

static bool goes_up(size_t dir)
{
	return dir == SL_DIR_HEAD_ACT || dir == SL_DIR_MID_GRAD;
}

static json_t *ways(double up, double down)
{
	return json_pack("{s:I, s:I}", "up", (json_int_t)up, "down", (json_int_t)down);
}

/* Bytes of a Fetch, of which an audit has two: weights, moments and the codecs' state. 0: there are no audits. */
static enum sl_err find_audit(double *bytes, const struct sl_setup *s, struct sl_backend *be, struct sl_fail *fail)
{
	const struct sl_plan_segment *m = &s->plan->segment[SL_MIDDLE];
	struct sl_port_memory port;
	enum sl_err err;

	*bytes = 0;
	if (!s->plan->spec.fetch_state)
		return SL_OK;
	err = sl_port_memory(s->plan, be, be, s->agreement.codec, SL_SESSION_SERVER, &port, fail);
	if (!err)
		*bytes = (double)(sl_plan_fetch_count(m) + m->moments * m->trainable_count) * sizeof(float) +
			 (double)port.state;
	return err;
}

enum sl_err sl_before_bytes(json_t **out, const struct sl_setup *s, uint64_t steps, const int64_t *samples,
			    struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_plan_segment *m = &s->plan->segment[SL_MIDDLE];
	const double batch = c->agreed.batch, train = (double)samples[SL_SPLIT_TRAIN];
	const double of_epoch = s->epoch_steps ? (double)s->epoch_steps : fmax(1, ceil(train / batch));
	const double epochs = (double)steps / of_epoch, rows = fmin((double)steps * batch, epochs * train);
	const double evals = c->train.eval_every ? fmax(1, ceil(epochs / c->train.eval_every - 1e-9)) : 1;
	const bool given = c->model.weights[0] || c->model.huggingface[0] || c->model.network[0];
	const double weights[2] = {given ? (double)m->weight_count * sizeof(float) : 0,
				   (double)sl_plan_fetch_count(m) * sizeof(float)};
	size_t bytes[SL_DIR_COUNT];
	double sum[2] = {0, 0}, audit;
	json_t *times;
	struct sl_backend be;
	enum sl_err err;

	sl_cpu_codec_backend_open(&be);
	err = sl_port_run_bytes(s->plan, &be, s->agreement.codec, bytes, fail);
	if (!err)
		err = find_audit(&audit, s, &be, fail);
	if (err)
		return err;
	for (size_t dir = 0; dir < SL_DIR_COUNT; dir++)
		sum[!goes_up(dir)] += (double)bytes[dir] / s->plan->rows *
				      (rows + (dir <= SL_DIR_MID_ACT ? evals * (double)samples[SL_SPLIT_TEST] : 0));
	*out = json_pack("{s:o, s:o, s:o}", "epoch", ways(sum[0] / fmax(1, epochs), sum[1] / fmax(1, epochs)), "run",
			 ways(sum[0] + weights[0], sum[1] + weights[1]), "weights", ways(weights[0], weights[1]));
	if (audit > 0)
		json_object_set_new(*out, "audit", ways(0, audit));
	json_object_set_new(*out, "times", times = json_array());
	for (int mbit_s = 10; mbit_s <= 1000; mbit_s *= 10)
		json_array_append_new(times, json_pack("{s:i, s:f, s:f}", "mbit_s", mbit_s, "up_s",
						       (sum[0] + weights[0]) * 8e-6 / mbit_s, "down_s",
						       (sum[1] + weights[1]) * 8e-6 / mbit_s));
	return SL_OK;
}

/* Prints a time as "37 s", "53 min", "8.1 h". */
static void print_time(double s)
{
	const double unit = s < 120 ? 1 : s < 7200 ? 60 : 3600;

	printf(" %6.*f %-3s", s < 10 * unit, s / unit, unit == 1 ? "s" : unit == 60 ? "min" : "h");
}

void sl_before_print_bytes(const json_t *bytes)
{
	static const char *const row[] = {"epoch", "run", "weights", "audit"};
	static const char *const note[] = {"", "", "  of the middle, in the run's",
					   "  more, for each of an audit's two Fetches"};
	const json_t *one;
	size_t at;
	char up[SL_BYTES_TEXT], down[SL_BYTES_TEXT];

	printf("%-12s %10s %10s  at most; headers of messages come on top\n", "link", "up", "down");
	for (int i = 0; i < 4; i++) {
		const json_t *w = json_object_get(bytes, row[i]);

		if (!w)
			continue;
		printf("%-12s %10s %10s%s\n", row[i], sl_bytes_text((uint64_t)sl_json_number(w, "up"), up),
		       sl_bytes_text((uint64_t)sl_json_number(w, "down"), down), note[i]);
	}
	json_array_foreach(json_object_get(bytes, "times"), at, one)
	{
		printf("%4.0f Mbit/s ", sl_json_number(one, "mbit_s"));
		print_time(sl_json_number(one, "up_s"));
		print_time(sl_json_number(one, "down_s"));
		puts(at ? "" : " for the run's bytes alone");
	}
}

/* ---- the server */

/* The fastest of a few greetings tells the round trip. */
static enum sl_err find_server(double *round_trip_s, const struct sl_conf_client *c, struct sl_fail *fail)
{
	char why[SL_PROBE_TEXT];
	enum sl_err err = SL_OK;

	*round_trip_s = INFINITY;
	for (int i = 0; i < PROBES && !err; i++) {
		const uint64_t began = sl_now_ns();
		const enum sl_greeting theirs = sl_probe_wait(c->server, c->link.connect_timeout_ms, why);

		*round_trip_s = fmin(*round_trip_s, (double)(sl_now_ns() - began) * 1e-9 / ROUND_TRIPS);
		err = sl_greeting_judge(theirs, c->auth.secret_key[0], NULL, c->server, fail);
		if (!err && theirs != SL_GREETING_NULL && theirs != SL_GREETING_CURVE)
			err = sl_fail_set(fail, SL_ERR_TIMEOUT,
					  "no server of Split answers at %s (%s): is splits running there, and does a "
					  "firewall let this host through?",
					  c->server, why);
	}
	return err;
}

struct knock {
	struct sl_loop *loop;
	struct sl_letters *letters;
	struct sl_fail why; /* code OK: it may */
};

static void on_waits(void *arg)
{
	struct knock *k = arg;

	sl_letters_end(k->letters, NULL);
	sl_loop_stop(k->loop);
}

static void on_open(void *arg, size_t bytes)
{
	(void)bytes;
	on_waits(arg);
}

/* The server looks at the list of clients before it looks at who else is there. */
static void on_failed(void *arg, const struct sl_fail *why)
{
	struct knock *k = arg;

	if (why->code != SL_ERR_BUSY && why->code != SL_ERR_MISMATCH)
		k->why = *why;
	sl_loop_stop(k->loop);
}

/* Whether this client may train with its group. An alignment of that group's rows asks the same list of clients, and
 * leaves the group as it is. It asks for another member's role, so that one that waits for this member waits on. */
static enum sl_err knock(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	static const struct sl_letters_events events = {on_open, NULL, on_failed, on_waits};
	static struct sl_conf_client c;
	struct sl_client_auth auth = {.met = false};
	struct knock k = {.why = {.code = SL_OK}};
	enum sl_err err = sl_client_auth_open(&auth, conf, fail);

	c = *conf;
	c.agreed.share.clients = 2;
	c.agreed.share.role = c.agreed.share.role == SL_ROLE_LABELS ? SL_ROLE_FEATURES : SL_ROLE_LABELS;
	c.agreed.share.member = sl_agreed_is_vertical(&conf->agreed) ? conf->agreed.share.member : 0;
	if (!err)
		err = sl_loop_open(&k.loop, fail);
	if (!err)
		err = sl_letters_open(&k.letters, k.loop, &c, &auth.transport, &events, &k, fail);
	if (!err)
		sl_loop_run(k.loop);
	if (!err && k.why.code) {
		*fail = k.why;
		err = k.why.code;
	}
	sl_letters_close(k.letters);
	if (k.loop)
		sl_loop_close(k.loop);
	sl_client_auth_close(&auth);
	return err;
}

static enum sl_err try_steps(json_t **summary, const struct sl_options *o, const struct sl_conf_client *c,
			     struct sl_fail *fail)
{
	static const char *const plain[] = {"share.group=",
					    "log.dir=",
					    "log.level=error",
					    "control=",
					    "metrics=",
					    "train.schedule.kind=constant",
					    "train.schedule.warmup_epochs=0",
					    "train.eval_every=0",
					    "train.checkpoint_every=0",
					    "train.stop.patience=0",
					    "train.keep_best=false",
					    "train.audit.every=0",
					    "train.phases=[]"};
	struct sl_options own = *o;
	struct sl_child child;
	char text[32];
	enum sl_err err;

	own.n_set = 0;
	for (int i = 0; i < o->n_set; i++) /* without a group these would be refused */
		if (strncmp(o->set[i], "share.", strlen("share.")) != 0)
			own.set[own.n_set++] = o->set[i];
	sl_child_open(&child, &own);
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		sl_child_setting(&child, plain[i]);
	snprintf(text, sizeof text, "%d", STEPS);
	sl_child_set(&child, "train.max_steps", text);
	sl_child_set(&child, "train.epochs", text);
	snprintf(text, sizeof text, "%d", c->agreed.batch);
	sl_child_set(&child, "data.test_limit", text);
	sl_child_set(&child, "data.dir", c->data.dir); /* without %m */
	err = sl_child_run(&child, NULL, summary, fail);
	for (int code = SL_OK + 1; err && child.status && code < SL_ERR_COUNT; code++)
		if (sl_err_exit_status((enum sl_err)code) == child.status)
			return sl_fail_set(fail, (enum sl_err)code,
					   "%s answers, but a trial of %d steps there ended with status %d, for the "
					   "reason above",
					   c->server, STEPS, child.status);
	return err;
}

enum sl_err sl_before_connect(json_t **out, const struct sl_options *o, const struct sl_conf_client *c, uint64_t steps,
			      struct sl_fail *fail)
{
	const char *group = c->agreed.share.group;
	json_t *trial = NULL, *list, *one;
	double round_trip_s = 0, step_s, bytes = 0;
	size_t i;
	enum sl_err err =
		c->privacy.clip > 0
			? sl_conf_client_fail(
				  c, "privacy.clip", fail,
				  "--connect would send samples, and epsilon would not count them: leave it out")
			: find_server(&round_trip_s, c, fail);

	if (!err && group[0])
		err = knock(c, fail);
	if (!err && !sl_agreed_is_vertical(&c->agreed))
		err = try_steps(&trial, o, c, fail);
	if (err)
		return err;
	list = json_object_get(trial, "directions");
	json_array_foreach(list, i, one) bytes += sl_json_number(one, "wire_bytes") / STEPS;
	step_s = trial ? sl_json_number(trial, "t_per_batch_s") : NAN;
	*out = json_pack("{s:s, s:f, s:b, s:i, s:s?, s:i, s:o, s:o, s:o, s:o?}", "server", c->server, "round_trip_s",
			 round_trip_s, "keys", c->auth.secret_key[0] != 0, "protocol", SL_WIRE_VERSION, "group",
			 group[0] ? group : NULL, "steps", trial ? STEPS : 0, "step_s", sl_json_real(step_s),
			 "link_mb_s",
			 sl_json_real(bytes * 1e-6 / (step_s - sl_json_number(trial, "t_compute_per_batch_s"))),
			 "run_s", sl_json_real(step_s * (double)steps), "trial", trial);
	return SL_OK;
}

void sl_before_print_server(const json_t *s)
{
	const char *group = json_string_value(json_object_get(s, "group"));
	char step[SL_FIGURE_TEXT], run[SL_FIGURE_TEXT];

	printf("server       %s answers, round trip %s\n", json_string_value(json_object_get(s, "server")),
	       sl_time_text(sl_json_number(s, "round_trip_s"), step));
	printf("key          %s\n",
	       json_is_true(json_object_get(s, "keys")) ? "each side knows the other's" : "none: no encryption");
	printf("protocol     both speak %d\n", (int)sl_json_number(s, "protocol"));
	if (group)
		printf("group        this client may train with %s\n", group);
	if (!sl_json_number(s, "steps"))
		puts("trial        none: a member of a vertical group cannot train alone");
	else
		printf("trial        a step takes %s, and the link moves %.2f MB/s meanwhile;\n"
		       "             %s for the run's steps at this pace\n",
		       sl_time_text(sl_json_number(s, "step_s"), step), sl_json_number(s, "link_mb_s"),
		       sl_time_text(sl_json_number(s, "run_s"), run));
}
