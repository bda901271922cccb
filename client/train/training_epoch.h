/* An epoch's figures and its line, for training*.c. Loop thread. */
#ifndef SL_CLIENT_TRAIN_TRAINING_EPOCH_H
#define SL_CLIENT_TRAIN_TRAINING_EPOCH_H

#include "client/train/training_run.h"

/* loss, accuracy of a tally; accuracy NaN: there are no labels to predict, or the loss is NaN, so a
 * row has no largest output. all_epochs: those that the run will have: train.max_steps may end it before train.epochs
 * are over. take_scores: of an evaluation with this loss; a language model's loss is shown as a perplexity, too. */
double sl_run_loss(const struct tally *t);
double sl_run_accuracy(const struct sl_training *r, int64_t correct, int64_t answers, double loss);
double sl_run_accuracy_of(const struct sl_training *r, const struct tally *t);
int sl_run_all_epochs(const struct sl_training *r);
void sl_run_take_scores(const struct sl_training *r, double loss, struct sl_score score[SL_SCORES_MOST]);
void sl_run_log_epoch(struct sl_training *r);

#endif
