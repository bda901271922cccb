/* The store's housekeeping: removes files so that the store stays within its limits. First go files that were not used
 * (written, or read to go on from) for store_ttl_s. Above a limit of bytes it removes files of the owner with the most:
 * first weights, which clients can upload again, then states of sessions; each least recently used first. Files of live
 * sessions stay.
 *
 * The owner of a file is the key whose fingerprint is in its name. Files without one count as those of one owner: a
 * server without keys cannot tell its clients apart, and listens on loopback only. */
#ifndef SL_SERVER_STORE_RETENTION_H
#define SL_SERVER_STORE_RETENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/diskspace.h"
#include "common/base/err.h"
#include "common/link/key.h"

enum { SL_RETENTION_NAME = 128 };

/* The session that is live in one of the server's places. */
struct sl_retention_live {
	_Atomic uint64_t id[2];
	_Atomic bool on;
};

/* A file that is being written. The writer owns it; it is listed from sl_retention_begin to sl_retention_end. */
struct sl_retention_write {
	char name[SL_RETENTION_NAME]; /* its final name; until it is renamed it has ".tmp" behind that */
	int64_t bytes;                /* its final size */
	struct sl_retention_write *next;
};

struct sl_retention {
	const char *dir;       /* the store; "": there is nothing to do */
	int64_t ttl_s;         /* store_ttl_s; 0: unused files stay */
	_Atomic int64_t bytes; /* most bytes of all files; 0: no limit */
	int64_t bytes_per_key; /* most bytes of each owner that has a key; 0: no limit */
	bool measured, halved; /* `bytes`, `bytes_per_key` are not the config's: they grow with the free space */
	struct sl_retention_live *live;
	int n_live;                         /* places */
	struct sl_retention_write *writing; /* list of writes under way; used by jobs of the worker, one at a time */
	_Atomic int64_t not_stored;         /* writes for which there was no room */
};

/* join: from now on this session, and no other, is live in this place; leave: none is. Only one thread may call these,
 * but other functions may run meanwhile. */
void sl_retention_join(struct sl_retention *retention, int place, const uint8_t session[16]);
void sl_retention_leave(struct sl_retention *retention, int place);

/* Brackets the writing of a file, during which other jobs may run: they leave the file alone, and count it with its
 * final size. begin makes room (errors of sl_retention_make_room); BUSY: a file of this name is being written already.
 * `name`: without the folder. Call end once the file is renamed, or its write has failed; it does nothing if begin has
 * failed. Both on the thread that writes to the store. */
enum sl_err sl_retention_begin(struct sl_retention *retention, struct sl_retention_write *write, const char *name,
			       const struct sl_key *owner, const char *keep, int64_t bytes,
			       struct sl_fail *fail) SL_MUST_CHECK;
void sl_retention_end(struct sl_retention *retention, struct sl_retention_write *write);

struct sl_retention_result {
	int64_t files, bytes, oldest_s; /* what is left; oldest_s: seconds since the least recently used one was used */
	int64_t removed;                /* files that were removed */
	struct sl_diskspace space;      /* of the disk afterwards */
};

/* Begins for a server that starts now, at clock_s, and returns the time from which ages are counted. If files would be
 * too old, though no server has looked at them for store_ttl_s, the clock may have been set: then they count as that
 * much younger, also at later starts, with a warning. Blocks on the disk. */
int64_t sl_retention_opened(const struct sl_retention *retention, int64_t clock_s);
/* The present time for a wall clock that may jump forward. `clock_s`: its time now; `opened_s`: its time `since_s`
 * seconds ago, as counted by a monotonic clock. Returns the earlier of clock_s and opened_s + since_s, since a later
 * one could make files look too old. */
int64_t sl_retention_now(int64_t clock_s, int64_t opened_s, int64_t since_s);
/* Replaces limits that are 0. `bytes`: half of the bytes in the folder and free on its file system together, but no
 * less than there are in the folder. `bytes_per_key`: half of `bytes`, but no less than any key has. If the size of the
 * file system is unknown there is no limit. Later writes measure again, and such limits grow: the disk may have been
 * full when the server started. */
void sl_retention_set_limits(struct sl_retention *retention);
/* Removes files as above; now_s: from sl_retention_now. Blocks on the disk. A file that cannot be removed is logged,
 * and counted as left. */
struct sl_retention_result sl_retention_run(const struct sl_retention *retention, int64_t now_s);
/* Makes room before `bytes` more are written for `owner` (NULL: no key). First it removes the owner's own files, in the
 * order above. Then it removes files of the owner that has the most, as long as that is more than `owner` will have.
 * Files of live sessions stay, and so do those whose name begins with `keep` (NULL: none). LIMIT: there is no room, and
 * nothing was removed; IO. Blocks on the disk; on the thread that writes to the store. */
enum sl_err sl_retention_make_room(struct sl_retention *retention, const struct sl_key *owner, const char *keep,
				   int64_t bytes, struct sl_fail *fail) SL_MUST_CHECK;

#endif
