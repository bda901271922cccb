/* A note of a checkpoint with config keys that steps depend on, but that may change between two processes of a run:
 * data, length and learning rate. Model, cut, codecs, optimizer and batch may not change (sl_checkpoint_plan). Nor may
 * train.label_smoothing, train.freeze and train.groups: they are here so that a refusal can name them. */
#ifndef SL_CLIENT_PERSIST_SAME_RUN_H
#define SL_CLIENT_PERSIST_SAME_RUN_H

#include "common/conf/conf.h"
#include "common/session/checkpoint.h"

/* Writes the note: keys with their values. Equal settings give equal texts. A text that is too long is cut off; then
 * the end of data.train_files is missing. */
void sl_same_run_note(const struct sl_conf_client *conf, char out[SL_CHECKPOINT_NOTE]);

#define SL_SAME_RUN "settings" /* the note's key */
enum { SL_SAME_RUN_TEXT = 512 };

/* True if the settings differ from those in `then`, a note of sl_same_run_note; `out` then says "KEY was A, is B; …". A
 * key that the note lacks, as in files of older versions, counts as unchanged. */
bool sl_same_run_changed(const struct sl_conf_client *conf, const char *then, char out[SL_SAME_RUN_TEXT]);

#endif
