/* Noise on what the client sends, from a key that the server lacks. A sample's noise is a function of the key and of
 * what the sample would send without it. So a step that is run again repeats it, in one process or over the link. A
 * sample that sends the same again tells nothing new. Gradients pass the noise as they are. It hinders attackers. It is
 * no guarantee: the deviation follows the sample, and nothing is clipped. */
#ifndef SL_CLIENT_RUN_NOISE_H
#define SL_CLIENT_RUN_NOISE_H

#include "common/codec/codec.h"
#include "common/conf/conf.h"
#include "common/link/key.h"

/* Deviation of the normal noise, as a multiple of a sample's root mean square; 0: none. */
struct sl_noise {
	double head_act, mid_grad;
	struct sl_key key;
};

/* Of the config's keys. Errors of sl_keypair_load, with the key's place in the file. */
enum sl_err sl_noise_read(struct sl_noise *noise, const struct sl_conf_client *conf,
			  struct sl_fail *fail) SL_MUST_CHECK;
static inline double sl_noise_of(const struct sl_noise *noise, enum sl_dir dir)
{
	return !noise ? 0 : dir == SL_DIR_HEAD_ACT ? noise->head_act : dir == SL_DIR_MID_GRAD ? noise->mid_grad : 0;
}
/* x with noise of `dir` to `to`, which may be x itself. A sample is a row of x; where x has a row for each token it is
 * all of a text's tokens. `word`: as many as x has floats, and one. */
void sl_noise_add(const struct sl_noise *noise, enum sl_dir dir, const struct sl_dims *dims, const struct sl_tensor *x,
		  float *to, uint32_t *word);

#endif
