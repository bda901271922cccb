#include "common/link/handshake.h"

#include <zmq.h>

#include "common/base/log.h"
#include "common/link/loop.h"
#include "common/link/probe.h"
#include "common/link/zap.h"

enum {
	MET_CUTS =
		100, /* the same of a server that has let this client in before: since then it may have another key */
	CUTS = 3,    /* cut handshakes before keys are blamed; one may be due to the server's restart */
	PROBE_MS = 2000,
	PROBE_PAUSE_MS = 1000, /* least time from one probe's start to the next one's */
	IPV4_TRIES = 6,        /* in a row; ZeroMQ pauses for 0.1 s and more between them */
};

int sl_handshake_events(void)
{
	return ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
	       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
}

static const char *own_print(const struct sl_handshakes *h, char print[SL_FINGERPRINT])
{
	if (!h->auth)
		return NULL;
	sl_key_fingerprint(&h->auth->own->public_key, print);
	return print;
}

/* Sets the refusal if the peer's greeting shows that the two ends' mechanisms differ. */
static void judge(struct sl_handshakes *h, enum sl_greeting theirs)
{
	char print[SL_FINGERPRINT];

	(void)!sl_greeting_judge(theirs, h->auth, own_print(h, print), h->endpoint, &h->refusal);
}

static void was_probed(void *arg, enum sl_greeting greeting, const char *text)
{
	struct sl_handshakes *h = arg;

	h->probe = NULL;
	h->theirs = greeting;
	sl_log(SL_LOG_DEBUG, "probe", "%s: %s", h->endpoint, text);
	if (!h->done)
		judge(h, greeting);
}

static void probe(struct sl_handshakes *h)
{
	uint64_t now_ms = sl_loop_now_ms(h->loop);
	struct sl_fail fail;

	if (h->probe || (h->probed_ms && now_ms - h->probed_ms < PROBE_PAUSE_MS))
		return;
	h->probed_ms = now_ms;
	if (sl_probe_open(&h->probe, h->loop, h->endpoint, h->ipv4, PROBE_MS, was_probed, h, &fail) != SL_OK)
		sl_log(SL_LOG_DEBUG, "probe", "%s: %s", h->endpoint, fail.text);
}

static void cut(struct sl_handshakes *h)
{
	char server[SL_FINGERPRINT], print[SL_FINGERPRINT];
	int *met = h->auth ? h->auth->met : NULL;
	bool known = h->ever;

	if (met && *met) /* a network or a door that cuts so many in a row lets one through in between */
		known = *met <= MET_CUTS && (*met)++;
	/* Keys are to blame only if the peer's greeting asks for keys, and if it never let this client in before. Else
	 * the cause is the network, another service, or a server that hangs. */
	if (++h->cut < CUTS || h->theirs != SL_GREETING_CURVE || !h->auth || known) {
		probe(h);
		return;
	}
	sl_key_fingerprint(h->auth->server, server);
	sl_fail_set(&h->refusal, SL_ERR_AUTH,
		    "%s cuts the handshake: its key is not %s (auth.server_key); this client's key is %s", h->endpoint,
		    server, own_print(h, print));
}

void sl_handshake_event(struct sl_handshakes *h, int event, int value)
{
	char print[SL_FINGERPRINT];

	if (h->refusal.code)
		return;
	if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
		h->done = h->ever = true;
		h->cut = 0;
		if (h->auth && h->auth->met)
			*h->auth->met = 1;
	} else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
		   value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
		judge(h, h->auth ? SL_GREETING_NULL : SL_GREETING_CURVE);
	} else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && value == SL_ZAP_REFUSED) {
		sl_fail_set(&h->refusal, SL_ERR_AUTH,
			    "%s does not know this client's key, fingerprint %s: its public key must be in the "
			    "server's auth.clients",
			    h->endpoint, own_print(h, print));
	} else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
		cut(h);
	}
}

bool sl_handshake_missed(struct sl_handshakes *h)
{
	if (h->reached || !sl_probe_has_name(h->endpoint) || (h->ipv4 && ++h->missed < IPV4_TRIES))
		return false;
	h->ipv4 = !h->ipv4;
	h->missed = 0;
	return true;
}

void sl_handshake_close(struct sl_handshakes *h)
{
	sl_probe_close(h->probe);
	h->probe = NULL;
}
