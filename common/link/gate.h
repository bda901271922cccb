/* Which clients may connect. An allow-list is text with one client a line (key.h):
 *
 *   KEY NAME [group=GROUP,…] [# remark]
 *
 * No key and no name occurs twice; the client may train in these groups. A parsed list is immutable. A gate holds the
 * current list, and replaces it as a whole. Loop thread, except functions marked (handler): ZeroMQ's authentication
 * handler calls them on its own thread, and they never block. */
#ifndef SL_LINK_GATE_H
#define SL_LINK_GATE_H

#include "common/link/key.h"

struct sl_allow;
struct sl_gate;

enum { SL_GATE_ADDRESS = 64 };

/* DATA: a bad line, with `file` and its number; NOMEM. An empty list is fine: no client may connect. */
enum sl_err sl_allow_parse(struct sl_allow **out, const char *file, const char *text, size_t len,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the file, then as above. Also NOINPUT, IO; LIMIT beyond 1 MiB. */
enum sl_err sl_allow_load(struct sl_allow **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
void sl_allow_free(struct sl_allow *allow); /* NULL is fine */
int sl_allow_count(const struct sl_allow *allow);
/* The name of the client with this key; NULL: not on the list. */
const char *sl_allow_name(const struct sl_allow *allow, const struct sl_key *key);

/* Whether the client with this key may train with this group. */
bool sl_allow_in_group(const struct sl_allow *allow, const struct sl_key *key, const char *group);

/* The gate takes ownership of `allow`. */
enum sl_err sl_gate_open(struct sl_gate **out, struct sl_allow *allow, struct sl_fail *fail) SL_MUST_CHECK;
void sl_gate_close(struct sl_gate *gate); /* NULL is fine; close its transport first */
/* Makes `allow` the current list. Returns the previous one, which nobody reads any more; the caller owns it. */
struct sl_allow *sl_gate_swap(struct sl_gate *gate, struct sl_allow *allow) SL_MUST_CHECK;
const struct sl_allow *sl_gate_list(const struct sl_gate *gate);

/* (handler) Whether the key is on the list. If not, counts and stores it for sl_gate_take_refusal. `address` is the
 * peer's, and need not end with a NUL. */
bool sl_gate_admit(struct sl_gate *gate, const struct sl_key *key, const char *address, size_t address_len);

struct sl_refusal {
	struct sl_key key;
	char address[SL_GATE_ADDRESS];
	uint64_t count; /* refusals since the last call, this one included */
};
/* For the log: the first refusal since the last call; false: there was none. Others are only counted, so that unknown
 * peers cannot flood a log. */
bool sl_gate_take_refusal(struct sl_gate *gate, struct sl_refusal *out);

#endif
