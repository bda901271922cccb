/* Checkpoint files of one side: everything a step changes there, as safetensors `DIR/PREFIX-<step>.safetensors`, step
 * being the next one to do. Written whole or not at all (base/newfile.h); the newest two are kept, and those that are
 * pinned. What is read is checked: notes, names, lengths, and a hash over all of it; a damaged file is as good as none.
 */
#ifndef SL_SESSION_CHECKPOINT_H
#define SL_SESSION_CHECKPOINT_H

#include "common/base/err.h"
#include "common/exec/plan.h"
#include "common/weights/safetensors.h"

enum {
	SL_CHECKPOINT_KEPT = 2,
	SL_CHECKPOINT_MAX_PINS = 64,
	SL_CHECKPOINT_MAX_PARTS = 20,
	SL_CHECKPOINT_MAX_NOTES = 24,
	SL_CHECKPOINT_NOTE = 2048,
	SL_CHECKPOINT_WHY = 128
};

#define SL_CHECKPOINT_CLIENT "checkpoint" /* the client's prefix, in log.dir */
#define SL_CHECKPOINT_DONE   "finished"   /* there, too: the last state of a run that is done */

/* A named range of memory: floats, or bytes. */
struct sl_checkpoint_part {
	const char *name;
	bool floats;
	void *data;
	int64_t count; /* of floats, or bytes; for bytes on reading: the room, then what was read */
};

struct sl_checkpoint_note {
	const char *key;
	char value[SL_CHECKPOINT_NOTE];
	bool may_lack;
};

struct sl_checkpoint {
	const char *dir, *prefix;
	struct sl_checkpoint_part part[SL_CHECKPOINT_MAX_PARTS];
	int n_part;
	struct sl_checkpoint_note note[SL_CHECKPOINT_MAX_NOTES];
	int n_note;
	uint64_t pin[SL_CHECKPOINT_MAX_PINS]; /* steps whose files a write leaves, because the other side counts on them
					       */
	int n_pin;
	const char
		*agreement; /* the part "agreement", of which reading says in what it differs; borrowed; NULL: none */
	uint64_t border; /* the step whose file may be of another plan, as long as its parameters lie alike; 0: none */
	bool too_many;   /* a part or note that had no room was left out: neither written nor read */
};

/* One more than there is room for: none of *c is written or read any more, but BUG. */
void sl_checkpoint_floats(struct sl_checkpoint *c, const char *name, float *data, int64_t count);
void sl_checkpoint_bytes(struct sl_checkpoint *c, const char *name, uint8_t *data, int64_t count);
void sl_checkpoint_note(struct sl_checkpoint *c, const char *key, const char *fmt, ...) SL_PRINTF(3, 4);
/* For reading: one that files may lack, and is "" then. */
void sl_checkpoint_ask(struct sl_checkpoint *c, const char *key);
/* What must be equal on reading, in words before it is in a hash: model, cut, plan, and the agreement. `plan` is
 * borrowed. */
void sl_checkpoint_plan(struct sl_checkpoint *c, const struct sl_plan *plan);
const char *sl_checkpoint_noted(const struct sl_checkpoint *c, const char *key); /* NULL: none */

/* The value of the note "link": the epoch of the link whose COMMIT made this state. False: it is none. */
bool sl_checkpoint_link(const struct sl_checkpoint *c, uint64_t *epoch);

/* Writes all parts and notes. Then removes what is of no more use: files of later steps (the run went back behind
 * them), of earlier ones but the newest SL_CHECKPOINT_KEPT - 1, and .tmp files that a killed process left; never a
 * pinned one. */
enum sl_err sl_checkpoint_write(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Removes files of steps above `step`: the run goes on from there, and comes by their steps again, maybe with other
 * settings; for good, as below. UINT64_MAX: none. */
void sl_checkpoint_leave(const char *dir, const char *prefix, uint64_t step);
/* Fills the parts named in *c and the values of the notes whose keys are in *c. A note that came with a value must
 * have the same one in the file: MISMATCH, both named; of c->border's step model, plan and agreement may differ.
 * NOINPUT: no such file; DATA: damaged; IO. Without parts, a check of the whole file. */
enum sl_err sl_checkpoint_read(struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Of a file in its folder. */
void sl_checkpoint_name(char *out, size_t size, const char *prefix, uint64_t step);
/* The file is in use: whoever removes files by their age sees it as new. */
void sl_checkpoint_touch(const struct sl_checkpoint *c, uint64_t step);
/* *step becomes that of the newest file that is there of a step below it (UINT64_MAX: of all); false: there is none. */
bool sl_checkpoint_older(const char *dir, const char *prefix, uint64_t *step);
/* How one side's checkpoints stand, for a status. */
struct sl_checkpoint_state {
	uint64_t good;               /* the newest one on the disk; 0: none yet */
	uint64_t missed;             /* the one that should have come behind it; 0: none */
	char why[SL_CHECKPOINT_WHY]; /* why `missed` did not come, without folders; "" */
};
void sl_checkpoint_good(struct sl_checkpoint_state *s, uint64_t step);
void sl_checkpoint_missed(struct sl_checkpoint_state *s, uint64_t step, const struct sl_fail *why);

/* Removes all of them, .tmp included, for good: not even a power cut brings them back. */
void sl_checkpoint_clear(const char *dir, const char *prefix);
/* The same, but for the file of `step`. */
void sl_checkpoint_only(const char *dir, const char *prefix, uint64_t step);
/* The file of `step` is one of another prefix from now on. IO: it is not, and nothing has changed. */
enum sl_err sl_checkpoint_rename(const char *dir, const char *prefix, const char *other, uint64_t step,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
