#include <errno.h>

#include <zmq.h>

#include "common/link/zwatch.h"

static int zmq_events(void *socket)
{
	int events = 0;
	size_t len = sizeof events;

	/* EINTR: read again; anything else means that the context is going down */
	while (zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) < 0)
		if (errno != EINTR)
			return 0;
	return events;
}

static void unblocked(uv_poll_t *uv, int status, int uv_events)
{
	(void)uv, (void)status, (void)uv_events; /* after_wait follows in the same turn */
}

static void never(uv_idle_t *uv)
{
	(void)uv; /* an active idle handle makes the wait return at once */
}

static void before_wait(uv_prepare_t *uv)
{
	struct sl_zwatch *watch = uv->data;

	if (watch->before_wait)
		watch->before_wait(watch->arg, zmq_events(watch->socket));
	if (!watch->stopped && zmq_events(watch->socket) & ZMQ_POLLIN)
		uv_idle_start(&watch->idle, never);
}

static void after_wait(uv_check_t *uv)
{
	struct sl_zwatch *watch = uv->data;

	uv_idle_stop(&watch->idle);
	if (zmq_events(watch->socket) & ZMQ_POLLIN)
		watch->readable(watch->arg);
}

enum sl_err sl_zwatch_start(struct sl_zwatch *watch, struct sl_loop *loop, struct sl_fail *fail)
{
	uv_loop_t *uv = sl_loop_uv(loop);
	int fd, rc;
	size_t len = sizeof fd;

	if (zmq_getsockopt(watch->socket, ZMQ_FD, &fd, &len) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "ZMQ_FD: %s", zmq_strerror(errno));
	rc = uv_poll_init(uv, &watch->poll, fd);
	if (rc)
		return sl_uv_fail(fail, rc, "poll of a ZeroMQ socket");
	uv_prepare_init(uv, &watch->prepare);
	uv_check_init(uv, &watch->check);
	uv_idle_init(uv, &watch->idle);
	watch->poll.data = watch->prepare.data = watch->check.data = watch->idle.data = watch;
	watch->open = 4;
	rc = uv_poll_start(&watch->poll, UV_READABLE, unblocked);
	if (rc)
		return sl_uv_fail(fail, rc, "poll of a ZeroMQ socket");
	uv_prepare_start(&watch->prepare, before_wait);
	uv_check_start(&watch->check, after_wait);
	return SL_OK;
}

static void handle_closed(uv_handle_t *uv)
{
	struct sl_zwatch *watch = uv->data;

	if (--watch->open == 0)
		watch->closed(watch->arg);
}

void sl_zwatch_stop(struct sl_zwatch *watch)
{
	if (watch->stopped)
		return;
	watch->stopped = true;
	if (!watch->open) {
		watch->closed(watch->arg);
		return;
	}
	uv_poll_stop(&watch->poll); /* ZeroMQ closes the descriptor before libuv would stop polling it */
	uv_close((uv_handle_t *)&watch->poll, handle_closed);
	uv_close((uv_handle_t *)&watch->prepare, handle_closed);
	uv_close((uv_handle_t *)&watch->check, handle_closed);
	uv_close((uv_handle_t *)&watch->idle, handle_closed);
}
