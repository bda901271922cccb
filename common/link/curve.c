#include "common/link/curve.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/gate.h"
#include "common/link/handshake.h"
#include "common/link/zap.h"
#include "common/link/zsocket.h"

enum {
	ENFORCE_DOMAIN =
		93, /* ZMQ_ZAP_ENFORCE_DOMAIN: the header has it only as a draft, but the library supports it */
	PROVE_MS = 5000,
	PROVE_ENDPOINT = 64,
};

static enum sl_err set(void *socket, int option, const void *value, size_t len, const char *name, struct sl_fail *fail)
{
	if (zmq_setsockopt(socket, option, value, len) == 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "this libzmq refuses %s, which authentication needs: %s", name,
			   zmq_strerror(errno));
}

#define SET(option, value, len) set(socket, option, value, len, #option, fail)

enum sl_err sl_curve_server(void *socket, const struct sl_keypair *own, struct sl_fail *fail)
{
	enum sl_err err = SET(ZMQ_CURVE_SERVER, &(int){1}, sizeof(int));

	if (!err)
		err = SET(ZMQ_CURVE_SECRETKEY, own->secret_key.byte, SL_KEY_BYTES);
	if (!err)
		err = SET(ZMQ_ZAP_DOMAIN, SL_ZAP_DOMAIN, strlen(SL_ZAP_DOMAIN));
	/* without this option ZeroMQ would let everybody in if the handler were missing */
	return err ? err : SET(ENFORCE_DOMAIN, &(int){1}, sizeof(int));
}

enum sl_err sl_curve_client(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail)
{
	enum sl_err err = SET(ZMQ_CURVE_SERVERKEY, auth->server->byte, SL_KEY_BYTES);

	if (!err)
		err = SET(ZMQ_CURVE_PUBLICKEY, auth->own->public_key.byte, SL_KEY_BYTES);
	return err ? err : SET(ZMQ_CURVE_SECRETKEY, auth->own->secret_key.byte, SL_KEY_BYTES);
}

enum sl_err sl_curve_guard(struct sl_zap **out, void *context, void *socket, const struct sl_transport_auth *auth,
			   struct sl_fail *fail)
{
	enum sl_err err = sl_zap_open(out, context, auth->gate, fail);

	if (!err)
		err = sl_curve_server(socket, auth->own, fail);
	return err ? err : sl_curve_prove(socket, auth, fail);
}

/* ---- the self-test */

enum verdict { SILENCE, LET_IN, REFUSED, BROKEN };

static enum verdict wait_for_verdict(void *monitor)
{
	uint64_t deadline_ms = sl_now_ms() + PROVE_MS;

	while (sl_now_ms() < deadline_ms) {
		int event = 0, value = 0;

		if (!sl_zsocket_read(monitor, &event, &value))
			continue; /* timed out, or interrupted */
		switch (event) {
		case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
			return LET_IN;
		case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
			return value == SL_ZAP_REFUSED ? REFUSED : BROKEN;
		case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
		case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
			return BROKEN;
		default:
			break;
		}
	}
	return SILENCE;
}

/* Connects a client with this key. It has its own context, so that it connects as any other client does. */
static enum verdict try_key(const char *endpoint, const struct sl_keypair *key, const struct sl_key *server)
{
	void *context = zmq_ctx_new(), *socket = NULL, *monitor = NULL;
	const struct sl_transport_auth auth = {.own = key, .server = server};
	enum verdict verdict = BROKEN;

	if (context)
		socket = zmq_socket(context, ZMQ_DEALER);
	if (socket && sl_curve_client(socket, &auth, NULL) == SL_OK &&
	    zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int)) == 0 &&
	    sl_zsocket_monitor(context, socket, sl_handshake_events(), &monitor, NULL) == SL_OK &&
	    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &(int){PROVE_MS}, sizeof(int)) == 0 &&
	    zmq_connect(socket, endpoint) == 0)
		verdict = wait_for_verdict(monitor);
	sl_zsocket_unmonitor(socket, &monitor);
	if (socket)
		zmq_close(socket);
	if (context)
		while (zmq_ctx_term(context) < 0 && errno == EINTR)
			;
	return verdict;
}

static enum sl_err allow_alone(struct sl_allow **out, const struct sl_key *key, struct sl_fail *fail)
{
	char text[SL_KEY_TEXT + SL_KEY_NAME], printed[SL_KEY_TEXT];
	int n;

	sl_key_print(key, printed);
	n = snprintf(text, sizeof text, "%s self-test", printed);
	return sl_allow_parse(out, "self-test", text, (size_t)n, fail);
}

static enum sl_err judge(enum verdict stranger, enum verdict guest, struct sl_fail *fail)
{
	if (stranger == LET_IN)
		return sl_fail_set(fail, SL_ERR_AUTH,
				   "self-test of authentication: a key that is not on the list got in; not serving");
	if (stranger != REFUSED || guest != LET_IN)
		return sl_fail_set(fail, SL_ERR_AUTH, "self-test of authentication: %s; not serving",
				   stranger != REFUSED ? "a key that is not on the list got no clear refusal"
						       : "a key on the list did not get in");
	return SL_OK;
}

enum sl_err sl_curve_prove(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail)
{
	struct sl_keypair stranger = {0}, guest = {0};
	const struct sl_key *server = &auth->own->public_key;
	char endpoint[PROVE_ENDPOINT];
	size_t len = sizeof endpoint;
	struct sl_allow *real, *probe = NULL;
	struct sl_refusal told;
	enum sl_err err = sl_keypair_make(&stranger, fail);

	if (!err)
		err = sl_keypair_make(&guest, fail);
	if (!err)
		err = allow_alone(&probe, &guest.public_key, fail);
	if (!err && (zmq_bind(socket, "tcp://127.0.0.1:*") < 0 ||
		     zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &len) < 0))
		err = sl_fail_set(fail, SL_ERR_OS, "self-test of authentication: no port on loopback: %s",
				  zmq_strerror(errno));
	if (!err) {
		real = sl_gate_swap(auth->gate, probe);
		err = judge(try_key(endpoint, &stranger, server), try_key(endpoint, &guest, server), fail);
		probe = sl_gate_swap(auth->gate, real);
		(void)sl_gate_take_refusal(auth->gate, &told);
		if (zmq_unbind(socket, endpoint) < 0 && !err)
			err = sl_fail_set(fail, SL_ERR_OS, "self-test of authentication: %s", zmq_strerror(errno));
	}
	sl_allow_free(probe);
	sl_keypair_wipe(&stranger);
	sl_keypair_wipe(&guest);
	return err;
}
