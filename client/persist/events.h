/* Events for TensorBoard, beside log.jsonl and with its figures: DIR/events.out.tfevents.<time>.<host>.<pid>.splitc,
 * a TFRecord file of Event messages (tensorflow/core/util/event.proto) with scalars, x being the step. What is not
 * known (NaN) is left out.
 *
 *   step   train/loss train/acc train/grad_norm lr wire/tx_bytes wire/rx_bytes time/step_s time/compute_s time/wait_s
 *   epoch  epoch/train_loss epoch/train_acc eval/loss eval/acc eval/NAME epoch/tx_bytes epoch/rx_bytes
 *          epoch/train_s epoch/eval_s epoch/samples_per_s, at the step that ends it; NAME: of each other metric
 *
 * Each process writes a file of its own, whose name sorts behind the older ones, and readers read them in that order. A
 * record that a crash has torn ends only its own file. Steps that are run again replace the earlier ones: a SessionLog
 * START marks the first of them. A reader that ignores it sees steps that are not above those before. One thread per
 * log. */
#ifndef SL_CLIENT_PERSIST_EVENTS_H
#define SL_CLIENT_PERSIST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/persist/jsonl.h"

struct sl_events;

/* anew: the events of an earlier run in `dir` are removed, not those of other programs. A file comes with the first
 * event. NOMEM. */
enum sl_err sl_events_open(struct sl_events **out, const char *dir, bool anew, struct sl_fail *fail) SL_MUST_CHECK;
/* Each writes one record before it returns. CANTCREATE, IO: not written (disk full); nothing of it is left in the file,
 * and the log may be used on. `events` NULL: OK, nothing done. */
enum sl_err sl_events_step(struct sl_events *events, const struct sl_jsonl_step *step) SL_MUST_CHECK;
enum sl_err sl_events_epoch(struct sl_events *events, const struct sl_jsonl_epoch *epoch) SL_MUST_CHECK;
/* From `step`, > 0, on what was written before no longer counts: said before the next event. Also before a run's first
 * one: readers take the first START of all for no more than a beginning. */
void sl_events_start(struct sl_events *events, uint64_t step);
/* What was written is on the disk, or IO. From another thread, too, while the log is open. */
enum sl_err sl_events_sync(struct sl_events *events) SL_MUST_CHECK;
/* fsync and close; IO where the data may not be on the disk. NULL is fine. */
enum sl_err sl_events_close(struct sl_events *events) SL_MUST_CHECK;

#endif
