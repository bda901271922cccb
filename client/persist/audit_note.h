/* log.dir/audits: what a run's audits have come to, so that one that is owed stays owed in the next process. */
#ifndef SL_CLIENT_PERSIST_AUDIT_NOTE_H
#define SL_CLIENT_PERSIST_AUDIT_NOTE_H

#include "common/conf/conf.h"
#include "common/link/key.h"

#define SL_AUDIT_NOTE "audits"

enum { SL_AUDIT_KNOWN = 8 };

/* The middle's state after `step` steps, as this host has computed it. */
struct sl_audit_known {
	uint64_t step, hash; /* step 0: none, since everybody knows the first state */
};

struct sl_audit_note {
	uint64_t begun, ended; /* of the run */
	uint64_t in_row;       /* begun since the last one that ended, and not ended by the link or the server */
	uint64_t owed;         /* 1: one has begun, and has not ended */
	uint64_t expects;      /* of the owed one: steps before the state whose hash is known; 0: none is */
	uint64_t hash;         /* of that state of the middle */
	struct sl_key secret;  /* of the hashes */
	/* Of checkpoints: a server that goes back to one must have this state. The newest. */
	struct sl_audit_known known[SL_AUDIT_KNOWN];
};

/* Zeros if there is no such file, or log.dir is "". DATA: it is damaged. */
enum sl_err sl_audit_note_read(struct sl_audit_note *note, const struct sl_conf_client *conf,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* A failure is a warning. */
void sl_audit_note_write(const struct sl_audit_note *note, const struct sl_conf_client *conf);

/* Adds a known state, in place of the oldest. */
void sl_audit_note_know(struct sl_audit_note *note, uint64_t step, uint64_t hash);
/* The run has gone back to `step`: forgets states of later steps. Returns whether there were any. */
bool sl_audit_note_back(struct sl_audit_note *note, uint64_t step);
/* The state after `step` steps; NULL: it is not known. */
const struct sl_audit_known *sl_audit_note_find(const struct sl_audit_note *note, uint64_t step);

#endif
