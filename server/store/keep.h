/* The server's checkpoints of a session's middle, or of a group's trunk, in the store. Files are named by the session
 * and, with auth, its owner's key; so a client with another key does not find them. On the device's worker. */
#ifndef SL_SERVER_STORE_KEEP_H
#define SL_SERVER_STORE_KEEP_H

#include "common/link/key.h"
#include "common/session/port.h"
#include "common/session/state.h"
#include "server/store/retention.h"

enum { SL_KEEP_SEATS = 256 + 1 }; /* a text with a character for each member (SL_NOTE_…, trunk_records.h) */

struct sl_keep {
	const char *dir; /* the store; "": nothing is stored */
	struct sl_retention *retention;
	bool owned;
	struct sl_key owner;
	char prefix[64]; /* "session-<uuid>", or "session-<uuid>.<fingerprint>" */
	const struct sl_plan *plan;
	const char *core; /* backend and device, which the bits depend on, as the backend describes them */
	uint64_t pin[SL_CHECKPOINT_MAX_PINS]; /* steps whose files stay, since clients may need them */
	int n_pin;
	uint64_t made;     /* epoch of the link whose COMMIT made the state that is written, or was read; 0: none did */
	uint64_t asked[2]; /* of a group: as in struct sl_records */
	uint64_t run;      /* of a group: random number that names its run from its first step on; 0: not known */
	char left[SL_KEEP_SEATS]; /* of a group: the next file's note on members that are done or away; "": none */
};

/* `retention`: the store's limits, borrowed; NULL: none. `session`: the session's name. `owner` NULL: no auth. */
void sl_keep_open(struct sl_keep *k, const char *dir, struct sl_retention *retention, const uint8_t session[16],
		  const struct sl_key *owner, const struct sl_plan *plan, const char *core);
/* Both store and load the state before `step`. For a session's own middle `records` is NULL. For a group's trunk `port`
 * is NULL, and `records` holds what its members' codecs keep, as bytes that only the caller understands. sl_keep_read
 * fills records->cap bytes at most, and sets len. sl_keep_write: LIMIT, the store has no room for the file. */
enum sl_err sl_keep_write(const struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			  const struct sl_buf *records, struct sl_fail *fail) SL_MUST_CHECK;
/* NOINPUT: there is no file; DATA: it is damaged; MISMATCH: it is of another plan; IO: it could not be read. After a
 * failure exec and port are as before, unless the device failed. */
enum sl_err sl_keep_read(struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			 struct sl_buf *records, struct sl_fail *fail) SL_MUST_CHECK;
/* Head and tail of the state before `step`, of a group's members, in a file of their own: they arrive later than the
 * middle. Only a checkpoint that has both is complete. branch: of the group's states, in which they were given.
 * read: sets buf->len; DATA: there are not buf->cap bytes; other errors as above. */
enum sl_err sl_keep_write_ends(const struct sl_keep *k, uint64_t step, uint64_t branch, struct sl_bytes ends,
			       struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_keep_read_ends(const struct sl_keep *k, uint64_t step, uint64_t *branch, struct sl_buf *buf,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the note on members that are done or away from the newest file, and the step of that file. False: there is no
 * file, or it has no such note. */
bool sl_keep_read_seats(const struct sl_keep *k, uint64_t *step, char left[SL_KEEP_SEATS]);
int64_t sl_keep_file_bytes(const struct sl_keep *k, uint64_t step); /* 0: no file */
/* Whether the store has files of this session by another key, or by none. */
bool sl_keep_of_other_key(const struct sl_keep *k);
/* Removes the files of steps above `step`, to which the session went back (sl_checkpoint_leave). */
void sl_keep_remove_later(const struct sl_keep *k, uint64_t step);
/* Removes all files except that of `step`; UINT64_MAX: all. */
void sl_keep_only(const struct sl_keep *k, uint64_t step);

#endif
