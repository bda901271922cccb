#include "lib/local/local.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/real.h"
#include "server/host/host.h"

enum { GOODBYE_MS = 2000 }; /* the client of this process says goodbye, or pauses, before it ends the server */

#define OPEN __attribute__((visibility("default")))

struct local {
	struct sl_conf_server conf;
	struct sl_server_auth auth;
	struct sl_device device;
	struct sl_loop *loop;
	struct sl_host *host;
	struct sl_async *end;
	char folder[SL_LOCAL_ENDPOINT - 32];
};

static void host_closed(void *arg)
{
	struct local *l = arg;

	l->host = NULL;
	sl_loop_stop(l->loop);
}

static void on_end(void *arg)
{
	struct local *l = arg;

	sl_host_close_after(l->host, GOODBYE_MS, host_closed, l);
}

static void on_broken(void *arg, const struct sl_fail *why)
{
	(void)arg;
	sl_log(SL_LOG_ERROR, "local", "the server of this process is broken: %s; start the program again", why->text);
}

static enum sl_err make_folder(struct local *l, struct sl_fail *fail)
{
	const char *where = getenv("TMPDIR");

	if (!where || !*where || strlen(where) > sizeof l->folder - 32)
		where = "/tmp";
	snprintf(l->folder, sizeof l->folder, "%s/split-XXXXXX", where);
	if (mkdtemp(l->folder))
		return SL_OK;
	l->folder[0] = '\0';
	return sl_fail_set(fail, SL_ERR_CANTCREATE, "no folder for a socket can be made in %s", where);
}

static enum sl_err read_conf(struct local *l, const char *store, struct sl_fail *fail)
{
	char stores[SL_CONF_TEXT + 16];
	const char *const set[] = {stores, "device=cpu", "control=", "metrics="};
	enum sl_err err;

	if (strlen(store) >= SL_CONF_TEXT)
		return sl_fail_set(fail, SL_ERR_CONFIG, "local: the path of the store is too long");
	snprintf(stores, sizeof stores, "store=%s", store);
	err = sl_conf_parse(&sl_conf_server_schema, &l->conf, "local:", "", 0, set, sizeof set / sizeof set[0], fail);
	/* no config can name such a socket; no keys are needed, as others cannot enter its folder */
	snprintf(l->conf.listen, sizeof l->conf.listen, "ipc://%s/socket", l->folder);
	return err;
}

static enum sl_err open_all(struct local *l, const char *store, struct sl_fail *fail)
{
	enum sl_err err = make_folder(l, fail);

	if (!err)
		err = read_conf(l, store, fail);
	if (!err)
		err = sl_server_auth_open(&l->auth, &l->conf, fail);
	if (!err)
		err = sl_device_open(&l->device, &l->conf, fail);
	if (!err)
		err = sl_loop_open(&l->loop, fail);
	if (!err)
		err = sl_async_open(&l->end, l->loop, on_end, l, fail);
	return err ? err : sl_host_open(&l->host, l->loop, &l->conf, &l->auth, &l->device, fail);
}

static void close_all(struct local *l)
{
	char socket[SL_LOCAL_ENDPOINT];

	if (l->host) { /* closing the host needs its loop */
		sl_host_close(l->host, host_closed, l);
		sl_loop_run(l->loop);
	}
	if (l->end)
		sl_async_close(l->end);
	sl_loop_close(l->loop);
	sl_device_close(&l->device);
	sl_server_auth_close(&l->auth);
	if (l->folder[0]) {
		snprintf(socket, sizeof socket, "%s/socket", l->folder);
		(void)unlink(socket);
		(void)rmdir(l->folder);
	}
	free(l);
}

static void *run(void *arg)
{
	uselocale(sl_real_locale());
	sl_loop_run(((struct local *)arg)->loop);
	return NULL;
}

struct handle {
	struct local *local;
	pthread_t thread;
};

static enum sl_err start(struct handle *h, const char *store, struct sl_fail *fail)
{
	enum sl_err err;

	h->local = calloc(1, sizeof *h->local);
	if (!h->local)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a server");
	err = open_all(h->local, store, fail);
	if (!err)
		sl_host_on_broken(h->local->host, on_broken, NULL);
	if (!err && pthread_create(&h->thread, NULL, run, h->local))
		err = sl_fail_set(fail, SL_ERR_OS, "no thread for a server");
	if (err)
		close_all(h->local);
	return err;
}

OPEN int sl_local_open(void **out, const struct sl_local_conf *conf, char endpoint[SL_LOCAL_ENDPOINT],
		       char why[SL_LOCAL_TEXT])
{
	struct handle *h = calloc(1, sizeof *h);
	sigset_t all, before;
	struct sl_fail fail;
	enum sl_err err;

	if (!h)
		return SL_ERR_NOMEM;
	sl_log_at_fork();
	sl_log_set_sink(conf->line, NULL);
	sl_log_set_level((enum sl_log_level)conf->level);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = start(h, conf->store, &fail);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		snprintf(why, SL_LOCAL_TEXT, "%s", fail.text);
		free(h);
		return (int)err;
	}
	snprintf(endpoint, SL_LOCAL_ENDPOINT, "%s", sl_host_endpoint(h->local->host));
	sl_log(SL_LOG_INFO, "local",
	       "the middle is computed in this process, %s; OpenBLAS has one thread here from now on",
	       h->local->device.text);
	*out = h;
	return SL_OK;
}

OPEN void sl_local_close(void *local)
{
	struct handle *h = local;

	sl_async_wake(h->local->end);
	pthread_join(h->thread, NULL);
	close_all(h->local);
	free(h);
}
