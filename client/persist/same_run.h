/* What a checkpoint says of the config's keys that steps depend on and that may change between two processes of one
 * run: data, length and learning rate. Model, cut, codecs, optimizer and batch may not (sl_checkpoint_plan). */
#ifndef SL_CLIENT_PERSIST_SAME_RUN_H
#define SL_CLIENT_PERSIST_SAME_RUN_H

#include "common/conf/conf.h"
#include "common/session/checkpoint.h"

/* Keys with their values, for a note. Two of the same settings are the same text; where it is cut off, the end of
 * data.train_files is. */
void sl_same_run_note(const struct sl_conf_client *conf, char out[SL_CHECKPOINT_NOTE]);

enum { SL_SAME_RUN_TEXT = 512 };

/* True where the settings differ from those in `then`, a note of sl_same_run_note; `out` is then "KEY was A, is B; …".
 * A key that the note lacks, as in older files, counts as unchanged. */
bool sl_same_run_changed(const struct sl_conf_client *conf, const char *then, char out[SL_SAME_RUN_TEXT]);

#endif
