/* Checkpoint files of one side. A file holds everything that a step changes there, as safetensors
 * `DIR/PREFIX-<step>.safetensors`; <step> is the next step to do. It appears whole or not at all (base/newfile.h). The
 * newest two are kept, and those that are pinned. Reading checks notes, names, lengths, and a hash over the whole file;
 * a damaged file counts as missing. */
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
#define SL_CHECKPOINT_DONE   "finished"   /* also in log.dir: the prefix of the last state of a run that is done */

/* A named range of memory: floats, or bytes. */
struct sl_checkpoint_part {
	const char *name;
	bool floats;
	void *data;
	int64_t count; /* floats, or bytes; when bytes are read: room, then how many were read */
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
	uint64_t pin[SL_CHECKPOINT_MAX_PINS]; /* steps whose files a write keeps, as the other side may need them */
	int n_pin;
	const char *agreement; /* the part "agreement"; reading names the key that differs; borrowed; NULL: none */
	uint64_t border;       /* this step's file may be of another plan with the same layout of parameters; 0: none */
	bool too_many;         /* a part or note did not fit: nothing is written or read */
};

/* These add a part or note. If there is no room, sl_checkpoint_write and _read return BUG. */
void sl_checkpoint_floats(struct sl_checkpoint *c, const char *name, float *data, int64_t count);
void sl_checkpoint_bytes(struct sl_checkpoint *c, const char *name, uint8_t *data, int64_t count);
void sl_checkpoint_note(struct sl_checkpoint *c, const char *key, const char *fmt, ...) SL_PRINTF(3, 4);
/* For reading: adds a note that files may lack; its value is then "". */
void sl_checkpoint_ask(struct sl_checkpoint *c, const char *key);
/* Adds what must be equal on reading: model, cut, frozen parameters, plan, layout, and the agreement. Texts come before
 * hashes, so that a refusal can say in words what differs. `plan` is borrowed. */
void sl_checkpoint_plan(struct sl_checkpoint *c, const struct sl_plan *plan);
const char *sl_checkpoint_noted(const struct sl_checkpoint *c, const char *key); /* NULL: no such note */

/* The value of the note "link": the epoch of the link whose COMMIT made this state. False: there is no such number. */
bool sl_checkpoint_link(const struct sl_checkpoint *c, uint64_t *epoch);

/* Writes all parts and notes. Then removes .tmp files of a killed process, and checkpoints that are not pinned. These
 * are the ones of later steps, since the run went back behind them, and all earlier ones except the newest
 * SL_CHECKPOINT_KEPT - 1. */
enum sl_err sl_checkpoint_write(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Removes files of steps above `step`, durably (see sl_checkpoint_clear): the run goes on from `step` and does these
 * steps again, maybe with other settings. UINT64_MAX: removes none. */
void sl_checkpoint_leave(const char *dir, const char *prefix, uint64_t step);
/* Fills the parts named in *c and the values of the notes whose keys are in *c. A note with a value must have the same
 * one in the file: else MISMATCH, which names both. For step c->border, model, plan and agreement may differ. NOINPUT:
 * no such file; DATA: damaged; IO. Without parts it only checks the whole file. */
enum sl_err sl_checkpoint_read(struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* The name of a file, without its folder. */
void sl_checkpoint_name(char *out, size_t size, const char *prefix, uint64_t step);
/* Sets the file's time to now, so that removal by age sees it as new. */
void sl_checkpoint_touch(const struct sl_checkpoint *c, uint64_t step);
/* Sets *step to the newest step below *step that has a file (UINT64_MAX: the newest of all). False: there is none. */
bool sl_checkpoint_older(const char *dir, const char *prefix, uint64_t *step);
/* The state of one side's checkpoints, for its status. */
struct sl_checkpoint_state {
	uint64_t good;               /* step of the newest one on the disk; 0: none yet */
	uint64_t missed;             /* step of a later one that could not be written; 0: none */
	char why[SL_CHECKPOINT_WHY]; /* why not, without folders; "" */
};
void sl_checkpoint_good(struct sl_checkpoint_state *s, uint64_t step);
void sl_checkpoint_missed(struct sl_checkpoint_state *s, uint64_t step, const struct sl_fail *why);

/* Removes all files of the prefix, .tmp included, and syncs the folder, so that a power cut cannot bring them back. */
void sl_checkpoint_clear(const char *dir, const char *prefix);
/* The same, except for the file of `step`. */
void sl_checkpoint_only(const char *dir, const char *prefix, uint64_t step);
/* Renames the file of `step` to the prefix `other`. IO: that failed. */
enum sl_err sl_checkpoint_rename(const char *dir, const char *prefix, const char *other, uint64_t step,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
