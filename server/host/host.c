#include "server/host/host.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/pool.h"
#include "common/base/wrap.h"
#include "common/session/memory.h"
#include "server/host/host_impl.h"
#include "server/store/store.h"

enum { LINGER_MS = 3000, HWM = 64, TICK_MS = 20, TELL_MS = 1000 };

static int find(const struct sl_host *h, sl_peer peer)
{
	for (int i = 0; i < h->n_place; i++)
		if (h->session[i] && sl_middle_peer(h->session[i]) == peer)
			return i;
	return -1;
}

static void session_over(void *arg, struct sl_middle *middle)
{
	struct sl_host *h = arg;

	for (int i = 0; i < h->n_place; i++)
		if (h->session[i] == middle)
			h->ending[i] = true;
	/* now: the client may come again before the session is taken out */
	if (sl_middle_status(middle).welcomed)
		sl_epochs_remember(&h->epochs, sl_middle_session(middle)->hello.session,
				   sl_middle_session(middle)->epoch);
}

/* Freed sessions leave the heap fragmented, and free() returns none of these pages to the system. So the server does
 * that when its last session is closed. */
static void session_closed(void *arg)
{
	struct sl_host *h = arg;

	h->closing--;
	for (int i = 0; i < h->n_place; i++)
		if (h->session[i])
			return;
	if (!h->closing)
		malloc_trim(0);
}

static void count(struct sl_host_counts *c, const struct sl_middle *middle, bool over)
{
	const struct sl_session *s = sl_middle_session(middle);
	struct sl_middle_status st = sl_middle_status(middle);

	c->links += st.welcomed;
	c->lost += st.welcomed && over && !st.left;
	c->rejected += s->counts.refused_frames;
	c->stale += s->counts.stale_frames;
}

void sl_host_take_out(struct sl_host *h, int i)
{
	struct sl_middle *middle = h->session[i];

	const struct sl_middle_status st = sl_middle_status(middle);

	count(&h->counts, middle, true);
	sl_visits_end(h->visits, h->visit[i], &st);
	h->visit[i] = NULL;
	sl_transport_forget(h->transport, sl_middle_peer(middle));
	h->session[i] = NULL;
	sl_retention_leave(&h->keeping.what, i);
	h->closing++;
	sl_middle_close(middle, session_closed, h);
}

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_host *h = arg;
	int i = find(h, peer);

	h->counts.frames++;
	h->counts.bytes += header.len + payload.len;
	if (i >= 0)
		sl_middle_deliver(h->session[i], header, payload);
	else if (!sl_relay_deliver(h->relay, peer, header, payload))
		sl_host_hello(h, peer, header, payload);
}

static void on_writable(void *arg, sl_peer peer)
{
	struct sl_host *h = arg;
	int i = find(h, peer);

	if (i >= 0)
		sl_middle_writable(h->session[i]);
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	struct sl_host *h = arg;
	struct sl_fail fail;
	int i = find(h, peer);

	h->malformed++;
	sl_log_limited(SL_LOG_WARN, "malformed", "peer %" PRIu64 ": %s", peer, why);
	if (i >= 0) {
		sl_middle_malformed(h->session[i], why);
		return;
	}
	sl_fail_set(&fail, SL_ERR_PROTOCOL, "%s", why);
	if (!sl_relay_fail(h->relay, peer, &fail))
		sl_host_turn_away(h, peer, 0, &fail);
}

static void on_lost(void *arg, sl_peer peer)
{
	struct sl_host *h = arg;
	int i = find(h, peer);
	struct sl_fail why;

	sl_fail_set(&why, SL_ERR_PEER_LOST, "the connection is gone");
	if (i < 0) {
		sl_challenges_end(&h->challenges, peer);
		(void)sl_relay_fail(h->relay, peer, &why);
		return;
	}
	sl_middle_end(h->session[i], &why);
}

