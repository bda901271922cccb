/* The store's housekeeping: files that nobody has used for longer than their time, and the oldest of those beyond the
 * budget, are removed. Never those of live sessions. Used: written, or read to go on from. */
#ifndef SL_SERVER_TIDY_H
#define SL_SERVER_TIDY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

struct sl_tidy {
	const char *dir; /* the store; "": there is nothing to do */
	int64_t ttl_s;   /* 0: for ever */
	int64_t bytes;   /* 0: no limit */
	/* Ids of live sessions, as their files have them in their names: room for max_live. Looked at before every
	 * removal, so that sessions may join meanwhile. More than there is room for: all sessions count as live. */
	char (*live)[SL_HEX16_TEXT];
	int max_live;
	_Atomic int n_live;
};

/* A session that is live from here on. One thread at a time; sl_tidy_run may be under way on another. */
void sl_tidy_join(struct sl_tidy *tidy, const char id[SL_HEX16_TEXT]);

struct sl_tidy_result {
	int64_t files, bytes, oldest_s; /* that are left; oldest_s: since the one unused for longest was used */
	int64_t removed, removed_bytes;
};

/* Now, by a clock that may jump: `opened_s` is what it said `since_s` seconds ago, by one that does not. The earlier of
 * both: a file that is taken for older than it is would be gone. */
int64_t sl_tidy_now(int64_t clock_s, int64_t opened_s, int64_t since_s);
/* Blocks on the disk. A file that cannot be removed is logged, and counted as left. */
struct sl_tidy_result sl_tidy_run(const struct sl_tidy *tidy, int64_t now_s);

#endif
