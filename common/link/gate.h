/* Who may come in. An allow-list is text, one client a line (key.h):
 *
 *   KEY NAME [group=GROUP,…] [# remark]
 *
 * with neither a key nor a name twice; the client may train with these groups. It never changes once parsed; a gate
 * holds the one that counts now, and swaps it whole. Loop thread, but for what is marked (handler): ZeroMQ's
 * authentication handler, the gate's one other reader, which never waits for anybody. */
#ifndef SL_LINK_GATE_H
#define SL_LINK_GATE_H

#include "common/link/key.h"

struct sl_allow;
struct sl_gate;

enum { SL_GATE_ADDRESS = 64 };

/* DATA with `file` and the line, NOMEM. An empty list is fine, and lets nobody in. */
enum sl_err sl_allow_parse(struct sl_allow **out, const char *file, const char *text, size_t len,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Also NOINPUT, IO; LIMIT beyond 1 MiB. */
enum sl_err sl_allow_load(struct sl_allow **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
void sl_allow_free(struct sl_allow *allow); /* NULL is fine */
int sl_allow_count(const struct sl_allow *allow);
/* The name of the client with this key; NULL: not on the list. */
const char *sl_allow_name(const struct sl_allow *allow, const struct sl_key *key);

/* Whether the client with this key may train with this group. */
bool sl_allow_in_group(const struct sl_allow *allow, const struct sl_key *key, const char *group);

/* `allow` is the gate's from here on. */
enum sl_err sl_gate_open(struct sl_gate **out, struct sl_allow *allow, struct sl_fail *fail) SL_MUST_CHECK;
void sl_gate_close(struct sl_gate *gate); /* NULL is fine; after its transport */
/* Makes `allow` the list that counts and returns the one that did, which nobody reads any more. */
struct sl_allow *sl_gate_swap(struct sl_gate *gate, struct sl_allow *allow) SL_MUST_CHECK;
const struct sl_allow *sl_gate_list(const struct sl_gate *gate);

/* (handler) True: on the list. Else it is counted and kept for sl_gate_take_refusal. `address` is the peer's, not
 * necessarily ended by a NUL. */
bool sl_gate_admit(struct sl_gate *gate, const struct sl_key *key, const char *address, size_t address_len);

struct sl_refusal {
	struct sl_key key;
	char address[SL_GATE_ADDRESS];
	uint64_t count; /* of refusals since the last call, this one included */
};
/* For the log: the first refusal since the last call; false: none. Those between are only counted, so that strangers
 * cannot flood a log. */
bool sl_gate_take_refusal(struct sl_gate *gate, struct sl_refusal *out);

#endif
