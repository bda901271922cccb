/* splitc align: finds the rows that both members of a vertical group have, and writes them to data.aligned. The server
 * between them learns no more than how many letters there are (align_talk.h, link/seal.h). */
#ifndef SL_CLIENT_ALIGN_ALIGN_H
#define SL_CLIENT_ALIGN_ALIGN_H

#include "client/setup/setup.h"

struct sl_align_report {
	int64_t rows[SL_SPLIT_COUNT], common[SL_SPLIT_COUNT]; /* of this member, and of both */
	int64_t other; /* what the other member counts: its rows, or with align.pad more */
	int lists;     /* 1: data.split divides them */
	double seconds;
};

/* `conf` has data.id, data.aligned, share.peers and auth. The file is replaced when the result is complete. A lost
 * member or server ends both. DATA: no row is common, or names are not distinct; errors of letters.h and align_talk.h.
 */
enum sl_err sl_align(const struct sl_conf_client *conf, struct sl_align_report *report,
		     struct sl_fail *fail) SL_MUST_CHECK;

#endif
