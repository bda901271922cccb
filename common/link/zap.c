#include "common/link/zap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/base/worker.h"

enum { REQUEST_ID_MAX = 255 };

struct sl_zap {
	struct sl_job job;
	struct sl_worker *worker;
	struct sl_gate *gate;
	void *socket; /* only the worker uses it once it runs */
};

enum { VERSION, REQUEST_ID, DOMAIN, ADDRESS, IDENTITY, MECHANISM, KEY };

static bool is(struct sl_bytes frame, const char *text)
{
	return frame.len == strlen(text) && memcmp(frame.data, text, frame.len) == 0;
}

enum sl_zap_status sl_zap_decide(const struct sl_bytes *frame, int n, struct sl_gate *gate, struct sl_key *key)
{
	if (n != SL_ZAP_FRAMES || !is(frame[VERSION], "1.0") || !is(frame[DOMAIN], SL_ZAP_DOMAIN) ||
	    !is(frame[MECHANISM], "CURVE") || frame[KEY].len != sizeof key->byte)
		return SL_ZAP_ERROR;
	memcpy(key->byte, frame[KEY].data, sizeof key->byte);
	return sl_gate_admit(gate, key, (const char *)frame[ADDRESS].data, frame[ADDRESS].len) ? SL_ZAP_OK
											       : SL_ZAP_REFUSED;
}

/* Sends version, request id, status code, status text, user id, metadata. The user id is the key; ZeroMQ then attaches
 * it to each message of that connection. */
static void reply(void *socket, struct sl_bytes request_id, enum sl_zap_status status, const struct sl_key *key)
{
	char code[4], user[SL_KEY_TEXT] = "";

	snprintf(code, sizeof code, "%d", (int)status);
	if (status == SL_ZAP_OK)
		sl_key_print(key, user);
	/* if a send fails, the handshake times out; there is nothing else to do */
	if (zmq_send(socket, "1.0", 3, ZMQ_SNDMORE) >= 0 &&
	    zmq_send(socket, request_id.data, request_id.len, ZMQ_SNDMORE) >= 0 &&
	    zmq_send(socket, code, 3, ZMQ_SNDMORE) >= 0 && zmq_send(socket, "", 0, ZMQ_SNDMORE) >= 0 &&
	    zmq_send(socket, user, strlen(user), ZMQ_SNDMORE) >= 0)
		zmq_send(socket, "", 0, 0);
}

static int receive(void *socket, zmq_msg_t *msg)
{
	int rc;

	do
		rc = zmq_msg_recv(msg, socket, 0);
	while (rc < 0 && errno == EINTR);
	return rc;
}

/* Receives and answers one request; false: the context is shutting down. */
static bool answer(struct sl_zap *zap)
{
	zmq_msg_t msg[SL_ZAP_FRAMES], extra;
	struct sl_bytes frame[SL_ZAP_FRAMES] = {{0}};
	struct sl_key key;
	bool more = true, alive = true;
	int n = 0;

	zmq_msg_init(&extra);
	for (; more && alive; n++) {
		zmq_msg_t *m = n < SL_ZAP_FRAMES ? &msg[n] : &extra;

		if (n < SL_ZAP_FRAMES)
			zmq_msg_init(m);
		alive = receive(zap->socket, m) >= 0;
		more = alive && zmq_msg_more(m);
		if (n < SL_ZAP_FRAMES)
			frame[n] = (struct sl_bytes){zmq_msg_data(m), zmq_msg_size(m)};
	}
	if (alive) {
		enum sl_zap_status status = sl_zap_decide(frame, n, zap->gate, &key);

		if (frame[REQUEST_ID].len > REQUEST_ID_MAX)
			frame[REQUEST_ID].len = 0;
		reply(zap->socket, frame[REQUEST_ID], status, &key);
	}
	for (int i = 0; i < n && i < SL_ZAP_FRAMES; i++)
		zmq_msg_close(&msg[i]);
	zmq_msg_close(&extra);
	return alive;
}

static void run(struct sl_job *job)
{
	struct sl_zap *zap = (struct sl_zap *)job;

	while (answer(zap))
		;
	zmq_close(zap->socket);
}

enum sl_err sl_zap_open(struct sl_zap **out, void *context, struct sl_gate *gate, struct sl_fail *fail)
{
	struct sl_zap *zap = calloc(1, sizeof *zap);
	enum sl_err err = SL_OK;

	if (!zap)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the authentication handler");
	zap->job.run = run;
	zap->gate = gate;
	zap->socket = zmq_socket(context, ZMQ_REP);
	if (!zap->socket || zmq_setsockopt(zap->socket, ZMQ_LINGER, &(int){0}, sizeof(int)) < 0 ||
	    zmq_bind(zap->socket, "inproc://zeromq.zap.01") < 0)
		err = sl_fail_set(fail, SL_ERR_OS, "the authentication handler cannot be bound: %s",
				  zmq_strerror(errno));
	if (!err)
		err = sl_worker_open(&zap->worker, "split-zap", NULL, NULL, fail);
	if (err) {
		if (zap->socket)
			zmq_close(zap->socket);
		free(zap);
		return err;
	}
	sl_worker_post(zap->worker, &zap->job);
	*out = zap;
	return SL_OK;
}

void sl_zap_close(struct sl_zap *zap)
{
	if (!zap)
		return;
	sl_worker_close(zap->worker);
	free(zap);
}
