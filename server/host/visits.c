#include "server/host/visits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/link/proof.h"
#include "common/telemetry/chained.h"
#include "common/telemetry/json.h"

enum { TELL_EVERY_S = 60 };

struct sl_visits {
	struct sl_chained log;
	uint64_t refused;  /* handshakes that no line counts yet */
	json_t *stranger;  /* one of them */
	uint64_t admitted; /* sessions and alignments */
	int64_t told_s;    /* when refused keys were written last */
	bool missed;       /* the last line could not be written */
};

/* Takes over `more`. */
static void put(struct sl_visits *v, const char *type, json_t *more)
{
	enum sl_err err = sl_chained_put(&v->log, sl_chained_event(type, more), SL_FP_NONE);

	if (err && !v->missed)
		sl_log(SL_LOG_WARN, "session-log", SL_VISITS_FILE " cannot be written, and lacks lines: %s",
		       err == SL_ERR_NOMEM ? "no memory" : strerror(errno));
	v->missed = err != SL_OK;
}

static void warn_unfit(const char *store)
{
	struct sl_chain chain = {.name = SL_VISITS_FILE};
	struct sl_fail why;

	if (sl_chain_read(&chain, store, NULL, NULL, &why) == SL_ERR_DATA)
		sl_log(SL_LOG_WARN, "session-log",
		       "%s; splits report --verify will say so. To begin a new file, move it away while no server runs",
		       why.text);
	free(chain.after);
}

enum sl_err sl_visits_open(struct sl_visits **out, const char *store, const struct sl_key *own, struct sl_fail *fail)
{
	struct sl_visits *v;
	char path[PATH_MAX], print[SL_FINGERPRINT] = "";
	enum sl_err err;

	*out = NULL;
	if (!store[0])
		return SL_OK;
	if (snprintf(path, sizeof path, "%s/" SL_VISITS_FILE, store) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "store: path too long");
	v = calloc(1, sizeof *v);
	if (!v)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for " SL_VISITS_FILE);
	err = sl_chained_open(&v->log, path, SL_FP_NONE, fail);
	if (err) {
		free(v);
		return err;
	}
	(void)sl_chained_head(&v->log); /* cuts torn lines off */
	warn_unfit(store);
	if (own)
		sl_key_fingerprint(own, print);
	put(v, "start", json_pack("{ss ss?}", "version", SL_VERSION, "key", own ? print : NULL));
	*out = v;
	return SL_OK;
}

static void tell_refused(struct sl_visits *v)
{
	json_object_set_new(v->stranger, "handshakes", json_integer((json_int_t)v->refused));
	put(v, "refused", v->stranger);
	v->stranger = NULL;
	v->refused = 0;
	v->told_s = sl_wall_s();
}

void sl_visits_close(struct sl_visits *v, uint64_t connections)
{
	if (!v)
		return;
	if (v->refused)
		tell_refused(v);
	put(v, "stop",
	    json_pack("{sI sI}", "connections", (json_int_t)connections, "admitted", (json_int_t)v->admitted));
	sl_log(SL_LOG_INFO, "session-log", "the head of " SL_VISITS_FILE " is %s", sl_chained_head(&v->log));
	if (fsync(v->log.fd))
		sl_log(SL_LOG_WARN, "session-log", SL_VISITS_FILE " may lack lines after a power cut: %s",
		       strerror(errno));
	close(v->log.fd);
	free(v);
}

static json_t *who_is(const struct sl_visitor *who)
{
	static const char mapped[] = "::ffff:"; /* an IPv4 address in IPv6's form */
	const bool is = strncmp(who->host, mapped, sizeof mapped - 1) == 0 && strchr(who->host, '.');
	const char *host = is ? who->host + sizeof mapped - 1 : who->host;

	return json_pack("{so so so}", "client", who->client ? sl_json_text(who->client) : json_null(), "key",
			 who->key ? json_string(who->key) : json_null(), "address",
			 *host ? json_string(host) : json_null());
}

json_t *sl_visit_new(const struct sl_visitor *who, const struct sl_hello *hello)
{
	json_t *visit = who_is(who);
	char id[SL_HEX16_TEXT];
	uint8_t name[16];

	sl_session_name(hello->session, name);
	json_object_set_new(visit, "session", json_string(sl_hex16(name, id)));
	json_object_set_new(visit, "software", sl_json_text(hello->software));
	return visit;
}

void sl_visits_begin(struct sl_visits *v, json_t *visit, const struct sl_agreed *agreed)
{
	if (!v)
		return;
	if (agreed->share.group[0]) {
		json_object_set_new(visit, "group", sl_json_text(agreed->share.group));
		json_object_set_new(visit, "member", json_integer(agreed->share.member));
	}
	v->admitted++;
	json_object_set_new(visit, "since", json_integer((json_int_t)sl_wall_s()));
	put(v, "begin", json_copy(visit));
}

void sl_visits_end(struct sl_visits *v, json_t *visit, const struct sl_middle_status *st)
{
	if (!v) {
		json_decref(visit);
		return;
	}
	json_object_set_new(visit, "steps", json_integer((json_int_t)st->steps));
	json_object_set_new(visit, "received_bytes", json_integer((json_int_t)st->stats.rx_bytes));
	json_object_set_new(visit, "sent_bytes", json_integer((json_int_t)st->stats.tx_bytes));
	json_object_set_new(visit, "outcome", sl_json_text(st->outcome));
	put(v, "end", visit);
}

void sl_visits_align(struct sl_visits *v, const struct sl_visitor *who)
{
	if (!v)
		return;
	v->admitted++;
	put(v, "align", who_is(who));
}

void sl_visits_refused(struct sl_visits *v, const struct sl_visitor *who, uint64_t count)
{
	if (!v)
		return;
	if (count) {
		v->refused += count;
		json_decref(v->stranger);
		v->stranger = who_is(who);
	}
	if (v->refused && sl_wall_s() - v->told_s >= TELL_EVERY_S)
		tell_refused(v);
}
