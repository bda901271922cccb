/* STORE/sessions.jsonl: whom this server has had, for an audit. A chained log (telemetry/chained.h): a "start" and a
 * "stop" of each process; a "begin" and an "end" of each session, with its client, where it came from, its group, its
 * bytes and how it ended; an "align" for each alignment; and "refused" keys, counted. What is written is not brought to
 * the disk at once: a power cut may cost the last lines. docs/OUTPUT.md has the members. Loop thread. */
#ifndef SL_SERVER_HOST_VISITS_H
#define SL_SERVER_HOST_VISITS_H

#include "server/trunk/middle.h"

struct json_t;
struct sl_visits;

#define SL_VISITS_FILE "sessions.jsonl"

/* `store` "", as for a server inside a program (local:): *out is NULL, which all other functions take: nothing is
 * written. `own`: the server's key; NULL: no auth. CANTCREATE, IO, NOMEM. */
enum sl_err sl_visits_open(struct sl_visits **out, const char *store, const struct sl_key *own,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Says that the server stops, and how many connections came to it, names the log's head in the server's own log, and
 * brings all to the disk. */
void sl_visits_close(struct sl_visits *v, uint64_t connections);

/* Who it is. client, key, host: as in the functions below, and borrowed. */
struct sl_visitor {
	const char *client, *key; /* the name in the list of clients, the key's fingerprint; NULL: no auth */
	const char *host;         /* sl_transport_peer_host */
};

/* A session's part of its lines; NULL: no memory. The caller's. */
struct json_t *sl_visit_new(const struct sl_visitor *who, const struct sl_hello *hello);
/* The session is admitted. */
void sl_visits_begin(struct sl_visits *v, struct json_t *visit, const struct sl_agreed *agreed);
/* The session is over. Takes over `visit`. */
void sl_visits_end(struct sl_visits *v, struct json_t *visit, const struct sl_middle_status *st);
void sl_visits_align(struct sl_visits *v, const struct sl_visitor *who);
/* Keys that are not on the list, `count` handshakes since the last call; `who`: one of them. Call it with 0 now and
 * then. Writes one line a minute at most. */
void sl_visits_refused(struct sl_visits *v, const struct sl_visitor *who, uint64_t count);

#endif
