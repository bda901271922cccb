/* Checkpoint files of one side: everything a step changes there, as safetensors `DIR/PREFIX-<step>.safetensors`, step
 * being the next one to do. Written whole or not at all (temporary file, fsync, rename, fsync of the folder); the two
 * newest are kept. What is read is checked: plan, BLAS core, names and lengths; a damaged file is as good as none. */
#ifndef SL_SESSION_CHECKPOINT_H
#define SL_SESSION_CHECKPOINT_H

#include "common/base/err.h"
#include "common/nn/safetensors.h"

enum { SL_CHECKPOINT_KEPT = 2, SL_CHECKPOINT_MAX_PARTS = 16, SL_CHECKPOINT_MAX_NOTES = 16, SL_CHECKPOINT_NOTE = 192 };

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
};

struct sl_checkpoint {
	const char *dir, *prefix;
	struct sl_checkpoint_part part[SL_CHECKPOINT_MAX_PARTS];
	int n_part;
	struct sl_checkpoint_note note[SL_CHECKPOINT_MAX_NOTES];
	int n_note;
};

void sl_checkpoint_floats(struct sl_checkpoint *c, const char *name, float *data, int64_t count);
void sl_checkpoint_bytes(struct sl_checkpoint *c, const char *name, uint8_t *data, int64_t count);
void sl_checkpoint_note(struct sl_checkpoint *c, const char *key, const char *fmt, ...) SL_PRINTF(3, 4);
const char *sl_checkpoint_noted(const struct sl_checkpoint *c, const char *key); /* NULL: none */

/* Writes all parts and notes, then removes all but the newest SL_CHECKPOINT_KEPT files. */
enum sl_err sl_checkpoint_write(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Fills the parts named in *c and the values of the notes whose keys are in *c. A note that came with a value must
 * have the same one in the file: MISMATCH, both named. NOINPUT: no such file; DATA: damaged. */
enum sl_err sl_checkpoint_read(struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Steps of the files that are there, newest first; returns how many, at most SL_CHECKPOINT_KEPT. */
int sl_checkpoint_list(const char *dir, const char *prefix, uint64_t step[SL_CHECKPOINT_KEPT]);
/* Removes all of them. */
void sl_checkpoint_clear(const char *dir, const char *prefix);

#endif