static void host_free(struct sl_host *h)
{
	for (struct sl_key_budget *b = h->key_budgets, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(h->session);
	free(h->visit);
	free(h->ending);
	free(h->second);
	free(h->key);
	free(h->rate);
	sl_relay_close(h->relay);
	sl_housekeeping_close(&h->keeping);
	sl_visits_close(h->visits, h->came);
	sl_store_close(h->store_lock);
	free(h);
}

static void finish_close(struct sl_host *h)
{
	void (*closed)(void *) = h->closed;
	void *closed_arg = h->closed_arg;

	sl_log_tell_left_out(true);
	sl_timer_close(h->ticker);
	sl_worker_close(h->worker);
	h->worker = NULL;
	sl_group_list_close(h->groups);
	h->groups = NULL;
	sl_async_close(h->jobs_done);
	sl_transport_close(h->transport, LINGER_MS);
	host_free(h);
	closed(closed_arg);
}

/* Logs refused keys, at most one line a second, since strangers may try as often as they like. */
static void tell_refusals(struct sl_host *h)
{
	uint64_t now_ms = sl_loop_now_ms(h->loop);
	char print[SL_FINGERPRINT];
	struct sl_refusal told;

	if (!h->auth || now_ms - h->told_ms < TELL_MS || !sl_gate_take_refusal(h->auth->gate, &told))
		return;
	h->told_ms = now_ms;
	h->turned_away += told.count;
	sl_key_fingerprint(&told.key, print);
	sl_log(SL_LOG_WARN, "auth-refused",
	       "key %s from %s is not on the list of clients (%" PRIu64 " handshake%s refused)", print, told.address,
	       told.count, sl_plural((long long)told.count));
	sl_visits_refused(h->visits, &(struct sl_visitor){.key = print, .host = told.address}, told.count);
}

static void give_up(struct sl_host *h, const struct sl_fail *why)
{
	h->broken = true;
	h->on_broken(h->broken_arg, why);
}

/* Ends the process if a task hangs: nothing queued behind it would be computed, written or freed. Also if the device
 * has failed for good: clients would reconnect for ever, and be refused each time. */
static void watch_worker(struct sl_host *h)
{
	uint64_t silent_ms = sl_worker_silent_ms(h->worker);
	const struct sl_backend *be = h->env.be;
	struct sl_fail why;

	if (!h->on_broken || h->broken)
		return;
	if (be->ops->failed && be->ops->failed(be)) {
		sl_log(SL_LOG_ERROR, "device-failed",
		       "%s has failed and computes nothing more in this process: the server ends", h->env.device);
		sl_fail_set(&why, SL_ERR_DEVICE, "the device has failed");
		give_up(h, &why);
	} else if (h->conf->watchdog_s && silent_ms > (uint64_t)h->conf->watchdog_s * 1000) {
		sl_log(SL_LOG_ERROR, "watchdog",
		       "a task on %s has run for %" PRIu64 " s (watchdog_s is %d): the server ends", h->env.device,
		       silent_ms / 1000, h->conf->watchdog_s);
		sl_fail_set(&why, SL_ERR_DEVICE, "a task did not end within watchdog_s");
		give_up(h, &why);
	}
}

static void keep_rate(struct sl_host *h, int i)
{
	const struct sl_port_stats stats = sl_middle_status(h->session[i]).stats;
	const struct sl_rate_sample now = {sl_loop_now_ms(h->loop), {stats.tx_bytes, stats.rx_bytes}};

	sl_rate_keep(&h->rate[i], &now);
}

static void on_tick(void *arg)
{
	struct sl_host *h = arg;
	int open = sl_relay_seats(h->relay);

	tell_refusals(h);
	sl_visits_refused(h->visits, NULL, 0);
	sl_log_tell_left_out(false);
	watch_worker(h);
	if (!h->shut)
		sl_housekeeping_tick(&h->keeping, h->worker, sl_loop_now_ms(h->loop));
	sl_host_forget_late(h);
	sl_group_list_tick(h->groups);
	sl_relay_tick(h->relay);
	for (int i = 0; i < h->n_place; i++) {
		if (!h->session[i])
			continue;
		if (!h->ending[i]) {
			sl_middle_tick(h->session[i]);
			keep_rate(h, i);
		}
		if (h->ending[i])
			sl_host_take_out(h, i);
		else
			open++;
	}
	if (h->closed && !h->shut && (!open || sl_loop_now_ms(h->loop) >= h->close_ms))
		sl_host_close(h, h->closed, h->closed_arg);
	/* Closing the worker blocks the loop's thread: not while a job that may hang is under way. */
	if (h->shut && !open && !h->closing && !h->keeping.busy)
		finish_close(h);
}

static void on_jobs_done(void *arg)
{
	struct sl_host *h = arg;

	if (h->worker)
		sl_worker_drain(h->worker);
}

static enum sl_err open_parts(struct sl_host *h, struct sl_fail *fail)
{
	static const struct sl_transport_events events = {on_message, on_writable, on_malformed, on_lost, NULL};
	const struct sl_transport_conf transport = {h->conf->listen,
						    (size_t)h->conf->limits.part_bytes,
						    HWM,
						    h->auth ? &h->auth->transport : NULL,
						    (uint64_t)h->conf->link.window_bytes,
						    h->conf->limits.connections_per_s,
						    NULL,
						    &h->came};
	const bool inside =
		strncmp(h->conf->listen, "ipc:", 4) == 0; /* of a program (local:), which is its only client */
	enum sl_err err = sl_store_open(h->conf->store, &h->store_lock, fail);

	if (!err)
		err = sl_visits_open(&h->visits, inside ? "" : h->conf->store,
				     h->auth ? &h->auth->own.public_key : NULL, fail);
	if (!err)
		sl_housekeeping_measure(&h->keeping);
	if (!err)
		err = sl_async_open(&h->jobs_done, h->loop, on_jobs_done, h, fail);
	if (!err)
		err = sl_worker_open(&h->worker, "split-device", sl_async_wake, h->jobs_done, fail);
	if (!err)
		err = sl_transport_bind(&h->transport, h->loop, &transport, &events, h, fail);
	if (!err)
		err = sl_timer_open(&h->ticker, h->loop, on_tick, h, fail);
	return err;
}

static bool may_join(void *arg, const struct sl_key *key, const char *group)
{
	const struct sl_host *h = arg;

	return !h->auth || sl_allow_in_group(sl_gate_list(h->auth->gate), key, group);
}

static enum sl_err open_groups(struct sl_host *h, const struct sl_device *device, struct sl_fail *fail)
{
	const struct sl_trunk_store store = {h->conf->store, &h->keeping.what, NULL, device->text};

	if (sl_group_list_open(&h->groups, h->loop, h->worker, &store))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for groups");
	if (h->auth)
		sl_group_list_read(h->groups, may_join, h);
	return SL_OK;
}

static struct sl_host *host_new(const struct sl_conf_server *conf)
{
	struct sl_host *h = calloc(1, sizeof *h);
	size_t places = 2 * (size_t)conf->limits.sessions;

	if (!h)
		return NULL;
	h->conf = conf;
	h->store_lock = -1;
	h->n_place = (int)places;
	h->session = calloc(places, sizeof(struct sl_middle *));
	h->visit = calloc(places, sizeof(json_t *));
	h->ending = calloc(places, sizeof *h->ending);
	h->second = calloc(places, sizeof *h->second);
	h->key = calloc(places, sizeof *h->key);
	h->rate = calloc(places, sizeof *h->rate);
	if (h->session && h->visit && h->ending && h->second && h->key && h->rate &&
	    sl_housekeeping_open(&h->keeping, conf) == SL_OK)
		return h;
	host_free(h);
	return NULL;
}

/* On the host's own memory sessions get at most 7/8 of what this process can have, so that the kernel does not kill it.
 */
static uint64_t memory_limit(const struct sl_conf_server *conf, const struct sl_device *device)
{
	const uint64_t host = sl_host_bytes(), most = host - host / 8, limit = (uint64_t)conf->limits.memory_bytes;
	char asked[SL_BYTES_TEXT], given[SL_BYTES_TEXT];

	if (!device->be.host_memory || limit <= most)
		return limit;
	sl_log(SL_LOG_INFO, "memory-limit",
	       "sessions get %s, not the %s of limits.memory_bytes: this process can have %" PRIu64
	       " bytes (RAM, MemoryMax=, ulimit)",
	       sl_bytes_text(most, given), sl_bytes_text(limit, asked), host);
	return most;
}

enum sl_err sl_host_open(struct sl_host **out, struct sl_loop *loop, const struct sl_conf_server *conf,
			 struct sl_server_auth *auth, struct sl_device *device, struct sl_fail *fail)
{
	struct sl_host *h = host_new(conf);
	enum sl_err err;

	if (!h)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %d sessions", conf->limits.sessions);
	h->auth = auth && auth->gate ? auth : NULL;
	h->loop = loop;
	h->threads = device->pool ? sl_pool_threads(device->pool) : 1;
	h->opened_ms = sl_loop_now_ms(loop);
	atomic_init(&h->memory.limit, memory_limit(conf, device));
	err = open_parts(h, fail);
	h->relay = err ? NULL : sl_relay_open(loop, h->transport, conf, h->auth);
	if (!err && !h->relay)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for alignments");
	if (!err && device->be.host_memory)
		sl_worker_charge_cpu(h->worker);
	if (!err)
		err = open_groups(h, device, fail);
	if (err) {
		sl_timer_close(h->ticker);
		sl_transport_close(h->transport, 0);
		sl_worker_close(h->worker);
		sl_async_close(h->jobs_done);
		host_free(h);
		return err;
	}
	h->env = (struct sl_middle_env){
		.loop = loop,
		.transport = h->transport,
		.worker = h->worker,
		.newcomers = &h->newcomers,
		.be = &device->be,
		.host_be = device->be.host_memory ? NULL : &device->cpu,
		.store = conf->store,
		.retention = &h->keeping.what,
		.device = device->text,
		.part_bytes = (uint32_t)conf->limits.part_bytes,
		.window_bytes = (uint64_t)conf->link.window_bytes,
		.memory = &h->memory,
		.recompute = conf->recompute,
		.task_s = conf->limits.task_s,
		.piece_ms = conf->limits.piece_ms,
		.report_samples = conf->limits.report_samples,
		.groups = h->groups,
		.enter = sl_group_enter,
		.watchdog_s = conf->watchdog_s,
		.over = session_over,
		.admitted = sl_host_admitted,
		.may_join = may_join,
		.arg = h,
	};
	sl_timer_start(h->ticker, TICK_MS, TICK_MS);
	*out = h;
	return SL_OK;
}

enum sl_err sl_host_ranks(struct sl_host *h, const struct sl_ranks *ranks)
{
	return sl_group_list_ranks(h->groups, ranks, h->env.be, h->env.host_be ? h->env.host_be : h->env.be);
}

const char *sl_host_endpoint(const struct sl_host *h)
{
	return sl_transport_endpoint(h->transport);
}

struct sl_host_counts sl_host_counts(const struct sl_host *h)
{
	struct sl_host_counts counts = h->counts;

	for (int i = 0; i < h->n_place; i++)
		if (h->session[i])
			count(&counts, h->session[i], h->ending[i]);
	return counts;
}

void sl_host_on_broken(struct sl_host *h, void (*fn)(void *arg, const struct sl_fail *why), void *arg)
{
	h->on_broken = fn;
	h->broken_arg = arg;
}

void sl_host_reload(struct sl_host *h)
{
	char print[SL_FINGERPRINT];
	const struct sl_allow *list;
	struct sl_fail why;

	if (!h->auth) {
		sl_log(SL_LOG_INFO, "reload",
		       "the config names no list of clients (auth.clients), so there is nothing to read again");
		return;
	}
	if (sl_server_auth_reload(h->auth, h->conf, &why)) {
		sl_log(SL_LOG_ERROR, "reload", "%s; the server keeps the old list", why.text);
		return;
	}
	list = sl_gate_list(h->auth->gate);
	sl_group_list_read(h->groups, may_join, h);
	sl_log(SL_LOG_INFO, "reload", "%d client%s may come in", sl_allow_count(list), sl_plural(sl_allow_count(list)));
	for (int i = 0; i < h->n_place; i++) {
		const struct sl_group *group = h->session[i] ? sl_middle_group(h->session[i]) : NULL;
		const bool listed = h->session[i] && sl_allow_name(list, &h->key[i]);

		if (!h->session[i] || h->ending[i] ||
		    (listed && (!group || sl_allow_in_group(list, &h->key[i], sl_group_name_of(group)))))
			continue;
		sl_key_fingerprint(&h->key[i], print);
		sl_fail_set(&why, SL_ERR_AUTH, "the key %s was taken off this server's list of clients%s", print,
			    listed ? " of its group" : "");
		sl_middle_end(h->session[i], &why);
	}
}

void sl_host_close(struct sl_host *h, void (*closed)(void *arg), void *arg)
{
	struct sl_fail why;

	if (h->shut)
		return;
	h->told_ms = 0;
	tell_refusals(h); /* those of the last second */
	h->shut = true;
	h->closed = closed;
	h->closed_arg = arg;
	sl_fail_set(&why, SL_ERR_UNAVAILABLE, "the server shuts down");
	sl_relay_end(h->relay, &why);
	for (int i = 0; i < h->n_place; i++)
		if (h->session[i] && !h->ending[i])
			sl_middle_end(h->session[i], &why);
}

void sl_host_close_after(struct sl_host *h, uint64_t most_ms, void (*closed)(void *arg), void *arg)
{
	h->close_ms = sl_loop_now_ms(h->loop) + most_ms;
	h->closed = closed;
	h->closed_arg = arg;
}
