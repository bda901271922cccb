/* Events for TensorBoard, with the figures of log.jsonl: DIR/events.out.tfevents.<time>.<host>.<pid>.splitc, a TFRecord
 * file of Event messages (tensorflow/core/util/event.proto) with scalars over the step. Values that are not finite are
 * left out.
 *
 *   step   train/loss train/acc train/grad_norm lr wire/tx_bytes wire/rx_bytes time/step_s time/compute_s time/wait_s
 *   epoch  epoch/train_loss epoch/train_acc eval/loss eval/acc eval/NAME epoch/tx_bytes epoch/rx_bytes
 *          epoch/train_s epoch/eval_s epoch/samples_per_s, at the epoch's last step; NAME: each further metric
 *
 * Each process writes a file of its own. Its name sorts behind those of older files, and readers read them in that
 * order. So a record that a crash left incomplete ends only its own file. Steps that are run again replace the earlier
 * ones: a SessionLog START marks the first of them. A reader that ignores it sees the step fall. One thread per log. */
#ifndef SL_CLIENT_PERSIST_EVENTS_H
#define SL_CLIENT_PERSIST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/persist/jsonl.h"

struct sl_events;

/* anew: removes splitc's events of an earlier run in `dir`, but not those of other programs. The file is created with
 * the first event. NOMEM. */
enum sl_err sl_events_open(struct sl_events **out, const char *dir, bool anew, struct sl_fail *fail) SL_MUST_CHECK;
/* Each writes one record before it returns. CANTCREATE, IO: it was not written (disk full). The file keeps no part of
 * it, and the log can still be used. `events` NULL: OK, nothing done. */
enum sl_err sl_events_step(struct sl_events *events, const struct sl_jsonl_step *step) SL_MUST_CHECK;
enum sl_err sl_events_epoch(struct sl_events *events, const struct sl_jsonl_epoch *epoch) SL_MUST_CHECK;
/* Writes a START before the next event: readers then drop earlier events from `step` (> 0) on. Call it before a run's
 * first event too, since readers drop nothing at the first START of all. */
void sl_events_start(struct sl_events *events, uint64_t step);
/* Brings what was written to the disk, or fails with IO. Any thread, while the log is open. */
enum sl_err sl_events_sync(struct sl_events *events) SL_MUST_CHECK;
/* fsync and close; IO: the data may not be on the disk. NULL is fine. */
enum sl_err sl_events_close(struct sl_events *events) SL_MUST_CHECK;

#endif
