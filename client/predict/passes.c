#include "client/predict/passes.h"

#include <stdlib.h>

#include "client/link/auth.h"
#include "client/link/explain.h"
#include "client/pass/local.h"
#include "client/pass/remote.h"
#include "client/persist/epoch.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

struct sl_passes {
	struct sl_passes_spec spec;
	struct sl_loop *loop;
	struct sl_client_auth auth;
	struct sl_secret secret;
	uint64_t epoch, number; /* of the newest link; of the next pass */
	bool linked;            /* there has been a link */
	bool up;
	bool ends;    /* no further link is tried */
	bool closing; /* sl_remote_close was called */
	struct sl_retry failed;
	struct sl_timer *next; /* begins the next link; with spec.local the pass of `feed` */
	struct sl_feed feed;
	struct sl_remote *remote; /* NULL: there is none now */
	struct sl_local *local;
	enum sl_err err;
	struct sl_fail why; /* of err */
};

void sl_passes_end(struct sl_passes *p, enum sl_err err, const struct sl_fail *why)
{
	p->err = err;
	if (why)
		p->why = *why;
	p->ends = true;
	p->up = false;
	sl_timer_stop(p->next);
	if (!p->remote)
		sl_loop_stop(p->loop);
	else if (!p->closing)
		sl_remote_close(p->remote);
	p->closing = p->remote != NULL;
}

static void on_ready(void *arg, uint64_t next_step)
{
	struct sl_passes *p = arg;

	(void)next_step;
	p->linked = p->up = true;
	p->spec.ready(p->spec.arg);
}

static void on_done(void *arg)
{
	struct sl_passes *p = arg;

	SL_FAILPOINT(SL_FP_CLIENT_DONE);
	p->failed = (struct sl_retry){.lost = 0};
	p->spec.done(p->spec.arg);
}

/* Cannot happen, as on_fetched: only steps are abandoned, and no weights are fetched here. */
static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct sl_fail fail;

	sl_passes_end(arg, sl_fail_set(&fail, SL_ERR_BUG, "an evaluation was abandoned: %s", why->text), &fail);
}

static void on_fetched(void *arg)
{
	(void)arg;
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct sl_passes *p = arg;
	const bool may_pass = sl_retry_failed(&p->failed, fail->code);
	const bool again =
		!p->ends && ((p->spec.waits && may_pass) || (p->spec.serves && fail->code == SL_ERR_NONFINITE));
	struct sl_fail why = *fail;

	p->up = false;
	sl_setup_blame(p->spec.setup, &why);
	if (again)
		sl_log(SL_LOG_WARN, "server-lost", "%s; waiting for it", why.text);
	if (p->spec.lost)
		p->spec.lost(p->spec.arg, &why, again);
	if (!again)
		sl_passes_end(p, p->ends ? p->err : fail->code, p->ends ? NULL : &why);
	else if (!p->closing)
		sl_remote_close(p->remote);
	p->closing = true;
}

static void on_closed(void *arg)
{
	struct sl_passes *p = arg;
	const struct sl_conf_client *c = p->spec.setup->conf;

	p->remote = NULL;
	p->closing = false;
	if (p->ends)
		sl_loop_stop(p->loop);
	else
		sl_timer_start(
			p->next,
			sl_retry_pause_ms(&p->failed, (uint64_t)c->link.retry_ms, (uint64_t)c->agreed.seed, p->number),
			0);
}

static enum sl_err open_link(struct sl_passes *p, struct sl_fail *fail)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	struct sl_remote_conf remote = {.link = sl_setup_link(p->spec.setup, &p->auth.transport),
					.use = sl_setup_use(p->spec.setup)};
	struct sl_offer *offer = &remote.link.offer;

	remote.use.logits = p->spec.logits;
	offer->secret = &p->secret;
	offer->epoch = ++p->epoch;
	offer->first = !p->linked;
	sl_offer_fill(offer, 0, SL_OFFER_NONE, NULL, 0, true);
	return sl_remote_open(&p->remote, p->loop, &remote, &events, p, fail);
}

static void pass(struct sl_passes *p)
{
	struct sl_step_result result;
	struct sl_fail why;

	if (sl_local_eval(p->local, &p->feed, p->number++, &result, &why) == SL_OK)
		on_done(p);
	else if (p->spec.serves)
		p->spec.lost(p->spec.arg, &why, true);
	else
		sl_passes_end(p, why.code, &why);
}

static void on_next(void *arg)
{
	struct sl_passes *p = arg;
	struct sl_fail fail;

	if (p->local)
		pass(p);
	else if (open_link(p, &fail))
		sl_passes_end(p, fail.code, &fail);
}

static enum sl_err open_local(struct sl_passes *p, struct sl_fail *fail)
{
	struct sl_setup *s = p->spec.setup;
	struct sl_ends_use use = sl_setup_use(s);
	enum sl_err err = sl_local_open(&p->local, s->plan, &s->agreement, NULL, &s->be, fail);

	if (!err)
		err = sl_local_set_weights(p->local, &s->weights, fail);
	use.logits = p->spec.logits;
	if (!err)
		err = sl_local_use(p->local, &use, fail);
	if (err)
		sl_setup_blame(s, fail);
	return err;
}

enum sl_err sl_passes_open(struct sl_passes **out, const struct sl_passes_spec *spec, struct sl_fail *fail)
{
	const struct sl_conf_client *c = spec->setup->conf;
	struct sl_passes *p = calloc(1, sizeof *p);
	enum sl_err err = p ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for passes");

	if (err)
		return err;
	p->spec = *spec;
	p->epoch = sl_epoch_begin("", (uint64_t)sl_wall_s());
	err = sl_loop_open(&p->loop, fail);
	if (!err && !spec->local)
		err = sl_client_auth_open(&p->auth, c, fail);
	if (!err && !spec->local && c->auth.secret_key[0])
		sl_keypair_hide(&p->auth.own);
	if (!err && !spec->local)
		err = sl_secret_make(&p->secret, fail);
	if (!err)
		err = sl_timer_open(&p->next, p->loop, on_next, p, fail);
	if (!err && spec->local)
		err = open_local(p, fail);
	if (err)
		sl_passes_close(p);
	else
		*out = p;
	return err;
}

struct sl_loop *sl_passes_loop(const struct sl_passes *p)
{
	return p->loop;
}

enum sl_err sl_passes_run(struct sl_passes *p, struct sl_fail *fail)
{
	enum sl_err err = p->local ? SL_OK : open_link(p, fail);

	if (!err)
		err = sl_loop_on_signals(p->loop, p->spec.signal, p->spec.arg, fail);
	if (err)
		return err;
	p->up = p->local;
	if (p->up)
		p->spec.ready(p->spec.arg);
	if (!p->ends)
		sl_loop_run(p->loop);
	if (p->err)
		*fail = p->why;
	return p->err == SL_ERR_TIMEOUT && !p->linked ? sl_link_explain(p->spec.setup->conf, fail) : p->err;
}

bool sl_passes_up(const struct sl_passes *p)
{
	return p->up;
}

void sl_passes_begin(struct sl_passes *p, const struct sl_feed *feed)
{
	p->feed = *feed;
	if (p->local)
		sl_timer_start(p->next, 0, 0);
	else
		sl_remote_eval(p->remote, feed, p->number++);
}

void sl_passes_close(struct sl_passes *p)
{
	if (!p)
		return;
	sl_local_close(p->local);
	sl_timer_close(p->next);
	sl_loop_close(p->loop);
	sl_client_auth_close(&p->auth);
	free(p);
}
