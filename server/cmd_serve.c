#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "common/base/pool.h"
#include "common/base/program.h"
#include "common/base/version.h"
#include "common/conf/conf.h"
#include "common/link/control.h"
#include "common/link/loop.h"
#include "common/telemetry/metrics.h"
#include "server/command.h"
#include "server/host/device.h"
#include "server/host/host.h"

static const char *const usage[] = {
	"splits serve CONFIG [--set KEY=VALUE]… [--check-config] [--print-config]",
	"Trains the middle layers of networks for clients. The first SIGTERM or Ctrl-C shuts the server down in good "
	"order; a second one ends it at once. On SIGHUP the server reads the list of clients again.",
	NULL,
};

struct serve {
	struct sl_conf_server conf;
	struct sl_server_auth auth;
	struct sl_device device;
	const struct sl_ranks *ranks; /* NULL: this server is the only one */
	struct sl_loop *loop;
	struct sl_host *host;
	struct sl_control *control;
	struct sl_metrics *metrics;
	struct sl_timer *drain, *alive; /* the limit of a shutdown; pings of systemd's watchdog */
	bool stopping;
	/* Exit without closing anything: a task that hangs may still use all of it. */
	bool at_once;
	struct sl_fail why;
};

static struct serve *volatile hung; /* a task that hangs may use it until the process ends */

enum { DRAIN_MIN_MS = 1 };

static int failed(const struct sl_fail *fail)
{
	return sl_options_failed("splits", fail);
}

static char *answer(void *arg, const char *request)
{
	struct serve *s = arg;

	return strcmp(request, "status") == 0 && s->host ? sl_host_status(s->host) : NULL;
}

static void host_closed(void *arg)
{
	struct serve *s = arg;

	s->host = NULL;
	sl_loop_stop(s->loop);
}

static void end_at_once(struct serve *s)
{
	s->at_once = true;
	sl_loop_stop(s->loop);
}

static void on_broken(void *arg, const struct sl_fail *why)
{
	struct serve *s = arg;

	s->why = *why;
	end_at_once(s);
}

static void on_drain_over(void *arg)
{
	struct serve *s = arg;

	sl_log(SL_LOG_ERROR, "shutdown", "not done within %d s (drain_s): the server ends", s->conf.drain_s);
	sl_fail_set(&s->why, SL_ERR_BUSY, "shutdown took longer than drain_s");
	end_at_once(s);
}

static void on_alive(void *arg)
{
	sl_notify("WATCHDOG=1");
}

static void on_signal(void *arg, int signum)
{
	struct serve *s = arg;

	if (s->stopping) {
		sl_fail_set(&s->why, SL_ERR_UNAVAILABLE, "interrupted by a second signal, %d", signum);
		end_at_once(s);
		return;
	}
	s->stopping = true;
	sl_notify("STOPPING=1");
	sl_timer_start(s->drain, s->conf.drain_s ? (uint64_t)s->conf.drain_s * 1000 : DRAIN_MIN_MS, 0);
	sl_log(SL_LOG_INFO, "shutdown", "signal %d: sessions are told, then the server ends", signum);
	sl_host_close(s->host, host_closed, s);
}

static void on_hangup(void *arg)
{
	struct serve *s = arg;

	if (s->host && !s->stopping)
		sl_host_reload(s->host);
}

/* Adds `by` to the port in "…:5570"; port 0, which lets the system choose, stays. */
static void shift_port(char text[SL_CONF_TEXT], int by)
{
	char *colon = strrchr(text, ':');
	const int port = colon ? atoi(colon + 1) : 0;

	if (port)
		snprintf(colon + 1, (size_t)(text + SL_CONF_TEXT - (colon + 1)), "%d", port + by);
}

/* All ranks read one config: gives this rank ports, a control socket and a store of its own. */
static enum sl_err become_rank(struct serve *s, struct sl_fail *fail)
{
	struct sl_conf_server *c = &s->conf;
	const struct sl_ranks *r = s->ranks;
	char *names[] = {c->store, c->control};
	const size_t caps[] = {sizeof c->store, sizeof c->control};
	const char *const joined[] = {"/", "."};

	shift_port(c->listen, r->on_host);
	shift_port(c->metrics, r->on_host);
	for (int i = 0; i < 2; i++) {
		const size_t len = strlen(names[i]);

		if (!len)
			continue;
		if (len + 32 > caps[i])
			return sl_fail_set(fail, SL_ERR_CONFIG, "the path %s is too long for several ranks", names[i]);
		snprintf(names[i] + len, caps[i] - len, "%srank-%d", joined[i], r->rank);
	}
	sl_log(SL_LOG_INFO, "ranks", "rank %d of %d", r->rank, r->count);
	return c->store[0] ? sl_folder_make(c->store, 0700, fail) : SL_OK;
}

