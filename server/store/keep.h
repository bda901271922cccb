/* What a session's server side keeps on disk, in the store: checkpoints of the middle, named by the session's name
 * and, where there is auth, its owner's key: to another key they are not there. On the device's worker. */
#ifndef SL_SERVER_STORE_KEEP_H
#define SL_SERVER_STORE_KEEP_H

#include "common/link/key.h"
#include "common/session/port.h"
#include "common/session/state.h"
#include "server/store/tidy.h"

enum { SL_KEEP_LEFT = 256 + 1 }; /* a character for each member, 1: it has left */

struct sl_keep {
	const char *dir; /* the store; "": nothing is kept */
	struct sl_tidy *tidy;
	bool owned;
	struct sl_key owner;
	char prefix[64]; /* "session-<uuid>", or "session-<uuid>.<fingerprint>" */
	const struct sl_plan *plan;
	const char *core;                     /* what the bits depend on: the backend's own words */
	uint64_t pin[SL_CHECKPOINT_MAX_PINS]; /* steps that the client counts on: their files stay */
	int n_pin;
	uint64_t made; /* epoch of the link whose COMMIT made the state that is written, or was read; 0: none did */
	char left[SL_KEEP_LEFT]; /* a group's: whose run is over, as what is written says; "": nobody's */
};

/* `tidy`: the store's limits, borrowed; NULL: none. `session`: its name. `owner` NULL: no auth. */
void sl_keep_open(struct sl_keep *k, const char *dir, struct sl_tidy *tidy, const uint8_t session[16],
		  const struct sl_key *owner, const struct sl_plan *plan, const char *core);
/* `step`: the next one to do. LIMIT: the store has no room for it. Of a session's own middle `records` is NULL. Of a
 * group's trunk `port` is NULL, and `records` is what its members' codecs keep: bytes that the caller reads and writes.
 * For reading, records->cap is the room; len becomes what was read. */
enum sl_err sl_keep_write(const struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			  const struct sl_buf *records, struct sl_fail *fail) SL_MUST_CHECK;
/* NOINPUT: not kept; DATA, MISMATCH, IO: kept, but damaged, of another plan, or the disk does not give it. On failure
 * nothing of exec and port has changed, unless the device failed. */
enum sl_err sl_keep_read(struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			 struct sl_buf *records, struct sl_fail *fail) SL_MUST_CHECK;
/* What the newest file says of members that have left, and its step. False: there is none, or it says nothing. */
bool sl_keep_who_left(const struct sl_keep *k, uint64_t *step, char left[SL_KEEP_LEFT]);
/* The same of the file of `step`. */
bool sl_keep_who_left_at(const struct sl_keep *k, uint64_t step, char left[SL_KEEP_LEFT]);
int64_t sl_keep_file_bytes(const struct sl_keep *k, uint64_t step); /* 0: no file */
/* As sl_checkpoint_leave: what the session left behind when it went back to `step`. */
void sl_keep_leave(const struct sl_keep *k, uint64_t step);
/* The state of `step` stays, the others go; UINT64_MAX: all of them. */
void sl_keep_only(const struct sl_keep *k, uint64_t step);

#endif
