/* Generation over a link. The client holds all tokens. If a link is lost, the next one repeats the pass under way, with
 * the tokens of each row that were cached. */
#include <signal.h>

#include "client/link/auth.h"
#include "client/persist/epoch.h"
#include "client/run/drive.h"
#include "client/run/generate.h"
#include "client/run/remote.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

struct passes {
	struct sl_setup *setup;
	struct sl_generate *g;
	struct sl_loop *loop;
	struct sl_client_auth auth;
	struct sl_secret secret;
	uint64_t epoch, number; /* of the newest link; of the next pass */
	bool linked;            /* there has been a link */
	bool again;             /* the link is lost, and another one is tried */
	bool closing;           /* sl_remote_close was called */
	struct sl_retry failed;
	struct sl_timer *retry;
	struct sl_remote *remote; /* NULL: there is none now */
	struct sl_feed feed;
	enum sl_err err;
	struct sl_fail *fail;
};

static void close_link(struct passes *p)
{
	if (!p->closing)
		sl_remote_close(p->remote);
	p->closing = true;
}

static void end(struct passes *p, enum sl_err err)
{
	p->err = err;
	p->again = false;
	if (p->remote)
		close_link(p);
	else
		sl_loop_stop(p->loop);
}

static void next(struct passes *p)
{
	if (sl_generate_feed(p->g, &p->feed))
		sl_remote_eval(p->remote, &p->feed, p->number++);
	else
		end(p, SL_OK);
}

static void on_ready(void *arg, uint64_t next_step)
{
	struct passes *p = arg;

	(void)next_step;
	p->linked = true;
	sl_generate_forget(p->g);
	next(p);
}

static void on_done(void *arg)
{
	struct passes *p = arg;
	enum sl_err err = sl_generate_take(p->g, p->fail);

	SL_FAILPOINT(SL_FP_CLIENT_DONE);
	p->failed = (struct sl_retry){.lost = 0};
	if (err)
		end(p, err);
	else
		next(p);
}

/* Cannot happen, as on_fetched: only steps are abandoned, and no weights are fetched here. */
static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct passes *p = arg;

	end(p, sl_fail_set(p->fail, SL_ERR_BUG, "an evaluation was abandoned: %s", why->text));
}

static void on_fetched(void *arg)
{
	(void)arg;
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct passes *p = arg;
	const bool may_wait = p->setup->conf->link.on_server_lost == SL_LOST_WAIT;

	*p->fail = *fail;
	sl_setup_blame(p->setup, p->fail);
	p->err = fail->code;
	p->again = may_wait && sl_retry_failed(&p->failed, fail->code);
	if (p->again)
		sl_log(SL_LOG_WARN, "server-lost", "%s; waiting for it", p->fail->text);
	close_link(p);
}

static void on_closed(void *arg)
{
	struct passes *p = arg;
	const struct sl_conf_client *c = p->setup->conf;

	p->remote = NULL;
	p->closing = false;
	if (p->again)
		sl_timer_start(
			p->retry,
			sl_retry_pause_ms(&p->failed, (uint64_t)c->link.retry_ms, (uint64_t)c->agreed.seed, p->number),
			0);
	else
		sl_loop_stop(p->loop);
}

static enum sl_err open_link(struct passes *p)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	struct sl_remote_conf remote = {.link = sl_setup_link(p->setup, &p->auth.transport),
					.use = sl_setup_use(p->setup)};
	struct sl_offer *offer = &remote.link.offer;

	remote.use.logits = sl_generate_logits(p->g);
	offer->secret = &p->secret;
	offer->epoch = ++p->epoch;
	offer->first = !p->linked;
	(void)sl_offer_fill(offer, 0, SL_OFFER_NONE, NULL, 0, true);
	return sl_remote_open(&p->remote, p->loop, &remote, &events, p, p->fail);
}

static void on_retry(void *arg)
{
	struct passes *p = arg;
	enum sl_err err = open_link(p);

	if (err)
		end(p, err);
}

static void on_signal(void *arg, int signum)
{
	struct passes *p = arg;

	sl_timer_stop(p->retry);
	end(p, sl_fail_set(p->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d", signum));
}

enum sl_err sl_generate_remote(struct sl_setup *setup, struct sl_generate *g, struct sl_fail *fail)
{
	struct passes p = {.setup = setup, .g = g, .fail = fail};
	enum sl_err err = sl_client_auth_open(&p.auth, setup->conf, fail);

	if (!err && setup->conf->auth.secret_key[0])
		sl_keypair_hide(&p.auth.own);
	if (!err)
		err = sl_secret_make(&p.secret, fail);
	if (!err)
		err = sl_loop_open(&p.loop, fail);
	if (!err)
		err = sl_timer_open(&p.retry, p.loop, on_retry, &p, fail);
	p.epoch = sl_epoch_begin("", (uint64_t)sl_wall_s());
	if (!err)
		err = open_link(&p);
	if (!err)
		err = sl_loop_on_signals(p.loop, on_signal, &p, fail);
	if (!err) {
		sl_loop_run(p.loop);
		err = p.err;
	}
	sl_timer_close(p.retry);
	sl_loop_close(p.loop);
	sl_client_auth_close(&p.auth);
	return err == SL_ERR_TIMEOUT && !p.linked ? sl_drive_explain(setup->conf, fail) : err;
}
