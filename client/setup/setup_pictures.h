/* The part of a setup that is about pictures (setup.h). Loop thread. */
#ifndef SL_CLIENT_SETUP_SETUP_PICTURES_H
#define SL_CLIENT_SETUP_SETUP_PICTURES_H

#include "client/setup/setup.h"

/* Whether samples are files of pictures. */
bool sl_setup_decodes(const struct sl_conf_client *conf);
/* Channels of the network's images; 3 while no network is known. */
int sl_setup_network_channels(const struct sl_setup *s);
/* How pictures are decoded. Where data.channels is not given, the network or its file says how many there are. */
struct sl_picture_spec sl_setup_pictures(const struct sl_setup *s);
/* The steps of data.transforms or data.test_transforms. If that list is empty, the default steps, with Grayscale and
 * Normalize of the other list. */
void sl_setup_steps(struct sl_conf_list *out, const struct sl_conf_client *conf, enum sl_split split);
/* The mean and deviation of each channel by which an evaluation's pictures are scaled. */
enum sl_err sl_setup_norm(const struct sl_setup *s, float mean[3], float std[3], struct sl_fail *fail) SL_MUST_CHECK;
/* Once the sets are open: opens s->augment for CIFAR's own augmentation, else s->transform. */
enum sl_err sl_setup_prepare(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;

#endif
