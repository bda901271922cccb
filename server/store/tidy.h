/* The store's housekeeping: what is removed, so that the store keeps within its limits. Files that nobody has used for
 * longer than their time go; beyond a limit those of whoever has the most: weights first, which clients upload again,
 * then the states of sessions, each the oldest first. Never those of live sessions. Used: written, or read to go on
 * from.
 *
 * Owner: the key whose fingerprint a file's name carries. Files without one belong to all clients without a key
 * together: they cannot be told apart, and a server without keys listens on loopback alone. */
#ifndef SL_SERVER_STORE_TIDY_H
#define SL_SERVER_STORE_TIDY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/diskspace.h"
#include "common/base/err.h"
#include "common/link/key.h"

enum { SL_TIDY_NAME = 128 };

/* A session that is live, by the place that it has on the server. */
struct sl_tidy_live {
	_Atomic uint64_t id[2];
	_Atomic bool on;
};

/* A file that is being written. Its writer's, listed between begin and end. */
struct sl_tidy_write {
	char name[SL_TIDY_NAME]; /* the one that it will have; until then ".tmp" follows it */
	int64_t bytes;           /* that it will have */
	struct sl_tidy_write *next;
};

struct sl_tidy {
	const char *dir;       /* the store; "": there is nothing to do */
	int64_t ttl_s;         /* 0: for ever */
	int64_t bytes;         /* 0: no limit */
	int64_t bytes_per_key; /* 0: no limit; of each owner that has a key */
	struct sl_tidy_live *live;
	int n_live;                    /* places */
	struct sl_tidy_write *writing; /* by jobs of the worker, of which one runs at a time */
	_Atomic int64_t not_stored;    /* writes for which no room could be made */
};

/* A session is live in this place from here on, and no other; or none is. One thread at a time, while others look. */
void sl_tidy_join(struct sl_tidy *tidy, int place, const uint8_t session[16]);
void sl_tidy_leave(struct sl_tidy *tidy, int place);

/* What is written in pieces is safe from others that come between these, and its bytes count as if all were there.
 * Begin: BUSY where a file of this name is being written already; LIMIT, IO as of sl_tidy_make_room, which it asks.
 * `name`: in the folder. End: once the file has its name, or is given up; for one that did not begin it does nothing.
 * Both on the thread that writes the store. */
enum sl_err sl_tidy_begin(struct sl_tidy *tidy, struct sl_tidy_write *write, const char *name,
			  const struct sl_key *owner, const char *keep, int64_t bytes,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_tidy_end(struct sl_tidy *tidy, struct sl_tidy_write *write);

struct sl_tidy_result {
	int64_t files, bytes, oldest_s; /* that are left; oldest_s: since the one unused for longest was used */
	int64_t removed;
	struct sl_diskspace space; /* of the disk it lies on, when that is done */
};

/* Now, by a clock that may jump: `opened_s` is what it said `since_s` seconds ago, by one that does not. The earlier of
 * both: a file that is taken for older than it is would be gone. */
int64_t sl_tidy_now(int64_t clock_s, int64_t opened_s, int64_t since_s);
/* Sets limits that are 0 by what the folder holds and its file system has free: half of both together, never less than
 * what the folder holds; of one key half of `bytes`, never less than one has. Where the file system does not say, there
 * is no limit. */
void sl_tidy_set_limits(struct sl_tidy *tidy);
/* Blocks on the disk. A file that cannot be removed is logged, and counted as left. */
struct sl_tidy_result sl_tidy_run(const struct sl_tidy *tidy, int64_t now_s);
/* Makes room before `bytes` more are written for `owner` (NULL: no key). First it removes the owner's own files, those
 * unused for longest first. Then it removes files of the owner that has the most, while that is more than `owner` will
 * have. Files of live sessions stay, and those whose name begins with `keep` (NULL: none). LIMIT: there is no room, and
 * nothing was removed. Blocks on the disk; on the thread that writes the store. */
enum sl_err sl_tidy_make_room(struct sl_tidy *tidy, const struct sl_key *owner, const char *keep, int64_t bytes,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