static enum sl_err open_all(struct serve *s, struct sl_fail *fail)
{
	enum sl_err err = sl_ranks_open(&s->ranks, fail);

	if (!err && s->ranks)
		err = become_rank(s, fail);
	if (!err)
		err = sl_server_auth_open(&s->auth, &s->conf, fail);
	if (!err && s->auth.gate)
		sl_keypair_hide(&s->auth.own);
	if (!err)
		err = sl_device_open(&s->device, &s->conf, fail);
	if (!err)
		err = sl_loop_open(&s->loop, fail);
	if (!err)
		err = sl_loop_on_hangup(s->loop, on_hangup, s, fail);
	if (!err)
		err = sl_loop_on_signals(s->loop, on_signal, s, fail);
	if (!err)
		err = sl_host_open(&s->host, s->loop, &s->conf, &s->auth, &s->device, fail);
	if (!err && sl_host_ranks(s->host, s->ranks))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what the ranks say");
	if (!err)
		err = sl_timer_open(&s->drain, s->loop, on_drain_over, s, fail);
	if (!err)
		err = sl_timer_open(&s->alive, s->loop, on_alive, s, fail);
	if (!err)
		err = sl_control_open(&s->control, s->loop, s->conf.control, answer, s, fail);
	if (!err)
		err = sl_conf_server_blame(&s->conf, "metrics",
					   sl_metrics_open(&s->metrics, s->loop, s->conf.metrics,
							   s->conf.metrics_hosts.item, s->conf.metrics_hosts.n, false,
							   answer, s, fail),
					   fail);
	return err;
}

/* One heap for all threads. By default glibc gives each thread an arena. It returns the free end of an arena to the
 * system only for the main one (malloc_trim skips the others), so each would stay at its peak. Threads do not contend
 * for the one heap, since nothing is allocated while a step computes. */
static void share_one_heap(void)
{
	mallopt(M_ARENA_MAX, 1);
}

/* --check-config, after the config was loaded: also checks the key and the list of clients that it names. */
static int check_config(struct serve *s, const char *path)
{
	struct sl_fail fail;
	enum sl_err err = sl_server_auth_open(&s->auth, &s->conf, &fail);

	sl_server_auth_close(&s->auth);
	if (err)
		return failed(&fail);
	printf("%s: ok\n", path);
	return 0;
}

static int serve(struct serve *s)
{
	struct sl_fail fail;
	enum sl_err err;

	share_one_heap();
	err = open_all(s, &fail);
	if (!err) {
		sl_log(SL_LOG_INFO, "serving", "splits %s on %s, %s, %d thread%s", SL_VERSION,
		       sl_host_endpoint(s->host), s->device.text, sl_pool_threads(s->device.pool),
		       sl_plural(sl_pool_threads(s->device.pool)));
		sl_host_on_broken(s->host, on_broken, s);
		sl_notify("READY=1");
		if (sl_notify_watchdog_ms())
			sl_timer_start(s->alive, sl_notify_watchdog_ms(), sl_notify_watchdog_ms());
		sl_loop_run(s->loop);
	} else if (s->host) {
		sl_host_close(s->host, host_closed, s);
		sl_loop_run(s->loop);
	}
	if (s->at_once) {
		sl_program_hangs();
		return failed(&s->why);
	}
	sl_control_close(s->control);
	sl_metrics_close(s->metrics);
	if (s->drain)
		sl_timer_close(s->drain);
	if (s->alive)
		sl_timer_close(s->alive);
	sl_loop_close(s->loop);
	sl_device_close(&s->device);
	sl_server_auth_close(&s->auth);
	if (s->ranks && !err)
		s->ranks->close(s->ranks);
	return err ? failed(&fail) : 0;
}

static int run(struct serve *s, int argc, char **argv)
{
	struct sl_options o = {.command = "serve", .usage = usage, .keys = &sl_conf_server_schema};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG, 1);

	if (status < 0 && !o.config)
		status = sl_options_missing(&o, "CONFIG");
	if (status >= 0)
		return status;
	if (sl_conf_load(&sl_conf_server_schema, &s->conf, o.config, o.set, o.n_set, &fail) != SL_OK)
		return failed(&fail);
	sl_log_set_level(s->conf.log.level);
	if (o.print_config) {
		(void)!sl_conf_print(&sl_conf_server_schema, &s->conf, stdout); /* sl_command_run checks stdout */
		return 0;
	}
	return o.check_config ? check_config(s, o.config) : serve(s);
}

int splits_serve(int argc, char **argv)
{
	struct serve *s = calloc(1, sizeof *s);
	int status;

	if (!s)
		return failed(&(struct sl_fail){.code = SL_ERR_NOMEM, .text = "no memory for a server"});
	status = run(s, argc, argv);
	if (s->at_once)
		hung = s;
	else
		free(s);
	return status;
}
